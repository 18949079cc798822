"""Checks the arithmetic steps written in a solution of the tiny suite, which real solutions do not allow.

A step is ``a op b = c`` with op one of + - * / mod, as ``stapo_train.tiny.problems`` writes them, with or without a
stray letter in front. It is wrong where a op b is not c: a step that miscopies the problem and then computes correctly
counts as right. Solutions that only list totals have no checkable step; stray letters are found in them, too.
"""

import re
from dataclasses import dataclass

from stapo_bench.tasks.tiny import apply

_STEP = re.compile(r"(?<!\d)(\d+) (\+|-|\*|/|mod) (\d+) = (\d+)(?!\d)")
_LETTER = re.compile(r"(?<!\S)[a-z](?=\d)")


@dataclass(frozen=True)
class WrittenStep:
    """One step: its place in the text, and whether it holds."""

    start: int
    end: int
    right: bool


def written_steps(text: str) -> list[WrittenStep]:
    """The steps of a solution in order.

    >>> [step.right for step in written_steps("First, 3 + 4 = 7, then 7 * 2 = 15. The answer is 14")]
    [True, False]
    """
    return [
        WrittenStep(found.start(), found.end(), _holds(int(found[1]), found[2], int(found[3]), int(found[4])))
        for found in _STEP.finditer(text)
    ]


def stray_letters(text: str) -> list[int]:
    """Where a letter stands in front of a number, as ``tiny_data`` plants them.

    >>> stray_letters("First, k3 + 4 = 7, then x = 7, so q9. The answer is x9")
    [7, 34, 52]
    """
    return [found.start() for found in _LETTER.finditer(text)]


def _holds(left: int, symbol: str, right: int, shown: int) -> bool:
    """Division must be exact, and nothing is divided by 0."""
    if symbol in ("/", "mod") and right == 0:
        return False
    if symbol == "/":
        return left == right * shown
    return apply(symbol, left, right) == shown
