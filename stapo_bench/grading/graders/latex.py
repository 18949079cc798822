"""What several graders of other people's rules share: the last box of a text, and LaTeX as a sympy expression."""

import re
from typing import Any

from stapo_bench.grading.patterns import regex

# Numbers that take their parser minutes to write out: long ones, towers of powers, large exponents and factorials.
_TOO_HEAVY = regex(r"\d{60}|\^\{?-?\d{5}|\^\{?\d+\}?\^|!!|\d{4}!|(\^.*){8}", re.DOTALL)


def last_box(text: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` or ``\fbox{...}``; None where there is none or it never closes.

    >>> last_box(r"\boxed{41}, no: $\boxed{\frac{1}{2}}$."), last_box(r"\boxed{41}, no: \boxed{42")
    ('\\frac{1}{2}', None)
    """
    start = max(text.rfind(r"\boxed{"), text.rfind(r"\fbox{"))
    if start < 0:
        return None
    content = text.index("{", start) + 1
    depth = 1
    for position in range(content, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return text[content:position]
    return None


def read_latex(text: str) -> Any:
    """A sympy expression, or None where the text cannot be read as one. It builds expressions and evaluates no text."""
    from latex2sympy2_extended import latex2sympy

    if not text or _TOO_HEAVY.search(text):
        return None
    try:
        return latex2sympy(text)
    except MemoryError:
        raise
    except Exception:  # the parser raises whatever it stumbles over; by these graders' rules unreadable is not equal
        return None


def is_zero(left: Any, right: Any) -> bool:
    """Whether sympy simplifies the difference of two expressions to 0; False where they have none."""
    import sympy

    if left is None or right is None:
        return False
    try:
        return bool(left == right or sympy.simplify(left - right) == 0)
    except (TypeError, ValueError, AttributeError, NotImplementedError, OverflowError):
        return False  # sets, relations, matrices of other shapes
