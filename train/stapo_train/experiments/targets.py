"""Sections on what a method with a target entropy claims (STARE, arXiv:2606.19236): that it holds it, what it gains.

A target is an objective's ``max_entropy``. The published gain is in points of the mean of AIME24 and AIME25 over DAPO.
Beside ours stand the gains that the printed tables hold.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np

from stapo_bench.analysis import RunScore, changes_by_task, load_published, means_by_task
from stapo_bench.presenting import change_interval, signed
from stapo_bench.presenting.figures import Sources
from stapo_bench.records import Outcomes
from stapo_bench.statistics import LEVEL, SEED_ERRORS, Difference, holm, over_seeds
from stapo_train.experiments.design import Training, in_words
from stapo_train.experiments.findings import Findings, counted
from stapo_train.experiments.provenance import objective_names
from stapo_train.experiments.section import Section, in_numbers, in_points
from stapo_train.inspect.stability import read_entropies
from stapo_train.objectives import build

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from stapo_bench.presenting.figures.lines import Lines

BAND = 0.1
"""Half the width of the band around a target, as a share of it: ours, none is published."""

FIGURE = "target.svg"

PRINTED: Mapping[str, Sequence[tuple[str, str, str, str]]] = {
    "stare": (("stare", "STARE-O1", "stare", "GRPO-ds"), ("stare", "STARE-O1", "stare_cited", "DAPO")),
    "lp-reg": (("lp_reg", "LpReg_on", "lp_reg", "GRPO_on"), ("stare_cited", "Lp-Reg", "stare_cited", "DAPO")),
    "stapo": (("stapo_v1", "STAPO", "stapo_v1", "JustRL"),),
}
"""By objective: a printed table and its row, and the table and row that it is held against there."""

AIME = ("aime24", "aime25")


def target_of(training: Training) -> float | None:
    """The mean entropy, in nats, at which the training's objective begins to act; None: it has none."""
    assert training.config is not None
    target: float | None = getattr(build(**training.config.objective), "max_entropy", None)
    return target


def time_in_band(entropies: Sequence[float], target: float) -> tuple[int | None, float]:
    """The first iteration below the target, counted from 1, and which share of those from there on is in the band.

    >>> time_in_band([0.5, 0.29, 0.31, 0.2], target=0.3)
    (2, 0.6666666666666666)
    >>> time_in_band([0.5, 0.4], target=0.3)
    (None, nan)
    """
    first = next((number for number, entropy in enumerate(entropies, start=1) if entropy < target), None)
    if first is None:
        return None, float("nan")
    later = entropies[first - 1 :]
    return first, sum(abs(entropy - target) <= BAND * target for entropy in later) / len(later)


