"""The verdict by mathematics: both answers are parsed, and their trees compared."""

import re
from fractions import Fraction
from functools import lru_cache

from stapo_bench.grading import units
from stapo_bench.grading.compare import Contradiction, Rules, reads_as_region, same
from stapo_bench.grading.decide import text_answers
from stapo_bench.grading.decide.unit_vectors import in_hats
from stapo_bench.grading.decide.verdict import Question, Verdict
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import clean, parse, region_in_words
from stapo_bench.grading.tree import Kind, Node, Refusal, free_symbols, kinds, sym
from stapo_bench.records import Gold

_LEAD_IN = regex(
    r"^(?:(?:the|final|answer|value|result|solution|therefore|thus|so|hence|is|equals|equal to|total|exactly|"
    r"option|choice)\b"
    r"[\s:,]*)+",
    re.IGNORECASE,
)
_SENTENCE_OF = regex(r"^\\text\{[^{}]*\b(?:is|are|equals):? ?\} ?(?=\S)")  # "\text{The plane is } x + y = 1"
_UNIT_LETTERS = regex(
    r"((?:[A-Za-z] = )?[-+]?[\d.,/ ]*\d(?: ?(?:\\times|\\cdot|\*) ?10 ?\^ ?\{?-?\d+\}?)?) "
    # One way to match each text, mm as two letters: two ways would be tried in all combinations.
    r"((?:kg|km|cm|mol|[msgLNJWVKh])(?:\s*(?:(?:[/*]|\\cdot)\s*)?(?:cm|km|kg|mol|[msgLNJWVKh])|\s*\^\s*\{?-?\d\}?)*)"
)
_KNOWN_UNITS = units.WORDS | frozenset("Lmsgh")
_QUOTIENT = regex(r"([-+]?[\d.,]*\d) ?(([A-Za-z]+) ?/ ?([A-Za-z]+))")
# The name of a probability, a mean, a count: P(X = 2) = ..., E[X] = ..., \\#S = ...
_MEASURE = regex(
    r"^(?:(?:P|Pr|E|Var|\\Pr|\\mathbb\{[PE]\}|\\text\{(?:P|Pr|E|Var)\})\s*[(\[][^()\[\]]*[)\]]"
    r"|\\?#\s*\w)\s*=\s*(?=[^=]+$)"
)
# f(-2) = 8, f'(2) = 8, f'(x) = 2x: one side has this name, the other has the bare value.
_OF_FUNCTION = regex(r"^[A-Za-z](?:'* ?\( ?-?\d+(?:\.\d+)? ?\)|'+ ?\( ?[a-z] ?\)) ?= ?(?=[^=<>]+$)")
_COLUMN = regex(r"^\\binom ?\{([^{}]+)\} ?\{([^{}]+)\}$")
_UPRIGHT = regex(r"\\text\{ ?([ijk]) ?\}")  # a unit vector, "3\text{i}"
_LETTER_AS_UNIT = regex(r"\\text\{ ?([A-Za-z]) ?\}")
_TIMES = regex(r"\\cdot|[{}]")
_EXCEPT = regex(
    r"^(?:\\text\{)?\s*all real (?:numbers|values|x)?\s*(?:x )?(?:except|other than|but)(?: for)?\s*\}?\s*"
    r"(?:x = )?(.+)$"
)
# Layout between signs, which two equal texts may differ in.
_SQUEEZED = regex(r"\\text(?=\{)|(?<![0-9A-Za-z])\s+|\s+(?![0-9A-Za-z])|(?<=[A-Za-z])\s+(?=\d)")
_STYLED = regex(r"\\(?:text|mathrm)\s*\{([^{}]*)\}")
_WORDED = regex(r"\s*[A-Za-z]{3}")
_DEGREE = regex(r"\^?\s*\{?\s*\\circ\s*\}?|°")
_REGIONAL = regex(r"[<>≤≥≠\[\](∞]|\\(?:[lg]eq?|[lg]t|neq?|in|infty|mathbb)(?![a-z])")
_REAL = regex(r"([a-z]) \\in \\mathbb\{R\} ?, ?(?=\1 ?(?:[<>]|\\(?:ne|le|ge)\b))")


def by_mathematics(question: Question) -> Verdict:
    """The verdict on the two trees; on the two texts where there is none."""
    response, target, gold = question
    if "=" not in target:
        response = _OF_FUNCTION.sub("", response)
    elif "=" not in response:
        target = _OF_FUNCTION.sub("", target)
    try:
        asked = _parse_gold(target, gold)
    except Refusal as refusal:
        return Verdict(_same_text(response, target), f"text, for the gold cannot be read: {refusal}")
    try:
        if "\\text" in response and not _UNIT_LETTERS.fullmatch(target):
            response = _in_letters_of(asked, response)
        given = _parse_response(response, asked)
        if gold.answer_type == "tuple" and given.kind is not Kind.TUPLE and reads_as_region(given):
            return Verdict(False, "a set of numbers for a tuple")
        if not free_symbols(given) and (unit := _UNIT_LETTERS.fullmatch(target)):
            asked = parse(f"{unit[1]} \\text{{{_TIMES.sub(' ', unit[2])}}}")
    except Refusal as refusal:
        return Verdict(_same_text(response, target), f"response cannot be read: {refusal}")
    return _compared(question, given, asked)


