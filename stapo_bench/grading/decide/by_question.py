"""What the question makes right or wrong beside the values: its base, unit, percentage, letter, place and options."""

import re
import unicodedata
from dataclasses import replace

from stapo_bench.grading.decide import text_answers
from stapo_bench.grading.decide.as_they_stand import decide_alone
from stapo_bench.grading.decide.asked import Asked
from stapo_bench.grading.decide.parts import listed
from stapo_bench.grading.decide.restated import APPROXIMATELY, restates
from stapo_bench.grading.decide.verdict import Verdict
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import clean
from stapo_bench.grading.units import canonical, told_units
from stapo_bench.records import Gold

IN_BASE = regex(r"\(?\s*(?:\\text\s*\{\s*)?([0-9A-Fa-f]+(?:\.[0-9A-Fa-f]+)?)\s*\}?\s*\)?\s*_\s*\{?\s*(\d{1,2})\s*\}?")
LABELLED = regex(r"(?:(?:[Oo]ption|[Cc]hoice) )?(?:(?:\\text\s?\{)?\(([A-Fa-f1-6])\)\}?|(?:\\text\s?\{)?([A-F])\}?)")
_PLACES = regex(r"(?:[a-zA-Z] = )?-?\d*\.(\d+)(?![\d.]| ?\\ldots)")
_NAMED_GOLD = regex(r"\$?([A-Za-z](?:_\{?\w{1,3}\}?))\s*=(?=[^=]*$)")  # "a_n = 2^n"
_FIRST_NUMBER = regex(r"\d[\d,]*(?:\.\d+)?")
_PER_UNIT = regex(r"\bper ([a-z]+)")
_SUM = regex(r"[\d\s.+·×*^()-]*\d\s*[-+·×*^][\d\s.+·×*^()-]*")  # "4 + 1"
_ASKS_DECIMAL = regex(
    r"\bdecimal (?:value|number|form|notation|representation|equivalent|system)|\b(?:to|in|into) (?:a )?decimal\b"
    r"|\b(?:in|to) base[\s$-]*(?:10|ten)\b",
    re.IGNORECASE,
)
_PREFIXES = {"b": 2, "o": 8, "x": 16}
_PREFIXED = regex(r"\b0([box])([0-9A-F]+)\b", re.IGNORECASE)
_DIGITS = regex(r"(?:\\text\s*\{\s*)?([0-9A-Fa-f]+(?:\.[0-9A-Fa-f]+)?)\s*\}?")
_AS_PERCENT = regex(r"(.+?),?\s+or\s+([^,]+%)")
# "40 dollars per week", where the question itself asks for each week
_PERIODS = frozenset(["second", "minute", "hour", "day", "week", "month", "year"])
_ADVERBS = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "annual": "year"}
_PER = regex(r"(.*\d.*?)\s*\\text\{ per (?:\}\s*\\text\{ )?(\w+) ?\}")
_PERCENT = regex(r"\\?%|\\text\s*\{\s*(?:percent|\\?%)\s*\}|\bpercent\b")


def not_as_asked(extracted: str, gold: Gold, asked: Asked | None) -> Verdict | None:
    """INCORRECT where an answer of the gold's value is not in the form that the question asks for; else None."""
    if gold.question is not None and restates(extracted, gold.answer, gold.question):
        return Verdict(False, "the question's own expression")
    based = IN_BASE.fullmatch(clean(extracted)) if "_" in extracted else None
    is_based = based is not None and based[2] != "10" and not IN_BASE.fullmatch(clean(gold.answer))
    if is_based and _ASKS_DECIMAL.search(gold.question or ""):
        return Verdict(False, "the question asks for a decimal number")
    of_unit = asked is not None and asked.unit and (gold.unit == asked.unit or told_units(gold.answer))
    if asked is not None and asked.unit and of_unit and _restates_quantity(extracted, asked.unit, gold.question or ""):
        return Verdict(False, f"the question's own quantity, where it asks for {asked.unit}")
    in_gold = IN_BASE.fullmatch(clean(gold.answer)) if asked is not None and asked.base else None
    if in_gold and asked is not None and asked.base == int(in_gold[2]) and _SUM.fullmatch(clean(extracted)):
        return Verdict(False, "not written in the base that the question asks for")
    if asked is not None and asked.to_place and _goes_on(extracted, gold.answer):
        return Verdict(False, "not rounded to the place that the question names")
    return None


def _restates_quantity(extracted: str, asked: str, question: str) -> bool:
    """Whether an answer is the question's own, in another unit than it asks for: "36 km/h" for metres a second."""
    given, target, number = told_units(extracted), canonical(asked), _FIRST_NUMBER.search(extracted)
    if len(given) != 1 or not isinstance(target, tuple) or number is None:
        return False
    if given[0][0] != target[0] or given[0][1] == target[1]:
        return False
    behind = re.findall(rf"(?<![\d.]){re.escape(number[0])}\$?\s*([A-Za-z]+(?:/[A-Za-z]+| per [a-z]+)?)", question)
    return any(canonical(unit) == given[0] for unit in behind)


