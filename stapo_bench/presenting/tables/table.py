"""Tables in the paper's layout: methods and decoding regimes down, tasks and their average across.

    rows = [*rows_from_runs([Path("results/stapo-justrl")]), *published_rows()]
    print(render_table(rows, "md"))

Every row says whether it is measured or published.
"""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stapo_bench.analysis import as_json
from stapo_bench.errors import UsageError, safe_text
from stapo_bench.presenting.tables.blocks import TableBlock, blocks
from stapo_bench.presenting.tables.headlines import headline_lines
from stapo_bench.presenting.tables.latex import latex_table
from stapo_bench.presenting.tables.rows import Cell, Row
from stapo_bench.presenting.words import markdown_line, metric_meaning, percent, score_interval
from stapo_bench.statistics import ErrorName, Interval

FORMATS = ("md", "csv", "json", "latex")

_MEANINGS: dict[ErrorName, str] = {
    "these problems": "*These problems*: the same problems, samples drawn again (sampling noise only).",
    "problems like these": "*Problems like these*: the problems drawn anew as well (clustered by problem).",
}
_SHORT_MEANING = (
    "Intervals are 95 %, for the same problems with samples drawn again; --long adds those for problems like these."
)
_LONG_ALONE = "--long adds 95 % intervals for problems like these."
_NO_INTERVALS = "No intervals: checkpoints are compared by avg@k, which uses every sample."
_LATEX_ERRORS: dict[ErrorName, str] = {
    "these problems": "the same problems with samples drawn again",
    "problems like these": "problems like these (problems drawn anew, clustered by problem)",
}
_LATEX_MEANING = (
    "avg@k in percent{brackets}. Bold: not beaten by another measured run of the same "
    "model, decoding, token limit and grader (paired, problems like these, Holm-corrected, 5 %)."
)


def render_table(rows: Sequence[Row], format_: str = "md", *, long: bool = True) -> str:
    """Render rows as ``md``, ``csv`` (one line per number), ``json`` (fractions, all digits) or ``latex``.

    ``long``: with the intervals for problems like these, a table of their own in Markdown, and LaTeX's brackets are
    they; CSV and JSON have both.
    """
    (rendered,) = render_tables(rows, (format_,), long=long)
    return rendered


def render_tables(rows: Sequence[Row], formats: Sequence[str], *, long: bool = True) -> list[str]:
    """``render_table`` in each of the formats; what the notes need is read once."""
    for format_ in formats:
        if format_ not in FORMATS:
            raise UsageError(f"unknown table format '{format_}': expected one of {', '.join(FORMATS)}")
    if not rows:
        raise UsageError("nothing to show: expected at least one run, or --published")
    found = blocks(rows)
    notes = [list(_notes(block)) if {"md", "latex"} & set(formats) else [] for block in found]
    render: dict[str, Callable[[], str]] = {
        "csv": lambda: _csv(found),
        "json": lambda: json.dumps([_json_row(block, row) for block in found for row in block.rows], indent=2),
        "latex": lambda: "\n\n".join(_latex(*pair, long=long) for pair in zip(found, notes, strict=True)),
        "md": lambda: "\n\n".join(_markdown(*pair, long=long) for pair in zip(found, notes, strict=True)),
    }
    return [render[format_]() for format_ in formats]


def _markdown(block: TableBlock, notes: Sequence[str], *, long: bool) -> str:
    heading = markdown_line(block.heading)
    with_average = long or len(block.tasks) > 1  # of one task it says nothing new
    columns = ["Model", "Method", "Decoding", *map(block.title, block.tasks), *["Avg"] * with_average, "Origin"]
    measured = [row for row in block.rows if row.origin != "published"] if block.shows_average else []
    held = [error for error in _MEANINGS if _holds(block, measured, error)]

    def table(shown: Sequence[Row], text: Callable[[Cell | None], str]) -> str:
        """The table with this text in each cell."""
        cells = [block.cells(row)[: len(block.tasks) + with_average] for row in shown]
        return _markdown_table(
            columns,
            [[*_labels(block, row), *map(text, of_row), row.origin] for row, of_row in zip(shown, cells, strict=True)],
        )

    parts = [
        f"**{heading}{block.metric} in percent"
        + (", [interval for these problems]**" if "these problems" in held else "**"),
        table(block.rows, _value),
    ]
    if long and "problems like these" in held:
        parts += [f"**{heading}intervals for problems like these**", table(measured, _wide_interval)]
    if long and held:
        parts += [" ".join(["Intervals are 95 %.", *(_MEANINGS[error] for error in held)])]
    elif held:
        parts += [_SHORT_MEANING if "these problems" in held else _LONG_ALONE]
    if not block.shows_average:
        parts += [f"{metric_meaning(block.metric)} {_NO_INTERVALS}"]
    lines = map(markdown_line, notes)
    listed = ["- " + (f"\\{line}" if line.startswith("*") else line) for line in lines]  # "- *" nests a list
    return "\n\n".join([*parts, "\n".join(listed)])


def _holds(block: TableBlock, rows: Sequence[Row], error: ErrorName) -> bool:
    """Whether any number of these rows has an interval for this error: greedy samples leave none for these problems."""
    cells = [cell for row in rows for cell in block.cells(row) if cell is not None]
    return any(not math.isnan(_interval(cell, error).low) for cell in cells)


