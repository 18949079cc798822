"""The experiments: a whole one at a toy size, killed and resumed; the order of steps; what is on the page."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stapo_bench.draws import CountedRun
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.over_seeds import compare_over_seeds

HERE = Path(__file__).parent
FOLDER = HERE.parent / "scripts" / "experiments"
sys.path.insert(0, str(FOLDER))

import arithmetic  # noqa: E402
import design  # noqa: E402
import gradients  # noqa: E402
import index  # noqa: E402
import lanes  # noqa: E402
import pages  # noqa: E402
import sections  # noqa: E402
import silenced  # noqa: E402
import steps  # noqa: E402

import results  # noqa: E402

TOY = """
question: Does the machinery work?
seeds: search
num_seeds: 2
variants:
  JustRL: [objective.name=justrl]
  STAPO: [objective.name=stapo, objective.tau_p=0.05]
reference: JustRL
decodings: [training]
dumps: [2]
figures: [entropy]
sections: [ranking, stability, samples, error-bars, flips, spurious, gradients]
overrides: [iterations=2, data.count=40, rollout.prompts=4, rollout.group_size=4, rollout.max_new_tokens=12]
pretrain: [steps=6, hidden_size=32, intermediate_size=48, num_layers=2, examples_per_step=4]
evaluation: {max-new-tokens: 12, samples: 2, limit: 2}
"""


def command(folder):
    (folder / "toy.yaml").write_text(TOY)
    # Relative, as the folders are named in what the runs write.
    arguments = ["toy.yaml", "--out", "out", "--results", "results", "--jobs", "2"]
    return [sys.executable, str(HERE / "experiments_in_forks.py"), *arguments]


def run_toy(folder):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    return subprocess.Popen(command(folder), cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process):
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out.decode()
    return out.decode()


def page_of(folder):
    """What a reader sees, but for the cost and the commit, which may change while a test runs."""
    kept = folder / "results" / "toy"
    found = {p.name: p.read_bytes() for p in kept.iterdir() if p.suffix in (".md", ".csv", ".svg")}
    page = [line for line in found["page.md"].splitlines() if not line.startswith((b"- Cost: ", b"- Code: "))]
    return found | {
        "page.md": page,
        "runs.csv": [line.rsplit(b",", 1)[0] for line in found["runs.csv"].splitlines()],
    }


def test_an_experiment_that_was_killed_twice_gives_the_same_page(tmp_path, monkeypatch):
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    broken.mkdir()
    whole.mkdir()
    for place, number in (("trainings/*/metrics.jsonl", signal.SIGKILL), ("evals/*/samples/*.jsonl", signal.SIGTERM)):
        process = run_toy(broken)
        while not list((broken / "out").glob(place)):
            assert process.poll() is None, process.stdout.read().decode()
            time.sleep(0.01)
        process.send_signal(number)
        process.communicate()
        assert process.returncode not in (0, None)
        assert not (broken / "results").exists()
    assert "of 9 steps are finished" in finish(run_toy(broken))
    assert "0 of 9 steps are finished" in finish(run_toy(whole))
    assert page_of(broken) == page_of(whole)
    assert set(page_of(whole)) == {"page.md", "table.csv", "runs.csv", "entropy.svg"}
    rows = (whole / "results" / "toy" / "runs.csv").read_text().splitlines()
    assert [row.split(",")[1:5] for row in rows[1:]] == [
        [variant, seed, "last", "training"] for seed in ("1", "2") for variant in ("JustRL", "STAPO")
    ]
    written = (whole / "results" / "toy" / "trainings").iterdir()
    assert sorted(p.name.rsplit("-", 2)[0] for p in written) == ["justrl-s1", "justrl-s2", "stapo-s1", "stapo-s2"]
    assert len(list((whole / "out").glob("trainings/*-dumps/dumps/iteration-000002/dump.json"))) == 4
    monkeypatch.chdir(whole)
    assert all(step.is_done() for step in steps.plan(design.load_experiment("toy.yaml"), Path("out")).values())
    about = json.loads((whole / "results" / "toy" / "manifest.json").read_text())
    assert about["commands"] == {"pretrain": 1, "train": 4, "eval": 4, "grade": 0}
    assert all(about["cpu_s"][kind] > 0 for kind in ("pretrain", "train", "eval")) and about["not_run"] == []
    assert [row["starts"] for row in about["code"]] == [9] and about["code"][0]["commit"]
    check_gradients_of(Path("out"))
    check_partial_pages(Path("out"))
    # A search looks at trainings alone: the same ones, and no evaluation.
    search = replace(design.load_experiment("toy.yaml"), name="toy-search", decodings=(), sections=("spurious",))
    text = pages.write_page(search, Path("out"), Path("search")).read_text()
    assert "No rollout with a positive advantage was kept." in text and "avg@k" not in text and "entropy.svg" in text
    assert not (Path("search") / "runs.csv").exists()


def check_gradients_of(out):
    for dump in out.glob("trainings/*/dumps/*"):
        found = gradients.read_gradients(dump)
        assert len(found.prob) == 0 or (found.deviation.max() < 1e-12 and found.outside.max() < 1e-12)


def check_partial_pages(out):
    """What is finished is told, and what is missing is said."""
    toy = design.load_experiment("toy.yaml")
    score = next(out.glob("evals/stapo-s2-*/scores.json"))
    score.rename("hidden.json")  # STAPO has finished seed 1 alone
    text = pages.write_page(toy, out, Path("partial/toy")).read_text()
    assert "**Partial: 1 of 2 seeds are finished.**" in text and "mean of 1 seeds" in text
    assert "Seeds (search): 1." in text
    rest = list(out.glob("evals/stapo-s1-*/scores.json"))
    rest[0].rename("hidden too.json")
    text = pages.write_page(toy, out, Path("partial/toy")).read_text()
    assert "**Partial: not run yet: STAPO.**" in text and "| JustRL | training |" in text
    assert "No differences from JustRL" in text and "STAPO |" not in text
    reference = next(out.glob("evals/justrl-s1-*/scores.json"))
    reference.unlink()
    next(out.glob("evals/justrl-s2-*/scores.json")).unlink()
    with pytest.raises(StapoError, match="toy: expected a seed that every variant"):
        pages.write_page(toy, out, Path("partial/toy"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_can_be_planned(path, tmp_path):
    experiment = design.load_experiment(path.stem)
    if experiment.seeds == "search":  # looks for a regime, and says nothing about methods
        assert path.stem.endswith("-search") and not experiment.decodings
    else:
        assert len(experiment.used_seeds) >= 5
    plan = steps.plan(experiment, tmp_path)
    names = list(plan)
    assert all(names.index(need) < names.index(name) for name, step in plan.items() for need in step.needs)
    trained = sum(bool(own) for own in experiment.variants.values()) * len(experiment.used_seeds)
    assert sum(step.kind == "train" for step in plan.values()) == trained
    first = steps.plan(experiment, tmp_path, num_seeds=1)
    assert list(first) == names[: len(first)] and 1 < len(first) <= len(names)
    # Seed by seed, from trainings to grades: stopped early, it has whole seeds.
    seeds = [int(found[1]) for name in names[1:] if (found := re.search(r"-s(\d+)-", name))]
    assert len(seeds) == len(names) - 1 and seeds == sorted(seeds)
    assert not any(step.is_done() for step in plan.values())
    assert set(experiment.sections) <= set(sections.SECTIONS)


def test_what_is_chosen_by_some_seeds_is_measured_with_others():
    assert not set(design.SEEDS["fresh"]) & set(design.SEEDS["search"])


def test_two_experiments_share_a_training(tmp_path):
    main, controls = (steps.plan(design.load_experiment(name), tmp_path) for name in ("main", "controls"))
    shared = {name.split("-s1")[0] for name in set(main) & set(controls) if main[name].kind == "train"}
    assert shared == {"justrl", "stapo"}
    assert all(main[name].command == controls[name].command for name in set(main) & set(controls))


def test_a_wrong_description_is_refused(tmp_path):
    for wrong, message in (
        (TOY + "colour: red", "unknown colour"),
        (TOY.replace("reference: JustRL", "reference: Just"), "names of variants, got Just"),
        (TOY.replace("seeds: search", "seeds: lucky"), "fresh, search, got lucky"),
    ):
        (tmp_path / "toy.yaml").write_text(wrong)
        with pytest.raises(UsageError, match=message):
            design.load_experiment(str(tmp_path / "toy.yaml"))
    with pytest.raises(UsageError, match="controls, evaluation-questions, main"):
        design.load_experiment("mian")


def step(folder, name, script, needs=()):
    mark = folder / name
    return steps.Step(
        name=name, kind="eval", command=["sh", "-c", script.format(mark)], needs=needs, is_done=mark.exists
    )


def test_steps_run_after_what_they_need_and_only_once(tmp_path):
    plan = [
        step(tmp_path, "a", "touch {}"),
        step(tmp_path, "b", f"test -e {tmp_path}/a && nice >> {tmp_path}/nice && touch {{}}", ("a",)),
        step(tmp_path, "c", f"test -e {tmp_path}/b && touch {{}}", ("b",)),
    ]
    found = {s.name: s for s in plan}
    lanes.run_steps(found, tmp_path, jobs=2)
    lanes.run_steps(found, tmp_path, jobs=2)
    rows = lanes.read_costs(tmp_path)
    assert sorted(row["step"] for row in rows) == ["a", "b", "c"]  # once each
    assert all({"commit", "dirty", "versions"} <= set(row) and "torch 2" in row["versions"] for row in rows)
    assert (tmp_path / "nice").read_text() == "19\n"


def test_the_index_lists_what_was_run_and_what_was_not(tmp_path):
    summary = {
        "question": "Why?\n", "cpu_s": 12345, "answers": ["It is so."], "not_run": ["B"],
        "seeds": {"asked": [1, 2, 3], "finished": [1, 2]},
    }  # fmt: skip
    (tmp_path / "controls").mkdir()
    (tmp_path / "controls" / "summary.json").write_text(json.dumps(summary))
    text = index.write_index(tmp_path).read_text()
    assert "| [controls](controls/page.md) | 2 of 3 | 12,345 | Why? |" in text
    assert "| main | **not run yet** | – | Which objective" in text
    told = "## controls\n\n**Partial: 2 of 3 seeds are finished; not run yet: B.**\n\n- It is so.\n"
    assert told in text and "## main" not in text


def test_a_failure_stops_everything_and_names_the_log(tmp_path):
    plan = [step(tmp_path, "slow", "exec sleep 60  # {}"), step(tmp_path, "bad", "echo no room; exit 3")]
    began = time.monotonic()
    with pytest.raises(StapoError, match=r"bad failed \(exit 3\): no room; all of it: .*bad.log"):
        lanes.run_steps({s.name: s for s in plan}, tmp_path, jobs=2)
    assert time.monotonic() - began < 20
    # Finished without its result is a failure, too.
    with pytest.raises(StapoError, match=r"quiet failed \(exit 0\)"):
        lanes.run_steps({"quiet": step(tmp_path, "quiet", "true")}, tmp_path, jobs=1)


def results_of(rates):
    """Two decodings, five seeds of ten problems; a variant's runs are right ``rate`` of ten times, a little off."""
    scores, runs = {}, {}
    for decoding, by_variant in rates.items():
        runs[decoding] = {
            variant: [
                CountedRun(counts={"t": {f"p{i}": (rate + (i + seed) % 2, 12) for i in range(10)}}) for seed in range(5)
            ]
            for variant, rate in by_variant.items()
        }
        scores[decoding] = {
            variant: [SimpleNamespace(macro=SimpleNamespace(value=rate / 12)) for _ in range(5)]
            for variant, rate in by_variant.items()
        }
    first = next(iter(rates.values()))
    names = list(first)
    return SimpleNamespace(
        experiment=SimpleNamespace(reference=names[0]),
        told=["B"],
        scores=scores,
        comparisons={d: compare_over_seeds(found, [(names[0], n) for n in names[1:]]) for d, found in runs.items()},
        stabilities=lambda: {"A": [0.5, 0.6, 0.7], "B": [0.6, 0.7, 0.9]},
        late_rewards=lambda: {"A": [0.80, 0.81, 0.82], "B": [0.82, 0.83, 0.85]},
    )


