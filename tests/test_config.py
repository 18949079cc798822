"""Configs: every file loads, every mistake is named."""

import math
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path

import pytest
import yaml

from stapo_bench.errors import UsageError
from stapo_bench.runs import flatten
from stapo_bench.tasks import tool
from stapo_train.config import differences, load_config, parse_config
from stapo_train.objective import Objective, keep, keep_all
from stapo_train.objectives import BUILT_IN, REGISTRY, for_run
from stapo_train.origins import origin_of
from stapo_train.recipe import FREE, RECIPE, WORDS, describe_deviations, deviations
from stapo_train.training_log import describe

CONFIGS = Path(__file__).parent.parent / "train" / "configs"
RUNS = [p for p in sorted(CONFIGS.rglob("*.yaml")) if not p.name.startswith("_") and p.name != "base.yaml"]


@pytest.mark.parametrize("path", RUNS, ids=lambda p: str(p.relative_to(CONFIGS)))
def test_every_file_loads(path):
    config = load_config(path)
    assert config.objective["name"] in path.stem
    assert parse_config(config.nested(), "again") == config  # what a run folder stores is the config


def test_the_tiny_methods_differ_in_nothing_but_the_objective():
    flat = [load_config(CONFIGS / "tiny" / f"{m}.yaml").nested() for m in ("grpo", "20-entropy", "justrl", "stapo")]
    for other in flat[1:]:
        assert [d.split(":")[0] for d in differences(flat[0], other)] == ["objective.name"]


def values(**changes):
    plain = {
        "out": "o", "model": "m", "iterations": 1,
        "data": {"source": "tiny", "count": 8, "question": "q"},
        "rollout": {"prompts": 4, "max_new_tokens": 8},
        "objective": {"name": "stapo"},
        "optim": {"lr": "1e-6"},
    }  # fmt: skip
    return {**plain, **changes}


def rollout(**changes):
    return {"rollout": {"prompts": 4, "max_new_tokens": 8, **changes}}


def test_a_number_without_a_dot_is_a_number():
    assert parse_config(values(), "x").optim.lr == 1e-6  # YAML reads 1e-6 as text


