"""The published numbers as data: ``results/published/*.yaml``, a document per table, never mixed with measured ones.

    >>> table = load_published("stapo_v1")
    >>> table.rows[7].method, table.rows[7].regime, table.rows[7].scores["aime24"]
    ('STAPO', 'justrl', 0.1604)

Beside its cells a table holds the recipe by which they were made, as far as its source states it: what a measured
number must be compared with before two numbers for the same thing are called different.

A printed table may contradict itself. Every file lists the contradictions that are known, ``find_inconsistencies``
recomputes them, and a test asserts that both lists are the same.
"""

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from stapo_bench.analysis.relative_gain import headline
from stapo_bench.engines import REGIMES, preset
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.tasks import resource_dir


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How printed scores were sampled and graded. None: the source does not say."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_new_tokens: int | None = None
    prompt: str | None = None  # as a task's ``doc_to_text``, with {{problem}}
    prompt_format: str | None = None  # chat, base or plain; or what stands around the question
    grader: str | None = None
    engine: str | None = None
    note: str | None = None  # what else a reader must know


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One printed row. Scores are fractions."""

    model: str
    method: str
    regime: str | None  # training | justrl; None: neither
    scores: Mapping[str, float]  # by task; without those that are not printed
    average: float  # as printed; NaN: it is not


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """One printed table with its source and with what is known to be wrong in it."""

    name: str
    title: str
    paper: str
    version: str
    source: str
    confidence: str
    setting: str
    protocol: Protocol  # of all its rows
    looked_at: str | None  # date; None: not recorded
    decimals: int  # of the printed percentages
    samples: Mapping[str, int]  # per problem, by task, where it is known
    num_problems: Mapping[str, int]  # by task, where it is known
    rows: tuple[PublishedRow, ...]
    inconsistencies: tuple[Mapping[str, Any], ...]  # as listed in the file, in percent
    headline: Mapping[str, Any]  # what the paper prints, in percent; empty where it prints none

    def protocol_of(self, row: PublishedRow) -> Protocol:
        """A row's protocol: the table's, with temperature and top-p of the row's decoding regime."""
        params = preset(row.regime) if row.regime in REGIMES else None
        return replace(self.protocol, temperature=params.temperature, top_p=params.top_p) if params else self.protocol


def published_names() -> list[str]:
    """Names of the tables that have rows, the paper's own first."""
    tables = [name for name, raw in _documents().items() if raw.get("rows")]
    return sorted(tables, key=lambda name: (not name.startswith("stapo"), name))


def load_facts(name: str) -> dict[str, Any]:
    """A file of published facts that is not a table (``stapo_facts``, ``method_constants``), as it stands."""
    return deepcopy(_read(name))


def load_published(name: str) -> PublishedTable:
    """Read one table."""
    raw = _read(name)
    if "columns" not in raw:
        raise UsageError(f"'{name}' is not a table of published scores; tables: {', '.join(published_names())}")
    return PublishedTable(
        name=name,
        title=raw["title"],
        paper=raw["paper"],
        version=raw["version"],
        source=raw["source"],
        confidence=raw["confidence"],
        setting=raw["setting"],
        protocol=_protocol(raw.get("protocol", {}), name),
        looked_at=raw.get("looked_at"),
        decimals=raw.get("decimals", 2),
        samples=raw["samples"],
        num_problems=raw["problems"],
        rows=tuple(_row(row, raw["columns"], name) for row in raw["rows"]),
        inconsistencies=tuple(raw["inconsistencies"]),
        headline=raw.get("headline", {}),
    )


def find_inconsistencies(table: PublishedTable) -> list[dict[str, Any]]:
    """Where a table contradicts itself, in the form in which its file lists it (values in percent).

    ``average``: the printed average is not the mean of the printed cells. A task's name: no number of right samples
    out of problems x samples is printed like this; ``recomputed`` is the nearest value that one gives. ``headline``:
    the printed mean gain is not the one that the printed averages give.
    """
    totals = {
        task: number * table.samples[task] for task, number in table.num_problems.items() if task in table.samples
    }
    rounding = 0.5 * 10.0**-table.decimals + 1e-5  # half a unit of the last digit, and what floating point adds
    found = [item for row in table.rows for item in _row_inconsistencies(row, totals, rounding)]
    for regime, printed in table.headline.get("printed", {}).items():
        averages: dict[str, dict[str, float]] = {}
        for row in table.rows:
            if row.regime == regime:
                averages.setdefault(row.model, {})[row.method] = row.average
        recomputed = round(100 * headline(averages, table.headline["method"]), 2)
        if averages and abs(recomputed - printed) > rounding:
            found.append({"what": "headline", "regime": regime, "printed": printed, "recomputed": recomputed})
    return found


def _row_inconsistencies(row: PublishedRow, totals: Mapping[str, int], rounding: float) -> list[dict[str, Any]]:
    where = {"model": row.model, "method": row.method, "regime": row.regime}
    mean = 100 * sum(row.scores.values()) / len(row.scores)
    candidates = [] if math.isnan(row.average) else [("average", 100 * row.average, round(mean, 3), mean)]
    for task, value in row.scores.items():
        if (total := totals.get(task)) is None:
            continue
        nearest = 100 * round(value * total) / total
        candidates.append((task, 100 * value, round(nearest, 2), nearest))
    return [
        {"what": what, **where, "printed": round(printed, 2), "recomputed": shown}
        for what, printed, shown, exact in candidates
        if abs(printed - exact) > rounding
    ]


def _row(raw: Mapping[str, Any], columns: list[str], name: str) -> PublishedRow:
    if len(raw["scores"]) != len(columns):
        raise StapoError(f"published table '{name}': expected {len(columns)} scores in every row, got {raw['scores']}")
    return PublishedRow(
        model=raw["model"],
        method=raw["method"],
        regime=raw["regime"],
        scores={task: score / 100 for task, score in zip(columns, raw["scores"], strict=True) if score is not None},
        average=math.nan if raw["average"] is None else raw["average"] / 100,
    )


def _protocol(raw: Mapping[str, Any], name: str) -> Protocol:
    if unknown := sorted(raw.keys() - (known := {field.name for field in fields(Protocol)})):
        raise StapoError(
            f"published table '{name}': protocol: expected {', '.join(sorted(known))}, got {', '.join(unknown)}"
        )
    return Protocol(**raw)


def _read(name: str) -> dict[str, Any]:
    documents = _documents()
    if name not in documents:
        raise UsageError(f"unknown published table '{name}': expected one of {', '.join(sorted(documents))}")
    if (found := documents[name].get("format")) != 1:
        raise StapoError(f"published table '{name}': expected format 1, got {found}; use the version that wrote it")
    return documents[name]


def _documents() -> dict[str, dict[str, Any]]:
    """Every document by its table's name; a file of facts, which is no table, by the file's."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(resource_dir("published").glob("*.yaml")):
        for raw in _parsed(path, path.stat().st_mtime_ns):
            found[raw.get("table", path.stem)] = raw
    return found


@cache
def _parsed(path: Path, _changed: int) -> list[dict[str, Any]]:
    """The documents of a file, parsed once for each state of it."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
