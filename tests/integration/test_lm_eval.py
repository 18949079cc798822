"""lm-eval runs our task files as they are, and both harnesses give one score for the same completions.

Run by ``scripts/integration.sh lm-eval``, in an environment with lm-eval.
"""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("lm_eval", reason="lm-eval is not installed: scripts/integration.sh runs this")
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from stapo_bench.analysis import TaskScore, score_run
from stapo_bench.commands import lm_eval as ours
from stapo_bench.engines import EngineOptions
from stapo_bench.records import Outcome, SamplingParams
from stapo_bench.runs.importing import ImportOptions, import_run
from stapo_bench.runs.run_grading import grade_run
from stapo_bench.runs.store import read_samples
from stapo_bench.sampling.eval_options import EvalOptions
from stapo_bench.sampling.evaluation import evaluate
from stapo_bench.statistics.estimators import avg_at_k
from stapo_bench.tasks.loading import load_problems, load_task, task_names
from stapo_bench.tasks.prompts import render_prompts
from stapo_bench.tasks.resources import resource_dir

REAL = {"aime24": None, "minerva": 60, "olympiadbench": 60}  # task -> how many of its problems; None: all


class Replay(LM):
    """A model that gives stored completions, prompt by prompt in their order."""

    def __init__(self, completions: dict[str, Iterable[str]]) -> None:
        super().__init__()
        self.left = {prompt: iter(texts) for prompt, texts in completions.items()}
        self.settings = []

    def generate_until(self, requests, disable_tqdm: bool = False) -> list[str]:
        self.settings += [request.args[1] for request in requests]
        return [next(self.left[request.args[0]]) for request in requests]

    def loglikelihood(self, requests, disable_tqdm: bool = False):
        raise NotImplementedError

    def loglikelihood_rolling(self, requests, disable_tqdm: bool = False):
        raise NotImplementedError


@dataclass(frozen=True)
class Drawn:
    """A run of ours: its score, and its completions by prompt text in the order of the samples."""

    score: TaskScore
    completions: dict[str, list[str]]


@pytest.fixture(scope="module")
def manager() -> TaskManager:
    return TaskManager(include_path=str(resource_dir("tasks")), include_defaults=False)


def draw(name: str, folder: Path, limit: int | None, data_dir: Path | None = None) -> Drawn:
    """Completions right, wrong, cut off and without an answer, graded and scored by our own commands' functions."""
    script = folder / "script.yaml"
    script.write_text("success: 0.4\ntruncated: 0.2\nmedian_tokens: 40\n")
    options = EvalOptions(
        checkpoint=script,
        decoding="justrl",
        tasks=(name,),
        out=folder / "run",
        engine=EngineOptions(name="scripted"),
        limit=limit,
        data_dir=data_dir,
        max_new_tokens=120,
    )
    run_dir = evaluate(options, watch=io.StringIO()).run_dir
    grade_run(run_dir, data_dir=data_dir)
    task = load_task(name)
    problems = load_problems(task, data_dir)[:limit]
    texts = {prompt.problem_id: prompt.text for prompt in render_prompts(task, problems, None, "plain")}
    ordered = sorted(read_samples(run_dir), key=lambda sample: sample.key)
    completions = {text: [s.completion for s in ordered if s.problem_id == of] for of, text in texts.items()}
    (score,) = score_run(run_dir).tasks
    return Drawn(score, completions)


def through_lm_eval(name: str, model: LM, manager: TaskManager, limit: int | None = None) -> dict:
    found = simple_evaluate(model=model, tasks=[f"stapo_{name}"], task_manager=manager, limit=limit, bootstrap_iters=0)
    return found["results"][f"stapo_{name}"]


def check_parity(name: str, drawn: Drawn, manager: TaskManager, limit: int | None) -> None:
    model, task = Replay(drawn.completions), load_task(name)
    found = through_lm_eval(name, model, manager, limit)
    num_samples = drawn.score.num_problems * task.num_samples
    assert drawn.score.num_samples == num_samples == len(model.settings)
    assert all(next(texts, None) is None for texts in model.left.values()), "a stored completion was not scored"
    assert found["avg_at_k,all_samples"] == pytest.approx(drawn.score.value, abs=1e-12)
    assert found["no_answer,all_samples"] == pytest.approx(drawn.score.num_no_answer / num_samples, abs=1e-12)
    assert found["grader_errors,all_samples"] == drawn.score.num_grader_errors == 0
    assert 0.3 < drawn.score.value < 0.5
    assert found["no_answer,all_samples"] > 0.1


@pytest.mark.parametrize("name", ["tiny_aime24", "tiny_minerva"])
def test_the_generated_tasks_score_alike(name, tmp_path, manager):
    limit = {"tiny_aime24": None, "tiny_minerva": 100}[name]
    check_parity(name, draw(name, tmp_path, limit), manager, limit)


@pytest.mark.parametrize("name", REAL)
def test_the_benchmarks_score_alike(name, tmp_path, manager):
    if "STAPO_BENCH_DATA" not in os.environ:
        pytest.skip("needs the benchmark data: set STAPO_BENCH_DATA to their folder")
    drawn = draw(name, tmp_path, REAL[name], Path(os.environ["STAPO_BENCH_DATA"]))
    check_parity(name, drawn, manager, REAL[name])


