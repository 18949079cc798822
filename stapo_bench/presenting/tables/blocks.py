"""Rows grouped and put in order: what stands in one table, under which column titles."""

from collections.abc import Sequence
from dataclasses import dataclass

from stapo_bench.analysis import AVG, Metric
from stapo_bench.presenting.tables.rows import Cell, Row

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


@dataclass(frozen=True, kw_only=True)
class TableBlock:
    """Rows that share their columns. The tiny suite never stands in one column with the benchmarks it mirrors."""

    suite: str
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def metric(self) -> Metric:
        """The metric of all its cells."""
        return self.rows[0].metric

    @property
    def shows_average(self) -> bool:
        """Whether it is avg@k, the number that has intervals and tests."""
        return self.metric == AVG

    def title(self, task: str) -> str:
        """Column title; with k where all rows have the same number of samples."""
        name = next((row.titles[task] for row in self.rows if task in row.titles), _TITLES.get(task, task))
        counts = {row.cells[task].samples_per_problem for row in self.rows if task in row.cells}
        return f"{name} @{counts.pop()}" if len(counts) == 1 else name

    def method(self, row: Row) -> str:
        """The row's method; with its training step where several checkpoints of one method stand side by side."""
        twins = [r for r in self.rows if same_line(r) == same_line(row)]
        return row.method if len(twins) == 1 or row.step is None else f"{row.method} @{row.step}"

    def cells(self, row: Row) -> list[Cell | None]:
        """The row's cells in the order of the columns, the average last; None where it has none."""
        return [*(row.cells.get(task) for task in self.tasks), self.average(row)]

    def average(self, row: Row) -> Cell | None:
        """The row's average; None where it lacks a column, for then it would be the average of something else."""
        return row.average if set(row.cells) == set(self.tasks) else None


def blocks(rows: Sequence[Row]) -> list[TableBlock]:
    """Group rows by suite and put them in order: model, regime, method."""
    suites: dict[str, list[Row]] = {}
    for row in rows:
        suites.setdefault("tiny" if all(task.startswith("tiny_") for task in row.cells) else "paper", []).append(row)
    return [
        TableBlock(
            suite=suite,
            tasks=tuple(sorted({task for row in members for task in row.cells}, key=_task_order)),
            rows=tuple(_sorted(members)),
        )
        for suite, members in suites.items()
    ]


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


def same_line(row: Row) -> tuple[str, str | None, str, str]:
    """The key that two rows share if they differ at most in their training step."""
    return row.origin, row.model, row.method, row.sampling
