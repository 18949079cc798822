"""Several runs at once: which are told apart, which are shown to be tied, and which places each may have.

Of many pairs some differ by chance: among six equal models one of the fifteen intervals leaves out 0 in 37 of 100. Here
all pairs are judged together, so that 95 of 100 sets of intervals hold in full. The errors of the pairs hang together,
since every run stands in several of them. The squared standard errors say how: they are squared distances between the
runs' errors, and classical scaling (Torgerson 1952) turns distances into covariances,

    C = -1/2 J V J,    V_ab = se_ab^2,    J = 1 - 1/R

With errors z ~ N(0, C) and, where the degrees of freedom are few, their estimated covariances W ~ Wishart(C), the
smallest of all p-values of equal runs is drawn from |z_b - z_a| / sqrt(W_aa + W_bb - 2 W_ab) (max-t; Hothorn, Bretz and
Westfall 2008; for all pairs and equal errors it is Tukey's range). A pair is told apart where its own p-value is below
the 5 % quantile of that smallest one, and its interval is the one that belongs to this level.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np

from stapo_bench.statistics.clusters import Labels
from stapo_bench.statistics.conventions import LEVEL
from stapo_bench.statistics.difference import Difference
from stapo_bench.statistics.estimators import Matrix, Vector, problem_means
from stapo_bench.statistics.intervals import UNKNOWN, ErrorName, Interval
from stapo_bench.statistics.paired import mean_difference, paired_difference

Pair: TypeAlias = tuple[int, int]
"""Two runs (a, b) by their places, a < b; the difference is b - a."""

_AT_ONCE = 1 << 22  # numbers held together while drawing


@dataclass(frozen=True, kw_only=True)
class JointDifference:
    """B - A of one pair, judged together with all others."""

    difference: Difference
    p_adjusted: float  # below the level where it is told apart; in at most 5 of 100 sets of equal runs any is
    interval: Interval  # those of all pairs hold together in 95 of 100
    tied_within: float  # a bound of |B - A|; those of all pairs hold together


def all_differences(
    runs: Sequence[Sequence[Matrix]],
    error: ErrorName,
    *,
    same_seeds: bool = False,
    clusters: Sequence[Labels | None] = (),
) -> dict[Pair, Difference]:
    """B - A for every two runs, over the problems that all of them have decided, so that the differences add up.

    Args:
        runs: by run, then by task: [num_problems, num_samples]; row i of a task is the same problem in all runs.
        error: which error the standard errors describe.
        same_seeds: sample j of a problem was sampled with the same seed in all runs.
        clusters: by task, equal for problems that belong together; empty or None: no two of them do.
    """
    by_task, clusters = list(zip(*runs, strict=True)), clusters or [None] * len(runs[0])
    decided = [~np.isnan([problem_means(run) for run in of_task]).any(axis=0) for of_task in by_task]
    common = [[run[kept] for run in of_task] for of_task, kept in zip(by_task, decided, strict=True)]
    labels = [None if named is None else named[kept] for named, kept in zip(clusters, decided, strict=True)]
    return {
        (a, b): mean_difference(
            [
                paired_difference(of_task[a], of_task[b], error, same_seeds=same_seeds, clusters=named)
                for of_task, named in zip(common, labels, strict=True)
            ]
        )
        for a, b in combinations(range(len(runs)), 2)
    }


def judge_together(
    differences: Mapping[Pair, Difference], judged: Collection[Pair] | None = None
) -> dict[Pair, JointDifference]:
    """Every pair with an interval, a p-value and a bound of its size that hold together with those of the others.

    Args:
        differences: of every two runs.
        judged: the pairs that are of interest, such as all with the first run; None: all. Fewer pairs cost less.

    >>> one = Difference(value=0.1, standard_error=0.04, degrees=29, num_problems=30)
    >>> alone = judge_together({(0, 1): one})[0, 1]
    >>> alone.p_adjusted == one.p_value, alone.interval == one.interval(), alone.tied_within == one.tied_within()
    (True, True, True)
    """
    pairs = [pair for pair in differences if judged is None or pair in judged]
    known = [pair for pair in pairs if not math.isnan(differences[pair].standard_error)]
    if len(known) > 1 and all(not math.isnan(found.standard_error) for found in differences.values()):
        smallest = _smallest_p(differences, known)
    else:  # nothing to draw, or Bonferroni's of pairs whose errors are not all known
        smallest = np.arange(1.0, 1000.0) / 1000.0 / max(1, len(known))
    draws = len(smallest) + 1  # with the one observed

    def level(alpha: float) -> float:
        return float(np.clip(smallest[round(alpha * draws) - 2], alpha / len(known), alpha))

    found = {}
    for pair in pairs:
        difference = differences[pair]
        if pair not in known:
            found[pair] = JointDifference(
                difference=difference, p_adjusted=math.nan, interval=UNKNOWN, tied_within=math.nan
            )
            continue
        p = difference.p_value
        share = (1 + int(np.searchsorted(smallest, p, side="right"))) / draws
        found[pair] = JointDifference(
            difference=difference,
            p_adjusted=float(np.clip(share, p, min(1.0, len(known) * p))),
            interval=difference.interval(1.0 - level(LEVEL)),
            tied_within=difference.tied_at(1.0 - level(2.0 * LEVEL)),
        )
    return found


def groups_of(num_runs: int, apart: Collection[Pair]) -> list[tuple[int, ...]]:
    """The largest sets of runs of which no two are told apart: what shares a letter in a compact display (Piepho 2004).

    A run may stand in several. That two share a set is no sign that they are equal. By the maximal cliques of Bron and
    Kerbosch (1973), in the order of their members.

    >>> groups_of(3, {(0, 2)})  # neither 0 and 1 nor 1 and 2 are told apart
    [(0, 1), (1, 2)]
    """
    near = {a: {b for b in range(num_runs) if b != a and not {(a, b), (b, a)} & set(apart)} for a in range(num_runs)}
    found: list[tuple[int, ...]] = []

    def extend(chosen: set[int], open_: set[int], seen: set[int]) -> None:
        if not open_ | seen:
            found.append(tuple(sorted(chosen)))
            return
        pivot = max(sorted(open_ | seen), key=lambda run: len(near[run] & open_))
        for run in sorted(open_ - near[pivot]):
            extend(chosen | {run}, open_ & near[run], seen & near[run])
            open_, seen = open_ - {run}, seen | {run}

    extend(set(), set(range(num_runs)), set())
    return sorted(found)


def places_of(num_runs: int, better: Collection[Pair]) -> list[tuple[int, int]]:
    """The best and worst place of each run that is not refuted: 1 + those shown to be better, all less those worse.

    With intervals that hold together all places hold together as well (Al Mohamad, Goeman and van Zwet 2022).

    Args:
        num_runs: how many there are.
        better: (winner, loser) for every two that are told apart.

    >>> places_of(3, {(2, 0)})
    [(2, 3), (1, 3), (1, 2)]
    """
    above, below = [1] * num_runs, [num_runs] * num_runs
    for winner, loser in better:
        above[loser] += 1
        below[winner] -= 1
    return list(zip(above, below, strict=True))


def _smallest_p(differences: Mapping[Pair, Difference], judged: Sequence[Pair]) -> Vector:
    """Draws of the smallest p-value of the judged pairs of runs that are equal, in ascending order."""
    num = 1 + max(b for _, b in differences)
    distances = np.zeros((num, num))
    for (a, b), found in differences.items():
        distances[a, b] = distances[b, a] = found.standard_error**2
    center = np.eye(num) - 1.0 / num
    values, vectors = np.linalg.eigh(-0.5 * center @ distances @ center)
    # The smallest value is 0: what all runs share is not in their differences. Estimates need not fit together, and
    # what does not comes out below 0.
    root = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, 1:]
    contrasts = np.stack([root[b] - root[a] for a, b in judged])  # [num_pairs, num]
    contrasts /= np.maximum(np.linalg.norm(contrasts, axis=1, keepdims=True), 1e-300)
    degrees = min(differences[pair].degrees for pair in judged)
    rng = np.random.default_rng(0)
    size = max(1, _AT_ONCE // (num * len(judged)))
    draws = 19_999 if len(judged) <= 100 else 3_999  # with the one observed a round number
    drawn = [_largest_t(rng, contrasts, degrees, min(size, draws - start)) for start in range(0, draws, size)]
    largest = np.concatenate(drawn)
    if math.isinf(degrees):
        from scipy.special import ndtr

        p: Vector = 2.0 * ndtr(-largest)
    else:
        from scipy.special import stdtr

        p = 2.0 * stdtr(degrees, -largest)
    return np.sort(p)


def _largest_t(rng: np.random.Generator, contrasts: Matrix, degrees: float, num_draws: int) -> Vector:
    """Draws of the largest |t| of contrasts with errors of their own, [num_draws]."""
    num = contrasts.shape[1]
    t: Matrix = rng.standard_normal((num_draws, num)) @ contrasts.T
    if math.isinf(degrees):
        return _largest(t)
    # Wishart's distribution by Bartlett's (1933) triangle; by its definition where there are more runs than degrees.
    columns = num if degrees >= num else max(1, math.floor(degrees))
    factor = rng.standard_normal((num, num_draws, columns))
    for row in range(num if degrees >= num else 0):
        factor[row, :, row:] = 0.0
        factor[row, :, row] = np.sqrt(rng.chisquare(degrees - row, num_draws))
    spread = np.linalg.norm((contrasts @ factor.reshape(num, -1)).reshape(-1, num_draws, columns), axis=2)
    return _largest(t * math.sqrt(degrees) / spread.T)


def _largest(t: Matrix) -> Vector:
    found: Vector = np.abs(t).max(axis=1)
    return found
