"""Page sections on what it takes to tell methods apart: how many samples and seeds, which error, which grader."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from stapo_bench.analysis import Comparison, SeedComparison, TaskPlan, compare_runs, plan_runs
from stapo_bench.presenting import sign_risk, signed, table_rows
from stapo_bench.statistics import ERROR_NAMES, POWER, SEED_ERRORS, ErrorName, normal_quantile, seeds_needed
from stapo_train.experiments.design import in_words
from stapo_train.experiments.findings import Findings
from stapo_train.experiments.section import Section

DETECT = 0.02
"""The difference that the questions are about: two points."""


def samples(findings: Findings, folder: Path) -> Section:
    """How many samples, and how many seeds, does a difference of two points need?"""
    points, reference = f"{100 * DETECT:g} points", findings.experiment.reference
    lines = [
        f"## How many samples does a difference of {points} need?",
        "",
        f"Samples per problem and run at which a single pair of checkpoints shows it with {POWER:.0%} power; median "
        f"over seeds and over all trained variants against {reference}. The average is over the tasks: there a factor "
        "of the present samples.",
        "",
        "| Decoding | Task | present | these problems | problems like these | problems needed at the present samples |",
        "|---|---|---|---|---|---|",
    ]
    answers = []
    for decoding in findings.experiment.decodings:
        plans = [plan_runs(before, after, DETECT, POWER).tasks for before, after in _pairs(findings, decoding)]
        if not plans:
            continue
        words = in_words(decoding)
        for of_task in zip(*plans, strict=True):
            present = f"{np.median([np.mean(task.num_samples) for task in of_task]):.0f}"
            needs = [
                _count(_median([need.num_samples or math.inf for need in of_error]))
                for of_error in ([t.these_problems for t in of_task], [t.problems_like_these for t in of_task])
            ]
            problems = _count(_median([float(task.problems_like_these.num_problems) for task in of_task]))
            lines.append(f"| {words} | {of_task[0].title} | {present} | {needs[0]} | {needs[1]} | {problems} |")
        these, like = (_factor(_median([samples_factor(tasks, error) for tasks in plans])) for error in ERROR_NAMES)
        lines.append(f"| {words} | Average | 1 × | {these} | {like} | |")
        answers.append(
            f"{words}: to show {points} of the average between two checkpoints takes {these} the present samples on "
            f"{ERROR_NAMES[0]} and {like} on {ERROR_NAMES[1]}; between two methods, {_seeds(findings, decoding)}."
        )
    return Section(answers=answers, text="\n".join([*lines, "", *(f"- {answer}" for answer in answers)]))


def samples_factor(tasks: Sequence[TaskPlan], error: ErrorName) -> float:
    """The multiple of the present samples at which a task-mean difference of ``DETECT`` shows; infinite: none does.

    V(m) = sum_t (between_t / n_t + noise_t / m) / T^2, and a power of 80 % needs sqrt V = DETECT / 2.80.
    """
    fixed = noise = 0.0
    for task in tasks:
        found = task.components
        fixed += found.standard_error(error, math.inf) ** 2
        noise += found.noise / found.num_problems
    allowed = (DETECT * len(tasks) / (normal_quantile(0.95) + normal_quantile(2 * POWER - 1))) ** 2
    return noise / (allowed - fixed) if allowed > fixed else math.inf


def _seeds(findings: Findings, decoding: str) -> str:
    """The seeds needed, in words, at the present number of samples and on the same problems."""
    found = [seeds_needed(c.spread, DETECT, SEED_ERRORS[0]).number for c in _of_trained(findings, decoding)]
    known = [number for number in found if not math.isnan(number)]
    return f"{_median(known):.0f} seeds of each" if known else "seeds whose number these runs do not tell"


def error_bars(findings: Findings, folder: Path) -> Section:
    """How much do the two kinds of error bars differ?"""
    lines = [
        "## How far apart do the error bars lie?",
        "",
        "Mean width of 95 % intervals in points. Of one checkpoint's average, and of a difference between two trained "
        "methods.",
        "",
        f"| Decoding | one run: {ERROR_NAMES[0]} | one run: {ERROR_NAMES[1]} "
        f"| difference: {SEED_ERRORS[0]} | difference: {SEED_ERRORS[1]} |",
        "|---|---|---|---|---|",
    ]
    answers = []
    for decoding, found in findings.scores.items():
        macros = [score.macro for scores in found.values() for score in scores]
        of_runs = [(m.these_problems.width, m.problems_like_these.width) for m in macros]
        widths = [float(np.mean(column)) for column in zip(*of_runs, strict=True)]
        for place in range(len(SEED_ERRORS)):
            of_error = [c.effects[place].difference.interval().width for c in _of_trained(findings, decoding)]
            known = [width for width in of_error if not math.isnan(width)]
            widths.append(float(np.mean(known)) if known else math.nan)
        cells = ["–" if math.isnan(width) else f"{100 * width:.2f}" for width in widths]
        lines.append(f"| {in_words(decoding)} | {' | '.join(cells)} |")
        answers.append(
            f"{in_words(decoding)}: 95 % intervals of one run's average are {cells[0]} points wide on {ERROR_NAMES[0]} "
            f"and {cells[1]} on {ERROR_NAMES[1]}; of a difference between two trained methods {cells[2]} on "
            f"{SEED_ERRORS[0]} and {cells[3]} on {SEED_ERRORS[1]}."
        )
    return Section(answers=answers, text="\n".join(lines))


def flips(findings: Findings, folder: Path) -> Section:
    """Does the choice of grader, or truncation, change a verdict over seeds or the sign of a checkpoint pair?"""
    lines = ["## Does grader choice or truncation flip any verdict?", ""]
    answers = []
    for decoding, by_variant in findings.scores.items():
        tasks = [task for scores in by_variant.values() for score in scores for task in score.tasks]
        cut, drawn = (sum(getattr(task, name) for task in tasks) for name in ("num_truncated", "num_samples"))
        found = [compare_runs(before, after) for before, after in _pairs(findings, decoding, untrained=True)]
        open_samples = [c for c in found if any(task.warnings for task in table_rows(c))]
        notes: list[str] = []
        told = [
            f"of {drawn:,} samples {cut:,} are cut off, which could turn the sign of a task in {len(open_samples)} of "
            f"{len(found)} pairs of checkpoints"
        ]
        for grader in findings.experiment.graders:
            turned = _turned(findings.comparisons[decoding], findings.compared(findings.graded(decoding, grader)))
            signs = [c for c in found if any(_is_of(grader, note) for note in c.notes)]
            told.append(
                f"by grader {grader} {len(turned)} of {len(findings.comparisons[decoding])} verdicts over seeds are "
                f"others{' (' + ', '.join(turned) + ')' if turned else ''}, and {len(signs)} signs of pairs"
            )
            notes += [f"  - {_named(c)}: {note}" for c in signs for note in c.notes if _is_of(grader, note)]
        answers.append(f"{in_words(decoding)}: {'; '.join(told)}.")
        lines += [f"- {answers[-1]}", *notes]
        for c in open_samples:
            lines += [f"  - {_named(c)}, {t.title}: {sign_risk(w)}" for t in table_rows(c) for w in t.warnings]
    return Section(answers=answers, text="\n".join(lines))


def _is_of(grader: str, note: str) -> bool:
    return note.startswith(f"grader '{grader}' ")


def _turned(ours: Sequence[SeedComparison], theirs: Sequence[SeedComparison]) -> list[str]:
    """The variants whose verdict under the broader error differs."""
    pairs = (
        (one.name_b, one.effects[1].verdict, other.effects[1].verdict) for one, other in zip(ours, theirs, strict=True)
    )
    return [f"{name}: {verdict} becomes {other}" for name, verdict, other in pairs if verdict != other]


def _of_trained(findings: Findings, decoding: str) -> Iterator[SeedComparison]:
    untrained = findings.experiment.untrained
    return (found for found in findings.comparisons[decoding] if found.name_b not in untrained)


def _pairs(findings: Findings, decoding: str, *, untrained: bool = False) -> list[tuple[Path, Path]]:
    """Run folders of the reference and of every other variant, seed by seed."""
    reference = findings.experiment.reference
    others = [v for v in findings.variants if v != reference and (untrained or v not in findings.experiment.untrained)]
    return [
        (findings.folder(reference, seed, decoding), findings.folder(variant, seed, decoding))
        for seed in findings.seeds
        for variant in others
        if reference in findings.variants
    ]


def _named(comparison: Comparison) -> str:
    average = comparison.average
    return f"{comparison.name_b} and {comparison.name_a} ({signed(average.value_b - average.value_a)})"


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


def _count(value: float) -> str:
    return "none is enough" if math.isinf(value) else f"{value:.0f}"


def _factor(value: float) -> str:
    return "no number of times" if math.isinf(value) else f"{value:.2g} ×"
