r"""An answer "left = right" whose right side is the value: of a set's name, of bounds, or of the formula asked for."""

import re

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import clean

MAX_EQUALITY = 300  # characters of an answer that is read so
_UNFINISHED = regex(r"\)\s*[-+]|[-+]\s*\(")  # "(u^2 - 4) - (u^2 - 18)" is no value yet
_FORMULA = regex(r"\$([^$]+)\$")
_ASKING = regex(r"(?<=[.?!,])\s+")
# "k = 200 \text{ N/m}", "R = 2 kΩ"
_NAMED_QUANTITY = regex(r"\s*[A-Za-z](?:_(?:\w|\{\w+\}))?\s*=\s*([^=]*\d(?:[^=]*\\text\s?\{[^=]+| ?[kM]?Ω\s*))")
_NORM, _ASKS_NORM = (
    regex(r"\s*(?:\\left)?\\?\|[^=]*\|\s*"),
    regex(r"\b(?:magnitude|norm|length|modulus)\b"),
)  # "|v| = 3"
_DOT = regex(r"\s*(?:\\(?:vec|mathbf)\s*\{?)?[a-z]\}?\s*(?:·|⋅|\\cdot|\.)\s*(?:\\(?:vec|mathbf)\s*\{?)?[a-z]\}?\s*")
_CALLED = regex(r"\s*\\(?:gcd|det|max|min|operatorname\s?\{\w+\})\s*=([^=]+)")  # "\gcd = 6"
_NAMED_SET = regex(r"\s*[A-Z]\s*=\s*(\\?\{.+\})\s*")  # "S = {-2, 2}"
# "[x^3]_0^2 = 8": an antiderivative at its bounds
_EVALUATED = regex(r"(?:\]|\\Big{1,2}r?\]|\\right\]|\\right\|)\s*_\s*\{?[^=]{1,20}\^[^=]{1,20}=\s*([^=]+)$")
_BRACED, _POWERS = regex(r"([\^_])\{(\w)\}"), str.maketrans({"²": "^2", "³": "^3"})


def right_side(  # noqa: PLR0911 - one return for each kind of left side
    answer: str, question: str | None
) -> str | None:
    r"""The right side of an equality where that is the value; None of any other answer.

    ``question``: whose last formulas may have its left side.

    >>> right_side(r"S = \{-2, 2\}", None), right_side(r"\left[x^3\right]_0^2 = 8", None), right_side("2x = 8", None)
    ('\\{-2, 2\\}', '8', None)
    >>> right_side("a² + b² = 42", "If $ab = 11$, find $a^2+b^2$.")
    '42'
    """
    if len(answer) > MAX_EQUALITY or "=" not in answer:
        return None
    if found := _CALLED.fullmatch(answer):
        return found[1]
    if found := _NAMED_SET.fullmatch(answer) or _NAMED_QUANTITY.fullmatch(answer) or _EVALUATED.search(answer):
        return _closed(found[1])
    left, _, right = answer.partition("=")
    if question is not None and _NORM.fullmatch(left) and _ASKS_NORM.search(question) and "=" not in right:
        return right.strip()
    if question is not None and _DOT.fullmatch(left) and "product" in question:
        return right.strip()
    if question is None or len(left.strip()) < 2 or "=" in right or _UNFINISHED.search(right):
        return None
    formulas = _FORMULA.findall(_ASKING.split(question[-MAX_EQUALITY:])[-1])
    named = _squeezed(left)
    asking = _squeezed(_ASKING.split(question[-MAX_EQUALITY:].rstrip(" .?"))[-1])
    is_asked = any(_squeezed(formula) == named for formula in formulas) or (
        len(named) > 2 and asking.endswith(f"is{named}")
    )
    return right.strip() if is_asked else None


def _closed(value: str) -> str:
    """A value without braces behind it that nothing in it opens."""
    while value.rstrip().endswith("}") and value.count("}") > value.count("{"):
        value = value.rstrip()[:-1]
    return value


def _squeezed(formula: str) -> str:
    """A formula without blanks, its powers in one spelling."""
    return _BRACED.sub(r"\1\2", re.sub(r"\s", "", clean(formula.translate(_POWERS))))
