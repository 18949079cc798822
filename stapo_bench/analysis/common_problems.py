"""The tasks and problems that all compared runs have, and the samples of them that are missing or none."""

from collections.abc import Iterable, Sequence

import numpy as np

from stapo_bench.records import Outcomes
from stapo_bench.runs import LoadedRun
from stapo_bench.runs.outcomes import OutcomeTable
from stapo_bench.statistics import Matrix, problem_means


def shared_tasks(runs: Sequence[LoadedRun | OutcomeTable]) -> list[str]:
    """The tasks that all have, in the order of the first."""
    return [task for task in runs[0].tasks if all(task in run.tasks for run in runs)]


def decided_by_all(outcomes: Sequence[Outcomes]) -> list[Matrix]:
    """The scores of each, [num_problems, num_samples], over the problems that all have decided."""
    others = [set(each.problem_ids) for each in outcomes[1:]]
    ids = [i for i in outcomes[0].problem_ids if all(i in other for other in others)]
    found = [each.of(ids).scores for each in outcomes]
    decided = ~np.isnan(np.stack([problem_means(scores) for scores in found])).any(axis=0)
    return [scores[decided] for scores in found]


def shared_problems(runs: Sequence[LoadedRun], task: str) -> list[str]:
    """The problems that all runs were asked, in the order of the first."""
    others = [set(run.tasks[task].problem_ids) for run in runs[1:]]
    return [i for i in runs[0].tasks[task].problem_ids if all(i in other for other in others)]


def missing_samples(runs: Sequence[LoadedRun], tasks: Iterable[str]) -> list[str]:
    """``not_drawn`` of these tasks' problems that all runs were asked."""
    return [note for task in tasks for note in not_drawn(runs, task, shared_problems(runs, task))]


def not_drawn(runs: Iterable[LoadedRun], task: str, problem_ids: Sequence[str]) -> list[str]:
    """A line for each run that lacks samples of these problems, or has copies in their place."""
    notes = []
    for run in runs:
        num_samples = run.tasks[task].num_samples
        rows = run.drawn.of([(task, problem_id) for problem_id in problem_ids])
        rows = rows[rows["index"] < num_samples]
        drawn, copies = len(rows), int(rows["is_copy"].sum())
        if drawn < (asked := len(problem_ids) * num_samples):
            rest = "not in the imported files" if run.manifest.imported else "not drawn"
            notes.append(f"{run.title(task)}: {run.name} has {drawn} of {asked} samples; the rest is {rest}")
        if copies:
            notes.append(
                f"{run.title(task)}: {copies} of {run.name}'s {drawn} samples are copies of others and count as none; "
                "see stapo-bench audit"
            )
    return notes
