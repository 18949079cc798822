"""The top of the page: warnings, verdicts and the main table, collected from ``table``, ``compare``, ``parity`` and
``audit``.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from stapo_bench.analysis import (
    AuditCheck,
    Comparison,
    audit,
    engine_drift,
    moved_samples,
    shared_samples,
    weights_of,
)
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting.figures import Sources
from stapo_bench.presenting.parity_words import shown_confounders
from stapo_bench.presenting.report.baselines import baselines, pairs
from stapo_bench.presenting.report.verdict_views import (
    MOST_PAIRED,
    ComparisonView,
    MethodsView,
    PairView,
    compare_by,
    comparison_view,
    methods_views,
    pair_views,
    several_views,
)
from stapo_bench.presenting.tables.blocks import TableBlock, blocks
from stapo_bench.presenting.tables.latex import unbeaten
from stapo_bench.presenting.tables.rows import Cell, Row, published_rows, rows_from_scores
from stapo_bench.presenting.tables.table import render_tables
from stapo_bench.presenting.words import percent, score_interval
from stapo_bench.runs import LoadedRun, grade_files, load_run


@dataclass(frozen=True, kw_only=True)
class CellView:
    """A number of the main table as it is shown."""

    text: str
    is_bold: bool  # not beaten significantly
    these: str  # interval for these problems
    like: str  # interval for problems like these
    title: str  # both, in words; "" where there is none
    order: float  # to sort by


@dataclass(frozen=True, kw_only=True)
class RowView:
    """A row of the main table."""

    labels: tuple[str, ...]  # model, method, decoding
    cells: tuple[CellView, ...]
    origin: str
    details: str


@dataclass(frozen=True, kw_only=True)
class BlockView:
    """A table: rows that share their columns; with the texts that its buttons copy."""

    suite: str
    columns: tuple[str, ...]
    rows: tuple[RowView, ...]
    notes: tuple[str, ...]
    markdown: str
    latex: str


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The first part of the page."""

    warnings: tuple[str, ...]
    baselines: tuple[str, ...]  # with which run the others are compared, and why
    comparisons: tuple[ComparisonView, ...]
    methods: tuple[MethodsView, ...]
    several: tuple[MethodsView, ...]  # three runs or more that were evaluated alike
    pairs: tuple[PairView, ...]  # every two runs, for a reader to choose from
    blocks: tuple[BlockView, ...]
    checks: tuple[AuditCheck, ...]


def overview(data: Sources, *, published: bool = False, baseline: Path | None = None) -> Overview:
    """Table, verdicts (see ``baselines``), parity and audit of the runs.

    Args:
        data: the runs, and the grader whose grades all of it rests on.
        published: whether the paper's rows stand in the table, too.
        baseline: the one of the runs that the others are compared with; None: the base model.
    """
    run_dirs, grader = data.runs, data.grader
    rows = rows_from_scores(data.scores, run_dirs=run_dirs)
    loaded = [
        {grader: own, **{name: load_run(run_dir, name) for name in grade_files(run_dir) if name != grader}}
        for run_dir, own in zip(run_dirs, data.loaded, strict=True)
    ]
    compared_with = baselines(rows, [weights_of(run) for run in data.loaded], _number(baseline, run_dirs))
    compared: dict[tuple[int, int], Comparison] = {}
    failures: list[str] = []
    for a, b in pairs(compared_with):
        try:
            compared[a, b] = compare_by(loaded[a], loaded[b], grader)
        except StapoError as error:  # no task in common: the table still stands
            failures.append(str(error))
    comparisons = list(compared.values())
    methods = tuple(methods_views(data.loaded, failures))
    several = tuple(several_views(loaded, grader, failures))
    checks = tuple(_checks(data.loaded, list(pairs(compared_with))))
    return Overview(
        warnings=(*_incomplete(rows), *_parity_warnings(comparisons), *failures, *_audit_warnings(checks)),
        baselines=tuple(f"Compared with {rows[found.run].source}: {found.why}." for found in compared_with),
        comparisons=tuple(map(comparison_view, comparisons)),
        methods=methods,
        several=several,
        pairs=tuple(pair_views(loaded, grader, compared)),
        blocks=tuple(_block_view(block) for block in blocks([*rows, *(published_rows() if published else [])])),
        checks=checks,
    )


