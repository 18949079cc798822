"""Values with names of their own inside one clause: "centre (0, 2) and radius 3", "the larger is 12, the other 8"."""

import re
from itertools import pairwise

from stapo_bench.grading.extraction.chains import chain_end
from stapo_bench.grading.extraction.languages import COPULAS, VERBS
from stapo_bench.grading.extraction.spans import Span
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.units import NEXT_VALUE

_NAME_BETWEEN = regex(
    r"^\s*(?:,|;|,?\s*(?:and|y|et|und))\s+(?:the\s+|its\s+|a\s+|el\s+|la\s+"
    r"|le\s+)?([a-zA-Zé-]+)(?:\s+[a-zA-Z]+){0,3}\s*(?:\bis|\bare|\bequals|\bhas|\bhave"
    r"|=|:)?\s*(?:the\s+)?$",
    re.IGNORECASE,
)
_PARTS_WORDS = """
    center centre radius diameter quotient remainder vertex focus slope intercept mean median mode length
    width height numerator denominator period amplitude maximum minimum larger smaller first second symmetry argument
    modulus mayor menor
"""
_PARTS = frozenset(_PARTS_WORDS.split())
_NOT_NAMES_WORDS = """
    to of so then he she it they we you there if when thus hence therefore that this which answer total i in
    at by but not or because since as while where whereas although
"""
_NOT_NAMES = VERBS | COPULAS | frozenset(_NOT_NAMES_WORDS.split())


def named_in_clause(clause: str, runs: list[Span]) -> str | None:
    """Values with names of their own, in their order: "centre (0, 2) and radius 3", "the larger is 12, the other 8"."""
    if len(runs) < 2 or clause[runs[-1].end :].strip(" .*"):
        return None
    taken = [runs[-1]]
    for run in reversed(runs[:-1]):
        if not _NAME_BETWEEN.match(clause[run.end : taken[0].start]):
            break
        taken.insert(0, run)
    if len(taken) < 2:
        return None
    before = [clause[: taken[0].start], *(clause[a.end : b.start] for a, b in pairwise(taken))]
    names = [re.findall(r"[A-Za-z]+", words.lower()) for words in before]
    stated_each = all(
        re.search(r"(?:\b(?:is|are|equals|has|have|gets?)|[:=])\s*(?:the\s+)?$", words) for words in before
    )
    called_each = all(set(words[-3:]) & _PARTS for words in names)
    if not stated_each and not called_each:
        return None
    if any(set(words[:-1]) & _NOT_NAMES for words in names[1:]):
        return None
    return NEXT_VALUE.join(chain_end(run.text) for run in taken)