def test_a_number_without_a_dot_is_one_for_the_objective_too():
    config = parse_config(values(objective={"name": "stapo", "tau_p": "2e-3", "dual_clip": None}), "x")
    objective = for_run(config.objective, seed=0, max_new_tokens=8)
    assert (objective.tau_p, objective.dual_clip) == (0.002, None)
    assert config.digest() == parse_config(config.nested(), "x").digest()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iteration": 3}, "x: unknown key 'iteration': did you mean 'iterations'?"),
        ({"optim": {"lr": 1e-6, "weight_deca": 0.1}}, "x: optim: unknown key 'weight_deca': did you mean 'weight_d"),
        ({"optim": {"lr": "fast"}}, "x: optim: lr: expected float, got 'fast'"),
        ({"optim": {}}, "x: optim: lr: expected a value, got none"),
        ({"optim": {"lr": 1e-6, "betas": [0.9]}}, "x: optim: betas: expected a list of 2, got [0.9]"),
        ({"lora": True}, "x: lora: expected a section of keys and values or null, got True"),
        ({"lora": {"rank": 1, "alpha": 1, "targets": ["a", "a"]}}, "x: lora: targets: expected each layer once, got"),
        ({"checkpoint": {"keep": "all"}}, "x: checkpoint: keep: expected int or null, got 'all'"),
        ({"iterations": "many"}, "x: iterations: expected int, got 'many'"),
        ({"iterations": True}, "x: iterations: expected int, got True"),
        ({"data": 3}, "x: data: expected a section of keys and values, got 3"),
        ({"data": {"source": "csv", "question": "q"}}, "expected one of tiny, products, kk, kk-brief, jsonl, hub"),
        ({"data": {"source": "jsonl", "question": "q"}}, "data.path: expected what data.source=jsonl reads"),
        ({"rollout": {"prompts": 6, "max_new_tokens": 8}}, "multiple of update.mini_batches = 4, got 6"),
        ({"attention": "torch_varlen"}, "attention: torch_varlen takes whole rows"),
        ({"objective": {}}, "objective.name: expected the name of an objective"),
        ({"objective": {"name": 3}}, "objective.name: expected the name of an objective, got 3"),
        ({"objective": {"name": "stapo", 5: 1}}, "x: unknown setting of objective stapo '5'"),
        ({"objective": {"name": "stapo", "q": 75}}, "x: objective stapo: q: expected at least 0 and at most 1, got 75"),
        ({"objective": {"name": "stapo", "q": ".nan"}}, "x: objective stapo: q: expected float, got '.nan'"),
        ({"objective": {"name": "stapo", "tau_p": "small"}}, "x: objective stapo: tau_p: expected float, got 'small'"),
        ({"objective": {"name": "stapo", "dual_clip": 0.5}}, "objective stapo: dual_clip: expected above 1, got 0.5"),
        ({"objective": {"name": "grpo", "clip_low": -0.2}}, "objective grpo: clip_low: expected at least 0, got -0.2"),
        ({"objective": {"name": "20-entropy", "denominator": "al"}}, "denominator: expected one of kept, all, got al"),
        ({"objective": {"name": "20-entropy", "share": 20}}, "share: expected at least 0 and at most 1, got 20.0"),
        ({"iterations": 0}, "x: iterations: expected at least 1, got 0"),
        ({"update": {"mini_batches": 0}}, "x: update: mini_batches: expected at least 1, got 0"),
        ({"update": {"micro_batch_tokens": 0}}, "x: update: micro_batch_tokens: expected at least 1, got 0"),
        ({"update": {"max_skipped_in_row": 0}}, "x: update: max_skipped_in_row: expected at least 1, got 0"),
        ({"update": {"importance_cap": 0.0}}, "x: update: importance_cap: expected above 0, got 0.0"),
        ({"checkpoint": {"every": 0}}, "x: checkpoint: every: expected at least 1, got 0"),
        ({"checkpoint": {"keep_every": 40}}, "x: checkpoint: keep_every: expected with checkpoint.keep alone, got it"),
        ({"checkpoint": {"keep": 1, "keep_every": 30}}, "keep_every: expected a multiple of checkpoint.every = 20"),
        ({"reward": {"overlong_buffer": 0}}, "x: reward: overlong_buffer: expected at least 1, got 0"),
        ({"reward": {"workers": 0}}, "x: reward: workers: expected at least 1, got 0"),
        ({"rollout": {"prompts": 0, "max_new_tokens": 8}}, "x: rollout: prompts: expected at least 1, got 0"),
        ({"rollout": {"prompts": 4, "max_new_tokens": 0}}, "x: rollout: max_new_tokens: expected at least 1, got 0"),
        (rollout(group_size=1), "x: rollout: group_size: expected at least 2, got 1: an advantage compares rollouts"),
        (rollout(max_rounds=0), "x: rollout: max_rounds: expected at least 1, got 0"),
        (rollout(temperature=0), "x: rollout: temperature: expected above 0, got 0.0"),
        (rollout(temperature=math.nan), "x: rollout: temperature: expected above 0, got nan"),
        (rollout(top_p=1.5), "x: rollout: top_p: expected above 0 and at most 1, got 1.5"),
        ({"data": {"source": "tiny", "count": 0, "question": "q"}}, "x: data: count: expected at least 1, got 0"),
        ({"optim": {"lr": -1e-6}}, "x: optim: lr: expected at least 0, got -1e-06"),
        ({"optim": {"lr": 10**400}}, "x: optim: lr: expected float, got 1000"),
        ({"optim": {"lr": 1e-6, "clip_norm": 0}}, "x: optim: clip_norm: expected above 0, got 0.0"),
        ({"optim": {"lr": 1e-6, "betas": [0.9, 1]}}, "optim: betas: expected at least 0 and below 1, got [0.9, 1.0]"),
        ({"objective": {"name": "stapo", "tau": 1}}, "unknown setting of objective stapo 'tau': did you mean 'tau_p'"),
    ],
)  # fmt: skip
def test_mistakes_are_named(changes, message):
    with pytest.raises(UsageError) as error:
        parse_config(values(**changes), "x")
    assert message in str(error.value)


