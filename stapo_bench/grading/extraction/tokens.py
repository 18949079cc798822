"""A sentence in pieces: values, signs, joiners, number words, units and words, by what stands around each."""

import re
from typing import NamedTuple

from stapo_bench.grading import units
from stapo_bench.grading.extraction.languages import JOINERS
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import KNOWN_NAMES, NUMERAL, in_digits

_TOKEN = regex(
    rf"(?P<numeral>(?i:{NUMERAL.pattern}))"
    r"""|(?P<hidden>[\ue000-\uf8ff])
    |(?P<number>0\.\d*\(\d+\)(?![\d(])|0[xX][0-9A-Fa-f]+\b|0b[01]+\b|(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+(?:\.\.\.|…)?)?(?:[eE][+-]?\d+(?!\w))?|\.\d+)
    |(?P<command>\\(?:[A-Za-z]+|.)(?:\{[^{}]*\})?)
    |(?P<word>[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]+(?:['\u2019][A-Za-z\u00c0-\u024f]+|-[A-Za-z\u00c0-\u024f]{2,})*|[\u0400-\u04ff]+
      |[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[\u0370-\u03ff])
    |(?P<space>\s+)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_BREAKS = frozenset('"\u201c\u201d\u201e?\u00bf\u00a1\u3002\u2026\u2014\u2192\u21d2\u2713\u2714\u2705#@&~\u300d\u300c.')
_FRACTIONS = frozenset(
    "\u00bd\u2153\u2154\u00bc\u00be\u2155\u2156\u2157\u2158\u2159\u215a\u215b\u215c\u215d\u215e\u221e\u2205"
    "\u2460\u2461\u2462\u2463\u2464\u2465\u2466\u2467\u2468\u2776\u2777\u2778\u2779\u277a\u277b\u277c\u277d\u277e\u278a\u278b\u278c\u278d\u278e\u278f\u2790\u2791\u2792"
)
_OPERATORS = "+-*/^=<>\u2212\u00b7\u00d7\u00f7\u2264\u2265\u2248\u2260\u00b1(|_"
_SHORT = "is it so the and not for but if in on at to of or no by as an we he she his her its are was see via"
_SHORT_WORDS = frozenset(_SHORT.split())
TRAILING = frozenset(
    "!%\u00b0\u2032\u2033')]}|\u20ac\u00a3\u00a2\u2103\u2109[\u00bd\u00bc\u00be\u2153\u2154\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207f\u2071\u02e3\u02b8\u1d4f\u1d57\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089"
)
_MULTIPLES = frozenset(["million", "billion", "trillion", "thousand", "dozen", "percent", "hundred"])
_UNIT_SIGNS = frozenset(["\u00c5", "\u212b", "\u00b5m", "\u03bcm"])
_ELEMENTARY = frozenset(["C", "T", "F", "H"])  # units that are letters otherwise, but at the end of a sentence
_HOMONYMS = frozenset(["in", "us", "au"])
# Names that are English words too, but before a bracket.
_WORDS_TOO = "min max dim Re Im root choose iff sign inf det arg deg abs"
_WORDY = frozenset(_WORDS_TOO.split())
_ENDS_UNIT = regex(r"\s*(?:[.,;)\u00b2\u00b3^]|$|by\b|(?:long|tall|high|wide|deep)\b|\u00d7)")
_LETTER_UNIT = regex(r"(?:[/\u00b7.]| (?:/|per\b)|[\u00b2\u00b3^]|\W*$|[ ,.])")
_LAST = regex(r"\W*$|[.,] ")
_BEHIND_SIGN = regex("[=+*/−·-] $")
_NOUN = regex(r"\s[a-z]{2,}")
_BEFORE_SIGN = regex(r"\s*[=+*/^<>\u2264\u2265)\u2212\u00b2\u00b3\u2070-\u209c_-]")
_COEFFICIENT, _FACTOR = regex(r"[+*=−-] ?\d+ $"), regex(r" [b-z](?:[\^²³)]| ?[-−+*=]|\W*$)")  # "3 a b^2"
_CALLED = regex(r"\([a-z]\) ?=")  # "A(t) = ..."
_BEFORE_VALUE = regex(r"(\s*)(?:[\d(\\\ue000-\uf8ff\u2212-]|[a-z]\s*[=<>\u2264\u2265])")


_PRONOUN = regex(r" (?:of|can|could|may|might|must|has to|needs|sees|gets|finds|obtains|should|would) ")
_FUNCTIONS = frozenset(["ln", "log", "sin", "cos", "tan", "sqrt"])
_NOT_A_COUNT = regex(r"\b(?:the|this|that|each|every|no|any|other|another|which|[a-z]+(?:er|est))\s$", re.IGNORECASE)


class Token(NamedTuple):
    """A piece of a sentence. ``kind``: value, sign, joiner, number word, unit, space, word or stop."""

    kind: str
    text: str
    start: int
    end: int


def tokens(sentence: str) -> list[Token]:
    """The sentence in pieces, each with what it can be."""
    found: list[Token] = []
    for match in _TOKEN.finditer(sentence):
        group, text = match.lastgroup, match.group()
        if group in ("hidden", "number", "command"):
            kind = "value"
        elif group == "space":
            kind = "space"
        elif group == "numeral":
            pronoun = text.lower() == "one" and (
                _PRONOUN.match(sentence, match.end()) or _NOT_A_COUNT.search(sentence[: match.start()][-20:])
            )
            kind = "word" if pronoun or in_digits(text) is None else "number"
        elif group == "sign":
            kind = _kind_of_sign(sentence, match, found)
        else:
            kind = _kind_of_word(sentence, match, found)
        found.append(Token(kind, text, match.start(), match.end()))
    return found


def _kind_of_sign(  # noqa: PLR0911 - one return for each kind of sign
    sentence: str, match: re.Match[str], before: list[Token]
) -> str:
    """A sign of mathematics, a comma between values, or a stop."""
    char = match.group()
    if char in _BREAKS:
        return "stop"
    if char in _FRACTIONS:
        return "value"
    if char in ",;\uff1b\u3001":
        return "joiner"
    if char == ":":
        is_ratio = re.search(r"(?:[\dπ]|(?<![A-Za-z\d\u2080-\u2089])[A-Z])( ?)$", sentence[: match.start()])
        return (
            "sign" if is_ratio and re.match(rf"{is_ratio[1]}[\dA-Z√π(](?![a-z])", sentence[match.end() :]) else "stop"
        )
    if char in "\u2013-" and sentence[match.start() - 1 : match.start()] == " " and sentence[match.end() :][:1] == " ":
        return (
            "sign"
            if _is_value(before)
            and re.match(
                r" *(?:[\d(\\\ue000-\uf8ff\u221a\u03c0]|[A-Za-z](?![a-z])|[a-z]{2}(?=[)\u00b2\u00b3^]| [-+=] )|"
                r"(?:sqrt|cbrt|sin|cos|tan|ln|log|pi|exp|alpha|beta|theta))",
                sentence[match.end() :],
            )
            else "stop"
        )
    if char in "'\u2019" and not (before and (before[-1].kind == "value" or before[-1].text == ")")):
        return "stop"
    return "sign"


def _is_value(before: list[Token]) -> bool:
    """Whether the last token that is no space is a value, or closes one."""
    last = next((token for token in reversed(before) if token.kind != "space"), None)
    return last is not None and (last.kind in ("value", "number") or last.text in TRAILING)


def _kind_of_word(sentence: str, match: re.Match[str], before: list[Token]) -> str:
    """A name of mathematics, a joiner, a number word, a unit, or a word."""
    word, start, end = match.group(), match.start(), match.end()
    lower = word.lower()
    glued = start > 0 and (sentence[start - 1].isdigit() or sentence[start - 1] in _OPERATORS)
    if lower in ("st", "nd", "rd", "th") and glued:
        return "word"
    kind = _kind_of_unit(sentence, match, before)
    if kind is None and len(word) == 1:
        kind = _kind_of_letter(sentence, match, before, glued)
    if kind is not None:
        return kind
    ends_interval = word == "inf" and sentence[end : end + 1] in (",", ")")
    if word in KNOWN_NAMES and (word not in _WORDY or sentence[end : end + 1] == "(" or ends_interval):
        return "value"
    if lower in JOINERS:
        return "joiner"
    before_sign = sentence[end : end + 1] in tuple("^\u00b2\u00b3_=/*") or sentence[end : end + 2] == " ="
    is_letters = (
        word.isascii()
        and len(word) <= 3
        and not (word.istitle() and sentence[end : end + 1] != "^")
        and lower not in _SHORT_WORDS
    )
    is_product = (
        len(word) == 2
        and word.islower()
        and _BEHIND_SIGN.search(sentence[:start])
        and (_LAST.match(sentence, end) or (_BEFORE_SIGN.match(sentence, end) and lower not in _SHORT_WORDS))
    )
    if re.fullmatch("[A-F]{2,}", word) and sentence[end : end + 1] in tuple("₁₂₃₄₅₆₇₈₉"):
        return "value"  # "FF₁₆"
    is_below = sentence[start - 2 : start] == "/(" and sentence[end : end + 1] == ")" and len(word) <= 3  # "/(Pt)"
    return "value" if (is_letters and (glued or before_sign)) or is_product or is_below else "word"


def _kind_of_unit(  # noqa: PLR0911 - one return for each kind of unit
    sentence: str, match: re.Match[str], before: list[Token]
) -> str | None:
    """Whether the word is a unit, or a factor such as "million", of the value before it; None where it is none."""
    word, end = match.group(), match.end()
    lower = word.lower()
    last = next((token for token in reversed(before) if token.kind != "space"), None)
    if word in _HOMONYMS and not _ENDS_UNIT.match(sentence, end):
        return "word"
    if last is None:
        return "word" if word in units.WORDS else None
    if lower in _MULTIPLES and _is_value(before):
        return "number" if last.kind == "number" and lower != "percent" else "unit"
    if (lower in ("am", "pm") or word in _UNIT_SIGNS) and _is_value(before):
        return "unit"
    if word in _ELEMENTARY and _is_value(before) and before[-1].kind == "space" and _LAST.match(sentence, end):
        return "unit"
    if lower == "per" and any(token.kind == "unit" for token in before[-2:]):
        return "unit"
    if word in units.WORDS or (word in units.LETTERS and _LETTER_UNIT.match(sentence, end)):
        if last.kind in ("value", "number", "unit") or last.text in ")]}/\u00b7":
            apart = len(word) > 1 or "unit" in (before[-1].kind, last.kind) or before[-1].kind == "space"
            return "unit" if apart else "value"
        if len(word) == 2 and last.text == "=":  # "v = mg/k"
            return "value"
        return "word" if word in units.WORDS else None
    return None


def _kind_of_letter(sentence: str, match: re.Match[str], before: list[Token], glued: bool) -> str:
    """A letter: a variable, an article, or a joiner such as "y" and "o" between values."""
    word, start, end = match.group(), match.start(), match.end()
    if word in "aAI":
        stands_alone = _BEHIND_SIGN.search(sentence[:start]) and not _NOUN.match(sentence, end)  # "= a", no article
        in_braces = (
            (word == "a" and sentence[end : end + 3] in ("(n)", "(k)"))
            or _CALLED.match(sentence, end)
            or (word == "a" and _COEFFICIENT.search(sentence[:start]) and _FACTOR.match(sentence, end))
            or sentence[start - 1 : start] == "{"
            or sentence[end : end + 1] == "}"
        )
        return "value" if glued or stands_alone or in_braces or _BEFORE_SIGN.match(sentence, end) else "word"
    follows = _BEFORE_VALUE.match(sentence, end)
    is_argument = before[-2:-1] and before[-2].text in _FUNCTIONS  # "ln e - 1"
    if word in JOINERS and not is_argument and _is_value(before) and follows and (follows[1] or not word.isascii()):
        return "joiner" if sentence[start - 1 : start].isspace() or not word.isascii() else "value"
    return "value" if word.isascii() or "\u0370" <= word <= "\u03ff" else "word"
