"""The difference of two methods over training seeds, and how many seeds a difference needs.

    d_si = x_Bsi - x_Asi   for seed s and problem i;   D_s = mean over tasks t of mean over problems i of d_si
    difference = mean over s of D_s

Trainings of one seed meet the same prompts in the same order, so where both methods were trained with the same seeds,
these are paired as problems are. Methods with other seeds, or other numbers of them, are independent:

    difference = mean over s of D_Bs - mean over s of D_As,    D_ms of the method's own x_msi

There are two errors, neither of which one training of each method can give:

``seeds like these``: the problems are fixed and the trainings are repeated. V_s = var_s(D_s) / S; Student's t with
S - 1 degrees. Of independent methods the variances add up, with the degrees of freedom of Welch (1947). It includes the
noise of the samples.
``seeds and problems like these``: both are drawn anew. With T tasks of n_t problems, seeds crossed with problems,

    V = V_s + sum_t (P_t - E_t) / T^2,   P_t = var_i(mean_s d_si) / n_t,
    E_t = sum_si (d_si - d_s. - d_.i + d_..)^2 / ((S - 1) (n_t - 1)) / (S n_t)

E_t is the part that V_s and P_t share (two-way random effects; Searle, Casella and McCulloch 1992, Ch. 4); of
independent methods P_t is that of the difference of their problems' means, and E_t the sum of both methods'. V is never
taken below V_s or below sum_t P_t / T^2. Degrees of freedom: V^2 / (V_s^2 / (S - 1) + sum_t (P_t / T^2)^2 / (n_t - 1))
(Satterthwaite 1946). With few seeds these can exceed S - 1 by so much that the interval is narrower than that of
``seeds like these``, which is then used: what is unknown of these problems is unknown of problems like these; p
likewise. Problems that were not drawn may change although no drawn one did: beyond 0 the interval knows of them as that
of two runs does (``statistics.difference``), by the problems' mean changes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stapo_bench.statistics.conventions import POWER
from stapo_bench.statistics.difference import UNDECIDED, Difference
from stapo_bench.statistics.estimators import Matrix, Vector
from stapo_bench.statistics.intervals import t_quantile
from stapo_bench.statistics.paired import Beyond, like_these, mean_difference

SeedError = Literal["seeds like these", "seeds and problems like these"]
SEED_ERRORS: tuple[SeedError, SeedError] = ("seeds like these", "seeds and problems like these")

MOST_SEEDS = 10_000
"""More trainings than this are not asked for: "no number is enough"."""


Groups = list[tuple[float, list[Matrix]]]
"""By method (one group if paired): its sign in the difference, and its matrices by task."""


def over_seeds(changes: Sequence[Matrix], error: SeedError, minus: Sequence[Matrix] | None = None) -> Difference:
    """The mean over tasks, problems and seeds, with its error.

    Args:
        changes: [num_seeds, num_problems] per task; row s of all is the same seed. Problems with a NaN are left out.
        error: which error the standard error describes.
        minus: of a method with seeds of its own, which is subtracted: [its number of seeds, num_problems] per task, the
            same problems as in ``changes``, which are then success rates.

    Returns:
        NaN as the standard error where the data cannot tell: one seed, or no variation at all.

    >>> found = over_seeds([np.array([[0.1, 0.3], [0.2, 0.4]])], "seeds like these")
    >>> round(found.value, 3), round(found.standard_error, 3)  # D = 0.2, 0.3; sqrt(0.005 / 2)
    (0.25, 0.05)
    """
    groups = _decided(changes, minus)
    if groups is None:
        return UNDECIDED
    variance, degrees, unseen = math.nan, math.inf, (0.0, 0.0)
    per_seed = [_per_seed(tasks) for _, tasks in groups]
    if all(len(means) > 1 for means in per_seed):
        parts = [(float(means.var(ddof=1)) / len(means), len(means) - 1) for means in per_seed]
        variance, spread_of_variance = sum(v for v, _ in parts), sum(v**2 / freedom for v, freedom in parts)
        degrees = variance**2 / spread_of_variance if spread_of_variance > 0 else math.inf
        if error == "seeds and problems like these":
            crossed = _crossed(groups, variance, spread_of_variance)
            variance, degrees = max((variance, degrees), crossed, key=_half_width)
            unseen = _unseen(groups)
    return Difference(
        value=sum(sign * float(means.mean()) for (sign, _), means in zip(groups, per_seed, strict=True)),
        # Equal to the last digit in all seeds: the same checkpoint twice, or too few samples. It proves nothing.
        standard_error=math.sqrt(variance) if variance > 0 else math.nan,
        degrees=degrees,
        num_problems=sum(task.shape[1] for task in groups[0][1]),
        unseen=unseen,
    )


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The two parts of a difference's variance, and how sure each is."""

    of_seeds: tuple[tuple[float, int], ...]  # by method (one if paired): variance of D_s, and number of seeds
    of_problems: tuple[tuple[float, int], ...]  # by task: variance that more seeds do not lower, and problems

    @property
    def seeds(self) -> float:
        """Standard error that comes from the seeds."""
        return math.sqrt(sum(variance / count for variance, count in self.of_seeds))

    @property
    def problems(self) -> float:
        """Standard error that comes from the problems, whatever the number of seeds."""
        return math.sqrt(sum(variance for variance, _ in self.of_problems))