def end_of(entropies: Sequence[float]) -> float:
    """The median of the last tenth of a training's entropies.

    >>> end_of([0.5] * 20 + [0.3, 0.2])
    0.25
    """
    return median(entropies[-max(1, len(entropies) // 10) :])


def added(curves: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> Difference:
    """By how much entropies end above the reference's of the same seeds."""
    return _over_seeds([end_of(curve) - end_of(other) for curve, other in zip(curves, reference, strict=True)])


@dataclass(frozen=True, kw_only=True)
class Held:
    """How a gated method's entropy stands to its target, over seeds. Entropies in nats."""

    target: float
    opened: tuple[int, int] | None  # first and last of the seeds' iterations at which the gate opens; None: in no seed
    in_band: float  # share of the iterations from there on
    off: Difference  # end minus target
    added: Difference  # end minus the reference's
    num_seeds: int

    @classmethod
    def of(cls, target: float, curves: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> "Held":
        """From the mean entropies by iteration of each seed, in one order."""
        firsts, shares = zip(*(time_in_band(curve, target) for curve in curves), strict=True)
        opened = [first for first in firsts if first is not None]
        return cls(
            target=target,
            opened=(min(opened), max(opened)) if opened else None,
            in_band=float(np.nanmean(shares)) if opened else float("nan"),
            off=_over_seeds([end - target for end in map(end_of, curves)]),
            added=added(curves, reference),
            num_seeds=len(curves),
        )

    def sentence(self, variant: str, reference: str) -> str:
        """What was seen, in words."""
        if self.opened is None:
            return f"{variant}'s entropy never falls below its target of {self.target:g} nats ({self.num_seeds} seeds)."
        return (
            f"{variant}'s gate opens at iteration {self.opened[0]} to {self.opened[1]}; from there on entropy is "
            f"within {BAND:.0%} of its target, {self.target:g} nats, in {self.in_band:.0%} of the iterations; it ends "
            f"{in_numbers(self.off)} nats from it, {in_numbers(self.added)} from where {reference}'s ends "
            f"({self.num_seeds} seeds)."
        )


def target_entropy(findings: Findings, folder: Path) -> Section:
    """Does a gate hold the mean entropy at its target, and what does it add to the reference's?"""
    reference = findings.experiment.reference
    by_variant: dict[str, list[Training]] = {}
    for training in findings.trainings:
        by_variant.setdefault(training.variant, []).append(training)
    curves = {variant: [read_entropies(each.folder) for each in found] for variant, found in by_variant.items()}
    targets = {variant: target_of(found[0]) for variant, found in by_variant.items()}
    held = {
        variant: Held.of(target, curves[variant], curves[reference])
        for variant, target in targets.items()
        if target is not None
    }
    draw_targets(findings.sources, [found.target for found in held.values()], folder / FIGURE)
    lines = [
        "## Is entropy held at its target?",
        "",
        f"![Entropy and its target]({FIGURE})",
        "",
        f"Entropy over iterations, mean over response tokens before the iteration's updates; line: the target, grey: "
        f"± {BAND:.0%} of it.",
        "",
        f"The gate opens where an iteration's mean entropy is below the target; the band is the target ± {BAND:.0%} "
        "(its width is ours). End: median of the last tenth of the iterations, in nats; 95 % intervals over seeds.",
        "",
        f"| Variant | target | gate opens at iteration | then in band | end minus target | minus {reference}'s end |",
        "|---|---|---|---|---|---|",
    ]
    for variant, entropies in curves.items():
        if variant in held:
            found = held[variant]
            when, share = (f"{found.opened[0]} to {found.opened[1]}", f"{found.in_band:.0%}") if found.opened else "––"
            row = f"{found.target:g} | {when} | {share} | {in_numbers(found.off)} | {in_numbers(found.added)}"
            lines.append(f"| {variant} | {row} |")
        elif variant != reference:
            beside = in_numbers(added(entropies, curves[reference]))
            lines.append(f"| {variant} | none | – | – | – | {beside} |")
    return Section(answers=[h.sentence(v, reference) for v, h in held.items()], text="\n".join(lines))


def draw_targets(sources: Sources, targets: Sequence[float], path: Path) -> None:
    """The entropy of all trainings over iterations, with a band around every target."""
    from stapo_bench.presenting.figures import lines
    from stapo_bench.presenting.figures.registry import Plot
    from stapo_bench.presenting.figures.render import save_data
    from stapo_bench.presenting.figures.training import lacks_logs, over_iterations

    def draw(axes: Sequence["Axes"], data: "Lines") -> None:
        for ax in axes:
            mark_targets(ax, targets)
        lines.draw(axes, data)

    data = over_iterations(sources, "entropy", "entropy (nats)")
    plot = Plot(
        title="Entropy and its target",
        lacks=lacks_logs,
        read=lambda _: data,
        layout=lines.layout_of,
        draw=draw,
        note="",
    )
    save_data(plot, data, path, "")


def mark_targets(ax: "Axes", targets: Sequence[float]) -> None:
    """A line at every target, and its band."""
    from stapo_bench.presenting.figures.style import INK

    for target in targets:
        ax.axhspan((1 - BAND) * target, (1 + BAND) * target, color=INK, alpha=0.12, linewidth=0, zorder=0)
        ax.axhline(target, color=INK, linewidth=0.6, zorder=1)


def aime_gain(findings: Findings, folder: Path) -> Section:
    """Every variant's gain over the reference on the tasks laid out as AIME24 and AIME25, as STARE's is stated."""
    reference, untrained = findings.experiment.reference, findings.experiment.untrained
    lines = [
        f"## Mean of the two AIME-like tasks, minus {reference}'s",
        "",
        f"In points, and in percent of {reference}'s mean, with 95 % intervals; p by Holm, on {SEED_ERRORS[1]}.",
        "",
        f"| Variant | Decoding | {' | '.join(SEED_ERRORS)} | percent | p (Holm) |",
        "|" + "---|" * (4 + len(SEED_ERRORS)),
    ]
    answers = []
    for decoding, scores in findings.scores.items():
        base = _on_aime(scores.get(reference, []))
        if not base:
            continue
        level = mean(float(np.nanmean(task)) for task in means_by_task(base))
        found = {
            variant: [over_seeds(changes_by_task(base, _on_aime(of_variant)), error) for error in SEED_ERRORS]
            for variant, of_variant in scores.items()
            if variant != reference and variant not in untrained and variant not in findings.same
        }
        adjusted = holm([differences[1].p_value for differences in found.values()])
        for (variant, differences), p in zip(found.items(), adjusted, strict=True):
            percent = f"{100 * differences[0].value / level:+.1f} %"
            cells = " | ".join(in_points(difference) for difference in differences)
            lines.append(f"| {variant} | {in_words(decoding)} | {cells} | {percent} | {p:.3f} |")
            if variant in findings.told:
                verdict = "told apart" if p < LEVEL else "not told apart"
                intervals = ", ".join(
                    f"{change_interval(difference.interval())} on {error}"
                    for difference, error in zip(differences, SEED_ERRORS, strict=True)
                )
                answers.append(
                    f"{in_words(decoding)}: on the AIME-like tasks {variant} is {verdict} from {reference}: "
                    f"{signed(differences[0].value)} points ({percent}), {intervals} ({len(base)} seeds)."
                )
    return Section(answers=answers, text="\n".join([*lines, *_printed(findings)]))


def _printed(findings: Findings) -> Iterator[str]:
    """The same gains as the tables of the methods' papers hold them, as lines of the page."""
    objectives = objective_names(findings.experiment.variants)
    rows = [row for variant in findings.variants for row in PRINTED.get(objectives.get(variant, ""), ())]
    if not rows:
        return
    yield ""
    yield (
        "Printed, of the mean of AIME24 and AIME25, one training each, models of 1.5B to 32B parameters: the smallest "
        "and the largest gain among a row's checkpoints. Where the two sides are of two tables, protocols differ."
    )
    yield ""
    yield "| Printed | Table | checkpoints | points | percent |"
    yield "|---|---|---|---|---|"
    for table, method, beside, other in rows:
        gains = printed_gains(table, method, beside, other)
        points, percents = map(_ends, zip(*gains, strict=True))
        source = "; ".join(dict.fromkeys(load_published(name).title for name in (table, beside)))
        yield f"| {method} over {other} | {source} | {len(gains)} | {points} | {percents} % |"


def printed_gains(table: str, method: str, beside: str, other: str) -> list[tuple[float, float]]:
    """A printed method's gains over another on the mean of AIME24 and AIME25: as it is, and over the other's mean.

    A pair for every model and way of decoding that both have.

    >>> [(round(gain, 3), round(share, 3)) for gain, share in printed_gains("lp_reg", "LpReg_on", "lp_reg", "GRPO_on")]
    [(0.042, 0.104)]
    """
    means = [
        {
            (row.model, row.regime): mean(row.scores[task] for task in AIME)
            for row in load_published(name).rows
            if row.method == wanted and all(task in row.scores for task in AIME)
        }
        for name, wanted in ((table, method), (beside, other))
    ]
    return [(means[0][key] - base, means[0][key] / base - 1) for key, base in means[1].items() if key in means[0]]


def _ends(fractions: Sequence[float]) -> str:
    """The smallest and the largest in percent, once where they are one.

    >>> _ends([0.02, -0.011, 0.01]), _ends([0.02])
    ('-1.1 to +2.0', '+2.0')
    """
    return " to ".join(dict.fromkeys(signed(end) for end in (min(fractions), max(fractions))))


def _on_aime(scores: Sequence[RunScore]) -> list[Mapping[str, Outcomes]]:
    return [{task: found for task, found in counted(score).items() if "aime" in task} for score in scores]


def _over_seeds(values: Sequence[float]) -> Difference:
    return over_seeds([np.array(values)[:, None]], "seeds like these")
