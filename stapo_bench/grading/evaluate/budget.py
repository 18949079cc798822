"""A budget of steps for one verdict, counted in the thread that spends it.

Steps, not seconds: a loaded machine gives the same verdicts, and no signal or main thread is needed.
"""

import threading

from stapo_bench.grading.tree import Refusal

MAX_STEPS = 40_000  # one step is one node evaluated at low precision, some five microseconds
_local = threading.local()


class TooLarge(Refusal):
    """More work, or a larger number, than one answer may ask for."""


def refill() -> None:
    """Refill the budget for a new verdict."""
    _local.left = MAX_STEPS


def spend(steps: int = 1) -> None:
    """Take steps from the budget; ``TooLarge`` when it is used up."""
    left = getattr(_local, "left", MAX_STEPS) - steps
    _local.left = left
    if left < 0:
        raise TooLarge("out of steps")
