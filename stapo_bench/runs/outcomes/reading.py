"""From a file to outcomes: CSV, TSV, JSON lines, lists and maps, Parquet, and other tools' logs with verdicts in them.

    read = read_file(open_file(Path("a.csv")), {}, None)
    read.how, next(iter(read.cells)).score

Nothing is graded, and no run folder is made: a verdict counts as the file states it.
"""

import codecs
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Outcome
from stapo_bench.runs.importing.formats import NotSamplesError, Source, recognise
from stapo_bench.runs.importing.layouts import value_at
from stapo_bench.runs.importing.opening import MOST_COLUMNS, Opened
from stapo_bench.runs.importing.turned_away import reason
from stapo_bench.runs.outcomes.cells import Cell, NotOutcomesError, checked
from stapo_bench.runs.outcomes.columns import Columns, find_columns
from stapo_bench.runs.outcomes.logs import read_log
from stapo_bench.runs.outcomes.outcome_table import ALL_ITEMS, Cells, OutcomeTable
from stapo_bench.runs.outcomes.values import ScoreRange, is_outcome, name_of, plain, score_of, shown

_LOOKED_AT = 20  # rows from which columns are told
_MEGABYTE = 1 << 20
MOST_TRIALS = 100_000  # of one item: each becomes a number in memory
_ROWS = ("json lines", "json list", "table", "parquet")


class Read(NamedTuple):
    """How a file is read, and what it holds."""

    how: str
    cells: Iterable[Cell]
    tasks_are_clusters: bool = False


def read_file(opened: Opened, named: Mapping[str, str], declared: ScoreRange | None) -> Read:
    """The outcomes in a file; its kind and format are found in its content. See ``read_outcomes``.

    Raises:
        NotOutcomesError: it holds none, here or when they are read.
    """
    name, only_metric = opened.name, named.keys() <= {"score"}
    if only_metric and (log := read_log(opened, named.get("score"), declared)) is not None:
        return Read(f"verdicts of {log[0]}{_of_range(declared)}", log[1])
    if only_metric and (source := _log(opened)) is not None:
        return Read(f"verdicts of {source.format.name}", _from_log(source, named.get("score")))
    if opened.kind in ("json", "zip") and (why := reason(opened)) is not None:
        raise NotOutcomesError(f"{name}: {why}")
    if opened.kind == "json" or _is_map(opened, declared):
        return Read("a map from items to scores" + _of_range(declared), _from_map(opened, declared))
    if opened.kind == "text" and _has_long_line(opened.path):
        raise NotOutcomesError(
            f"{name}: its first line is longer than 1 MB: expected a table of at most {MOST_COLUMNS} columns"
        )
    if opened.kind == "text" and _is_utf16(opened.path):
        raise NotOutcomesError(f"{name}: it is in UTF-16, as spreadsheets save 'Unicode text'; save it in UTF-8")
    if opened.kind not in _ROWS:
        got = "neither of them, or no row below a header" if opened.kind == "text" else opened.kind
        raise NotOutcomesError(f"{name}: expected a table of outcomes (CSV, TSV, JSON, Parquet), got {got}")
    return _read_rows(name, opened.rows(), named, declared)


def _has_long_line(path: Path) -> bool:
    with path.open("rb") as file:
        return len(file.readline(_MEGABYTE)) == _MEGABYTE


