"""Is B better than A? Paired differences of avg@k on the same problems, under both named errors.

    difference = mean_i d_i,  d_i = x_Bi - x_Ai over the problems that both runs have decided

``these problems``: Var = sum_i (s_Ai^2 / k_Ai + s_Bi^2 / k_Bi) / n^2 for independent runs; normal.
``problems like these``: Var = s_d^2 / n, s_d between the differences of problems; Student's t with n - 1 degrees.
Pairing takes the difficulty of the problems out of the error (Miller 2024, arXiv:2411.00640, paired differences).

Gains are skewed where few problems have them: with 30 problems of which 9 can gain, the t interval held the truth in
91 of 100, not 95. The t statistic is therefore taken through Hall's transformation, which removes the skewness:

    g(T) = T + s T^2 / 3 + s^2 T^3 / 27 + s / 6,    s the skewness of the mean difference

(Hall 1992, J. R. Statist. Soc. B 54:221). The skewness of few differences is mostly noise, so it is shrunk.
``bench.coverage`` measures the coverage.

Runs with the same seeds are not independent: sample j of a problem meets the same random numbers in both, and models
that are alike write alike. Their shared noise is taken out of the error, with s_ABi the covariance over the m_i samples
j that both have:

    Var = sum_i (s_Ai^2 / k_Ai + s_Bi^2 / k_Bi - 2 m_i s_ABi / (k_Ai k_Bi)) / n^2

That is right whether the numbers couple the samples or not, and where one run lacks samples that the other has. Without
gaps it is the variance of the differences of samples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np

from stapo_bench.statistics.conventions import LEVEL
from stapo_bench.statistics.estimators import Matrix, Vector, problem_means
from stapo_bench.statistics.intervals import ErrorName, Interval, normal_quantile, t_quantile

_SKEWNESS_PRIOR = 100
"""Number of problems at which the observed skewness is shrunk by half. A smaller prior tells equal runs apart in more
than 6 of 100 at 30 problems; with a larger one, coverage falls below 93 of 100."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """An estimated difference with its error. Fractions; NaN where the data cannot tell."""

    value: float
    standard_error: float
    degrees: float  # of freedom; inf: normal
    num_problems: int
    skewness: float = 0.0  # of the error: its third moment over that of the second, shrunk

    def interval(self, confidence: float = 0.95) -> Interval:
        """value ± q standard errors, shifted in the direction of the skewness; not cut off at ±1."""
        quantile = self._quantile(confidence)
        return Interval(
            low=self.value - self._skewed(quantile) * self.standard_error,
            high=self.value - self._skewed(-quantile) * self.standard_error,
        )

    @property
    def p_value(self) -> float:
        """Two-sided: how often a difference at least this large would be seen if there were none."""
        if math.isnan(self.standard_error):
            return math.nan
        t, s = self.value / self.standard_error, self.skewness
        statistic = abs(t + s * t**2 / 3.0 + s**2 * t**3 / 27.0 + s / 6.0)
        if math.isinf(self.degrees):
            return 2.0 * NormalDist().cdf(-statistic)
        from scipy.special import stdtr

        return float(2.0 * stdtr(self.degrees, -statistic))

    def tied_within(self, num_claims: int = 1) -> float:
        """Smallest x for which |difference| >= x is refuted: two one-sided tests (Schuirmann 1987).

        Of ``num_claims`` such bounds, all hold together in 95 of 100 cases (Bonferroni).
        """
        interval = self.interval(1.0 - 2.0 * LEVEL / num_claims)
        return max(-interval.low, interval.high)

    def _skewed(self, quantile: float) -> float:
        """T where g(T) is this quantile: 3 / s ((1 + s (q - s / 6))^(1/3) - 1)."""
        s = self.skewness
        return quantile if abs(s) < 1e-6 else 3.0 / s * float(np.cbrt(1.0 + s * (quantile - s / 6.0)) - 1.0)

    def _quantile(self, confidence: float) -> float:
        return normal_quantile(confidence) if math.isinf(self.degrees) else t_quantile(confidence, self.degrees)


UNDECIDED = Difference(value=math.nan, standard_error=math.nan, degrees=math.inf, num_problems=0)


def paired_difference(a: Matrix, b: Matrix, error: ErrorName, *, same_seeds: bool = False) -> Difference:
    """avg@k of B minus that of A over their common problems.

    Args:
        a, b: [num_problems, k_A] and [num_problems, k_B]; row i of both is the same problem. 1 / 0 / NaN.
        error: which error the standard error describes.
        same_seeds: sample j of a problem was sampled with the same seed in both runs.

    >>> a, b = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [1.0, 0.0]])
    >>> paired_difference(a, b, "these problems").value
    0.5
    """
    return contrast([a, b], [-1.0, 1.0], error, same_seeds=same_seeds)


def contrast(
    runs: Sequence[Matrix], weights: Sequence[float], error: ErrorName, *, same_seeds: bool = False
) -> Difference:
    """sum_r weight_r avg@k_r over the problems that all runs have decided: differences, and differences of differences.

    Args:
        runs: row i of all is the same problem.
        weights: one per run, adding up to 0.
        error: which error the standard error describes.
        same_seeds: sample j of a problem was sampled with the same seed in all runs; else the runs are independent.
    """
    if len({len(run) for run in runs}) != 1:
        raise ValueError(f"expected the same problems in all runs, got {', '.join(str(len(run)) for run in runs)}")
    means = np.stack([problem_means(run) for run in runs])  # [num_runs, num_problems]
    common = ~np.isnan(means).any(axis=0)
    num = int(common.sum())
    if num == 0:
        return UNDECIDED
    factors = np.array(weights)
    changes: Vector = factors @ means[:, common]
    used = [run[common] for run in runs]
    # As if half a sample of one further problem had come out the other way, in each run; see intervals.
    prior = float(factors**2 @ np.array([0.5 * _mean_inverse_samples(run) ** 2 for run in used]))
    skewness = 0.0
    if error == "these problems":
        noise = float(contrast_variances(used, weights, same_seeds=same_seeds)[1].sum())
        variance, degrees = (max(0.0, noise) + prior) / num**2, math.inf
    elif num < 2:
        variance, degrees = math.nan, math.inf
    else:
        # Problems that happen to show no difference at all do not prove that there is none.
        squares = float(((changes - changes.mean()) ** 2).sum()) + prior
        cubes = float(((changes - changes.mean()) ** 3).sum())
        skewness = cubes / squares**1.5 * num / (num + _SKEWNESS_PRIOR)
        variance, degrees = squares / (num - 1) / num, num - 1
    return Difference(
        value=float(changes.mean()),
        standard_error=math.sqrt(variance),
        degrees=degrees,
        num_problems=num,
        skewness=skewness,
    )


def mean_difference(parts: Sequence[Difference]) -> Difference:
    """The mean over independent tasks, each of the same weight.

    Var = sum_t Var_t / T^2 with the degrees of freedom of Welch (1947) and Satterthwaite (1946):
    (sum_t Var_t)^2 / sum_t (Var_t^2 / degrees_t). Third moments add up as variances do.
    """
    if not parts or any(math.isnan(part.standard_error) for part in parts):
        return UNDECIDED
    variances = np.array([part.standard_error**2 for part in parts])
    spread = sum(float(v) ** 2 / part.degrees for v, part in zip(variances, parts, strict=True))
    return Difference(
        value=float(np.mean([part.value for part in parts])),
        standard_error=float(np.sqrt(variances.sum())) / len(parts),
        degrees=float(variances.sum()) ** 2 / spread if spread > 0 else math.inf,
        num_problems=sum(part.num_problems for part in parts),
        skewness=sum(part.skewness * part.standard_error**3 for part in parts) / float(variances.sum()) ** 1.5,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) adjusted p-values: the chance of any false alarm among all tests stays below the level.

    NaN stays NaN and is not counted as a test.

    >>> holm([0.01, 0.04, 0.03])  # 0.01 * 3; then 0.03 * 2; then 0.04 * 1, never below the one before
    [0.03, 0.06, 0.06]
    """
    adjusted = list(p_values)
    tested = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    running = 0.0
    for rank, (p, i) in enumerate(tested):
        running = max(running, min(1.0, p * (len(tested) - rank)))
        adjusted[i] = running
    return adjusted


