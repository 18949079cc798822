r"""Answers that are text: names, choices, times, dates, and the few words that are numbers or sets.

Each has one canonical form, and forms of different types never meet.
"""

import math
import re

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import in_digits

_MONTHS = {
    "january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8, "september": 9,
    "october": 10, "november": 11, "december": 12,
}  # fmt: skip
_SHORT_MONTHS = {name[:letters]: month for name, month in _MONTHS.items() for letters in (3, 4)}
_NOTHING = frozenset({
    "no solution", "no solutions", "none", "empty", "empty set", "the empty set", "no real solution",
    "no real solutions", "no real roots", "no real root", "no roots", "no such number", "no such integer",
    "there are no solutions", "nothing", "null set",
})  # fmt: skip
_REALS = frozenset({
    "all real numbers", "all reals", "all real x", "any real number", "the real numbers", "real numbers",
    "all real values",
})  # fmt: skip
_FORMS = {"undefined": "does not exist", "dne": "does not exist", "divergent": "diverges", "convergent": "converges"}
_FORMS |= dict.fromkeys(("sí", "si", "oui", "ja", "да", "是", "是的", "はい", "예", "네"), "yes")
_FORMS |= dict.fromkeys(("non", "nein", "нет", "不是", "否", "いいえ", "아니요"), "no")
_JOINT = regex(r"\s*,\s*(?:and\s+)?|\s+and\s+")
# Layout within words and between them. Signs and commas beside single letters and digits are the answer: "a-b", "1, 2".
_LAYOUT = regex(
    r"(?<=L)(?: and |[ ,]+)(?=L)|(?<=LL)(?: and |[ \-_,]+)(?=L)|(?<=L)(?: and |[ \-_,]+)(?=LL)"
    r"|(?<=LLL)[ \-_,]+(?=\d)|(?<=\d)[ \-_,]+(?=LLL)|(?<!\d) | (?!\d)".replace("L", r"[^\W\d_]")
)
_STYLE = regex(r"\\(?:text\w*|math\w+|mbox|operatorname)\s*(?=\{)")
_SIGNS = regex(r"[{}$]|\\(?![A-Za-z])|\\(?:quad|qquad)\b")
_BLANKS = regex(r"\s+")
_AROUND_CHOICE = regex(r"\\(?:text|math)\w*\s*(?=\{)|[{}$*~]|\\[ ,;]")
_CHOICE = regex(r"\(\s*([A-Ja-j])\s*\)")
_AROUND_TIME = regex(r"\\(?:text|math)\w*|[{}$\s~]|\\[ ,;!]")
_TIME = regex(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d))?([ap]m|noon|midnight)?(?:h|hrs?|hours?)?")
_TWO_PARTS = regex(r"([1-9]\d?) ?: ?([1-9]\d)")
_HOUR = regex(r"(\d{1,2})([ap]m)")
_ORDINAL = regex(r"(\d)\s*(?:\^\s*)?(?:st|nd|rd|th)\b")
_AROUND_DATE = regex(r"\b(?:the|of|on|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b")
_ISO_DATE = regex(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})\s*")
_ARTICLE = regex(r"^(?:the|an|a)\s+(?!and\b|or\b)(?=\w{2,})")


def plain(text: str) -> str:
    r"""Letters, digits and signs of a text answer, layout removed.

    >>> plain(r"\text{The  East}."), plain(r"\textbf{(B)}")
    ('east', '(b)')
    """
    return _ARTICLE.sub("", _words(text))


def _words(text: str) -> str:
    """The text in lower case, layout removed."""
    return _BLANKS.sub(" ", _SIGNS.sub(" ", _STYLE.sub("", text))).strip(" .,;:!*\"'`").lower()


def special(text: str) -> str | None:
    """``empty``, ``reals``, or None: words that stand for a set.

    >>> special("No solution"), special("all real numbers"), special("east")
    ('empty', 'reals', None)
    """
    words = plain(text)
    if words in _NOTHING:
        return "empty"
    if words in _REALS:
        return "reals"
    return None


def number(text: str) -> str | None:
    r"""A number in words, in digits: ``four``, ``\\text{twenty-one}``, ``two thirds``.

    >>> number("Twenty-one"), number("two thirds"), number("fourth")
    ('21', '2/3', None)
    """
    return in_digits(_words(text)) if text[-1:].isalpha() or text[-1:] in "}." else None


def choice(text: str, strict: bool = True, whole: bool = False) -> str | None:
    r"""The letter of a multiple-choice answer. Unless ``strict``, a bare letter or one with its option counts too.

    ``whole``: an option may hold an "and" ("C. I and II"), if no letter of another option stands behind it.

    >>> choice(r"\text{(C)}"), choice("C"), choice("C) 12", strict=False), choice("(C) 12", strict=False)
    ('C', None, 'C', 'C')
    """
    bare = _AROUND_CHOICE.sub(" ", text).strip(" .")
    match = _CHOICE.fullmatch(bare)
    if match:
        return match[1].upper()
    if strict:
        return None
    match = re.match(
        r"(?:(?:option|choice|answer)\s*:?\s*)?\(?\s*([A-J])\s*(?:\)|[.:](?=\s|$)|$)(?!\s*[,;]|\s*(?:and|or)\b)",
        bare,
        re.IGNORECASE,
    )
    if not match:
        return None
    option = bare[match.end() :]
    if re.search(r"\([A-J]\)|\b(?:or|not)\b", option) or re.search(
        r"\band\b.*\b[A-J]\b" if whole else r"\band\b", option
    ):
        return None
    return match[1].upper()


