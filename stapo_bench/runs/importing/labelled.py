"""Responses that somebody judged: rows with a completion, the gold and whether the completion's answer is right."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.records import Gold
from stapo_bench.runs.importing.opening import open_file
from stapo_bench.runs.importing.plain import USUAL
from stapo_bench.runs.importing.unpacking import files_at

MOST_ROWS = 1_000_000  # they are held in memory
_LABEL = ("label", *USUAL["score"])
_SAID = {"true": True, "1": True, "1.0": True, "correct": True, "false": False, "0": False, "0.0": False}
_SAID |= {"incorrect": False, "wrong": False, "right": True}


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A response with its label."""

    row: int  # in the file, from 1
    completion: str
    gold: Gold
    is_right: bool


def read_labelled(path: Path, limit: int | None = None) -> list[Labelled]:
    """The responses of a file (JSON lines, CSV or Parquet, packed or not), or the first ``limit`` of them.

    Columns have their usual names: completion or response, gold or answer, label or correct (true or false, 1 or 0).
    ``answer_type``, ``tolerance`` and ``unit`` say more of the gold, where they are there.

    Raises:
        StapoError: no such file or columns, or a label that is neither right nor wrong.
    """
    with tempfile.TemporaryDirectory() as scratch:
        _, files = files_at(path, Path(scratch))
        if len(files) != 1:
            raise StapoError(f"{path}: expected one file of labelled responses, got {len(files)}; name one of them")
        opened = open_file(files[0].path, files[0].label)
        if not opened.first:
            raise StapoError(f"{path}: expected rows (JSON lines, CSV, Parquet), got {opened.kind}")
        columns = {
            meaning: _column(str(path), opened.first[0], meaning, names)
            for meaning, names in (("completion", USUAL["completion"]), ("gold", USUAL["gold"]), ("label", _LABEL))
        }
        rows = enumerate(islice(opened.rows(), MOST_ROWS if limit is None else limit), start=1)
        return [_labelled(f"{path}: row {number}", number, row, columns) for number, row in rows]


def _column(path: str, row: Mapping[str, Any], meaning: str, names: tuple[str, ...]) -> str:
    """The first of the names that is a column."""
    for name in names:
        if name in row:
            return name
    raise StapoError(
        f"{path}: expected a column with the {meaning} ({', '.join(names)}), got {', '.join(list(row)[:20])}; "
        "rename one"
    )


def _labelled(place: str, number: int, row: Mapping[str, Any], columns: Mapping[str, str]) -> Labelled:
    completion, gold, label = (row.get(columns[meaning]) for meaning in ("completion", "gold", "label"))
    if not isinstance(completion, str):
        raise StapoError(f"{place}: expected a text in {columns['completion']}, got {str(completion)[:60]!r}")
    if gold is None or isinstance(gold, (dict, list)):
        raise StapoError(f"{place}: expected the gold's text in {columns['gold']}, got {str(gold)[:60]!r}")
    is_right = _SAID.get(str(label).strip().lower())
    if is_right is None:
        raise StapoError(f"{place}: expected true or false in {columns['label']}, got {str(label)[:60]!r}")
    tolerance, unit, kind = (row.get(name) for name in ("tolerance", "unit", "answer_type"))
    try:
        width = float(tolerance) if tolerance not in (None, "") else None
    except (TypeError, ValueError):
        raise StapoError(f"{place}: expected a number in tolerance, got {str(tolerance)[:60]!r}") from None
    said = Gold(
        answer=str(gold), answer_type=str(kind) if kind else None, tolerance=width, unit=str(unit) if unit else None
    )
    return Labelled(row=number, completion=completion, gold=said, is_right=is_right)
