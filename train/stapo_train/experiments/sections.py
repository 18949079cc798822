"""Page sections that answer one question each; ``folder`` is the page's, where a section may put figures."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from stapo_bench.analysis import SeedComparison, changes_by_task
from stapo_bench.presenting import seeds_sentence, signed
from stapo_bench.statistics import LEVEL, SEED_ERRORS, Difference, holm, over_seeds
from stapo_train.experiments.calls import calls
from stapo_train.experiments.design import in_words
from stapo_train.experiments.endings import verdict as in_a_sentence
from stapo_train.experiments.evaluation_questions import error_bars, flips, samples
from stapo_train.experiments.findings import Findings, counted
from stapo_train.experiments.forest import differences
from stapo_train.experiments.gradients import gradients
from stapo_train.experiments.section import Section, in_cells, in_numbers, in_points, in_thousandths
from stapo_train.experiments.silenced import spurious
from stapo_train.experiments.targets import aime_gain, target_entropy
from stapo_train.inspect.stability import FACTOR, Ending, read_entropies
from stapo_train.inspect.stability import stability as steadiness


def pairs(findings: Findings, folder: Path) -> Section:
    """The experiment's own pairs of variants, where neither need be the reference."""
    lines = [
        "## Other differences in points, paired by seed and problem",
        "",
        f"| Variant | minus | Decoding | {' | '.join(f'{error} | p (Holm)' for error in SEED_ERRORS)} | Verdict |",
        "|" + "---|" * (4 + 2 * len(SEED_ERRORS)),
    ]
    answers = []
    for decoding, scores in findings.scores.items():
        for found in findings.compared(scores, findings.experiment.pairs):
            row = f"{found.name_b} | {found.name_a} | {in_words(decoding)} | {in_cells(found)}"
            lines.append(f"| {row} | {found.effects[1].verdict} |")
            answers.append(f"{in_words(decoding)}: {seeds_sentence(found)}")
    lines += ["", "As above, but for p, which is by Holm over these pairs of a way of decoding."]
    return Section(answers=answers, text="\n".join(lines))


def ranking(findings: Findings, folder: Path) -> Section:
    """Does the order of the methods hold in both regimes, and which differences change between them?"""
    means = {
        decoding: {
            variant: float(np.mean([s.macro.value for s in scores]))
            for variant, scores in found.items()
            if variant not in findings.same
        }
        for decoding, found in findings.scores.items()
    }
    orders = {decoding: sorted(values, key=lambda v: -values[v]) for decoding, values in means.items()}
    lines = ["## Does the ranking hold in both regimes?", ""]
    lines += [f"- {in_words(decoding)}: {' > '.join(order)}" for decoding, order in orders.items()]
    reference = findings.experiment.reference
    answers = [
        f"{in_words(decoding)}: told apart from {reference} on {SEED_ERRORS[1]}: {_told_apart(found)}."
        for decoding, found in findings.comparisons.items()
    ]
    for one, other in combinations(means, 2):
        pairs = list(combinations(means[one], 2))
        turned = [(a, b) for a, b in pairs if (means[one][a] - means[one][b]) * (means[other][a] - means[other][b]) < 0]
        between = f"between {in_words(one)} and {in_words(other)}"
        answers.append(
            f"Of {len(pairs)} pairs {len(turned)} change places {between}"
            + (f": {', '.join(f'{a} and {b}' for a, b in turned)}." if turned else ".")
        )
        changed = [
            f"{variant} by {in_points(difference)}"
            for variant, difference in _changes_between(findings, one, other).items()
            if variant in means[one] and variant not in findings.experiment.untrained
        ]
        answers.append(
            f"Differences from {reference} that change {between} (points, {SEED_ERRORS[1]}, Holm): "
            f"{', '.join(changed) or 'none'}."
        )
    return Section(answers=answers, text="\n\n".join(["\n".join(lines), *answers]))


def _changes_between(findings: Findings, one: str, other: str) -> dict[str, Difference]:
    """Variant -> its difference from the reference under ``other`` minus that under ``one``, where p < 5 % by Holm."""
    found: dict[str, Difference] = {}
    for variant in findings.scores[one]:
        if variant != findings.experiment.reference:
            first, second = (
                changes_by_task(
                    *(
                        [counted(score) for score in findings.scores[decoding][name]]
                        for name in (findings.experiment.reference, variant)
                    )
                )
                for decoding in (one, other)
            )
            changes = [after - before for before, after in zip(first, second, strict=True)]
            found[variant] = over_seeds(changes, SEED_ERRORS[1])
    adjusted = holm([difference.p_value for difference in found.values()])
    return {variant: found[variant] for variant, p in zip(found, adjusted, strict=True) if p < LEVEL}


def stability(findings: Findings, folder: Path) -> Section:
    """Entropy-stability score and late reward, paired over seeds: every variant against the reference."""
    lines = [
        "## Entropy stability and late reward",
        "",
        "Stability is exp(-mean |ln(H_t / H_0)|) over training, 1 for constant entropy, H_0 the mean of the first five "
        "iterations; late reward is the mean training reward of the last tenth of the iterations. Differences are "
        "paired over seeds, with 95 % intervals, each for itself; p by Holm over the variants.",
    ]
    measures = {"entropy stability": findings.stabilities(), "late reward": findings.late_rewards()}
    return _against_reference(findings, lines, measures)


