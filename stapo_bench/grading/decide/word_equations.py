r"""Equations between words, ``\text{time} = \frac{\text{distance}}{\text{speed}}``: each word is read as a letter.

Where the gold is one, an answer need not set its words apart: "time = distance / speed" is the same.
"""

import re
from functools import lru_cache

from stapo_bench.grading.patterns import regex

MAX_WORDS = 8
_WORD = regex(r"\\text(?:rm|it|normal)?\s*\{\s*([A-Za-z]{3,}(?: [A-Za-z]+){0,2})\s*\}")
_LETTERS = "QZWVUTSRPONM"
_EQUATION = regex(r"[\w\s()+*/·×÷−=^{}\\$-]+")


@lru_cache(maxsize=1024)
def words_of(gold: str) -> tuple[str, ...]:
    r"""The words of an equation between them, longest first; none of any other gold.

    >>> words_of(r"\text{time} = \text{distance}/\text{speed}"), words_of(r"\text{area} = 5")
    (('distance', 'speed', 'time'), ())
    """
    left, equals, right = gold.partition("=")
    words = {word.lower() for word in _WORD.findall(gold)}
    if not equals or len(words) > MAX_WORDS or not (_WORD.search(left) and _WORD.search(right)):
        return ()
    return tuple(sorted(words, key=lambda word: (-len(word), word)))


def in_letters(text: str, words: tuple[str, ...]) -> str:
    r"""The text with a letter for each of the words, set apart or not.

    >>> in_letters(r"\text{speed} = distance / time", ("distance", "speed", "time"))
    ' Z  =  Q  /  W '
    """
    for word, letter in zip(words, _LETTERS[: len(words)], strict=True):
        text = re.sub(rf"\\text\w*\s*\{{\s*{word}\s*\}}|\b{word}\b", f" {letter} ", text, flags=re.IGNORECASE)
    return text


def equation_of(sentence: str, words: tuple[str, ...]) -> str | None:
    """The equation between these words that ends a sentence; None where it ends otherwise.

    >>> equation_of("So the time is this: time = distance / speed.", ("distance", "speed", "time"))
    'time = distance / speed'
    """
    bare = sentence.rstrip(" .*")
    starts = [match.start() for match in re.finditer(rf"\b(?:{'|'.join(words)})\s*=", bare, re.IGNORECASE)]
    return bare[starts[-1] :] if starts and _EQUATION.fullmatch(bare, starts[-1]) else None
