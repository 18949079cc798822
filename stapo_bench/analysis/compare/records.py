"""What a comparison of two runs finds: effects under both named errors, by task and for the mean over tasks."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from stapo_bench.analysis.parity_gate import ParityDifference
from stapo_bench.analysis.plan import Components
from stapo_bench.statistics import ERROR_NAMES, LEVEL, Clustering, Difference, ErrorName, Vector

EffectVerdict = Literal["better", "worse", "tied", "not enough data"]

OpenKind = Literal["truncated", "ungraded"]
OpenSamples: TypeAlias = dict[OpenKind, Vector]
"""By the reason why samples are open: B - A as observed, at its lowest and highest; the open shares of A and B."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """B - A under one named error."""

    error: ErrorName
    difference: Difference
    p_adjusted: float  # Holm over the tasks; the mean over tasks is one test by itself
    tied_within: float  # a bound of |B - A|; those of all tasks hold together (Bonferroni)
    verdict: EffectVerdict


@dataclass(frozen=True, kw_only=True)
class SignRisk:
    """Samples not known to be right or wrong that could flip the sign of B - A."""

    what: OpenKind
    share_a: float  # of A's samples, a fraction
    share_b: float
    lowest: float  # B - A if all that is open were right in A and wrong in B
    highest: float  # and the other way round


@dataclass(frozen=True, kw_only=True)
class TaskComparison:
    """One task, or the mean over tasks (``task`` is then "average")."""

    task: str
    title: str
    value_a: float  # avg@k over the common problems
    value_b: float
    effects: tuple[Effect, Effect]  # these problems, problems like these
    warnings: tuple[SignRisk, ...]  # what could flip the sign
    clustering: Clustering | None = None  # where the problems stand in clusters
    components: Components | None = None  # of the difference's variance; None: not known of single samples, or a mean

    def effect(self, error: ErrorName) -> Effect:
        """The effect under this error."""
        return next(effect for effect in self.effects if effect.error == error)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two runs compared."""

    name_a: str
    name_b: str
    same_weights: bool
    parity: tuple[ParityDifference, ...]
    same_seeds: bool  # samples are then paired as well: they may share their noise
    margin: float  # differences below it are of no interest: "tied" means within it
    tasks: tuple[TaskComparison, ...]
    average: TaskComparison
    notes: tuple[str, ...]  # what was left out
    unfinished: tuple[str, ...] = ()  # names of the sides that lack samples; notes say how many
    graders_disagree: bool = False  # another grader sees the opposite sign somewhere; a note says where
    num_left_out: int = 0  # problems that one side alone has

    @property
    def confounders(self) -> tuple[ParityDifference, ...]:
        """What differs besides the weights and may be the reason for the effect."""
        return tuple(item for item in self.parity if item.weight == "confounds")


def verdict_on(difference: Difference, p_adjusted: float, margin: float, num_claims: int = 1) -> EffectVerdict:
    """Better or worse when a difference is shown, tied when it is shown to be below the margin, else open.

    Args:
        difference: the effect.
        p_adjusted: its p-value, corrected for all differences that are looked at together.
        margin: below it a difference counts as a tie, a fraction.
        num_claims: how many differences are looked at together; ties are claimed so that all hold in 95 of 100 cases.

    >>> verdict_on(Difference(value=0.07, standard_error=0.02, degrees=math.inf, num_problems=30), 0.0005, margin=0.02)
    'better'
    """
    if math.isnan(p_adjusted):
        return "not enough data"
    if p_adjusted < LEVEL:
        return "better" if difference.value > 0 else "worse"
    return "tied" if difference.tied_within(num_claims) <= margin else "not enough data"


def effects_of(
    differences: dict[ErrorName, Difference], adjusted: dict[ErrorName, float], margin: float, num_claims: int
) -> tuple[Effect, Effect]:
    these, like = (
        Effect(
            error=error,
            difference=differences[error],
            p_adjusted=adjusted[error],
            tied_within=differences[error].tied_within(num_claims),
            verdict=verdict_on(differences[error], adjusted[error], margin, num_claims),
        )
        for error in ERROR_NAMES
    )
    return these, like