def test_every_task_file_is_known_to_lm_eval(manager):
    assert set(manager.all_tasks) == {f"stapo_{name}" for name in task_names()}


def test_the_decoding_of_the_task_file_reaches_the_model(tmp_path, manager):
    drawn = draw("tiny_aime25", tmp_path, 2)
    model = Replay(drawn.completions)
    through_lm_eval("tiny_aime25", model, manager, limit=2)
    assert len(model.settings) == 64
    expected = {"until": [], "do_sample": True, "temperature": 0.7, "top_p": 0.9, "top_k": 0, "repetition_penalty": 1.0}
    expected["max_gen_toks"] = 96
    assert all(settings == expected for settings in model.settings)


def test_what_the_grader_failed_on_is_neither_wrong_nor_the_end_of_the_score(tmp_path, manager, monkeypatch):
    drawn = draw("tiny_aime25", tmp_path, 3)
    undecided = iter([32, 8, 0])  # of the 32 samples of each problem, the first ones
    correct = []

    class Faulty:
        def grade(self, pairs):
            num_failed = next(undecided)
            outcomes = [Outcome.CORRECT if i % 3 == 0 else Outcome.INCORRECT for i in range(len(pairs))]
            outcomes[:num_failed] = [Outcome.GRADER_ERROR] * num_failed
            values = {Outcome.CORRECT: 1.0, Outcome.INCORRECT: 0.0, Outcome.GRADER_ERROR: np.nan}
            correct.append([values[outcome] for outcome in outcomes])
            return [SimpleNamespace(outcome=outcome) for outcome in outcomes]

    monkeypatch.setattr(ours, "_pool", Faulty)
    found = through_lm_eval("tiny_aime25", Replay(drawn.completions), manager, limit=3)
    # Every third of 32 is right: i = 9, 12, …, 30 of the last 24 (8 of them), and 0, 3, …, 30 of all 32 (11).
    assert found["avg_at_k,all_samples"] == pytest.approx((8 / 24 + 11 / 32) / 2)
    assert found["avg_at_k,all_samples"] == pytest.approx(avg_at_k(np.array(correct)))
    assert found["grader_errors,all_samples"] == pytest.approx((32 + 8 + 0) / 96)


def test_the_command_draws_and_scores_all_repeats_of_a_real_model(checkpoint, tmp_path):
    command = [sys.executable, "-m", "lm_eval", "run", "--include_path", str(resource_dir("tasks"))]
    command += [
        "--tasks",
        "stapo_tiny_aime24",
        "--model",
        "hf",
        "--device",
        "cpu",
        "--batch_size",
        "32",
        "--limit",
        "2",
    ]
    command += ["--model_args", f"pretrained={checkpoint},dtype=float32", "--gen_kwargs", "max_gen_toks=6"]
    command += ["--log_samples", "--output_path", str(tmp_path)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "avg_at_k" in ended.stdout
    (logged,) = tmp_path.rglob("samples_stapo_tiny_aime24_*.jsonl")
    samples = [json.loads(line) for line in logged.read_text().splitlines()]
    responses = [sample["resps"][0] for sample in samples]
    assert [len(drawn) for drawn in responses] == [32, 32]
    assert [sample["filtered_resps"][0] for sample in samples] == responses
    assert all(len(set(drawn)) > 20 for drawn in responses), "repeats of one prompt were not drawn independently"
    assert all({"avg_at_k", "no_answer", "grader_errors"} <= sample.keys() for sample in samples)
    # What lm-eval wrote becomes a run of ours, with the score that lm-eval gave it.
    imported = import_run([logged], tmp_path / "imported", ImportOptions(tasks=("tiny_aime24",)))
    assert (imported.num_samples, imported.manifest.imported) == (64, "lm-eval")
    assert imported.manifest.identity.sampling == SamplingParams(temperature=0.7, top_p=0.9, max_new_tokens=6)
    stored = sorted(read_samples(tmp_path / "imported"), key=lambda sample: sample.key)
    assert sorted(sample.completion for sample in stored) == sorted(text for drawn in responses for text in drawn)
    grade_run(tmp_path / "imported")
    expected = np.mean([sample["avg_at_k"] for sample in samples])
    assert score_run(tmp_path / "imported").tasks[0].value == pytest.approx(expected)


def test_the_own_task_of_the_readme_runs(tmp_path, monkeypatch):
    tasks = resource_dir("tasks")
    blocks = dict(
        re.findall(r"^```(yaml|json)\n(.*?)^```", (tasks / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    )
    file = tmp_path / "sums.yaml"
    own = blocks["yaml"].replace("include: _defaults", f"include: {tasks / '_defaults'}")
    file.write_text(own.replace("{task: sums}", f"{{task: {file}}}"))
    (tmp_path / "sums.jsonl").write_text(blocks["json"])
    monkeypatch.setenv("STAPO_BENCH_DATA", str(tmp_path))
    instruction = "Please reason step by step, and put your final answer within \\boxed{}."
    completions = {f"What is {i} + {i}? {instruction}": ["\\boxed{2}"] * 6 + ["\\boxed{4}"] * 2 for i in (1, 2)}
    found = through_lm_eval(
        "sums", Replay(completions), TaskManager(include_path=str(tmp_path), include_defaults=False)
    )
    assert found["avg_at_k,all_samples"] == pytest.approx((6 / 8 + 2 / 8) / 2)
