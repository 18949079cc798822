"""Records of a fault and of one trial, in which it is injected."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.bench import Bench


class BrokenError(Exception):
    """The product did not withstand a fault: not one clear line, another exit code, a command that fails or hangs."""


class WrongError(BrokenError):
    """Worse: what came out differs from the unbroken run's."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The result of a trial: one injection, or several into one run."""

    injected: int = 1
    broken: int = 0  # of them; the note says how
    lost: int = 0  # finished samples, grades or steps that had to be made again, or are gone
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, how often it is injected, and how.

    ``inject`` works in an empty folder of its own, draws every decision from the generator it is given, and raises
    BrokenError or WrongError.
    """

    name: str
    unit: str  # what can be lost
    trials: int  # of the full campaign
    quick: int  # of the short one; 0: left out
    inject: Callable[[Bench, Random, Path], Trial]


def check(holds: bool, message: str) -> None:
    """Raise BrokenError unless the condition holds."""
    if not holds:
        raise BrokenError(message)


def same(found: object, expected: object, what: str) -> None:
    """Raise WrongError unless both are equal."""
    if found != expected:
        raise WrongError(f"{what} differ from the unbroken run's")
