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
from dataclasses import dataclass, replace
from typing import Any

from stapo_bench.analysis import AVG, Metric, headline, headline_line, measured_headline, relative_gains
from stapo_bench.errors import UsageError
from stapo_bench.presenting.latex import Layout, latex_table
from stapo_bench.presenting.rows import Cell, Row, published_rows, rows_from_runs
from stapo_bench.runs import CountedRun
from stapo_bench.statistics import Interval

__all__ = ["FORMATS", "Block", "blocks", "published_rows", "render_table", "rows_from_runs"]

FORMATS = ("md", "csv", "json", "latex")

_METHODS = ("base", "grpo", "20-entropy", "justrl", "stapo")  # the paper's order; others follow
_TASKS = ("aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench")
_TITLES = {
    "aime24": "AIME24",
    "aime25": "AIME25",
    "amc23": "AMC23",
    "math500": "MATH500",
    "minerva": "Minerva",
    "olympiadbench": "OlympiadBench",
    "hmmt25": "HMMT25",
    "brumo25": "BRUMO25",
    "cmimc25": "CMIMC25",
    "mmlu_pro": "MMLU-Pro",
    "gpqa_d": "GPQA-D",
}

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


@dataclass(frozen=True, kw_only=True)
class Block:
    """Rows that share their columns. The tiny suite never stands in one column with the benchmarks it mirrors."""

    suite: str
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def metric(self) -> Metric:
        """What all of its cells hold."""
        return self.rows[0].metric

    @property
    def shows_average(self) -> bool:
        """Whether it is avg@k, the number that has intervals and tests."""
        return self.metric == AVG

    def title(self, task: str) -> str:
        """Column title; with k where all rows drew the same number of samples."""
        name = next((row.titles[task] for row in self.rows if task in row.titles), _TITLES.get(task, task))
        counts = {row.cells[task].samples_per_problem for row in self.rows if task in row.cells}
        return f"{name} @{counts.pop()}" if len(counts) == 1 else name

    def method(self, row: Row) -> str:
        """The row's method; with its training step where several checkpoints of one method stand side by side."""
        twins = [r for r in self.rows if _identity(r) == _identity(row)]
        return row.method if len(twins) == 1 or row.step is None else f"{row.method} @{row.step}"

    def average(self, row: Row) -> Cell | None:
        """The row's average; None where it lacks a column, for then it would be the average of something else."""
        return row.average if set(row.cells) == set(self.tasks) else None


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


def blocks(rows: Sequence[Row]) -> list[Block]:
    """Group rows by suite and put them in order: model, regime, method."""
    suites: dict[str, list[Row]] = {}
    for row in rows:
        suites.setdefault("tiny" if all(task.startswith("tiny_") for task in row.cells) else "paper", []).append(row)
    return [
        Block(
            suite=suite,
            tasks=tuple(sorted({task for row in members for task in row.cells}, key=_task_order)),
            rows=tuple(_sorted(members)),
        )
        for suite, members in suites.items()
    ]


def _identity(row: Row) -> tuple[str, str | None, str, str]:
    return row.origin, row.model, row.method, row.sampling


def _sorted(rows: Sequence[Row]) -> list[Row]:
    models = list(dict.fromkeys(row.model for row in rows))
    regimes = ["training", "justrl"]

    def order(row: Row) -> tuple[int, int, int, int]:
        regime = regimes.index(row.regime) if row.regime in regimes else len(regimes)
        method = row.method.casefold()
        rank = _METHODS.index(method) if method in _METHODS else len(_METHODS)
        return models.index(row.model), regime, rank, row.step or 0

    return sorted(rows, key=order)


def _task_order(task: str) -> tuple[int, str]:
    name = task.removeprefix("tiny_")
    return _TASKS.index(name) if name in _TASKS else len(_TASKS), task


def _markdown(block: Block) -> str:
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
        parts += [f"{block.metric.meaning} {_NO_INTERVALS}"]
    notes = ["- " + (f"\\{line}" if line.startswith("*") else line) for line in _notes(block)]  # "- *" nests a list
    return "\n\n".join([*parts, "\n".join(notes)])


def _labels(block: Block, row: Row) -> list[str]:
    return [row.model or "–", block.method(row), row.sampling]


def _cells(block: Block, row: Row) -> list[Cell | None]:
    return [*(row.cells.get(task) for task in block.tasks), block.average(row)]


def _values(block: Block, row: Row) -> list[str]:
    return [_value(cell) for cell in _cells(block, row)]


def _value(cell: Cell | None) -> str:
    if cell is None or math.isnan(cell.value):
        return "–"
    mark = "*" if not cell.complete else "†" if cell.note else ""
    interval = "" if math.isnan(cell.these_problems.low) else f" {_interval(cell.these_problems)}"
    return f"{100 * cell.value:.2f}{mark}{interval}"


