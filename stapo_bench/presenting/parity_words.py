"""What differs between two runs besides the weights, for a reader.

about, items = parity_lines(compare_runs(before, after))
"""

from dataclasses import replace

from stapo_bench.analysis import Comparison, ParityDifference, tasks_together


def parity_lines(comparison: Comparison) -> tuple[str, tuple[str, ...]]:
    """What differs besides the weights: in a line, and each."""
    if not comparison.parity:
        return "Parity: nothing but the weights differs.", ()
    unknown = any(item.weight == "unknown" for item in comparison.parity)
    about = "Besides the weights, these differ" + (" or are not known of both:" if unknown else ":")
    return about, tuple(f"{item.weight}: {item}" for item in _once_unknown(shown_parity(comparison)))


def _once_unknown(found: list[ParityDifference]) -> list[ParityDifference]:
    """The same with all that is known of neither run as one."""
    neither = [item for item in found if item.weight == "unknown" and item.a == item.b]
    if len(neither) < 2:
        return found
    place, one = found.index(neither[0]), replace(neither[0], field="; ".join(item.field for item in neither))
    rest = [item for item in found if item not in neither]
    return [*rest[:place], one, *rest[place:]]


def shown_parity(comparison: Comparison) -> list[ParityDifference]:
    """The differences, those of several tasks as one."""
    return tasks_together(comparison.parity, {task.task: task.title for task in comparison.tasks})


def shown_confounders(comparison: Comparison) -> list[ParityDifference]:
    """Those of them that leave no evidence about the weights."""
    return [item for item in shown_parity(comparison) if item.weight == "confounds"]