def growth(findings: Findings, folder: Path) -> Section:
    """ln of entropy's end over its start: of every variant, and paired over seeds against the reference."""
    lines = [
        "## Does entropy grow?",
        "",
        "Growth is ln(last / first), as above: over 0 where entropy grew. Differences are paired over seeds, with 95 % "
        "intervals, each for itself; p by Holm over the variants.",
    ]
    values: dict[str, list[float]] = {}
    for training in findings.trainings:
        values.setdefault(training.variant, []).append(steadiness(read_entropies(training.folder)).growth)
    levels = [
        f"{variant}'s entropy growth has no mean: entropy is 0 first or last in {zeros} of {len(own)} seeds."
        if (zeros := sum(map(math.isnan, own)))
        else f"{variant}'s entropy growth is {in_numbers(over_seeds([np.array(own)[:, None]], 'seeds like these'))} "
        f"({len(own)} seeds)."
        for variant, own in values.items()
    ]
    compared = _against_reference(findings, lines, {"entropy growth": values})
    return Section(
        answers=[*levels, *compared.answers], text="\n".join([compared.text, "", *(f"- {x}" for x in levels)])
    )


def _against_reference(
    findings: Findings, lines: Sequence[str], measures: Mapping[str, Mapping[str, list[float]]]
) -> Section:
    """``lines``, and a table of every measure: means of the variants, differences from the reference.

    ``measures``: name -> variant -> a value of each seed.
    """
    reference = findings.experiment.reference
    columns = [f"{name.removeprefix('entropy ')} | minus {reference} | p (Holm)" for name in measures]
    rows = ["", f"| Variant | {' | '.join(columns)} |", "|---" * (1 + 3 * len(measures)) + "|"]
    told: dict[str, dict[str, tuple[Difference, float]]] = {}
    for name, values in measures.items():
        others = [variant for variant in values if variant != reference and reference in values]
        differences = [_paired(values, variant, reference) for variant in others]
        adjusted = holm([difference.p_value for difference in differences])
        told[name] = dict(zip(others, zip(differences, adjusted, strict=True), strict=True))
    counts = {variant: len(own) for variant, own in next(iter(measures.values())).items()}
    for variant in counts:
        cells = []
        for name, values in measures.items():
            found = told[name].get(variant)
            cells += [in_thousandths(float(np.mean(values[variant])))]
            cells += ["–", "–"] if found is None else [in_numbers(found[0]), in_thousandths(found[1])]
        rows.append(f"| {variant} | {' | '.join(cells)} |")
    answers = [
        f"{variant}'s {name} is {_direction(*told[name][variant])} {reference}'s: {in_numbers(told[name][variant][0])} "
        f"({counts[variant]} seeds)."
        for variant in findings.told
        for name in measures
        if variant in told[name] and not math.isnan(told[name][variant][0].value)
    ]
    return Section(answers=answers, text="\n".join([*lines, *rows]))


def _paired(values: Mapping[str, list[float]], variant: str, reference: str) -> Difference:
    change = np.array(values[variant])[:, None] - np.array(values[reference])[:, None]
    return over_seeds([change], "seeds like these")


def _direction(difference: Difference, p_adjusted: float) -> str:
    if not p_adjusted < LEVEL:
        return "not told apart from"
    return "above" if difference.value > 0 else "below"


def regimes(findings: Findings, folder: Path) -> Section:
    """In which settings does entropy collapse or explode? Counted over seeds, by the last tenth of training."""
    lines = [
        "## Where does entropy collapse or explode?",
        "",
        "First: mean entropy of the first five iterations; last: median of the last tenth. Last below "
        f"1/{FACTOR:g} of first: collapse; above {FACTOR:g} times: explosion. Counts and means over seeds.",
        "",
        "| Variant | collapse | explosion | stable | first (nats) | last (nats) | last / first, least to greatest |",
        "|---|---|---|---|---|---|---|",
    ]
    counts: dict[Ending, dict[str, str]] = {"collapse": {}, "explosion": {}}
    ratios: list[float] = []
    for variant in findings.variants:
        found = [steadiness(read_entropies(t.folder)) for t in findings.trainings if t.variant == variant]
        if not found:
            continue
        for verdict, of_verdict in counts.items():
            if count := sum(one.verdict == verdict for one in found):
                of_verdict[variant] = f"{variant} ({count} of {len(found)} seeds)"
        ratios += (ends := [one.end / one.start for one in found])
        cells = [str(sum(one.verdict == verdict for one in found)) for verdict in (*counts, "stable")]
        cells += [in_thousandths(float(np.mean([getattr(one, name) for one in found]))) for name in ("start", "end")]
        lines.append(f"| {variant} | {' | '.join(cells)} | {_ends(ends)} |")
    words: dict[Ending, str] = {"collapse": "Entropy collapses", "explosion": "It explodes"}
    answers = [
        f"{words[verdict]}: {', '.join(of_verdict.values()) or 'nowhere'}." for verdict, of_verdict in counts.items()
    ]
    if ratios:
        answers.append(f"It ends at {_ends(ratios)} of where it began.")
    return Section(answers=answers, text="\n".join(lines))


def _ends(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


SECTIONS: Mapping[str, Callable[[Findings, Path], Section]] = {
    "differences": differences,
    "pairs": pairs,
    "ranking": ranking,
    "stability": stability,
    "calls": calls,
    "verdict": in_a_sentence,
    "regimes": regimes,
    "growth": growth,
    "target-entropy": target_entropy,
    "aime-gain": aime_gain,
    "samples": samples,
    "error-bars": error_bars,
    "flips": flips,
    "spurious": spurious,
    "gradients": gradients,
}


def _told_apart(comparisons: Sequence[SeedComparison]) -> str:
    told = [
        f"{comparison.name_b} {effect.verdict} ({signed(effect.difference.value)} points)"
        for comparison in comparisons
        if (effect := comparison.effects[1]).verdict in ("better", "worse")
    ]
    return ", ".join(told) or "none"