def test_the_ranking_names_those_that_change_places():
    results = results_of({"training": {"A": 3, "B": 5, "C": 6}, "justrl": {"A": 5, "B": 3, "C": 8}})
    found = sections.ranking(results, Path())
    assert "- training: C > B > A" in found.text and "- justrl: C > A > B" in found.text
    assert found.answers[0].startswith("Of 3 pairs 1 change places between training and justrl (A and B)")


def test_stability_and_late_reward_are_paired_over_seeds():
    # Changes 0.1, 0.1, 0.2: mean 0.133, standard error 1/30, t_0.975(2) = 4.303: 0.133 -+ 0.143.
    # Rewards: 0.02, 0.02, 0.03: mean 0.0233, standard error 1/300: 0.0233 -+ 0.0143, which leaves out 0.
    found = sections.stability(results_of({"training": {"A": 3, "B": 5}}), Path())
    assert "| A | 0.600 | – | 0.810 | – |" in found.text
    assert "| B | 0.733 | +0.133 [-0.010, +0.277] | 0.833 | +0.023 [+0.009, +0.038] |" in found.text
    assert found.answers == [
        "B's entropy stability is not told apart from A's: +0.133 [-0.010, +0.277] (3 seeds).",
        "B's late reward is above A's: +0.023 [+0.009, +0.038] (3 seeds).",
    ]
    assert np.isclose(0.4 / 3 - 4.302653 / 30, -0.010, atol=5e-4)


