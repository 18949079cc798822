"""Intervals for avg@k under two named errors.

``these problems``: the problems are fixed and only the samples are drawn again. This is the error of *the number*: what
a second evaluation of the same checkpoint on the same benchmark would show.
``problems like these``: the problems, too, are drawn from a larger population (Miller 2024, arXiv:2411.00640:
errors clustered by problem). This is the error of *the claim* about the model.

The usual normal interval fails where benchmarks live: 30 problems, most of them always wrong. Both errors use one
construction instead: the score interval (Wilson 1927) with an effective sample size. With V an estimate of the variance
of avg@k, the design effect d = V / V_binomial says how much less (stratified samples) or more (clustered problems) the
mean varies than the mean of as many independent draws, and the interval is Wilson's for n_eff = n / d. A pseudo-count
keeps d from vanishing when no variation was seen by chance. ``tests/test_intervals.py`` measures the coverage.

Scores between 0 and 1 vary by at most m (1 - m), so the construction is theirs, too. They show by themselves how much
they vary: there is no pseudo-count where any of them did, and for these problems the quantile is Student's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from stapo_bench.statistics.clusters import Labels, Units, units_of
from stapo_bench.statistics.estimators import Matrix, Vector, is_binary, problem_means

ErrorName = Literal["these problems", "problems like these"]
ERROR_NAMES: tuple[ErrorName, ErrorName] = ("these problems", "problems like these")

_PROBLEM_PRIOR = 0.05
"""Variance added to the sum over problems: that of one twentieth of a problem which is always or never solved, and of
one twentieth of a cluster of them, each by itself."""

ROUNDING = 1e-12
"""What is smaller than this share of what it was computed from is the noise of floating point, not of the scores."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """[low, high], in the unit of the estimate; NaN where the data cannot tell (one problem, one sample)."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low


UNKNOWN = Interval(low=float("nan"), high=float("nan"))


def interval(
    correct: Matrix, error: ErrorName, confidence: float = 0.95, *, clusters: Labels | None = None
) -> Interval:
    """Interval of avg@k under a named error. ``correct`` is [num_problems, num_samples], from 0 to 1, or NaN.

    ``clusters``, [num_problems], are equal for problems that belong together, and vary on problems like these. None: no
    two of them do.

    >>> round(interval(np.zeros((30, 32)), "these problems").high, 4)  # 960 wrong of 960
    0.004
    >>> round(interval(np.zeros((30, 32)), "problems like these").high, 4)  # 30 unsolved problems of 30
    0.1224
    """
    if error == "these problems":
        return sampling_interval(correct, ordinary_quantile(correct, error, confidence))
    quantile = t_quantile(confidence, max(1.0, _units(correct, clusters).degrees))
    return clustered_interval(correct, quantile, clusters)


def ordinary_quantile(correct: Matrix, error: ErrorName, confidence: float = 0.95) -> float:
    """Half-width of a single look's interval in standard errors: normal, or Student's with num_problems - 1 degrees.

    Of scores between 0 and 1, for these problems, Student's with as many degrees as samples beyond a problem's first.
    """
    decided = ~np.isnan(correct)
    num = int(decided.any(axis=1).sum())
    if error == "these problems":
        if is_binary(correct):
            return normal_quantile(confidence)
        return t_quantile(confidence, max(1, num - 1, int(decided.sum()) - num))
    return t_quantile(confidence, max(1, num - 1))


def normal_quantile(confidence: float) -> float:
    """z such that a standard normal lies within ± z with this probability."""
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


def t_quantile(confidence: float, degrees: float) -> float:
    """t such that Student's t with these degrees of freedom lies within ± t with this probability."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1.0 + confidence) / 2.0))


def confidence_of(quantile: float, degrees: float) -> float:
    """Probability with which Student's t lies within ± quantile: the inverse of ``t_quantile``."""
    from scipy.special import stdtr

    return float(2.0 * stdtr(degrees, quantile) - 1.0)


def sampling_variance(correct: Matrix) -> float:
    """Unbiased variance of avg@k over new samples of the same problems: (1/n^2) sum_i s_i^2 / k_i.

    s_i^2 is the unbiased variance of a problem's samples, x_i (1 - x_i) k_i / (k_i - 1) where they are right or wrong.
    A problem with one sample shows no variance of its own and gets that of all scores, never too small on average.
    """
    _, variances, samples = _by_problem(correct)
    return float((variances / samples).sum() / len(samples) ** 2) if len(samples) else np.nan