def _compared(question: Question, given: Node, asked: Node) -> Verdict:
    """The verdict on two trees."""
    response, target, gold = question
    rules = Rules(
        tolerance=None if gold.tolerance is None else Fraction(gold.tolerance).limit_denominator(10**12),
        unit=_DEGREE.sub("deg", gold.unit or ""),
    )
    try:
        if same(given, asked, rules):
            return Verdict(True, "mathematics")
        if _may_separate(response, asked) and same(parse(response, False), asked, rules):
            return Verdict(True, "mathematics, commas as separators")
        return Verdict(False, "mathematics")
    except Contradiction:
        return Verdict(False, "the answer contradicts itself")
    except Refusal as refusal:
        return Verdict(_same_text(response, target), f"not comparable: {refusal}")


def _parse_gold(target: str, gold: Gold) -> Node:
    """The gold's tree, by its type where the task gives one."""
    if (named := _named_set(target)) is not None:
        return named
    target = _REAL.sub("", target)
    if (rate := _per_another(target)) and len(rate[4]) > 1:  # "12 L/min"
        target = f"{rate[1]} \\text{{{rate[2]}}}"
    node = parse(target, not (gold.is_multiple or gold.answer_type in ("multi", "set", "tuple")))
    # Said to be an interval, a pair in brackets can no longer be a point or a list.
    is_interval = gold.answer_type == "interval" or (target.startswith("]") and target.endswith("["))
    return Node(Kind.UNION, (node,)) if is_interval and node.kind is Kind.TUPLE else node


def _parse_response(response: str, asked: Node) -> Node:
    """The response's tree; what it may call its answer, and letters that must be units, depend on the gold's."""
    response = _EXCEPT.sub(r"\\mathbb{R} \\setminus \\{\1\\}", response)
    if (named := _named_set(response)) is not None:
        return named
    response = _REAL.sub("", _MEASURE.sub("", response))
    if asked.kind in (Kind.TUPLE, Kind.MATRIX):
        response = _COLUMN.sub(r"\\begin{pmatrix}\1\\cr \2\\end{pmatrix}", response)
        response = in_hats(_UPRIGHT.sub(r"\\hat{\1}", response))
    if not free_symbols(asked) and (unit := _UNIT_LETTERS.fullmatch(response) or _per_another(response)):
        response = f"{unit[1]} \\text{{{_TIMES.sub(' ', unit[2])}}}"  # "9.8 m/s^2", "5 m": no variable is asked for
    try:
        return parse(response)
    except Refusal:
        shorter = _LEAD_IN.sub("", re.sub(r"^\\text\{([^{}]*)\}", r"\1 ", _SENTENCE_OF.sub("", response)).strip())
        if shorter == response or not shorter:
            raise
        return parse(shorter)


def _in_letters_of(asked: Node, response: str) -> str:
    r"""The response with letters for the units ``\text{ h }`` that a gold without units has as variables."""
    letters = free_symbols(asked)
    if not letters or Kind.QUANTITY in kinds(asked):
        return response
    return _LETTER_AS_UNIT.sub(lambda unit: f" {unit[1]} " if unit[1] in letters else unit[0], response)


def _per_another(response: str) -> re.Match[str] | None:
    """The number and the units of "30 gal/min"; None where one of the words is no unit."""
    found = _QUOTIENT.fullmatch(response)
    return found if found and {found[3], found[4]} <= _KNOWN_UNITS else None


@lru_cache(maxsize=1024)
def may_be_region(gold: Gold) -> bool:
    """Whether a gold is a set of numbers by its signs, or a pair that may be an interval."""
    if not _REGIONAL.search(gold.answer):
        return False
    try:
        node = _parse_gold(clean(gold.answer), gold)
    except Refusal:
        return False
    return reads_as_region(node) or (node.kind is Kind.TUPLE and len(node.args) == 2)


def _named_set(text: str) -> Node | None:
    """The set that words stand for: "no solution", "all real numbers"."""
    kind = text_answers.special(text)
    if kind is None:
        words = _STYLED.sub(r"\1", text)
        region = region_in_words(words) if _WORDED.match(words) else None
        return None if region is None else parse(clean(region))
    return Node(Kind.SET) if kind == "empty" else sym("mathbb(R)")


def _may_separate(response: str, asked: Node) -> bool:
    """Whether ``1,234`` may be two values: where the gold lists several."""
    lists = asked.kind in (Kind.LIST, Kind.SET, Kind.TUPLE) or reads_as_region(asked)
    return lists and re.search(r"\d,\d{3}", response) is not None


def _same_text(left: str, right: str) -> bool:
    """What the parser understands of neither side is equal only letter for letter."""
    return _SQUEEZED.sub("", left) == _SQUEEZED.sub("", right)