def test_late_reward_is_that_of_the_last_tenth(tmp_path):
    (tmp_path / "config.yaml").write_text("out: x\nseed: 1\nobjective: {name: stapo}\n")
    rewards = [0.1] * 18 + [0.5, 0.7]
    lines = [f'{{"iteration": {i}, "reward": {r}, "entropy": 0.5}}\n' for i, r in enumerate(rewards, start=1)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    found = results.Results(SimpleNamespace(), tmp_path)
    found.__dict__["trainings"] = [SimpleNamespace(variant="A", folder=tmp_path)]
    assert found.late_rewards() == {"A": [pytest.approx(0.6)]} and found.stabilities() == {"A": [1.0]}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("First, 3 + 4 = 7, then 7 * 2 = 14. The answer is \\boxed{14}", [True, True]),
        ("We get 12 - 5 = 8, so 8 + 1 = 9", [False, True]),  # the second follows from the first and holds
        ("k84 / 7 = 12, next 85 mod 7 = 1", [True, True]),  # a stray letter is not part of a number
        ("85 / 7 = 12", [False]),  # must be exact
        ("5 / 0 = 0, 5 mod 0 = 5", [False, False]),
        ("3 - 5 = 2", [False]),
        ("17, then 42. The answer is \\boxed{42}", []),  # totals alone: nothing to check
        ("103 + 4 = 7", [False]),  # not 3 + 4 = 7
        ("3 + 4 = 71", [False]),
        ("3+4 = 7, 3 + x = 7, 3 + 4 =", []),
    ],
)
def test_steps_of_hand_written_solutions(text, right):
    found = arithmetic.written_steps(text)
    assert [step.right for step in found] == right
    assert all(" = " in text[step.start : step.end] for step in found)


