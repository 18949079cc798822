"""A gold as callers hold it: a text, a number, or a ``Gold`` that says more. What is none is refused, never graded."""

import math
from dataclasses import replace
from numbers import Real
from typing import Any

from stapo_bench.errors import UsageError
from stapo_bench.records import Gold


def as_gold(answer: Any, *, answer_type: str | None = None, question: str | None = None, where: str = "answer") -> Gold:
    """The gold, with what is said of it besides; None leaves the gold's own.

    A blank text is no gold: any reply would be wrong by it, though nothing is known. ``where`` is the name that the
    caller knows the answer by.

    Raises:
        UsageError: neither a text that says something, nor a finite number, nor a ``Gold``.

    >>> as_gold(0.5, question="Half of one?")
    Gold(answer='0.5', answer_type=None, tolerance=None, unit=None, is_multiple=None, question='Half of one?')
    """
    gold = answer if isinstance(answer, Gold) else Gold(answer=_text(answer, where))
    if answer_type is not None:
        gold = replace(gold, answer_type=answer_type)
    return gold if question is None else replace(gold, question=question)


def _text(answer: Any, where: str) -> str:
    """A gold as text: numbers of numpy are numbers, too."""
    if isinstance(answer, str) and answer.strip():
        return answer
    is_number = isinstance(answer, Real) and not isinstance(answer, bool)
    if is_number and abs(answer) < math.inf:
        return str(answer)
    raise UsageError(f"{where}: expected the gold as a text, a finite number or a Gold, got {answer!r:.40}")
