"""The rows of a table: each is measured (a run) or published (a printed row), never a mixture.

rows = [*rows_from_runs([Path("results/stapo-justrl")]), *published_rows()]
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stapo_bench.analysis import (
    AVG,
    MacroScore,
    Metric,
    PublishedRow,
    PublishedTable,
    RunScore,
    TaskScore,
    fewest_decided,
    load_published,
    score_by,
)
from stapo_bench.engines import REGIMES, preset, sampling_in_words
from stapo_bench.errors import StapoError, watched
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.tables.cell_notes import is_part, note_on
from stapo_bench.records import Origin
from stapo_bench.runs import load_manifest, spent_on
from stapo_bench.statistics import UNKNOWN, Interval
from stapo_bench.tasks import load_task

_GREEDY = (
    "; greedy: each completion would come out the same again, so that these problems leave no sampling error; what it "
    "says of problems like these is with --long"
)
_STOPPED = "; stopped under {}: its intervals, and tests against it, hold at every look (anytime-valid)"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of a table: a task's avg@k, or the average over tasks. Scores are fractions."""

    value: float
    these_problems: Interval = UNKNOWN
    problems_like_these: Interval = UNKNOWN
    bounds: Interval = UNKNOWN  # where grades are missing
    num_problems: int | None = None
    samples_per_problem: int | None = None  # None: not the same for all problems, as samples are missing
    complete: bool = True
    note: str = ""  # what a reader must know about this number


class Setting(NamedTuple):
    """What measured rows share where their numbers are tested against each other; any of it moves a score by itself."""

    sampling: str
    max_new_tokens: int | None
    grader: str | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table."""

    origin: Origin
    source: str  # run folder, or printed table
    model: str | None
    method: str
    regime: str | None
    sampling: str  # in words: temperature, top-p, and what else stands around the questions
    cells: Mapping[str, Cell]  # by task
    titles: Mapping[str, str]  # column titles by task
    suites: tuple[str, ...]  # of its tasks; those of a task that names none, or is not at hand, are left out
    average: Cell
    details: str  # one line: what the source rests on
    step: int | None = None  # of the checkpoint, where it is known
    counts: Mapping[str, Mapping[str, tuple[int, int]]] | None = None  # of a measured row: ``TaskScore.counts``
    folder: Path | None = None  # of a measured row, where its samples can be read
    grades: str | None = None  # of a measured row: name of the grade file
    seed: int | None = None  # of a measured row
    metric: Metric = AVG  # what its cells hold
    aim: float | None = None  # of a measured row that stopped early: tests must then hold at every look
    max_new_tokens: int | None = None  # of a measured row
    grader: str | None = None  # of a measured row: name and version

    @property
    def setting(self) -> Setting:
        """What it shares with the rows that it is tested against."""
        return Setting(self.sampling, self.max_new_tokens, self.grader)


def rows_from_runs(run_dirs: Sequence[Path], metric: Metric = AVG, grader: str = DEFAULT_GRADER) -> list[Row]:
    """One row per run, all by the grades of one grader; a run that has grown since it was scored is scored anew.

    Raises:
        StapoError: a run without grades by this grader.
    """
    scores = [score_by(run_dir, grader) for run_dir in watched(run_dirs, "scoring", "runs", len(run_dirs))]
    return rows_from_scores(scores, metric, run_dirs)


def rows_from_scores(
    scores: Sequence[RunScore], metric: Metric = AVG, run_dirs: Sequence[Path] | None = None
) -> list[Row]:
    """One row per run, from scores that were made or read before; ``run_dirs``: where their samples lie."""
    folders: Sequence[Path | None] = run_dirs or [None] * len(scores)
    rows = [_run_row(score, folder) for score, folder in zip(scores, folders, strict=True)]
    return rows if metric == AVG else [_in_metric(row, score, metric) for score, row in zip(scores, rows, strict=True)]


def published_rows() -> list[Row]:
    """The rows of the paper's table."""
    table = load_published("stapo_v1")
    return [_published_row(table, row) for row in table.rows]


def _run_row(score: RunScore, folder: Path | None) -> Row:
    facts = _facts_by_task(score, folder)
    wholes = {task: num_problems for task, (_, num_problems) in facts.items()}
    cells = {task.task: _task_cell(task, wholes[task.task]) for task in score.tasks}
    average = _macro_cell(score.macro, score.tasks)
    if score.sampling.temperature == 0 and all(task.samples_per_problem == 1 for task in score.tasks):
        cells = {task: replace(cell, these_problems=UNKNOWN) for task, cell in cells.items()}
        average = replace(average, these_problems=UNKNOWN)
    return Row(
        origin="imported" if score.imported else "measured",
        source=score.run,
        model=score.model,
        method=score.method,
        step=score.step,
        regime=score.regime,
        sampling=", ".join(filter(None, (sampling_in_words(score.sampling), score.prompt))),
        cells=cells,
        titles={task.task: task.title for task in score.tasks},
        suites=tuple(dict.fromkeys(suite for suite, _ in facts.values() if suite)),
        average=average,
        details=_run_details(score, wholes) + (_spent_in_words(folder) if folder else ""),
        counts={task.task: task.counts for task in score.tasks},
        folder=folder,
        grades=score.grades,
        seed=score.seed,
        aim=score.aim,
        max_new_tokens=score.max_new_tokens,
        grader=score.grader,
    )


def _spent_in_words(folder: Path) -> str:
    """What a run cost; no score rests on it, so what cannot be read is said, and the row stands."""
    try:
        spent = spent_on(folder)
    except StapoError as error:
        return f"; what it cost is not known: {error}"
    return f"; {spent}" if spent else ""


