"""What a printed mean and its protocol say of its error, without a single sample.

A mean p over n problems with k samples each does not tell how its problems' rates p_i lie; they decide its error. With

    v = p (1 - p)   and   rho = var_i(p_i) / v,   the share of the variance that lies between problems, 0 to 1,

the error of the mean is, for samples that are independent given their problem,

    these problems:       Var = (1 - rho) v / (n k)
    problems like these:  Var = (rho + (1 - rho) / k) v / n

rho = 0 (all problems equally hard) is the worst case of the first, v / (n k), and rho = 1 (each problem always or never
solved) that of the second, v / n: between them lies all that can be. The difference of two means over the same problems
varies less, as both find the same problems hard. With r the correlation of p_Ai and p_Bi over the problems,

    these problems:       Var = sum of both
    problems like these:  Var = sum of both - 2 r rho sqrt(v_A v_B) / n

Without samples r has only Fréchet's bound: at most min(p_A + p_B, 2 - p_A - p_B) of the problems are solved by one of
the two alone, so that Var <= (min(p_A + p_B, 2 - p_A - p_B) - (p_B - p_A)^2) / n.

The variances hold the means as if one sample more had been right and one wrong (Agresti and Caffo 2000, Am. Stat.
54:280), so that a printed 0 or 100 has an error, too.
"""

import math
from dataclasses import dataclass

import numpy as np

from stapo_bench.statistics.conventions import LEVEL, POWER
from stapo_bench.statistics.difference import Difference
from stapo_bench.statistics.estimators import Matrix, problem_means
from stapo_bench.statistics.intervals import ErrorName, normal_quantile, t_quantile


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A printed mean with its protocol."""

    value: float  # a fraction
    num_problems: int
    num_samples: int  # of each problem


@dataclass(frozen=True, kw_only=True)
class Shares:
    """What samples would have shown of two means' problems."""

    between: float  # rho, of both
    correlation: float  # r


WORST: dict[ErrorName, Shares | None] = {
    "these problems": Shares(between=0.0, correlation=0.0),
    "problems like these": None,
}
"""By error, what makes it largest; None: Fréchet's bound."""


def reported_error(score: Reported, error: ErrorName, between: float) -> float:
    """Standard error of a printed mean under a named error, if ``between`` of the variance lies between problems.

    >>> aime = Reported(value=0.25, num_problems=30, num_samples=32)
    >>> round(reported_error(aime, "these problems", 0.0), 4)  # sqrt(0.25 * 0.75 / 960), at the most
    0.014
    >>> round(reported_error(aime, "problems like these", 1.0), 4)  # 8.5 of 32: sqrt(0.26563 * 0.73438 / 30)
    0.0806
    """
    spread = _variance(score, error)
    if error == "these problems":
        return math.sqrt((1.0 - between) * spread / (score.num_problems * score.num_samples))
    return math.sqrt((between + (1.0 - between) / score.num_samples) * spread / score.num_problems)


def reported_difference(a: Reported, b: Reported, error: ErrorName, shares: Shares | None) -> Difference:
    """B - A of two printed means over the same problems, with the error that ``shares`` gives it.

    Args:
        a, b: with the same number of problems.
        error: which error.
        shares: how the problems' rates lie; None: as badly as they can.

    Raises:
        ValueError: other numbers of problems.
    """
    if a.num_problems != b.num_problems:
        raise ValueError(f"expected means over the same problems, got {a.num_problems} and {b.num_problems} of them")
    n = a.num_problems
    shares = WORST[error] if shares is None else shares
    if shares is None:
        right_a, right_b = _shrunk(a.value, n), _shrunk(b.value, n)
        apart = min(right_a + right_b, 2.0 - right_a - right_b)
        variance = (apart - (right_b - right_a) ** 2) / n
    else:
        variance = reported_error(a, error, shares.between) ** 2 + reported_error(b, error, shares.between) ** 2
        if error == "problems like these":
            shared = shares.correlation * shares.between * math.sqrt(_variance(a, error) * _variance(b, error))
            variance -= 2.0 * shared / n
    return Difference(
        value=b.value - a.value,
        standard_error=math.sqrt(max(0.0, variance)),
        degrees=math.inf if error == "these problems" else max(1, n - 1),
        num_problems=n,
        farthest=1.0,
    )


def half_width(difference: Difference, level: float = LEVEL) -> float:
    """How far from 0 an estimate with this error must lie to be told from it, two-sided."""
    is_normal = math.isinf(difference.degrees)
    quantile = normal_quantile(1.0 - level) if is_normal else t_quantile(1.0 - level, difference.degrees)
    return quantile * difference.standard_error


