"""Where the mutations of a sample are, told so that each is found again after its module changed elsewhere."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cosmic_ray.work_item import WorkItem

Place = tuple[str, str, str, int]
"""Module, text of the line, cosmic-ray's operator, and how many of its mutations in lines of this text come before."""
FIELDS = ("path", "text", "operator", "occurrence")


def by_place(items: Iterable[WorkItem]) -> dict[Place, WorkItem]:
    """All mutations of some modules by their places."""
    found: dict[Place, WorkItem] = {}
    lines: dict[str, list[str]] = {}
    before: Counter[tuple[str, str, str]] = Counter()
    for item in sorted(items, key=lambda item: (str(item.mutations[0].module_path), item.mutations[0].occurrence)):
        (change,) = item.mutations
        path = str(change.module_path)
        text = lines.setdefault(path, Path(path).read_text(encoding="utf-8").splitlines())[change.start_pos[0] - 1]
        kind = (path, text.strip(), str(change.operator_name))
        found[(*kind, before[kind])] = item
        before[kind] += 1
    return found


def place_of(row: Mapping[str, Any]) -> Place:
    """The place that a row of a record names."""
    return row["path"], row["text"], row["operator"], row["occurrence"]


def write_places(path: Path, chosen: Sequence[WorkItem], places: Mapping[Place, WorkItem]) -> None:
    """Keep beside a session where its mutations are, in the order in which they were drawn."""
    named = {item.job_id: place for place, item in places.items()}
    path.write_text(json.dumps([(item.job_id, named[item.job_id]) for item in chosen], indent=0), encoding="utf-8")


def read_places(path: Path) -> dict[Place, str]:
    """Place -> job, as `write_places` kept them."""
    return {tuple(place): job for job, place in json.loads(path.read_text(encoding="utf-8"))}
