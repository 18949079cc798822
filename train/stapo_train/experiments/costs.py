"""Runs an experiment's steps at the lowest priority and records what each cost in ``costs.jsonl``, the ledger."""

import json
import platform
import resource
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from stapo_bench.runs import commit, complete_lines, is_dirty
from stapo_train.experiments.steps import Step
from stapo_train.jobs import Job, run_jobs

COSTS = "costs.jsonl"
BEHIND_ALL_OTHERS = 19
"""Process niceness: an experiment runs for hours on a machine that is also used for other things."""


def run_steps(plan: Mapping[str, Step], out: Path, jobs: int) -> None:
    """Run the unfinished steps, ``jobs`` at once; stop everything when one fails.

    Raises:
        StapoError: a command failed; the message names its log.
    """

    def enter(job: Job, usage: resource.struct_rusage) -> None:
        spent = round(usage.ru_utime + usage.ru_stime, 2)
        row = {"step": job.name, "kind": plan[job.name].kind, "cpu_s": spent, **_code()}
        with (out / COSTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    steps = [_job(step, out) for step in plan.values()]
    _code()
    print(f"{sum(job.done for job in steps)} of {len(steps)} steps are finished", flush=True)
    run_jobs(steps, jobs, BEHIND_ALL_OTHERS, enter)


def _job(step: Step, out: Path) -> Job:
    return Job(
        name=step.name,
        command=step.command,
        weight=step.cpu_s,
        needs=step.needs,
        log=out / "logs" / f"{step.name.replace(' ', '-')}.log",
        is_done=step.is_done,
        done=step.is_done(),
    )


@cache
def _code() -> dict[str, Any]:
    """Commit of this checkout, whether tracked files differ from it, and versions, all as of the runner's start."""
    names = ("stapo-bench", "torch", "transformers")
    return {
        "commit": commit(),
        "dirty": is_dirty(),
        "versions": ", ".join([f"Python {platform.python_version()}", *(f"{n} {version(n)}" for n in names)]),
    }


def read_costs(out: Path) -> list[dict[str, Any]]:
    """Lines of the ledger, in the order in which commands ended."""
    path = out / COSTS
    return [json.loads(line) for _, line in complete_lines(path)] if path.is_file() else []
