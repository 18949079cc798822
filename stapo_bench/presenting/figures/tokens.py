"""Tokens of a dumped mini-batch by probability and entropy: a scatter, and the gradient norm of each quadrant.

The trainer's dumps (``stapo-train ... --dump-rollouts N``) hold both for the policy that sampled the tokens. The
borders of the quadrants are the objective's: tau_p from the log's config, tau_h from its metrics at that iteration.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stapo_bench.errors import StapoError
from stapo_bench.presenting.figures.layout import Layout, grid, legend_above
from stapo_bench.presenting.figures.settings import threshold
from stapo_bench.presenting.figures.sources import Sources, TrainingLog
from stapo_bench.presenting.figures.style import BLUE, GREY, INK, RED
from stapo_bench.presenting.figures.training import experiments
from stapo_bench.statistics import Vector
from stapo_bench.tasks import read_foreign_object, regular_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SILENCING = ("stapo", "stapo-old")
"""Objectives that silence a quadrant of this plane."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Response tokens of a mini-batch, each vector [num_tokens]. Without a quadrant tau_p and tau_h are NaN."""

    title: str
    prob: Vector
    entropy: Vector  # nats
    advantage: Vector
    vocabulary: int
    tau_p: float
    tau_h: float  # NaN as well where the mini-batch had no candidates

    @property
    def silenced_mask(self) -> NDArray[np.bool_]:
        """True where prob < tau_p, entropy < tau_h and A > 0."""
        mask: NDArray[np.bool_] = (self.prob < self.tau_p) & (self.entropy < self.tau_h) & (self.advantage > 0)
        return mask


def lacks_dumps(sources: Sources) -> str | None:
    """What is missing unless there is a dumped mini-batch."""
    if any(training.dumps for training in sources.trainings):
        return None
    return (
        "expected a training log with a dumped mini-batch (--train FOLDER with dumps/), got none; "
        "'stapo-train CONFIG.yaml --dump-rollouts 10' keeps one"
    )


def lacks_quadrants(sources: Sources) -> str | None:
    """What is missing unless there is a dumped mini-batch with candidates and a silenced quadrant."""
    if any(not math.isnan(_tau_h(t, dump)) for t in sources.trainings for dump in t.dumps):
        return None
    return (
        "expected a STAPO training log with a dumped mini-batch that has candidates (--train FOLDER with dumps/), got "
        "none; 'stapo-train CONFIG.yaml objective.name=stapo --dump-rollouts 1,2,3' keeps some"
    )


def tokens(sources: Sources) -> list[Tokens]:
    """One mini-batch per log: the last with a quadrant, else the last."""
    return [
        read_tokens(training, _choose(training), experiment.label)
        for experiment in experiments(sources.trainings)
        for training in experiment.members
        if training.dumps
    ]


def with_quadrants(sources: Sources) -> list[Tokens]:
    """As ``tokens``, of logs with a quadrant."""
    return [found for found in tokens(sources) if not math.isnan(found.tau_h)]


def read_tokens(training: TrainingLog, dump: Path, label: str) -> Tokens:
    """Read a dump without the trainer.

    Raises:
        StapoError: its tensors or its model's config cannot be read, or are not those of a dump.
    """
    batch = _tensors(dump / "batch.safetensors")
    path = dump / "model" / "config.json"
    vocabulary = read_foreign_object(path).get("vocab_size")
    if type(vocabulary) is not int or vocabulary < 1:
        raise StapoError(f"{path}: expected the number of words in vocab_size, got {vocabulary!r}")
    return Tokens(
        title=f"{label}\niteration {_iteration(dump)}, seed {training.seed}",
        prob=np.exp(batch["old_log_probs"]),
        entropy=batch["entropy"],
        advantage=batch["advantages"],
        vocabulary=vocabulary,
        tau_p=threshold(training, "tau_p") if training.objective["name"] in _SILENCING else math.nan,
        tau_h=_tau_h(training, dump),
    )


def _tensors(path: Path) -> dict[str, Vector]:
    """Log-probability, entropy and advantage of every token."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found = load_file(regular_file(path))
        vectors = {name: found[name].astype(np.float64) for name in ("old_log_probs", "entropy")}
        vectors["advantages"] = np.repeat(found["row_advantages"].astype(np.float64), found["response_lengths"])
        if len({vector.shape for vector in vectors.values()}) != 1:
            raise ValueError("its tensors are of different lengths")
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise StapoError(
            f"{path}: expected the tokens of a mini-batch, got damage: {' '.join(str(error).split())[:200]}"
        ) from None
    return vectors


def _choose(training: TrainingLog) -> Path:
    return next(
        (dump for dump in reversed(training.dumps) if not math.isnan(_tau_h(training, dump))), training.dumps[-1]
    )


def _iteration(dump: Path) -> int:
    return int(dump.name.removeprefix("iteration-"))


def _tau_h(training: TrainingLog, dump: Path) -> float:
    """tau_h of the iteration's last update, whose mini-batch the dump is."""
    if training.objective["name"] not in _SILENCING:
        return math.nan
    for record in training.records:
        if record["iteration"] == _iteration(dump):
            found = (record.get("thresholds") or {}).get("tau_h") or [None]
            return math.nan if found[-1] is None else float(found[-1])
    return math.nan