def test_overrides_and_defaults(tmp_path):
    (tmp_path / "_below.yaml").write_text(yaml.safe_dump(values()))
    (tmp_path / "run.yaml").write_text("defaults: _below.yaml\nseed: 5\nobjective:\n  q: 0.5\n")
    config = load_config(tmp_path / "run.yaml", ["objective.tau_p=0.1", "rollout.group_size=2", "out=elsewhere"])
    assert dict(config.objective) == {"name": "stapo", "q": 0.5, "tau_p": 0.1}
    assert (config.seed, config.rollout.group_size, config.out) == (5, 2, "elsewhere")
    for pair, message in [
        ("seed", "expected key=value"),
        ("seed.x=1", "seed is a value, not a section"),
        ("seeds=1", "did you mean 'seed'"),
        (
            "data.question={{problem}}",
            "got an error: found unhashable key; a text with such signs wants quotes",
        ),
        ("data.path=2026-02-30", "expected YAML, got an error: day "),
    ]:
        with pytest.raises(UsageError, match=message) as caught:
            load_config(tmp_path / "run.yaml", [pair])
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="no such file"):
        load_config(tmp_path / "none.yaml")


def test_the_digest_names_the_run_and_not_its_place():
    plain = parse_config(values(), "x")
    assert parse_config(values(out="elsewhere"), "x").digest() == plain.digest()
    assert parse_config(values(seed=1), "x").digest() != plain.digest()


def test_a_tool_of_another_version_makes_another_run(monkeypatch):
    nested = parse_config(values(), "x").nested()
    nested["rollout"]["tool"] = "calculator"
    run = parse_config(nested, "x")
    before, trained = run.digest(), run.training_digest()
    monkeypatch.setattr(tool, "TOOLS", {"calculator": replace(tool.TOOLS["calculator"], version=9)})
    assert run.digest() != before and run.training_digest() != trained


@pytest.mark.parametrize("path", [p for p in RUNS if p.parent.name == "paper"], ids=lambda p: p.stem)
def test_the_papers_configs_are_the_published_recipe(path):
    config = load_config(path)
    objective = for_run(config.objective, seed=0, max_new_tokens=config.rollout.max_new_tokens)
    assert deviations(config, objective) == []


def test_every_setting_is_the_papers_the_codes_ours_or_left_open():
    names = set(flatten(load_config(CONFIGS / "tiny" / "stapo.yaml").nested()))
    stated = {name for name in names if not name.startswith("objective.")}
    assert stated == set(RECIPE) | set(FREE)
    assert not set(RECIPE) & set(FREE)


def test_the_header_says_what_differs():
    config = load_config(CONFIGS / "tiny" / "stapo.yaml", ["objective.q=0.5"])
    objective = for_run(config.objective, seed=0, max_new_tokens=96)
    found = list(map(str, deviations(config, objective)))
    assert "objective.q 0.5 (0.75: arXiv:2602.15620v5)" in found and "optim.lr 0.0001 (1e-06)" in found
    text = describe(config, objective)
    lines = {line.strip().partition(":")[0]: line for line in text.splitlines()}
    assert all(": " in line for line in text.splitlines())  # a prompt's line breaks are not the header's
    assert "optim.lr" in lines["differs from the paper"] and "data.path" not in lines["differs from the paper"]
    assert "data.question" in lines["differs from code (JustRL's where none is named), where the paper is silent"]
    assert "data.source tiny (hub)" in lines["differs from our choice, where both are silent"]
    assert "tau_p 0.002" in text and "kept tokens of the mini-batch" in text and "candidates" in text


