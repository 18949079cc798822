"""How numbers become words: the one place where an interval, a p-value or a change in points is formatted.

Scores are fractions and are shown in percent; NaN means "not measured" and is shown as a dash.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stapo_bench.analysis import Metric, as_json
from stapo_bench.errors import UsageError, safe_text
from stapo_bench.statistics import Interval

METRIC_MEANINGS: Mapping[str, str] = {
    "pass@": "*pass@k*: at least one of k samples is right, unbiased (Chen et al. 2021, arXiv:2107.03374).",
    "pass^": "*pass^k*: all of k samples are right, unbiased (Yao et al. 2024, arXiv:2406.12045).",
    "G-Pass@": "*G-Pass@k* at τ: at least τk of k samples are right; *mG-Pass@k*: its mean over τ above a half "
    "(Liu et al. 2024, arXiv:2412.13147).",
    "maj@": "*maj@k*: the most frequent of k answers is right (Wang et al. 2022, arXiv:2203.11171). Answers that the "
    "grader holds equal vote together, no answer is no vote, and a tie is broken evenly at random: a right answer that "
    "shares the lead with t others scores 1 / (1 + t).",
}
"""By the start of a metric's name, what it means and where it was proposed; Markdown."""


def signed(fraction: float, digits: int = 1) -> str:
    """A difference in percentage points with its sign; one that rounds to zero has none.

    >>> signed(0.0123), signed(-0.0123), signed(-0.0001)
    ('+1.2', '-1.2', '0.0')
    """
    number = round(100 * fraction, digits)
    return f"{number:+.{digits}f}" if number else f"{0.0:.{digits}f}"


def points(fraction: float) -> str:
    """A difference of scores in percentage points, with its sign.

    >>> points(0.0123), points(-0.0001), points(math.nan)
    ('+1.2', '0.0', '–')
    """
    return "–" if math.isnan(fraction) else signed(fraction)


def percent(fraction: float, digits: int = 2) -> str:
    """A score or a share in percent, without the sign for it.

    >>> percent(0.5125), percent(0.5125, 0), percent(math.nan)
    ('51.25', '51', '–')
    """
    return "–" if math.isnan(fraction) else f"{100 * fraction:.{digits}f}"


def score_interval(interval: Interval) -> str:
    """The interval of a score, in percent.

    >>> score_interval(Interval(low=0.25, high=0.75)), score_interval(Interval(low=math.nan, high=math.nan))
    ('[25.0, 75.0]', '–')
    """
    return "–" if math.isnan(interval.low) else f"[{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def change_interval(interval: Interval) -> str:
    """The interval of a difference of scores, in percentage points with signs.

    >>> change_interval(Interval(low=-0.01, high=0.02)), change_interval(Interval(low=math.nan, high=math.nan))
    ('[-1.0, +2.0]', '[–]')
    """
    return "[–]" if math.isnan(interval.low) else f"[{signed(interval.low)}, {signed(interval.high)}]"


def ends(interval: Interval) -> list[Any]:
    """An interval's two ends as JSON has them: fractions with all digits; null where they are not known.

    >>> ends(Interval(low=0.25, high=math.nan))
    [0.25, None]
    """
    return [as_json(interval.low), as_json(interval.high)]


def tie_meaning(margin: float) -> str:
    """What "tied ±x" says beside a 95 % interval that may be wider than it.

    >>> tie_meaning(0.02)[:36]
    'tied: shown to lie within ±2 points '
    """
    return (
        f"tied: shown to lie within ±{100 * margin:g} points (two one-sided tests at 5 %); ±x: the least margin that "
        "they show, which may lie inside the 95 % interval"
    )


def counted(number: float, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "task"), counted(0, "task"), counted(0.5, "point")
    ('1 task', '0 tasks', '0.5 points')
    """
    return f"{number:g} {noun}" + ("" if number == 1 else "s")


def from_to(values: Iterable[float], digits: int) -> str:
    """The lowest and the highest of several numbers, one where both read alike.

    >>> from_to([1.2, -0.1, 1.4], 1), from_to([1.21, 1.19, float("nan")], 1), from_to([float("nan")], 1)
    ('-0.1 to 1.4', '1.2', '–')
    """
    known = [value for value in values if not math.isnan(value)]
    return " to ".join(dict.fromkeys(f"{end:.{digits}f}" for end in (min(known), max(known)))) if known else "–"


def verdict_cell(verdict: str, tied_within: float) -> str:
    """A verdict in a table; a tie with its margin.

    >>> verdict_cell("tied", 0.012), verdict_cell("better", 0.1)
    ('tied ±1.2', 'better')
    """
    return f"tied ±{percent(tied_within, 1)}" if verdict == "tied" else verdict


def place_cell(best: int, worst: int) -> str:
    """The places that no shown difference rules out.

    >>> place_cell(1, 1), place_cell(1, 3)
    ('1', '1–3')
    """
    return str(best) if best == worst else f"{best}–{worst}"


def p_value(p: float) -> str:
    """Four decimals, or that it is below them.

    >>> p_value(0.03), p_value(0.00001), p_value(math.nan)
    ('0.0300', '<0.0001', '–')
    """
    return "–" if math.isnan(p) else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def metric_meaning(metric: Metric) -> str:
    """What a metric means, with its source; Markdown."""
    return METRIC_MEANINGS[metric.name if metric.name.startswith("pass") else f"{metric.name}@"]


def markdown_row(cells: Sequence[str]) -> str:
    r"""A row of a Markdown table, whatever its cells hold.

    >>> markdown_row(["a", "b|c"])
    '| a | b\\|c |'
    """
    return "| " + " | ".join(markdown_line(cell) for cell in cells) + " |"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a Markdown table.

    >>> list(markdown_table(["Task", "avg@k"], [["AIME24", "50.00"]]))
    ['| Task | avg@k |', '|---|---|', '| AIME24 | 50.00 |']
    """
    yield markdown_row(columns)
    yield "|" + "---|" * len(columns)
    yield from map(markdown_row, rows)


def markdown_line(text: str) -> str:
    r"""A sentence or a note with names of strangers in it, as a line of Markdown; our own emphasis stays.

    >>> markdown_line("**a\nb** is better")
    '**a\\nb** is better'
    """
    return safe_text(text, "markdown")


def require_md_or_json(format_: str) -> None:
    """Refuse any other output format."""
    if format_ not in ("md", "json"):
        raise UsageError(f"unknown format '{format_}': expected md or json")
