"""Is method B better than method A? Trainings of each with the same seeds, see ``statistics.seed_differences``.

compare_over_seeds({"GRPO": runs_of_grpo, "STAPO": runs_of_stapo}, [("GRPO", "STAPO")])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stapo_bench.analysis.compare import EffectVerdict, verdict_on
from stapo_bench.records import Outcomes
from stapo_bench.statistics import MARGIN, SEED_ERRORS, Difference, Matrix, SeedError, holm, over_seeds, problem_means


@dataclass(frozen=True, kw_only=True)
class SeedEffect:
    """B - A under one named error."""

    error: SeedError
    difference: Difference
    p_adjusted: float  # Holm over all pairs that were compared together
    tied_within: float  # a bound of |B - A|; those of all pairs hold together (Bonferroni)
    verdict: EffectVerdict


@dataclass(frozen=True, kw_only=True)
class SeedComparison:
    """Two methods, each trained with the same seeds."""

    name_a: str
    name_b: str
    num_seeds: int
    effects: tuple[SeedEffect, SeedEffect]  # seeds like these, seeds and problems like these


def compare_over_seeds(
    runs: Mapping[str, Sequence[Mapping[str, Outcomes]]], pairs: Sequence[tuple[str, str]], margin: float = MARGIN
) -> list[SeedComparison]:
    """Compare methods over seeds; the p-values of all pairs are corrected together.

    Args:
        runs: by method, one evaluated run per seed, seeds in the same order for every method.
        pairs: (A, B), names of methods; the effect is B - A.
        margin: methods are "tied" when their difference is shown to lie within it, a fraction.
    """
    found = {pair: changes_by_task(runs[pair[0]], runs[pair[1]]) for pair in pairs}
    effects: dict[tuple[str, str], list[SeedEffect]] = {pair: [] for pair in pairs}
    for error in SEED_ERRORS:
        differences = {pair: over_seeds(changes, error) for pair, changes in found.items()}
        adjusted = holm([difference.p_value for difference in differences.values()])
        for (pair, difference), alone in zip(differences.items(), adjusted, strict=True):
            p = float(np.max([alone, *(narrower.p_adjusted for narrower in effects[pair])]))
            effects[pair].append(
                SeedEffect(
                    error=error,
                    difference=difference,
                    p_adjusted=p,
                    tied_within=difference.tied_within(len(found)),
                    verdict=verdict_on(difference, p, margin, len(found)),
                )
            )
    return [
        SeedComparison(name_a=a, name_b=b, num_seeds=len(runs[a]), effects=(of_pair[0], of_pair[1]))
        for (a, b), of_pair in effects.items()
    ]


def changes_by_task(a: Sequence[Mapping[str, Outcomes]], b: Sequence[Mapping[str, Outcomes]]) -> list[Matrix]:
    """[num_seeds, num_problems] of x_B - x_A per task; NaN where a run has not decided a problem."""
    if len(a) != len(b):
        raise ValueError(f"expected a run of both methods for every seed, got {len(a)} and {len(b)}")
    return [right - left for left, right in zip(means_by_task(a), means_by_task(b), strict=True)]


def means_by_task(runs: Sequence[Mapping[str, Outcomes]]) -> list[Matrix]:
    """[num_seeds, num_problems] success rates per task, over the first run's tasks and problems."""
    return [
        np.stack([problem_means(run[task].of(first.problem_ids).scores) for run in runs])
        for task, first in runs[0].items()
    ]
