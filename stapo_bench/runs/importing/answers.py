"""What a file of another tool says: ``Answer``, one completion with what is known of it; ``Stated``, of all of them.

None is "the file does not say", and stays that: nothing is filled in.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.records import FinishReason, Outcome
from stapo_bench.runs.identity import optional_sampling, read_style
from stapo_bench.runs.nested import JsonFields

FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "error": "error",
}
"""Ours by the names that tools and servers give."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One completion, as a file tells it."""

    completion: str
    question: str | None = None  # the problem's text, or the prompt that holds it
    gold: str | None = None
    item: str | None = None  # the file's own name for the problem
    sample: int | None = None  # which of the problem's samples; None: the next one
    verdicts: Mapping[str, Outcome | None] = field(default_factory=dict)
    """By metric ("" where there is one alone): right, wrong, no answer, or None for what is none of these."""
    extracted: str | None = None  # the answer that the file's own grader read
    num_tokens: int | None = None
    finish_reason: FinishReason | None = None
    seed: int | None = None
    task: str | None = None  # the benchmark's name, as the file gives it
    title: str | None = None  # what tables call it, where that is another name
    model: str | None = None
    again: bool = False  # not another completion: the first of this item, with a further verdict


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a file says of all its samples, or what whoever imports it declares."""

    model: str | None = None
    method: str | None = None
    step: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None
    settings: str | None = None  # what else decided the samples, as ``own_settings`` reads it
    style: str | None = None  # what stood around a file's questions


def own_settings(said: Any, name: str) -> dict[str, Any]:
    """``settings`` and ``style`` of ``Stated``, JSON each, from what our exporters write; none from other tools' files.

    Raises:
        StapoError: they are no settings.
    """
    if said is None:
        return {}
    try:
        fields = JsonFields(said, "stapo_bench")
        known = {"settings": optional_sampling(fields.inner("sampling"))}
        if fields.states("style"):
            known["style"] = read_style(fields.inner("style")).to_json()
    except ValueError as error:
        raise StapoError(f"{name}: expected the settings of a run, got {error}; export it again") from None
    return {key: json.dumps(value, sort_keys=True) for key, value in known.items()}


_WORDS: Mapping[str, Outcome] = {
    **dict.fromkeys(("c", "correct", "true"), Outcome.CORRECT),
    **dict.fromkeys(("i", "incorrect", "false"), Outcome.INCORRECT),
    **dict.fromkeys(("n", "no_answer"), Outcome.NO_ANSWER),
}


def verdict(value: Any, scale: float = 1.0) -> Outcome | None:
    """Right, wrong or no answer as tools write it; None for what is none of these, such as half a point.

    >>> [found and found.value for found in map(verdict, (True, 1.0, -1, "C", "false", "N", "NO_ANSWER", 0.5, None))]
    ['CORRECT', 'CORRECT', 'INCORRECT', 'CORRECT', 'INCORRECT', 'NO_ANSWER', 'NO_ANSWER', None, None]
    >>> verdict(-5, scale=5).value, verdict([True]).value
    ('INCORRECT', 'CORRECT')
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        if (named := _WORDS.get(value.lower())) is not None:
            return named
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool | int | float) and value / scale in (1.0, 0.0, -1.0):
        return Outcome.CORRECT if value / scale == 1.0 else Outcome.INCORRECT
    return None


def completion_text(value: Any) -> str:
    """A completion as text: empty where the file has none, or NaN as pandas writes it; it is a sample all the same.

    >>> completion_text("so 4"), completion_text(4), completion_text(None), completion_text(float("nan"))
    ('so 4', '4', '', '')
    """
    return "" if value is None or _is_nan(value) else str(value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def gold_text(value: Any) -> str | None:
    r"""A gold as text: of a worked solution its last line behind ``####``, as GSM8K has it, or its last box.

    NaN, also as a text, is what pandas writes where there is none.

    >>> gold_text(204.0), gold_text("so 3 + 4 = 7\n#### 7"), gold_text(["\\frac12"]), gold_text(""), gold_text("nan")
    ('204', '7', '\\frac12', None, None)
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, dict) or (text := str(value)).strip().lower() in ("", "nan"):
        return None
    if "####" in text:
        text = text.rsplit("####", 1)[1].strip().splitlines()[0] if text.rsplit("####", 1)[1].strip() else text
    return text.strip() or None
