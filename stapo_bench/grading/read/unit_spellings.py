r"""Units in LaTeX: Angstrom and micro in one spelling, a fraction of units as one unit."""

import re

from stapo_bench.grading.patterns import regex

_UNIT_SIGNS = (  # Angstrom and micro, in TeX and in Unicode
    (
        regex(r"\\(?:AA|r\s*\{?A\}?|mathring\s*\{\s*(?:\\text\s*\{\s*A\s*\}|A)\s*\})(?![A-Za-z])|Å"),
        r"\\text{angstrom}",
    ),
    (regex(r"\\text\{\s*\\text\{angstrom\}\s*\}"), r"\\text{angstrom}"),
    (regex(r"(?<=\d)(?:\s|\\[,;: ])*([kM]?)(?:\\text\{\s*)?\\Omega\s*\}?\s*$"), r" \\text{\1ohm}"),
    (regex(r"(?<=\d)(?:\s|\\[,;: ])*\\mu ?([msgLAVFC])$"), r" \\text{u\1}"),
    (regex(r"\\text\{\s*\\mu\s*([msgLAVFC])\s*\}|\\mu\s*\\text\{\s*([msgLAVFC])\s*\}"), r"\\text{u\1\2}"),
)
_UNIT_FRACTION = regex(
    r"\\frac\s*\{((?:\\text\{[^{}]*\}[^{}]{0,12}?){1,4})\}\s*\{((?:\\text\{[^{}]*\}[^{}]{0,12}?){1,4})\}"
)


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