def _interval(cell: Cell, error: ErrorName) -> Interval:
    return cell.these_problems if error == "these problems" else cell.problems_like_these


def _labels(block: TableBlock, row: Row) -> list[str]:
    return [row.model or "–", block.method(row), row.sampling]


def _value(cell: Cell | None) -> str:
    if cell is None or math.isnan(cell.value):
        return "–"
    mark = "*" if not cell.complete else "†" if cell.note else ""
    interval = "" if math.isnan(cell.these_problems.low) else f" {score_interval(cell.these_problems)}"
    return f"{percent(cell.value)}{mark}{interval}"


def _wide_interval(cell: Cell | None) -> str:
    return "–" if cell is None else score_interval(cell.problems_like_these)


def _notes(block: TableBlock) -> Iterator[str]:
    yield from headline_lines(block)
    graders = dict.fromkeys(row.grader for row in block.rows if row.grader)
    if len(graders) > 1:
        yield f"graded by different versions, {' and '.join(graders)}: 'stapo-bench grade' brings runs up to date"
    for details in dict.fromkeys(row.details for row in block.rows):
        sources = dict.fromkeys(row.source for row in block.rows if row.details == details)
        yield f"{', '.join(sources)}: {details}"
    yield from _cell_notes(block)


def _cell_notes(block: TableBlock) -> Iterator[str]:
    """What a reader must know about marked numbers, each thing once: ``* a, b, AIME24, AMC23: …``."""
    places: dict[tuple[str, str], dict[str, list[str]]] = {}  # by mark and reason: columns by row; by "": of any
    for row in block.rows:
        for task, cell in (*row.cells.items(), ("average", row.average)):
            title = row.titles.get(task, task)
            reason = cell.note.removeprefix(f"{title}: ")
            if cell.note and not cell.complete:
                places.setdefault(("*", reason), {}).setdefault(row.source, []).append(title)
            elif cell.note:
                columns = places.setdefault(("†", reason), {"": []})[""]
                columns += [title] * (reason != cell.note and title not in columns)
    for (mark, reason), titles in places.items():
        rows_of: dict[tuple[str, ...], list[str]] = {}
        for source, columns in titles.items():
            rows_of.setdefault(tuple(columns), []).append(source)
        where = "; ".join(", ".join(filter(None, (*sources, *columns))) for columns, sources in rows_of.items())
        yield f"{mark} {where}: {reason}" if where else f"{mark} {reason}"


def _latex(block: TableBlock, notes: Sequence[str], *, long: bool) -> str:
    error: ErrorName = "problems like these" if long else "these problems"
    has_brackets = _holds(block, block.rows, error)
    brackets = f"; brackets: 95 % interval for {_LATEX_ERRORS[error]}" if has_brackets else ""
    meaning = _LATEX_MEANING.format(brackets=brackets)
    if not block.shows_average:
        meaning = f"{block.metric} in percent. {metric_meaning(block.metric)}".replace("*", "")
    return latex_table(block, [meaning, *notes], error)


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [[markdown_line(cell) for cell in line] for line in (columns, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines)


def _csv(found: Sequence[TableBlock]) -> str:
    """One line per number, in percent."""
    columns = ["origin", "source", "model", "method", "regime", "sampling", "task", "k", "num_problems", "value"]
    columns += [f"{error}_{end}" for error in ("these_problems", "problems_like_these") for end in ("low", "high")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, "complete", "note", "metric"])
    for block in found:
        for row in block.rows:
            for task, cell in zip((*block.tasks, "average"), block.cells(row), strict=True):
                if cell is not None:
                    ends = (*_ends(cell.these_problems), *_ends(cell.problems_like_these))
                    names = [row.origin, row.source, row.model or "", row.method, row.regime or "", row.sampling, task]
                    sizes = [cell.samples_per_problem or "", cell.num_problems or ""]
                    numbers = [_percent(number) for number in (cell.value, *ends)]
                    line = [*names, *sizes, *numbers, str(cell.complete).lower(), cell.note, row.metric]
                    writer.writerow([safe_text(str(item), "csv") for item in line])
    return text.getvalue()


def _ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def _percent(fraction: float) -> str:
    return "" if math.isnan(fraction) else f"{100 * fraction:.2f}"


def _json_row(block: TableBlock, row: Row) -> dict[str, Any]:
    average = block.average(row)
    return {
        "suite": block.suite,
        "origin": row.origin,
        "source": row.source,
        "model": row.model,
        "method": row.method,
        "regime": row.regime,
        "sampling": row.sampling,
        "metric": str(row.metric),
        "tasks": {task: _json_cell(row.cells[task]) for task in block.tasks if task in row.cells},
        "average": None if average is None else _json_cell(average),
        "details": row.details,
    }


def _json_cell(cell: Cell) -> dict[str, Any]:
    def known(interval: Interval) -> list[float] | None:
        return None if math.isnan(interval.low) else [interval.low, interval.high]

    return {
        "value": as_json(cell.value),
        "these_problems": known(cell.these_problems),
        "problems_like_these": known(cell.problems_like_these),
        "bounds": known(cell.bounds),
        "num_problems": cell.num_problems,
        "samples_per_problem": cell.samples_per_problem,
        "complete": cell.complete,
        "note": cell.note,
    }
