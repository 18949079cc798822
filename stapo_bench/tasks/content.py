"""The digest of a benchmark's content: equal for all copies of a data set, whatever the order of their rows."""

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass


def normalise(text: str) -> str:
    """Unicode NFC, runs of white space to one blank, ends stripped: harmless differences between copies of a set."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _short_digest(text: str) -> str:
    """The first 16 hexadecimal digits of the sha256 of the normalised text."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ContentDigest:
    """Digests of one problem's normalised text and answer, 16 hexadecimal digits each."""

    question: str
    answer: str

    @classmethod
    def of(cls, question: str, answer: str) -> "ContentDigest":
        """The digests of a problem's text and answer as they stand in the data."""
        return cls(_short_digest(question), _short_digest(answer))


def content_digest(problems: Iterable[ContentDigest]) -> str:
    """sha256 over the sorted (question, answer) digests: the same for every order of the rows.

    >>> a, b = ContentDigest.of("1+1", "2"), ContentDigest.of("1+2", "3")
    >>> content_digest([a, b]) == content_digest([b, a])
    True
    """
    lines = sorted(f"{p.question} {p.answer}\n" for p in problems)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
