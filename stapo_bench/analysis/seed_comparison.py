"""Is method B better than method A? Several trainings of each, see ``statistics.seed_differences``.

compare_over_seeds({"GRPO": runs_of_grpo, "STAPO": runs_of_stapo}, [("GRPO", "STAPO")])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from stapo_bench.analysis.compare.records import Effect, effect_of
from stapo_bench.records import Outcomes
from stapo_bench.statistics import (
    MARGIN,
    SEED_ERRORS,
    Matrix,
    Spread,
    holm,
    over_seeds,
    problem_means,
    spread,
)

Run = Mapping[str, Outcomes]
"""Task -> outcomes."""


@dataclass(frozen=True, kw_only=True)
class SeedComparison:
    """Two methods over training seeds."""

    name_a: str
    name_b: str
    num_seeds: tuple[int, int]  # of A and B
    paired: bool  # both were trained with the same seeds, and are compared seed by seed
    effects: tuple[Effect, Effect]  # seeds like these, seeds and problems like these
    spread: Spread  # what comes from the seeds, and what from the problems


def compare_over_seeds(
    runs: Mapping[str, Sequence[Run]],
    pairs: Sequence[tuple[str, str]],
    margin: float = MARGIN,
    seeds: Mapping[str, Sequence[int]] | None = None,
) -> list[SeedComparison]:
    """Compare methods over seeds; the p-values, and the ties, of all pairs are corrected together.

    Args:
        runs: by method, one evaluated run per seed, all with the same tasks.
        pairs: (A, B), names of methods; the effect is B - A.
        margin: methods are "tied" when their difference is shown to lie within it, a fraction.
        seeds: by method, of its runs; methods of the same seeds are compared seed by seed, others as independent.
            None: all methods have the same seeds in the same order.
    """
    parts: dict[tuple[str, str], tuple[list[Matrix], list[Matrix] | None]] = {}
    for a, b in pairs:
        if seeds is None:
            parts[a, b] = changes_by_task(runs[a], runs[b]), None
        elif _same_seeds(seeds[a], seeds[b]):
            ordered = [
                [run for _, run in sorted(zip(seeds[m], runs[m], strict=True), key=itemgetter(0))] for m in (a, b)
            ]
            parts[a, b] = changes_by_task(*ordered), None
        else:
            parts[a, b] = means_by_task(runs[b], runs[a][0]), means_by_task(runs[a])
    effects: dict[tuple[str, str], list[Effect]] = {pair: [] for pair in pairs}
    for error in SEED_ERRORS:
        differences = {
            pair: replace(over_seeds(of_b, error, of_a), farthest=1.0)  # of two shares
            for pair, (of_b, of_a) in parts.items()
        }
        adjusted = holm([difference.p_value for difference in differences.values()])
        for (pair, difference), alone in zip(differences.items(), adjusted, strict=True):
            p = float(np.max([alone, *(narrower.p_adjusted for narrower in effects[pair])]))
            effects[pair].append(effect_of(error, difference, p, margin, len(pairs)))
    return [
        SeedComparison(
            name_a=a,
            name_b=b,
            num_seeds=(len(runs[a]), len(runs[b])),
            paired=parts[a, b][1] is None,
            effects=(of_pair[0], of_pair[1]),
            spread=spread(*parts[a, b]),
        )
        for (a, b), of_pair in effects.items()
    ]


def _same_seeds(a: Sequence[int], b: Sequence[int]) -> bool:
    """Each seed once, and the same ones in both."""
    return len(set(a)) == len(a) and sorted(a) == sorted(b)


def changes_by_task(a: Sequence[Run], b: Sequence[Run]) -> list[Matrix]:
    """[num_seeds, num_problems] of x_B - x_A per task; NaN where a run has not decided a problem."""
    if len(a) != len(b):
        raise ValueError(f"expected a run of both methods for every seed, got {len(a)} and {len(b)}")
    pairs = zip(means_by_task(a), means_by_task(b, a[0] if a else None), strict=True)
    return [right - left for left, right in pairs]


def means_by_task(runs: Sequence[Run], like: Run | None = None) -> list[Matrix]:
    """[num_seeds, num_problems] success rates per task, over the tasks and problems of ``like`` (the first run)."""
    return [
        np.stack([problem_means(run[task].of(first.problem_ids).scores) for run in runs])
        for task, first in (runs[0] if like is None else like).items()
    ]