def test_worked_solutions_hold_but_for_their_planted_errors():
    from stapo_train.tiny_data import worked_example

    written = [step for i in range(400) for step in arithmetic.written_steps(worked_example(0, i).solution)]
    # The style with steps writes a mistake in 5 % of them and a slip in 0.8 %: 5.8 % of about 500.
    assert len(written) > 300
    assert 0.03 < np.mean([not step.right for step in written]) < 0.09


def test_stray_letters_are_found():
    text = "First, k3 + 4 = 7, then 7 * 2 = 14, so x = 3 and a1b. Hence \\boxed{k14}"
    assert [text[i : i + 2] for i in arithmetic.stray_letters(text)] == ["k3", "a1"]
    assert arithmetic.stray_letters("q17, then 42") == [0]


def test_silenced_tokens_are_counted_by_hand():
    texts = ["So ", "3", " + ", "4", " = ", "8", ", then ", "k", "8 ", "* 2 = 1", "6"]
    #               |-------- wrong ---------|         stray ^  |----- right ----|
    here = [False] * 11
    hit = [*here[:5], True, True, True, *here[8:]]  # the 8, which is wrong, ", then " and the stray letter
    candidates = [True, *hit[1:]]  # and "So ", which is kept
    right = silenced.Rollout(texts=["1 + 1 = 2"], candidate=[False], silenced=[False])
    found = silenced.tally([silenced.Rollout(texts=texts, candidate=candidates, silenced=hit), right])
    assert found.whole == silenced.Places(count=2, hit=1, tokens=12, silenced=3, kept=1)
    assert found.wrong_steps == silenced.Places(count=1, hit=1, tokens=5, silenced=1, kept=0)
    assert found.right_steps == silenced.Places(count=2, hit=0, tokens=4, silenced=0, kept=0)
    assert found.letters == silenced.Places(count=1, hit=1, tokens=1, silenced=1, kept=0)
    assert dict(found.silenced_words) == {"8": 1, ", then ": 1, "k": 1} and dict(found.kept_words) == {"So ": 1}
    assert found.lift(found.wrong_steps) == pytest.approx(1 / 3 - 5 / 12)
    assert found.lift(found.letters) == pytest.approx(1 / 3 - 1 / 12)
    nothing = silenced.tally([right])
    assert np.isnan(nothing.lift(nothing.wrong_steps))
    assert silenced.total([found.whole, nothing.whole]).tokens == 13
    # Lifts 0.1 and 0.3: mean 0.2, standard error 0.1, t_0.975(1) = 12.706; a seed without any is left out.
    assert silenced._lift([0.1, 0.3, math.nan]) == "+20.0 [-107.1, +147.1]"
    assert silenced._lift([0.1, math.nan]) == "–"
    told = silenced._answer("A", "STAPO", [found], [nothing])
    assert "STAPO on A's rollouts: 33.3 % of the silenced tokens lie in steps that are wrong" in told
    assert "41.7 % of all (lift – points, 1 seeds), and – where" in told
    assert told.endswith("it hits 1 of 1 such steps and 1 of 1 stray letters.")


