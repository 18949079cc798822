r"""The verdict on one extracted answer: identical text, then plain integers, then words, then mathematics.

The first two settle most pairs in microseconds and import nothing.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from stapo_bench.grading import words
from stapo_bench.grading.answers import read
from stapo_bench.grading.budget import TooLarge, refill
from stapo_bench.grading.chains import Contradiction
from stapo_bench.grading.clean import clean
from stapo_bench.grading.compare import same
from stapo_bench.grading.equal import free_symbols
from stapo_bench.grading.measure import Rules
from stapo_bench.grading.regions import reads_as_region
from stapo_bench.grading.tree import Node, Refusal, sym
from stapo_bench.records import Gold

MAX_ANSWER = 20_000  # characters of an extracted answer that are looked at at all
_INTEGER = re.compile(r"[+-]?\d+(?:\.0*)?")
_LETTER = re.compile(r"[A-J]")
_WORDY = re.compile(r"[A-Za-z]{2,}")
_LEAD_IN = re.compile(
    r"^(?:(?:the|final|answer|value|result|solution|therefore|thus|so|hence|is|equals|equal to|total|exactly|"
    r"option|choice)\b"
    r"[\s:,]*)+",
    re.IGNORECASE,
)
_UNIT_LETTERS = re.compile(
    r"([-+]?[\d.,/ ]*\d(?: ?(?:\\times|\\cdot|\*) ?10 ?\^ ?\{?-?\d+\}?)?) "
    # One way to match each text, mm as two letters: two ways would be tried in all combinations.
    r"([msgLNJWVKh](?:\s*(?:[/*]\s*)?(?:cm|km|kg|mol|[msgLNJWVKh])|\s*\^\s*\{?-?\d\}?)*)"
)
# The name of a probability, a mean, a count: P(X = 2) = ..., E[X] = ..., \\#S = ...
_MEASURE = re.compile(
    r"^(?:(?:P|Pr|E|Var|\\Pr|\\mathbb\{[PE]\}|\\text\{(?:P|Pr|E|Var)\})\s*[(\[][^()\[\]]*[)\]]|\\?#\s*\w)\s*=\s*(?=[^=]+$)"
)
_EXCEPT = re.compile(
    r"^(?:\\text\{)?\s*all real (?:numbers|values|x)?\s*(?:x )?(?:except|other than|but)(?: for)?\s*\}?\s*"
    r"(?:x = )?(.+)$"
)
_DEGREE = re.compile(r"\^?\s*\{?\s*\\circ\s*\}?|°")
_OPTION = re.compile(r"(?:\\text)?\{?\(([A-E])\)\s*\}?\s+(.+)")
_ORDINAL = re.compile(r"(\d*(?:(?<!1)1(?=st)|(?<!1)2(?=nd)|(?<!1)3(?=rd)|(?:1[123]|[04-9])(?=th)))(?:st|nd|rd|th)")
_REAL = re.compile(r"([a-z]) \\in \\mathbb\{R\} ?, ?(?=\1 ?(?:[<>]|\\(?:ne|le|ge)\b))")
_TEXT_ONLY = re.compile(r"(?:\\text\{[^{}\\]*\}[\s,.]*)+")


@dataclass(frozen=True)
class Verdict:
    correct: bool
    rule: str


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
    verdict = _at_sight(response, target, gold) or _by_words(response, target, gold)
    return verdict if verdict is not None else _by_mathematics(response, target, gold)


def _ordinal(text: str) -> str:
    """The number of ``11th``, which is not a product with t and h; other text as it is."""
    match = _ORDINAL.fullmatch(text)
    return match[1] if match else text


def decide_at_sight(extracted: str, gold: Gold) -> Verdict | None:
    """The verdict of ``decide`` where a look settles it: identical text, plain integers. None: it takes more.

    >>> decide_at_sight("x = 0.5", Gold(answer="0.5"))
    """
    return _at_sight(clean(extracted), clean(gold.answer), gold)


def _at_sight(response: str, target: str, gold: Gold) -> Verdict | None:
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


def _by_words(response: str, target: str, gold: Gold) -> Verdict | None:  # noqa: PLR0911, PLR0912
    """Times, dates, choices and words; None where the gold is none of these."""
    if (asked := words.time(target)) is not None:
        clock = words.time(response)
        if clock is not None:
            return Verdict(words.same_time(clock, asked), "time")
        if asked[3] or re.fullmatch(r"\d{1,2}:\d\d", response):
            return Verdict(False, "not a time")
    if (day := words.date(target)) is not None:
        said = words.date(response)
        agree = said is not None and said[1:] == day[1:] and (None in (said[0], day[0]) or said[0] == day[0])
        return Verdict(agree, "date")
    letter = words.choice(target)
    if letter is None and _LETTER.fullmatch(words.plain(target).upper()) and target != target.lower():
        # A bare capital may be a constant too, so then the response must write the letter as it is.
        letter = words.plain(target).upper()
        if clean(response).strip() == letter.lower():
            return Verdict(False, "choice")
    option = _OPTION.fullmatch(target)
    if option and not option[2].startswith(("(", ",", "and")):
        given = _OPTION.fullmatch(response)
        if given is None and words.choice(response, strict=False) == option[1]:
            return Verdict(True, "choice")
        if given is not None:
            if given[1] != option[1]:
                return Verdict(False, "choice")
            response = given[2]
        return _by_mathematics(response, option[2], gold)
    if letter is not None and "=" not in response:
        return Verdict(words.choice(response, strict=False, whole=True) == letter, "choice")
    if (count := words.number(target)) is not None and _WORDY.search(target):
        return (
            _by_mathematics(response, str(count), gold)
            if words.number(response) != count
            else Verdict(True, "number word")
        )
    if (count := words.number(response)) is not None and re.fullmatch(r"[+-]?\d+", target):
        return Verdict(str(count) == target, "number word")
    if _is_words(target) or gold.answer_type == "text":
        kind = words.special(target)
        if kind is not None:
            return Verdict(_special(response) == kind or words.same_words(response, target), "words")
        return Verdict(words.same_words(response, target), "words")
    return None


def _special(response: str) -> str | None:
    kind = words.special(response)
    if kind is None:
        kind = {r"\emptyset": "empty", r"\mathbb{R}": "reals", r"(-\infty , \infty )": "reals"}.get(response.strip())
    return kind


def _is_words(text: str) -> bool:
    """Only words, no mathematics: ``\\text{east}``, ``two lines``; not ``xy``, ``\\pi``, ``5 cm``."""
    if _TEXT_ONLY.fullmatch(text):
        return True
    bare = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text)
    if re.search(r"[\\\d=^_{}+*/<>|]", bare) or not _WORDY.search(bare):
        return False
    try:
        node = read(text)
    except Refusal:
        return True
    return (
        node.kind == "sym"
        and (len(node.label) > 2 or node.label.lower() == "no")
        and node.label.isalpha()
        and node.label in text
        and "\\" not in text
    ) or (node.kind == "list" and all(a.kind == "sym" and len(a.label) > 2 for a in node.args))


def _by_mathematics(response: str, target: str, gold: Gold) -> Verdict:  # noqa: PLR0911
    try:
        asked = _read_gold(target, gold)
    except Refusal as refusal:
        return Verdict(_same_text(response, target), f"text, for the gold cannot be read: {refusal}")
    try:
        given = _read_response(response, asked)
        if gold.answer_type == "tuple" and given.kind != "tuple" and reads_as_region(given):
            return Verdict(False, "a set of numbers for a tuple")
        if not free_symbols(given) and (unit := _UNIT_LETTERS.fullmatch(target)):
            asked = read(f"{unit[1]} \\text{{{unit[2]}}}")
    except Refusal as refusal:
        return Verdict(_same_text(response, target), f"response cannot be read: {refusal}")
    rules = Rules(
        tolerance=None if gold.tolerance is None else Fraction(gold.tolerance).limit_denominator(10**12),
        unit=_DEGREE.sub("deg", gold.unit or ""),
    )
    try:
        if same(given, asked, rules):
            return Verdict(True, "mathematics")
        if _without_thousands(response, target, given, asked, gold) and same(read(response, False), asked, rules):
            return Verdict(True, "mathematics, commas as separators")
        return Verdict(False, "mathematics")
    except Contradiction:
        return Verdict(False, "the answer contradicts itself")
    except TooLarge as refusal:
        return Verdict(_same_text(response, target), str(refusal))
    except Refusal as refusal:
        return Verdict(_same_text(response, target), f"not comparable: {refusal}")


def _read_gold(target: str, gold: Gold) -> Node:
    kind = words.special(target)
    if kind is not None:
        return Node("set") if kind == "empty" else sym("mathbb(R)")
    target = _REAL.sub("", target)
    node = read(target, not (gold.is_multiple or gold.answer_type in ("multi", "set", "tuple")))
    # Said to be an interval, a pair in brackets can no longer be a point or a list.
    return Node("union", (node,)) if gold.answer_type == "interval" and node.kind == "tuple" else node


def _read_response(response: str, asked: Node) -> Node:
    response = _EXCEPT.sub(r"\\mathbb{R} \\setminus \\{\1\\}", response)
    kind = words.special(response)
    if kind is not None:
        return Node("set") if kind == "empty" else sym("mathbb(R)")
    response = _REAL.sub("", _MEASURE.sub("", response))
    if not free_symbols(asked) and (unit := _UNIT_LETTERS.fullmatch(response)):
        response = f"{unit[1]} \\text{{{unit[2]}}}"  # "9.8 m/s^2", "5 m": no variable is asked for
    try:
        return read(response)
    except Refusal:
        shorter = _LEAD_IN.sub("", re.sub(r"^\\text\{([^{}]*)\}", r"\1 ", response).strip())
        if shorter == response or not shorter:
            raise
        return read(shorter)


def _without_thousands(response: str, target: str, given: Node, asked: Node, gold: Gold) -> bool:
    """``1,234`` may be two values where the gold lists several."""
    return bool(re.search(r"\d,\d{3}", response)) and (asked.kind in ("list", "set", "tuple") or reads_as_region(asked))


def _same_text(left: str, right: str) -> bool:
    """What neither side's reader understands is equal only letter for letter."""
    squeeze = re.compile(r"\\text(?=\{)|(?<![0-9A-Za-z])\s+|\s+(?![0-9A-Za-z])|(?<=[A-Za-z])\s+(?=\d)")
    return squeeze.sub("", left) == squeeze.sub("", right)
