"""A run under every grader that graded it: scores side by side, where graders disagree, and the answers they dispute.

    agreement = compare_graders(Path("results/base-justrl"))     # None as long as there is one grade file

Two graders disagree on a sample that both decided and one of them accepts. What a grader left open (it failed, or has
not seen the sample) is no disagreement: it widens that grader's bounds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from stapo_bench.records import Outcome, Outcomes, SampleKey
from stapo_bench.runs import (
    GradedSample,
    Grades,
    Manifest,
    golds_at_hand,
    grade_files,
    load_manifest,
    outcomes_of,
    read_grades,
    samples_of,
    split_golds,
)
from stapo_bench.statistics import Interval, Matrix, avg_at_k, score_bounds


@dataclass(frozen=True, kw_only=True)
class GraderScore:
    """One grader's avg@k of each task, as fractions, with bounds for what it left undecided."""

    name: str  # of the grade file
    version: str
    values: Mapping[str, float]
    bounds: Mapping[str, Interval]


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """How many of the samples that both graders decided only one of them accepts."""

    first: str
    second: str
    by_task: Mapping[str, tuple[int, int]]  # disputed, decided by both


@dataclass(frozen=True, kw_only=True)
class Dispute:
    """An answer to a problem on which graders disagree."""

    task: str
    problem_id: str
    readings: tuple[str | None, ...]  # of the answer, in the graders' order; None: none found
    verdicts: tuple[Outcome | None, ...]  # in the same order; None: not graded
    num_samples: int
    gold: str | None = None  # where the data are at hand

    @property
    def extracted(self) -> str | None:
        """The answer as the first grader that found one read it."""
        return next((reading for reading in self.readings if reading is not None), None)


@dataclass(frozen=True, kw_only=True)
class GraderAgreement:
    """The graders of one run: what each scores, how often two disagree, and on which answers."""

    titles: Mapping[str, str]  # of the tasks, in the run's order
    scores: tuple[GraderScore, ...]
    disagreements: tuple[Disagreement, ...]
    disputes: tuple[Dispute, ...]  # those that affect most samples first
    note: str = ""  # why no golds are shown


def compare_graders(run_dir: Path, data_dir: Path | None = None) -> GraderAgreement | None:
    """Compare a run's grade files as they are; None where there are fewer than two."""
    names = grade_files(run_dir)
    if len(names) < 2:
        return None
    manifest = load_manifest(run_dir)
    asked = manifest.about.tasks
    grades = [read_grades(run_dir, name) for name in names]
    samples = _asked_samples(manifest)
    decided = [_outcomes_by_task(manifest, samples, each) for each in grades]
    disputes = _disputes(samples, grades)
    golds, note = _gold_texts(manifest, data_dir, names) if disputes else ({}, "")
    return GraderAgreement(
        titles={task: asked[task].title for task in asked},
        scores=tuple(_score(*item) for item in zip(names, grades, decided, strict=True)),
        disagreements=tuple(
            Disagreement(
                first=names[i],
                second=names[j],
                by_task={task: _disagreement(decided[i][task].scores, decided[j][task].scores) for task in asked},
            )
            for i, j in combinations(range(len(names)), 2)
        ),
        disputes=tuple(replace(d, gold=golds.get((d.task, d.problem_id))) for d in disputes),
        note=note,
    )


def _asked_samples(manifest: Manifest) -> dict[str, list[GradedSample]]:
    """The stored samples that the run asks for, without grades."""
    samples = samples_of(manifest, None)
    asked = manifest.about.tasks
    wanted = {task: (set(asked[task].problem_ids), asked[task].num_samples) for task in asked}
    return {
        task: [d for d in samples.get(task, []) if d.problem_id in ids and d.sample_index < num_samples]
        for task, (ids, num_samples) in wanted.items()
    }


def _outcomes_by_task(
    manifest: Manifest, samples: Mapping[str, Sequence[GradedSample]], grades: Grades
) -> dict[str, Outcomes]:
    """The outcomes of every task under one grader."""
    found = {}
    for task, asked in manifest.about.tasks.items():
        graded = [replace(sample, outcome=_outcome(grades, task, sample)) for sample in samples[task]]
        found[task] = outcomes_of(graded, asked.problem_ids, asked.num_samples)
    return found


def _outcome(grades: Grades, task: str, sample: GradedSample) -> Outcome | None:
    return grades.outcomes.get(SampleKey(task, sample.problem_id, sample.sample_index), (None, None))[0]


def _score(name: str, grades: Grades, decided: Mapping[str, Outcomes]) -> GraderScore:
    ends = {task: score_bounds(found.scores, found.undecided) for task, found in decided.items()}
    return GraderScore(
        name=name,
        version=grades.grader,
        values={task: avg_at_k(found.scores) for task, found in decided.items()},
        bounds={task: Interval(low=low, high=high) for task, (low, high) in ends.items()},
    )


def _disagreement(first: Matrix, second: Matrix) -> tuple[int, int]:
    both = np.isfinite(first) & np.isfinite(second)
    return int((both & (first != second)).sum()), int(both.sum())


def _disputes(samples: Mapping[str, Sequence[GradedSample]], grades: Sequence[Grades]) -> list[Dispute]:
    """Disputed answers, each with the number of samples that give it, most samples first."""
    counts: Counter[tuple[str, str, tuple[str | None, ...], tuple[Outcome | None, ...]]] = Counter()
    for task, task_samples in samples.items():
        for sample in task_samples:
            key = SampleKey(task, sample.problem_id, sample.sample_index)
            found = [each.outcomes.get(key, (None, None)) for each in grades]
            verdicts = tuple(outcome for outcome, _ in found)
            if Outcome.CORRECT in verdicts and {Outcome.INCORRECT, Outcome.NO_ANSWER} & set(verdicts):
                counts[task, sample.problem_id, tuple(text for _, text in found), verdicts] += 1
    return [
        Dispute(task=task, problem_id=problem_id, readings=readings, verdicts=verdicts, num_samples=count)
        for (task, problem_id, readings, verdicts), count in counts.most_common()
    ]


def _gold_texts(
    manifest: Manifest, data_dir: Path | None, names: Sequence[str]
) -> tuple[dict[tuple[str, str], str], str]:
    """Golds by (task, problem_id) where no download is needed, with their corrections where a grader used them."""
    found, note = golds_at_hand(manifest, data_dir)
    golds = {key: gold.answer for key, gold in found.items()}
    if golds and any(split_golds(name)[1] == "corrected" for name in names):
        for key, gold in golds_at_hand(manifest, data_dir, "corrected")[0].items():
            golds[key] += f" → {gold.answer}" if gold.answer != golds[key] else ""
    return golds, note
