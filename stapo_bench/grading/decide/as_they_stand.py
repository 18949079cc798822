"""The verdict on two answers as they stand: identical text, then plain integers, then words, then mathematics."""

from functools import lru_cache

from stapo_bench.grading.decide.by_trees import by_mathematics
from stapo_bench.grading.decide.unit_vectors import with_unit_vectors
from stapo_bench.grading.decide.verdict import Question, Verdict
from stapo_bench.grading.decide.word_rules import by_words
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import clean
from stapo_bench.records import Gold

MAX_CHAIN = 300  # characters of an answer that is read again with decimal points, or as an identity
_INTEGER = regex(r"[+-]?\d+(?:\.0*)?")
_ORDINAL = regex(r"(\d*(?:(?<!1)1(?=st)|(?<!1)2(?=nd)|(?<!1)3(?=rd)|(?:1[123]|[04-9])(?=th)))(?:st|nd|rd|th)")
_NUMBER = regex(r"[-+]?\d+(?:\.\d+)?")
_MARKED = regex(r"\\(?:overline|bar|dot|hat|tilde|widehat|ddot)\s*\{?\s*(\d+)\s*\}?|(?<=\d)()(?:'+| \\text\{ft\}$)")


def decide_alone(extracted: str, gold: Gold) -> Verdict:
    """The verdict on two answers as they stand."""
    response, target = map(clean, with_unit_vectors(extracted, gold.answer))
    if _INTEGER.fullmatch(target):
        response = _ordinal(response)
    question = Question(response, target, gold)
    if _MARKED.search(response) and _NUMBER.fullmatch(target) and _MARKED.sub(r"\1\2", response) == target:
        return Verdict(False, "marks on digits are part of the number")
    return at_sight(question) or by_words(question) or by_mathematics(question)


def decide_at_sight(extracted: str, gold: Gold) -> Verdict | None:
    """The verdict of ``decide`` where a quick rule settles it: identical text, plain integers. Else None.

    >>> decide_at_sight("x = 0.5", Gold(answer="0.5"))
    """
    return at_sight(Question(_cleaned(extracted), _cleaned(gold.answer), gold))


def _cleaned(text: str) -> str:
    return _short_cleaned(text) if len(text) <= MAX_CHAIN else clean(text)


_short_cleaned = lru_cache(maxsize=128)(clean)  # in a vote each answer meets many others


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


def _ordinal(text: str) -> str:
    """The number of ``11th``, which is not a product with t and h; other text as it is."""
    match = _ORDINAL.fullmatch(text)
    return match[1] if match else text
