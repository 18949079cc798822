"""The parts of a gap: what each cause contributes, how sure that is, and their mean over tasks.

Parts sum to the gap.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from stapo_bench.statistics import UNKNOWN, Interval, Matrix, normal_quantile

Cause = Literal[
    "problems",
    "golds",
    "grader",
    "truncation",
    "prompt",
    "decoding",
    "prompt and decoding",
    "sampling noise",
    "unexplained",
]
CAUSES: tuple[Cause, ...] = get_args(Cause)

Knowledge = Literal["same", "measured", "bounded", "unknown"]
"""``same``: both sides agree, so it contributes nothing. ``measured``: from samples. ``bounded``: between two ends.
``unknown``: it may differ, and nothing here says by how much; its value is then 0 and its effect is in what is
unexplained."""

_Z = normal_quantile(0.95)
_ORDER: tuple[Knowledge, ...] = ("same", "measured", "bounded", "unknown")


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one cause contributes to B - A; fractions."""

    cause: Cause
    knowledge: Knowledge
    value: float = 0.0
    standard_error: float = 0.0  # over new samples of these problems
    below: float = 0.0  # how much lower it can be besides: what is bounded, not estimated
    above: float = 0.0
    note: str = ""  # what is known, in words

    @property
    def interval(self) -> Interval:
        """95 %, these problems; unknown where nothing bounds it."""
        if self.knowledge == "unknown":
            return UNKNOWN
        width = _Z * self.standard_error
        return Interval(low=self.value - self.below - width, high=self.value + self.above + width)

    @property
    def is_told(self) -> bool:
        """Told apart from 0: a cause that is found."""
        interval = self.interval
        return interval.low > 0.0 or interval.high < 0.0


@dataclass(frozen=True, kw_only=True)
class TaskGap:
    """One task, or the mean over tasks (``task`` is then "average")."""

    task: str
    title: str
    value_a: float
    value_b: float
    parts: tuple[Part, ...]  # one per cause, in the order of ``CAUSES``

    @property
    def gap(self) -> float:
        """B - A, which the parts sum to."""
        return self.value_b - self.value_a

    def part(self, cause: Cause) -> Part:
        """The part of this cause."""
        return next(part for part in self.parts if part.cause == cause)

    @property
    def main(self) -> Part:
        """The largest part that is told apart from 0; sampling noise where there is none."""
        told = [part for part in self.parts if part.is_told]
        return max(told, key=lambda part: abs(part.value)) if told else self.part("sampling noise")


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why B differs from A."""

    name_a: str
    name_b: str
    tasks: tuple[TaskGap, ...]
    average: TaskGap
    suspects: tuple[str, ...]  # what else differs, or is not stated, and may be behind what is unexplained
    notes: tuple[str, ...]


def rest_in_parts(rest: float, error: float, slack: tuple[float, float] = (0.0, 0.0)) -> tuple[Part, Part]:
    """What is left over as sampling noise where chance can make it (two-sided, 5 %), else as unexplained.

    Args:
        rest: the gap less all other parts.
        error: its standard error over new samples.
        slack: how much lower and higher the other parts could be.
    """
    below, above = slack
    if math.isnan(rest) or abs(rest) <= _Z * error:
        return (
            Part(cause="sampling noise", knowledge="measured", value=rest, standard_error=error),
            Part(cause="unexplained", knowledge="same"),
        )
    return (
        Part(cause="sampling noise", knowledge="measured", standard_error=error),
        Part(
            cause="unexplained",
            knowledge="bounded" if below or above else "measured",
            value=rest,
            standard_error=error,
            below=above,  # were the others higher, less would be left
            above=below,
        ),
    )


def in_order(parts: Sequence[Part]) -> tuple[Part, ...]:
    """One part per cause; those not given contribute nothing."""
    given = {part.cause: part for part in parts}
    return tuple(given.get(cause, Part(cause=cause, knowledge="same")) for cause in CAUSES)


def average_gap(tasks: Sequence[TaskGap]) -> TaskGap:
    """The mean over tasks, each of the same weight; the rest is tested anew as noise, which the mean has less of."""
    parts = []
    for cause in CAUSES:
        of_tasks = [task.part(cause) for task in tasks]
        parts.append(
            Part(
                cause=cause,
                knowledge=max((part.knowledge for part in of_tasks), key=_ORDER.index),
                value=float(np.mean([part.value for part in of_tasks])),
                standard_error=math.sqrt(sum(part.standard_error**2 for part in of_tasks)) / len(tasks),
                below=float(np.mean([part.below for part in of_tasks])),
                above=float(np.mean([part.above for part in of_tasks])),
                note=_notes(tasks, cause),
            )
        )
    *others, noise, unexplained = parts
    error = math.sqrt(sum(_rest_error(task) ** 2 for task in tasks)) / len(tasks)
    slack = sum(part.below for part in others), sum(part.above for part in others)
    rest = rest_in_parts(noise.value + unexplained.value, error, slack)
    return TaskGap(
        task="average",
        title=f"mean of {len(tasks)} tasks" if len(tasks) > 1 else tasks[0].title,
        value_a=float(np.mean([task.value_a for task in tasks])),
        value_b=float(np.mean([task.value_b for task in tasks])),
        parts=(*others, *rest),
    )


def _notes(tasks: Sequence[TaskGap], cause: Cause) -> str:
    """What is known of a cause: once if it is the same of all tasks, else task by task."""
    notes = {task.title: task.part(cause).note for task in tasks if task.part(cause).note}
    if len(set(notes.values())) == 1 and len(notes) == len(tasks):
        return next(iter(notes.values()))
    return "; ".join(f"{title}: {note}" for title, note in notes.items())


def _rest_error(task: TaskGap) -> float:
    return max(task.part("sampling noise").standard_error, task.part("unexplained").standard_error)


def mean_and_error(values: Matrix) -> tuple[float, float]:
    """The mean over problems of their samples' mean, and its standard error over new samples; NaN: no sample.

    Var = sum_i s_i^2 / k_i / n^2; a problem with one sample gets the mean variance of all samples about their mean.
    """
    decided = ~np.isnan(values)
    rows = decided.any(axis=1)
    counts = decided[rows].sum(axis=1).astype(np.float64)
    if not len(counts):
        return math.nan, math.nan
    found = np.where(decided, values, 0.0)[rows]
    means = found.sum(axis=1) / counts
    squares = (found**2).sum(axis=1) / counts - means**2
    pooled = max(0.0, float((found**2).sum() / counts.sum() - (found.sum() / counts.sum()) ** 2))
    variances = np.where(counts > 1, np.maximum(squares, 0.0) * counts / np.maximum(counts - 1.0, 1.0), pooled)
    return float(means.mean()), math.sqrt(float((variances / counts).sum())) / len(counts)
