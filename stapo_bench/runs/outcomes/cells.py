"""One outcome as a file or an object gives it, and its score."""

import re
from typing import Any, NamedTuple

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs.outcomes.values import ScoreRange, score_of, shown

_COMMA = re.compile(r"[+-]?\d+,\d+")
_NUMBER = re.compile(r"[+-]?\d*[.,]?\d+(e[+-]?\d+)?%?", re.IGNORECASE)


class NotOutcomesError(StapoError):
    """A file that holds no outcomes, or none by the metric or column that is asked for."""


class NoColumnError(NotOutcomesError, UsageError):
    """A table without a column that outcomes need, or that was named."""


class Cell(NamedTuple):
    """One outcome with what a file says of it."""

    model: str | None
    task: str | None
    item: str
    label: str | int | None
    score: float
    row: int
    seed: int | None
    cluster: str | None = None


def checked(origin: str, where: str, value: Any, declared: ScoreRange | None = None) -> float:
    """A score, NaN where there is none.

    Raises:
        StapoError: another value, which it names.
    """
    score = score_of(value, declared)
    if score is None:
        is_number = isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value.strip()))
        why = "; scores of another range are declared: --range LO:HI" if is_number and declared is None else ""
        if isinstance(value, str) and _COMMA.fullmatch(value.strip()):
            why = f"; numbers have a point, not a comma: {value.strip().replace(',', '.')}"
        if isinstance(value, str) and value.strip().endswith("%"):
            why = "; numbers stand without a percent sign, and with --range 0:100"
        expected = "a score from 0 to 1" if declared is None else f"a score from {declared}, the declared range,"
        raise StapoError(f"{origin}: {where}: expected {expected} (or nothing), got {shown(value)}{why}")
    return score
