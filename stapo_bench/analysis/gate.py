"""A gate: is what a comparison has to show shown, refuted, or still undecided?

    judged = judge(compare_outcomes("a.csv", "b.csv"), not_worse_than(0.01))
    judged.state  # "shown", "refuted" or "undecided"

A requirement is a bound on B - A, and the interval of the difference decides: shown where all of it lies above the
bound, refuted where all of it lies below. Either is wrong in at most 2.5 % of cases.

**Many looks.** Whoever compares after every commit makes a claim each time, and one of fifty is soon wrong by chance.
With ``looks`` = m each interval holds at 1 - 0.05 / m, so that all m hold together in 95 of 100 cases (Bonferroni).
That is true whatever the looks have in common: the same samples and more, or a new model against the same baseline. The
narrower bounds of ``eval --until`` (``statistics/sequential.py``) hold for samples that are added to one run alone.

**What would settle it.** If the true difference is the observed one, its distance g to the bound is found with power
80 % once the standard error is g / (z + z_0.80), z being the interval's quantile. The error's part between problems
shrinks with the problems, the part within with the samples, too (``plan``). Of problems that belong together the error
is that of their clusters; as many problems more are taken to come in as many clusters more.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from stapo_bench.analysis.compare.records import Comparison, TaskComparison
from stapo_bench.analysis.plan import Components
from stapo_bench.statistics import LEVEL, POWER, ErrorName, Interval, normal_quantile

GateState = Literal["shown", "refuted", "undecided"]

MOST = 1_000_000
"""More samples or problems than this are no plan."""


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What is asked of the difference B - A; bounds are fractions."""

    text: str  # what B has to be, with {a} for A's name: "at most 1 point worse than {a}"
    if_shown: str = ""  # what B then is, where that is another thing than ``text``
    if_refuted: str = ""  # what B then is, where that is not the plain opposite
    shown_above: float  # shown where the whole interval lies above this
    refuted_below: float  # refuted where the whole interval lies below this
    about: ErrorName = "problems like these"
    looks: int = 1  # how many comparisons are made, this one among them


@dataclass(frozen=True, kw_only=True)
class Settling:
    """What would settle an undecided requirement, if the difference is as observed. None: no number below a million."""

    num_samples: int | None  # per problem and side, with the problems that there are
    num_problems: int | None  # with the samples per problem that there are


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A requirement and what a comparison says of it."""

    requirement: Requirement
    state: GateState
    value: float  # B - A
    interval: Interval  # the one that decided
    confidence: float  # of this interval
    reasons: tuple[str, ...] = ()  # why it is undecided although the interval would have decided
    settled_by: Settling | None = None  # where the interval leaves it undecided


def not_worse(margin: float, about: ErrorName = "problems like these", looks: int = 1) -> Requirement:
    """B is not worse: refuted where it is shown to be worse at all, else shown where worse by less than ``margin``."""
    return Requirement(
        text=f"not worse than {{a}} (margin: {_points(margin)})",
        if_shown=f"less than {_points(margin)} worse than {{a}}, if worse at all",
        if_refuted="worse than {a}",
        shown_above=-margin,
        refuted_below=0.0,
        about=about,
        looks=looks,
    )


def not_worse_than(bound: float, about: ErrorName = "problems like these", looks: int = 1) -> Requirement:
    """B is at most ``bound`` worse (non-inferiority): refuted where it is shown to be worse by more."""
    text = f"at most {_points(bound)} worse than {{a}}" if bound else "better than {a}"
    return Requirement(text=text, shown_above=-bound, refuted_below=-bound, about=about, looks=looks)


def better_by(bound: float, about: ErrorName = "problems like these", looks: int = 1) -> Requirement:
    """B is better by more than ``bound``."""
    text = f"more than {_points(bound)} better than {{a}}" if bound else "better than {a}"
    return Requirement(text=text, shown_above=bound, refuted_below=bound, about=about, looks=looks)


def judge(comparison: Comparison, requirement: Requirement) -> Judged:
    """What the mean over tasks says of the requirement.

    Items that only one side has, and samples that are missing or without a verdict and could move the difference over
    the bound, leave it undecided: a model that crashes on what it cannot do would pass otherwise.
    """
    difference = comparison.average.effect(requirement.about).difference
    confidence = 1.0 - LEVEL / requirement.looks
    interval = difference.interval(confidence)
    state: GateState = "undecided"
    if interval.low > requirement.shown_above:
        state = "shown"
    if interval.high < requirement.refuted_below:
        state = "refuted"
    reasons = _reasons(comparison, requirement, state)
    return Judged(
        requirement=requirement,
        state="undecided" if reasons else state,
        value=difference.value,
        interval=interval,
        confidence=confidence,
        reasons=reasons,
        settled_by=_settling(comparison, requirement) if state == "undecided" else None,
    )


def _reasons(comparison: Comparison, requirement: Requirement, state: GateState) -> tuple[str, ...]:
    """Why what the interval says does not stand."""
    if state == "undecided":
        return ()
    reasons = []
    if comparison.num_left_out:
        plural = "s are" if comparison.num_left_out > 1 else " is"
        reasons.append(f"{comparison.num_left_out} item{plural} in one side only")
    lowest, highest = comparison.average.within
    if lowest <= requirement.shown_above if state == "shown" else highest >= requirement.refuted_below:
        reasons.append("samples that are missing or without a verdict could change that")
    return tuple(reasons)


def _settling(comparison: Comparison, requirement: Requirement) -> Settling:
    difference = comparison.average.effect(requirement.about).difference
    num_problems = sum(task.effect(requirement.about).difference.num_problems for task in comparison.tasks)
    now, value = difference.standard_error**2, difference.value
    gap = max(value - requirement.shown_above, requirement.refuted_below - value)
    if math.isnan(now) or not gap > 0.0:
        return Settling(num_samples=None, num_problems=None)
    quantile = normal_quantile(1.0 - LEVEL / requirement.looks) + NormalDist().inv_cdf(POWER)
    asked = (gap / quantile) ** 2  # the variance that settles it
    problems = math.ceil(num_problems * max(now / asked, 1.0)) + 1  # even where the estimate is lucky, one more
    return Settling(
        num_samples=_samples(comparison.tasks, requirement.about, asked),
        num_problems=problems if problems <= MOST else None,
    )


def _samples(tasks: tuple[TaskComparison, ...], about: ErrorName, asked: float) -> int | None:
    """N where the sum over tasks of (between / n + within / (n N)) / T^2 is as asked for."""
    parts = [task.components for task in tasks]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    between = sum(_between(task, part) for task, part in zip(tasks, known, strict=True)) * (
        about == "problems like these"
    )
    within = sum(part.within / part.num_problems for part in known)
    left = asked * len(known) ** 2 - between
    samples = math.ceil(within / left) if left > 0 else MOST + 1
    return samples if samples <= MOST else None


def _between(task: TaskComparison, part: Components) -> float:
    """The variance that stays with any number of samples; that of clusters, which hang together, is in their error."""
    if task.clustering is None:
        return part.between / part.num_problems
    whole = task.effect("problems like these").difference.standard_error ** 2
    return max(0.0, whole - part.noise / part.num_problems)


def _points(fraction: float) -> str:
    points = 100 * fraction
    return f"{points:g} point" + ("" if points == 1 else "s")
