"""What a file of another tool says: ``Answer``, one completion with what is known of it; ``Stated``, of all of them.

None is "the file does not say", and stays that: nothing is filled in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stapo_bench.records import FinishReason

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
    verdicts: Mapping[str, bool | None] = field(default_factory=dict)
    """By metric ("" where there is one alone): right, wrong, or None for a number that is neither."""
    extracted: str | None = None  # the answer that the file's own grader read
    num_tokens: int | None = None
    finish_reason: FinishReason | None = None
    seed: int | None = None
    task: str | None = None  # the benchmark's name, as the file gives it
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


def verdict(value: Any, scale: float = 1.0) -> bool | None:
    """Right or wrong as tools write it; None for what is neither, such as half a point.

    >>> [verdict(value) for value in (True, 1.0, 0, -1, "C", "I", "false", 0.5, None)]
    [True, True, False, False, True, False, False, None, None]
    >>> verdict(-5, scale=5), verdict([True])
    (False, True)
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        named = {"c": True, "correct": True, "true": True, "i": False, "incorrect": False, "false": False, "n": False}
        if value.lower() in named:
            return named[value.lower()]
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value / scale in (1.0, 0.0, -1.0):
        return value / scale == 1.0
    return None


def gold_text(value: Any) -> str | None:
    r"""A gold as text: of a worked solution its last line behind ``####``, as GSM8K has it, or its last box.

    >>> gold_text(204.0), gold_text("so 3 + 4 = 7\n#### 7"), gold_text(["\\frac12"]), gold_text("")
    ('204', '7', '\\frac12', None)
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, dict) or value == "":
        return None
    text = str(value)
    if "####" in text:
        text = text.rsplit("####", 1)[1].strip().splitlines()[0] if text.rsplit("####", 1)[1].strip() else text
    return text.strip() or None