@pytest.mark.parametrize(
    ("name", "setting", "whose", "said"),
    [
        ("stapo", "dual_clip=null", "code", "objective.dual_clip None (10.0: JustRL's script)"),
        ("stapo", "tau_p=0.05", "published", "objective.tau_p 0.05 (0.002: arXiv:2602.15620v5)"),
        ("stapo-old", "q=0.75", "published", "objective.q 0.75 (0.8: arXiv:2602.15620v1)"),
        ("random-mask", "clip_high=0.5", "published", "objective.clip_high 0.5 (0.28: arXiv:2602.15620v5)"),
        ("stare", "dual_clip=null", "code", "objective.dual_clip None (10.0: the authors' script for 7B)"),
        ("lopti", "order=steps", "code", "objective.order steps (passes: the authors' trainer)"),
        ("stapo-micro-batch", "micro_batch_rollouts=4", "ours",
         "objective.micro_batch_rollouts 4 (8: the approximation is ours)"),
    ],
)  # fmt: skip
def test_a_constant_is_held_against_who_states_it_and_nobody_else(name, setting, whose, said):
    config = load_config(CONFIGS / "tiny" / "stapo.yaml", [f"objective.name={name}", f"objective.{setting}"])
    objective = for_run(config.objective, seed=0, max_new_tokens=96)
    by_origin = dict(zip(WORDS, describe_deviations(config, objective), strict=True))
    assert said in by_origin[whose]
    assert [origin for origin, line in by_origin.items() if "objective." in line] == [whose]


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_constant_has_an_origin_in_its_class(name):
    kind = REGISTRY[name]
    constants = {f.name for f in fields(kind) if f.default is not MISSING}
    assert {c: origin_of(kind, c) for c in constants if "does not say" in origin_of(kind, c)[1]} == {}
    named = {each for c in kind.__mro__ for names in c.__dict__.get("origins", {}) for each in names.split()}
    assert named <= constants


def test_the_header_says_of_an_objective_no_more_than_its_class_does():
    config = load_config(CONFIGS / "tiny" / "stapo.yaml")
    said = {}
    for name, members in (
        ("plain", {}),
        ("selects", {"select": lambda self, stats, reduce, phase: keep(stats, stats.advantages > 0, reduce)}),
        ("states", {"select": lambda self, stats, reduce, phase: keep_all(stats, reduce), "silences": "nothing"}),
    ):
        objective = dataclass(frozen=True, kw_only=True)(
            type(name, (Objective,), {"label": name, "source": "none", **members})
        )
        lines = describe(config, objective()).splitlines()
        said[name] = [line.strip().split(";")[0] for line in lines if line.startswith(("  silences", "  divides"))]
    masked = "what its select leaves out: the share that each iteration's line calls masked"
    assert said == {
        "plain": ["silences: nothing", "divides by: all response tokens of the mini-batch"],
        "selects": [f"silences: {masked}", "divides by: the denominator that its select gives"],
        "states": ["silences: nothing", "divides by: the denominator that its select gives"],
    }


def test_eight_files_may_follow_one_another(tmp_path):
    for number in range(9):
        below = {"defaults": f"{number + 1}.yaml"} if number < 8 else {}
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump({**values(), "seed": 100 - number, **below}))
    assert load_config(tmp_path / "0.yaml").seed == 100
    (tmp_path / "8.yaml").write_text("defaults: 9.yaml\n")
    with pytest.raises(UsageError, match=r"8\.yaml: defaults: expected the name of a file, at most 8 in a row"):
        load_config(tmp_path / "0.yaml")


@pytest.mark.parametrize("content", [b"\xff", b"defaults: [a]", b"defaults: run.yaml", b"{" * 3000, b"a: 2001-99-99"])
def test_a_file_that_is_no_config_is_one_line(tmp_path, content):
    (tmp_path / "run.yaml").write_bytes(content)
    with pytest.raises(UsageError, match=r"run\.yaml: ") as caught:
        load_config(tmp_path / "run.yaml")
    assert "\n" not in str(caught.value)
