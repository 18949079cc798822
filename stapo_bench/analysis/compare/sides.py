"""A side of a comparison: outcomes by task with what is known besides, from a run folder or from a table of outcomes.

A table says nothing of truncation, copies, weights and settings: what it does not say is listed as not known.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stapo_bench.analysis.common_problems import not_drawn
from stapo_bench.analysis.parity_gate import ParityDifference
from stapo_bench.errors import StapoError
from stapo_bench.records import Outcomes
from stapo_bench.runs import Drawn, LoadedRun, Rows
from stapo_bench.runs.outcomes import ALL_ITEMS, NO_SEED, OutcomeTable
from stapo_bench.statistics import Labels, Matrix

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """One of the two that are compared."""

    name: str
    outcomes: Mapping[str, Outcomes]  # by task
    titles: Mapping[str, str]  # by task
    run: LoadedRun | None = None  # where it is a run folder
    table: OutcomeTable | None = None  # where it is a table
    by_task: "Side | None" = None  # where tasks are the clusters of one set: the side with its tasks apart

    def cut(self, task: str, problem_ids: Sequence[str], correct: Matrix) -> Mask:
        """True where a completion was cut off and is not right, [num_problems, num_samples]; of tables nowhere."""
        cut = np.zeros(correct.shape, dtype=np.bool_)
        for side, part, rows, names in self._parts(task, problem_ids):
            stored = side._stored(part, rows, names, correct.shape[1])
            cut[stored["problem"], stored["index"]] = (stored["truncated"] == 1.0) & (stored["correct"] == 0.0)
        return cut

    def absent(self, task: str, problem_ids: Sequence[str]) -> Mask:
        """True for as many samples as a problem has fewer than that of the task with the most; copies are there.

        [num_problems, num_samples]. Where all have as many nothing is absent, however few they are.
        """
        there = self._there(task, problem_ids)
        absent = np.zeros(there.shape, dtype=np.bool_)
        for side, part, rows, names in self._parts(task, problem_ids):
            stored = side._stored(part, rows, names, there.shape[1])
            there[stored["problem"], stored["index"]] = True
            num = there[rows].sum(axis=1, keepdims=True)
            absent[rows] = ~there[rows] & (np.cumsum(~there[rows], axis=1) <= num.max(initial=0) - num)
        return absent

    def _there(self, task: str, problem_ids: Sequence[str]) -> Mask:
        """Samples that have an outcome, decided or not."""
        found = self.outcomes[task].of(problem_ids)
        there: Mask = ~np.isnan(found.scores) | found.undecided
        return there

    def _parts(self, task: str, problem_ids: Sequence[str]) -> Iterator[tuple["Side", str, list[int], Sequence[str]]]:
        """The task itself; tasks that stand in one set apart again: side, task, rows in the set, names in the task."""
        if self.by_task is None:
            yield self, task, list(range(len(problem_ids))), problem_ids
            return
        for part, rows, names in _apart(problem_ids, self.by_task):
            yield self.by_task, part, rows, names

    def _stored(self, task: str, rows: Sequence[int], names: Sequence[str], num_samples: int) -> Rows:
        """Samples of these problems, whose rows ``problem`` then says; of tables none."""
        if self.run is None:
            return np.empty(0, dtype=Drawn.COLUMNS)
        stored = self.run.drawn.of([(task, name) for name in names])
        stored["problem"] = np.array(rows, dtype=np.int64)[stored["problem"]]
        return stored[stored["index"] < num_samples]

    def lacking(self, task: str, problem_ids: Sequence[str]) -> list[str]:
        """A line where samples of these problems are missing, or none."""
        if self.by_task is not None:
            apart = _apart(problem_ids, self.by_task)
            return [line for part, _, names in apart for line in self.by_task.lacking(part, names)]
        if self.run is not None:
            return not_drawn((self.run,), task, problem_ids)
        there = self._there(task, problem_ids)
        drawn, asked = int(there.sum()), there.size
        title = self.titles[task]
        return [f"{title}: {self.name} has {drawn} of {asked} outcomes; the rest is not there"] * (drawn < asked)


def lacking(sides: Sequence[Side], task: str, problem_ids: Sequence[str]) -> list[list[str]]:
    """Of each side a line where samples of these problems are missing, or none.

    Tables do not say how many were asked for: nothing is missing where all have as many of each problem, as designs do.
    """
    if all(side.run is None for side in sides):
        numbers = [side._there(task, problem_ids).sum(axis=1) for side in sides]
        if all(np.array_equal(numbers[0], other) for other in numbers[1:]):
            return [[] for _ in sides]
    return [side.lacking(task, problem_ids) for side in sides]


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of two sides besides their outcomes."""

    parity: tuple[ParityDifference, ...]
    same_weights: bool
    same_seeds: bool
    aims: tuple[float | None, float | None]  # of early stopping; None: the size was fixed beforehand
    notes: tuple[str, ...]


