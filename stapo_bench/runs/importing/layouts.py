"""Formats that are named columns: which column of which tool is what.

A layout is found by the columns that its tool writes and no other does. A column may be nested (``doc.answer``), and
may hold a list: then a row is a problem with several samples.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from stapo_bench.errors import StapoError, without_guard
from stapo_bench.runs.importing.answers import FINISH_REASONS, Answer, Stated, completion_text, gold_text, verdict
from stapo_bench.runs.importing.opening import Opened


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A tool's columns by their meaning; None: it has none for it."""

    name: str
    reported: str  # the tool, as the grade file of its verdicts names it
    needs: frozenset[str]  # columns that make it this format
    lacks: frozenset[str] = frozenset()  # columns that make it another
    completion: str
    question: str | None = None
    gold: str | None = None
    item: str | None = None
    sample: str | None = None
    verdicts: Mapping[str, str] = field(default_factory=dict)  # by metric
    scale: float = 1.0  # what a right answer scores
    extracted: str | None = None
    num_tokens: str | None = None
    finish_reason: str | None = None
    seed: str | None = None
    task: str | None = None
    title: str | None = None
    model: str | None = None
    temperature: str | None = None
    top_p: str | None = None
    max_new_tokens: str | None = None
    rows: str | None = None  # of a JSON object: where its rows are
    is_ours: bool = False  # its CSV guards what a spreadsheet would take for a formula

    def fits(self, opened: Opened) -> str | None:
        """Why a file is of this format; None where it is not."""
        rows = self._first(opened)
        if rows and all(self.needs <= row.keys() and not self.lacks & row.keys() for row in rows):
            return f"its rows have {', '.join(sorted(self.needs))}"
        return None

    def _first(self, opened: Opened) -> list[Mapping[str, Any]]:
        if self.rows is None:
            return list(opened.first)
        return list(islice(self._rows_in(opened), 5)) if opened.kind == "json" else []

    def _rows_in(self, opened: Opened) -> Iterator[Mapping[str, Any]]:
        """The rows of a JSON object: a list, or an object of numbered ones."""
        found = opened.document.get(self.rows or "")
        found = list(found.values()) if isinstance(found, dict) else found
        return (row for row in (found if isinstance(found, list) else []) if isinstance(row, dict))

    def stated(self, opened: Opened) -> Stated:
        """What its first row says of all samples."""
        row = (self._first(opened) or [{}])[0]
        limit = _whole(value_at(row, self.max_new_tokens))
        return Stated(
            model=_text(value_at(row, self.model)),
            temperature=_real(value_at(row, self.temperature)),
            top_p=_real(value_at(row, self.top_p)),
            max_new_tokens=limit,
        )

    def answers(self, opened: Opened) -> Iterator[Answer]:
        """Every completion of a file of this format; one that is null is a sample without a text.

        Raises:
            StapoError: a row has no such column, or an empty list in it.
        """
        rows = opened.rows() if self.rows is None else self._rows_in(opened)
        rows = map(_as_written, rows) if self.is_ours and opened.kind == "table" else rows
        for row_number, row in enumerate(rows, start=1):
            completions = value_at(row, self.completion, missing=[])
            if completions == []:
                raise StapoError(
                    f"{opened.name}: row {row_number}: expected samples, got none in '{self.completion}' (columns: "
                    f"{', '.join(list(row)[:20])}); write null for a completion without a text, or leave the row out"
                )
            many = isinstance(completions, list)
            texts = completions if many else [completions]
            for number, text in enumerate(texts):
                yield self._answer(row, completion_text(text), number if many else None, len(texts))

    def _answer(self, row: Mapping[str, Any], text: str, number: int | None, count: int) -> Answer:
        def of_sample(path: str | None) -> Any:
            value = value_at(row, path)
            if isinstance(value, list) and number is not None:
                return value[number] if len(value) == count else None
            return value

        return Answer(
            completion=text,
            question=said(value_at(row, self.question), "user"),
            gold=gold_text(value_at(row, self.gold)),
            item=_text(value_at(row, self.item)),
            sample=_whole(value_at(row, self.sample)),
            verdicts={
                name: verdict(value, self.scale)
                for name, path in self.verdicts.items()
                if (value := of_sample(path)) is not None
            },
            extracted=_text(of_sample(self.extracted)),
            num_tokens=_whole(of_sample(self.num_tokens)),
            finish_reason=FINISH_REASONS.get(str(of_sample(self.finish_reason)).lower()),
            seed=_whole(of_sample(self.seed), bits=63),
            task=_text(value_at(row, self.task)),
            title=_text(value_at(row, self.title)),
            model=_text(value_at(row, self.model)),
        )


def _as_written(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of our CSV as it was before it was put into cells."""
    return {name: without_guard(cell) if isinstance(cell, str) else cell for name, cell in row.items()}


def value_at(row: Mapping[str, Any], path: str | None, missing: Any = None) -> Any:
    """A column's value, or ``missing``; ``a.b`` is b in a, also where a is JSON in a text.

    >>> value_at({"a.b": 1}, "a.b"), value_at({"a": [{"b": 2}]}, "a.0.b"), value_at({"a": '{"b": 3}'}, "a.b")
    (1, 2, 3)
    """
    if path is None:
        return None
    if path in row:
        return row[path]
    value: Any = row
    for part in path.split("."):
        if isinstance(value, str) and value[:1] in "[{":
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return missing
        if isinstance(value, dict):
            value = value.get(part, missing)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return missing
    return value


def said(messages: Any, role: str) -> str | None:
    """The last text of a role in a conversation; a text stands for itself.

    >>> said([{"role": "user", "content": "1 + 1?"}], "user"), said("2", "assistant"), said([], "assistant")
    ('1 + 1?', '2', None)
    """
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, dict) and str(message.get("role")).lower() in (role, {"user": "human"}.get(role)):
            content = message.get("content", message.get("prompt"))
            if isinstance(content, list):  # parts, of which texts count
                content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
            return None if content is None else str(content)
    return messages if isinstance(messages, str) else None


def _text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value)


def _whole(value: Any, bits: int = 31) -> int | None:
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << bits else None


def _real(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
