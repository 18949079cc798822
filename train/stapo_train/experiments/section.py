"""A part of an experiment's page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stapo_bench.analysis import SeedComparison
from stapo_bench.presenting import change_interval, signed
from stapo_bench.statistics import Difference


@dataclass(frozen=True, kw_only=True)
class Section:
    """Markdown generated from findings; no number in it is written by hand."""

    answers: Sequence[str] = ()  # sentences for the top of the page
    text: str  # begins with its heading


def in_points(difference: Difference) -> str:
    """A difference with its 95 % interval; a dash where there is none.

    >>> in_points(Difference(value=0.02, standard_error=0.01, degrees=math.inf, num_problems=1))
    '+2.0 [0.0, +4.0]'
    """
    if math.isnan(difference.value):
        return "–"
    return f"{signed(difference.value)} {change_interval(difference.interval())}"


def in_numbers(difference: Difference) -> str:
    """A difference of numbers that are no points, with its 95 % interval; a dash for what is not known.

    >>> in_numbers(Difference(value=0.02, standard_error=0.01, degrees=math.inf, num_problems=1))
    '+0.020 [+0.000, +0.040]'
    """
    interval = difference.interval()
    if math.isnan(difference.value):
        return "–"
    ends = "–" if math.isnan(interval.low) else f"{interval.low:+.3f}, {interval.high:+.3f}"
    return f"{difference.value:+.3f} [{ends}]"


def in_cells(comparison: SeedComparison) -> str:
    """A comparison's two differences in points, each with its p, as cells of a table."""
    return " | ".join(f"{in_points(e.difference)} | {in_thousandths(e.p_adjusted)}" for e in comparison.effects)


def in_thousandths(value: float) -> str:
    """A number with three decimals; a dash for what is not known."""
    return "–" if math.isnan(value) else f"{value:.3f}"