def side_of_run(run: LoadedRun) -> Side:
    """A run as a side."""
    return Side(name=run.name, outcomes=run.outcomes, titles={task: run.title(task) for task in run.tasks}, run=run)


def side_of_table(table: OutcomeTable, name: str, other_tasks: Sequence[str]) -> Side:
    """A table as a side; where it names no task, and the other side has one alone, it is that task."""
    tasks = {task: found.outcomes for task, found in table.tasks.items()}
    if list(tasks) == [ALL_ITEMS] and len(other_tasks) == 1:
        tasks = {other_tasks[0]: tasks[ALL_ITEMS]}
    return Side(name=name, outcomes=tasks, titles={task: task for task in tasks}, table=table)


def side_of(found: LoadedRun | OutcomeTable, name: str, other_tasks: Sequence[str]) -> Side:
    """Either as a side; a run keeps its own name."""
    return side_of_run(found) if isinstance(found, LoadedRun) else side_of_table(found, name, other_tasks)


def tasks_as_clusters(sides: Sequence[Side]) -> list[Side]:
    """The sides with all items in one set, where tasks were named as clusters (``--cluster task``); else as they are.

    Items then count alike, and not tasks.
    """
    sources = [source for side in sides for source in (side.run, side.table) if source is not None]
    named = any(source.tasks_are_clusters for source in sources)
    return [_in_one_set(side) for side in sides] if named else list(sides)


def _in_one_set(side: Side) -> Side:
    width = max(outcomes.scores.shape[1] for outcomes in side.outcomes.values())
    found = [(task, outcomes, width - outcomes.scores.shape[1]) for task, outcomes in side.outcomes.items()]
    together = Outcomes(
        problem_ids=tuple(_within(task, name) for task, outcomes, _ in found for name in outcomes.problem_ids),
        scores=np.vstack([np.pad(of.scores, ((0, 0), (0, lack)), constant_values=np.nan) for _, of, lack in found]),
        undecided=np.vstack([np.pad(of.undecided, ((0, 0), (0, lack))) for _, of, lack in found]),
        clusters=tuple(task for task, outcomes, _ in found for _ in outcomes.problem_ids),
    )
    return replace(side, outcomes={ALL_ITEMS: together}, titles={ALL_ITEMS: ALL_ITEMS}, by_task=side)


def _within(task: str, name: str) -> str:
    """An item's name in a set of several tasks, which may have names in common."""
    return f"{task}/{name}"


def _apart(problem_ids: Sequence[str], side: Side) -> Iterator[tuple[str, list[int], list[str]]]:
    """Items of several tasks in one set, apart again: task, rows in the set, names in the task."""
    row_of = {name: row for row, name in enumerate(problem_ids)}
    for task, outcomes in side.outcomes.items():
        found = [(row_of[_within(task, name)], name) for name in outcomes.problem_ids if _within(task, name) in row_of]
        yield task, [row for row, _ in found], [name for _, name in found]