def _number(run: Path | None, run_dirs: Sequence[Path]) -> int | None:
    """The place of a run in the list; None for none."""
    if run is None:
        return None
    places = [path.resolve() for path in run_dirs]
    if run.resolve() not in places:
        raise UsageError(f"--baseline: expected one of {', '.join(map(str, run_dirs))}, got {run}")
    return places.index(run.resolve())


def _checks(runs: Sequence[LoadedRun], pairs: Sequence[tuple[int, int]]) -> Iterator[AuditCheck]:
    """Of each run, of these pairs, and what is found in other pairs, as far as a reader may choose these."""
    for run in runs:
        yield from audit(run)
    for a, b in pairs:
        yield from _of_two(runs[a], runs[b])
    others = combinations(range(len(runs)), 2) if len(runs) <= MOST_PAIRED else ()
    for a, b in others:
        if (a, b) not in pairs and (b, a) not in pairs:
            yield from (check for check in _of_two(runs[a], runs[b]) if check.result == "finding")


def _of_two(a: LoadedRun, b: LoadedRun) -> list[AuditCheck]:
    return [shared_samples(a, b), moved_samples(a, b), engine_drift(a, b)]


def _audit_warnings(checks: Sequence[AuditCheck]) -> list[str]:
    """The findings, except samples that are not there, which are reported with their tasks."""
    with_tasks = ("missing draws", "problems left out")
    found = [check for check in checks if check.result == "finding" and check.name not in with_tasks]
    return [f"Audit, {check.name}: {check.message}" for check in found]


def _parity_warnings(comparisons: Sequence[Comparison]) -> list[str]:
    return [
        f"Parity, {comparison.name_b} against {comparison.name_a}: "
        + "; ".join(str(item) for item in shown_confounders(comparison))
        for comparison in comparisons
        if comparison.confounders and not comparison.same_weights
    ]


def _incomplete(rows: Sequence[Row]) -> list[str]:
    notes = {row.source: [cell.note for cell in row.cells.values() if not cell.complete] for row in rows}
    return [f"{source}: {'; '.join(found)}" for source, found in notes.items() if found]


def _block_view(block: TableBlock) -> BlockView:
    bold = _bold(block)
    markdown, latex = render_tables(block.rows, ("md", "latex"))
    return BlockView(
        suite=block.suite,
        columns=(*map(block.title, block.tasks), "Avg"),
        rows=tuple(
            RowView(
                labels=(row.model or "–", block.method(row), row.sampling),
                cells=tuple(
                    _cell_view(cell, (i, task) in bold)
                    for task, cell in zip((*block.tasks, "average"), block.cells(row), strict=True)
                ),
                origin=row.origin,
                details=f"{row.source}: {row.details}",
            )
            for i, row in enumerate(block.rows)
        ),
        notes=tuple(
            dict.fromkeys(cell.note for row in block.rows for cell in (*row.cells.values(), row.average) if cell.note)
        ),
        markdown=markdown,
        latex=latex,
    )


def _bold(block: TableBlock) -> set[tuple[int, str]]:
    """``unbeaten``, without the rows that nothing was measured against."""
    groups = [(row.origin, row.model, row.setting) for row in block.rows]
    alone = {i for i, group in enumerate(groups) if groups.count(group) == 1}
    return {(i, task) for i, task in unbeaten(block) if i not in alone}


def _cell_view(cell: Cell | None, is_bold: bool) -> CellView:
    if cell is None or math.isnan(cell.value):
        return CellView(text="–", is_bold=False, these="", like="", title="", order=-1.0)
    these, like = (
        "" if math.isnan(interval.low) else score_interval(interval)
        for interval in (cell.these_problems, cell.problems_like_these)
    )
    named = {"these problems": these, "problems like these": like}
    parts = [f"{error} {interval}" for error, interval in named.items() if interval]
    intervals = "95 % intervals: " * bool(parts)
    if cell.num_problems is not None and cell.samples_per_problem is not None:
        parts.append(f"{cell.num_problems} problems × {cell.samples_per_problem} samples")
    return CellView(
        text=percent(cell.value) + ("*" if not cell.complete else "†" if cell.note else ""),
        is_bold=is_bold,
        these=these,
        like=like,
        title="; ".join(filter(None, (intervals + "; ".join(parts), cell.note))),
        order=cell.value,
    )
