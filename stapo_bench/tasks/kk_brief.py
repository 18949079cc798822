"""Knights and knaves in brief, for models of under a million parameters: letters for names, formulas for sentences.

A letter says that its person is a knight, ``not`` before it that they are a knave. The puzzles and their splits are
those of ``kk``, in other words.

>>> kk.evaluation_rows(people=3, count=1, seed=0, in_words=words)[0]["problem"]
'A: B or C. B: A. C: not B. Who are the knights?'
"""

from collections.abc import Sequence

from stapo_bench.tasks import kk

LETTERS = "ABCDEFGH"
"""Names in alphabetical order."""

_FORMS = {"and": "{} and {}", "or": "{} or {}", "if": "if {} then {}", "iff": "{} iff {}"}


def words(puzzle: kk.Puzzle) -> tuple[str, str]:
    """The puzzle's question, everybody speaking in the order of their letters, and its answer."""
    said = " ".join(f"{letter}: {formula(claim)}." for letter, claim in zip(LETTERS, puzzle.claims, strict=False))
    return f"{said} Who are the knights?", ", ".join(letters(puzzle.knights))


def letters(knights: Sequence[bool]) -> list[str]:
    """The letters of those who are knights.

    >>> letters((True, False, True))
    ['A', 'C']
    """
    return [letter for letter, is_knight in zip(LETTERS, knights, strict=False) if is_knight]


def formula(claim: kk.Claim, *, inside: bool = False) -> str:
    """The claim in letters, within brackets where it is part of another.

    >>> formula(kk.Link("if", kk.Kind(1, True), kk.Kind(0, False)))
    'if B then not A'
    """
    if isinstance(claim, kk.Kind):
        return ("" if claim.is_knight else "not ") + LETTERS[claim.person]
    text = _FORMS[claim.word].format(*(formula(side, inside=True) for side in (claim.left, claim.right)))
    return f"({text})" if inside else text
