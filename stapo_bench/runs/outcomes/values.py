"""A cell of a table of outcomes as a score or a name."""

import math
from typing import Any

import numpy as np

_WORDS: dict[str, float] = {
    **dict.fromkeys(("1", "1.0", "true", "correct", "c", "pass", "passed", "yes"), 1.0),
    **dict.fromkeys(("0", "0.0", "false", "incorrect", "i", "fail", "failed", "no", "no_answer"), 0.0),
    **dict.fromkeys(("", "nan", "null", "none", "na", "n/a", "<na>", "grader_error"), math.nan),
}


def score_of(value: Any) -> float | None:
    """1 or 0 for right or wrong, NaN where nothing is known, None for what is no outcome.

    >>> [score_of(value) for value in (True, "1.0", 0, "Incorrect", None, "", 0.5, "1,0", [1])]
    [1.0, 1.0, 0.0, 0.0, nan, nan, None, None, None]
    """
    if value is None:
        return math.nan
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower())
    if isinstance(value, int | float):
        return float(value) if value in (0, 1) or math.isnan(value) else None
    return None


def name_of(value: Any) -> str | None:
    """A name as text, whichever type a file gives it; None where there is none.

    >>> name_of(7), name_of(7.0), name_of("7"), name_of(" 7"), name_of(""), name_of(float("nan")), name_of([7])
    ('7', '7', '7', ' 7', None, None, '[7]')
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    return text if text.strip() else None


def shown(value: Any) -> str:
    """A value for an error: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
