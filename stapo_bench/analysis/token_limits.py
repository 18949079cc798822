"""What a token limit does to a score: bounds for the cut-off samples, and the score at every smaller limit.

    for task in truncation(load_run(Path("results/base-justrl"))): ...

A cut-off sample is graded as it stands, which may be right (the answer came before the cut) but is usually "no answer".
Whether it would have been right with more tokens is unknown: counting it wrong, leaving it out and counting it right
bound the score. At a smaller limit B the same samples would have been cut at B; those longer than B count as wrong,
which is a lower bound, too, as a stored text does not say where in it the answer was first given.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stapo_bench.runs import GradedSample, LoadedRun
from stapo_bench.statistics import Matrix, avg_at_k


@dataclass(frozen=True, kw_only=True)
class TaskTruncation:
    """Truncation of one task; scores are fractions, NaN where nothing is decided."""

    task: str
    title: str
    num_samples: int
    num_cut: int | None  # None: not known of imported samples; the scores that need it are NaN
    score: float  # as graded
    cut_wrong: float
    cut_excluded: float
    cut_right: float
    curve: tuple[tuple[int, float], ...]
    """(limit, score with the longer samples counted wrong), rising; empty where the numbers of tokens are not known."""


def truncation(run: LoadedRun) -> list[TaskTruncation]:
    """Every task of a run."""
    limit = run.manifest.identity.sampling.max_new_tokens
    if limit is None:  # an imported run: up to its longest sample
        limit = max((s.num_tokens or 0 for samples in run.samples.values() for s in samples), default=0)
    return [task_truncation(run, task, limit) for task in run.tasks]


def task_truncation(run: LoadedRun, task: str, limit: int) -> TaskTruncation:
    """One task, with the curve at powers of two up to the limit."""
    cut = sample_matrix(run, task, lambda sample: float(bool(sample.truncated)))
    knows_cut = all(sample.truncated is not None for sample in run.samples.get(task, []))
    correct = run.outcomes[task].scores
    tokens = sample_matrix(run, task, lambda sample: math.inf if sample.num_tokens is None else sample.num_tokens)

    def if_cut(value: float) -> float:
        """The score where every cut-off sample counts so; NaN where they are not known."""
        return avg_at_k(np.where(cut == 1.0, value, correct)) if knows_cut else math.nan

    return TaskTruncation(
        task=task,
        title=run.title(task),
        num_samples=int((~np.isnan(cut)).sum()),
        num_cut=int(np.nansum(cut)) if knows_cut else None,
        score=avg_at_k(correct),
        cut_wrong=if_cut(0.0),
        cut_excluded=if_cut(np.nan),
        cut_right=if_cut(1.0),
        curve=tuple(
            (budget, avg_at_k(np.where(tokens > budget, 0.0, correct)))
            for budget in ([] if np.isinf(tokens).any() else budgets(limit))
        ),
    )


def sample_matrix(
    run: LoadedRun,
    task: str,
    value: Callable[[GradedSample], float],
    problem_ids: Sequence[str] | None = None,
) -> Matrix:
    """[num_problems, num_samples] of a value of each sample; NaN where there is none.

    ``problem_ids``: the rows; None: all problems that the run was asked.
    """
    asked = run.tasks[task]
    ids = asked.problem_ids if problem_ids is None else problem_ids
    row_of = {problem_id: row for row, problem_id in enumerate(ids)}
    found = np.full((len(ids), asked.num_samples), np.nan)
    for sample in run.samples.get(task, []):
        if sample.problem_id in row_of and sample.sample_index < asked.num_samples:
            found[row_of[sample.problem_id], sample.sample_index] = value(sample)
    return found


def budgets(limit: int) -> list[int]:
    """Powers of two from 64 (or the limit) up to the limit, which is the last.

    >>> budgets(300)
    [64, 128, 256, 300]
    """
    smaller = [2**power for power in range(6, limit.bit_length()) if 2**power < limit]
    return [*smaller, limit]