def _goes_on(extracted: str, gold: str) -> bool:
    """Whether an answer is, or is rounded to, a decimal of more places than a gold that is one."""
    given, target = _PLACES.match(APPROXIMATELY.split(clean(extracted))[-1].lstrip()), _PLACES.match(clean(gold))
    return given is not None and target is not None and len(given[1].rstrip("0")) > len(target[1])


def as_asked(extracted: str, gold: Gold, asked: Asked) -> Verdict | None:
    """CORRECT where the question makes the two one answer; else None."""
    if (
        asked.percent
        and (both := _AS_PERCENT.fullmatch(extracted))
        and decide_alone(both[1], replace(gold, answer=both[2])).correct
    ):
        extracted = both[2]  # "3/4, or 75%"
    if (same := _in_unit_asked(extracted, gold, asked)) is not None:
        return same
    if asked.rounded and extracted.startswith("≈") and decide_alone(extracted.lstrip("≈ "), gold).correct:
        return Verdict(True, "the question asks for a rounded value")
    if asked.count and gold.answer.strip(" $") == "0" and text_answers.special(extracted) == "empty":
        return Verdict(True, "none are counted")
    if asked.options and (said := _as_option(extracted, gold, dict(asked.options))) is not None:
        return said
    letter = asked.letter if (name := _NAMED_GOLD.match(gold.answer)) is None else name[1]
    if letter is not None:
        named = [part.partition("=") for part in listed(extracted.replace("\\quad", ""))]
        own = [value.rpartition("=")[2] for name, sign, value in named if sign and bare_name(name) == bare_name(letter)]
        if len(named) > 1 and len(own) == 1 and decide_alone(own[0], gold).correct:
            return Verdict(True, f"the question asks for {letter}")
    return None


def _in_unit_asked(extracted: str, gold: Gold, asked: Asked) -> Verdict | None:
    """CORRECT where the two differ by a percent sign, or by "each week", that the question itself has; else None."""
    if asked.percent and bool(_PERCENT.search(extracted)) is not bool(_PERCENT.search(gold.answer)):
        bare = replace(gold, answer=_PERCENT.sub("", gold.answer).strip())
        if decide_alone(_PERCENT.sub("", extracted).strip(), bare).correct:
            return Verdict(True, "the question asks for a percentage")
    periods = _PERIODS & asked.words
    periods |= {period for word, period in _ADVERBS.items() if word in asked.words}
    rate = _PER.fullmatch(extracted)
    priced = {canonical(unit) for unit in _PER_UNIT.findall(gold.question or "")}
    of_price = rate is not None and canonical(rate[2]) in priced
    if rate and (periods == {rate[2]} or of_price) and decide_alone(rate[1], gold).correct:
        return Verdict(True, "per the unit that the question names")
    return None


def _as_option(extracted: str, gold: Gold, options: dict[str, str]) -> Verdict | None:
    """CORRECT where one side is an option's label and the other is what that option says; else None."""
    given, target = (LABELLED.fullmatch(clean(text).strip()) for text in (extracted, gold.answer))
    if (given is None) is (target is None):
        return None
    if given is not None and (option := options.get((given[1] or given[2]).upper())) is not None:
        return Verdict(True, "the option of that label") if decide_alone(option, gold).correct else None
    if target is not None and (option := options.get((target[1] or target[2]).upper())) is not None:
        return (
            Verdict(True, "the label of that option")
            if decide_alone(extracted, replace(gold, answer=option)).correct
            else None
        )
    return None


def in_base(extracted: str, gold: Gold, base: int) -> bool | None:
    """Whether digits without a base are those of the other side, which has the base asked for.

    None where both sides have a base or neither, and where a gold without one may be a number in decimal.
    """
    given, target = _PREFIXED.sub(_with_base, clean(extracted)), clean(gold.answer)
    in_gold = IN_BASE.fullmatch(target)
    based, bare = in_gold or IN_BASE.fullmatch(given), _DIGITS.fullmatch(given if in_gold else target)
    if based is None or bare is None or int(based[2]) != base:
        return None
    same = bare[1].lower().lstrip("0") == based[1].lower().lstrip("0")
    return same if in_gold or same else None


def _with_base(number: re.Match[str]) -> str:
    """``FF_{16}`` for ``0xFF``."""
    return f"{number[2]}_{{{_PREFIXES[number[1].lower()]}}}"


def bare_name(name: str) -> str:
    """A name without layout: ``$a_{4}$`` and ``a₄`` are ``a4``."""
    return unicodedata.normalize("NFKC", name).translate({ord(char): None for char in " \\${}_"})
