"""The records of the rules: the question that each one gets, and the verdict that it may give."""

from dataclasses import dataclass
from typing import NamedTuple

from stapo_bench.records import Gold


class Question(NamedTuple):
    """Whether a response's answer is the gold's answer."""

    response: str  # both cleaned
    target: str
    gold: Gold  # as published, with what the task says of it


@dataclass(frozen=True)
class Verdict:
    """Whether the response's answer is the gold's, and the name of the rule that says so."""

    correct: bool
    rule: str
