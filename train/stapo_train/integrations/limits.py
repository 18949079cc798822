"""What other trainers cannot compute: objectives that need more than a mini-batch under one policy."""

from stapo_bench.errors import UsageError
from stapo_train.objective import Objective


def check_supported(objective: Objective, trainer: str) -> None:
    """Refuse objectives that need what ``trainer`` (its name, for the message) does not give.

    Raises:
        UsageError: what is needed, and where the objective can be trained.
    """
    if objective.num_phases > 1:
        what, way_out = "several steps per mini-batch", ""
    elif objective.min_p is not None:
        what, way_out = "a proxy distribution", ""
    elif objective.needs_batch_entropy:
        what, way_out = "the mean entropy of all of an iteration's rollouts", ", or gate: mini-batch"
    else:
        return
    raise UsageError(
        f"{objective.label} needs {what}, which {trainer}'s trainer does not give; use stapo-train{way_out}"
    )
