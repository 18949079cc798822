"""What verl's trainer needs of us besides the loss: settings from the environment, rewards, and data as parquet."""

import json
import math
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset

from stapo_bench.errors import UsageError
from stapo_bench.records import Gold, Grade, Outcome, Problem
from stapo_bench.tasks.prompts import render_prompt
from stapo_train.integrations import verl_reward
from stapo_train.integrations.verl_data import chat_template, verl_rows, write_parquet
from stapo_train.integrations.verl_entropy import chunked_entropy
from stapo_train.integrations.verl_settings import VARIABLE, objective_from_environment, parse_objective
from stapo_train.objectives import REGISTRY, build

NEEDED = {
    **{name: {"max_length": 64} for name in ("dr-grpo", "dppo-tv", "dppo-kl")},
    "random-mask": {"seed": 3},
    "clip-cov": {"seed": 3},
}


@pytest.mark.parametrize("name", REGISTRY)
def test_a_name_is_an_objective_with_its_defaults(name):
    settings = {"name": name, **NEEDED.get(name, {})}
    assert parse_objective(json.dumps(settings)) == build(**settings)
    if name not in NEEDED:
        assert parse_objective(name) == build(name)


def test_settings_are_yaml_or_json():
    expected = build("stapo", q=0.5, tau_p=1e-3)
    assert parse_objective("{name: stapo, q: 0.5, tau_p: 0.001}") == expected
    assert parse_objective('{"name": "stapo", "q": 0.5, "tau_p": 0.001}') == expected
    assert parse_objective("name: stapo\nq: 0.5\ntau_p: 0.001\n") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, f"{VARIABLE}: expected the objective's name or settings in the environment, got nothing"),
        ("", "expected a name or a mapping"),
        ("[stapo]", "expected a name or a mapping"),
        ("{q: 0.5}", "expected a name or a mapping"),
        ("{name: [stapo]}", "expected a name or a mapping"),
        ("{name: stapo", "expected a name or a mapping"),
        ("stapoo", "unknown objective 'stapoo': did you mean 'stapo'?"),
        ("{name: stapo, tau: 1}", "unknown setting of objective stapo 'tau': did you mean 'tau_p'?"),
        ("dr-grpo", "dr-grpo needs max_length"),
        ("random-mask", "random-mask needs seed"),
        ("lopti", "Lopti needs several steps per mini-batch, which verl's trainer does not give"),
        ("lp-reg", "Lp-Reg needs a proxy distribution, which verl's trainer does not give"),
        ("stare", "STARE needs the mean entropy of all of an iteration's rollouts, which verl's trainer does not give"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(text, message, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UsageError) as caught:
        objective_from_environment()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- rewards ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"so \boxed{42}", {"score": 1.0, "no_answer": 0.0, "grader_error": 0.0}),
        (r"so \boxed{41}", {"score": 0.0, "no_answer": 0.0, "grader_error": 0.0}),
        ("no idea", {"score": 0.0, "no_answer": 1.0, "grader_error": 0.0}),
    ],
)
def test_a_reward_is_the_grader_s(text, expected):
    found = verl_reward.compute_score(
        data_source="t", solution_str=text, ground_truth="42", extra_info={"index": 0, "num_turns": 2}, workers=1
    )
    assert found == expected


def test_the_answer_type_and_the_grader_reach_the_pool(monkeypatch):
    asked = []

    class Pool:
        def __init__(self, workers, *, grader):
            asked.append((workers, grader))

        def grade(self, pairs):
            asked.extend(pairs)
            return [Grade(outcome=Outcome.CORRECT, extracted=None, detail="", grader="x")]

    monkeypatch.setattr(verl_reward, "GraderPool", Pool)
    monkeypatch.setattr(verl_reward, "_pool", verl_reward._pool.__wrapped__)
    verl_reward.compute_score("t", "text", "yes", {"answer_type": "text"}, grader="math", workers=3)
    assert asked == [(3, "math"), ("text", Gold(answer="yes", answer_type="text"))]


@pytest.mark.parametrize("gold", [None, "", "  "])
def test_without_a_gold_nothing_is_wrong(gold):
    with pytest.raises(UsageError, match="ground_truth: expected the gold as a text, a finite number or a Gold, got"):
        verl_reward.compute_score("t", r"\boxed{1}", gold, workers=1)


def test_a_grader_s_failure_is_unknown_and_never_0(monkeypatch):
    failed = Grade(outcome=Outcome.GRADER_ERROR, extracted=None, detail="crashed", grader="x")
    monkeypatch.setattr(verl_reward, "_pool", lambda *_: SimpleNamespace(grade=lambda pairs: [failed for _ in pairs]))
    found = verl_reward.compute_score("t", "1", "1")
    assert math.isnan(found["score"])
    assert found["grader_error"] == 1.0


