"""Early stopping: decisions that stay valid however often one looks.

    stop_at_width([correct], width=0.02)         # stop when the score is known to within two points
    stop_when_decided([correct_a], [correct_b])  # stop when A differs from a finished run B, or is tied

The error of an average of independent samples, seen as a function of its variance V, is a Brownian motion run backwards
in V: more samples take V towards 0, a task that is finished stands still, a finished run adds a constant. With time
1 / V, Robbins' (1970) normal mixture bounds it at all times at once with probability 1 - alpha:

    |estimate - truth| <= sqrt(V) * sqrt( (1 + eta V) log( (1 + eta V) / (eta V alpha^2) ) )

used with estimated variances as in Waudby-Smith et al. 2021, arXiv:2103.06476. eta makes the bound tightest at the
variance at which one hopes to stop; it follows from what was asked for and never from the data. Samples are counted in
complete rounds, one of every problem of a task: the samples that end first are the short ones, and a biased sample. The
rules look at the error of ``these problems``, as more rounds tell nothing about other problems. The error of ``problems
like these`` is widened alike: its part between problems stays constant, like a finished run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stapo_bench.statistics.conventions import LEVEL, MARGIN
from stapo_bench.statistics.difference import Difference
from stapo_bench.statistics.estimators import Matrix, avg_at_k
from stapo_bench.statistics.intervals import (
    ErrorName,
    Interval,
    clustered_interval,
    macro_interval,
    normal_quantile,
    ordinary_quantile,
    sampling_interval,
)
from stapo_bench.statistics.paired import mean_difference, paired_difference

MIN_ROUNDS = 4
"""Before this the variance within problems is not known well enough for any decision."""

_SQUARED_LOG = -2.0 * math.log(LEVEL)
_BEST = _SQUARED_LOG + math.log(_SQUARED_LOG) + 1.0  # 1 / (eta V) where the bound is nearly tightest


@dataclass(frozen=True, kw_only=True)
class StopDecision:
    """Whether to go on, and what is known now. ``interval`` holds at every look, not only at this one."""

    stop: bool
    reason: str
    rounds: int  # complete rounds of the task that has most of them
    value: float  # the score, or the difference to the finished run
    interval: Interval


def complete_rounds(correct: Matrix) -> int:
    """Samples that every problem has: the fewest decided ones.

    >>> complete_rounds(np.array([[1.0, 0.0, np.nan], [1.0, 1.0, 0.0]]))
    2
    """
    return int((~np.isnan(correct)).sum(axis=1).min(initial=correct.shape[1]))


def stop_at_width(tasks: Sequence[Matrix], width: float) -> StopDecision:
    """Stop when the interval of the mean over tasks is no wider than ``width`` (a fraction)."""
    drawn = [in_rounds(task) for task in tasks]
    rounds = [task.shape[1] for task in drawn]
    interval = anytime_interval(drawn, aim=width / 2.0)
    ready = min(rounds) >= MIN_ROUNDS
    return StopDecision(
        stop=ready and interval.width <= width,
        reason=f"the 95 % interval for these problems, which holds at every look, is {100 * interval.width:.2f} points "
        f"from end to end after {max(rounds)} rounds, asked for {100 * width:g}"
        if ready
        else _too_early(min(rounds)),
        rounds=max(rounds),
        value=float(np.mean([avg_at_k(task) for task in drawn])),
        interval=interval,
    )


def anytime_interval(tasks: Sequence[Matrix], aim: float, error: ErrorName = "these problems") -> Interval:
    """Interval of the mean over tasks that holds at every look; ``aim`` as in ``boundary``."""
    within = sampling_interval if error == "these problems" else clustered_interval
    variance = sum((within(task, 1.0).width / 2.0) ** 2 for task in tasks) / len(tasks) ** 2
    factor = widening(math.sqrt(variance), aim)
    return macro_interval(
        [avg_at_k(task) for task in tasks], [within(task, factor * ordinary_quantile(task, error)) for task in tasks]
    )


def widening(standard_error: float, aim: float) -> float:
    """Width of an interval that holds at every look, relative to that of a single look."""
    return boundary(standard_error**2, aim) / normal_quantile(1.0 - LEVEL)


def anytime(difference: Difference, aim: float) -> Difference:
    """The difference with its error widened so that the 95 % interval holds at every look; ``aim`` as in ``boundary``.

    The normal interval of the result is that of ``stop_when_decided``. Its p-values are at most 5 % where that interval
    leaves out 0, and too large below: the bound grows slower with the level than a normal quantile.
    """
    factor = widening(difference.standard_error, aim)
    return replace(difference, standard_error=difference.standard_error * factor, pairs=None)


def stop_when_decided(tasks: Sequence[Matrix], others: Sequence[Matrix], margin: float = MARGIN) -> StopDecision:
    """Stop when the run is better or worse than a finished run, or tied with it within ``margin``.

    Args:
        tasks: the run in progress, a matrix per task.
        others: the finished run on the same tasks and problems, row by row.
        margin: a difference below it is of no interest, a fraction.
    """
    drawn, finished = [in_rounds(task) for task in tasks], [in_rounds(other) for other in others]
    parts = [paired_difference(b, a, "these problems") for a, b in zip(drawn, finished, strict=True)]
    difference = mean_difference(parts)
    interval = anytime(difference, aim=margin).interval()
    rounds = [task.shape[1] for task in drawn]
    fewest = min([*rounds, *(other.shape[1] for other in finished)])
    verdict = _verdict(interval, margin) if fewest >= MIN_ROUNDS else None
    return StopDecision(
        stop=verdict is not None,
        reason=_too_early(fewest) if fewest < MIN_ROUNDS else verdict or f"not decided after {max(rounds)} rounds",
        rounds=max(rounds),
        value=difference.value,
        interval=interval,
    )


def boundary(variance: float, aim: float) -> float:
    """Half-width of the interval in standard errors, at this variance of the estimate.

    ``aim`` is the half-width at which one hopes to stop; the bound is near its tightest there.

    >>> round(boundary(0.0033**2, aim=0.01), 2)  # 1.96 would do for a single look
    3.04
    """
    if math.isnan(variance):
        return math.nan
    hoped = (aim / 3.0) ** 2  # three standard errors: the bound at its tightest, see the example
    scaled = max(variance, 1e-12) / (hoped * _BEST)  # eta V
    return math.sqrt((1.0 + scaled) * (math.log((1.0 + scaled) / scaled) + _SQUARED_LOG))


def _verdict(interval: Interval, margin: float) -> str | None:
    if interval.low > 0:
        return f"better by {100 * interval.low:.1f} to {100 * interval.high:.1f} points"
    if interval.high < 0:
        return f"worse by {-100 * interval.high:.1f} to {-100 * interval.low:.1f} points"
    return f"tied within ±{100 * margin:g} points" if max(-interval.low, interval.high) <= margin else None


def in_rounds(correct: Matrix) -> Matrix:
    """The first decided samples of each problem, as many of each: [num_problems, complete rounds]."""
    rounds = complete_rounds(correct)
    decided = [row[~np.isnan(row)][:rounds] for row in correct]
    return np.stack(decided) if decided else correct


def _too_early(rounds: int) -> str:
    return f"{rounds} rounds of every problem; a decision needs {MIN_ROUNDS}"
