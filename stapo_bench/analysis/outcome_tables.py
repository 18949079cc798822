"""Scores, plans, curves and audits of tables of outcomes: what these can tell, and what they cannot.

    score_tables([Path("a.csv"), Path("b.csv")])
    plan_tables(Path("a.csv"), Path("b.csv"), detect=0.02)

The statistics are those of run folders. Tables say nothing of texts, lengths, graders and settings: that is said.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stapo_bench.analysis.audit_check import AuditCheck, checked, not_testable
from stapo_bench.analysis.common_problems import decided_by_all, shared_tasks
from stapo_bench.analysis.compare.sides import Side, shared_clusters, side_of_table, tasks_as_clusters
from stapo_bench.analysis.compare.two_sides import clustering_of
from stapo_bench.analysis.curve import Curve, curve
from stapo_bench.analysis.plan import SamplePlan, plan_of_task
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs.outcomes import NO_SEED, ColumnsOf, OutcomeTable, ScoreRange, columns_of_each, read_outcomes
from stapo_bench.statistics import (
    ERROR_NAMES,
    POWER,
    Clustering,
    ErrorName,
    Interval,
    Matrix,
    interval,
    macro_interval,
    problem_means,
)

_UNSEEN = "lengths, truncation, copies, graders and settings are not in a table of outcomes, and were not looked at"


@dataclass(frozen=True, kw_only=True)
class OutcomeScore:
    """avg@k of one model on one task, from a table."""

    model: str
    task: str
    value: float  # a fraction
    intervals: Mapping[ErrorName, Interval]
    bounds: Interval  # were all that is undecided wrong, or right
    num_problems: int  # with an outcome that is decided
    num_samples: tuple[int, int]  # per problem: fewest, most
    num_undecided: int
    clustering: Clustering | None = None  # where the items stand in clusters


@dataclass(frozen=True, kw_only=True)
class OutcomeScores:
    """The scores in tables, with what was not looked at."""

    scores: tuple[OutcomeScore, ...]
    notes: tuple[str, ...]


def score_tables(
    paths: Sequence[Path], columns: ColumnsOf | None = None, declared: ScoreRange | None = None
) -> OutcomeScores:
    """avg@k with its intervals of every model and task in tables; undecided is neither right nor wrong.

    ``columns``, of all tables or of each, and ``declared`` as of ``read_outcomes``, here and below.
    """
    named = zip(paths, columns_of_each(columns, len(paths)), strict=True)
    tables = [table for path, of_path in named for table in read_outcomes(path, of_path, declared)]
    found = [score for table in tables for score in _scores(table)]
    notes = [*(note for table in tables for note in table.notes), _UNSEEN]
    return OutcomeScores(scores=tuple(found), notes=tuple(notes))


def average_of_table(table: OutcomeTable) -> tuple[float, Interval]:
    """The mean over the tasks of avg@k, with its interval for problems like these."""
    found = _scores(table)
    values = [score.value for score in found]
    return float(np.mean(values)), macro_interval(values, [score.intervals["problems like these"] for score in found])


def _scores(table: OutcomeTable) -> list[OutcomeScore]:
    """Of every task, or of the one set of which the tasks are the clusters."""
    (side,) = tasks_as_clusters([side_of_table(table, table.name, [])])
    return [_score(side, task) for task in side.outcomes]


def _score(side: Side, task: str) -> OutcomeScore:
    found = side.outcomes[task]
    clusters = shared_clusters([side], task, found.problem_ids)
    decided = (~np.isnan(found.scores)).sum(axis=1)
    some = decided[decided > 0]
    low, high = (_mean(np.where(found.undecided, end, found.scores)) for end in (0.0, 1.0))
    return OutcomeScore(
        model=side.name,
        task=task,
        value=_mean(found.scores),
        intervals={error: interval(found.scores, error, clusters=clusters) for error in ERROR_NAMES},
        bounds=Interval(low=low, high=high),
        num_problems=len(some),
        num_samples=(int(some.min(initial=0 if not len(some) else some[0])), int(some.max(initial=0))),
        num_undecided=int(found.undecided.sum()),
        clustering=clustering_of(problem_means(found.scores), clusters),
    )


def _mean(scores: Matrix) -> float:
    """Mean over problems of their means, of those that have one; NaN without any."""
    means = problem_means(scores)
    means = means[~np.isnan(means)]
    return float(means.mean()) if len(means) else math.nan


def plan_tables(
    path_a: Path,
    path_b: Path,
    detect: float,
    power: float = POWER,
    *,
    columns: ColumnsOf | None = None,
    declared: ScoreRange | None = None,
) -> SamplePlan:
    """``plan`` from two tables; what samples cost is not known."""
    if not 0 < detect < 1:
        raise UsageError(f"--detect: expected a fraction between 0 and 1 (0.02 is two points), got {detect:g}")
    a, b = _each([path_a, path_b], columns, declared)
    plans = []
    for task in shared_tasks((a, b)):
        correct_a, correct_b = decided_by_all([table.tasks[task].outcomes for table in (a, b)])
        plan = plan_of_task(task, task, (correct_a, correct_b), detect, power)
        plans += [] if plan is None else [plan]
    if not plans:
        raise StapoError(f"{a.name} and {b.name}: expected at least two common items and two samples of each")
    notes = (*a.notes, *b.notes, *_not_in_clusters((a, b), "more items or samples are needed than it says"), _UNSEEN)
    return SamplePlan(name_a=a.name, name_b=b.name, detect=detect, power=power, tasks=tuple(plans), notes=notes)


def curve_tables(paths: Sequence[Path], columns: ColumnsOf | None = None, declared: ScoreRange | None = None) -> Curve:
    """``curve`` over tables, one per checkpoint, in the order given."""
    if len(paths) < 2:
        raise StapoError(f"expected at least two tables (checkpoints of one training run), got {len(paths)}")
    tables = _each(paths, columns, declared)
    tasks = shared_tasks(tables)
    matrices = [decided_by_all([table.tasks[task].outcomes for table in tables]) for task in tasks]
    if not matrices or any(len(of_task[0]) < 2 for of_task in matrices):
        raise StapoError("expected at least one task, and two items of each, that all tables have decided")
    found = curve(matrices, [table.name for table in tables], [None] * len(tables), tasks)
    order = "tables name no training step: they stand in the order given"
    read = (note for table in tables for note in table.notes)
    return replace(found, notes=(order, *read, *_not_in_clusters(tables, "the bands are too narrow"), _UNSEEN))


def _not_in_clusters(tables: Sequence[OutcomeTable], so: str) -> list[str]:
    """A line where items are known to stand in clusters, of which plans and curves know nothing."""
    outcomes = [task.outcomes for table in tables for task in table.tasks.values()]
    if all(of.clusters is None for of in outcomes) and not any(table.tasks_are_clusters for table in tables):
        return []
    return [f"items stand in clusters and were taken for independent: where those of one are alike, {so}"]


def audit_tables(
    path_a: Path,
    path_b: Path | None = None,
    columns: ColumnsOf | None = None,
    declared: ScoreRange | None = None,
) -> list[AuditCheck]:
    """``audit`` of tables: missing and undecided outcomes, and seeds where there are; the rest cannot be tested."""
    found = []
    for table in _each([path for path in (path_a, path_b) if path is not None], columns, declared):
        found += [_missing(table), _seeds(table)]
        found += [
            not_testable(name, f"{table.name}: a table of outcomes has no {what}")
            for name, what in (("repeated completions", "texts"), ("writer unlike the rest", "names of writers"))
        ]
    if path_b is not None:
        message = "tables of outcomes have no texts, weights or settings"
        found += [not_testable(name, message) for name in ("shared samples", "engine drift")]
    return found


def _missing(table: OutcomeTable) -> AuditCheck:
    said = []
    for task, of_task in table.tasks.items():
        scores, undecided = of_task.outcomes.scores, of_task.outcomes.undecided
        absent = int((np.isnan(scores) & ~undecided).sum())
        said += [f"{task} {absent} of {scores.size} outcomes are not there"] if absent else []
        said += [f"{task} {undecided.sum()} of {scores.size} are without a score"] if undecided.any() else []
    message = "; ".join(said) or "every item has as many outcomes as the others"
    return checked("missing draws", not said, f"{table.name}: {message}")


def _seeds(table: OutcomeTable) -> AuditCheck:
    name, repeated, total = "equal seeds", 0, 0
    for task in table.tasks.values():
        if task.seeds is None:
            return not_testable(name, f"{table.name}: seeds are not known")
        for row in task.seeds:
            counts = Counter(row[row != NO_SEED].tolist())
            repeated, total = repeated + counts.total() - len(counts), total + counts.total()
    message = f"{table.name}: {repeated} of {total} samples repeat the seed of another of their item"
    return checked(name, not repeated, message)


def _each(paths: Sequence[Path], columns: ColumnsOf | None, declared: ScoreRange | None) -> list[OutcomeTable]:
    """The one model of each file."""
    found = []
    for path, of_path in zip(paths, columns_of_each(columns, len(paths)), strict=True):
        table, *others = read_outcomes(path, of_path, declared)
        if others:
            raise UsageError(f"{path}: expected one model, got {', '.join(t.name for t in (table, *others[:3]))}")
        found.append(table)
    return found
