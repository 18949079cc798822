"""The figures by name. To add one: what it lacks, what it reads, how it is drawn, and a line here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stapo_bench.figures import evaluation, lines, training
from stapo_bench.figures.layout import Layout
from stapo_bench.figures.sources import Sources

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Data = TypeVar("Data")


@dataclass(frozen=True, kw_only=True)
class Plot(Generic[Data]):
    """A kind of figure."""

    title: str
    lacks: Callable[[Sources], str | None]  # what is missing, and the command that makes it; None: nothing
    read: Callable[[Sources], Data]
    layout: Callable[[Data], Layout]
    draw: Callable[[Sequence["Axes"], Data], None]
    note: str  # for the caption: what a reader must know about what is drawn


Lacks = Callable[[Sources], str | None]
"""What the sources lack for a figure, and the command that makes it; None: nothing."""


def _lines(title: str, lacks: Lacks, read: Callable[[Sources], lines.Lines], note: str) -> Plot[Any]:
    return Plot(title=title, lacks=lacks, read=read, layout=lines.layout_of, draw=lines.draw, note=note)


def _metric(title: str, column: str, y_label: str, note: str) -> Plot[Any]:
    return _lines(title, training.lacks_logs, partial(training.over_iterations, column=column, y_label=y_label), note)


REGISTRY: dict[str, Plot[Any]] = {
    "accuracy": _lines(
        "Accuracy over training steps", evaluation.lacks_steps, evaluation.accuracy,
        "avg@k, every task of the same weight; step 0 is the base model.",
    ),
    "entropy": _metric(
        "Entropy over iterations", "entropy", "entropy (nats)",
        "Mean over response tokens of the entropy of the full next-token distribution, before the iteration's updates.",
    ),
    "reward": _metric(
        "Training reward over iterations", "reward", "mean reward", "Mean over the iteration's graded rollouts."
    ),
    "length": _metric(
        "Response length over iterations", "response_length", "response length (tokens)",
        "Mean over the iteration's rollouts.",
    ),
    "entropy-quantiles": _lines(
        "Token entropy by quantile", training.lacks_quantiles, training.entropy_quantiles,
        "Quantiles over the iteration's response tokens.",
    ),
    "masked": _lines(
        "Masked-token ratio", training.lacks_masked, training.masked,
        "Silenced over all response tokens of an iteration; where none was silenced the line has a gap.",
    ),
    "budget": _lines(
        "Accuracy under smaller token limits", evaluation.lacks_runs, evaluation.budget,
        "The same samples, longer ones counted as wrong: a lower bound.",
    ),
    "pass-at-k": _lines(
        "pass@k", evaluation.lacks_passes, evaluation.pass_at_k, "Unbiased estimate (Chen et al. 2021)."
    ),
}  # fmt: skip
