"""Rows without a format of their own: columns under usual names, or named by ``--map problem=…,completion=…``."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from stapo_bench.errors import UsageError, did_you_mean
from stapo_bench.runs.importing.layouts import Layout, value_at
from stapo_bench.runs.importing.opening import Opened

USUAL: Mapping[str, tuple[str, ...]] = {
    "completion": (
        *("completion", "response", "output", "generation", "model_output", "model_answer", "prediction"),
        *("completions", "responses", "outputs", "generations"),  # a list each
    ),
    "problem": ("problem", "question", "prompt", "input", "query", "instruction"),
    "gold": ("gold", "answer", "expected_answer", "ground_truth", "reference_answer", "target", "gt"),
    "item": ("problem_id", "item", "unique_id"),
    "sample": ("sample_index", "sample", "sample_idx", "repeat", "epoch"),
    "score": ("score", "correct", "is_correct", "reward", "acc"),
    "extracted": ("extracted", "predicted_answer", "pred"),
    "tokens": ("num_tokens", "completion_tokens", "output_tokens"),
    "finish_reason": ("finish_reason", "stop_reason"),
    "seed": ("seed",),
    "task": ("task", "benchmark", "dataset"),
    "model": ("model", "model_name"),
}
"""What ``--map`` can name, each with the names under which it is usually found."""

_FIELD = {"problem": "question", "tokens": "num_tokens"}  # of ``Layout``, where it is called otherwise


def parse_map(text: str, known: Collection[str] = USUAL) -> dict[str, str]:
    """``problem=question,completion=out.text`` as columns by meaning; ``known``: the meanings that can be named.

    >>> parse_map("problem=question, completion=out.text")
    {'problem': 'question', 'completion': 'out.text'}
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column or name not in known:
            hint = did_you_mean(name, known) or f"expected {', '.join(known)}"
            raise UsageError(f"--map: expected NAME=COLUMN, got {part.strip()!r}; {hint}")
        found[name] = column
    return found


def mapped(opened: Opened, columns: Mapping[str, str]) -> Layout:
    """The layout that ``--map`` describes; what it does not name is taken from usual names.

    Raises:
        UsageError: no such column, or none for the completion.
    """
    rows = opened.first
    if not rows:
        raise UsageError(f"{opened.name}: --map names columns of rows, and this is no file of rows")
    known = list(rows[0])
    for name, column in columns.items():
        if all(value_at(row, column) is None and column not in row for row in rows):
            hint = did_you_mean(column, known) or f"its columns: {', '.join(known[:20])}"
            raise UsageError(f"{opened.name}: --map {name}={column}: no such column; {hint}")
    return _layout({**usual_columns(opened), **columns}, opened)


def usual_columns(opened: Opened) -> dict[str, str]:
    """Columns of a file by meaning, where exactly one of the usual names is there."""
    return {name: columns[0] for name in USUAL if len(columns := _named_as_usual(opened, name)) == 1}


def why_not_plain(opened: Opened) -> str:
    """What a file of rows would need to be read by the usual names of columns."""
    for names in (("completion",), ("problem", "item")):
        found = [_named_as_usual(opened, name) for name in names]
        if not any(len(columns) == 1 for columns in found):
            several = " and ".join(next((columns for columns in found if columns), []))
            usual = ", ".join(USUAL[names[0]][:3])
            return f"it has {several} for the {names[0]}" if several else f"it has no {names[0]} ({usual}, …)"
    raise AssertionError("it can be read")


def _named_as_usual(opened: Opened, name: str) -> list[str]:
    """Columns with a usual name of this meaning in all first rows, else in any: the reader says which row lacks it."""
    for of_rows in (all, any):
        if found := [column for column in USUAL[name] if opened.first and of_rows(column in r for r in opened.first)]:
            return found
    return []


def _layout(columns: Mapping[str, str], opened: Opened) -> Layout:
    if "completion" not in columns:
        raise UsageError(
            f"{opened.name}: expected a column with completions; name it: --map completion=COLUMN "
            f"(columns: {', '.join(list(opened.first[0])[:20])})"
        )
    fields = {_FIELD.get(name, name): column for name, column in columns.items() if name != "score"}
    verdicts = {"": columns["score"]} if "score" in columns else {}
    rows = Layout(name="plain", reported="file", needs=frozenset(), completion="", verdicts=verdicts)
    return replace(rows, **fields)  # type: ignore[arg-type]  # all of them are names of columns


def plain_layout(opened: Opened) -> Layout | None:
    """The layout of rows where completions and problems are found under usual names, and neither under two."""
    columns = usual_columns(opened)
    return _layout(columns, opened) if "completion" in columns and {"problem", "item"} & columns.keys() else None
