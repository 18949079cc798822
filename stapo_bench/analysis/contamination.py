"""Scores with and without the problems that stand in a training set.

scores_without(Path("results/stapo-justrl"), Path("dapo_math_17k.jsonl"))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stapo_bench.analysis.scores import TaskScore, score_task
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import load_run, read_problems
from stapo_bench.tasks import Overlap, find_overlaps, load_problems, load_task, read_training_texts


@dataclass(frozen=True, kw_only=True)
class WithAndWithout:
    """A task's score over all its problems, and over those that the training set does not hold."""

    all: TaskScore
    clean: TaskScore
    num_excluded: int


def overlaps_of_tasks(tasks: Sequence[str], train: Path, data_dir: Path | None) -> dict[str, list[Overlap]]:
    """The contained problems of each task; the training set is read once."""
    problems = [problem for name in tasks for problem in load_problems(load_task(name), data_dir)]
    found: dict[str, list[Overlap]] = {load_task(name).name: [] for name in tasks}
    for overlap in find_overlaps(problems, read_training_texts(train)):
        found[overlap.task].append(overlap)
    return found


def scores_without(
    run_dir: Path, train: Path, *, grader: str = DEFAULT_GRADER, data_dir: Path | None = None
) -> list[WithAndWithout]:
    """Every task of a run; both scores come from the same samples."""
    run = load_run(run_dir, grader)
    if run.manifest.imported is None:
        problems = [p for file in run.manifest.task_files.values() for p in load_problems(load_task(file), data_dir)]
    else:  # their problems came along
        problems = list(read_problems(run.manifest, data_dir))
    overlaps = find_overlaps(problems, read_training_texts(train))
    scores = []
    for task, asked in run.tasks.items():
        tainted = {overlap.problem_id for overlap in overlaps if overlap.task == task}
        clean = [problem_id for problem_id in asked.problem_ids if problem_id not in tainted]
        with_all, without = (
            score_task(task, run.title(task), run.samples.get(task, []), ids, asked.num_samples)
            for ids in (asked.problem_ids, clean)
        )
        scores.append(WithAndWithout(all=with_all, clean=without, num_excluded=asked.num_problems - len(clean)))
    return scores
