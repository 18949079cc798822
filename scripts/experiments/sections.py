"""The parts of a page that answer one question each: Markdown from results; every number is read, none is typed."""

import math
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
from silenced import spurious

from results import Results
from stapo_bench.compare import Comparison, compare_runs
from stapo_bench.intervals import ERROR_NAMES, signed
from stapo_bench.over_seeds import SEED_ERRORS, over_seeds
from stapo_bench.plan import plan_runs
from stapo_train.stability import FACTOR, read_entropies
from stapo_train.stability import stability as steadiness

DETECT = 0.02
"""The difference that evaluation questions are about: two points."""


def ranking(results: Results) -> str:
    """Does the order of the methods hold in both regimes, and is any pair told apart with opposite signs?"""
    means = {
        decoding: {variant: float(np.mean([s.macro.value for s in scores])) for variant, scores in found.items()}
        for decoding, found in results.scores.items()
    }
    orders = {decoding: sorted(values, key=lambda v: -values[v]) for decoding, values in means.items()}
    lines = ["## Does the ranking hold in both regimes?", ""]
    lines += [f"- {decoding}: {' > '.join(order)}" for decoding, order in orders.items()]
    for one, other in combinations(means, 2):
        pairs = list(combinations(means[one], 2))
        turned = [(a, b) for a, b in pairs if (means[one][a] - means[one][b]) * (means[other][a] - means[other][b]) < 0]
        sure = [
            first.name_b
            for first, second in zip(results.comparisons[one], results.comparisons[other], strict=True)
            if {first.effects[0].verdict, second.effects[0].verdict} == {"better", "worse"}
        ]
        lines += [
            "",
            f"Of {len(pairs)} pairs {len(turned)} change places between {one} and {other}"
            + (f" ({', '.join(f'{a} and {b}' for a, b in turned)})" if turned else "")
            + f"; told apart from {results.experiment.reference} with opposite signs: {', '.join(sure) or 'none'}.",
        ]
    return "\n".join(lines)


def stability(results: Results) -> str:
    """Entropy-stability score, paired over seeds: the reference against every other."""
    scores, reference = results.stabilities(), results.experiment.reference
    lines = [
        "## Entropy stability",
        "",
        "exp(-mean |ln(H_t / H_0)|) over training, 1 for constant entropy; differences are paired over seeds.",
        "",
        f"| Variant | mean over seeds | minus {reference}, 95 % interval |",
        "|---|---|---|",
    ]
    for variant, values in scores.items():
        change = np.array(values)[:, None] - np.array(scores[reference])[:, None]
        difference = over_seeds([change], "seeds like these")
        interval = difference.interval()
        told = f"{difference.value:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
        unknown = math.isnan(interval.low) or variant == reference
        lines.append(f"| {variant} | {_number(float(np.mean(values)))} | {'–' if unknown else told} |")
    return "\n".join(lines)


def regimes(results: Results) -> str:
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
    for variant in results.experiment.variants:
        found = [steadiness(read_entropies(t.folder)) for t in results.trainings if t.variant == variant]
        if found:
            counts = [sum(one.verdict == verdict for one in found) for verdict in ("collapse", "explosion", "stable")]
            means = [float(np.mean(column)) for column in zip(*((f.start, f.end, f.score) for f in found), strict=True)]
            lines.append(f"| {variant} | {' | '.join(map(str, counts))} | {' | '.join(f'{m:.3f}' for m in means)} |")
    return "\n".join(lines)


def samples(results: Results) -> str:
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
    return "\n".join(lines)


def error_bars(results: Results) -> str:
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
    for decoding, found in results.scores.items():
        macros = [score.macro for scores in found.values() for score in scores]
        of_runs = [(m.these_problems.width, m.problems_like_these.width) for m in macros]
        widths = [float(np.mean(column)) for column in zip(*of_runs, strict=True)]
        for place in range(len(SEED_ERRORS)):
            of_error = [c.effects[place].difference.interval().width for c in results.comparisons[decoding]]
            known = [width for width in of_error if not math.isnan(width)]
            widths.append(float(np.mean(known)) if known else math.nan)
        lines.append(f"| {decoding} | " + " | ".join(_number(100 * w, 2) for w in widths) + " |")
    return "\n".join(lines)


def flips(results: Results) -> str:
    """Does the choice of grader, or truncation, turn any verdict?"""
    lines = ["## Does grader choice or truncation flip any verdict?", ""]
    others = ", ".join(results.experiment.graders)
    for decoding in results.experiment.decodings:
        found = [compare_runs(before, after) for before, after in _pairs(results, decoding)]
        graders = [c for c in found if c.graders_disagree]
        open_samples = [c for c in found if any(task.warnings for task in c.tasks)]
        lines.append(
            f"- {decoding}: of {len(found)} pairs of checkpoints, another grader ({others}) "
            f"sees the opposite sign somewhere in {len(graders)}; cut-off or ungraded samples could turn the sign of a "
            f"task in {len(open_samples)}."
        )
        lines += [f"  - {_named(c)}: {note}" for c in graders for note in c.notes if note.startswith("grader ")]
        lines += [f"  - {_named(c)}, {t.title}: {w}" for c in open_samples for t in c.tasks for w in t.warnings]
    return "\n".join(lines)


SECTIONS: Mapping[str, Callable[[Results], str]] = {
    "ranking": ranking,
    "stability": stability,
    "regimes": regimes,
    "samples": samples,
    "error-bars": error_bars,
    "flips": flips,
    "spurious": spurious,
}


def _pairs(results: Results, decoding: str) -> list[tuple[Path, Path]]:
    """Run folders of the reference and of every other variant, seed by seed."""
    experiment = results.experiment
    return [
        (results.folder(experiment.reference, seed, decoding), results.folder(variant, seed, decoding))
        for seed in experiment.used_seeds
        for variant in experiment.variants
        if variant != experiment.reference
    ]


def _named(comparison: Comparison) -> str:
    average = comparison.average
    return f"{comparison.name_b} and {comparison.name_a} ({signed(average.value_b - average.value_a)})"


def _count(value: float) -> str:
    return "none is enough" if math.isinf(value) else f"{value:.0f}"


def _number(value: float, digits: int = 3) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