def clustered_variance(correct: Matrix) -> float:
    """Unbiased variance of avg@k over new problems and new samples: s^2 / n, s^2 between problem means."""
    means, _, _ = _by_problem(correct)
    return float(means.var(ddof=1) / len(means)) if len(means) > 1 else np.nan


def sampling_interval(correct: Matrix, quantile: float) -> Interval:
    """Interval for these problems, ``quantile`` standard errors wide on either side."""
    means, variances, samples = _by_problem(correct)
    if not len(samples):
        return UNKNOWN
    num = len(samples)
    per_problem = 1.0 / float((1.0 / samples).mean())  # harmonic mean: the k that equal k_i would need
    mean = float(means.mean())
    within = float((per_problem / samples * variances).sum())
    # As if half a sample of one further problem had come out the other way (Jeffreys' pseudo-count).
    prior = 0.5 / per_problem if is_binary(correct) or within <= ROUNDING * num * mean else 0.0
    design = (within + prior) / (num * mean * (1.0 - mean) + prior)
    return _score_interval(mean, num * per_problem / design, quantile)


def clustered_interval(correct: Matrix, quantile: float, clusters: Labels | None = None) -> Interval:
    """Interval for problems like these, ``quantile`` standard errors wide on either side."""
    units = _units(correct, clusters)
    free, num, mean = len(units.totals), units.number, units.value
    if free < 2:
        return UNKNOWN
    between = num * (float((units.centered**2).sum()) / (free - 1)) * (num / free)
    prior = 0.0
    if is_binary(correct) or between <= ROUNDING * num * mean:
        prior = _PROBLEM_PRIOR * (num / int((~np.isnan(correct)).any(axis=1).sum()))
    design = (between + prior) / (num * mean * (1.0 - mean) + prior)
    return _score_interval(mean, num / design, quantile)


def macro_interval(values: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Interval of the mean over tasks, from the tasks' own: the method of variance estimates recovery.

    low = m - sqrt(sum_t (v_t - low_t)^2) / T, high likewise: exact for normal errors, and it keeps each task's
    skewness near 0 and 1. Zou and Donner 2008 (Statistics in Medicine 27:1693). Tasks are a fixed list, not a
    sample of tasks; their samples and problems are independent.

    >>> round(macro_interval([0.5, 0.5], [Interval(low=0.4, high=0.6)] * 2).high, 4)  # 0.5 + 0.1 * sqrt(2) / 2
    0.5707
    """
    if not values or any(math.isnan(interval.low) for interval in intervals):
        return UNKNOWN
    mean = float(np.mean(values))
    below = [value - interval.low for value, interval in zip(values, intervals, strict=True)]
    above = [interval.high - value for value, interval in zip(values, intervals, strict=True)]
    return Interval(
        low=max(0.0, mean - float(np.linalg.norm(below)) / len(values)),
        high=min(1.0, mean + float(np.linalg.norm(above)) / len(values)),
    )


def _units(correct: Matrix, clusters: Labels | None) -> Units:
    """What varies on problems like these: problems with any sample, or their clusters."""
    means, _, _ = _by_problem(correct)
    seen = (~np.isnan(correct)).any(axis=1)
    return units_of(means, None if clusters is None else clusters[seen])


def _by_problem(scores: Matrix) -> tuple[Vector, Vector, Vector]:
    """Mean, unbiased variance of a sample and number of samples of each problem with any; three [num_seen]."""
    decided = ~np.isnan(scores)
    if not ((scores[decided] >= 0.0) & (scores[decided] <= 1.0)).all():
        raise ValueError("expected only scores from 0 to 1 and NaN in the matrix")
    samples = decided.sum(axis=1).astype(np.float64)
    seen = samples > 0
    means, squares, samples = problem_means(scores)[seen], problem_means(scores**2)[seen], samples[seen]
    # m (1 - m) is all of the variance of right and wrong; what lies between takes its distance from the ends off.
    own = (means * (1.0 - means) - (means - squares)) * samples / np.maximum(samples - 1.0, 1.0)
    pooled = float(means.mean() * (1.0 - means.mean()) - (means - squares).mean()) if len(means) else np.nan
    return means, np.maximum(np.where(samples > 1, own, pooled), 0.0), samples


def _score_interval(mean: float, size: float, quantile: float) -> Interval:
    """Wilson's interval: all p with |mean - p| <= quantile sqrt(p (1 - p) / size)."""
    shift = quantile**2 / size
    center = (mean + shift / 2.0) / (1.0 + shift)
    half = np.sqrt(shift * mean * (1.0 - mean) + shift**2 / 4.0) / (1.0 + shift)
    return Interval(low=max(0.0, float(center - half)), high=min(1.0, float(center + half)))
