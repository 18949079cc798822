r"""The ``prm800k`` grader: the rule of PRM800K, which MathRuler, rllm and JustRL took over.

Written anew from ``grade_answer`` of https://github.com/openai/prm800k/blob/main/prm800k/grading/grader.py, without its
``eval`` of model text: the last box; equal if it is by MATH's own rule (``hendrycks``); else units, currency, percent
signs and thousands separators fall away; a number before another or before a fraction is a mixed number; tuples and
intervals are compared part by part, brackets included; a gold that is a whole number takes that number alone, a gold
that is a fraction no other fraction; else sympy decides. Powers are not read at all.
"""

import re

from stapo_bench.grading.graders import hendrycks
from stapo_bench.grading.graders.latex import is_zero, last_box, read_latex
from stapo_bench.grading.patterns import regex
from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = "prm800k-2"
MAX_LENGTH = 1_000  # characters of an answer that are still read as mathematics

_UNITS = "degree|cm|centimeter|meter|mile|second|minute|hour|day|week|month|year|foot|feet|inch|yard"
_REWRITES = [
    (regex(source), replacement)
    for source, replacement in (
        (r"^\\text\{(.+?)\}$", r"\1"),
        (r"\\?[%$]", ""),
        (r" (?:or|and) ", " , "),
        (r" million", "*10^6"),
        (r" billion", "*10^9"),
        (r"(?:\\text\{\s*)?\b(?:" + _UNITS + r")(?:e?s)?\b\s*\}?(?:\s*\^\{?\d+\}?)?", ""),
        (r"\^\s*\{?\\circ\}?", ""),
        (r"^\{(.*)\}$", r"\1"),
        (r",\\!\s*|(?<=\d),(?=\d{3}(?!\d))", ""),
        (r"\\[dt]?frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))", r"\\frac{\1\2}{\3\4}"),
        (r"(?<=\d)\s*(?=\\[dt]?frac)|(?<=\d) +(?=\d)", "+"),  # a mixed number
        (r"\s+", ""),
    )
]
_POWER = regex(r"\^[{(]|\^\d+\^|\^\d\d")
_FRACTION = regex(r"-?(?:\d+/\d+|\\frac\{\d+\}\{\d+\})")


def normalise(text: str) -> str:
    r"""The text as it is compared after MATH's own rule failed.

    >>> normalise("5 degrees"), normalise("1,234"), normalise(r"$30$ or 40"), normalise(r"1\frac12")
    ('5', '1234', '30,40', '1+\\frac{1}{2}')
    """
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text.lower()


def grade_answer(completion: str, answer: str | Gold, answer_type: str | None = None) -> Grade:
    r"""Grade by the rule above; the gold's type, unit and tolerance play no part.

    >>> [grade_answer(r"\boxed{%s}" % a, "(1/2,3)").outcome.value for a in ("(0.5, 3)", "[0.5, 3)")]
    ['CORRECT', 'INCORRECT']
    >>> grade_answer(r"\boxed{2\sqrt{3}}", r"\sqrt{12}").outcome.value
    'CORRECT'
    """
    gold = answer.answer if isinstance(answer, Gold) else answer
    extracted = last_box(completion)
    if extracted is None:
        return Grade(outcome=Outcome.NO_ANSWER, extracted=None, detail="no complete box", grader=GRADER_VERSION)
    same = hendrycks.normalise(extracted) == hendrycks.normalise(gold) or _equal(extracted, gold)
    outcome = Outcome.CORRECT if same else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=extracted, detail="its rule", grader=GRADER_VERSION)


def _equal(extracted: str, gold: str) -> bool:
    """The rule after MATH's own."""
    if max(len(extracted), len(gold)) > MAX_LENGTH:
        return False
    left, right = normalise(extracted), normalise(gold)
    if left == right or not left:
        return left == right
    (left_parts, left_brackets), (right_parts, right_brackets) = _parts(left), _parts(right)
    if left_brackets != right_brackets or len(left_parts) != len(right_parts):
        return False
    return all(map(_part_equal, left_parts, right_parts))


def _parts(text: str) -> tuple[list[str], str]:
    """What the commas of a tuple or an interval part, and its brackets; other text is one part."""
    if len(text) > 2 and text[0] in "([" and text[-1] in ")]":
        return text[1:-1].split(","), text[0] + text[-1]
    return [text], ""


def _part_equal(left: str, right: str) -> bool:
    """Whether one part of the answer is that of the gold."""
    if _FRACTION.fullmatch(left) and _FRACTION.fullmatch(right):
        return re.findall(r"-|\d+", left) == re.findall(r"-|\d+", right)  # in either notation
    if _is_whole(right):
        return _is_whole(left) and float(left) == float(right)
    if _POWER.search(left + right):
        return left == right
    return left == right or is_zero(read_latex(left), read_latex(right))


def _is_whole(text: str) -> bool:
    """Whether a decimal stands for a whole number; through a float, as in the original."""
    return re.fullmatch(r"[-+]?\d{1,300}(\.\d*)?", text) is not None and abs(float(text) - round(float(text))) <= 1e-7
