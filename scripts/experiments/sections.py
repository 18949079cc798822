"""The parts of a page that answer one question each; ``folder`` is where the page stands, for figures of their own."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from forest import differences
from gradients import gradients
from section import Section
from silenced import spurious

from results import Results
from stapo_bench.compare import Comparison, compare_runs
from stapo_bench.intervals import ERROR_NAMES, signed
from stapo_bench.over_seeds import SEED_ERRORS, SeedComparison, over_seeds
from stapo_bench.paired import Difference
from stapo_bench.plan import plan_runs
from stapo_train.stability import FACTOR, read_entropies
from stapo_train.stability import stability as steadiness

DETECT = 0.02
"""The difference that evaluation questions are about: two points."""


def ranking(results: Results, folder: Path) -> Section:
    """Does the order of the methods hold in both regimes, and is any pair told apart with opposite signs?"""
    means = {
        decoding: {
            variant: float(np.mean([s.macro.value for s in scores]))
            for variant, scores in found.items()
            if variant not in results.same
        }
        for decoding, found in results.scores.items()
    }
    orders = {decoding: sorted(values, key=lambda v: -values[v]) for decoding, values in means.items()}
    lines = ["## Does the ranking hold in both regimes?", ""]
    lines += [f"- {decoding}: {' > '.join(order)}" for decoding, order in orders.items()]
    answers = [
        f"{decoding}: told apart from {results.experiment.reference} on {SEED_ERRORS[1]}: {_told_apart(found)}."
        for decoding, found in results.comparisons.items()
    ]
    for one, other in combinations(means, 2):
        pairs = list(combinations(means[one], 2))
        turned = [(a, b) for a, b in pairs if (means[one][a] - means[one][b]) * (means[other][a] - means[other][b]) < 0]
        sure = [
            first.name_b
            for first, second in zip(results.comparisons[one], results.comparisons[other], strict=True)
            if {first.effects[0].verdict, second.effects[0].verdict} == {"better", "worse"}
        ]
        answers.append(
            f"Of {len(pairs)} pairs {len(turned)} change places between {one} and {other}"
            + (f" ({', '.join(f'{a} and {b}' for a, b in turned)})" if turned else "")
            + f"; told apart from {results.experiment.reference} with opposite signs: {', '.join(sure) or 'none'}."
        )
    return Section(answers=answers, text="\n\n".join(["\n".join(lines), *answers]))


def stability(results: Results, folder: Path) -> Section:
    """Entropy-stability score and late reward, paired over seeds: every variant against the reference."""
    scores, rewards, reference = results.stabilities(), results.late_rewards(), results.experiment.reference
    lines = [
        "## Entropy stability and late reward",
        "",
        "Stability is exp(-mean |ln(H_t / H_0)|) over training, 1 for constant entropy; late reward is the mean "
        "training reward of the last tenth of the iterations. Differences are paired over seeds, with 95 % intervals.",
        "",
        f"| Variant | stability | minus {reference} | late reward | minus {reference} |",
        "|---|---|---|---|---|",
    ]
    answers = []
    for variant in scores:
        cells = []
        for values, name in ((scores, "entropy stability"), (rewards, "late reward")):
            difference = (
                None if variant == reference or reference not in values else _paired(values, variant, reference)
            )
            cells += [_number(float(np.mean(values[variant]))), "–" if difference is None else _told(difference)]
            if difference is not None and variant in results.told and not math.isnan(difference.value):
                answers.append(
                    f"{variant}'s {name} is {_direction(difference)} {reference}'s: {_told(difference)} "
                    f"({len(values[variant])} seeds)."
                )
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return Section(answers=answers, text="\n".join(lines))


def _paired(values: Mapping[str, list[float]], variant: str, reference: str) -> Difference:
    change = np.array(values[variant])[:, None] - np.array(values[reference])[:, None]
    return over_seeds([change], "seeds like these")


def _told(difference: Difference) -> str:
    interval = difference.interval()
    if math.isnan(difference.value):
        return "–"
    ends = "–" if math.isnan(interval.low) else f"{interval.low:+.3f}, {interval.high:+.3f}"
    return f"{difference.value:+.3f} [{ends}]"


def _direction(difference: Difference) -> str:
    """A claim only where the interval leaves out 0."""
    interval = difference.interval()
    return "above" if interval.low > 0 else "below" if interval.high < 0 else "not told apart from"


def regimes(results: Results, folder: Path) -> Section:
    """In which settings does entropy collapse or explode? Counted over seeds, by the last tenth of training."""
    lines = [
        "## Where does entropy collapse or explode?",
        "",
        f"At the end below 1/{FACTOR:g} of where it began: collapse; above {FACTOR:g} times: explosion. "
        "Counts and means over seeds.",
        "",
        "| Variant | collapse | explosion | stable | entropy at first (nats) | at last (nats) | score |",
        "|---|---|---|---|---|---|---|",
    ]
    answers = []
    for variant in results.variants:
        found = [steadiness(read_entropies(t.folder)) for t in results.trainings if t.variant == variant]
        if found:
            counts = [sum(one.verdict == verdict for one in found) for verdict in ("collapse", "explosion", "stable")]
            means = [float(np.mean(column)) for column in zip(*((f.start, f.end, f.score) for f in found), strict=True)]
            lines.append(f"| {variant} | {' | '.join(map(str, counts))} | {' | '.join(f'{m:.3f}' for m in means)} |")
            answers += [
                f"{variant}: {verdict} in {count} of {len(found)} seeds."
                for verdict, count in zip(("collapse", "explosion"), counts, strict=False)
                if count
            ]
    none = ["Entropy neither collapses nor explodes in any of the settings that were searched."]
    return Section(answers=answers or none, text="\n".join(lines))


def samples(results: Results, folder: Path) -> Section:
    """How many samples does a difference of two points need?"""
    lines = [
        f"## How many samples does a difference of {100 * DETECT:g} points need?",
        "",
        "Samples per problem and run at which a single pair of checkpoints shows it with 80 % power; median over seeds "
        f"and over all variants against {results.experiment.reference}.",
        "",
        "| Decoding | Task | these problems | problems like these | problems needed at the present samples |",
        "|---|---|---|---|---|",
    ]
    for decoding in results.experiment.decodings:
        needs: dict[str, list[tuple[float, float, float]]] = {}
        for before, after in _pairs(results, decoding):
            for task in plan_runs(before, after, DETECT).tasks:
                like = task.problems_like_these
                row = task.these_problems.num_samples or math.inf, like.num_samples or math.inf, like.num_problems
                needs.setdefault(task.title, []).append(row)
        for title, rows in needs.items():
            medians = [_count(float(np.median(column))) for column in zip(*rows, strict=True)]
            lines.append(f"| {decoding} | {title} | {' | '.join(medians)} |")
    return Section(text="\n".join(lines))


def error_bars(results: Results, folder: Path) -> Section:
    """How far apart do the error bars lie?"""
    lines = [
        "## How far apart do the error bars lie?",
        "",
        "Mean width of 95 % intervals in points. Of one checkpoint's average, and of a difference between two methods.",
        "",
        f"| Decoding | one run: {ERROR_NAMES[0]} | one run: {ERROR_NAMES[1]} "
        f"| difference: {SEED_ERRORS[0]} | difference: {SEED_ERRORS[1]} |",
        "|---|---|---|---|---|",
    ]
    answers = []
    for decoding, found in results.scores.items():
        macros = [score.macro for scores in found.values() for score in scores]
        of_runs = [(m.these_problems.width, m.problems_like_these.width) for m in macros]
        widths = [float(np.mean(column)) for column in zip(*of_runs, strict=True)]
        for place in range(len(SEED_ERRORS)):
            of_error = [c.effects[place].difference.interval().width for c in results.comparisons[decoding]]
            known = [width for width in of_error if not math.isnan(width)]
            widths.append(float(np.mean(known)) if known else math.nan)
        cells = [_number(100 * width, 2) for width in widths]
        lines.append(f"| {decoding} | {' | '.join(cells)} |")
        answers.append(
            f"{decoding}: 95 % intervals of one run's average are {cells[0]} points wide on {ERROR_NAMES[0]} and "
            f"{cells[1]} on {ERROR_NAMES[1]}; of a difference between two methods {cells[2]} on {SEED_ERRORS[0]} and "
            f"{cells[3]} on {SEED_ERRORS[1]}."
        )
    return Section(answers=answers, text="\n".join(lines))


def flips(results: Results, folder: Path) -> Section:
    """Does the choice of grader, or truncation, turn any verdict?"""
    lines = ["## Does grader choice or truncation flip any verdict?", ""]
    answers = []
    for decoding in results.experiment.decodings:
        found = [compare_runs(before, after) for before, after in _pairs(results, decoding)]
        graders = [c for c in found if c.graders_disagree]
        open_samples = [c for c in found if any(task.warnings for task in (*c.tasks, c.average))]
        others = ", ".join(results.experiment.graders)
        answers.append(
            f"{decoding}: of {len(found)} pairs of checkpoints, "
            + (f"grader {others} turns the sign of a difference in {len(graders)}; " if others else "")
            + f"cut-off or ungraded samples could turn the sign of a task in {len(open_samples)}."
        )
        lines.append(f"- {answers[-1]}")
        lines += [f"  - {_named(c)}: {note}" for c in graders for note in c.notes if note.startswith("grader ")]
        for c in open_samples:
            lines += [f"  - {_named(c)}, {t.title}: {w}" for t in (*c.tasks, c.average) for w in t.warnings]
    return Section(answers=answers, text="\n".join(lines))


SECTIONS: Mapping[str, Callable[[Results, Path], Section]] = {
    "differences": differences,
    "ranking": ranking,
    "stability": stability,
    "regimes": regimes,
    "samples": samples,
    "error-bars": error_bars,
    "flips": flips,
    "spurious": spurious,
    "gradients": gradients,
}


def _pairs(results: Results, decoding: str) -> list[tuple[Path, Path]]:
    """Run folders of the reference and of every other variant, seed by seed."""
    reference = results.experiment.reference
    return [
        (results.folder(reference, seed, decoding), results.folder(variant, seed, decoding))
        for seed in results.seeds
        for variant in results.variants
        if variant != reference and reference in results.variants
    ]


def _told_apart(comparisons: Sequence[SeedComparison]) -> str:
    told = [
        f"{comparison.name_b} {effect.verdict} ({signed(effect.difference.value)} points)"
        for comparison in comparisons
        if (effect := comparison.effects[1]).verdict in ("better", "worse")
    ]
    return ", ".join(told) or "none"


def _named(comparison: Comparison) -> str:
    average = comparison.average
    return f"{comparison.name_b} and {comparison.name_a} ({signed(average.value_b - average.value_a)})"


def _count(value: float) -> str:
    return "none is enough" if math.isinf(value) else f"{value:.0f}"


def _number(value: float, digits: int = 3) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
