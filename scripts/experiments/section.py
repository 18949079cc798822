"""A part of an experiment's page."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Section:
    """Markdown from results: every number in it is read, none is typed."""

    answers: Sequence[str] = ()  # sentences for the top of the page
    text: str  # begins with its heading
