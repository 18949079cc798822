"""``compare`` for run folders: settings and early stopping are known, and other graders are asked for the sign."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from stapo_bench.analysis.audits import drift_between
from stapo_bench.analysis.compare.records import Comparison
from stapo_bench.analysis.compare.sides import Known, side_of_run
from stapo_bench.analysis.compare.two_sides import compare_sides
from stapo_bench.analysis.early_stopping import WIDENED, aim_of, stopped_note
from stapo_bench.analysis.parity_gate import parity, same_weights
from stapo_bench.errors import UsageError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import LoadedRun, clustered, grade_files, load_run
from stapo_bench.runs.outcomes import ColumnsOf
from stapo_bench.statistics import MARGIN


def compare_runs(
    run_a: Path,
    run_b: Path,
    grader: str = DEFAULT_GRADER,
    margin: float = MARGIN,
    *,
    columns: ColumnsOf | None = None,
    data_dir: Path | None = None,
) -> Comparison:
    """Compare two run folders by the grades of one grader.

    Args:
        run_a, run_b: before and after; the effect is B - A.
        grader: name of the grade files.
        margin: two runs are "tied" when their difference is shown to lie within it, a fraction.
        columns: ``cluster`` alone, the column of the tasks' data that says which problems belong together.
        data_dir: where these are, folder with ``<task>.jsonl``; None: the hub.

    Raises:
        StapoError: no task or no problem in common, or grades are missing.
    """
    a, b = in_clusters((load_run(run, grader) for run in (run_a, run_b)), columns, data_dir)
    comparison = compare_loaded(a, b, margin)
    # Other graders that judged both runs are asked for their opinion of the sign.
    others = sorted({*grade_files(run_a)} & {*grade_files(run_b)} - {grader})
    seen = {name: compare_loaded(load_run(run_a, name), load_run(run_b, name), margin) for name in others}
    return with_other_graders(comparison, seen)


def in_clusters(runs: Iterable[LoadedRun], columns: ColumnsOf | None, data_dir: Path | None) -> list[LoadedRun]:
    """The runs with their problems in clusters by a column of the tasks' data, if one is named.

    Raises:
        UsageError: another column than that of clusters is named.
    """
    if not columns:
        return list(runs)
    if not isinstance(columns, Mapping) or columns.keys() != {"cluster"}:
        raise UsageError("--map names columns of tables; run folders have but --cluster, a column of their tasks' data")
    return [clustered(run, columns["cluster"], data_dir) for run in runs]


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
    return replace(compare_sides(side_of_run(a), side_of_run(b), known, margin), drift=drift_between(a, b))
