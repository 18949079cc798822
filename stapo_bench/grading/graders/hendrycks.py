r"""The ``hendrycks`` grader: the rule that came with MATH, text against text after some normalisation.

Written anew from ``is_equiv`` of https://github.com/hendrycks/math/blob/main/modeling/math_equivalence.py: the last box
is the answer, both sides lose layout, degrees, percent and dollar signs and a unit in ``\text{ ...}``, short fractions
and roots get their braces, ``a/b`` and 0.5 become fractions, ``k = 5`` becomes 5, and what is left must be the same.
"""

from stapo_bench.grading.graders.latex import last_box
from stapo_bench.grading.patterns import regex
from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = "hendrycks-1"

_REWRITES = [
    (regex(source), replacement)
    for source, replacement in (
        (r"\n|\\!", ""),
        (r"\\\\", r"\\"),
        (r"[td]frac", "frac"),
        (r"\\left|\\right", ""),
        (r"\^\{\\circ\}|\^\\circ", ""),
        (r"\\\$", ""),
        (r"\\text\{ .*$", ""),
        (r"\\?%", ""),
        (r"(^|[ {])\.", r"\g<1>0."),
        (r"^[^=]{1,2}=(?=[^=]*$)", ""),
        (r"\\sqrt([^{])", r"\\sqrt{\1}"),
        (r" ", ""),
        (r"\\frac([^{])([^{])", r"\\frac{\1}{\2}"),
        (r"\\frac([^{])\{", r"\\frac{\1}{"),
        (r"^0\.5$", r"\\frac{1}{2}"),
        (r"^(-?\d+)/(\d+)$", r"\\frac{\1}{\2}"),
    )
]


def normalise(text: str) -> str:
    r"""The text as it is compared.

    >>> normalise(r"x = \dfrac12"), normalise("3/4"), normalise(r"90^\circ"), normalise(r"5\text{ cm}")
    ('\\frac{1}{2}', '\\frac{3}{4}', '90', '5')
    """
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text


def grade_answer(completion: str, answer: str | Gold, answer_type: str | None = None) -> Grade:
    r"""CORRECT if the last box is the gold after normalisation; the gold's type and tolerance play no part.

    >>> grade_answer(r"\boxed{\frac12}", "1/2").outcome.value, grade_answer(r"\boxed{2^3}", "8").outcome.value
    ('CORRECT', 'INCORRECT')
    """
    gold = answer.answer if isinstance(answer, Gold) else answer
    extracted = last_box(completion)
    if extracted is None:
        return Grade(outcome=Outcome.NO_ANSWER, extracted=None, detail="no complete box", grader=GRADER_VERSION)
    outcome = Outcome.CORRECT if normalise(extracted) == normalise(gold) else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=extracted, detail="normalised text", grader=GRADER_VERSION)


quick_grade = grade_answer  # a few substitutions: never worth a worker
