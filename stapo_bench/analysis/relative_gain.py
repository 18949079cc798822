"""The headline of arXiv:2602.15620: the mean relative gain of one method over the strongest baseline of each model.

    gain_m = average_m(method) / max over other methods b of average_m(b) - 1,    headline = mean over models m

All averages are over the same tasks. A model whose strongest baseline solves nothing has no relative gain.

For measured runs it has an interval. Under each named error the averages of all runs are moved at random by their
errors, the strongest baseline is picked anew, and the headline computed again; the interval is the basic bootstrap one,
[2 h - q_97.5, 2 h - q_2.5] (Davison and Hinkley 1997, Sec. 5.2), which also reverses the bias of picking the
strongest. Runs are paired: a problem moves all runs that were asked it together, as they share its weight, and runs
with the same seeds share the noise of their samples, as in ``stapo_bench.statistics.paired``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from stapo_bench.analysis.common_problems import decided_by_all
from stapo_bench.records import Outcomes
from stapo_bench.statistics import (
    ERROR_NAMES,
    ErrorName,
    Interval,
    Matrix,
    Vector,
    contrast_variances,
    problem_means,
    sampling_variance,
    widening,
)

Averages = Mapping[str, Mapping[str, float]]
"""model -> method -> average over the tasks, in any unit."""

Runs = Mapping[str, Mapping[str, Mapping[str, Outcomes]]]
"""model -> method -> task -> outcomes."""

METHOD = "STAPO"
"""Whose gain the headline is."""
_BOOTSTRAPS = 2000


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The measured headline, fractions."""

    value: float
    gains: dict[str, float]  # by model
    strongest: dict[str, str]  # the baseline that each gain is over
    intervals: dict[ErrorName, Interval]  # unknown where a baseline may be 0
    tasks: tuple[str, ...]  # that all averages are over
    left_out: tuple[str, ...]  # in words: runs without all of these tasks, models without a baseline above 0


def relative_gains(averages: Averages, method: str = METHOD) -> dict[str, float]:
    """Relative gain of a method over the strongest other one, per model that has both and this above 0; fractions.

    >>> relative_gains({"1.7B": {"STAPO": 38.18, "GRPO": 30.52, "20-Entropy": 33.64}})
    {'1.7B': 0.1349583828775267}
    """
    return {
        model: methods[method] / best - 1.0
        for model, methods in _with_rivals(averages, method).items()
        if (best := max(value for name, value in methods.items() if name != method)) > 0
    }


def headline(averages: Averages, method: str = METHOD) -> float:
    """Mean of the relative gains over models, a fraction; NaN without a model that has the method and a baseline."""
    gains = relative_gains(averages, method)
    return sum(gains.values()) / len(gains) if gains else float("nan")


def measured_headline(
    runs: Runs,
    aims: Mapping[tuple[str, str], float] | None = None,
    seeds: Mapping[tuple[str, str], int] | None = None,
) -> Headline | None:
    """The headline of measured runs; None where no model has STAPO and a baseline, both with every task.

    Every task: those of all runs together. A run that lacks one is left out, as its average would be over other tasks.

    Args:
        runs: what they drew, samples of a problem in the order of their indices where ``seeds`` are given.
        aims: by model and method, of the runs whose samples decided when to stop; see ``sequential``.
        seeds: by model and method; sample j of a problem shares its noise in runs of one seed. None: independent runs.
    """
    asked = _with_rivals(runs, METHOD)
    tasks = list(dict.fromkeys(task for methods in asked.values() for run in methods.values() for task in run))
    partial = [(m, name) for m, methods in asked.items() for name in methods if set(methods[name]) < set(tasks)]
    whole = {m: {name: methods[name] for name in methods if (m, name) not in partial} for m, methods in asked.items()}
    usable = _with_rivals(whole, METHOD)
    every = [run for methods in usable.values() for run in methods.values()]
    if not every:
        return None
    names = [(model, name) for model, methods in usable.items() for name in methods]
    means = [_task_means(every, task) for task in tasks]  # by task, [num_runs, num_problems]
    if any(of_task.shape[1] < 2 for of_task in means):
        return None
    averages: Vector = np.mean([of_task.mean(axis=1) for of_task in means], axis=0)

    nested = _nested(names, averages)
    gains = relative_gains(nested)
    if not gains:
        return None

    def statistic(values: Vector) -> float:
        """NaN where a baseline is not above 0: a relative gain over it would be any number."""
        found = relative_gains(_nested(names, values))
        return sum(found.get(model, math.nan) for model in gains) / len(gains)

    value = statistic(averages)
    shifts = {
        "these problems": _sampling_shifts(every, tasks, [(seeds or {}).get(name) for name in names]),
        "problems like these": _problem_shifts(means, [[_prior(run[task].scores) for run in every] for task in tasks]),
    }
    if aims:  # as if each of these runs had the error that its interval for every look stands for
        for of_error in shifts.values():
            for i, name in enumerate(names):
                if name in aims:
                    of_error[:, i] *= widening(float(of_error[:, i].std()), aims[name])
    return Headline(
        value=value,
        gains=gains,
        strongest={m: max((n for n in nested[m] if n != METHOD), key=nested[m].__getitem__) for m in gains},
        intervals={
            error: _basic_interval(value, [statistic(averages + shift) for shift in shifts[error]])
            for error in ERROR_NAMES
        },
        tasks=tuple(tasks),
        left_out=(
            *(f"{name} of {model} (lacks tasks)" for model, name in partial),
            *(f"{model} (no other method above 0 %)" for model in nested if model not in gains),
        ),
    )