def _is_utf16(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def tables_of_rows(
    name: str,
    origin: str,
    rows: Iterable[Mapping[str, Any]],
    named: Mapping[str, str],
    declared: ScoreRange | None = None,
) -> list[OutcomeTable]:
    """The outcomes in rows of named columns, one table per model in them."""
    read = _read_rows(origin, rows, named, declared)
    return tables_of(name, origin, read)


def _read_rows(
    origin: str, rows: Iterable[Mapping[str, Any]], named: Mapping[str, str], declared: ScoreRange | None
) -> Read:
    rows = iter(rows)
    first = list(islice(rows, _LOOKED_AT))
    if not first:
        raise NotOutcomesError(f"{origin}: expected rows with outcomes, got none")
    columns = find_columns(origin, first, named, declared)
    cells = _from_rows(origin, columns, chain(first, rows), declared)
    return Read(str(columns) + _of_range(declared), cells, named.get("cluster", "") == columns.task)


def tables_of(name: str, origin: str, read: Read) -> list[OutcomeTable]:
    """One table per model among the outcomes."""
    return tables_from(name, origin, collected(origin, read.cells), read)


Collected: TypeAlias = dict[str | None, dict[str, Cells]]
"""By model and task; no model: the file names none."""


def collected(origin: str, cells: Iterable[Cell]) -> Collected:
    """The outcomes by model and task."""
    found: Collected = {}
    for cell in cells:
        tasks = found.setdefault(cell.model, {})
        if (held := tasks.get(task := cell.task or ALL_ITEMS)) is None:
            held = tasks[task] = Cells(origin)
        held.add(cell.item, cell.label, cell.score, cell.row, cell.seed)
        if cell.cluster is not None:
            held.belongs(cell.item, cell.cluster, cell.row)
    if not found:
        raise NotOutcomesError(f"{origin}: expected outcomes, got none")
    return found


def tables_from(name: str, origin: str, found: Collected, read: Read) -> list[OutcomeTable]:
    """One table per model, with a line on how it was read."""
    return [
        OutcomeTable(
            name=name if model is None else model,
            origin=origin,
            tasks={task: held.task() for task, held in tasks.items()},
            notes=(f"{origin}{'' if model is None else f', {model}'}: {read.how}; {_counted(tasks)}",),
            tasks_are_clusters=read.tasks_are_clusters,
        )
        for model, tasks in found.items()
    ]


def _counted(tasks: Mapping[str, Cells]) -> str:
    items, outcomes = sum(len(held.items) for held in tasks.values()), sum(len(held.rows) for held in tasks.values())
    empty = sum(map(math.isnan, chain.from_iterable(held.scores for held in tasks.values())))
    said = f"{items} items, {outcomes} outcomes"
    repeated = [held.counts[0] for held in tasks.values() if held.is_counted and held.counts[0] > 1]
    said += f"; the rows of an item are taken for its samples, {repeated[0]} each" if repeated else ""
    between = sum(0.0 < score < 1.0 for score in chain.from_iterable(held.scores for held in tasks.values()))
    said += f", {between} of them between the lowest and the highest score" if between else ""
    return said + (f", {empty} of them without a score: undecided" if empty else "")


def _of_range(declared: ScoreRange | None) -> str:
    return f"; scores from {declared}, shown in percent of this range" if declared else ""


def _from_rows(
    origin: str, columns: Columns, rows: Iterable[Mapping[str, Any]], declared: ScoreRange | None
) -> Iterator[Cell]:
    def name_in(row: Mapping[str, Any], column: str | None) -> str | None:
        return None if column is None else name_of(value_at(row, column))

    for number, row in enumerate(rows, start=1):
        item, model, task = name_in(row, columns.item), name_in(row, columns.model), name_in(row, columns.task)
        if item is None:
            raise StapoError(f"{origin}: row {number}: expected the name of an item in '{columns.item}', got none")
        cluster = name_in(row, columns.cluster)
        if columns.successes is not None and columns.trials is not None:
            right, trials = _count(origin, number, columns, row)
            for index in range(trials):
                yield Cell(model, task, item, index, float(index < right), number, None, cluster)
            continue
        if columns.score is None:
            for column in (*columns.wide_samples, *columns.wide_models):
                score = _in_row(origin, number, column, row.get(column), declared)
                own, sample = (column, None) if columns.wide_models else (model, column)
                yield Cell(own, task, item, sample, score, number, None, cluster)
            continue
        value = plain(value_at(row, columns.score))
        if isinstance(value, list):
            for index, inner in enumerate(value):
                score = _in_row(origin, number, columns.score, inner, declared)
                yield Cell(model, task, item, index, score, number, None, cluster)
            continue
        seed = None if columns.seed is None else _whole(value_at(row, columns.seed))
        label: str | int | None = seed if columns.sample is None else name_in(row, columns.sample)
        if columns.sample is not None and label is None:
            raise StapoError(f"{origin}: row {number}: expected a sample's name in '{columns.sample}', got none")
        score = _in_row(origin, number, columns.score, value, declared)
        yield Cell(model, task, item, label, score, number, seed, cluster)


def _count(origin: str, number: int, columns: Columns, row: Mapping[str, Any]) -> tuple[int, int]:
    """Successes and trials of an item."""
    found = []
    for column in (columns.successes, columns.trials):
        value = row.get(str(column))
        whole = _whole(value)
        if whole is None or str(value).strip() not in (str(whole), f"{whole}.0"):
            raise StapoError(f"{origin}: row {number}, '{column}': expected a whole number, got {shown(value)}")
        found.append(whole)
    right, trials = found
    if not 0 <= right <= trials <= MOST_TRIALS:
        raise StapoError(
            f"{origin}: row {number}: expected 0 <= successes <= trials <= {MOST_TRIALS}, got {right} of {trials}"
        )
    return right, trials


def _in_row(origin: str, number: int, column: str, value: Any, declared: ScoreRange | None) -> float:
    """A cell's score; the place is only put into words for an error."""
    score = score_of(value, declared)
    return checked(origin, f"row {number}, '{column}'", value, declared) if score is None else score


def _from_map(opened: Opened, declared: ScoreRange | None) -> Iterator[Cell]:
    """Items to scores, or to lists of them; JSON lets a name stand twice and keeps the last, which is refused."""
    origin = opened.name

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            (name, count), *_ = Counter(name for name, _ in pairs).most_common(1)
            raise StapoError(f"{origin}: {shown(name)} stands {count} times: expected each once; remove the doubles")
        return found

    if not opened.document:  # also refuses what is too long or no object
        return
    scores = json.loads(opened.path.read_text(encoding="utf-8-sig"), object_pairs_hook=once)
    for number, (item, value) in enumerate(scores.items(), start=1):
        for index, inner in enumerate(value if isinstance(value, list) else [value]):
            if not is_outcome(inner, declared) and score_of(inner, declared) is not None:
                raise StapoError(
                    f"{origin}: item {shown(item)}: expected 0 or 1 (or nothing), got {shown(inner)}; a map of scores "
                    "between them is declared, as it may be a summary: --range 0:1"
                )
            try:
                score = checked(origin, f"item {shown(item)}", inner, declared)
            except StapoError as error:  # any object may be none
                raise NotOutcomesError(str(error)) from None
            yield Cell(None, None, item, index, score, number, None)


def _is_map(opened: Opened, declared: ScoreRange | None) -> bool:
    """Whether a file of one line is an object of items, not a row."""
    (row, *others) = opened.first or ({},)
    return (
        opened.kind == "json lines"
        and not others
        and bool(row)
        and all(
            is_outcome(inner, declared)
            for value in row.values()
            for inner in (value if isinstance(value, list) else [value])
        )
    )


def _log(opened: Opened) -> Source | None:
    """Another tool's log; None where the file is a table."""
    try:
        source = recognise(opened)
    except NotSamplesError:
        return None
    return None if source.format.name in ("plain", "stapo-bench export") else source


def _from_log(source: Source, metric: str | None) -> Iterator[Cell]:
    """The verdicts in another tool's log by one metric: the one that it has, or the one that was named."""
    path, counts, metrics = source.opened.name, dict[str, int](), set[str]()
    for number, answer in enumerate(source.answers(), start=1):
        item = answer.item if answer.item is not None else answer.question
        if item is None:
            raise StapoError(f"{path}: sample {number}: expected a problem's name or text, got neither")
        label = counts.get(item, 0) if answer.sample is None else answer.sample
        counts[item] = counts.get(item, 0) + 1
        metrics |= answer.verdicts.keys()
        if metric is None and len(metrics) > 1:
            raise UsageError(
                f"{path}: has verdicts by {' and '.join(map(repr, sorted(metrics)))}; say which: --map score=METRIC"
            )
        found = answer.verdicts.get(metric if metric is not None else next(iter(metrics), ""))
        yield Cell(
            answer.model,
            answer.task,
            item,
            label,
            math.nan if found is None else float(found is Outcome.CORRECT),
            number,
            answer.seed,
        )
    if not metrics or (metric is not None and metric not in metrics):
        known = f"it has {', '.join(sorted(metrics))}" if metrics else "'stapo-bench import' grades its samples"
        raise NotOutcomesError(
            f"{path}: expected verdicts{f' by {metric}' if metric else ''} in the log, got none; {known}"
        )


def _whole(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
