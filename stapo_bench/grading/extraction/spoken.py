r"""Mathematics said in words, or in signs of units, in one form: "n squared", "2x minus 5", "the square root of 2".

A compound unit behind a number becomes one piece, ``\text{J/kg K}``, so that no rule cuts it in two.
"""

import re

from stapo_bench.grading import units
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import NUMERAL, in_digits

_OPERAND = r"(?:\d+(?:\.\d+)?[a-z]{0,2}|(?<![a-z'’])[b-z](?:_\w)?|pi|theta|\))(?:\^[23])?"
_SQUARED = regex(rf"({_OPERAND}) (squared|cubed)\b(?! (?:cm|m|km|f|in|yd|mi|units?))", re.IGNORECASE)
_OPERATED = regex(
    rf"\b((?:ln |log |√)?{_OPERAND}) (plus|minus|over|times|divided by) (?=(?:ln |log )?(?:{_OPERAND}|\(|sqrt"
    rf"|√)(?![a-z]))",
    re.IGNORECASE,
)
# "is negative 3", "gives minus 3"
_NEGATIVE = regex(
    r"(?<=[a-z=] )negative (?=[\d√π])|(?:(?<=\bis )|(?<=\bget )|(?<=\bgives )|(?<=\bto ))minus (?=[\d√π])"
)
_INFINITE = regex(r"\b(negative|minus|positive|plus) infinity\b", re.IGNORECASE)
_SIGNS = {"plus": " + ", "minus": " − ", "over": "/", "times": " · ", "divided by": "/"}
_OPERATIONS = tuple(f" {word} " for word in _SIGNS)
_OCLOCK = regex(
    r"\b(1[0-2]|[1-9]|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve) o['’]clock(?: sharp)?",
    re.IGNORECASE,
)
_HOURS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_PAST = regex(rf"\b(?:a )?(half|quarter) (past|to) (1[0-2]|[1-9]|{'|'.join(_HOURS)})\b", re.IGNORECASE)
_SQUARE = regex(r"\b(sq|cu)\. ?(?=(?:[cmk]?m|in|ft|yd|mi|inch|inches|feet|met\w+)\b)")
_AND_A_HALF = regex(
    r"\b(?:an?|one) (hour|minute|day|week|month|year|mile|kilomet\w+|met\w+|lit\w+) and a half\b", re.IGNORECASE
)
_HALF = regex(
    r"\b(half|(?:a |one )?quarter of) an? (?=(?:hour|minute|second|day|week|year|mile|kilo|met|lit|cent)\w*)",
    re.IGNORECASE,
)
# "four pi", "4 pi"
_TIMES_PI = regex(rf"(?<![\w-])({NUMERAL.pattern}) (?:of )?(?:pi\b|π)(?! ?[·*^(\d])", re.IGNORECASE)
# "half a dozen bags"
_HALF_DOZEN = regex(r"\b(?:half a|a half) dozen\b", re.IGNORECASE)
# "six feet and five inches"
_FEET = regex(r"\b(\d+|[a-z]+) (?:feet|foot) and (\d+|[a-z]+) inch(?:es)?\b", re.IGNORECASE)
_ROOT = regex(r"\b(?:the )?(square|cube) root of (?=(?:\d+|[a-z])(?![\w.]*\d| ?[+−*/^-]))", re.IGNORECASE)
# "five times the square root of two", "three root two"
_ROOT_IN_WORDS = regex(
    rf"\b(?:({NUMERAL.pattern}) (?:times )?)?(?:the )?(square |cube )?root (?:of )?({NUMERAL.pattern})(?![\w-]"
    rf"| ?[-+])",
    re.IGNORECASE,
)
_LOG_OF = regex(r"\b(?:the )?log(?:arithm)?,? (?:to the |to )?base (\d+|[a-z]) of (\d+|[a-z])\b")
_NATURAL_LOG = regex(r"\b(?:the )?natural log(?:arithm)? of (\d+|[a-z])\b")
_PARTS = regex(
    rf"\b({NUMERAL.pattern}|\d+) parts(?: (?:of )?[a-z]+)? to ({NUMERAL.pattern}|\d+) parts?(?: of [a-z]+)?",
    re.IGNORECASE,
)
_TEN_TO_THE = regex(
    r"\b10 to the (?:power (?:of )?)?(minus |negative |-)?(\d{1,3})(?:st|nd|rd|th)?(?: power)?\b", re.IGNORECASE
)
_CHOOSE = regex(r"(?<![\w)])(\d+|[a-z]) choose (\d+|[a-z])(?![\w(])")
_SERIES = regex(r"(?<=[-+*·×] )(?:\.\.\.+|…|⋯)(?= ?[-+*·×])")
_POWER = r"(?:\^?\{?[-−]?[1-4]\}?|⁻?[¹²³⁴])?"
_NAME = f"(?:{'|'.join(sorted(map(re.escape, units.NAMES), key=len, reverse=True))})(?![A-Za-z]){_POWER}"
# At least two units, one below the other or with a sign between them; "2 m s" alone may be letters.
_COMPOUND = regex(
    rf"(?<=[\d)]) ?((?={_NAME}(?:[·⋅*/ ]|\w|[(^{{}}⁻¹²³−-]){{0,30}}?(?:[·⋅*/]|⁻|\^\{{?[-−]))"
    rf"{_NAME}(?: ?(?:[·⋅*/]| ) ?(?:{_NAME}|\({_NAME}(?:[·⋅* ]{_NAME})+\)))+)(?![\w^(]| ?[-−+*/=·] ?[A-Za-z(])"
)
_SUPERSCRIPTS = str.maketrans("⁻¹²³⁴−", "-1234-")
_RAISED = regex(r"(?<=[A-Za-zΩ°])\^?\{?(-?[1-4])\}?")
_LAYOUT = regex(r"[·⋅*()]")
_PRICE = regex(rf"([$€£]\d[\d,]*(?:\.\d+)?) (?:per|an?|each|every) ({'|'.join(sorted(units.WORDS))})\b")


