"""inspect_ai's logs as JSON, one per task: a sample per problem and epoch, with its verdict as C, I or N.

``inspect view`` and ``read_eval_log`` read them. What the grader could not decide has no score there, which inspect_ai
leaves out of its mean, as our scores do. A log has no seeds of single samples.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from stapo_bench import __version__
from stapo_bench.analysis import TaskScore
from stapo_bench.presenting.exporting.graded_run import GradedRun, SampleWithGrade, file_name, standard_error
from stapo_bench.records import Outcome, Problem
from stapo_bench.runs import refuse_foreign, write_parts

UNKNOWN_MODEL = "unknown"  # the format requires a name
_VALUES: Mapping[Outcome | None, str] = {Outcome.CORRECT: "C", Outcome.INCORRECT: "I", Outcome.NO_ANSWER: "N"}
_STOP_REASONS = {"stop": "stop", "length": "max_tokens"}


def write_inspect(run: GradedRun, out: Path) -> list[Path]:
    """Write a log per task into a folder; returns their paths.

    Raises:
        UsageError: one of their names is the name of a file that is no such log.
    """
    files = [out / f"{run.manifest.name}_{file_name(task.task)}.json" for task in run.score.tasks]
    for file in files:
        refuse_foreign(file, b'{\n  "version": 2,\n  "status": ')
    for file, task in zip(files, run.score.tasks, strict=True):
        write_parts(file, _log(run, task))
    return files


def _log(run: GradedRun, task: TaskScore) -> Iterator[str]:
    """The document part by part: samples stream."""
    head = json.dumps(_head(run, task), indent=2)
    yield head.removesuffix("\n}") + ',\n  "samples": ['
    problems = run.problems[task.task]
    separator = "\n"
    for judged in run.judged(task.task):
        if (problem := problems.get(judged.sample.problem_id)) is not None:
            yield separator + json.dumps(_sample(run, problem, judged))
            separator = ",\n"
    yield "\n  ]\n}\n"


def _head(run: GradedRun, task: TaskScore) -> dict[str, Any]:
    about, sampling = run.manifest.about, run.manifest.identity.sampling
    known = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_tokens": sampling.max_new_tokens,
        "stop_seqs": list(sampling.stop) or None,
    }
    definition = run.task(task.task)
    facts = {
        "method": about.method,
        "step": about.step,
        "checkpoint": run.manifest.identity.checkpoint_digest,
        "stapo_bench": run.settings(task.task),
    }
    name = {"name": definition.source.path} if definition is not None and definition.source.path else {}
    return {
        "version": 2,
        "status": "success" if task.is_drawn else "started",
        "eval": {
            "eval_id": _id(run, "eval", task.task),
            "run_id": _id(run, "run"),
            "created": about.started or datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "task": task.task,
            "task_id": _id(run, "task", task.task),
            "task_display_name": task.title,
            **({"task_version": definition.version} if definition is not None else {}),
            "dataset": {**name, "samples": task.num_problems_expected, "sample_ids": list(run.problems[task.task])},
            "model": about.model or UNKNOWN_MODEL,
            "model_generate_config": {name: value for name, value in known.items() if value is not None},
            "config": {"epochs": task.samples_per_problem},
            "packages": {"stapo_bench": __version__},
            "metadata": {name: value for name, value in facts.items() if value is not None},
        },
        "plan": {"name": "plan", "steps": []},
        "results": {
            "total_samples": task.num_samples_expected,
            "completed_samples": task.num_samples,
            "scores": _scores(run, task),
        },
        "stats": {},
    }


def _id(run: GradedRun, *parts: str) -> str:
    """A name of 22 characters that stays the same when the run is exported again."""
    return hashlib.sha256("/".join((run.manifest.digest, run.grader, *parts)).encode()).hexdigest()[:22]


def _scores(run: GradedRun, task: TaskScore) -> list[dict[str, Any]]:
    values = {"accuracy": task.value, "stderr": standard_error(task.counts)}
    known = {name: value for name, value in values.items() if value is not None and not math.isnan(value)}
    metrics = {name: {"name": name, "value": value} for name, value in known.items()}
    scorer = run.grader
    return [{"name": scorer, "scorer": scorer, "reducer": "mean", "metrics": metrics}]


def _sample(run: GradedRun, problem: Problem, judged: SampleWithGrade) -> dict[str, Any]:
    sample = judged.sample
    row: dict[str, Any] = {
        "id": problem.problem_id,
        "epoch": sample.sample_index + 1,
        "input": problem.question,
        "target": problem.gold.answer,
        "messages": [],  # the prompt is not stored in a run
        "scores": {},
    }
    if sample.finish_reason == "error":
        reason = "the engine gave this completion up"
        return {**row, "error": {"message": reason, "traceback": "", "traceback_ansi": ""}}
    message = {"role": "assistant", "content": sample.completion, "source": "generate"}
    stop = {} if sample.finish_reason is None else {"stop_reason": _STOP_REASONS[sample.finish_reason]}
    model = sample.model or run.manifest.about.model or UNKNOWN_MODEL
    row["messages"] = [message]
    row["output"] = {"model": model, "choices": [{"message": message, **stop}], "completion": sample.completion}
    if sample.num_tokens is not None:
        row["output"]["usage"] = {"output_tokens": sample.num_tokens}
    if (value := _VALUES.get(judged.outcome)) is not None:
        answer = {} if judged.extracted is None else {"answer": judged.extracted}
        row["scores"] = {run.grader: {"value": value, **answer}}
    return row