def hand_dump(advantages, logits):
    """One prompt token and one response token (number 0) per rollout, over four tokens; ratio 1."""
    import torch

    from stapo_train.batch import collate, micro_batches
    from stapo_train.records import Rollout

    rollouts = [
        Rollout(
            group_id=0, problem_id="p", index=i, seed=i, prompt_ids=(1,), response_ids=(0,), rollout_log_probs=None,
            text="", finish_reason="stop",
        )
        for i in range(len(advantages))
    ]  # fmt: skip
    batch = collate(rollouts, np.array(advantages), torch.float32, torch.device("cpu"))
    table = torch.tensor(logits)
    log_probs, distribution = table.log_softmax(-1)[:, 0], table.softmax(-1)
    entropy = -(distribution * distribution.log()).sum(-1)
    stats = replace(batch.stats, log_probs=log_probs, old_log_probs=log_probs, entropy=entropy)
    policy = SimpleNamespace(
        split=lambda batch, rows: micro_batches(batch, rows, 100, torch.device("cpu")),
        logits=lambda micro: table[micro.tokens],
        temperature=1.0,
        model=SimpleNamespace(config=SimpleNamespace(vocab_size=4)),
    )
    about = {"objective": {"name": "stapo", "tau_p": 0.5}, "seed": 0, "max_new_tokens": 8}
    return SimpleNamespace(batch=replace(batch, stats=stats), policy=policy, about=about)


