"""Which column of a table of outcomes is what: by usual names, or as ``--map item=…,score=…`` says.

A long table has a row per outcome. A wide one has a row per item and a column per sample, or per model: it is taken for
one where it names its items and all other cells hold 0, 1 or nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from stapo_bench.errors import UsageError, did_you_mean
from stapo_bench.runs.importing.layouts import value_at
from stapo_bench.runs.importing.opening import MOST_COLUMNS
from stapo_bench.runs.importing.plain import parse_map
from stapo_bench.runs.outcomes.cells import NoColumnError
from stapo_bench.runs.outcomes.values import ScoreRange, is_outcome, score_of

USUAL: Mapping[str, tuple[str, ...]] = {
    "item": (
        *("item", "item_id", "problem_id", "question_id", "doc_id", "unique_id", "example_id", "instance_id", "id"),
        *("task_id", "problem", "question", "prompt"),
    ),
    "score": (
        *("score", "scores", "correct", "is_correct", "acc", "accuracy", "passed", "exact_match", "resolved"),
        *("success", "reward"),
    ),
    "sample": ("sample", "sample_index", "sample_idx", "sample_id", "repeat", "epoch", "trial", "attempt"),
    "model": ("model", "model_name", "model_id", "system"),
    "task": ("task", "task_name", "benchmark", "dataset"),
    "seed": ("seed",),
    "successes": ("successes", "num_successes", "num_correct", "n_correct", "num_passed", "n_passed", "solved"),
    "trials": ("trials", "num_trials", "num_samples", "n_samples", "num_attempts", "attempts", "total", "n"),
    "cluster": ("cluster", "cluster_id"),
}
"""What ``--map`` can name, each with the names under which it is usually found; of several items the first is taken."""

ColumnsOf: TypeAlias = Mapping[str, str] | Sequence[Mapping[str, str]]
"""Columns by meaning: of all files alike, or of each its own."""

_EXPORT = {"run", "task", "problem_id", "sample_index", "outcome", "correct"}  # of ``stapo-bench export``
_SAMPLE_COLUMN = re.compile(r"(?:sample|score|acc|correct|run|seed|rep|repeat|epoch|try|trial|attempt|k|s)?[-_ ]?\d+")
_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a table by their meaning; None: it has none for it."""

    item: str
    score: str | None = None  # None: the table is wide
    sample: str | None = None
    model: str | None = None
    task: str | None = None
    seed: str | None = None
    cluster: str | None = None  # items of one cluster belong together
    successes: str | None = None  # counts alone: so many right,
    trials: str | None = None  # of so many samples
    wide_samples: tuple[str, ...] = ()  # a column per sample
    wide_models: tuple[str, ...] = ()  # a column per model

    def __str__(self) -> str:
        named = {"item": self.item, "score": self.score, "sample": self.sample, "model": self.model, "task": self.task}
        named |= {"cluster": self.cluster, "successes": self.successes, "trials": self.trials}
        found = [f"{meaning} in '{column}'" for meaning, column in named.items() if column is not None]
        found += [f"a column for each of {len(self.wide_samples)} samples"] if self.wide_samples else []
        found += [f"a column for each of {len(self.wide_models)} models"] if self.wide_models else []
        found += ["counts alone: the samples have no order"] if self.successes is not None else []
        return ", ".join(found)


def parse_outcome_map(text: str) -> dict[str, str]:
    """``item=name,score=right`` as columns by meaning.

    >>> parse_outcome_map("item=name, score=right")
    {'item': 'name', 'score': 'right'}
    """
    return parse_map(text, USUAL) if text else {}


def columns_of_each(columns: ColumnsOf | None, num: int) -> list[Mapping[str, str]]:
    """The columns of each of so many files, in their order.

    Raises:
        UsageError: more than one were given, and not as many as there are files.

    >>> columns_of_each({"item": "name"}, 2)
    [{'item': 'name'}, {'item': 'name'}]
    """
    if columns is None or isinstance(columns, Mapping):
        return [columns or {}] * num
    if len(columns) != num:
        raise UsageError(f"--map: expected it once, or once for each of {num} files in their order, got {len(columns)}")
    return list(columns)


