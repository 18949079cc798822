"""avg@k of one checkpoint over token budgets, with the simultaneous bands of ``curve``.

    curve_of([Path("results/base-8192-thinking1024"), Path("results/base-8192-thinking2048")])

A budget is where thinking is ended, or else the limit on new tokens. Runs that were continued from one another share
their first tokens; the bands hold whatever the runs share, as they are of the differences per problem.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from stapo_bench.analysis.common_problems import shared_problems
from stapo_bench.analysis.curve import Curve, curve_in_order, step_curve
from stapo_bench.analysis.parity_gate import parity, same_weights
from stapo_bench.analysis.token_limits import sample_matrix
from stapo_bench.errors import StapoError, watched
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import LoadedRun, load_run

_BUDGET = ("sampling.max_new_tokens", "sampling.thinking_budget", "sampling.thinking_end")


def curve_of(run_dirs: Sequence[Path], grader: str = DEFAULT_GRADER) -> Curve:
    """The curve of several runs: over the budgets of one checkpoint where these differ, else over training steps."""
    runs = [load_run(path, grader) for path in watched(run_dirs, "reading", "runs", len(run_dirs))]
    one_checkpoint = all(same_weights(runs[0], run) for run in runs)
    return _budget_curve(runs) if one_checkpoint and len({_budget(run) for run in runs}) > 1 else step_curve(runs)


def _budget_curve(runs: Sequence[LoadedRun]) -> Curve:
    """The curve of one checkpoint's runs in the order of their budgets; the smallest is the reference.

    Raises:
        StapoError: two runs have one budget, differ in anything else, or have no task or no two problems in common.
    """
    runs = sorted(runs, key=_budget)
    for before, run in pairwise(runs):
        if _budget(before) == _budget(run):
            raise StapoError(
                f"expected runs with budgets of their own, got {_budget(run)} in {before.name} and {run.name}"
            )
        others = [item for item in parity(runs[0], run) if item.weight == "confounds" and item.field not in _BUDGET]
        if others:
            differ = "; ".join(map(str, others))
            raise StapoError(f"{run.name} and {runs[0].name} differ besides their budgets: {differ}")
    found = curve_in_order(runs, [int(b) if (b := _budget(run)) < math.inf else None for run in runs])
    points = [
        replace(point, tokens=float(np.mean([_mean_tokens(run, runs, task) for task in found.tasks])))
        for point, run in zip(found.points, runs, strict=True)
    ]
    return replace(found, points=tuple(points))


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
