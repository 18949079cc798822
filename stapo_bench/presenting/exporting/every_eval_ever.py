"""A record of Every Eval Ever per run: what was evaluated and how, and each task's score with its uncertainty.

The format is version 0.3.0 of ``eval.schema.json`` (https://github.com/evaleval/every_eval_ever, MIT). It requires the
name of the evaluating organization and the model's, which a run may not know: they are then "unknown", the format's own
word, to be filled in before publishing. Scores are fractions.
"""

import json
import math
import time
from pathlib import Path
from typing import Any

from stapo_bench import __version__
from stapo_bench.analysis import TaskScore
from stapo_bench.presenting.exporting.graded_run import GradedRun, standard_error
from stapo_bench.runs import refuse_foreign, write_result
from stapo_bench.statistics import LEVEL

SCHEMA_VERSION = "0.3.0"
UNKNOWN = "unknown"
_LOCAL = ("transformers", "vllm")  # engines that load a checkpoint; a server may be anybody's


def write_every_eval_ever(run: GradedRun, out: Path) -> list[Path]:
    """Write the record into a folder; returns its path.

    Raises:
        UsageError: that name is another's file.
    """
    path = out / f"{run.manifest.name}.json"
    refuse_foreign(path, f'{{\n  "schema_version": "{SCHEMA_VERSION}",\n  "evaluation_id": "stapo-bench/'.encode())
    write_result(path, json.dumps(record(run, now=time.time()), indent=2, allow_nan=False) + "\n")
    return [path]


def record(run: GradedRun, now: float) -> dict[str, Any]:
    """The record; ``now``: when it is made, in seconds since 1970."""
    about, engine = run.manifest.about, run.manifest.identity.engine
    model = about.model or UNKNOWN
    facts = {
        "method": about.method,
        "training_step": None if about.step is None else str(about.step),
        "checkpoint_sha256": run.manifest.identity.checkpoint_digest,
    }
    info: dict[str, Any] = {
        "name": model,
        "id": model,
        "additional_details": {
            "deployment_type": "self_deployed" if engine.get("engine") in _LOCAL else UNKNOWN,
            "model_availability": UNKNOWN,
            **{name: value for name, value in facts.items() if value is not None},
        },
    }
    if "engine" in engine:
        info["inference_engine"] = {"name": engine["engine"]}
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"stapo-bench/{model}/{run.manifest.name}-{run.manifest.digest[:12]}",
        **({"evaluation_timestamp": run.created} if run.created else {}),
        "retrieved_timestamp": str(int(now)),
        "source_metadata": {
            "source_name": "stapo-bench",
            "source_type": "evaluation_run",
            "source_organization_name": UNKNOWN,
            "evaluator_relationship": "other",
        },
        "eval_library": _library(run),
        "model_info": info,
        "evaluation_results": [_result(run, task) for task in run.score.tasks if not math.isnan(task.value)],
    }


def _library(run: GradedRun) -> dict[str, Any]:
    """What drew and graded the samples."""
    details = {"grader": run.score.grader}
    if run.manifest.imported:
        details["samples_drawn_by"] = run.manifest.imported
    return {"name": "stapo-bench", "version": __version__, "additional_details": details}


def _result(run: GradedRun, task: TaskScore) -> dict[str, Any]:
    k = task.samples_per_problem
    like = task.problems_like_these
    uncertainty: dict[str, Any] = {"num_samples": sum(decided for _, decided in task.counts.values())}
    if (error := standard_error(task.counts)) is not None:
        uncertainty["standard_error"] = {"value": error, "method": "analytic, between problems"}
    if not math.isnan(like.low):
        uncertainty["confidence_interval"] = {
            "lower": like.low,
            "upper": like.high,
            "confidence_level": 1.0 - LEVEL,
            "method": "analytic, for problems like these; see docs/statistics.md of stapo-bench",
        }
    details = {
        "num_problems": str(task.num_problems),
        "num_problems_asked": str(task.num_problems_expected),
        "samples_per_problem": str(k),
        "num_no_answer": str(task.num_no_answer),
        "num_grader_errors": str(task.num_grader_errors),
        **({} if task.num_truncated is None else {"num_truncated": str(task.num_truncated)}),
    }
    if not math.isnan(task.these_problems.low):
        ends = f"{task.these_problems.low:.6f} to {task.these_problems.high:.6f}"
        details[f"confidence_interval_{100 * (1.0 - LEVEL):g}_for_these_problems"] = ends
    return {
        "evaluation_result_id": f"{run.manifest.digest[:12]}/{task.task}",
        "evaluation_name": task.title,
        "source_data": _source(run, task),
        "metric_config": {
            "metric_id": "avg_at_k",
            "metric_name": f"avg@{k}",
            "metric_kind": "accuracy",
            "metric_unit": "proportion",
            "metric_parameters": {"k": k},
            "evaluation_description": "Mean over problems of the share of right samples, of those decided.",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {"score": task.value, "details": details, "uncertainty": uncertainty},
        **_generation(run),
    }


def _source(run: GradedRun, task: TaskScore) -> dict[str, Any]:
    definition = run.task(task.task)
    if definition is None or definition.source.path is None:
        return {"dataset_name": task.title, "source_type": "other"}
    return {
        "dataset_name": task.title,
        "source_type": "hf_dataset",
        "hf_repo": definition.source.path,
        "hf_split": definition.source.split,
        "samples_number": definition.num_problems,
    }


def _generation(run: GradedRun) -> dict[str, Any]:
    sampling = run.manifest.identity.sampling
    known = {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": sampling.max_new_tokens}
    arguments = {name: value for name, value in known.items() if value is not None}
    return {"generation_config": {"generation_args": arguments}} if arguments else {}