def spread(changes: Sequence[Matrix], minus: Sequence[Matrix] | None = None) -> Spread:
    """The variance over seeds and that over problems, kept apart; arguments as in ``over_seeds``.

    >>> found = spread([np.array([[0.2, 0.8], [0.4, 0.8], [0.3, 0.8]])])  # D = 0.5, 0.6, 0.55; 0.3 and 0.8 over seeds
    >>> round(found.seeds**2, 6), round(found.problems**2, 6)  # 0.0025 / 3; 0.125 / 2 less what both share, 1/1200
    (0.000833, 0.061667)
    """
    groups = _decided(changes, minus)
    if groups is None or any(len(tasks[0]) < 2 for _, tasks in groups):
        return Spread(of_seeds=((math.nan, 2),), of_problems=())
    of_problems, shared = _of_problems(groups)
    return Spread(
        of_seeds=tuple((float(_per_seed(tasks).var(ddof=1)), len(tasks[0])) for _, tasks in groups),
        of_problems=tuple(
            (max(0.0, variance - both), task.shape[1])
            for variance, both, task in zip(of_problems, shared, groups[0][1], strict=True)
        ),
    )


@dataclass(frozen=True, kw_only=True)
class SeedsNeeded:
    """Seeds of each method that show a difference; inf: no number does. The range is the spread's own uncertainty."""

    number: float
    fewest: float  # if the seeds' true spread were at the lower end of its 95 % interval
    most: float


def seeds_needed(found: Spread, detect: float, error: SeedError, power: float = POWER) -> SeedsNeeded:
    """How many seeds of each method show a true difference of this size, by Student's t at 5 %.

    The deviation over a few seeds is hardly known: s^2 df / chi^2 bounds it, and with it the number of seeds.

    Args:
        found: the two parts of the error, from the seeds there are.
        detect: the true difference, a fraction.
        error: the claim that is to be made.
        power: the probability of showing it.
    """
    from scipy.special import chdtri

    if math.isnan(found.seeds) or found.seeds == 0.0:
        return SeedsNeeded(number=math.nan, fewest=math.nan, most=math.nan)
    variance = sum(v for v, _ in found.of_seeds)
    degrees = variance**2 / sum(v**2 / (count - 1) for v, count in found.of_seeds)
    per_seed = variance**2 / sum(v**2 for v, _ in found.of_seeds)  # degrees that each further seed of all methods adds
    ends = [variance * degrees / float(chdtri(degrees, tail)) for tail in (0.025, 0.975)]
    problems = found.of_problems if error == "seeds and problems like these" else ()
    number, fewest, most = (_fewest_seeds(v, per_seed, problems, detect, power) for v in (variance, *ends))
    return SeedsNeeded(number=number, fewest=fewest, most=most)


