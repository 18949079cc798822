"""Means that stand alone: metrics of checkpoints whose samples are not public."""

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from stapo_bench.analysis import adjusted, claim
from stapo_bench.statistics import ERROR_NAMES, Reported, normal_quantile, reported_error, share_of_passes, t_quantile

Facts = dict[str, Any]

_PASSES = (32, 16, 8, 4)


def trainings(folder: Path) -> list[Facts]:
    """The printed means of every training under ``folder``, step by step, with the error that their protocol leaves."""
    return [_training(training) for training in sorted(path for path in folder.glob("*") if path.is_dir())]


def _training(folder: Path) -> Facts:
    tasks: dict[str, list[Facts]] = {}
    for step in sorted(folder.glob("step_*"), key=lambda path: int(path.name.removeprefix("step_"))):
        for path in sorted(step.glob("*/task-*-metrics.json")):
            found = json.loads(path.read_text(encoding="utf-8"))
            tasks.setdefault(found["task_name"], []).append(_point(int(step.name.removeprefix("step_")), found))
    return {"training": folder.name, "tasks": [_task(name, points) for name, points in sorted(tasks.items())]}


def _point(step: int, found: Mapping[str, Any]) -> Facts:
    metrics = found["metrics"]
    k = next((k for k in _PASSES if f"pass_at_{k}" in metrics), None)
    mean = Reported(
        value=metrics["primary_score"],
        num_problems=found["num_instances"],
        num_samples=found["task_config"]["generation_kwargs"].get("repeats", 1),
    )
    between = share_of_passes(mean.value, metrics[f"pass_at_{k}"], k) if k else math.nan
    normal, student = normal_quantile(0.95), t_quantile(0.95, mean.num_problems - 1)
    return {
        "step": step,
        "value": round(mean.value, 6),
        "problems": mean.num_problems,
        "k": mean.num_samples,
        "between": None if math.isnan(between) else round(between, 4),
        "these": round(normal * reported_error(mean, "these problems", 0.0), 6),  # half a 95 % interval, at the most
        "like": round(student * reported_error(mean, "problems like these", 1.0), 6),
    }


def _task(name: str, points: Sequence[Facts]) -> Facts:
    means = [Reported(value=p["value"], num_problems=p["problems"], num_samples=p["k"]) for p in points]
    pairs = {
        "changes": list(pairwise(means)),  # from a step to the next
        "gains": [(means[0], mean) for mean in means[1:]],  # over the first
    }
    verdicts = {
        what: {
            error: [found.verdict_of_all for found in adjusted([claim([p], error) for p in of])]
            for error in ERROR_NAMES
        }
        for what, of in pairs.items()
    }
    return {"task": name, "points": list(points), **verdicts}
