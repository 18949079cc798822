"""The top of the page: warnings, verdicts and the main table, collected from ``table``, ``compare``, ``parity`` and
``audit``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stapo_bench.analysis import (
    AuditCheck,
    Comparison,
    RunScore,
    audit,
    compare_loaded,
    compare_methods,
    compare_several,
    engine_drift,
    grade_files,
    methods_among,
    moved_samples,
    runs_alike,
    score_by,
    shared_samples,
    weights_of,
    with_other_graders,
)
from stapo_bench.engines import sampling_in_words
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.report.baselines import baselines, pairs
from stapo_bench.presenting.tables.blocks import TableBlock, blocks
from stapo_bench.presenting.tables.latex import unbeaten
from stapo_bench.presenting.tables.rows import Cell, Row, published_rows, rows_from_scores
from stapo_bench.presenting.tables.table import render_table
from stapo_bench.presenting.verdicts import sentence, sign_risk, task_cells
from stapo_bench.presenting.verdicts_of_several import (
    GROUPS_MEANING,
    pairs_of_several,
    several_about,
    several_sentence,
    standings_table,
)
from stapo_bench.presenting.verdicts_over_seeds import (
    MEANING,
    method_table,
    pair_table,
    pairs_about,
    seeds_sentence,
)
from stapo_bench.presenting.words import counted, percent, score_interval, tie_meaning
from stapo_bench.runs import LoadedRun, load_run


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
class ComparisonView:
    """The verdict about two runs, with the lines that it rests on."""

    sentence: str
    about: str
    rows: tuple[tuple[str, ...], ...]  # task, A, B, B - A; then interval, p, verdict under both errors
    parity: tuple[str, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MethodsView:
    """Methods over training seeds, or runs together: verdicts, and what is compared and its pairs as tables."""

    title: str  # what their runs share
    sentences: tuple[str, ...]
    tables: tuple[tuple[Sequence[str], Sequence[Sequence[str]]], ...]  # columns and rows
    about: str
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The first part of the page."""

    warnings: tuple[str, ...]
    baselines: tuple[str, ...]  # with which run the others are compared, and why
    comparisons: tuple[ComparisonView, ...]
    methods: tuple[MethodsView, ...]
    several: tuple[MethodsView, ...]  # three runs or more that were evaluated alike
    blocks: tuple[BlockView, ...]
    checks: tuple[AuditCheck, ...]


def overview(
    run_dirs: Sequence[Path],
    grader: str = DEFAULT_GRADER,
    *,
    published: bool = False,
    baseline: Path | None = None,
    scores: Sequence[RunScore] | None = None,
) -> Overview:
    """Table, verdicts (see ``baselines``), parity and audit of the runs.

    Args:
        run_dirs: the runs.
        grader: whose grades all of it rests on.
        published: whether the paper's rows stand in the table, too.
        baseline: the one of the runs that the others are compared with; None: the base model.
        scores: of the runs by this grader, where they were read before.
    """
    found = [score_by(run, grader) for run in run_dirs] if scores is None else scores
    rows = rows_from_scores(found, run_dirs=run_dirs)
    graders = [dict.fromkeys((grader, *grade_files(run_dir))) for run_dir in run_dirs]
    loaded = [
        {name: load_run(run_dir, name) for name in names} for run_dir, names in zip(run_dirs, graders, strict=True)
    ]
    compared_with = baselines(rows, [weights_of(runs[grader]) for runs in loaded], _number(baseline, run_dirs))
    comparisons, failures = [], []
    for a, b in pairs(compared_with):
        try:
            comparisons.append(_compare(loaded[a], loaded[b], grader))
        except StapoError as error:  # no task in common: the table still stands
            failures.append(str(error))
    seeds = [*_methods_views([runs[grader] for runs in loaded], failures)]
    several = [*_several_views([runs[grader] for runs in loaded], failures)]
    checks = [*_checks([runs[grader] for runs in loaded], list(pairs(compared_with)))]
    return Overview(
        warnings=(*_incomplete(rows), *_parity_warnings(comparisons), *failures, *_audit_warnings(checks)),
        baselines=tuple(f"Compared with {rows[found.run].source}: {found.why}." for found in compared_with),
        comparisons=tuple(map(_comparison_view, comparisons)),
        methods=tuple(seeds),
        several=tuple(several),
        blocks=tuple(_block_view(block) for block in blocks([*rows, *(published_rows() if published else [])])),
        checks=tuple(checks),
    )


def _number(run: Path | None, run_dirs: Sequence[Path]) -> int | None:
    """The place of a run in the list; None for none."""
    if run is None:
        return None
    places = [path.resolve() for path in run_dirs]
    if run.resolve() not in places:
        raise UsageError(f"--baseline: expected one of {', '.join(map(str, run_dirs))}, got {run}")
    return places.index(run.resolve())


def _compare(a: Mapping[str, LoadedRun], b: Mapping[str, LoadedRun], grader: str) -> Comparison:
    """``compare_runs`` for runs that were read before, given by grader."""
    seen = {name: compare_loaded(a[name], b[name]) for name in a if name in b}
    return with_other_graders(seen.pop(grader), seen)


def _checks(runs: Sequence[LoadedRun], pairs: Sequence[tuple[int, int]]) -> Iterator[AuditCheck]:
    for run in runs:
        yield from audit(run)
    for a, b in pairs:
        yield shared_samples(runs[a], runs[b])
        yield moved_samples(runs[a], runs[b])
        yield engine_drift(runs[a], runs[b])