def _fewest_seeds(
    variance: float, per_seed: float, problems: Sequence[tuple[float, int]], detect: float, power: float
) -> float:
    """The smallest number of seeds with this power; inf where none has it."""
    low, high = 1, 2  # by doubling, then halving: power grows with the number
    while _power(variance, per_seed, problems, detect, high) < power:
        if high == MOST_SEEDS:
            return math.inf
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        enough = _power(variance, per_seed, problems, detect, middle) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def _power(
    variance: float, per_seed: float, problems: Sequence[tuple[float, int]], detect: float, num_seeds: int
) -> float:
    """P(t > t_0.975) under the noncentral t with |detect| / sqrt V."""
    from scipy.special import nctdtr

    of_seeds = variance / num_seeds
    total = of_seeds + sum(v for v, _ in problems)
    rest = of_seeds**2 / (per_seed * (num_seeds - 1)) + sum(v**2 / (count - 1) for v, count in problems)
    degrees = total**2 / rest
    # Far from the quantile scipy's function can lose its way; there the power is 1 in every digit.
    effect = min(abs(detect) / math.sqrt(total), t_quantile(0.95, degrees) + 30.0)
    return 1.0 - float(nctdtr(degrees, effect, t_quantile(0.95, degrees)))


def _decided(changes: Sequence[Matrix], minus: Sequence[Matrix] | None) -> Groups | None:
    """Both groups, or one, over the problems that every seed of each has decided; None where a task has none."""
    groups = [(1.0, changes), *([(-1.0, minus)] if minus is not None else [])]
    by_task = zip(*(tasks for _, tasks in groups), strict=True)
    kept = [~np.any([np.isnan(matrix).any(axis=0) for matrix in of_task], axis=0) for of_task in by_task]
    if not kept or not all(mask.any() for mask in kept):
        return None
    return [(sign, [task[:, mask] for task, mask in zip(tasks, kept, strict=True)]) for sign, tasks in groups]


def _per_seed(tasks: Sequence[Matrix]) -> Vector:
    """D_s, [num_seeds]."""
    means: Vector = np.mean([task.mean(axis=1) for task in tasks], axis=0)
    return means


def _half_width(variance_and_degrees: tuple[float, float]) -> float:
    """Half-width of a 95 % interval."""
    variance, degrees = variance_and_degrees
    return math.inf if math.isnan(variance) else t_quantile(0.95, degrees) * math.sqrt(variance)


def _crossed(groups: Groups, of_seeds: float, spread_of_variance: float) -> tuple[float, float]:
    """V and its degrees of freedom, from V_s and sum V_s^2 / df; NaN where a task has one problem alone."""
    tasks = groups[0][1]
    if any(task.shape[1] < 2 for task in tasks):
        return math.nan, math.inf
    of_problems, shared = _of_problems(groups)
    variance = max(of_seeds + sum(of_problems) - sum(shared), of_seeds, sum(of_problems))
    spread_of_variance += sum(v**2 / (task.shape[1] - 1) for v, task in zip(of_problems, tasks, strict=True))
    return variance, variance**2 / spread_of_variance if spread_of_variance > 0 else math.inf


def _unseen(groups: Groups) -> tuple[float, float]:
    """What problems that were not drawn may lose and gain, from the mean changes of those that were."""
    # The prior keeps changes that are all equal from being divided by their deviation; it counts for nothing else.
    parts = [like_these(_mean_change(groups, of_task), Beyond(1e-12, 1.0, 1.0)) for of_task in _by_task(groups)]
    return mean_difference([replace(part, standard_error=1.0) for part in parts]).unseen


def _by_task(groups: Groups) -> list[tuple[Matrix, ...]]:
    return list(zip(*(tasks for _, tasks in groups), strict=True))


def _mean_change(groups: Groups, of_task: Sequence[Matrix]) -> Vector:
    """[num_problems] of the difference's mean over seeds."""
    change: Vector = np.sum([sign * task.mean(axis=0) for (sign, _), task in zip(groups, of_task, strict=True)], axis=0)
    return change


def _of_problems(groups: Groups) -> tuple[list[float], list[float]]:
    """P_t / T^2 and E_t / T^2 by task; 0 for a task of one problem."""
    scale = len(groups[0][1]) ** 2
    of_problems, shared = [], []
    for of_task in _by_task(groups):
        num = of_task[0].shape[1]
        of_problems.append(float(_mean_change(groups, of_task).var(ddof=1)) / num / scale if num > 1 else 0.0)
        rests = [task - task.mean(axis=1, keepdims=True) - task.mean(axis=0) + task.mean() for task in of_task]
        shared.append(
            sum(float((r**2).sum()) / ((len(r) - 1) * (num - 1)) / (len(r) * num) for r in rests) / scale
            if num > 1
            else 0.0
        )
    return of_problems, shared
