"""Is B better than A? Paired differences of avg@k on the same problems, under both named errors.

    difference = mean_i d_i,  d_i = x_Bi - x_Ai over the problems that both runs have decided

``these problems``: Var = sum_i (s_Ai^2 / k_Ai + s_Bi^2 / k_Bi) / n^2 for independent runs; normal.
``problems like these``: Var = s_d^2 / n, s_d between the differences of problems; Student's t with n - 1 degrees.
Pairing takes the difficulty of the problems out of the error (Miller 2024, arXiv:2411.00640, paired differences).

Gains are skewed where few problems have them: with 30 problems of which 9 can gain, the t interval held the truth in
91 of 100, not 95. Interval and test therefore know the skewness, and what the problems may not have shown; see
``difference``. The skewness of few differences is mostly noise, and differences are few where few problems changed:
it is shrunk by m / (m + 20), with m = (sum_i d_i^2)^2 / sum_i d_i^4 their effective number (n / 3 for normal ones), and
by 1 - sum_i c_i^6 / (sum_i c_i^3)^2, c_i = d_i - mean, the share that is not its own noise. The size gamma of changes
that were not seen follows from those that were, as long as they are few, and from a quarter of a problem that changed
in full. This quarter fades where the mean shows a change in this direction that no problem shows alone:

    gamma = (max(0, ±f sum_i c_i^3) + w R^3) / (sum_i c_i^2 + w R^2),
    f = 5 / (m + 5), w = exp(-max(0, ±t)^2) / 4, R the range of d_i

Scores show how far a change goes: reach is the largest |c_i|, half as far again where a few changed by themselves
(``_FAR``). An item that one of the runs puts at an end of the range may have changed in full, and the next one in full
from farther away: reach is then the whole range on this side, if such changes all go this way and the largest of them
is larger than any change the other way, than 4 median deviations and than 0.15 of the range.

``bench.coverage`` measures the coverage and the false ties, ``bench.outcomes`` those of scores.

Runs with the same seeds are not independent: sample j of a problem meets the same random numbers in both, and models
that are alike write alike. Their shared noise is taken out of the error, coupled or not, with s_ABi the covariance over
the m_i samples j that both have: Var = sum_i (s_Ai^2 / k_Ai + s_Bi^2 / k_Bi - 2 m_i s_ABi / (k_Ai k_Bi)) / n^2.

A problem with a single sample shows no noise of its own. Its part in the first variance is then only bounded from
above, by p (1 - p) of the pooled mean; the second variance is a bound of the first, too, and the smaller is taken.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stapo_bench.statistics.clusters import Labels, units_of
from stapo_bench.statistics.difference import UNDECIDED, Difference, Pairs
from stapo_bench.statistics.estimators import Matrix, Vector, is_binary, problem_means
from stapo_bench.statistics.intervals import ROUNDING, ErrorName

Mask = NDArray[np.bool_]

_SKEWNESS_PRIOR = 20
"""Effective number of changed problems at which the skewness beyond its noise is shrunk by half. With a smaller one,
some of six equal runs are told apart in more than 5 of 100; with a larger one, fewer rare gains are found."""

_FEW = 5
"""Effective number of changed problems at which their skewness counts by half for those unseen; from there on Hall's
transformation takes it over. With more, spread gains are covered in more than 97 of 100; with fewer, ties of rare gains
are false in more than 5 of 100."""

_UNSEEN_PROBLEMS = 0.25
"""Problems that changed in full and were not drawn. More of them widen the intervals of spread differences; with fewer,
intervals of rare ones cover less than 94 of 100."""

_FEW_SINGLE = 20
"""Problems with one sample each: with fewer, the pooled variance is too rough a guess of their noise (four that all
come out right show none), and the exact test of problems like these has to reject as well."""

_FAR = 3.0
"""Standard deviations of normal scores' third moment (its variance is 6 n sigma^6) beyond which a few changed by
themselves: one that was not drawn may then change half as far again. With fewer, intervals of ordinary scores are a
tenth longer than Student's; with more, rare gains in full are covered less often."""

_STANDS_OUT = 4.0
"""Median deviations (2.7 standard deviations of normal changes) beyond which a change to an end of the range is no
noise. With fewer, intervals of scores near 1 are longer; with more, gains in full that noise half hides are missed."""

_LARGE = 0.15
"""Share of the range below which a change to its end is none in full: scores near an end reach it by small steps."""


def paired_difference(
    a: Matrix, b: Matrix, error: ErrorName, *, same_seeds: bool = False, clusters: Labels | None = None
) -> Difference:
    """avg@k of B minus that of A over their common problems.

    Args:
        a, b: [num_problems, k_A] and [num_problems, k_B]; row i of both is the same problem. From 0 to 1, or NaN.
        error: which error the standard error describes.
        same_seeds: sample j of a problem was sampled with the same seed in both runs.
        clusters: [num_problems], equal for problems that belong together; None: no two of them do.

    >>> a, b = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [1.0, 0.0]])
    >>> paired_difference(a, b, "these problems").value
    0.5
    """
    return contrast([a, b], [-1.0, 1.0], error, same_seeds=same_seeds, clusters=clusters)