def _audit_warnings(checks: Sequence[AuditCheck]) -> list[str]:
    """The findings, except missing samples, which are reported with their tasks."""
    found = [check for check in checks if check.result == "finding" and check.name != "missing draws"]
    return [f"Audit, {check.name}: {check.message}" for check in found]


def _parity_warnings(comparisons: Sequence[Comparison]) -> list[str]:
    return [
        f"Parity, {comparison.name_b} against {comparison.name_a}: "
        + "; ".join(str(item) for item in comparison.confounders)
        for comparison in comparisons
        if comparison.confounders and not comparison.same_weights
    ]


def _incomplete(rows: Sequence[Row]) -> list[str]:
    notes = {row.source: [cell.note for cell in row.cells.values() if not cell.complete] for row in rows}
    return [f"{source}: {'; '.join(found)}" for source, found in notes.items() if found]


def _comparison_view(found: Comparison) -> ComparisonView:
    rows = found.tasks if len(found.tasks) == 1 else (*found.tasks, found.average)
    remarks = [f"{task.title}: {sign_risk(risk)}" for task in rows for risk in task.warnings]
    return ComparisonView(
        sentence=sentence(found),
        about=(
            f"A = {found.name_a}, B = {found.name_b}; effect = B − A in points; p and ties corrected for "
            f"{counted(len(found.tasks), 'task')} (Holm, Bonferroni); {tie_meaning(found.margin)}"
        ),
        rows=tuple(map(task_cells, rows)),
        parity=tuple(f"{item.weight}: {item}" for item in found.parity),
        remarks=(*remarks, *found.notes),
    )


def _methods_views(runs: Sequence[LoadedRun], failures: list[str]) -> Iterator[MethodsView]:
    """Methods that have several trainings each; what keeps them from being compared goes to the failures."""
    for methods in methods_among(runs):
        try:
            found = compare_methods(methods)
        except StapoError as error:
            failures.append(str(error))
            continue
        manifest = methods[0].runs[0].manifest
        sampling = manifest.identity.sampling
        yield MethodsView(
            title=f"{manifest.about.model or 'model not stated'}, " + sampling_in_words(sampling),
            sentences=tuple(map(seeds_sentence, found.pairs)),
            tables=(method_table(found), pair_table(found)),
            about=f"{pairs_about(found)} {MEANING.replace('*', '')}",
            notes=found.notes,
        )


def _several_views(runs: Sequence[LoadedRun], failures: list[str]) -> Iterator[MethodsView]:
    """Every three runs or more that were evaluated alike, judged together."""
    for group in runs_alike(runs):
        if len(group) < 3:
            continue
        try:
            found = compare_several(group)
        except StapoError as error:
            failures.append(str(error))
            continue
        yield MethodsView(
            title=sampling_in_words(group[0].manifest.identity.sampling),
            sentences=(several_sentence(found),),
            tables=(standings_table(found), pairs_of_several(found)),
            about=f"{several_about(found)} {GROUPS_MEANING.replace('*', '')}",
            notes=found.notes,
        )


def _block_view(block: TableBlock) -> BlockView:
    tasks = (*block.tasks, "average")
    bold = _bold(block)
    return BlockView(
        suite=block.suite,
        columns=(*map(block.title, block.tasks), "Avg"),
        rows=tuple(
            RowView(
                labels=(row.model or "–", block.method(row), row.sampling),
                cells=tuple(_cell_view(_cell(block, row, task), (i, task) in bold) for task in tasks),
                origin=row.origin,
                details=f"{row.source}: {row.details}",
            )
            for i, row in enumerate(block.rows)
        ),
        notes=tuple(
            dict.fromkeys(cell.note for row in block.rows for cell in (*row.cells.values(), row.average) if cell.note)
        ),
        markdown=render_table(block.rows, "md"),
        latex=render_table(block.rows, "latex"),
    )


def _bold(block: TableBlock) -> set[tuple[int, str]]:
    """``unbeaten``, without the rows that nothing was measured against."""
    groups = [(row.origin, row.model, row.setting) for row in block.rows]
    alone = {i for i, group in enumerate(groups) if groups.count(group) == 1}
    return {(i, task) for i, task in unbeaten(block.rows, [*block.tasks, "average"]) if i not in alone}


def _cell(block: TableBlock, row: Row, task: str) -> Cell | None:
    return block.average(row) if task == "average" else row.cells.get(task)


def _cell_view(cell: Cell | None, is_bold: bool) -> CellView:
    if cell is None or math.isnan(cell.value):
        return CellView(text="–", is_bold=False, these="", like="", title="", order=-1.0)
    these, like = (
        "" if math.isnan(interval.low) else score_interval(interval)
        for interval in (cell.these_problems, cell.problems_like_these)
    )
    parts = [f"these problems {these}", f"problems like these {like}"] if these else []
    if cell.num_problems is not None and cell.samples_per_problem is not None:
        parts.append(f"{cell.num_problems} problems × {cell.samples_per_problem} samples")
    return CellView(
        text=percent(cell.value) + ("*" if not cell.complete else "†" if cell.note else ""),
        is_bold=is_bold,
        these=these,
        like=like,
        title="; ".join(filter(None, ("95 % intervals: " * bool(these) + "; ".join(parts), cell.note))),
        order=cell.value,
    )