def test_threads_share_one_pool(monkeypatch):
    made = []

    class Slow:
        def __init__(self, workers, *, grader):
            barrier.wait(0.2) if not made else None
            made.append(self)

        def grade(self, pairs):
            return [Grade(outcome=Outcome.CORRECT, extracted=None, detail="", grader="x") for _ in pairs]

    barrier = threading.Event()
    monkeypatch.setattr(verl_reward, "GraderPool", Slow)
    verl_reward._pool.cache_clear()
    threads = [threading.Thread(target=verl_reward.compute_score, args=("t", "1", "1")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verl_reward._pool.cache_clear()
    assert len(made) == 1


# --- data -------------------------------------------------------------------------------------------------------------

PROBLEMS = [
    Problem(task="t", problem_id="a", question="1 + 1?", gold=Gold(answer="2")),
    Problem(task="t", problem_id="b", question="Is it?", gold=Gold(answer="yes", answer_type="text")),
]


def test_rows_survive_the_file(tmp_path):
    rows = verl_rows(PROBLEMS, "{{problem}} Box it.")
    assert rows[0] == {
        "data_source": "t",
        "prompt": [{"role": "user", "content": "1 + 1? Box it."}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "2"},
        "extra_info": {"index": 0, "problem_id": "a", "answer_type": None, "question": "1 + 1?"},
    }
    write_parquet(rows, tmp_path / "new" / "train.parquet")
    assert Dataset.from_parquet(str(tmp_path / "new" / "train.parquet"), cache_dir=str(tmp_path)).to_list() == rows
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["train.parquet"]


def test_a_problem_is_graded_as_its_row_says():
    row = verl_rows(PROBLEMS, "{{problem}}")[1]
    gold = row["reward_model"]["ground_truth"]
    found = verl_reward.compute_score(row["data_source"], r"\boxed{yes}", gold, row["extra_info"], workers=1)
    assert found["score"] == 1.0


@pytest.mark.parametrize("prompt_format", ["base", "plain"])
def test_a_prompt_format_as_a_chat_template_gives_the_same_text(prompt_format):
    from jinja2 import Environment

    template = Environment(trim_blocks=True, lstrip_blocks=True).from_string(chat_template(prompt_format))
    message = verl_rows(PROBLEMS, "{{problem}} Box it.")[0]["prompt"]
    ours = render_prompt(PROBLEMS[0], "{{problem}} Box it.", prompt_format, None)
    assert template.render(messages=message) == ours.text
    assert chat_template("chat") is None


@pytest.mark.slow(reason="two commands, each a process that loads datasets")
def test_the_command_writes_what_a_config_trains_on(tmp_path):
    source = tmp_path / "some.jsonl"
    rows = [{"problem": f"{i} + 1?", "answer": str(i + 1)} for i in (3, 4, 3)]  # one is there twice
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "train.parquet"
    command = [sys.executable, "-m", "stapo_train.integrations.verl_data", "train/configs/tiny/stapo.yaml", str(out)]
    overrides = ["data.source=jsonl", f"data.path={source}", "data.deduplicate=true", "data.count=null"]
    ran = subprocess.run([*command, *overrides], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"2 problems: {out}\n")
    found = Dataset.from_parquet(str(out), cache_dir=str(tmp_path)).to_list()
    assert [row["reward_model"]["ground_truth"] for row in found] == ["4", "5"]
    ran = subprocess.run([*command, "data.sourc=jsonl"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith("verl-data: ") and ran.stderr.count("\n") == 1


@pytest.mark.slow(reason="the compiler's front end, for eleven sizes")
def test_entropies_in_chunks_are_compiled_once_whatever_the_number_of_rows():
    """A program for all rows at once, for a chunk and for one row; verl's loop needs one per number of chunks."""
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    entropies = chunked_entropy(compiled=True, backend=counter)
    plain = chunked_entropy(compiled=False)
    generator = torch.Generator().manual_seed(0)
    for rows in (5, 17, 24, 33, 41, 50, 57, 66, 77, 81, 90):  # 1 to 12 chunks of 8
        logits = torch.randn(rows, 6, generator=generator)
        found = entropies(logits, chunk_size=8)
        log_pi = logits.double().log_softmax(-1)
        assert found.tolist() == pytest.approx((-(log_pi.exp() * log_pi).sum(-1)).tolist(), abs=1e-6)
        assert torch.equal(found, plain(logits))  # without a size all rows at once
    assert counter.frame_count <= 3
