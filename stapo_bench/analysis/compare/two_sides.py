"""Two sides compared, wherever their outcomes come from: per task and for the mean over tasks.

The effect B - A has its interval under both named errors, p-values and ties corrected for the number of tasks (Holm;
Bonferroni), and a verdict. One about ``problems like these`` is a claim about the model; one about ``these problems``
says that a repetition would show the same sign.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from stapo_bench.analysis.compare.records import (
    Comparison,
    OpenKind,
    OpenSamples,
    PairRisk,
    SignRisk,
    TaskComparison,
    effects_of,
)
from stapo_bench.analysis.compare.sides import (
    Known,
    Mask,
    Side,
    check_names,
    lacking,
    look_grouped,
    shared_clusters,
    tasks_as_clusters,
)
from stapo_bench.analysis.early_stopping import at_every_look
from stapo_bench.analysis.plan import components
from stapo_bench.errors import StapoError
from stapo_bench.records import Outcomes
from stapo_bench.statistics import (
    ERROR_NAMES,
    MARGIN,
    Clustering,
    Difference,
    ErrorName,
    Labels,
    Matrix,
    Vector,
    clustering,
    holm,
    mean_difference,
    paired_difference,
    problem_means,
)


def compare_sides(a: Side, b: Side, known: Known, margin: float = MARGIN) -> Comparison:
    """Compare outcomes, wherever they come from."""
    a, b = tasks_as_clusters((a, b))
    names = [task for task in a.outcomes if task in b.outcomes]
    if not names:
        raise StapoError(
            f"nothing to compare: {a.name} has {', '.join(a.outcomes)}; {b.name} has {', '.join(b.outcomes)}"
        )
    alone = sorted(set(a.outcomes) ^ set(b.outcomes))
    notes = [f"only in one run, left out: {(a if task in a.outcomes else b).titles[task]}" for task in alone]
    pairs: list[tuple[str, Matrix, Matrix]] = []
    clusters: list[Labels | None] = []
    unsure: list[OpenSamples] = []
    unfinished: list[str] = []
    num_left_out = sum(
        len(side.outcomes[task].problem_ids) for task in alone for side in (a, b) if task in side.outcomes
    )
    for task in names:
        common = _common(a, b, task)
        if dropped := sum(len(side.outcomes[task].problem_ids) - len(common) for side in (a, b)):
            num_left_out += dropped
            are = "problem is" if dropped == 1 else "problems are"
            notes.append(f"{task}: {dropped} {are} in one run only and left out; {len(common)} are compared")
        of_a, of_b = a.outcomes[task].of(common), b.outcomes[task].of(common)
        pairs.append((task, of_a.scores, of_b.scores))
        clusters.append(shared_clusters((a, b), task, common))
        notes += looks_clustered(task, common, clusters[-1])
        unsure.append(open_samples(marked(a, task, common), marked(b, task, common)))
        for side, lines in zip((a, b), lacking((a, b), task, common), strict=True):
            notes += lines
            unfinished += [side.name] if lines else []
    differences = {
        error: [
            paired_difference(left, right, error, same_seeds=known.same_seeds, clusters=of_task)
            for (_, left, right), of_task in zip(pairs, clusters, strict=True)
        ]
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
            effects=effects_of(
                {e: differences[e][i] for e in ERROR_NAMES},
                {e: adjusted[e][i] for e in ERROR_NAMES},
                margin,
                num_claims=len(pairs),
            ),
            warnings=sign_risks([unsure[i]]),
            within=_within(unsure[i]),
            clustering=clustering_of(problem_means(right) - problem_means(left), clusters[i]),
            components=components(left, right, same_seeds=known.same_seeds),
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
        num_left_out=num_left_out,
    )


def looks_clustered(task: str, problem_ids: Sequence[str], clusters: Labels | None) -> list[str]:
    """A line where names look grouped and nobody said that they belong together; else none."""
    shown = look_grouped(problem_ids) if clusters is None else []
    return shown and [
        f"{task}: items look grouped ({', '.join(shown)}, …) and count as independent: where those of a group belong "
        "together, intervals on problems like these are too short; name the groups with --cluster COLUMN"
    ]


def clustering_of(changes: Vector, clusters: Labels | None) -> Clustering | None:
    """How far the differences, or scores, of problems in one cluster hang together; None without clusters."""
    known = ~np.isnan(changes)
    return None if clusters is None or not known.any() else clustering(changes[known], clusters[known])


def _common(a: Side, b: Side, task: str) -> list[str]:
    """The problems that both have, in the order of A."""
    if a.table is not None or b.table is not None:
        check_names(a, b, task)
    there = set(b.outcomes[task].problem_ids)
    common = [problem_id for problem_id in a.outcomes[task].problem_ids if problem_id in there]
    if not common:
        one, other = (side.outcomes[task].problem_ids[0][:40] for side in (a, b))
        raise StapoError(
            f"{task}: {a.name} and {b.name} have no problem in common; compare runs of the same data, under the same "
            f"names ({one!r}, … and {other!r}, …)"
        )
    return common


def _values(left: Matrix, right: Matrix) -> dict[str, float]:
    a, b = problem_means(left), problem_means(right)
    both = ~np.isnan(a + b)
    return {"value_a": _mean(a[both]), "value_b": _mean(b[both])}


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else math.nan


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
        effects=effects_of(means, {error: mean.p_value for error, mean in means.items()}, margin, num_claims=1),
        warnings=sign_risks(unsure),
        within=_within(_mean_over_tasks(unsure)),
    )


def _mean_over_tasks(unsure: Sequence[OpenSamples]) -> OpenSamples:
    return {what: np.mean([of_task[what] for of_task in unsure], axis=0) for what in unsure[0]}


@dataclass(frozen=True, kw_only=True, eq=False)
class Marked:
    """The outcomes of one side on one task, and which of its samples are open, [num_problems, num_samples]."""

    outcomes: Outcomes
    cut: Mask
    absent: Mask


def marked(side: Side, task: str, problem_ids: Sequence[str]) -> Marked:
    """What one side has of these problems."""
    found = side.outcomes[task].of(problem_ids)
    return Marked(outcomes=found, cut=side.cut(task, problem_ids, found.scores), absent=side.absent(task, problem_ids))


def _missing(absent_a: Mask, absent_b: Mask) -> tuple[Mask, Mask]:
    """What is missing of either side: nothing where both have left out as many of each problem, as designs do."""
    if np.array_equal(absent_a.sum(axis=1), absent_b.sum(axis=1)):
        return np.zeros_like(absent_a), np.zeros_like(absent_b)
    return absent_a, absent_b


def open_samples(a: Marked, b: Marked) -> OpenSamples:
    """What is open about the samples of one task, rows of both being the same problems."""
    correct_a, correct_b = a.outcomes.scores, b.outcomes.scores
    absent = _missing(a.absent, b.absent)
    observed = _gap(correct_a, correct_b)
    found: OpenSamples = {}
    masks: tuple[tuple[OpenKind, Mask, Mask], ...] = (
        ("truncated", a.cut, b.cut),
        ("ungraded", absent[0] | a.outcomes.undecided, absent[1] | b.outcomes.undecided),
    )
    for what, unsure_a, unsure_b in masks:
        # What is open may have come out right in one run and wrong in the other.
        lowest = _gap(np.where(unsure_a, 1.0, correct_a), np.where(unsure_b, 0.0, correct_b))
        highest = _gap(np.where(unsure_a, 0.0, correct_a), np.where(unsure_b, 1.0, correct_b))
        missing = max(part.mean() for part in absent) if what == "ungraded" else 0.0
        found[what] = np.array([observed, lowest, highest, unsure_a.mean(), unsure_b.mean(), missing])
    return found


def _within(unsure: OpenSamples) -> tuple[float, float]:
    _, lowest, highest, *_ = unsure["ungraded"].tolist()
    return lowest, highest


def sign_risks(unsure: Sequence[OpenSamples]) -> tuple[SignRisk, ...]:
    """What could turn the sign of the mean over tasks: completions cut off, not decided by a grader, or not there."""
    return tuple(
        SignRisk(
            what="missing or ungraded" if missing else what,
            share_a=share_a,
            share_b=share_b,
            lowest=lowest,
            highest=highest,
        )
        for what, numbers in _mean_over_tasks(unsure).items()
        for observed, lowest, highest, share_a, share_b, missing in [numbers.tolist()]
        if (observed > 0 and lowest <= 0) or (observed < 0 and highest >= 0)
    )


def pair_risks(runs: Sequence[Sequence[Marked]], reference: int | None) -> Iterator[PairRisk]:
    """What could turn the sign of every two runs, each given by task, or of all with one of them, the reference."""
    for a, b in combinations(range(len(runs)), 2):
        if reference is None or reference in (a, b):
            unsure = [open_samples(*of_task) for of_task in zip(runs[a], runs[b], strict=True)]
            yield from (PairRisk(a=a, b=b, risk=risk) for risk in sign_risks(unsure))
