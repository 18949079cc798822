r"""Units in LaTeX: Angstrom and micro in one spelling, a fraction of units as one unit, rates in words."""

import re

from stapo_bench.grading import units
from stapo_bench.grading.patterns import regex

_UNIT_SIGNS = (  # Angstrom and micro, in TeX and in Unicode
    (
        regex(r"\\(?:AA|r\s*\{?A\}?|mathring\s*\{\s*(?:\\text\s*\{\s*A\s*\}|A)\s*\})(?![A-Za-z])|Å"),
        r"\\text{angstrom}",
    ),
    (regex(r"\\text\{\s*\\text\{angstrom\}\s*\}"), r"\\text{angstrom}"),
    (
        regex(r"(?<=\d)(?:\s|\\[,;: ])*(?:\\(?:text|mathrm)\{\s*([kM])\s*\}|([kM]?))(?:\\text\{\s*)?\\Omega\s*\}?\s*$"),
        r" \\text{\1\2ohm}",
    ),
    (regex(r"(?<=\d)(?:\s|\\[,;: ])*\\mu ?([msgLAVFC])$"), r" \\text{u\1}"),
    (regex(r"\\text\{\s*\\mu\s*([msgLAVFC])\s*\}|\\mu\s*\\text\{\s*([msgLAVFC])\s*\}"), r"\\text{u\1\2}"),
)
_UNIT_FRACTION = regex(
    r"\\frac\s*\{((?:\\text\{[^{}]*\}[^{}]{0,12}?){1,4})\}\s*\{((?:\\text\{[^{}]*\}[^{}]{0,12}?){1,4})\}"
)
_WORD = r"(?:\\text\{ ?)?([A-Za-z]+) ?\}?"
# "USD 13/h", "€ 4 per kg"; "13 dollars an hour"
_PRICE_PER = regex(rf"(.*?(?:\bUSD |[€£¥₹] ?)-?[\d.,]*\d) ?(?:/|per|an?|each|every) ?{_WORD}")
_EACH = regex(rf"(.*?\d) ?{_WORD} (?:an?|each|every) {_WORD}")


def spell_rates(text: str) -> str:
    r"""A price, or another quantity, per unit: "13 dollars an hour", and "USD 13/h", where h is no letter of a formula.

    >>> spell_rates("13 dollars an hour"), spell_rates("USD 13/h"), spell_rates("13/h")
    ('13 \\text{ dollars per hour }', 'USD 13 \\text{ per h }', '13/h')
    """
    if not text[-1:].isalpha() and text[-1:] != "}":
        return text
    if ("USD " in text or not text.isascii()) and (price := _PRICE_PER.fullmatch(text)):
        return rf"{price[1]} \text{{ per {price[2]} }}" if price[2] in units.NAMES else text
    if " a" not in text and " e" not in text:
        return text
    rate = _EACH.fullmatch(text)
    is_rate = rate is not None and rate[2] in units.NAMES and rate[3] in units.NAMES
    return rf"{rate[1]} \text{{ {rate[2]} per {rate[3]} }}" if rate is not None and is_rate else text


def plain_units(text: str) -> str:
    r"""One spelling of each unit.

    >>> plain_units(r"8.3 \frac{\text{J}}{\text{mol}\cdot\text{K}}"), plain_units(r"25 \mu\text{m}")
    ('8.3 \\text{J/mol K}', '25 \\text{um}')
    """
    if not ("A" in text or "Å" in text or "\\mu" in text or "\\frac" in text or "Omega" in text):
        return text
    for pattern, spelling in _UNIT_SIGNS:
        text = pattern.sub(spelling, text)
    return _UNIT_FRACTION.sub(_unit_quotient, text) if "\\text" in text else text


def _unit_quotient(match: re.Match[str]) -> str:
    r"""One unit for a fraction of units: ``\text{J/mol K}``."""
    above, below = (
        re.sub(r"\\text\{([^{}]*)\}|\\[a-z]+|[\\,;~]", lambda m: f" {m[1] or ''} ", part) for part in match.groups()
    )
    return rf"\text{{{' '.join(above.split())}/{' '.join(below.split())}}}"
