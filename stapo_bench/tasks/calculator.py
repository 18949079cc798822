"""A calculator: exact arithmetic on a line of text, with bounds on its size and so on its time.

    sum      = product { ("+" | "-") product }
    product  = signed { ("*" | "/") signed }
    signed   = ("+" | "-") signed | power
    power    = atom [ ("^" | "**") signed ]
    atom     = number | "(" sum ")"

Numbers are integers and decimals, read and computed as fractions; ``−``, ``×``, ``·`` and ``÷`` are read as well. A
power has a whole exponent. What is outside the bounds, or no expression, is told as a text: a model is to read it.
"""

import re
from collections.abc import Callable
from fractions import Fraction

LONGEST = 200
"""Characters of an expression."""
DEEPEST = 30
"""Parentheses, signs and powers inside one another."""
LARGEST = 10**50
"""What no numerator and no denominator may reach, in the result or on the way to it."""
HIGHEST = 200
"""The greatest exponent, of either sign."""

_SIGNS = str.maketrans({"−": "-", "×": "*", "·": "*", "÷": "/"})
_TOKEN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\*\*|[-+*/^()])")


def calculate(expression: str) -> str:
    """The value of an expression as an integer or a fraction in lowest terms, or ``error:`` and why there is none.

    >>> calculate("17 * 23 - 4"), calculate("(1/3 + 0.5) ÷ 2"), calculate("-2^2"), calculate("1/0")
    ('387', '5/12', '-4', 'error: division by zero')
    """
    if len(expression) > LONGEST:
        return f"error: expected at most {LONGEST} characters"
    try:
        return str(_Reading(expression.translate(_SIGNS)).value())
    except _UnreadableError as error:
        return f"error: {error}"


class _UnreadableError(Exception):
    """Why an expression has no value."""


class _Reading:
    """An expression as it is read from left to right, a value at a time."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._at = 0
        self._depth = 0

    def value(self) -> Fraction:
        """The value of all of it."""
        found = self._sum()
        if self._at < len(self._text):
            raise _UnreadableError("expected an operator or the end")
        return found

    def _sum(self) -> Fraction:
        found = self._product()
        while sign := self._take("+", "-"):
            found = _bounded(found + self._product() if sign == "+" else found - self._product())
        return found

    def _product(self) -> Fraction:
        found = self._signed()
        while sign := self._take("*", "/"):
            right = self._signed()
            found = _bounded(found * right if sign == "*" else _quotient(found, right))
        return found

    def _signed(self) -> Fraction:
        if sign := self._take("+", "-"):
            found = self._inner(self._signed)
            return -found if sign == "-" else found
        base = self._atom()
        return _power(base, self._inner(self._signed)) if self._take("^", "**") else base

    def _atom(self) -> Fraction:
        if self._take("("):
            found = self._inner(self._sum)
            if not self._take(")"):
                raise _UnreadableError("expected a closing parenthesis")
            return found
        token = self._next()
        if not token[:1].isdigit():
            raise _UnreadableError("expected a number or an opening parenthesis")
        self._take(token)
        return _bounded(Fraction(token))

    def _inner(self, read: Callable[[], Fraction]) -> Fraction:
        """A part inside another, not too deep in them."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise _UnreadableError(f"expected at most {DEEPEST} parentheses and signs inside one another")
        found = read()
        self._depth -= 1
        return found

    def _next(self) -> str:
        """The next token; "" where there is none."""
        found = _TOKEN.match(self._text, self._at)
        return found[1] if found else ""

    def _take(self, *wanted: str) -> str:
        """The next token, gone past, where it is one of these; else ""."""
        found = _TOKEN.match(self._text, self._at)
        if found is None or found[1] not in wanted:
            return ""
        self._at = found.end()
        return found[1]


def _quotient(left: Fraction, right: Fraction) -> Fraction:
    if right == 0:
        raise _UnreadableError("division by zero")
    return left / right


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    """A whole power; one of a number of up to 50 digits has at most 10,000, which takes no time."""
    if exponent.denominator != 1 or abs(exponent) > HIGHEST:
        raise _UnreadableError(f"expected a whole exponent from -{HIGHEST} to {HIGHEST}")
    if base == 0 and exponent < 0:
        raise _UnreadableError("division by zero")
    return _bounded(base ** int(exponent))


def _bounded(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator) >= LARGEST:
        raise _UnreadableError("a number is too large")
    return value
