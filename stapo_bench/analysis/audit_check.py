"""What a check of an audit found, and the order in which checks look at samples."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stapo_bench.runs import GradedSample

Result = Literal["ok", "finding", "not testable"]


@dataclass(frozen=True, kw_only=True)
class AuditCheck:
    """What one check found."""

    name: str
    result: Result
    message: str


def checked(name: str, fine: bool, message: str) -> AuditCheck:
    """A check that could look, and whether it found nothing."""
    return AuditCheck(name=name, result="ok" if fine else "finding", message=message)


def not_testable(name: str, message: str) -> AuditCheck:
    """A check that could not look."""
    return AuditCheck(name=name, result="not testable", message=message)


def by_problem(samples: Iterable[GradedSample]) -> dict[str, list[GradedSample]]:
    """Samples of one task by their problem."""
    groups: defaultdict[str, list[GradedSample]] = defaultdict(list)
    for sample in samples:
        groups[sample.problem_id].append(sample)
    return groups
