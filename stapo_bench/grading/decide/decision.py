r"""The verdict on one extracted answer: identical text, then plain integers, then words, then mathematics.

The first two settle most pairs in microseconds.
"""

import re
from dataclasses import replace

from stapo_bench.grading.decide.asked import Asked
from stapo_bench.grading.decide.by_trees import by_mathematics
from stapo_bench.grading.decide.parts import labelled, listed, without_names
from stapo_bench.grading.decide.verdict import Question, Verdict
from stapo_bench.grading.decide.word_rules import by_words
from stapo_bench.grading.evaluate import refill
from stapo_bench.grading.read import clean
from stapo_bench.grading.units import BASE_APART, NEXT_VALUE
from stapo_bench.records import Gold

MAX_ANSWER = 20_000  # characters of an extracted answer that are looked at at all
_INTEGER = re.compile(r"[+-]?\d+(?:\.0*)?")
_ORDINAL = re.compile(r"(\d*(?:(?<!1)1(?=st)|(?<!1)2(?=nd)|(?<!1)3(?=rd)|(?:1[123]|[04-9])(?=th)))(?:st|nd|rd|th)")


_BASED = re.compile(rf"(\w+) \\text\{{{re.escape(BASE_APART)} (\d+)\)\}}")
_IN_BASE = re.compile(r"\(?\s*(?:\\text\s*\{\s*)?([0-9A-Fa-f]+)\s*\}?\s*\)?\s*_\s*\{?\s*(\d{1,2})\s*\}?")
_DIGITS = re.compile(r"(?:\\text\s*\{\s*)?([0-9A-Fa-f]+)\s*\}?")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_MARKED = re.compile(
    r"\\(?:overline|bar|dot|hat|tilde|widehat|ddot)\s*\{?\s*(\d+)\s*\}?|(?<=\d)()(?:'+| \\text\{ft\}$)"
)
_PERCENT = re.compile(r"\\?%|\\text\s*\{\s*(?:percent|\\?%)\s*\}|\bpercent\b")


def decide(extracted: str, gold: Gold, asked: Asked | None = None) -> Verdict:
    r"""Compare an extracted answer with a gold.

    ``asked``: what the question asks for, where it is known; see ``asked``.

    >>> decide("x = 0.5", Gold(answer=r"\frac{1}{2}"))
    Verdict(correct=True, rule='mathematics')
    >>> decide("43", Gold(answer="42"))
    Verdict(correct=False, rule='integers')
    """
    refill()
    if len(extracted) > MAX_ANSWER:
        return Verdict(False, f"not comparable: longer than {MAX_ANSWER} characters")
    if (parts := labelled(extracted)) is not None:
        verdict = _by_parts(parts, gold, asked)
        together = NEXT_VALUE in extracted and not verdict.correct  # names may come in any order
        return decide(", ".join(parts), gold, asked) if together else verdict
    if based := _BASED.fullmatch(extracted):
        plain = _decide(based[1], gold)
        return plain if plain.correct else _decide(f"{based[1]}_{{{based[2]}}}", gold)
    if asked is not None and asked.unit and gold.unit is None and _NUMBER.fullmatch(clean(gold.answer)):
        gold = replace(gold, unit=asked.unit)
    verdict = _decide(extracted, gold)
    if verdict.correct:
        return verdict
    if (named := without_names(listed(gold.answer))) and len(given := listed(extracted)) == len(named):
        return _each(without_names(given) or given, named, gold, asked)
    return (_as_asked(extracted, gold, asked) if asked else None) or verdict


def _decide(extracted: str, gold: Gold) -> Verdict:
    """The verdict on two answers as they stand."""
    response, target = clean(extracted), clean(gold.answer)
    if _INTEGER.fullmatch(target):
        response = _ordinal(response)
    question = Question(response, target, gold)
    if _MARKED.search(response) and _NUMBER.fullmatch(target) and _MARKED.sub(r"\1\2", response) == target:
        return Verdict(False, "marks on digits are part of the number")
    return at_sight(question) or by_words(question) or by_mathematics(question)


def _by_parts(answers: list[str], gold: Gold, asked: Asked | None) -> Verdict:
    """The answers to several parts: each the gold's at its place, or the last one where the gold has no parts."""
    golds = labelled(gold.answer) or listed(gold.answer)
    return _each(answers, golds, gold, asked) if len(golds) == len(answers) else decide(answers[-1], gold, asked)


def _each(answers: list[str], golds: list[str], gold: Gold, asked: Asked | None) -> Verdict:
    """Each answer against the gold at its place."""
    verdicts = [decide(answer, replace(gold, answer=part), asked) for answer, part in zip(answers, golds, strict=True)]
    return next((verdict for verdict in verdicts if not verdict.correct), Verdict(True, "each part"))


def _as_asked(extracted: str, gold: Gold, asked: Asked) -> Verdict | None:
    """CORRECT where the question makes the two one answer; else None."""
    if asked.percent and bool(_PERCENT.search(extracted)) is not bool(_PERCENT.search(gold.answer)):
        bare = replace(gold, answer=_PERCENT.sub("", gold.answer).strip())
        if _decide(_PERCENT.sub("", extracted).strip(), bare).correct:
            return Verdict(True, "the question asks for a percentage")
    if asked.rounded and extracted.startswith("≈") and _decide(extracted.lstrip("≈ "), gold).correct:
        return Verdict(True, "the question asks for a rounded value")
    if asked.letter is not None:
        named = [part.partition("=") for part in listed(extracted.replace("\\quad", ""))]
        own = [value for name, sign, value in named if sign and name.strip(" \\$") == asked.letter]
        if len(named) > 1 and len(own) == 1 and _decide(own[0], gold).correct:
            return Verdict(True, f"the question asks for {asked.letter}")
    if asked.base is not None:
        given, target = clean(extracted), clean(gold.answer)
        left, right = _IN_BASE.fullmatch(given), _IN_BASE.fullmatch(target)
        digits = _DIGITS.fullmatch(given if right else target)
        based = right or left
        same = based and digits and digits[1].lower().lstrip("0") == based[1].lower().lstrip("0")
        if based and same and not (left and right) and int(based[2]) == asked.base:
            return Verdict(True, f"the question asks for base {asked.base}")
    return None


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