def spoken(clause: str) -> str:
    r"""The clause with signs for words of arithmetic between values, and each compound unit as one piece.

    >>> spoken("it is 5 times the square root of 2"), spoken("5.2 times 10 to the minus 4")
    ('it is 5 · √2', '5.2 · 10^{-4}')
    >>> spoken("c = 420 J/(kg·K)"), spoken("3 m s⁻²")
    ('c = 420 \\text{ J/ kg K }', '3 \\text{ m s^-2}')
    """
    if "squared" in clause or "cubed" in clause:
        clause = _SQUARED.sub(lambda m: f"{m[1]}^{'2' if m[2].lower() == 'squared' else '3'}", clause)
    clause = _logarithms(clause)
    if " root " in clause:
        clause = _ROOT_IN_WORDS.sub(_root, clause)
    if " of " in clause:
        clause = _ROOT.sub(lambda m: "√" if m[1].lower() == "square" else "∛", clause)
    if " to the " in clause:
        clause = _TEN_TO_THE.sub(lambda m: f"10^{{{'-' if m[1] else ''}{m[2]}}}", clause)
    if " choose " in clause:
        clause = _CHOOSE.sub(r"\\binom{\1}{\2}", clause)
    if "..." in clause or "…" in clause or "⋯" in clause:
        clause = _SERIES.sub(r"\\ldots ", clause)
    if any(word in clause for word in _OPERATIONS):
        clause = _OPERATED.sub(lambda m: m[1] + _SIGNS[m[2].lower()], clause)
    if "infinity" in clause:
        clause = _INFINITE.sub(lambda m: "−∞" if m[1].lower() in ("negative", "minus") else "∞", clause)
    if "negative " in clause or "minus " in clause:
        clause = _NEGATIVE.sub("−", clause)
    if "/" in clause or "·" in clause or "⁻" in clause or "^" in clause:
        clause = _COMPOUND.sub(_unit, clause)
    return _measured(clause)


def _logarithms(clause: str) -> str:
    """The clause with logarithms, and ratios of parts, that are said in words in signs.

    >>> _logarithms("it is log base 5 of 12"), _logarithms("five parts of sugar to eight parts of flour")
    ('it is \\\\log_{5} 12', '5:8')
    """
    if "natural log" in clause:
        clause = _NATURAL_LOG.sub(r"ln(\1)", clause)
    if " parts" in clause and " to " in clause:
        clause = _PARTS.sub(lambda m: f"{_figures(m[1])}:{_figures(m[2])}", clause)
    return _LOG_OF.sub(r"\\log_{\1} \2", clause) if "base " in clause else clause


def _measured(clause: str) -> str:
    """The clause with times, lengths, prices and halves of units that are said in words in one form.

    >>> _measured("six feet and five inches"), _measured("half a dozen bags, half an hour")
    ('6 ft 5 in', '6 bags, 1/2 hour')
    """
    if "sq." in clause or "cu." in clause:
        clause = _SQUARE.sub(r"\1 ", clause)
    if "clock" in clause:
        clause = _OCLOCK.sub(lambda m: f"{_figures(m[1])}:00", clause)
    if " past " in clause or "quarter to " in clause:
        clause = _PAST.sub(_time, clause)
    if "$" in clause or "€" in clause or "£" in clause:
        clause = _PRICE.sub(r"\1 \\text{ per \2}", clause)
    if " feet and " in clause or " foot and " in clause:
        clause = _FEET.sub(lambda m: f"{_figures(m[1])} ft {_figures(m[2])} in", clause)
    if " pi" in clause or " π" in clause:
        clause = _TIMES_PI.sub(lambda m: f"{_figures(m[1])}π", clause)
    if "dozen" in clause:
        clause = _HALF_DOZEN.sub("6", clause)
    if " and a half" in clause:
        clause = _AND_A_HALF.sub(r"3/2 \1", clause)
    if "half a" in clause or "quarter of a" in clause or "Half a" in clause:
        clause = _HALF.sub(lambda m: "1/2 " if m[1].lower() == "half" else "1/4 ", clause)
    return clause


def _figures(number: str) -> str:
    """A number in words, or in figures, in figures."""
    return in_digits(number.lower()) or number


def _root(match: re.Match[str]) -> str:
    """ "five times the square root of two" in signs."""
    factor, kind, radicand = match.groups()
    sign = "∛" if (kind or "").lower() == "cube " else "√"
    return f"{_figures(factor or '')}{sign}{_figures(radicand)}"


def _time(match: re.Match[str]) -> str:
    """ "half past five" and "a quarter to six" as times of day: 5:30 and 5:45."""
    hour = int(_figures(match[3])) - (match[2].lower() == "to")
    minutes = 30 if match[1].lower() == "half" else 15 if match[2].lower() == "past" else 45
    return f"{hour or 12}:{minutes}"


def _unit(match: re.Match[str]) -> str:
    r"""A compound unit as ``\text{}``."""
    if match[0][0] != " " and match.string[match.end() : match.end() + 1] == ")":
        return match[0]  # "sqrt(2h/g)"
    plain = _RAISED.sub(r"^\1", match[1].translate(_SUPERSCRIPTS))
    return rf" \text{{ {_LAYOUT.sub(' ', plain)}}}"