def contrast(
    runs: Sequence[Matrix],
    weights: Sequence[float],
    error: ErrorName,
    *,
    same_seeds: bool = False,
    clusters: Labels | None = None,
) -> Difference:
    """sum_r weight_r avg@k_r over the problems that all runs have decided: differences, and differences of differences.

    Args:
        runs: row i of all is the same problem.
        weights: one per run, adding up to 0.
        error: which error the standard error describes.
        same_seeds: sample j of a problem was sampled with the same seed in all runs; else the runs are independent.
        clusters: [num_problems], equal for problems that belong together; None: no two of them do.
    """
    if len({len(run) for run in runs}) != 1:
        raise ValueError(f"expected the same problems in all runs, got {', '.join(str(len(run)) for run in runs)}")
    means = np.stack([problem_means(run) for run in runs])  # [num_runs, num_problems]
    common = ~np.isnan(means).any(axis=0)
    num = int(common.sum())
    if num == 0:
        return UNDECIDED
    factors = np.array(weights)
    used = [run[common] for run in runs]
    changes: Vector = factors @ means[:, common]
    farthest = float(np.abs(factors).sum()) / 2.0  # of shares, with weights that add up to 0
    # As if half a sample of one further problem had come out the other way, in each run; see intervals.
    prior = float(factors**2 @ np.array([0.5 * _mean_inverse_samples(run) ** 2 for run in used]))
    beyond = Beyond(prior=prior, reach=farthest, farthest=farthest)
    if not all(map(is_binary, used)) and (reach := float(np.abs(changes - changes.mean()).max())) > ROUNDING:
        ends = np.any([_at_an_end(run) for run in means[:, common]], axis=0)
        beyond = Beyond(prior=0.0, reach=reach, farthest=farthest, in_full=_in_full(changes / farthest, ends))
    like = like_these(changes, beyond)
    if error == "problems like these":
        if clusters is not None:
            return like_these(changes, beyond, clusters[common])
        return replace(like, pairs=_pairs(used, weights))
    noise = max(0.0, float(contrast_variances(used, weights, same_seeds=same_seeds)[1].sum()))
    if noise > ROUNDING * num and beyond.prior == 0.0:
        prior = 0.0
    these = Difference(
        value=like.value,
        standard_error=math.sqrt(noise + prior * (beyond.reach / farthest) ** 2) / num,
        degrees=math.inf if beyond.prior else float(max(num - 1, sum((~np.isnan(run)).sum() - num for run in used))),
        num_problems=num,
        farthest=farthest,
    )
    # Nobody has seen the noise of a single sample: these problems are then no less certain than problems like these.
    bound = replace(like, unseen=(0.0, 0.0), unseen_by_ties=None, pairs=_pairs(used, weights))
    single = any(((~np.isnan(run)).sum(axis=1) == 1).any() for run in used)
    if bound.pairs and beyond.prior and num < _FEW_SINGLE:
        return bound if bound.p_value > these.p_value else these
    return bound if single and bound.unclipped().width < these.unclipped().width else these


class Beyond(NamedTuple):
    """What is assumed of changes that the problems did not show."""

    prior: float  # added to the sum of squares: problems that show no difference do not prove that there is none
    reach: float  # how far a problem that was not drawn is taken to change
    farthest: float  # how far any problem can change: a tie has to allow for it
    in_full: tuple[bool, bool] = (False, False)  # whether losses, and gains, are taken to go over the whole range


def like_these(changes: Vector, beyond: Beyond, clusters: Labels | None = None) -> Difference:
    """The mean of the problems' differences, for problems like these; see the module.

    Args:
        changes: [num_problems]
        beyond: what is assumed of changes that they do not show.
        clusters: [num_problems], equal for problems that belong together; None: no two of them do.
    """
    units = units_of(changes, clusters)
    num, value = len(units.totals), units.value
    if num < 2:
        return replace(UNDECIDED, value=value, num_problems=len(changes))
    prior = beyond.prior * (num / len(changes)) ** 2  # of a problem's part in its cluster
    squares, cubes = float((units.centered**2).sum()), float((units.centered**3).sum())
    standard_error = math.sqrt((squares + prior) / (num - 1) / num)
    fourth = float((units.totals**4).sum())
    changed = float((units.totals**2).sum()) ** 2 / fourth if fourth else 0.0
    beyond_noise = _beyond_noise(cubes, float((units.centered**6).sum()))
    believed, few = beyond_noise * changed / (changed + _SKEWNESS_PRIOR), _FEW / (changed + _FEW)
    if beyond.prior == 0.0:  # of scores, as far as the skewness is beyond its own noise or by far that of normal ones
        alone = _beyond_noise(cubes, _FAR**2 * 6.0 * squares**3 / num**2)
        few *= max(alone, beyond_noise)
        beyond = beyond._replace(reach=min(beyond.farthest, (1.0 + alone / 2.0) * beyond.reach))

    def unseen(reaches: Sequence[float]) -> tuple[float, float]:
        sizes = []
        for sign, reach in zip((-1.0, 1.0), reaches, strict=True):
            weight = _UNSEEN_PROBLEMS * math.exp(-(max(0.0, sign * value / standard_error) ** 2))
            full = squares + weight * reach**2
            sizes.append((max(0.0, sign * few * cubes) + weight * reach**3) / full if full else 0.0)
        return sizes[0] / num, sizes[1] / num

    return Difference(
        value=value,
        standard_error=standard_error,
        degrees=units.degrees,
        num_problems=len(changes),
        num_clusters=None if clusters is None else num,
        skewness=believed * cubes / (squares + prior) ** 1.5,
        unseen=unseen([beyond.farthest if full else beyond.reach for full in beyond.in_full]),
        unseen_by_ties=unseen([beyond.farthest] * 2) if beyond.prior == 0.0 else None,
        farthest=beyond.farthest,
    )


