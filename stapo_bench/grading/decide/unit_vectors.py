r"""The unit vectors i, j and k, in one spelling: ``\hat{k}`` for ``\mathbf{k}``, ``\hat{\mathbf k}``, ``**k**``, k with
a circumflex; and for a plain ``k`` where the gold sets all of its own apart.
"""

import re
from functools import lru_cache

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import in_ascii

_MARKS = ("math", "hat", "vec", "bold", "bm", "pmb", "**", "textbf", "\u0302", "î", "ĵ")
_STYLE = r"\\(?:mathbf|boldsymbol|bm|pmb|hat|widehat|vec|overrightarrow|textbf)(?![A-Za-z])\s*"
_LETTER = r"(?:\\([ij])math(?![A-Za-z])|([ijk])(?![A-Za-z])|\\hat\{([ijk])\})"
_STYLED = regex(rf"{_STYLE}(?:\{{\s*{_LETTER}\s*\}}|{_LETTER})")
_STARRED = regex(r"(?<![\w*])\*\*([ijk])\*\*(?![\w*])")
_BARE = regex(r"(\\hat\{[ijk]\}|\\[A-Za-z]+|[A-Za-z]{2,}|_ ?\{?[ijk])|([ijk])(?![A-Za-z])")
_STYLES = 3  # one around another


def in_hats(text: str) -> str:
    r"""The text with each unit vector that is set apart as ``\hat{i}``.

    >>> in_hats(r"3\mathbf{i} + 4\hat{\jmath} - \hat{\mathbf{k}}"), in_hats("0.6 **i**"), in_hats("2k")
    ('3\\hat{i} + 4\\hat{j} - \\hat{k}', '0.6 \\hat{i}', '2k')
    """
    if not any(mark in text for mark in _MARKS):
        return text
    text = _STARRED.sub(r"\\hat{\1}", in_ascii(text))
    for _ in range(_STYLES):
        text = _STYLED.sub(_hat, text)
    return text


def _hat(match: re.Match[str]) -> str:
    """The letter of a style, under a hat."""
    return rf"\hat{{{next(filter(None, match.groups()))}}}"


def with_unit_vectors(response: str, gold: str) -> tuple[str, str]:
    r"""Both in hats, where the gold has a unit vector that is set apart; else both as they are.

    A plain letter of the response is one, too, unless the gold has plain ones, which are numbers.

    >>> with_unit_vectors("3i - k", r"3\mathbf{i} - \mathbf{k}"), with_unit_vectors("3i", "3i")
    (('3\\hat{i} - \\hat{k}', '3\\hat{i} - \\hat{k}'), ('3i', '3i'))
    """
    hatted = _hatted(gold)
    if hatted is None:
        return response, gold
    response = in_hats(response)
    if not _has_bare(hatted):
        response = _BARE.sub(lambda match: match[1] or rf"\hat{{{match[2]}}}", response)
    return response, hatted


@lru_cache(maxsize=1024)
def _hatted(gold: str) -> str | None:
    """The gold in hats; None where it has no unit vector."""
    hatted = in_hats(gold)
    return hatted if r"\hat{" in hatted and any(rf"\hat{{{letter}}}" in hatted for letter in "ijk") else None


def _has_bare(text: str) -> bool:
    """Whether an i, j or k stands in the text without a hat."""
    return any(match[2] for match in _BARE.finditer(text))
