r"""Answers of several parts: "(a) 7, (b) 10", boxes for parts, values with names in words; each meets its own gold."""

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.units import NEXT_PART, NEXT_VALUE

_STYLED_LABEL = regex(r"\\text\w*\s*\{([^{}]*(?:\([a-hivx]{1,4}\)|\b[a-h]\))[^{}]*)\}")
_LABEL = regex(r"(?:^|(?<=[\s,;}$]))(?:[Pp]art\s*)?\(?(?:([a-h])|(i{1,3}|iv|v))\)[\s:=.]*(?:\\[ ,;:]\s*)*")
_ROWS = (tuple("abcdefgh"), ("i", "ii", "iii", "iv", "v"))
_JOINT = regex(r"[\s,;.$]*(?:\\q?quad|\\text\s*\{\s*,?\s*(?:and|or)\s*\}|\\[ ,;]|\band\b|[\s,;.$])*$")
_WORD_AND = regex(r"\\text\s*\{\s*,?\s*and\s*\}|\band\b")
_GROUPED = regex(r"[\s$-]*\d{1,3}(?:,\d{3})+\W*")  # one number
_NAME = regex(
    r"^\\sigma\^\{?2\}?\s*=\s*|^(?:\\[ ,;:]|\s)*(?:\\(?:text"
    r"|mathrm)\w*\s*\{\s*(?:and )?[A-Za-z][A-Za-z -]{1,30}?\s*[:=]?\s*\}"
    r"|(?!(?:sin|cos|tan|cot|sec|csc|log|exp|min|max|gcd|lcm|mod|det|arg|not|and|lim|sup|inf|all|odd)\b)"
    r"[A-Za-z][a-z-]{2,20}\b)\s*[:=]?\s*(?=\S)"
)


def labelled(text: str) -> list[str] | None:
    r"""The parts of an answer that labels "(a)", "(i)" open, in their order; None where it has none.

    >>> labelled(r"\text{(a) }\frac12\text{ (b) }\frac13"), labelled("(a) 2, 5; (b) 7"), labelled("(a, b)")
    (['\\frac12', '\\frac13'], ['2, 5', '7'], None)
    """
    for mark in (NEXT_PART, NEXT_VALUE):
        if mark in text:
            return text.split(mark)
    if text.count(")") < 2:
        return None
    bare = _STYLED_LABEL.sub(r" \1 ", text).strip(" $")
    found = list(_LABEL.finditer(bare))
    names = tuple(match[1] or match[2] for match in found)
    if len(found) < 2 or found[0].start() or not any(names == row[: len(names)] for row in _ROWS):
        return None
    ends = [match.start() for match in found[1:]] + [len(bare)]
    parts = [_JOINT.sub("", bare[match.end() : end]).strip() for match, end in zip(found, ends, strict=True)]
    return [part.removeprefix("$") if part.count("$") == 1 else part for part in parts]


def listed(text: str) -> list[str]:
    """What commas and semicolons, or one "and", part outside brackets; brackets around the whole are left out."""
    bare = _WORD_AND.sub(",", text).strip().strip("$").strip()
    parts, depth, start = [], 0, 0
    if bare[:1] == "(" and bare[-1:] == ")" and bare.find(")") == len(bare) - 1:
        bare = bare[1:-1]
    for index, char in enumerate(bare):
        depth += (char in "([{") - (char in ")]}")
        if char in ",;" and depth == 0 and bare[index - 1 : index] != "\\":
            parts.append(bare[start:index])
            start = index + 1
    return [part.strip() for part in [*parts, bare[start:]] if part.strip()]


def parts_of(gold: str) -> int:
    r"""How many values a gold has that are its parts in an order of their own: 1 for a set or an interval.

    >>> parts_of("(2,-3), x=2"), parts_of(r"\{1,2\}"), parts_of("(4,-1)"), parts_of("[0,1)"), parts_of("43,500")
    (2, 1, 2, 1, 1)
    """
    return 1 if _GROUPED.fullmatch(gold) else len(labelled(gold) or listed(gold))


def without_names(parts: list[str]) -> list[str] | None:
    r"""Several values without the names in words before them; None where none has such a name.

    >>> without_names([r"\text{Centre }(2,-1)", r"\text{ radius }3"]), without_names(["2", "3"])
    (['(2,-1)', '3'], None)
    """
    bare = [_NAME.sub("", part) for part in parts]
    return bare if len(parts) > 1 and bare != parts else None