def times_needed(difference: Difference, power: float = POWER) -> float:
    """How many times as much data would find a true difference of this size: ((z_0.975 + z_power) se / value)^2.

    Problems for problems like these, samples or problems for these problems: either error falls with its root.

    >>> times_needed(Difference(value=0.028, standard_error=0.01, degrees=math.inf, num_problems=30)).__round__(2)
    1.0
    """
    if difference.value == 0.0:
        return math.inf
    quantiles = normal_quantile(1.0 - LEVEL) + normal_quantile(2.0 * power - 1.0)
    return (quantiles * difference.standard_error / difference.value) ** 2


def seed_spread_allowed(value: float, num_trainings: int = 1) -> float:
    """Standard deviation over training seeds above which a difference of this size is not told from 0.

    With s over the seeds of either method, the difference of their means varies by s sqrt(2 / S): beyond
    |value| / (z_0.975 sqrt(2 / S)) repeated trainings alone would bring it about.

    >>> round(seed_spread_allowed(0.0277), 4)  # 0.0277 / (1.96 * 1.4142)
    0.01
    """
    return abs(value) / (normal_quantile(1.0 - LEVEL) * math.sqrt(2.0 / num_trainings))


def trainings_needed(value: float, spread: float, power: float = POWER) -> float:
    """Trainings of each method that find a true difference, at a known standard deviation over seeds.

    2 ((z_0.975 + z_power) s / value)^2, rounded up, two at least; sampling noise not counted.

    >>> trainings_needed(0.02, 0.01), trainings_needed(0.01, 0.01)  # 2 * 7.849 / 4 = 3.9; 15.7
    (4, 16)
    """
    if value == 0.0:
        return math.inf
    quantiles = normal_quantile(1.0 - LEVEL) + normal_quantile(2.0 * power - 1.0)
    return max(2, math.ceil(2.0 * (quantiles * spread / value) ** 2))


def share_between(correct: Matrix) -> float:
    """rho of a matrix of outcomes: the variance between problems' rates over that of all; NaN without repeated samples.

    Both parts unbiased: that between means less what samples add, and the mean of s_i^2 within.

    >>> share_between(np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])).__round__(2)  # 1/4 - 1/6 / 2; within 1/6
    0.5
    """
    repeated = correct[(~np.isnan(correct)).sum(axis=1) > 1]
    if len(repeated) < 2:
        return math.nan
    means = problem_means(repeated)
    samples = (~np.isnan(repeated)).sum(axis=1)
    within = means * (1.0 - means) * samples / (samples - 1.0)
    between = float(means.var(ddof=1) - (within / samples).mean())
    total = between + float(within.mean())
    return between / total if total > 0 else math.nan


def share_common(a: Matrix, b: Matrix) -> float:
    """r rho of two runs over the same problems, cov(x_Ai, x_Bi) / sqrt(v_A v_B): one sample of each problem is enough.

    >>> share_common(np.array([[1.0], [1.0], [0.0], [0.0]]), np.array([[1.0], [0.0], [0.0], [0.0]])).__round__(3)
    0.77
    """
    means = np.stack([problem_means(run) for run in (a, b)])
    means = means[:, ~np.isnan(means).any(axis=0)]
    if means.shape[1] < 2:
        return math.nan
    of_all = means.mean(axis=1)
    scale = math.sqrt(float((of_all * (1.0 - of_all)).prod()))
    return float(np.cov(means)[0, 1]) / scale if scale > 0 else math.nan


def share_of_passes(mean: float, passed: float, k: int) -> float:
    """rho that a printed pass@1 and pass@k imply, for rates that follow a Beta distribution.

    1 - pass@k = prod_{j<k} ((1 - rho) (1 - p) + j rho) / ((1 - rho) + j rho), which grows with rho. NaN where no rho
    gives it.

    >>> share_of_passes(0.5, 0.75, 2), round(share_of_passes(0.5, 0.625, 2), 4)  # 1 - pass@2 = 1/4 + rho / 4
    (0.0, 0.5)
    """

    def failed(rho: float) -> float:
        later = (((1.0 - rho) * (1.0 - mean) + j * rho) / (1.0 - rho + j * rho) for j in range(1, k))
        return (1.0 - mean) * math.prod(later)

    low, high = 0.0, 1.0
    if not failed(low) - 1e-12 <= 1.0 - passed <= failed(high) + 1e-12:
        return math.nan
    while high - low > 1e-12:
        middle = (low + high) / 2.0
        low, high = (middle, high) if failed(middle) < 1.0 - passed - 1e-13 else (low, middle)
    return low


def _variance(score: Reported, error: ErrorName) -> float:
    """p (1 - p) of the shrunken mean."""
    size = score.num_problems * (score.num_samples if error == "these problems" else 1)
    shrunk = _shrunk(score.value, size)
    return shrunk * (1.0 - shrunk)


def _shrunk(value: float, size: int) -> float:
    return (value * size + 1.0) / (size + 2.0)
