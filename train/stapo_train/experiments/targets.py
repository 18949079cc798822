"""Sections on what a method with a target entropy claims (STARE, arXiv:2606.19236): that it holds it, what it gains.

A target is an objective's ``max_entropy``. The published gain is in points of the mean of AIME24 and AIME25 over DAPO.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from stapo_bench.analysis import RunScore, changes_by_task, means_by_task
from stapo_bench.records import Outcomes
from stapo_bench.statistics import LEVEL, SEED_ERRORS, Difference, holm, over_seeds
from stapo_train.experiments.design import Training, in_words
from stapo_train.experiments.findings import Findings, counted
from stapo_train.experiments.section import Section, in_points
from stapo_train.inspect.stability import read_entropies
from stapo_train.objectives import build

BAND = 0.1
"""Half the width of the band around a target, as a share of it: ours, none is published."""


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
        """From the mean entropies by iteration of each seed, in one order. End: the median of the last tenth."""
        firsts, shares = zip(*(time_in_band(curve, target) for curve in curves), strict=True)
        opened = [first for first in firsts if first is not None]
        ends, others = ([median(c[-max(1, len(c) // 10) :]) for c in found] for found in (curves, reference))
        return cls(
            target=target,
            opened=(min(opened), max(opened)) if opened else None,
            in_band=float(np.nanmean(shares)) if opened else float("nan"),
            off=_over_seeds([end - target for end in ends]),
            added=_over_seeds([end - other for end, other in zip(ends, others, strict=True)]),
            num_seeds=len(curves),
        )

    def sentence(self, variant: str, reference: str) -> str:
        """What was seen, in words."""
        if self.opened is None:
            return f"{variant}'s entropy never falls below its target of {self.target:g} nats ({self.num_seeds} seeds)."
        return (
            f"{variant}'s gate opens at iteration {self.opened[0]} to {self.opened[1]}; from there on entropy is "
            f"within {BAND:.0%} of its target, {self.target:g} nats, in {self.in_band:.0%} of the iterations; it ends "
            f"{_nats(self.off)} nats from it, {_nats(self.added)} from where {reference}'s ends "
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
    lines = [
        "## Is entropy held at its target?",
        "",
        f"The gate opens where an iteration's mean entropy is below the target; the band is the target ± {BAND:.0%} "
        "(its width is ours). End: median of the last tenth of the iterations, in nats; 95 % intervals over seeds.",
        "",
        f"| Variant | target | gate opens at iteration | then in band | end minus target | minus {reference}'s end |",
        "|---|---|---|---|---|---|",
    ]
    for variant, found in held.items():
        when, share = (f"{found.opened[0]} to {found.opened[1]}", f"{found.in_band:.0%}") if found.opened else "––"
        lines.append(f"| {variant} | {found.target:g} | {when} | {share} | {_nats(found.off)} | {_nats(found.added)} |")
    return Section(answers=[h.sentence(v, reference) for v, h in held.items()], text="\n".join(lines))


def aime_gain(findings: Findings, folder: Path) -> Section:
    """Every variant's gain over the reference on the tasks laid out as AIME24 and AIME25, as STARE's is stated."""
    reference, untrained = findings.experiment.reference, findings.experiment.untrained
    lines = [
        f"## Mean of the two AIME-like tasks, minus {reference}'s",
        "",
        f"In points, and in percent of {reference}'s mean, with 95 % intervals on {SEED_ERRORS[1]}; p by Holm.",
        "",
        "| Variant | Decoding | points | percent | p (Holm) |",
        "|---|---|---|---|---|",
    ]
    answers = []
    for decoding, scores in findings.scores.items():
        base = _on_aime(scores.get(reference, []))
        if not base:
            continue
        level = mean(float(np.nanmean(task)) for task in means_by_task(base))
        found = {
            variant: over_seeds(changes_by_task(base, _on_aime(of_variant)), SEED_ERRORS[1])
            for variant, of_variant in scores.items()
            if variant != reference and variant not in untrained and variant not in findings.same
        }
        adjusted = holm([difference.p_value for difference in found.values()])
        for (variant, difference), p in zip(found.items(), adjusted, strict=True):
            percent = f"{100 * difference.value / level:+.1f} %"
            lines.append(f"| {variant} | {in_words(decoding)} | {in_points(difference)} | {percent} | {p:.3f} |")
            if variant in findings.told:
                verdict = "told apart" if p < LEVEL else "not told apart"
                answers.append(
                    f"{in_words(decoding)}: on the AIME-like tasks {variant} is {verdict} from {reference}: "
                    f"{in_points(difference)} points ({percent}, {len(base)} seeds)."
                )
    return Section(answers=answers, text="\n".join(lines))


def _on_aime(scores: Sequence[RunScore]) -> list[Mapping[str, Outcomes]]:
    return [{task: found for task, found in counted(score).items() if "aime" in task} for score in scores]


def _over_seeds(values: Sequence[float]) -> Difference:
    return over_seeds([np.array(values)[:, None]], "seeds like these")


def _nats(difference: Difference) -> str:
    interval = difference.interval()
    return f"{difference.value:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
