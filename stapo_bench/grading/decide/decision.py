r"""The verdict on one extracted answer: identical text, then plain integers, then words, then mathematics.

The first two settle most pairs in microseconds.
"""

import re

from stapo_bench.grading.decide.by_trees import by_mathematics
from stapo_bench.grading.decide.verdict import Question, Verdict
from stapo_bench.grading.decide.word_rules import by_words
from stapo_bench.grading.evaluate import refill
from stapo_bench.grading.read import clean
from stapo_bench.records import Gold

MAX_ANSWER = 20_000  # characters of an extracted answer that are looked at at all
_INTEGER = re.compile(r"[+-]?\d+(?:\.0*)?")
_ORDINAL = re.compile(r"(\d*(?:(?<!1)1(?=st)|(?<!1)2(?=nd)|(?<!1)3(?=rd)|(?:1[123]|[04-9])(?=th)))(?:st|nd|rd|th)")


def decide(extracted: str, gold: Gold) -> Verdict:
    r"""Compare an extracted answer with a gold.

    >>> decide("x = 0.5", Gold(answer=r"\frac{1}{2}"))
    Verdict(correct=True, rule='mathematics')
    >>> decide("43", Gold(answer="42"))
    Verdict(correct=False, rule='integers')
    """
    refill()
    if len(extracted) > MAX_ANSWER:
        return Verdict(False, f"answer longer than {MAX_ANSWER} characters")
    response, target = clean(extracted), clean(gold.answer)
    if _INTEGER.fullmatch(target):
        response = _ordinal(response)
    question = Question(response, target, gold)
    return at_sight(question) or by_words(question) or by_mathematics(question)


def _ordinal(text: str) -> str:
    """The number of ``11th``, which is not a product with t and h; other text as it is."""
    match = _ORDINAL.fullmatch(text)
    return match[1] if match else text


def decide_at_sight(extracted: str, gold: Gold) -> Verdict | None:
    """The verdict of ``decide`` where a quick rule settles it: identical text, plain integers. Else None.

    >>> decide_at_sight("x = 0.5", Gold(answer="0.5"))
    """
    return at_sight(Question(clean(extracted), clean(gold.answer), gold))


def at_sight(question: Question) -> Verdict | None:
    """Identical text and plain integers; None where the answers are neither."""
    response, target, gold = question
    if not response:
        return Verdict(False, "empty answer")
    if response == target:
        return Verdict(True, "identical")
    if _INTEGER.fullmatch(response) and _INTEGER.fullmatch(target) and gold.tolerance is None:
        return Verdict(_integer(response) == _integer(target), "integers")
    return None


def _integer(text: str) -> str:
    """Digits without sign of plus, leading zeros, ``.0``: integers of any length compare as text."""
    sign = "-" if text[0] == "-" else ""
    digits = text.lstrip("+-").partition(".")[0].lstrip("0")
    return sign + digits if digits else "0"
