"""What a comparison of two or several runs finds: effects under both named errors, by task and their mean."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from stapo_bench.analysis.parity_gate import ParityDifference
from stapo_bench.analysis.plan import Components
from stapo_bench.errors import UsageError, did_you_mean
from stapo_bench.statistics import (
    ERROR_NAMES,
    LEVEL,
    Clustering,
    Difference,
    ErrorName,
    JointDifference,
    SeedError,
    Vector,
)

EffectVerdict = Literal["better", "worse", "tied", "not enough data"]

OpenKind = Literal["truncated", "ungraded", "missing or ungraded"]
OpenSamples: TypeAlias = dict[OpenKind, Vector]
"""By the reason why samples are open: B - A as observed, at its lowest and highest; the open shares of A and B, and of
both the share that is missing."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """B - A under one named error, of two runs or over training seeds."""

    error: ErrorName | SeedError
    difference: Difference
    p_adjusted: float  # Holm over the tasks, or the pairs of methods; the mean over tasks is one test by itself
    tied_within: float  # a bound of |B - A|; those of all of these hold together (Bonferroni)
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
    within: tuple[float, float] = (math.nan, math.nan)  # B - A, whatever is missing or has no verdict had come out
    clustering: Clustering | None = None  # where the problems stand in clusters
    components: Components | None = None  # of the difference's variance; None: not known of single samples, or a mean

    def effect(self, error: ErrorName) -> Effect:
        """The effect under this error.

        Raises:
            UsageError: no such error.
        """
        found = {effect.error: effect for effect in self.effects}
        if error not in found:
            hint = did_you_mean(error, found) or f"there are {' and '.join(map(repr, found))}"
            raise UsageError(f"expected the name of an error, got {error!r}; {hint}")
        return found[error]


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
    drift: str | None = None  # how samples of the same weights differ under what is said to be the same sampling

    @property
    def confounders(self) -> tuple[ParityDifference, ...]:
        """What differs besides the weights and may be the reason for the effect."""
        return tuple(item for item in self.parity if item.weight == "confounds")


@dataclass(frozen=True, kw_only=True)
class PairOfRuns:
    """B - A of two of several runs under one named error, judged together with the other pairs."""

    a: int  # place of the run in ``SeveralComparison.runs``
    b: int
    joint: JointDifference
    verdict: EffectVerdict


@dataclass(frozen=True, kw_only=True)
class PairRisk:
    """What could flip the sign of B - A, of the mean over tasks, of two of several runs."""

    a: int  # place of the run in ``SeveralComparison.runs``
    b: int
    risk: SignRisk


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What is shown of several runs under one named error; runs by their places in the list."""

    pairs: tuple[PairOfRuns, ...]
    groups: tuple[tuple[int, ...], ...]  # largest sets of which no two are told apart
    tied: tuple[tuple[int, ...], ...]  # largest sets of two or more of which every two are shown to be tied
    places: tuple[tuple[int, int], ...]  # by run: best and worst place that is not refuted


@dataclass(frozen=True, kw_only=True)
class RunValue:
    """One of several runs."""

    name: str
    tasks: Mapping[str, float]  # avg@k by task, over the problems that all runs have decided
    value: float  # mean over tasks


@dataclass(frozen=True, kw_only=True)
class SeveralComparison:
    """Several runs compared."""

    runs: tuple[RunValue, ...]  # the highest first
    titles: Mapping[str, str]  # of the tasks
    standings: Mapping[ErrorName, Standing]
    against: int | None  # the run with which the others are compared; None: every two
    margin: float  # differences below it are of no interest: "tied" means within it
    unfair: tuple[str, ...]  # settings that differ and may be the reason for a difference
    unknown: bool  # whether settings of some are not known
    clusterings: Mapping[str, tuple[Clustering, ...]]  # by task, where problems stand in clusters: of each pair
    notes: tuple[str, ...]
    risks: tuple[PairRisk, ...]  # of the pairs that are judged
    unfinished: tuple[str, ...]  # names of the runs that lack samples; notes say how many


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


def effect_of(
    error: ErrorName | SeedError, difference: Difference, p_adjusted: float, margin: float, num_claims: int
) -> Effect:
    """An effect with its verdict; arguments as of ``verdict_on``."""
    return Effect(
        error=error,
        difference=difference,
        p_adjusted=p_adjusted,
        tied_within=difference.tied_within(num_claims),
        verdict=verdict_on(difference, p_adjusted, margin, num_claims),
    )


def effects_of(
    differences: dict[ErrorName, Difference], adjusted: dict[ErrorName, float], margin: float, num_claims: int
) -> tuple[Effect, Effect]:
    these, like = (effect_of(error, differences[error], adjusted[error], margin, num_claims) for error in ERROR_NAMES)
    return these, like