def contrast_variances(
    runs: Sequence[Matrix], weights: Sequence[float], *, same_seeds: bool = False
) -> tuple[Vector, Vector]:
    """Variances of sum_r w_r x_rij, one sample j of each run, and of sum_r w_r mean_j x_rij, the samples as drawn.

        sum_rq w_r w_q s_rqi    and    sum_rq w_r w_q s_rqi m_rqi / (k_ri k_qi)

    s_rq is the covariance over the m_rq samples that runs r and q have in common (s_rr = s_r^2, m_rr = k_r), and 0 for
    independent runs and for m_rq < 2. A problem with a single sample gets the variance of the pooled mean. Both are
    unbiased, so with gaps they may come out below 0. Every problem needs a decided sample in every run.

    Returns:
        Two [num_problems] arrays.

    >>> contrast_variances([np.array([[1.0, 0.0]]), np.array([[1.0, np.nan]])], [-1.0, 1.0])  # 1/2 and 0; 1/2 / 2
    (array([0.5]), array([0.25]))
    """
    width = max(run.shape[1] for run in runs)
    padded = [np.pad(run, ((0, 0), (0, width - run.shape[1])), constant_values=np.nan) for run in runs]
    samples = [(~np.isnan(run)).sum(axis=1) for run in runs]
    of_samples, of_means = np.zeros((2, len(runs[0])))
    for r, q in product(range(len(runs)), repeat=2):
        if r != q and not same_seeds:
            continue
        covariances, common = _covariances(padded[r], padded[q])
        if r == q:
            pooled = float(problem_means(runs[r]).mean())
            covariances = np.where(common > 1, covariances, pooled * (1.0 - pooled))
        part = weights[r] * weights[q] * covariances
        of_samples += part
        of_means += part * common / (samples[r] * samples[q])
    return of_samples, of_means


def _covariances(a: Matrix, b: Matrix) -> tuple[Vector, Vector]:
    """Covariance over the samples that both have, and how many these are: [num_problems]; 0 for fewer than two."""
    both = ~(np.isnan(a) | np.isnan(b))
    common: Vector = both.sum(axis=1).astype(np.float64)
    a, b = np.where(both, a, 0.0), np.where(both, b, 0.0)
    products: Vector = (a * b).sum(axis=1) - a.sum(axis=1) * b.sum(axis=1) / np.maximum(common, 1.0)
    return products / np.maximum(common - 1.0, 1.0), common


def _mean_inverse_samples(correct: Matrix) -> float:
    return float((1.0 / (~np.isnan(correct)).sum(axis=1)).mean())
