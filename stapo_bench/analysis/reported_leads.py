"""Which leads of a printed table exceed the error that its protocol leaves open; no sample is needed.

    leads = table_leads(load_published("stapo_v1"), "STAPO")

Every lead is held against two errors (``statistics.reported``), and each of these against the worst case that mean and
protocol allow and against a likely range, ``LIKELY``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from stapo_bench.analysis.published import PublishedRow, PublishedTable
from stapo_bench.statistics import (
    ERROR_NAMES,
    LEVEL,
    Difference,
    ErrorName,
    Reported,
    Shares,
    holm,
    mean_difference,
    reported_difference,
)

LeadVerdict = Literal["shown", "likely", "open", "not told"]
VERDICTS: tuple[LeadVerdict, ...] = ("shown", "likely", "open", "not told")

LIKELY: Mapping[ErrorName, tuple[Shares, Shares]] = {
    "these problems": (Shares(between=0.8, correlation=0.9), Shares(between=0.3, correlation=0.9)),
    "problems like these": (Shares(between=0.3, correlation=0.95), Shares(between=0.8, correlation=0.7)),
}
"""By error, what makes it small and what makes it large among the evaluations whose samples are published: three to
eight tenths of the variance lie between problems, whose rates correlate at 0.7 to 0.95 between two models of one
origin. ``bench.reanalysis`` measures both."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A difference of printed means under one named error. The p-values belong to the three differences."""

    smallest: Difference  # at the small end of the likely range
    largest: Difference  # at its large end
    worst: Difference
    p_values: tuple[float, float, float]
    p_adjusted: tuple[float, float, float]  # Holm over all that is claimed together

    @property
    def verdict(self) -> LeadVerdict:
        """Taken alone: shown whatever the problems' rates, likely, open, or not told from 0."""
        return _verdict(self.p_values)

    @property
    def verdict_of_all(self) -> LeadVerdict:
        """With all that is claimed beside it."""
        return _verdict(self.p_adjusted)


@dataclass(frozen=True, kw_only=True)
class Lead:
    """What a method is ahead of another on one task, or on the mean over tasks ("average")."""

    model: str
    regime: str | None
    task: str
    method: str
    other: str
    value: float  # a fraction; below 0: behind
    claims: Mapping[ErrorName, Claim]


def table_leads(table: PublishedTable, method: str, over: str | None = None) -> list[Lead]:
    """The leads of a method in every group of rows of one model and regime, task by task, the average last.

    Args:
        table: with the numbers of problems and samples of its tasks; a task without is left out.
        method: whose leads.
        over: a method; None: in each column the best of all others, as papers print it.

    Average: the mean over the tasks as printed cell by cell, not the printed average. P-values are adjusted over the
    cells of the table, and over its averages.
    """
    found: list[tuple[Lead, bool]] = []
    for row in table.rows:
        if row.method != method:
            continue
        others = [
            other
            for other in table.rows
            if (other.model, other.regime) == (row.model, row.regime) and other.method in (over or other.method, method)
        ]
        found += _leads_of(table, row, [other for other in others if other.method != method])
    cells = _adjusted([lead for lead, is_average in found if not is_average])
    averages = _adjusted([lead for lead, is_average in found if is_average])
    order = iter(cells), iter(averages)
    return [next(order[is_average]) for _, is_average in found]


def claim(parts: Sequence[tuple[Reported, Reported]], error: ErrorName) -> Claim:
    """B - A as printed; of several tasks the mean.

    >>> before, after = (Reported(value=value, num_problems=30, num_samples=32) for value in (0.3, 0.4))
    >>> claim([(before, after)], "these problems").verdict, claim([(before, after)], "problems like these").verdict
    ('shown', 'open')
    """
    small, large = LIKELY[error]
    smallest, largest, worst = (
        mean_difference([reported_difference(a, b, error, shares) for a, b in parts]) for shares in (small, large, None)
    )
    p_values = smallest.p_value, largest.p_value, worst.p_value
    return Claim(smallest=smallest, largest=largest, worst=worst, p_values=p_values, p_adjusted=p_values)


def adjusted(claims: Sequence[Claim]) -> list[Claim]:
    """The claims with Holm's p-values over all of them: what is claimed together."""
    columns = [holm([found.p_values[size] for found in claims]) for size in range(3)]
    return [
        replace(found, p_adjusted=(smallest, largest, worst))
        for found, smallest, largest, worst in zip(claims, *columns, strict=True)
    ]


def _leads_of(table: PublishedTable, row: PublishedRow, others: Sequence[PublishedRow]) -> list[tuple[Lead, bool]]:
    tasks = [task for task in row.scores if task in table.samples and task in table.num_problems]
    found = []
    for task in tasks:
        best = max(others, key=lambda other: other.scores.get(task, -math.inf), default=None)
        if best is not None and task in best.scores:
            found.append((_lead(table, row, best, [task], task), False))
    whole = [other for other in others if all(task in other.scores for task in tasks)]
    if whole and len(tasks) > 1:
        best = max(whole, key=lambda other: sum(other.scores[task] for task in tasks))
        found.append((_lead(table, row, best, tasks, "average"), True))
    return found


def _lead(table: PublishedTable, row: PublishedRow, other: PublishedRow, tasks: Sequence[str], name: str) -> Lead:
    def reported(of: PublishedRow, task: str) -> Reported:
        return Reported(value=of.scores[task], num_problems=table.num_problems[task], num_samples=table.samples[task])

    parts = [(reported(other, task), reported(row, task)) for task in tasks]
    claims = {error: claim(parts, error) for error in ERROR_NAMES}
    return Lead(
        model=row.model,
        regime=row.regime,
        task=name,
        method=row.method,
        other=other.method,
        value=claims["these problems"].worst.value,
        claims=claims,
    )


def _adjusted(leads: Sequence[Lead]) -> list[Lead]:
    """With Holm's p-values over all of them, under each error."""
    claims = {error: adjusted([lead.claims[error] for lead in leads]) for error in ERROR_NAMES}
    return [
        replace(lead, claims={error: of_error[i] for error, of_error in claims.items()}) for i, lead in enumerate(leads)
    ]


def _verdict(p_values: tuple[float, float, float]) -> LeadVerdict:
    smallest, largest, worst = (p < LEVEL for p in p_values)
    return "shown" if worst else "likely" if largest else "open" if smallest else "not told"
