"""A cell of a table of outcomes as a score or a name."""

import math
import re
from decimal import Decimal
from typing import Any, NamedTuple

from stapo_bench.errors import UsageError

_UNKNOWN = frozenset(("", "nan", "null", "none", "na", "n/a", "<na>", "grader_error"))
_WORDS: dict[str, float] = {
    **dict.fromkeys(("1", "1.0", "true", "correct", "c", "pass", "passed", "yes"), 1.0),
    **dict.fromkeys(("0", "0.0", "false", "incorrect", "i", "fail", "failed", "no", "no_answer"), 0.0),
    **dict.fromkeys(_UNKNOWN, math.nan),
}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


class ScoreRange(NamedTuple):
    """The lowest and the highest score that can be given; all are mapped to [0, 1]."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


def parse_range(text: str) -> ScoreRange | None:
    """``LO:HI`` as a range, nothing as none.

    >>> parse_range("1:5")
    ScoreRange(low=1.0, high=5.0)
    """
    if not text:
        return None
    try:
        low, high = (float(end) for end in text.split(":"))
    except ValueError:
        raise UsageError(f"--range: expected LO:HI, as in 1:5, got {text!r}") from None
    return checked_range(low, high)


def checked_range(low: float, high: float) -> ScoreRange:
    """The range, or a UsageError where its ends are no numbers in their order, or too far apart for one."""
    if not (low < high and math.isfinite(high - low)):
        raise UsageError(f"--range: expected a lower and a higher number, got {low:g} and {high:g}")
    return ScoreRange(low, high)


_NOTHING = frozenset(("NAType", "NaTType"))  # pandas.api.typing's, which equal not even themselves


def plain(value: Any) -> Any:
    """What numpy, pandas and polars hand out for a number, a list or nothing, as Python's own.

    >>> from numpy import array, float32
    >>> plain(float32(0.5)), plain(array([1, 0])), plain((1, 0)), plain(Decimal("0.5")), plain(Decimal("7.0"))
    (0.5, [1, 0], [1, 0], 0.5, 7)
    """
    if value is None or isinstance(value, str | int | float | list):
        return value
    if type(value).__name__ in _NOTHING:
        return None
    if isinstance(value, Decimal):  # whole ones name items, and may be larger than a float tells apart
        return int(value) if value.is_finite() and value == int(value) else float(value)
    for method in ("tolist", "to_list"):  # numpy and pandas, polars
        if hasattr(value, method):
            return getattr(value, method)()
    return list(value) if isinstance(value, tuple) else value


def score_of(value: Any, declared: ScoreRange | None = None) -> float | None:
    """A score from 0 to 1, NaN where nothing is known, None for what is no score.

    Args:
        value: a number, a word for right or wrong, or a text that holds one of both.
        declared: the range of the numbers, if it is another; words for right and wrong are none of it.

    >>> [score_of(value) for value in (True, "1.0", 0, "Incorrect", None, "", "0.5", 0.5, "1,0", 3, [1])]
    [1.0, 1.0, 0.0, 0.0, nan, nan, 0.5, 0.5, None, None, None]
    >>> [score_of(value, ScoreRange(1.0, 5.0)) for value in (3, "5", 0, "correct", "")]
    [0.5, 1.0, None, None, nan]
    """
    value = plain(value)
    if value is None:
        return math.nan
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _UNKNOWN or (declared is None and word in _WORDS):
            return _WORDS[word]
        if not _NUMBER.fullmatch(word):
            return None
        value = float(word)
    if not isinstance(value, int | float) or (declared is not None and isinstance(value, bool)):
        return None
    low, high = declared or (0, 1)
    if math.isnan(value):
        return math.nan
    return (value - low) / (high - low) if low <= value <= high else None


def is_outcome(value: Any, declared: ScoreRange | None = None) -> bool:
    """Whether it can only be an outcome: right, wrong, nothing, or within a range that was declared.

    >>> is_outcome(1), is_outcome(0.5), is_outcome(0.5, ScoreRange(0.0, 1.0))
    (True, False, True)
    """
    score = score_of(value, declared)
    return score is not None and (declared is not None or score in (0.0, 1.0) or math.isnan(score))


def name_of(value: Any) -> str | None:
    """A name as text, whichever type a file gives it; None where there is none.

    >>> name_of(7), name_of(7.0), name_of("7"), name_of(" 7"), name_of(""), name_of(float("nan")), name_of([7])
    ('7', '7', '7', ' 7', None, None, '[7]')
    """
    value = plain(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    return text if text.strip() else None


def shown(value: Any) -> str:
    """A value for an error: short, on one line."""
    text = " ".join(repr(value).split("\n"))
    return text if len(text) <= 60 else text[:59] + "…"