def test_gradient_norms_by_hand(monkeypatch, tmp_path):
    # Uniform: pi = 1/4, S = 1/4, H = ln 4: 1 - 1/2 + 1/4 = 0.75, and both bounds meet there, times A^2.
    # Probabilities 0.4, 0.2, 0.2, 0.2: S = 0.28, 1 - 0.8 + 0.28 = 0.48. The rollout with A = 0 has no gradient.
    uniform, peaked = [0.0] * 4, [math.log(2), 0.0, 0.0, 0.0]
    dump = hand_dump([1.0, -2.0, 0.0, 1.0], [uniform, uniform, uniform, peaked])
    monkeypatch.setattr("stapo_train.dump.load_dump", lambda folder: dump)
    found = gradients.read_gradients(Path())
    order = np.argsort(found.measured)
    assert found.measured[order] == pytest.approx([0.48, 0.75, 3.0], rel=1e-6)
    assert found.identity[order] == pytest.approx([0.48, 0.75, 3.0], rel=1e-6)
    assert found.low[order][1:] == pytest.approx([0.75, 3.0], rel=1e-6)
    assert found.high[order][1:] == pytest.approx([0.75, 3.0], rel=1e-6)
    entropy = -(0.4 * math.log(0.4) + 0.6 * math.log(0.2))
    assert found.low[order][0] == pytest.approx(0.2 + math.exp(-entropy), rel=1e-6)
    assert found.high[order][0] == pytest.approx(1.2 - 0.75 * entropy**2 / math.log(4) ** 2, rel=1e-6)
    # The peaked one is silenced (A > 0, pi < 0.5, the lowest entropy of two candidates), and measured all the same.
    assert found.deviation.max() < 1e-12 and found.outside.max() < 1e-12
    gradients.draw(found, tmp_path / "bounds.svg")
    assert b"<svg" in (tmp_path / "bounds.svg").read_bytes()
    # What lies elsewhere is seen: relative to w^2.
    off = replace(found, identity=found.identity + 0.4 * (found.measured > 1), high=found.low - 0.1)
    assert off.deviation.max() == pytest.approx(0.1) and off.outside.max() > 0.1
    found = replace(found, is_sure=found.entropy < 1.35)
    # Norms sqrt(0.75) and sqrt(3): mean 1.299.
    assert gradients._quadrant([found], False, False) == "2 | 1.299 | 1.299 | 1.299"
    assert gradients._quadrant([found], True, True) == "0 | – | – | –"
    # H = ln 2 over 4 tokens: e^-H = 0.5, 1 - 0.75 (ln 2 / ln 4)^2 = 0.8125; S = 0.625 is 0.4 of the way.
    between = replace(
        found, weight=np.ones(1), low=np.array([0.5]), high=np.array([0.8125]), identity=np.array([0.625])
    )
    assert gradients._gap(between) == pytest.approx(0.4)


def test_regimes_are_counted_over_seeds(tmp_path):
    trainings = []
    for seed, ends in enumerate(("0.1", "0.9")):
        folder = tmp_path / str(seed)
        folder.mkdir()
        lines = [f'{{"entropy": {entropy}}}\n' for entropy in ["0.5"] * 5 + [ends] * 10]
        (folder / "metrics.jsonl").write_text("".join(lines))
        trainings.append(SimpleNamespace(variant="A", folder=folder))
    results = SimpleNamespace(variants=["A"], trainings=trainings)
    # 0.1 is below 0.5 / 4, 0.9 is below 4 * 0.5; the scores are 1/5 and 5/9, their mean 0.378.
    found = sections.regimes(results, Path())
    assert "| A | 1 | 0 | 1 | 0.500 | 0.500 | 0.378 |" in found.text
    assert found.answers == ["A: collapse in 1 of 2 seeds."]
    steady = SimpleNamespace(variants=["A"], trainings=trainings[1:])
    assert "neither collapses nor explodes" in sections.regimes(steady, Path()).answers[0]
