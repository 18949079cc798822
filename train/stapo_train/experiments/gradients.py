"""The paper's gradient-norm identity and bounds, token by token on dumped mini-batches of real trainings, in float64.

    ||d J / d logits||^2 = w^2 (1 - 2 pi + S),  S = sum_v pi_v^2,  w = 0 where the clip is active, else rho A
    e^-H <= S <= 1 - C_V H^2,  C_V = (V - 1) / (V (ln V)^2)            (arXiv:2602.15620v5, Sec. 3)

The left side is autograd's, through the objective with nothing silenced; the right side is computed from pi, H and S.
Deviations are relative to w^2: 1 - 2 pi + S itself is 0 for a token that is certain.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stapo_bench.runs import write_result
from stapo_bench.statistics import over_seeds
from stapo_train.experiments.findings import Findings
from stapo_train.experiments.section import Section
from stapo_train.experiments.silenced import dumps, open_dump

Vector = NDArray[np.float64]

TAU_P = 0.002
ENTROPY_SHARE = 0.8
"""Borders of the quadrants: the paper's tau_p, and the 80 % quantile of the mini-batch's entropies (OLD's tau_h)."""
DOTS = 4000
"""Tokens in the figure, at most."""


@dataclass(frozen=True, kw_only=True)
class TokenGradients:
    """Tokens with a gradient (w != 0); vectors are [N]. Squared norms: of the gradient with respect to the logits."""

    prob: Vector
    entropy: Vector  # nats
    sum_squares: Vector  # S
    weight: Vector  # w
    measured: Vector  # squared norm, by autograd
    identity: Vector  # the same, by the formula
    low: Vector  # its bounds
    high: Vector
    is_sure: NDArray[np.bool_]  # entropy below the mini-batch's border
    vocabulary: int

    @property
    def deviation(self) -> Vector:
        """|measured - identity| / w^2."""
        return np.abs(self.measured - self.identity) / self.weight**2

    @property
    def outside(self) -> Vector:
        """How far the measured norm lies outside the bounds, over w^2; 0 inside."""
        beyond = np.maximum(self.low - self.measured, self.measured - self.high)
        return np.maximum(beyond, 0.0) / self.weight**2


def read_gradients(folder: Path) -> TokenGradients:
    """The token gradients of a dump, under its own objective."""
    import torch

    from stapo_train.inspect.replay import objective_for
    from stapo_train.objective import policy_loss, select
    from stapo_train.token_statistics import logit_gradient_norm_bounds, logit_gradient_norm_squared, token_distribution

    dump = open_dump(folder)
    objective, batch = objective_for(dump, dump.about.objective["name"]), dump.batch
    selection = select(batch.stats, objective)
    everything = torch.ones_like(selection.keep_mask)
    selection = replace(selection, keep_mask=everything, weights=torch.ones_like(selection.weights))
    border = float(np.quantile(batch.stats.entropy.double().numpy(), ENTROPY_SHARE))
    columns: list[list[Vector]] = []
    for micro in dump.policy.split(batch, torch.nonzero(batch.row_advantages).flatten().tolist()):
        part, chosen = batch.stats.take(micro.tokens), selection.take(micro.tokens)
        with torch.no_grad():
            logits = dump.policy.logits(micro).double() / dump.policy.temperature
        logits.requires_grad_()
        now = token_distribution(logits, micro.taken, 1.0)
        loss = policy_loss(replace(part, log_probs=now.log_probs), chosen, objective).numerator.sum()
        (by_logits,) = torch.autograd.grad(loss, logits)
        alone = now.log_probs.detach().requires_grad_()
        loss = policy_loss(replace(part, log_probs=alone), chosen, objective).numerator.sum()
        (weight,) = torch.autograd.grad(loss, alone)
        prob = alone.detach().exp()
        identity = logit_gradient_norm_squared(weight, prob, now.sum_squares)
        low, high = logit_gradient_norm_bounds(weight, prob, now.entropy, logits.shape[1])
        found = (prob, now.entropy, now.sum_squares, weight, (by_logits**2).sum(-1), identity, low, high)
        columns.append([column[weight != 0].numpy() for column in found])
    table = [np.concatenate(column) for column in zip(*columns, strict=True)] if columns else [np.zeros(0)] * 8
    names = [field.name for field in fields(TokenGradients)][: len(table)]
    vocabulary = int(dump.policy.model.config.vocab_size)
    return TokenGradients(**dict(zip(names, table, strict=True)), is_sure=table[1] < border, vocabulary=vocabulary)


def joined(parts: Sequence[TokenGradients]) -> TokenGradients:
    """The tokens of several mini-batches, concatenated."""
    names = [field.name for field in fields(TokenGradients) if field.name != "vocabulary"]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return TokenGradients(**columns, vocabulary=parts[0].vocabulary)


def gradients(findings: Findings, folder: Path) -> Section:
    """Identity, bounds and the mean gradient norm of each quadrant."""
    by_seed: dict[int, list[TokenGradients]] = {}
    for training in findings.trainings:
        by_seed.setdefault(training.seed, []).extend(read_gradients(dump) for dump in dumps(training.folder))
    seeds = [joined(parts) for parts in by_seed.values() if parts]
    heading = "## Gradient norms: the identity, its bounds, and the quadrants"
    if not seeds or not all(len(found.prob) for found in seeds):
        return Section(text=f"{heading}\n\nNo mini-batch with a gradient was kept.")
    whole = joined(seeds)
    draw(whole, folder / "bounds.svg")
    answer = (
        f"On {len(whole.prob):,} tokens of real rollouts, in float64, autograd's squared gradient norm and the paper's "
        f"identity differ by at most {whole.deviation.max():.1g} of w², the square of what a token's log-probability "
        f"is weighted by; {_outside(whole)}."
    )
    lines = [heading, "", answer, ""]
    lines += ["![Sum of squared probabilities against entropy](bounds.svg)", ""]
    lines += [
        "S, the sum of squared probabilities, against entropy H; C = (V - 1) / (V ln² V) for V tokens in the "
        "vocabulary. The two curves are all that the bounds add to the identity. "
        f"Where the curves are at least 0.1 apart, the median token stands {_gap(whole):.0%} of the way from the lower "
        "to the upper one.",
        "",
        f"Mean gradient norm by quadrant. Low probability: below {TAU_P:g}; low entropy: below the "
        f"{ENTROPY_SHARE:.0%} quantile of the mini-batch's response tokens. Means of the seeds' means, with 95 % "
        "intervals over seeds.",
        "",
        "| Quadrant | tokens | mean norm | by the lower bound | by the upper bound |",
        "|---|---|---|---|---|",
    ]
    for name, is_rare, is_sure in QUADRANTS:
        lines.append(f"| {name} | {_quadrant(seeds, is_rare, is_sure)} |")
    return Section(answers=[answer], text="\n".join(lines))


QUADRANTS = (
    ("low probability, low entropy", True, True),
    ("low probability, high entropy", True, False),
    ("high probability, low entropy", False, True),
    ("high probability, high entropy", False, False),
)


def _quadrant(seeds: Sequence[TokenGradients], is_rare: bool, is_sure: bool) -> str:
    inside = [((found.prob < TAU_P) == is_rare) & (found.is_sure == is_sure) for found in seeds]
    count = sum(int(mask.sum()) for mask in inside)
    cells = [f"{count:,}"]
    for name in ("measured", "low", "high"):
        # The lower bound is below 0 for some likely tokens, where it says nothing about a norm.
        norms = [np.sqrt(np.maximum(getattr(f, name)[mask], 0.0)) for f, mask in zip(seeds, inside, strict=True)]
        means = np.array([part.mean() for part in norms if len(part)])
        interval = over_seeds([means[:, None]], "seeds like these").interval() if len(means) > 1 else None
        ends = f" [{interval.low:.3f}, {interval.high:.3f}]" if interval and name == "measured" else ""
        cells.append(f"{means.mean():.3f}{ends}" if len(means) else "–")
    return " | ".join(cells)


def _outside(found: TokenGradients) -> str:
    farthest = found.outside.max()
    return f"the farthest lies {farthest:.1g} of w² outside the bounds" if farthest else "none lies outside the bounds"


def _gap(found: TokenGradients) -> float:
    """Median of (S - e^-H) / (1 - C_V H^2 - e^-H) over tokens where the two bounds are at least 0.1 apart."""
    scale = found.weight**2
    width = (found.high - found.low) / scale
    apart = width >= 0.1
    return float(np.median(((found.identity - found.low) / scale)[apart] / width[apart])) if apart.any() else math.nan


def draw(found: TokenGradients, path: Path) -> None:
    """Plot S against H with both bounds; tokens are thinned evenly so that the figure stays small."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from stapo_bench.presenting.figures.style import BLUE, INK, RC, RED, SINGLE

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, RC))
        figure = Figure(figsize=(SINGLE, 2.5), layout="constrained")
        ax = figure.subplots()
        stride = math.ceil(len(found.prob) / DOTS)
        is_rare = found.prob < TAU_P
        for chosen, colour, label in ((~is_rare, BLUE, "tokens"), (is_rare, RED, f"tokens with π < {TAU_P:g}")):
            x, y = found.entropy[chosen], found.sum_squares[chosen]
            every = slice(None, None, 1 if colour == RED else stride)
            ax.scatter(x[every], y[every], s=3, c=colour, linewidths=0, alpha=0.6, label=label, rasterized=True)
        grid = np.linspace(0.0, float(found.entropy.max()), 200)
        size = found.vocabulary
        c_v = (size - 1) / (size * math.log(size) ** 2)
        ax.plot(grid, np.exp(-grid), color=INK, linestyle="--", label="exp(−H)")
        ax.plot(grid, 1 - c_v * grid**2, color=INK, label="1 − C H²")
        ax.set_xlabel("entropy H (nats)")
        ax.set_ylabel("sum of squared probabilities S")
        figure.legend(loc="outside upper center", ncols=2)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Title": "S against H", "Date": None})
        write_result(path, drawn.getvalue())
