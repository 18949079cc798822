"""Outcomes collected cell by cell: each stands once, items differ in more than spaces, nothing is filled in."""

from array import array
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stapo_bench.errors import StapoError
from stapo_bench.records import Outcomes
from stapo_bench.runs.outcomes.values import shown

ALL_ITEMS = "all items"
"""What stands for the task where a table names none."""
NO_SEED = -(1 << 63)
"""In a matrix of seeds, where there is no outcome."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TableTask:
    """The outcomes of one model on one task."""

    outcomes: Outcomes
    seeds: NDArray[np.int64] | None = None  # [num_problems, num_samples]; None: not known of every sample


@dataclass(frozen=True, kw_only=True, eq=False)
class OutcomeTable:
    """The outcomes of one model, as a table or log gives them."""

    name: str
    origin: str  # the file, or what else it was read from
    tasks: Mapping[str, TableTask]
    notes: tuple[str, ...] = ()  # how it was read
    tasks_are_clusters: bool = False  # the items of a task belong together, and all tasks are one set


@dataclass(eq=False)
class Cells:
    """The outcomes of one model on one task while they are read."""

    origin: str
    items: dict[str, int] = field(default_factory=dict)
    labels: dict[Hashable, int] = field(default_factory=dict)  # of samples
    item_of: "array[int]" = field(default_factory=lambda: array("q"))
    label_of: "array[int]" = field(default_factory=lambda: array("q"))
    scores: "array[float]" = field(default_factory=lambda: array("d"))
    seeds: "array[int]" = field(default_factory=lambda: array("q"))
    rows: "array[int]" = field(default_factory=lambda: array("q"))
    counts: "array[int]" = field(default_factory=lambda: array("q"))  # by item
    clusters: dict[str, str] = field(default_factory=dict)  # by item
    is_counted: bool = False  # no number of samples is given: an item's rows are its samples, in their order

    def add(self, item: str, label: Hashable | None, score: float, row: int, seed: int | None = None) -> None:
        """One outcome, from a row of the file; ``label`` tells the samples of an item apart, None: its next."""
        number = self.items.setdefault(item, len(self.items))
        if number == len(self.counts):
            self.counts.append(0)
        if label is None:
            label, self.is_counted = self.counts[number], True
        self.counts[number] += 1
        self.item_of.append(number)
        self.label_of.append(self.labels.setdefault(label, len(self.labels)))
        self.scores.append(score)
        self.rows.append(row)
        self.seeds.append(seed if seed is not None and abs(seed) < 1 << 63 else NO_SEED)

    def belongs(self, item: str, cluster: str, row: int) -> None:
        """The item is one of a cluster.

        Raises:
            StapoError: it was one of another before.
        """
        if (other := self.clusters.setdefault(item, cluster)) != cluster:
            raise StapoError(
                f"{self.origin}: row {row}: item {shown(item)} is in cluster {shown(cluster)} here and in "
                f"{shown(other)} before: expected one cluster of each item"
            )

    def join(self, other: "Cells", seed: str) -> None:
        """Further samples of the task, from a file whose name says this seed."""
        items, labels = list(other.items), list(other.labels)
        rows = zip(other.item_of, other.label_of, other.scores, other.rows, other.seeds, strict=True)
        for item, label, score, row, drawn_with in rows:
            self.add(items[item], None if other.is_counted else f"{labels[label]}{seed}", score, row, drawn_with)
        for name, cluster in other.clusters.items():
            self.belongs(name, cluster, other.rows[0])

    def task(self) -> TableTask:
        """The matrices, items in the order of the file, samples in that of their names.

        Raises:
            StapoError: an outcome that stands twice, or items that differ in spaces only.
        """
        self._check_names()
        self._check_doubles()
        rank = np.argsort(_order(self.labels))
        place = np.array(self.item_of), rank[np.array(self.label_of)]
        scores = np.full((len(self.items), len(self.labels)), np.nan)
        undecided = np.zeros(scores.shape, dtype=np.bool_)
        seeds = np.full(scores.shape, NO_SEED)
        scores[place], seeds[place] = np.array(self.scores), np.array(self.seeds)
        undecided[place] = np.isnan(np.array(self.scores))
        return TableTask(
            outcomes=Outcomes(
                problem_ids=tuple(self.items),
                scores=scores,
                undecided=undecided,
                clusters=tuple(self.clusters[item] for item in self.items) if self.clusters else None,
            ),
            seeds=None if NO_SEED in self.seeds else seeds,
        )

    def _check_names(self) -> None:
        if self.clusters and (without := [item for item in self.items if item not in self.clusters]):
            raise StapoError(f"{self.origin}: item {shown(without[0])} has no cluster: expected one of each item")
        plain: dict[str, str] = {}
        for item in self.items:
            if (other := plain.setdefault(" ".join(item.split()), item)) is not item:
                raise StapoError(
                    f"{self.origin}: items {shown(other)} and {shown(item)} differ in spaces only; give them one "
                    "name, or names that differ"
                )

    def _check_doubles(self) -> None:
        names = list(self.items)
        if self.is_counted and len(set(self.counts)) > 1:
            most = int(np.argmax(self.counts))
            raise StapoError(
                f"{self.origin}: item {shown(names[most])} stands in {self.counts[most]} rows "
                f"({self._rows_of(most)}), others in {min(self.counts)}: doubles are not told from samples; remove "
                "them, or name what numbers the samples: --map sample=COLUMN"
            )
        keys = np.array(self.item_of) * max(1, len(self.labels)) + np.array(self.label_of)
        order = np.argsort(keys, kind="stable")
        (doubled,) = np.nonzero(np.diff(keys[order]) == 0)
        if len(doubled):
            first, second = sorted((int(order[doubled[0]]), int(order[doubled[0] + 1])))
            label = list(self.labels)[self.label_of[first]]
            raise StapoError(
                f"{self.origin}: item {shown(names[self.item_of[first]])}, sample {shown(label)} stands in rows "
                f"{self.rows[first]} and {self.rows[second]}: each outcome is expected once; remove the double, or "
                "name what tells them apart: --map sample=COLUMN"
            )

    def _rows_of(self, item: int) -> str:
        found = [str(row) for row, number in zip(self.rows, self.item_of, strict=True) if number == item]
        return ", ".join(found[:3]) + (", …" if len(found) > 3 else "")


def _order(labels: Iterable[Any]) -> list[int]:
    """The places of samples' names in their order: of numbers by size, else as texts."""
    names = list(labels)
    try:
        return sorted(range(len(names)), key=lambda i: int(names[i]))
    except (TypeError, ValueError):
        return sorted(range(len(names)), key=lambda i: str(names[i]))
