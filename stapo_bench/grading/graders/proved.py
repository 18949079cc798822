r"""The ``math-sympy`` grader: ``math``, with a second opinion on what it could not read or compare.

Where ``math`` says INCORRECT of such an answer, or of one with an integral, a sum or a product on either side, both
texts are read by latex2sympy2_extended, and equal only if sympy proves it: closed, evaluated without a float, the
difference simplifies to 0, and some 20 digits of both agree. Only texts made of the signs below are looked at, and
nothing with a free variable: a parser that silently drops what it does not know is never shown any. Every other verdict
is that of ``math``.

It is a grader of its own, so that no verdict of ``math`` depends on which packages are installed. sympy can run for
long: grade outside text in a pool.
"""

import re
from dataclasses import replace
from typing import Any

from stapo_bench.grading.extraction import extract_answer as math_extracts
from stapo_bench.grading.graders import mathematics
from stapo_bench.grading.graders.latex import is_zero, read_latex
from stapo_bench.grading.patterns import regex
from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = f"math-sympy-1+{mathematics.GRADER_VERSION}"
MAX_LENGTH = 300  # characters of a text that is looked at
DIGITS = 30  # with which both sides are evaluated beside the proof; all but the last ten must agree

_COMMANDS = (
    "int sum prod det frac dfrac tfrac sqrt pi infty cdot times left right binom sin cos tan arctan arcsin ln log exp "
    "quad , ; ! begin{vmatrix} end{vmatrix} \\"
)
_SIGN = r"\\(?:" + "|".join(map(re.escape, _COMMANDS.split())) + r")(?![a-zA-Z])|[0-9a-zA-Z+\-*/^_{}()=&!\s]"
_READABLE = regex(rf"(?:{_SIGN})+")
_OPERATOR = regex(r"\\(?:int|sum|prod)(?![a-zA-Z])")
_WORD = regex(r"(?<![\\a-zA-Z{])[a-zA-Z]{3,}|[0-9]\s*\.\s*[0-9]")


def extract_answer(completion: str) -> str | None:
    """As ``math`` does."""
    return math_extracts(completion)


extract_for = mathematics.extract_for


def quick_grade(completion: str, gold: Gold) -> Grade | None:
    """As ``math`` does: what a look settles has been read."""
    grade = mathematics.quick_grade(completion, gold)
    return None if grade is None else replace(grade, grader=GRADER_VERSION)


def grade_answer(completion: str, answer: str | Gold, answer_type: str | None = None) -> Grade:
    r"""Grade by the rule above.

    >>> grade_answer(r"\boxed{\int_0^1 x^2 \, dx}", r"\frac{1}{3}").detail
    'proved by sympy'
    >>> grade_answer(r"\boxed{\int_0^1 x^2 \, dx}", r"\frac{1}{2}").outcome.value
    'INCORRECT'
    """
    gold = answer if isinstance(answer, Gold) else Gold(answer=answer)
    return _seconded(mathematics.grade_answer(completion, gold, answer_type), gold)


def grade_extracted(extracted: str, gold: Gold) -> Grade:
    """Grade an answer that ``extract_answer`` found: completions that give the same one share a grade."""
    return _seconded(mathematics.grade_extracted(extracted, gold), gold)


def _seconded(grade: Grade, gold: Gold) -> Grade:
    """The grade, or CORRECT where what ``math`` could not read is proved to be equal."""
    grade = replace(grade, grader=GRADER_VERSION)
    extracted = grade.extracted or ""
    doubtful = grade.is_unread or (grade.outcome is Outcome.INCORRECT and _OPERATOR.search(extracted + gold.answer))
    if doubtful and proves_equal(extracted, gold.answer):
        return replace(grade, outcome=Outcome.CORRECT, detail="proved by sympy")
    return grade


def proves_equal(left: str, right: str) -> bool:
    r"""Whether sympy proves that two texts state the same number.

    >>> proves_equal(r"\sum_{n=1}^{\infty} \frac{1}{n^2}", r"\frac{\pi^2}{6}"), proves_equal(r"\int x dx", r"\int x dx")
    (True, False)
    """
    one, other = _closed(left), _closed(right)
    if one is None or other is None or not is_zero(one, other):
        return False
    difference = abs((one - other).evalf(DIGITS))
    return bool(difference.is_number and difference < 10 ** (10 - DIGITS) * (1 + abs(other.evalf(DIGITS))))


def _closed(text: str) -> Any:
    """The number that a text states, exactly; None where it states none, or in signs that are not looked at."""
    import sympy

    text = text.strip().strip("$").strip()
    if len(text) > MAX_LENGTH or not _READABLE.fullmatch(text) or _WORD.search(text):
        return None
    read = read_latex(text)
    value = read.doit() if isinstance(read, sympy.Expr) else None
    if (
        not isinstance(value, sympy.Expr)
        or value.free_symbols
        or value.has(sympy.Float, sympy.nan, sympy.zoo, sympy.oo)
    ):
        return None
    return None if value.has(sympy.Integral, sympy.Sum, sympy.Product) else value
