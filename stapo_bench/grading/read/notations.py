r"""Notations of whole answers that have a plainer one: a transposed tuple, ``C(n, 2)``."""

from stapo_bench.grading.patterns import regex

_TRANSPOSED = regex(
    r"((?:[A-Za-z]\w* ?= ?)?(?:\([^()]*,[^()]*\)|\[[^\[\]]*,[^\[\]]*\]))"
    r" ?\^ ?\{? ?(?:T|t|\\(?:top|intercal|text ?\{T\})) ?\}?"
)
_TERM = r"[a-z](?: ?[-+] ?\d+)?"
_CHOSEN = regex(rf"(?<![A-Za-z\\])C ?\(({_TERM}), ?(\d+|{_TERM})\)")


def drop_transposition(text: str) -> str:
    """A tuple is a row and a column.

    >>> drop_transposition("v = (1, 2)^T")
    'v = (1, 2)'
    """
    return row[1] if "^" in text and (row := _TRANSPOSED.fullmatch(text)) else text


def spell_binomials(text: str) -> str:
    r"""A binomial coefficient in one spelling, where its first entry is a letter: C(5, 2) may be a point.

    >>> spell_binomials("C(n, 2)"), spell_binomials("C(5, 2)")
    ('\\binom{n}{2}', 'C(5, 2)')
    """
    return _CHOSEN.sub(r"\\binom{\1}{\2}", text) if "C" in text else text