# --- scatter ---------------------------------------------------------------------------------------------------------


def layout_of(data: Sequence[Tokens]) -> Layout:
    """A panel per mini-batch."""
    return grid(len(data), share_y=True, columns=3)


def draw_scatter(axes: Sequence["Axes"], data: Sequence[Tokens]) -> None:
    """Every token a dot; drawn as an image inside the figure, which would be huge otherwise."""
    from matplotlib.patches import Rectangle

    least = min(float(found.prob.min()) for found in data) / 2
    top = max(float(found.entropy.max()) for found in data)
    for ax, found in zip(axes, data, strict=True):
        silenced = found.silenced_mask
        for chosen, colour, marker, size, label in (
            (~silenced & (found.advantage <= 0), GREY, "o", 3.0, "A ≤ 0"),
            (~silenced & (found.advantage > 0), BLUE, "^", 5.0, "A > 0"),
            (silenced, RED, "D", 12.0, "silenced"),
        ):
            ax.scatter(
                found.prob[chosen], found.entropy[chosen], s=size, c=colour, marker=marker, linewidths=0, alpha=0.7,
                label=label, rasterized=True, zorder=2 + bool(marker == "D"),
            )  # fmt: skip
        if not math.isnan(found.tau_h):
            quadrant = Rectangle(
                (least, 0.0), found.tau_p - least, found.tau_h, facecolor="none", edgecolor=RED, linestyle="--",
                linewidth=0.8, label=r"$\pi<\tau_p$, $H<\tau_h$", zorder=4,
            )  # fmt: skip
            ax.add_patch(quadrant)
        ax.set_xscale("log")
        ax.set_xlim(least, 1.3)
        ax.set_ylim(-0.03 * top, 1.03 * top)
        ax.set_title(found.title)
        ax.set_xlabel(r"probability $\pi$")
    axes[0].set_ylabel(r"entropy $H$ (nats)")
    legend_above(axes)


# --- gradients -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Quadrant:
    """Tokens on one side of both borders. Norms are root mean squares over them; NaN: there are none."""

    name: str
    num_tokens: int
    least: float
    most: float


def gradient_bounds(tokens: Tokens) -> tuple[Vector, Vector]:
    """[num_tokens] bounds of the squared norm of a token's gradient by its logits, A^2 (1 - 2 pi + S), S = sum pi_v^2.

    At ratio 1, where no clip is active. S is not stored; e^-H <= S <= 1 - C_V H^2 with C_V = (V - 1) / (V (ln V)^2)
    (arXiv:2602.15620v5, Sec. 3), and pi^2 <= S <= pi^2 + (1 - pi)^2, as pi_v of the token itself is one of the terms.
    """
    prob, entropy, size = tokens.prob, tokens.entropy, tokens.vocabulary
    c_v = (size - 1) / (size * math.log(size) ** 2)
    least = np.maximum(np.exp(-entropy), prob**2)
    most = np.maximum(np.minimum(1.0 - c_v * entropy**2, prob**2 + (1.0 - prob) ** 2), least)
    squared = tokens.advantage**2
    return squared * (1.0 - 2.0 * prob + least), squared * (1.0 - 2.0 * prob + most)


def quadrants(tokens: Tokens) -> list[Quadrant]:
    """The four quadrants of the tokens that have a gradient (A is not 0), the silenced one first."""
    least, most = gradient_bounds(tokens)
    learning = tokens.advantage != 0
    found = []
    for rare, sure in ((True, True), (True, False), (False, True), (False, False)):
        inside = learning & ((tokens.prob < tokens.tau_p) == rare) & ((tokens.entropy < tokens.tau_h) == sure)
        count = int(inside.sum())
        found.append(
            Quadrant(
                name=f"{'low' if rare else 'high'} $\\pi$, {'low' if sure else 'high'} $H$",
                num_tokens=count,
                least=math.sqrt(float(least[inside].mean())) if count else math.nan,
                most=math.sqrt(float(most[inside].mean())) if count else math.nan,
            )
        )
    return found


def gradients_layout(data: Sequence[Tokens]) -> Layout:
    """The scatter's layout, lower."""
    layout = layout_of(data)
    return replace(layout, height=0.2 + 1.25 * layout.rows, share_y=True)


def draw_gradients(axes: Sequence["Axes"], data: Sequence[Tokens]) -> None:
    """A bar from the lower to the upper bound of each quadrant, with its number of tokens."""
    table = [quadrants(found) for found in data]
    most = max(row.most for rows in table for row in rows if row.num_tokens)
    for ax, found, rows in zip(axes, data, table, strict=True):
        for place, row in enumerate(rows):
            if row.num_tokens:
                ax.barh(
                    place, row.most - row.least, left=row.least, height=0.55, color=RED if place == 0 else BLUE,
                    edgecolor=INK, linewidth=0.4, hatch="////" if place == 0 else None,
                )  # fmt: skip
            ax.annotate(
                f"n = {row.num_tokens:,}", (row.most if row.num_tokens else 0.0, place), xytext=(4, 0),
                textcoords="offset points", va="center", fontsize=6.5,
            )  # fmt: skip
        ax.set_yticks(range(len(rows)), [row.name for row in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlim(0.0, 1.45 * most)
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False, axis="y")
        ax.set_title(found.title)
        ax.set_xlabel("gradient norm")