def _with_rivals(by_model: Mapping[str, Mapping[str, Any]], method: str) -> dict[str, Mapping[str, Any]]:
    """The models that have the method and another one."""
    return {model: methods for model, methods in by_model.items() if method in methods and len(methods) > 1}


def _basic_interval(value: float, replicates: Sequence[float]) -> Interval:
    low, high = np.quantile(replicates, [0.025, 0.975])
    return Interval(low=2 * value - float(high), high=2 * value - float(low))


def _nested(names: Sequence[tuple[str, str]], values: Vector) -> dict[str, dict[str, float]]:
    nested: dict[str, dict[str, float]] = {}
    for (model, name), value in zip(names, values.tolist(), strict=True):
        nested.setdefault(model, {})[name] = value
    return nested


def _task_means(runs: Sequence[Mapping[str, Outcomes]], task: str) -> Vector:
    """Success rates over the problems that every run has decided, [num_runs, num_problems]."""
    return np.stack([problem_means(scores) for scores in decided_by_all([run[task] for run in runs])])


def _sampling_shifts(
    runs: Sequence[Mapping[str, Outcomes]], tasks: Sequence[str], seeds: Sequence[int | None]
) -> Vector:
    """Errors of the runs' averages if samples were drawn anew, [num_bootstraps, num_runs]: normals, paired by seed."""
    covariance = np.zeros((len(runs), len(runs)))
    for task in tasks:
        outcomes = [run[task] for run in runs]
        covariance += np.diag([sampling_variance(o.scores) + _prior(o.scores) / len(o.scores) ** 2 for o in outcomes])
        for i, j in combinations(range(len(runs)), 2):
            if seeds[i] is not None and seeds[i] == seeds[j]:
                covariance[[i, j], [j, i]] += _shared_noise(outcomes[i], outcomes[j])
    values, vectors = np.linalg.eigh(covariance / len(tasks) ** 2)
    # Estimated covariances may be a little too large for the variances beside them.
    roots = vectors * np.sqrt(np.maximum(values, 0.0))
    shifts: Vector = np.random.default_rng(0).standard_normal((_BOOTSTRAPS, len(runs))) @ roots.T
    return shifts


def _shared_noise(a: Outcomes, b: Outcomes) -> float:
    """Covariance of the avg@k of two runs with the same seeds, over new samples of the same problems.

    The variance of their difference is smaller by twice of it than that of independent runs.
    """
    used = decided_by_all((a, b))
    apart, together = (contrast_variances(used, [-1.0, 1.0], same_seeds=same)[1].sum() for same in (False, True))
    return float(apart - together) / 2.0 / (len(a.scores) * len(b.scores))


def _prior(scores: Matrix) -> float:
    """As if half a sample of one further problem had come out the other way: no difference at all proves little."""
    samples = (~np.isnan(scores)).sum(axis=1)
    return 0.5 * float((1.0 / samples[samples > 0]).mean()) ** 2 if samples.any() else math.nan


def _problem_shifts(means: Sequence[Vector], priors: Sequence[Sequence[float]]) -> Vector:
    """Errors of the runs' averages if problems were new too, [num_bootstraps, num_runs]: a multiplier bootstrap.

    Args:
        means: by task, [num_runs, num_problems].
        priors: by task and run, a sum of squares that is assumed beside those of the problems.
    """
    rng = np.random.default_rng(0)
    shifts = np.zeros((_BOOTSTRAPS, means[0].shape[0]))
    for of_task, of_runs in zip(means, priors, strict=True):
        num = of_task.shape[1]
        scale = 1.0 / (len(means) * math.sqrt(num * (num - 1)))
        residuals = of_task - of_task.mean(axis=1, keepdims=True)
        shifts += rng.standard_normal((_BOOTSTRAPS, num)) @ residuals.T * scale
        shifts += rng.standard_normal(shifts.shape) * np.sqrt(of_runs) * scale
    return shifts
