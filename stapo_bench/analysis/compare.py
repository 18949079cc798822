"""Did it get better? Two runs, A before and B after, compared problem by problem.

    comparison = compare_runs(Path("results/base"), Path("results/stapo"))

First the parity gate, then per task and for the mean over tasks: the effect B - A with its interval under both named
errors, p-values and ties corrected for the number of tasks (Holm; Bonferroni), and a verdict in words. A verdict about
``problems like these`` is a claim about the model; one about ``these problems`` says that a repetition would show the
same sign.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from stapo_bench.analysis.early_stopping import WIDENED, aim_of, at_every_look, stopped_note
from stapo_bench.analysis.parity_gate import ParityDifference, parity, same_weights
from stapo_bench.analysis.sides import Known, Mask, Side, check_names, side_of_run
from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Outcomes
from stapo_bench.runs import LoadedRun, load_run
from stapo_bench.statistics import (
    ERROR_NAMES,
    LEVEL,
    MARGIN,
    Difference,
    ErrorName,
    Matrix,
    Vector,
    avg_at_k,
    holm,
    mean_difference,
    paired_difference,
)

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

    @property
    def confounders(self) -> tuple[ParityDifference, ...]:
        """What differs besides the weights and may be the reason for the effect."""
        return tuple(item for item in self.parity if item.weight == "confounds")


def compare_runs(run_a: Path, run_b: Path, grader: str = DEFAULT_GRADER, margin: float = MARGIN) -> Comparison:
    """Compare two run folders by the grades of one grader.

    Args:
        run_a, run_b: before and after; the effect is B - A.
        grader: name of the grade files.
        margin: two runs are "tied" when their difference is shown to lie within it, a fraction.

    Raises:
        StapoError: no task or no problem in common, or grades are missing.
    """
    comparison = compare_loaded(load_run(run_a, grader), load_run(run_b, grader), margin)
    # Other graders that judged both runs are asked for their opinion of the sign.
    shared = {path.stem for path in (run_a / "grades").glob("*.jsonl")}
    others = sorted(({path.stem for path in (run_b / "grades").glob("*.jsonl")} & shared) - {grader})
    seen = {name: compare_loaded(load_run(run_a, name), load_run(run_b, name), margin) for name in others}
    return with_other_graders(comparison, seen)


def with_other_graders(comparison: Comparison, others: Mapping[str, Comparison]) -> Comparison:
    """The comparison with a note for each other grader (by name) under which a task has the opposite sign."""
    flips = [note for name, other in others.items() if (note := _grader_flip(comparison, other, name))]
    return replace(comparison, notes=(*comparison.notes, *flips), graders_disagree=bool(flips))


def _grader_flip(comparison: Comparison, other: Comparison, grader: str) -> str | None:
    seen = {task.task: task.value_b - task.value_a for task in (*other.tasks, other.average)}
    flipped = [
        task.title
        for task in (*comparison.tasks, comparison.average)
        if (task.value_b - task.value_a) * seen.get(task.task, 0.0) < 0
    ]
    return f"grader '{grader}' sees the opposite sign on: {', '.join(dict.fromkeys(flipped))}" if flipped else None


def compare_loaded(a: LoadedRun, b: LoadedRun, margin: float = MARGIN) -> Comparison:
    """Compare two runs that were read before."""
    known = Known(
        parity=tuple(parity(a, b)),
        same_weights=same_weights(a, b),
        same_seeds=a.manifest.shares_seed(b.manifest),
        aims=(aim_of(a), aim_of(b)),
        notes=tuple(stopped_note((a, b), WIDENED)),
    )
    return compare_sides(side_of_run(a), side_of_run(b), known, margin)


def compare_sides(a: Side, b: Side, known: Known, margin: float = MARGIN) -> Comparison:
    """Compare outcomes, wherever they come from."""
    names = [task for task in a.outcomes if task in b.outcomes]
    if not names:
        raise StapoError(
            f"nothing to compare: {a.name} has {', '.join(a.outcomes)}; {b.name} has {', '.join(b.outcomes)}"
        )
    notes = [f"only in one run, left out: {task}" for task in sorted(set(a.outcomes) ^ set(b.outcomes))]
    pairs: list[tuple[str, Matrix, Matrix]] = []
    unsure: list[OpenSamples] = []
    unfinished: list[str] = []
    for task in names:
        common = _common(a, b, task)
        if dropped := sum(len(side.outcomes[task].problem_ids) - len(common) for side in (a, b)):
            notes.append(f"{task}: {dropped} problems are in one run only and left out; {len(common)} are compared")
        of_a, of_b = a.outcomes[task].of(common), b.outcomes[task].of(common)
        pairs.append((task, of_a.scores, of_b.scores))
        cut = a.cut(task, common, of_a.scores), b.cut(task, common, of_b.scores)
        unsure.append(_unsure(of_a, of_b, *cut))
        for side in (a, b):
            notes += (lacking := side.lacking(task, common))
            unfinished += [side.name] if lacking else []
    differences = {
        error: [paired_difference(left, right, error, same_seeds=known.same_seeds) for _, left, right in pairs]
        for error in ERROR_NAMES
    }
    means = {error: mean_difference(found) for error, found in differences.items()}
    differences = {error: [at_every_look(d, known.aims) for d in found] for error, found in differences.items()}
    means = {error: at_every_look(mean, known.aims) for error, mean in means.items()}
    adjusted = {error: holm([d.p_value for d in found]) for error, found in differences.items()}
    tasks = tuple(
        TaskComparison(
            task=task,
            title=(b if a.run is None else a).titles[task],  # a table knows the task's name alone
            **_values(left, right),
            effects=_effects(
                {e: differences[e][i] for e in ERROR_NAMES},
                {e: adjusted[e][i] for e in ERROR_NAMES},
                margin,
                num_claims=len(pairs),
            ),
            warnings=_warnings(unsure[i]),
        )
        for i, (task, left, right) in enumerate(pairs)
    )
    return Comparison(
        name_a=a.name,
        name_b=b.name,
        same_weights=known.same_weights,
        parity=known.parity,
        same_seeds=known.same_seeds,
        margin=margin,
        tasks=tasks,
        average=_average(tasks, means, unsure, margin),
        notes=(*notes, *known.notes),
        unfinished=tuple(dict.fromkeys(unfinished)),
    )


def _common(a: Side, b: Side, task: str) -> list[str]:
    """The problems that both have, in the order of A."""
    if a.table is not None or b.table is not None:
        check_names(a, b, task)
    there = set(b.outcomes[task].problem_ids)
    common = [problem_id for problem_id in a.outcomes[task].problem_ids if problem_id in there]
    if not common:
        raise StapoError(f"{task}: {a.name} and {b.name} have no problem in common; compare runs of the same data")
    return common


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


def _effects(
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


def _values(left: Matrix, right: Matrix) -> dict[str, float]:
    both = ~(np.isnan(left).all(axis=1) | np.isnan(right).all(axis=1))
    return {"value_a": avg_at_k(left[both]), "value_b": avg_at_k(right[both])}


def _gap(left: Matrix, right: Matrix) -> float:
    values = _values(left, right)
    return values["value_b"] - values["value_a"]


def _average(
    tasks: Sequence[TaskComparison],
    means: dict[ErrorName, Difference],
    unsure: Sequence[OpenSamples],
    margin: float,
) -> TaskComparison:
    return TaskComparison(
        task="average",
        title=f"mean of {len(tasks)} tasks" if len(tasks) > 1 else tasks[0].title,
        value_a=float(np.mean([task.value_a for task in tasks])),
        value_b=float(np.mean([task.value_b for task in tasks])),
        effects=_effects(means, {error: mean.p_value for error, mean in means.items()}, margin, num_claims=1),
        warnings=_warnings({what: np.mean([of_task[what] for of_task in unsure], axis=0) for what in unsure[0]}),
    )


def _unsure(of_a: Outcomes, of_b: Outcomes, cut_a: Mask, cut_b: Mask) -> OpenSamples:
    """What is open about the samples of one task, rows of both being the same problems."""
    correct_a, correct_b = of_a.scores, of_b.scores
    observed = _gap(correct_a, correct_b)
    found: OpenSamples = {}
    marked: tuple[tuple[OpenKind, Mask, Mask], ...] = (
        ("truncated", cut_a, cut_b),
        ("ungraded", of_a.undecided, of_b.undecided),
    )
    for what, unsure_a, unsure_b in marked:
        # What is open may have come out right in one run and wrong in the other.
        lowest = _gap(np.where(unsure_a, 1.0, correct_a), np.where(unsure_b, 0.0, correct_b))
        highest = _gap(np.where(unsure_a, 0.0, correct_a), np.where(unsure_b, 1.0, correct_b))
        found[what] = np.array([observed, lowest, highest, unsure_a.mean(), unsure_b.mean()])
    return found


def _warnings(unsure: OpenSamples) -> tuple[SignRisk, ...]:
    """What could turn the sign: completions that were cut off, or that no grader could decide."""
    return tuple(
        SignRisk(what=what, share_a=share_a, share_b=share_b, lowest=lowest, highest=highest)
        for what, numbers in unsure.items()
        for observed, lowest, highest, share_a, share_b in [numbers.tolist()]
        if (observed > 0 and lowest <= 0) or (observed < 0 and highest >= 0)
    )
