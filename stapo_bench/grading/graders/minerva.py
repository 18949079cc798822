r"""The ``minerva`` grader: the rule of lm-eval's ``minerva_math``, normalised text, then sympy.

Written anew from the normalisation of Minerva's paper (arXiv:2206.14858, appendix D.1) and ``is_equiv`` of
https://github.com/EleutherAI/lm-evaluation-harness/blob/main/lm_eval/tasks/minerva_math/utils.py. The answer is what
follows "The final answer is", up to "I hope it is correct"; else, which lm-eval counts as no answer, the last box. What
stands before the last ``=`` is dropped, units and words of layout are, and the rest is equal as text or if sympy
simplifies the difference to 0. sympy's LaTeX is read by latex2sympy2_extended, where lm-eval takes sympy's own parser.
"""

import re

from stapo_bench.grading.graders.latex import is_zero, last_box, read_latex
from stapo_bench.grading.patterns import regex
from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = "minerva-2"
MAX_LENGTH = 1_000  # characters of an answer or a gold; what is longer is equal only letter for letter

_UNITS = (
    "square ways integers dollars mph inches ft hours km units sue points feet minutes digits cents degrees cm gm "
    "pounds meters meals edges students childrentickets multiples"
).replace(" ", "|")
_REWRITES = [
    (regex(source), replacement)
    for source, replacement in (
        (r"^.*=", ""),
        (rf"(?<!\\)\b(?:{_UNITS})\b", ""),
        (r"\ban? ", ""),
        (r"\.\$", "$"),
        (r"\\\$|\\ | ", ""),
        (r"mbox", "text"),
        (r",?\\text\{and\}", ","),
        (r"\\l?dots|\\;|,\\!|\{,\}|\"", ""),
        (r"\\text\{(?:m|s|\.|\n*s?)?\}(?:\^[23])?", ""),
        (r"\\mathrm\{th\}|\^\\circ|\^\{\\circ\}", ""),
        (r"^.*?\$(.*?)\$.*$", r"\1"),
        (r"\\(?:text|textbf|overline)\{(.*?)\}", r"\1"),
        (r"\\boxed\{(.*)\}", r"\1"),
        (r"frac([^{])(.)", r"frac{\1}{\2}"),
        (r"sqrt([^{\[])", r"sqrt{\1}"),
        (r"\$", ""),
        (r"^(\d[\d,]*)$", r"\1"),
    )
]
_PHRASE = regex(r"[Tt]he final answer is(.*?)(?:\. I hope it is correct|$)", re.DOTALL)


def extract_answer(completion: str) -> str | None:
    """What follows the phrase, else the last box."""
    found = _PHRASE.findall(completion) if "I hope it is correct" in completion else []
    return found[-1].strip() or None if found else last_box(completion)


def normalise(text: str) -> str:
    r"""The text as it is compared.

    >>> normalise(r"x = \frac12 \text{ cm}"), normalise("$1,000$"), normalise(r"12\text{m}")
    ('\\frac{1}{2}', '1000', '12')
    """
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text.replace(",", "") if re.fullmatch(r"[\d,]+", text) else text


def grade_answer(completion: str, answer: str | Gold, answer_type: str | None = None) -> Grade:
    r"""Grade by the rule above; the gold's type, unit and tolerance play no part.

    >>> grade_answer(r"The final answer is $x = 3$. I hope it is correct.", "3").outcome.value
    'CORRECT'
    """
    gold = answer.answer if isinstance(answer, Gold) else answer
    extracted = extract_answer(completion)
    if extracted is None:
        return Grade(outcome=Outcome.NO_ANSWER, extracted=None, detail="no final answer", grader=GRADER_VERSION)
    if max(len(extracted), len(gold)) > MAX_LENGTH:
        outcome = Outcome.CORRECT if extracted == gold else Outcome.INCORRECT
        return Grade(outcome=outcome, extracted=extracted, detail="long text", grader=GRADER_VERSION)
    left, right = normalise(extracted), normalise(gold)
    if left == right:
        return Grade(outcome=Outcome.CORRECT, extracted=extracted, detail="normalised text", grader=GRADER_VERSION)
    right_by_value = is_zero(read_latex(left), read_latex(right))
    outcome = Outcome.CORRECT if right_by_value else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=extracted, detail="difference", grader=GRADER_VERSION)
