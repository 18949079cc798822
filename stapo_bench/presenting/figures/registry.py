"""The figures by name. To add one: functions for what it lacks, what it reads, how it is drawn, and a line here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stapo_bench.presenting.figures import (
    evaluation,
    forest,
    groups,
    heatmap,
    lines,
    ranking,
    seeds,
    settings,
    tokens,
    training,
)
from stapo_bench.presenting.figures.layout import Layout
from stapo_bench.presenting.figures.sources import Sources

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
    note: str | Callable[[Data], str]  # for the caption: what a reader must know about what is drawn


Lacks = Callable[[Sources], str | None]
"""What the sources lack for a figure, and the command that makes it; None: nothing."""

Note = str | Callable[[lines.Lines], str]
"""A caption's second part; a function where it depends on the data."""


def _lines(title: str, lacks: Lacks, read: Callable[[Sources], lines.Lines], note: Note) -> Plot[Any]:
    return Plot(title=title, lacks=lacks, read=read, layout=lines.layout_of, draw=lines.draw, note=note)


def _metric(title: str, column: str, y_label: str, note: str) -> Plot[Any]:
    return _lines(title, training.lacks_logs, partial(training.over_iterations, column=column, y_label=y_label), note)


_BOTH = "Thick: 95 % interval for these problems; thin: for problems like these."

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
    "candidate-entropy": _lines(
        "Entropy of candidates over iterations", training.lacks_candidates, training.candidate_entropy,
        "Mean over the tokens that the objective could silence, under the policy of each optimizer step.",
    ),
    "masked": _lines(
        "Masked-token ratio", training.lacks_masked, training.masked,
        "Silenced over all response tokens of an iteration; where none was silenced the line has a gap. A band that "
        "reaches the lower end of the axis: in one of the seeds none was silenced.",
    ),
    "pareto": Plot(
        title="Accuracy against entropy stability", lacks=settings.lacks_pareto, read=settings.pareto,
        layout=settings.planes_layout, draw=settings.draw_pareto, note=settings.pareto_note,
    ),
    "sensitivity": _lines(
        "Sensitivity to tau_p and q", settings.lacks_sensitivity, settings.sensitivity,
        "avg@k, every task of the same weight, of STAPO's last evaluated checkpoint.",
    ),
    "ablation": Plot(
        title="Masking strategies", lacks=forest.lacks_ablation, read=forest.ablation, layout=forest.layout_of,
        draw=forest.draw, note="Which of the tokens with A > 0 and low probability are masked. " + _BOTH,
    ),
    "tokens": Plot(
        title="Tokens by probability and entropy", lacks=tokens.lacks_dumps, read=tokens.tokens,
        layout=tokens.layout_of, draw=tokens.draw_scatter,
        note="Response tokens of one mini-batch under the policy that drew them; the dashed quadrant is silenced where "
        "the advantage is positive.",
    ),
    "gradients": Plot(
        title="Gradient norm per quadrant", lacks=tokens.lacks_quadrants, read=tokens.with_quadrants,
        layout=tokens.gradients_layout, draw=tokens.draw_gradients,
        note="Root mean square over the quadrant's tokens with a gradient; a bar reaches from the lower to the upper "
        "bound that probability and entropy leave (arXiv:2602.15620v5, Sec. 3). Hatched: silenced where the advantage "
        "is positive.",
    ),
    "budget": _lines(
        "Accuracy under smaller token limits", evaluation.lacks_lengths, evaluation.budget,
        "The same samples, longer ones counted as wrong: a lower bound.",
    ),
    "problems": Plot(
        title="Success per problem", lacks=groups.lacks_runs, read=heatmap.heat_maps, layout=heatmap.layout_of,
        draw=heatmap.draw, note="Share of right samples; problems sorted by their mean over the runs.",
    ),
    "pass-at-k": _lines(
        "pass@k", evaluation.lacks_passes, evaluation.pass_at_k_lines, evaluation.passes_note
    ),
    "differences": Plot(
        title="Paired differences", lacks=forest.lacks_pairs, read=forest.differences, layout=forest.layout_of,
        draw=forest.draw, note="Differences of avg@k on the same problems. " + _BOTH,
    ),
    "ranking": Plot(
        title="Several runs together", lacks=ranking.lacks_several, read=ranking.rankings, layout=ranking.layout_of,
        draw=ranking.draw,
        note="avg@k, every task of the same weight. Bars join runs of which no two are told apart on problems like "
        "these, and runs of which every two are shown to be tied within two points; all pairs are judged together. A "
        "cross in a bar: this run is not of the set.",
    ),
    "seeds": Plot(
        title="Methods over training seeds", lacks=seeds.lacks_seeds, read=seeds.forests, layout=seeds.forest_layout,
        draw=seeds.draw_forest,
        note="Differences of avg@k. Thick: 95 % interval for seeds like these; thin: seeds and problems like these.",
    ),
    "seeds-problems": Plot(
        title="Seeds × problems", lacks=seeds.lacks_seeds, read=seeds.seed_maps, layout=seeds.maps_layout,
        draw=seeds.draw_maps,
        note="Change of a problem's success rate, a row per training seed, all tasks together. Columns of one colour "
        "are problems that matter; rows of one colour are seeds that do.",
    ),
}  # fmt: skip
