"""Tables in the paper's layout: methods and decoding regimes down, tasks and their average across.

    rows = [*rows_from_runs([Path("results/stapo-justrl")]), *published_rows()]
    print(render_table(rows, "md"))

Every row says whether it is measured or published.
"""

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from stapo_bench.analysis import as_json
from stapo_bench.errors import UsageError
from stapo_bench.presenting.tables.blocks import TableBlock, blocks
from stapo_bench.presenting.tables.headlines import headline_lines
from stapo_bench.presenting.tables.latex import latex_table
from stapo_bench.presenting.tables.rows import Cell, Row
from stapo_bench.presenting.words import markdown_row, metric_meaning, percent, score_interval
from stapo_bench.statistics import Interval

FORMATS = ("md", "csv", "json", "latex")

_MEANING = (
    "Intervals are 95 %. *These problems*: the same problems, samples drawn again (sampling noise only). "
    "*Problems like these*: the problems drawn anew as well (clustered by problem)."
)
_NO_INTERVALS = "No intervals: checkpoints are compared by avg@k, which uses every sample."
_LATEX_MEANING = (
    "avg@k in percent; brackets: 95 % interval for problems like these (problems drawn anew, clustered by problem). "
    "Bold: not beaten by another measured run of the same model, decoding, token limit and grader (paired, "
    "Holm-corrected, 5 %)."
)


def render_table(rows: Sequence[Row], format_: str = "md") -> str:
    """Render rows as ``md``, ``csv`` (one line per number), ``json`` (fractions, all digits) or ``latex``."""
    if format_ not in FORMATS:
        raise UsageError(f"unknown table format '{format_}': expected one of {', '.join(FORMATS)}")
    if not rows:
        raise UsageError("nothing to show: expected at least one run, or --published")
    if format_ == "csv":
        return _csv(blocks(rows))
    if format_ == "json":
        return json.dumps([_json_row(block, row) for block in blocks(rows) for row in block.rows], indent=2)
    if format_ == "latex":
        return "\n\n".join(_latex(block) for block in blocks(rows))
    return "\n\n".join(_markdown(block) for block in blocks(rows))


def _markdown(block: TableBlock) -> str:
    columns = ["Model", "Method", "Decoding", *map(block.title, block.tasks), "Avg", "Origin"]
    measured = [row for row in block.rows if row.origin == "measured"] if block.shows_average else []
    parts = [
        f"**{block.suite} suite: {block.metric} in percent"
        + (", [interval for these problems]**" if measured else "**"),
        _markdown_table(columns, [_labels(block, row) + _values(block, row) + [row.origin] for row in block.rows]),
    ]
    if measured:
        parts += [
            f"**{block.suite} suite: intervals for problems like these**",
            _markdown_table(
                columns, [_labels(block, row) + _wide_intervals(block, row) + [row.origin] for row in measured]
            ),
            _MEANING,
        ]
    if not block.shows_average:
        parts += [f"{metric_meaning(block.metric)} {_NO_INTERVALS}"]
    notes = ["- " + (f"\\{line}" if line.startswith("*") else line) for line in _notes(block)]  # "- *" nests a list
    return "\n\n".join([*parts, "\n".join(notes)])


def _labels(block: TableBlock, row: Row) -> list[str]:
    return [row.model or "–", block.method(row), row.sampling]


def _values(block: TableBlock, row: Row) -> list[str]:
    return [_value(cell) for cell in block.cells(row)]


def _value(cell: Cell | None) -> str:
    if cell is None or math.isnan(cell.value):
        return "–"
    mark = "*" if not cell.complete else "†" if cell.note else ""
    interval = "" if math.isnan(cell.these_problems.low) else f" {score_interval(cell.these_problems)}"
    return f"{percent(cell.value)}{mark}{interval}"


def _wide_intervals(block: TableBlock, row: Row) -> list[str]:
    return ["–" if cell is None else score_interval(cell.problems_like_these) for cell in block.cells(row)]


def _notes(block: TableBlock) -> Iterator[str]:
    yield from headline_lines(block)
    for details in dict.fromkeys(row.details for row in block.rows):
        sources = dict.fromkeys(row.source for row in block.rows if row.details == details)
        yield f"{', '.join(sources)}: {details}"
    for row in block.rows:
        for cell in (*row.cells.values(), row.average):
            if cell.note:
                yield f"* {row.source}, {cell.note}" if not cell.complete else f"† {cell.note}"


def _latex(block: TableBlock) -> str:
    meaning = _LATEX_MEANING
    if not block.shows_average:
        meaning = f"{block.metric} in percent. {metric_meaning(block.metric)}".replace("*", "")
    return latex_table(block, [meaning, *_notes(block)])


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[i]) for line in (columns, *rows)) for i in range(len(columns))]
    lines = [columns, ["-" * width for width in widths], *rows]
    return "\n".join(markdown_row([c.ljust(w) for c, w in zip(line, widths, strict=True)]) for line in lines)


def _csv(found: Sequence[TableBlock]) -> str:
    """One line per number, in percent."""
    names = ["origin", "source", "model", "method", "regime", "sampling", "task", "k", "num_problems", "value"]
    names += [f"{error}_{end}" for error in ("these_problems", "problems_like_these") for end in ("low", "high")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "complete", "note", "metric"])
    for block in found:
        for row in block.rows:
            for task, cell in zip((*block.tasks, "average"), block.cells(row), strict=True):
                if cell is not None:
                    ends = (*_ends(cell.these_problems), *_ends(cell.problems_like_these))
                    labels = [row.origin, row.source, row.model or "", row.method, row.regime or "", row.sampling, task]
                    sizes = [cell.samples_per_problem or "", cell.num_problems or ""]
                    numbers = [_percent(number) for number in (cell.value, *ends)]
                    writer.writerow([*labels, *sizes, *numbers, str(cell.complete).lower(), cell.note, row.metric])
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