def same_sample_seeds(a: OutcomeTable, b: OutcomeTable) -> bool:
    """Whether sample j of each common item has the same seed in both tables; unknown ones are not taken for equal."""
    common = a.tasks.keys() & b.tasks.keys()
    return bool(common) and all(_same_seeds(a, b, task) for task in common)


def _same_seeds(a: OutcomeTable, b: OutcomeTable, task: str) -> bool:
    left, right = a.tasks[task], b.tasks[task]
    if left.seeds is None or right.seeds is None:
        return False
    places = {item: row for row, item in enumerate(right.outcomes.problem_ids)}
    rows = [(row, places[item]) for row, item in enumerate(left.outcomes.problem_ids) if item in places]
    if not rows:
        return False
    of_a, of_b = np.array(rows).T
    k = min(left.seeds.shape[1], right.seeds.shape[1])
    seeds_a, seeds_b = left.seeds[of_a, :k], right.seeds[of_b, :k]
    both = (seeds_a != NO_SEED) & (seeds_b != NO_SEED)
    return bool(both.any() and (seeds_a == seeds_b)[both].all())


def check_names(a: Side, b: Side, task: str) -> None:
    """Refuse items, each in one side alone, that differ in spaces only: they may be one item."""
    of_a, of_b = set(a.outcomes[task].problem_ids), set(b.outcomes[task].problem_ids)
    spelled = {" ".join(item.split()): item for item in of_a - of_b}
    for item in of_b - of_a:
        if (other := spelled.get(" ".join(item.split()))) is not None:
            raise StapoError(
                f"item {other[:60]!r} of {a.name} and {item[:60]!r} of {b.name} differ in spaces only: expected one "
                "name where they are one item; repair one of the two"
            )


def shared_clusters(sides: Sequence[Side], task: str, problem_ids: Sequence[str]) -> Labels | None:
    """The cluster of each of these problems as a number; None where no side knows of clusters.

    Raises:
        StapoError: an item that is in one cluster for one side and in another for another, or a single cluster.
    """
    known = [(side, found) for side in sides if (found := side.outcomes[task].of(problem_ids).clusters) is not None]
    if not known:
        return None
    (first, clusters), *others = known
    for side, found in others:
        for item, ours, theirs in zip(problem_ids, clusters, found, strict=True):
            if ours != theirs:
                raise StapoError(
                    f"item {item[:60]!r} is in cluster {ours[:60]!r} of {first.name} and {theirs[:60]!r} of "
                    f"{side.name}: expected one cluster of each item in both"
                )
    numbers = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    if len(numbers) == 1 < len(problem_ids):
        raise StapoError(
            f"{task}: all {len(problem_ids)} items that are compared are in cluster {clusters[0][:60]!r}: expected at "
            "least two clusters, which are what varies on problems like these; name another column with --cluster"
        )
    return np.array([numbers[name] for name in clusters], dtype=np.int64)


_GROUPED_ID = re.compile(r"(.+)[/_:#.\-][^/_:#.\-]+|(.*\d)[a-z]")
"""A name and what follows its last separator, or a letter after a number: task-1/a, q12_3, 12b."""


def look_grouped(problem_ids: Sequence[str]) -> list[str]:
    """Two names that show it, where most problems share the beginning of their names with a few others; else none.

    Few are no more than there are groups: the two exams of a year and the subjects of a benchmark are no clusters.

    >>> look_grouped([f"task-{i}/{part}" for i in range(5) for part in "abc"])
    ['task-0/a', 'task-0/b']
    >>> look_grouped([f"2024-{exam}-{i}" for exam in "12" for i in range(15)])
    []
    """
    groups: dict[str, list[str]] = {}
    for name in problem_ids:
        if (found := _GROUPED_ID.fullmatch(name)) is not None:
            groups.setdefault(found[1] or found[2], []).append(name)
    shared = [names for names in groups.values() if len(names) > 1]
    num = sum(len(names) for names in shared)
    few = len(groups) > 1 and num / max(1, len(shared)) <= len(groups)
    return shared[0][:2] if few and num >= 0.9 * len(problem_ids) else []