def find_columns(
    name: str, first: Sequence[Mapping[str, Any]], named: Mapping[str, str], declared: ScoreRange | None = None
) -> Columns:
    """The columns of a table.

    Args:
        name: of the file, for errors.
        first: its first rows.
        named: of ``--map``; what it does not name is looked for under usual names.
        declared: the range of the scores, if it is another than 0 to 1.

    Raises:
        UsageError: no such column, no items, no scores, or scores under several names.
    """
    there = list(dict.fromkeys(column for row in first for column in row))
    if len(there) > MOST_COLUMNS:
        raise UsageError(f"{name}: expected at most {MOST_COLUMNS} columns, got {len(there)}; write a row per outcome")
    for meaning, column in named.items():
        if column not in there and all(value_at(row, column) is None for row in first):
            hint = did_you_mean(column, there) or _columns(there)
            option = f"--cluster {column}" if meaning == "cluster" else f"--map {meaning}={column}"
            raise NoColumnError(f"{name}: {option}: no such column; {hint}")
    usual = {meaning: [c for n in names for c in there if c.lower() == n] for meaning, names in USUAL.items()}
    if set(there) >= _EXPORT:
        usual |= {"model": ["run"], "item": ["problem_id"], "score": ["correct"], "sample": ["sample_index"]}
    counts = _counts(named, usual)
    item = named.get("item") or next(iter(usual["item"] or (usual["task"] if counts else ())), None)
    if item is None:
        raise NoColumnError(f"{name}: expected a column that names the items: --map item=COLUMN; {_columns(there)}")
    scores = [named["score"]] if "score" in named else [column for column in usual["score"] if column != item]
    scores = [] if "successes" in named else scores
    if len(scores) > 1:
        raise UsageError(f"{name}: scores may stand in {' or '.join(map(repr, scores))}; say where: --map score=COLUMN")

    def other(meaning: str) -> str | None:
        return named.get(meaning) or next((c for c in usual[meaning] if c not in (item, *scores)), None)

    successes, trials = counts if counts and not scores else (None, None)
    found = Columns(
        item=item,
        successes=successes,
        trials=trials,
        score=next(iter(scores), None),
        sample=other("sample"),
        model=other("model"),
        task=None if other("task") == item else other("task"),
        seed=other("seed"),
        cluster=None if "cluster" not in named and other("cluster") == other("task") else other("cluster"),
    )
    return found if scores or successes else _wide(name, first, there, found, declared)


def _counts(named: Mapping[str, str], usual: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """The columns of successes and trials; None where one of them is missing."""
    found = [named.get(meaning) or next(iter(usual[meaning]), None) for meaning in ("successes", "trials")]
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def _wide(
    name: str,
    first: Sequence[Mapping[str, Any]],
    there: Sequence[str],
    columns: Columns,
    declared: ScoreRange | None,
) -> Columns:
    """A column per sample, or per model, where every cell of the first rows is an outcome or empty."""
    known = {columns.item, columns.model, columns.task, columns.seed, columns.cluster}
    rest = tuple(column for column in there if column not in known)
    are_outcomes = all(is_outcome(row.get(column), declared) for row in first for column in rest)
    if not rest or not are_outcomes or columns.sample is not None:
        between = rest and all(score_of(row.get(column), declared) is not None for row in first for column in rest)
        hint = ", or --range 0:1 where all columns hold scores" if between and columns.sample is None else ""
        raise NoColumnError(f"{name}: expected a column with scores: --map score=COLUMN{hint}; {_columns(there)}")
    if all(_SAMPLE_COLUMN.fullmatch(column.lower()) for column in rest):
        return replace(columns, wide_samples=rest)
    if columns.model is not None:
        raise UsageError(f"{name}: models stand in '{columns.model}' and perhaps in columns; --map score=COLUMN")
    return replace(columns, wide_models=rest)


def _columns(there: Sequence[str]) -> str:
    more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
    return f"its columns: {', '.join(column[:40] for column in there[:_SHOWN])}{more}"
