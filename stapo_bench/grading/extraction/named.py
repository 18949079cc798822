r"""Values under names of their own at the end of a text: "Vertex: (1, 4). Axis: x = 1", "the mean is 4 while ..."."""

import re
from typing import NamedTuple

from stapo_bench.grading.extraction.chains import chain_end
from stapo_bench.grading.extraction.formulas import hide_formulas
from stapo_bench.grading.extraction.spans import spans
from stapo_bench.grading.extraction.statements import sentences
from stapo_bench.grading.extraction.tokens import tokens
from stapo_bench.grading.patterns import regex

MAX_NAMED = 600  # characters from the end in which such values stand
MAX_PARTS = 6
_SEGMENT = regex(
    r"\n|;|,?\s+(?:(?:and|while|whereas|with)\s+(?!\d)|(?:und|et|y)\s+(?=[^\W\d_]{2}))"
    r"|,\s+(?=(?:[^\W\d_][\w'’-]*\s+){0,4}?[\w'’\ue000-\uf8ff-]+\s*(?:=|:|\b(?:is|are|equals|ist|est|es)\b))"
)
_LEAD = regex(r"^\W*(?:that is|i\.e\.|in other words|namely|so|thus|hence|therefore|altogether)[,:]?\s+", re.IGNORECASE)
# "2, 3, and finally 4"
_LAST_OF = regex(r"(,? and),? (?:lastly|finally),? ")
_LINKED = regex(
    r"(?P<name>[^=:]*?[\w)\ue000-\uf8ff])"
    r"(?:\s*[=:→]|,?\s+(?:is|are|was|equals|costs?|weighs|comes (?:out )?(?:as|to)|ist|est|es|at)\b)"
    r"(?:\s+(?:at|equal to|again|the|a|line|point|given by|just|then|therefore))*\s*(?P<value>\S.*)"
)
_SIDE_BY_SIDE = regex(
    r"(?P<name>(?:[^\W\d_][\w'’-]*,?\s+){1,7})(?P<value>(?:[-−–(\d\ue000-\uf8ff√π]|[a-z][²³]? [-+−] \d).*)"
)
_TERM = regex(r"(?<![A-Za-z]{2})\s*[-−+*/^·]\s*\w*[\d)]$")
_MULTIPLE = regex(r"(?<!\w)\d+[a-z]$")  # "2x = 14" is working
_LETTER = regex(r"(?:^|\s)([A-Za-z])$")
_EQUATION = regex(r"\$([A-Za-z]\s*=\s*[-−]?[\d./]+)\$")
_WORD = regex(r"[^\W\d_][\w'’-]*|[\ue000-\uf8ff]")


class Named(NamedTuple):
    """A value and the words that name it."""

    name: str
    value: str


def named_values(text: str, loose: bool = False) -> list[Named]:
    """The values at the end of a text that stand under names, in their order; those before one without a name are not.

    ``loose``: those that end a sentence are, whatever stands before them in it.

    >>> [pair.value for pair in named_values("So the vertex is at (2, -3); the axis is the line x = 2.")]
    ['(2,  -3)', 'x = 2']
    """
    hidden = hide_formulas(_EQUATION.sub(r"\1", text[-MAX_NAMED:]))
    found: list[Named] = []
    for line in reversed(hidden.text.split("\n")):
        for sentence in reversed(list(sentences(line))):
            for segment in reversed(_SEGMENT.split(_LAST_OF.sub(r"\1 ", _LEAD.sub("", sentence.rstrip(" .!*"))))):
                named = _named(segment.replace("**", "").strip(" \t-•*,"))
                if named is None and loose:
                    break
                if named is None or len(found) == MAX_PARTS:
                    return found
                name, value = hidden.shown(named.name), chain_end(hidden.shown(named.value).lstrip(" ="))
                letter = _LETTER.search(name)
                found.insert(0, Named(name.lower(), f"{letter[1]} = {value}" if letter else value))
    return found


def _named(segment: str) -> Named | None:
    """Name and value of a part of a sentence that is nothing but these; None of any other."""
    match = _LINKED.fullmatch(segment) or _SIDE_BY_SIDE.fullmatch(segment)
    if (
        match is None
        or _MULTIPLE.search(match["name"])
        or not (words := _WORD.findall(match["name"]))
        or _TERM.search(match["name"])
    ):
        return None  # "x - 3" is no name
    runs = spans(tokens(match["value"]))
    if len(runs) != 1 or match["value"][: runs[0].start].strip() or match["value"][runs[0].end :].strip():
        return None
    return Named(" ".join(words[-3:]), runs[0].text)


def in_order_of(text: str, named: list[Named], wanted: int) -> list[Named] | None:
    """The last ``wanted`` values that a text names, in its order; None where it names fewer, or two alike.

    >>> three = [Named("ann's age", "5"), Named("bob's age", "7"), Named("cy's height", "9")]
    >>> [pair.value for pair in in_order_of("Which height and which age?", three[1:], 2) or ()]
    ['9', '7']
    """
    places = []
    for pair in named:
        word = re.split(r"[ -]", pair.name)[-1]
        found = re.search(rf"\b{re.escape(word)}", text.lower()) if len(word) > 2 else None
        if found is not None:
            places.append((found.start(), pair))
    last = places[-wanted:]
    if len(dict(last)) < wanted:
        return None
    return [pair for _, pair in sorted(last)]
