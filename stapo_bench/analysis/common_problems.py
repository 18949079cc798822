"""The problems that all compared runs were asked, and the samples of them that are missing or none."""

from collections.abc import Iterable, Sequence

from stapo_bench.runs import LoadedRun


def shared_problems(runs: Sequence[LoadedRun], task: str) -> list[str]:
    """The problems that all runs were asked, in the order of the first."""
    others = [set(run.tasks[task].problem_ids) for run in runs[1:]]
    return [i for i in runs[0].tasks[task].problem_ids if all(i in other for other in others)]


def not_drawn(runs: Iterable[LoadedRun], task: str, problem_ids: Sequence[str]) -> list[str]:
    """A line for each run that lacks samples of these problems, or has copies in their place."""
    wanted, notes = set(problem_ids), []
    for run in runs:
        num_samples = run.tasks[task].num_samples
        drawn = copies = 0
        for sample in run.samples.get(task, []):
            if sample.problem_id in wanted and sample.sample_index < num_samples:
                drawn += 1
                copies += sample.is_copy
        if drawn < (asked := len(problem_ids) * num_samples):
            rest = "not in the imported files" if run.manifest.imported else "not drawn"
            notes.append(f"{run.title(task)}: {run.name} has {drawn} of {asked} samples; the rest is {rest}")
        if copies:
            notes.append(
                f"{run.title(task)}: {copies} of {run.name}'s {drawn} samples are copies of others and count as none; "
                "see stapo-bench audit"
            )
    return notes
