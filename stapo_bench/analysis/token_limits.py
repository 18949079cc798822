"""What a token limit does to a score: bounds for the cut-off samples, and the score at every smaller limit.

    for task in truncation(load_run(Path("results/base-justrl"))): ...

A cut-off sample is graded as it stands, which may be right (the answer came before the cut) but is usually "no answer".
Whether it would have been right with more tokens is unknown: counting it wrong, leaving it out and counting it right
bound the score. At a smaller limit B the same samples would have been cut at B; those longer than B count as wrong,
which is a lower bound, too, as a stored text does not say where in it the answer was first given.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stapo_bench.runs import LoadedRun, outcomes_of
from stapo_bench.statistics import avg_at_k


@dataclass(frozen=True, kw_only=True)
class TaskTruncation:
    """Truncation of one task; scores are fractions, NaN where nothing is decided."""

    task: str
    title: str
    num_samples: int
    num_cut: int
    score: float  # as graded
    cut_wrong: float
    cut_excluded: float
    cut_right: float
    curve: tuple[tuple[int, float], ...]  # (limit, score with the longer samples counted wrong), rising


def truncation(run: LoadedRun) -> list[TaskTruncation]:
    """Every task of a run."""
    limit = run.manifest.identity.sampling.max_new_tokens
    return [task_truncation(run, task, limit) for task in run.tasks]


def task_truncation(run: LoadedRun, task: str, limit: int) -> TaskTruncation:
    """One task, with the curve at powers of two up to the limit."""
    asked = run.tasks[task]
    ids, num_samples = asked.problem_ids, asked.num_samples
    samples = [d for d in run.samples.get(task, []) if d.sample_index < num_samples and d.problem_id in set(ids)]

    def cells(values: Sequence[float]) -> np.ndarray:
        row_of = {problem_id: row for row, problem_id in enumerate(ids)}
        found = np.full((len(ids), num_samples), np.nan)
        for sample, value in zip(samples, values, strict=True):
            found[row_of[sample.problem_id], sample.sample_index] = value
        return found

    cut = cells([sample.truncated for sample in samples]) == 1
    correct = outcomes_of(samples, ids, num_samples).scores
    tokens = cells([sample.num_tokens for sample in samples])
    return TaskTruncation(
        task=task,
        title=run.title(task),
        num_samples=len(samples),
        num_cut=int(cut.sum()),
        score=avg_at_k(correct),
        cut_wrong=avg_at_k(np.where(cut, 0.0, correct)),
        cut_excluded=avg_at_k(np.where(cut, np.nan, correct)),
        cut_right=avg_at_k(np.where(cut, 1.0, correct)),
        curve=tuple((budget, avg_at_k(np.where(tokens > budget, 0.0, correct))) for budget in budgets(limit)),
    )


def budgets(limit: int) -> list[int]:
    """Powers of two from 64 (or the limit) up to the limit, which is the last.

    >>> budgets(300)
    [64, 128, 256, 300]
    """
    smaller = [2**power for power in range(6, limit.bit_length()) if 2**power < limit]
    return [*smaller, limit]
