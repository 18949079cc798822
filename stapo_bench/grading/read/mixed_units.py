r"""Quantities in two units of one dimension, as one: "2 h and 30 min", "42° 40'", and degrees with a plain fraction."""

import re

from stapo_bench.grading import units
from stapo_bench.grading.patterns import regex

_DEGREE = r"\s?(?:\^\{\\circ\}|\\text\{\s?deg(?:rees?)?\s?\}|deg(?:rees?)?\b)"
_MINUTE = r"\s?(?:'|\^\{?\s?\\prime\s?\}?|\\text\{\s?(?:arc)?min(?:ute)?s?\s?\}|(?:arc)?min(?:ute)?s?\b)"
_SECOND = r"\s?(?:''|\"|\^\{\s?(?:\\prime\s?){2}\}|\\text\{\s?(?:arc)?sec(?:ond)?s?\s?\}|(?:arc)?sec(?:ond)?s?\b)"
_JOINT = r"\s?(?:,|\\text\{\s?and\s?\}|and)?\s*"
_SEXAGESIMAL = regex(rf"(\d+){_DEGREE}{_JOINT}(\d+(?:\.\d+)?){_MINUTE}(?:{_JOINT}(\d+(?:\.\d+)?){_SECOND})?")
_MIXED_DEGREES = regex(rf"(?<![\d/])(\d+) (\d+)/(\d+)(?={_DEGREE})")
_UNIT = r"\s?(?:\\text\{\s?([A-Za-z]+)\s?\}|([A-Za-z]+))"
# "4 h ", of "4 h 50 min"
_PART = regex(rf"(\d[\d.,]*){_UNIT}{_JOINT}")
_PARTS = regex(rf"(?:\d[\d.,]*{_UNIT}{_JOINT}){{2,3}}")
_MAX_PARTS = 80  # characters
_HOURS = frozenset({"h", "hr", "hrs", "hour", "hours"})


def join_mixed(text: str) -> str:
    r"""The text with a sum in the place of degrees and minutes, and nothing between the parts of other quantities.

    >>> join_mixed(r"45^{\circ} 30'"), join_mixed(r"2 \text{ hours } and 30 \text{ minutes }")
    ('(45+\\frac{30}{60})^{\\circ}', '2 \\text{ hours } 30 \\text{ minutes }')
    """
    if not text[:1].isdigit() or not re.search(r"\d\D+\d", text):
        return text
    text = _MIXED_DEGREES.sub(r"(\1+\\frac{\2}{\3})", text)
    if found := _SEXAGESIMAL.fullmatch(text):
        minutes = rf"+\frac{{{found[2]}}}{{60}}" + (rf"+\frac{{{found[3]}}}{{3600}}" if found[3] else "")
        return rf"({found[1]}{minutes})^{{\circ}}"
    return _in_units(text) if len(text) < _MAX_PARTS and _PARTS.fullmatch(text) else text


def _in_units(text: str) -> str:
    r"""Two or three numbers with units side by side, each a part of the one before; m behind hours is minutes.

    >>> _in_units("4h50m"), _in_units("4m50h")
    ('4 \\text{ h } 50 \\text{ min }', '4m50h')
    """
    parts = [(number, styled or plain) for number, styled, plain in _PART.findall(text)]
    for index, (number, unit) in enumerate(parts[1:], 1):
        if unit == "m" and parts[index - 1][1] in _HOURS:
            parts[index] = (number, "min")
        if not _part_of(parts[index][1], parts[index - 1][1]):
            return text
    return " ".join(rf"{number} \text{{ {unit} }}" for number, unit in parts)


def _part_of(smaller: str, larger: str) -> bool:
    """Whether one unit is a smaller one of the other's dimension."""
    a, b = units.canonical(smaller), units.canonical(larger)
    return isinstance(a, tuple) and isinstance(b, tuple) and a[0] == b[0] and a[1] < b[1]
