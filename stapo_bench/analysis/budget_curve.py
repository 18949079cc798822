"""avg@k of one checkpoint over token budgets, with the simultaneous bands of ``curve``.

    budget_curve([Path("results/base-8192-thinking1024"), Path("results/base-8192-thinking2048")])

A budget is where thinking is ended, or else the limit on new tokens. Runs that were continued from one another share
their first tokens; the bands hold whatever the runs share, as they are of the differences per problem.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from stapo_bench.analysis.common_problems import not_drawn, shared_problems
from stapo_bench.analysis.curve import Curve, common_matrices, curve, curve_runs
from stapo_bench.analysis.early_stopping import aim_of, stopped_note
from stapo_bench.analysis.parity_gate import parity, same_weights
from stapo_bench.analysis.token_limits import sample_matrix
from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import LoadedRun, load_run

_BUDGET = ("sampling.max_new_tokens", "sampling.thinking_budget", "sampling.thinking_end")


def curve_of(run_dirs: Sequence[Path], grader: str = DEFAULT_GRADER) -> Curve:
    """The curve of several runs: over the budgets of one checkpoint where these differ, else over training steps."""
    runs = [load_run(path, grader) for path in run_dirs]
    if all(same_weights(runs[0], run) for run in runs) and len({_budget(run) for run in runs}) > 1:
        return budget_curve(run_dirs, grader)
    return curve_runs(run_dirs, grader)


def budget_curve(run_dirs: Sequence[Path], grader: str = DEFAULT_GRADER) -> Curve:
    """The curve of one checkpoint's runs in the order of their budgets; the smallest is the reference.

    Raises:
        StapoError: two runs have one budget, differ in anything else, or have no task or no two problems in common.
    """
    runs = sorted((load_run(path, grader) for path in run_dirs), key=_budget)
    for before, run in pairwise(runs):
        if _budget(before) == _budget(run):
            raise StapoError(
                f"expected runs with budgets of their own, got {_budget(run)} in {before.name} and {run.name}"
            )
        others = [item for item in parity(runs[0], run) if item.weight == "confounds" and item.field not in _BUDGET]
        if others:
            differ = "; ".join(map(str, others))
            raise StapoError(f"{run.name} and {runs[0].name} differ besides their budgets: {differ}")
    tasks = [task for task in runs[0].tasks if all(task in run.tasks for run in runs)]
    matrices = [common_matrices(runs, task) for task in tasks]
    if not matrices or any(len(of_task[0]) < 2 for of_task in matrices):
        raise StapoError("expected at least one task, and two problems of each, that all runs have sampled")
    names, steps = [run.name for run in runs], [int(b) if (b := _budget(run)) < math.inf else None for run in runs]
    found = curve(matrices, names, steps, tasks, [aim_of(run) for run in runs])
    points = [
        replace(point, tokens=float(np.mean([_mean_tokens(run, runs, task) for task in tasks])))
        for point, run in zip(found.points, runs, strict=True)
    ]
    missing = [note for task in tasks for note in not_drawn(runs, task, shared_problems(runs, task))]
    widened = "bands that involve it are widened to hold at every look (anytime-valid); the corrected best is not"
    return replace(found, points=tuple(points), notes=(*missing, *stopped_note(runs, widened)))


def _budget(run: LoadedRun) -> float:
    """Tokens after which thinking is ended, or else the reply; infinite where an imported run does not say."""
    sampling = run.manifest.identity.sampling
    budget = sampling.max_new_tokens if sampling.thinking_budget is None else sampling.thinking_budget
    return math.inf if budget is None else budget


def _mean_tokens(run: LoadedRun, runs: Sequence[LoadedRun], task: str) -> float:
    """Mean tokens of a sample over the problems that all runs were asked; NaN where they are not known."""
    ids = shared_problems(runs, task)
    tokens = sample_matrix(run, task, lambda sample: np.nan if sample.num_tokens is None else sample.num_tokens, ids)
    return float(np.nanmean(tokens))
