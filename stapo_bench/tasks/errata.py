"""Errata: which published golds are wrong, kept in ``tasks/errata.yaml`` and applied on request.

    problems = apply_errata(load_problems(load_task("minerva"), data_dir), "corrected")

The published golds stay the default: they are what everybody else's numbers were measured with.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Problem
from stapo_bench.tasks.foreign_files import read_foreign_yaml
from stapo_bench.tasks.resources import resource_dir

Golds = Literal["published", "corrected"]
Kind = Literal["gold", "debatable", "text"]


@dataclass(frozen=True, kw_only=True)
class Erratum:
    """One known fault. Only the kind ``gold`` has a ``corrected`` answer, and only it changes a score."""

    id: str  # of the problem
    task: str
    kind: Kind
    published: str  # the gold as the set has it
    corrected: str | None = None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Errata:
    """The list with its version, which belongs in the manifest of whatever was scored with it."""

    version: int
    items: tuple[Erratum, ...]

    def of_task(self, task: str) -> tuple[Erratum, ...]:
        """The known errors of one task, in the order of the file."""
        return tuple(item for item in self.items if item.task == task)


@cache
def load_errata() -> Errata:
    """The project's own errata.

    >>> [item.id for item in load_errata().of_task("minerva") if item.kind == "gold"][:2]
    ['minerva-126', 'minerva-155']
    """
    return read_errata(resource_dir("tasks") / "errata.yaml")


def errata_version() -> int:
    """Version of the list that ``load_errata`` reads; grades against corrected golds state it."""
    return load_errata().version


def read_errata(path: Path) -> Errata:
    """Read and check a file of errata."""
    raw = read_foreign_yaml(path)
    if not isinstance(raw, dict) or set(raw) != {"version", "errata"} or not isinstance(raw["errata"], list):
        raise StapoError(f"{path}: expected the keys 'version' and 'errata' (a list)")
    if type(raw["version"]) is not int or raw["version"] < 1:
        raise StapoError(f"{path}: expected a whole number above 0 for version, got {raw['version']!r}")
    items = tuple(_erratum(entry, f"{path}, entry {number}") for number, entry in enumerate(raw["errata"], start=1))
    ids = [item.id for item in items]
    if repeated := {name for name in ids if ids.count(name) > 1}:
        raise StapoError(f"{path}: expected every id once, got {min(repeated)!r} more than once")
    return Errata(version=raw["version"], items=items)


def apply_errata(problems: Iterable[Problem], which: Golds, errata: Errata | None = None) -> list[Problem]:
    """The problems under their published or their corrected golds; type, unit and tolerance stay.

    Raises:
        StapoError: an erratum names a problem whose gold is not the published one that it corrects.
    """
    if which not in get_args(Golds):
        raise UsageError(f"unknown golds {which!r}: expected published or corrected")
    if which == "published":
        return list(problems)
    corrections = {(item.task, item.id): item for item in (errata or load_errata()).items if item.corrected is not None}
    return [_corrected(problem, corrections.get((problem.task, problem.problem_id))) for problem in problems]


def _corrected(problem: Problem, erratum: Erratum | None) -> Problem:
    if erratum is None or erratum.corrected is None:
        return problem
    if problem.gold.answer != erratum.published:
        raise StapoError(
            f"erratum of {erratum.id}: expected the published gold {erratum.published!r}, got {problem.gold.answer!r}; "
            "the data are another version: use the published golds, or bring errata.yaml up to date"
        )
    return replace(problem, gold=replace(problem.gold, answer=erratum.corrected))


def _erratum(entry: Any, place: str) -> Erratum:
    keys = {"id", "task", "kind", "published", "reason"}
    if not isinstance(entry, dict) or set(entry) - {"corrected"} != keys:
        raise StapoError(f"{place}: expected the keys {', '.join(sorted(keys))} and, for a gold, corrected")
    if wrong := [key for key, value in entry.items() if not isinstance(value, str) or not value]:
        raise StapoError(f"{place}: expected text for '{wrong[0]}', got {entry[wrong[0]]!r}; put numbers in quotes")
    if entry["kind"] not in get_args(Kind):
        raise StapoError(f"{place}: expected the kind {', '.join(get_args(Kind))}, got {entry['kind']!r}")
    if (entry["kind"] == "gold") != ("corrected" in entry):
        raise StapoError(f"{place}: expected 'corrected' for the kind gold and for no other ({entry['id']})")
    return Erratum(**entry)
