"""The gate of ``compare``: its options, and the exit code of each answer.

Exit 0: what was required is shown. 4: it is refuted. 5: undecided, more samples or problems are needed.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stapo_bench.commands.options import Number

if TYPE_CHECKING:
    from stapo_bench.analysis import GateState, Requirement
    from stapo_bench.statistics import ErrorName

Function = TypeVar("Function", bound=Callable[..., Any])

EXIT_CODES: Mapping["GateState", int] = {"shown": 0, "refuted": 4, "undecided": 5}
"""Of ``compare`` with a gate, beside 1 (failed) and 2 (not understood), which every command has."""

_NAMES = ("fail_if", "require", "about", "looks")
_BOUND = Number(0, 1, max_open=True)


def gate_options(function: Function) -> Function:
    """``--fail-if``, ``--require``, ``--about`` and ``--looks``, for one parameter ``given``."""
    for option in (
        click.option("--looks", type=click.IntRange(1, 1000), help="Comparisons that the gate's error has to cover."),
        click.option(
            "--about",
            type=click.Choice(["problems-like-these", "these-problems"]),
            help="What the gate claims something of; default: problems-like-these.",
        ),
        click.option(
            "--require",
            type=(click.Choice(["not-worse-than", "better-by"]), _BOUND),
            metavar="[not-worse-than|better-by] FRACTION",
            help="A gate: exit 0 where that is shown, 4 where it is refuted, 5 where it is undecided.",
        ),
        click.option(
            "--fail-if",
            type=click.Choice(["worse"]),
            help="A gate: exit 4 where B is shown to be worse at all; else 0 where it is shown to be worse by less "
            "than the margin, if at all; else 5.",
        ),
    ):
        function = option(function)
    return function


def requirement_of(given: Mapping[str, Any], margin: float) -> "Requirement | None":
    """What the options require; None: there is no gate."""
    fail_if, require, about, looks = (given[name] for name in _NAMES)
    if fail_if is None and require is None:
        if about is not None or looks is not None:
            raise click.UsageError("--about and --looks belong to a gate: expected --fail-if or --require beside them")
        return None
    if fail_if is not None and require is not None:
        raise click.UsageError("expected one gate, got --fail-if and --require; run compare once for each")
    from stapo_bench.analysis import better_by, not_worse, not_worse_than

    error: ErrorName = "these problems" if about == "these-problems" else "problems like these"
    number = looks or 1
    if require is None:
        return not_worse(margin, error, number)
    make = not_worse_than if require[0] == "not-worse-than" else better_by
    return make(require[1], error, number)