def _wide_intervals(block: Block, row: Row) -> list[str]:
    return ["–" if cell is None else _interval(cell.problems_like_these) for cell in _cells(block, row)]


def _interval(interval: Interval) -> str:
    return "–" if math.isnan(interval.low) else f"[{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def _notes(block: Block) -> Iterator[str]:
    yield from _headlines(block)
    for details in dict.fromkeys(row.details for row in block.rows):
        sources = dict.fromkeys(row.source for row in block.rows if row.details == details)
        yield f"{', '.join(sources)}: {details}"
    for row in block.rows:
        for cell in (*row.cells.values(), row.average):
            if cell.note:
                yield f"* {row.source}, {cell.note}" if not cell.complete else f"† {cell.note}"


def _headlines(block: Block) -> Iterator[str]:
    """The paper's headline, measured and published, for each regime that has it; measured, for each setting in it."""
    for sampling in dict.fromkeys(row.sampling for row in block.rows):
        rows = [row for row in block.rows if row.sampling == sampling]
        yield from _measured_headlines(block, [row for row in rows if row.counts is not None])
        for source in dict.fromkeys(row.source for row in rows if row.origin == "published"):
            averages: dict[str, dict[str, float]] = {}
            for row in rows:
                if row.source == source:
                    averages.setdefault(row.model or "", {})[row.method] = row.average.value
            if gains := relative_gains(averages):
                parts = ", ".join(f"{model} {100 * gain:+.2f} %" for model, gain in gains.items())
                mean = f"{100 * headline(averages):+.2f} % on average"
                yield f"published, {sampling}: STAPO over the strongest other method: {mean} ({parts})"


def _measured_headlines(block: Block, rows: Sequence[Row]) -> Iterator[str]:
    """Of measured rows of one regime."""
    settings = dict.fromkeys(row.setting for row in rows)
    for setting in settings:
        members = [row for row in rows if row.setting == setting]
        aims = {(_model(row), _method(row)): row.aim for row in members if row.aim is not None}
        if (found := measured_headline(_runs(members), aims=aims)) is not None:
            about = ["measured", setting.sampling]
            if len(settings) > 1:
                about += [f"at most {setting.max_new_tokens} new tokens", f"grader {setting.grader}"]
            if set(found.tasks) != set(block.tasks):
                about += [f"on {' and '.join(map(block.title, found.tasks))} alone"]
            yield f"{', '.join(about)}: {headline_line(found)}"


def _runs(rows: Sequence[Row]) -> dict[str, dict[str, CountedRun]]:
    """Measured runs by model and method; a model with two runs of one method is left out, for neither is "the" run."""
    runs: dict[str, dict[str, CountedRun]] = {}
    identities = [_identity(row) for row in rows]
    doubled = {row.model for row in rows if identities.count(_identity(row)) > 1}
    for row in rows:
        if row.counts is not None and row.model not in doubled:
            runs.setdefault(_model(row), {})[_method(row)] = row.counts
    return runs


def _model(row: Row) -> str:
    return row.model or "model not stated"


def _method(row: Row) -> str:
    return "STAPO" if row.method.casefold() == "stapo" else row.method


def _latex(block: Block) -> str:
    layout = Layout(
        tasks=[*block.tasks, "average"],
        titles=[*map(block.title, block.tasks), "Avg"],
        rows=[replace(row, method=block.method(row)) for row in block.rows],
        cells=[_cells(block, row) for row in block.rows],
        notes=[
            _LATEX_MEANING if block.shows_average else f"{block.metric} in percent. {_plain(block.metric.meaning)}",
            *_notes(block),
        ],
    )
    return latex_table(layout)


def _plain(markdown: str) -> str:
    return markdown.replace("*", "")


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[i]) for line in (columns, *rows)) for i in range(len(columns))]
    lines = [columns, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines)


def _csv(found: Sequence[Block]) -> str:
    """One line per number, in percent."""
    names = ["origin", "source", "model", "method", "regime", "sampling", "task", "k", "num_problems", "value"]
    names += [f"{error}_{end}" for error in ("these_problems", "problems_like_these") for end in ("low", "high")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "complete", "note", "metric"])
    for block in found:
        for row in block.rows:
            for task, cell in zip((*block.tasks, "average"), _cells(block, row), strict=True):
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


def _json_row(block: Block, row: Row) -> dict[str, Any]:
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
        "value": None if math.isnan(cell.value) else cell.value,
        "these_problems": known(cell.these_problems),
        "problems_like_these": known(cell.problems_like_these),
        "bounds": known(cell.bounds),
        "num_problems": cell.num_problems,
        "samples_per_problem": cell.samples_per_problem,
        "complete": cell.complete,
        "note": cell.note,
    }
