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

    suites: tuple[str, ...]  # of its tasks
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def suite(self) -> str:
        """What its tasks belong to: ``paper``, ``paper and mine``; "" where no task file says it."""
        return " and ".join(self.suites)

    @property
    def heading(self) -> str:
        """The beginning of its headings.

        >>> TableBlock(suites=("paper", "mine"), tasks=(), rows=()).heading
        'paper and mine suites: '
        """
        return f"{self.suite} suite{'s' * (len(self.suites) > 1)}: " if self.suites else ""

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
        return f"{name} @{counts.pop()}" if len(counts) == 1 and None not in counts else name

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
    """Group rows that share a suite or a task, and put them in order: model, regime, method."""
    groups: list[list[Row]] = []
    for row in rows:
        near = [group for group in groups if any(_belong_together(row, other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(other for group in near for other in group), row])
    return [
        TableBlock(
            suites=tuple(dict.fromkeys(suite for row in members for suite in row.suites)),
            tasks=tuple(sorted({task for row in members for task in row.cells}, key=_task_order)),
            rows=tuple(_sorted(members)),
        )
        for members in groups
    ]


def _belong_together(row: Row, other: Row) -> bool:
    share_suite = set(row.suites) & set(other.suites) or not (row.suites or other.suites)
    return bool(share_suite or row.cells.keys() & other.cells.keys())


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
