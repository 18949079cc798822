"""What a reader must know about a number of a table, beside what the number says."""

from stapo_bench.analysis import TaskScore

_FEW_OUTCOMES = (
    "at most one sample differs from the others of its problem: too few distinct outcomes for 95 %, the interval for "
    "these problems may hold in fewer"
)


_MOSTLY_CUT = (
    "half of the completions or more are cut off, so that the score says as much of the token limit as of the model "
    "(see stapo-bench truncation)"
)
_PART = "not all of the task's problems (how many stands with the run)"


def is_part(task: TaskScore, whole: int | None) -> bool:
    """Whether a run was asked, or holds, fewer problems than its task has; ``whole``: its number, None: not known."""
    return whole is not None and task.num_problems_expected < whole


def note_on(task: TaskScore, whole: int | None) -> str:
    """What a reader must know about a task's number, after its title; "" where there is nothing.

    ``whole``: how many problems the task has; None: not known.
    """
    missing = [] if task.complete else _what_is_missing(task)
    parts = [", ".join([*missing, *([_copies(task)] if task.num_copies else [])])]
    parts += [_unread(task)] * (task.num_unread > 0)
    parts += [_PART] * is_part(task, whole)
    parts += [_MOSTLY_CUT] * (task.num_samples > 0 and 2 * (task.num_truncated or 0) >= task.num_samples)
    parts += [_FEW_OUTCOMES] * task.few_outcomes
    return f"{task.title}: {said}" if (said := "; ".join(filter(None, parts))) else ""


def _unread(task: TaskScore) -> str:
    return (
        f"{task.num_unread} of {task.num_samples} completions count as wrong because their answer could not be read or "
        "compared"
    )


def _copies(task: TaskScore) -> str:
    return (
        f"{task.num_copies} of {task.num_samples} completions repeat another of their problem far beyond chance and "
        "count as none, so the problems have fewer samples than k; see stapo-bench audit"
    )


def _what_is_missing(task: TaskScore) -> list[str]:
    parts = []
    if not task.is_drawn:
        # In a run in progress, short completions end first, and they are right more often.
        parts.append(f"{task.num_samples} of {task.num_samples_expected} samples drawn")
        if task.rounds_value is not None:
            parts[-1] += f" (avg@{task.num_rounds} of whole rounds: {100 * task.rounds_value:.2f})"
    undecided = task.num_grader_errors + task.num_ungraded
    if undecided:
        low, high = 100 * task.bounds.low, 100 * task.bounds.high
        parts.append(f"{undecided} samples undecided by the grader, so between {low:.2f} and {high:.2f}")
    return parts
