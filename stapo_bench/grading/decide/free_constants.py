r"""Free constants of a general solution, whose names are the writer's: ``A e^{2x}`` for ``C e^{2x}``."""

import re
from collections.abc import Iterator
from itertools import permutations

from stapo_bench.grading.patterns import regex

MAX_CONSTANTS = 2
_CONSTANT = regex(r"(?<![A-Za-z\\])[A-DKck](?: ?_ ?\{?\d\}?|\d)?(?![a-z]{2}|[A-Z_\d(])")
_ASKS_FOR_ALL = regex(
    r"\bgeneral solution\b|\bantiderivatives?\b|\bindefinite integral\b|\ballgemeine Lösung\b|\bStammfunktion"
    r"|\bsolution générale\b|\bprimitive\b|\bsolución general\b|\bобщее решение\b",
    re.IGNORECASE,
)


def with_constants_of(response: str, gold: str, question: str) -> Iterator[str]:
    """The response with its constants under the gold's names; nothing where these are not as many.

    A letter that the question or the other side names, too, is no free constant.

    >>> list(with_constants_of("y = A e^{2x}", "y = C e^{2x}", "Solve y' = 2y."))
    ['y = C e^{2x}']
    >>> list(with_constants_of("y = A e^{2x}", "y = C e^{2x}", "Solve y' = 2y, y(0) = A."))
    []
    """
    known = set(_CONSTANT.findall(question))
    ours, theirs = (dict.fromkeys(_CONSTANT.findall(text)) for text in (response, gold))
    own = [name for name in ours if name not in known]
    free = [name for name in theirs if name not in known]
    if len(own) != len(free) or not 0 < len(own) <= MAX_CONSTANTS or ours.keys() & theirs.keys():
        return
    for names in permutations(free):
        yield _renamed(response, dict(zip(own, names, strict=True)))


def asks_for_all(question: str) -> bool:
    """Whether a question asks for all solutions of a differential equation, or all antiderivatives.

    >>> asks_for_all("Find the general solution of y' = 2y."), asks_for_all("Solve y' = 2y with y(0) = 1.")
    (True, False)
    """
    return _ASKS_FOR_ALL.search(question) is not None


def _renamed(text: str, names: dict[str, str]) -> str:
    """The text with its constants under other names."""
    return _CONSTANT.sub(lambda match: names.get(match[0], match[0]), text)