def time(text: str) -> tuple[int, int, int, str] | None:
    r"""Hours, minutes, seconds and half of the day.

    >>> time(r"5{:}21\text{ p.m.}"), time("17:21"), time("1:2")
    ((5, 21, 0, 'pm'), (17, 21, 0, ''), None)
    """
    bare = _AROUND_TIME.sub("", text).lower().replace(".", "").rstrip(",;")
    match = _TIME.fullmatch(bare)
    if match is None:
        whole = _HOUR.fullmatch(bare)
        return (int(whole[1]), 0, 0, whole[2]) if whole and 1 <= int(whole[1]) <= 12 else None
    hours = int(match[1])
    return (hours, int(match[2]), int(match[3] or 0), match[4] or "") if hours <= 24 else None


def same_time(left: tuple[int, int, int, str], right: tuple[int, int, int, str]) -> bool:
    """Equal on the clock; where only one names the half of the day, the other may be 24-hour or leave it out.

    >>> same_time((5, 21, 0, "pm"), (17, 21, 0, "")), same_time((5, 21, 0, "am"), (5, 21, 0, "pm"))
    (True, False)
    """
    if left == right:
        return True
    if bool(left[3]) == bool(right[3]):
        return _on_the_clock(left) == _on_the_clock(right) and bool(left[3])
    marked, bare = (left, right) if left[3] else (right, left)
    return _on_the_clock(marked) == (bare[0], bare[1], bare[2]) or marked[:3] == bare[:3]


def is_ratio(text: str) -> bool:
    """Whether what may be a time may be a ratio as well: two numbers in lowest terms, the second without a leading 0.

    >>> is_ratio("1:10"), is_ratio("1:05"), is_ratio("2:20")
    (True, False, False)
    """
    parts = _TWO_PARTS.fullmatch(text)
    return parts is not None and math.gcd(int(parts[1]), int(parts[2])) == 1


def same_ratio(left: str, right: str) -> bool:
    """Whether two ratios are one; none where either is no ratio of two numbers.

    >>> same_ratio("2:20", "1:10"), same_ratio("2:20", "1:12"), same_ratio("12:00", "1:00")
    (True, False, False)
    """
    a, b = _TWO_PARTS.fullmatch(left), _TWO_PARTS.fullmatch(right)
    return a is not None and b is not None and int(a[1]) * int(b[2]) == int(a[2]) * int(b[1])


def _on_the_clock(value: tuple[int, int, int, str]) -> tuple[int, int, int]:
    """Hours of the whole day, minutes and seconds."""
    hours = value[0]
    if value[3] in ("am", "midnight"):
        hours %= 12
    elif value[3] in ("pm", "noon"):
        hours = hours % 12 + 12
    return hours, value[1], value[2]


def date(text: str) -> tuple[int | None, int, int | None] | None:
    """Year, month, day; the year may be missing.

    >>> date("June 20"), date("20th June, 2024"), date("2024-06-20"), date("May")
    ((None, 6, 20), (2024, 6, 20), (2024, 6, 20), None)
    """
    bare = _ORDINAL.sub(r"\1", plain(text).replace(",", " ").replace("^", ""))
    bare = _AROUND_DATE.sub(" ", bare)
    iso = _ISO_DATE.fullmatch(bare)
    if iso:
        return int(iso[1]), int(iso[2]), int(iso[3])
    parts = bare.split()
    months = [i for i, part in enumerate(parts) if _month(part)]
    if len(months) != 1 or not 2 <= len(parts) <= 3:
        return None
    rest = [part for i, part in enumerate(parts) if i != months[0]]
    if not all(part.isdigit() and len(part) <= 4 for part in rest):
        return None
    values = [int(part) for part in rest]
    days = [v for v in values if v <= 31]
    years = [v for v in values if v > 31]
    month = _month(parts[months[0]])
    if len(days) > 1 or len(years) > 1:
        return None
    return years[0] if years else None, month, days[0] if days else None


def _month(word: str) -> int:
    """1 for "january", "jan" and "jan."; 0 for what is no month."""
    return _MONTHS.get(word) or _SHORT_MONTHS.get(word.rstrip("."), 0)


def same_words(left: str, right: str) -> bool:
    r"""Equal as text: letters and digits in the same order, case and layout aside.

    >>> same_words(r"\text{Two lines}", "two lines."), same_words("parabola", "hyperbola")
    (True, False)
    """
    a, b = plain(left), plain(right)
    a, b = _FORMS.get(a, a), _FORMS.get(b, b)
    if a == b:
        return True
    if sorted(_JOINT.split(a)) == sorted(_JOINT.split(b)):
        return True
    return _LAYOUT.sub("", a) == _LAYOUT.sub("", b) and len(a) > 1
