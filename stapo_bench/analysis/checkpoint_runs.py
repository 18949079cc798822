"""A checkpoint's run beside that of its training's base, as ``statistics.checkpoint_looks`` looks at it."""

from stapo_bench.analysis.parity_gate import parity
from stapo_bench.errors import StapoError
from stapo_bench.runs import LoadedRun
from stapo_bench.statistics import CheckpointLook, look_at


def look_at_checkpoint(run: LoadedRun, base: LoadedRun, number: int) -> CheckpointLook:
    """Is the run, of the ``number``-th checkpoint, better than the base? It may have as many samples as the base has.

    Raises:
        StapoError: they differ besides the weights, or the base lacks a task.
    """
    confounders = [str(item) for item in parity(base, run) if item.weight == "confounds"]
    confounders += [f"no {task} in the base" for task in run.tasks if task not in base.tasks]
    if confounders:
        raise StapoError(f"{run.name} and {base.name} differ besides the weights: {'; '.join(confounders)}")
    return look_at(
        [outcomes.scores for outcomes in run.outcomes.values()],
        [base.outcomes[task].of(outcomes.problem_ids).scores for task, outcomes in run.outcomes.items()],
        [base.tasks[task].num_samples for task in run.tasks],
        number,
    )