def _in_metric(row: Row, score: RunScore, metric: Metric) -> Row:
    """The row with another metric: without intervals, and without the counts that tests of avg@k need."""
    facts = _facts_by_task(score, row.folder)
    cells = {task.task: _metric_cell(task, metric, facts[task.task][1]) for task in score.tasks}
    average = Cell(
        value=sum(cell.value for cell in cells.values()) / len(cells),
        complete=all(cell.complete for cell in cells.values()),
    )
    return replace(row, cells=cells, average=average, metric=metric, counts=None)


def _metric_cell(task: TaskScore, metric: Metric, whole: int | None) -> Cell:
    cell = Cell(
        value=math.nan,
        num_problems=task.num_problems,
        samples_per_problem=metric.k or task.samples_per_problem,
        complete=task.complete,
        note=note_on(task, whole),
    )
    if (found := metric.of(task)) is not None:
        return replace(cell, samples_per_problem=found[0], value=found[1])
    lacking = f"{metric} needs {metric.k or 1} decided samples of every problem, the fewest are {fewest_decided(task)}"
    return replace(cell, complete=False, note=f"{task.title}: {lacking}")


def _task_cell(task: TaskScore, whole: int | None) -> Cell:
    return Cell(
        value=task.value,
        these_problems=task.these_problems,
        problems_like_these=task.problems_like_these,
        bounds=task.bounds,
        num_problems=task.num_problems,
        samples_per_problem=task.samples_per_problem if task.is_drawn else None,
        complete=task.complete,
        note=note_on(task, whole),
    )


def _macro_cell(macro: MacroScore, tasks: Sequence[TaskScore]) -> Cell:
    return Cell(
        value=macro.value,
        these_problems=macro.these_problems,
        problems_like_these=macro.problems_like_these,
        bounds=macro.bounds,
        complete=all(task.complete for task in tasks),
    )


def _run_details(score: RunScore, wholes: Mapping[str, int | None]) -> str:
    drawn = sum(task.num_samples for task in score.tasks)
    cut = [task.num_truncated for task in score.tasks]
    shares = {
        "truncated": None if None in cut else sum(task.num_truncated or 0 for task in score.tasks),
        "no answer": sum(task.num_no_answer for task in score.tasks),
        "grader errors": sum(task.num_grader_errors for task in score.tasks),
    }
    counts = ", ".join(f"{name} {_share(count, drawn)}" for name, count in shares.items())
    sizes = ", ".join(_size(task, wholes[task.task]) for task in score.tasks)
    return (
        f"{f'imported from {score.imported}; ' if score.imported else ''}"
        f"{sizes}; {counts}; {sampling_in_words(score.sampling)}, at most "
        f"{_stated(score.max_new_tokens)} new tokens, seed {_stated(score.seed)}, grader {score.grader}, "
        f"commit {(score.commit or 'unknown')[:12]}"
        + _GREEDY * (score.temperature == 0)
        + (_STOPPED.format(score.stopping) if score.stopping else "")
    )


def _size(task: TaskScore, whole: int | None) -> str:
    """Problems × samples of each; of a run that lacks some, how many it has; ``whole``: problems of the task."""
    of = f" (of {whole} problems)" if is_part(task, whole) else ""
    if task.is_drawn:
        return f"{task.title} {task.num_problems}×{task.samples_per_problem}{of}"
    asked = f"{task.num_problems_expected}×{task.samples_per_problem}"
    return f"{task.title} {task.num_samples} samples of {asked}{of}"


def _facts_by_task(score: RunScore, folder: Path | None) -> dict[str, tuple[str, int | None]]:
    """``_task_facts`` of a run's tasks, from the files that its manifest names; of a task of ours by its name."""
    files = load_manifest(folder).task_files if folder else {}
    return {task.task: _task_facts(files.get(task.task, task.task)) for task in score.tasks}


@cache
def _task_facts(file: str) -> tuple[str, int | None]:
    """The suite that a task file names, and its number of problems; "" and None where it is gone."""
    try:
        task = load_task(file)
    except StapoError:
        return "", None
    return task.suite, task.num_problems


def _share(count: int | None, drawn: int) -> str:
    """A count in percent of the samples; unknown where it is not told, or there are none."""
    return f"{100 * count / drawn:.2f} %" if drawn and count is not None else "unknown"


def _stated(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _published_row(table: PublishedTable, row: PublishedRow) -> Row:
    wrong = {
        item["what"]: f"printed {item['printed']}, recomputed {item['recomputed']}"
        for item in table.inconsistencies
        if (item.get("model"), item.get("method"), item.get("regime")) == (row.model, row.method, row.regime)
    }
    params = preset(row.regime) if row.regime in REGIMES else None
    return Row(
        origin="published",
        source=table.title,
        model=row.model,
        method=row.method,
        regime=row.regime,
        sampling=sampling_in_words(params) if params else "as published",
        cells={
            task: Cell(
                value=value,
                num_problems=table.num_problems.get(task),
                samples_per_problem=table.samples.get(task),
                note=_note(row, task, wrong),
            )
            for task, value in row.scores.items()
        },
        titles={},
        suites=("paper",),
        average=Cell(value=row.average, note=_note(row, "average", wrong)),
        details=f"{table.paper}, {table.version}; {table.source}; confidence {table.confidence}",
    )


def _note(row: PublishedRow, what: str, wrong: Mapping[str, str]) -> str:
    return (
        " ".join(filter(None, (row.model, row.method, row.regime, what))) + f": {wrong[what]}" if what in wrong else ""
    )