def _beyond_noise(cubes: float, variance: float) -> float:  # share of cubes^2 that is no noise of this variance
    return max(0.0, 1.0 - variance / cubes**2) if cubes else 0.0


def _at_an_end(means: Vector) -> Mask:
    """Problems of which all samples have the lowest score, or all the highest."""
    found: Mask = np.minimum(means, 1.0 - means) <= ROUNDING
    return found


def _in_full(changes: Vector, ends: Mask) -> tuple[bool, bool]:
    """Whether losses, and whether gains, are taken to go over the whole range; see the module.

    Args:
        changes: [num_problems], from -1 to 1
        ends: [num_problems], whether any run has this problem at an end of the range.

    >>> _in_full(np.array([0.0, 0.02, -0.02, 0.3]), np.array([False, False, False, True]))  # 0.3 > 4 * 0.02
    (False, True)
    """
    least = max(_LARGE, _STANDS_OUT * float(np.median(np.abs(changes - np.median(changes)))))
    at_ends = changes[ends & (np.abs(changes) > ROUNDING)]
    loss, gain = (bool(at_ends.size and (sign * at_ends > 0).all()) for sign in (-1.0, 1.0))
    lowest, highest = float(changes.min()), float(changes.max())
    largest = float(np.abs(at_ends).max(initial=0.0))
    return loss and largest > max(least, highest), gain and largest > max(least, -lowest)


def _pairs(runs: Sequence[Matrix], weights: Sequence[float]) -> Pairs | None:
    """How many problems the second run wins and loses, where both have one sample of each, right or wrong; else None.

    Of scores in between, how many rose does not tell how far the mean did.
    """
    if not all(map(is_binary, runs)):
        return None
    if list(weights) != [-1.0, 1.0] or any(((~np.isnan(run)).sum(axis=1) != 1).any() for run in runs):
        return None
    before, after = (problem_means(run) for run in runs)
    return Pairs(int((after > before).sum()), int((after < before).sum()))


def mean_difference(parts: Sequence[Difference]) -> Difference:
    """The mean over independent tasks, each of the same weight.

    Var = sum_t Var_t / T^2 with the degrees of freedom of Welch (1947) and Satterthwaite (1946):
    (sum_t Var_t)^2 / sum_t (Var_t^2 / degrees_t). Third moments add up as variances do. What was not seen lies, at
    worst, all in the task where a problem weighs most. One task is itself.
    """
    if len(parts) == 1:
        return parts[0]
    if not parts or any(math.isnan(part.standard_error) for part in parts):
        values = [part.value for part in parts] or [math.nan]
        return replace(UNDECIDED, value=float(np.mean(values)), num_problems=sum(part.num_problems for part in parts))
    variances = np.array([part.standard_error**2 for part in parts])
    graded = any(part.unseen_by_ties is not None for part in parts)
    spread = sum(float(v) ** 2 / part.degrees for v, part in zip(variances, parts, strict=True))
    return Difference(
        value=float(np.mean([part.value for part in parts])),
        standard_error=float(np.sqrt(variances.sum())) / len(parts),
        degrees=float(variances.sum()) ** 2 / spread if spread > 0 else math.inf,
        num_problems=sum(part.num_problems for part in parts),
        skewness=sum(part.skewness * part.standard_error**3 for part in parts) / float(variances.sum()) ** 1.5,
        num_clusters=sum(part.num_units for part in parts) if any(part.num_clusters for part in parts) else None,
        unseen=_largest([part.unseen for part in parts]),
        unseen_by_ties=_largest([part.unseen_by_ties or part.unseen for part in parts]) if graded else None,
        farthest=sum(part.farthest for part in parts) / len(parts),
    )


def _largest(unseen: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Of losses and of gains, in the mean over tasks: all in the task where a problem weighs most."""
    losses, gains = zip(*unseen, strict=True)
    return max(losses) / len(unseen), max(gains) / len(unseen)


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
            pooled = float(problem_means(runs[r] ** 2).mean()) - float(problem_means(runs[r]).mean()) ** 2
            covariances = np.where(common > 1, covariances, pooled)
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
