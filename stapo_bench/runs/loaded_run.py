"""A run as statistics read it: its manifest and graded samples.

    samples/*.jsonl + grades/<grader>.jsonl --load_run--> LoadedRun --outcomes--> Outcomes of each task

Reading streams, and works while a run is still being written: what is not there yet is missing, never wrong.
"""

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Outcomes, Sample
from stapo_bench.runs.copies import mark_copies
from stapo_bench.runs.golds import read_problems
from stapo_bench.runs.graded_samples import DIGEST_SIZE, START_TOKENS, GradedSample, GradedSamples
from stapo_bench.runs.grades import Grades, read_grades
from stapo_bench.runs.manifest import AskedTask, Manifest, load_manifest
from stapo_bench.runs.store import first_of_each, stored_samples

_TOKEN_BYTES = 8  # of a text, more than tokens of mathematics have on average
_LOOP_BYTES = 8192  # of a text in which a loop is looked for


def samples_of(manifest: Manifest, grades: Grades | None) -> dict[str, GradedSamples]:
    """The samples of a run by task, in order of their keys, with copies marked: what every number of a run rests on."""
    samples = read_graded_samples(manifest.run_dir, grades, manifest.stamps)
    mark_copies(samples, manifest.identity.sampling, as_drawn=manifest.identity.log_probs_as_drawn)
    return samples


def read_graded_samples(
    run_dir: Path, grades: Grades | None, stamps: Mapping[str, str] | None = None
) -> dict[str, GradedSamples]:
    """The samples of a run by task, in order of their keys; a key that was stored twice counts once (its first line).

    ``stamps``: the manifest's; samples made under other settings are then refused.
    """
    by_task: dict[str, GradedSamples] = {}
    for stored in first_of_each(stored_samples(run_dir, stamps)):
        graded = graded_sample(stored.sample, stored.segment.name, grades)
        by_task.setdefault(stored.sample.task, GradedSamples()).append(graded)
    for samples in by_task.values():
        samples.sort()
    return dict(sorted(by_task.items()))


def outcomes_of(
    samples: Iterable[GradedSample],
    problem_ids: Sequence[str],
    num_samples: int,
    clusters: Mapping[str, str] | None = None,
) -> Outcomes:
    """Outcomes of a task's samples, rows in the given order.

    Samples of other problems, or beyond ``num_samples``, are left out: a run that was extended to more samples can
    still be read at the smaller number. ``clusters``: by problem, where it is known which belong together.

    >>> from stapo_bench.records import Outcome
    >>> outcomes_of([GradedSample(problem_id="b", sample_index=1, outcome=Outcome.CORRECT)], ["a", "b"], 2).scores
    array([[nan, nan],
           [nan,  1.]])
    """
    row_of = {problem_id: row for row, problem_id in enumerate(problem_ids)}
    scores = np.full((len(problem_ids), num_samples), np.nan)
    undecided = np.zeros(scores.shape, dtype=np.bool_)
    for sample in samples:
        if sample.problem_id in row_of and sample.sample_index < num_samples:
            place = row_of[sample.problem_id], sample.sample_index
            scores[place] = sample.correct
            undecided[place] = np.isnan(sample.correct) and not sample.is_copy
    named = None if clusters is None else tuple(clusters[problem_id] for problem_id in problem_ids)
    return Outcomes(problem_ids=tuple(problem_ids), scores=scores, undecided=undecided, clusters=named)


def graded_sample(sample: Sample, segment: str = "", grades: Grades | None = None) -> GradedSample:
    """A stored sample without its text, with its grade where there is one."""
    outcome, extracted = (grades.outcomes.get(sample.key) if grades else None) or (None, None)
    text = sample.completion.encode("utf-8", "surrogatepass")
    return GradedSample(
        problem_id=sample.problem_id,
        sample_index=sample.sample_index,
        outcome=outcome,
        extracted=extracted,
        is_unread=grades is not None and grades.outcomes.is_unread(sample.key),
        truncated=None if sample.finish_reason is None else sample.finish_reason == "length",
        failed=sample.finish_reason == "error",
        num_tokens=sample.num_tokens,
        seconds=sample.seconds,
        seed=sample.seed,
        segment=segment,
        text_digest=_digest(text),
        sum_log_prob=sample.sum_log_prob,
        model=sample.model,
        text_tokens=_text_tokens(sample, text),
        start_digest=_start_digest(text),
    )


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=DIGEST_SIZE).digest()


def _start_digest(text: bytes) -> bytes | None:
    """Of the first tokens, where they are no loop and more follow."""
    start = text[: START_TOKENS * _TOKEN_BYTES]
    goes_on = len(text) > len(start) and len(zlib.compress(start, 1)) >= START_TOKENS
    return _digest(start) if goes_on else None


def _text_tokens(sample: Sample, text: bytes) -> int:
    """Tokens that an equal text has in common with this one, at least.

    A server may tell too few. A model that loops until it is cut off adds nothing by going on: what compression leaves
    of such a text counts.
    """
    told = max(sample.num_tokens or 0, len(text) // _TOKEN_BYTES)
    return min(told, len(zlib.compress(text[:_LOOP_BYTES], 1))) if sample.finish_reason == "length" else told


Rows = NDArray[np.void]
"""Samples in columns, [num_samples], see ``Drawn``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """All samples of a run in columns, problem after problem, for whoever holds it beside many others."""

    places: Mapping[tuple[str, str], int]  # of each problem by task and id, in their order: what ``problem`` says
    segments: tuple[str, ...]  # the files: what ``segment`` says
    rows: Rows

    COLUMNS: ClassVar = np.dtype(
        [(name, np.int64) for name in ("problem", "index", "segment", "text_tokens")]
        + [("text", np.uint64), ("is_copy", np.bool_)]  # equal texts have equal numbers
        + [(name, np.float64) for name in ("correct", "num_tokens", "truncated", "sum_log_prob")]  # NaN: not known
    )

    def of(self, problems: Sequence[tuple[str, str]]) -> Rows:
        """A copy of those samples that are of these problems, each a task and an id; ``problem`` says which of them."""
        number = np.full(len(self.places), -1)
        for i, problem in enumerate(problems):
            if problem in self.places:
                number[self.places[problem]] = i
        numbers = number[self.rows["problem"]]
        rows: Rows = self.rows[numbers >= 0]
        rows["problem"] = numbers[numbers >= 0]
        return rows


@dataclass(frozen=True, kw_only=True)
class LoadedRun:
    """A run's manifest with its graded samples: what comparisons, plans and audits read."""

    manifest: Manifest
    grader: str  # name and version
    samples: Mapping[str, Sequence[GradedSample]]  # by task
    clusters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by task and problem; see ``clustered``
    tasks_are_clusters: bool = False  # the problems of a task belong together, and all tasks are one set

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.manifest.name

    @property
    def tasks(self) -> Mapping[str, AskedTask]:
        """What was asked of each task."""
        return self.manifest.about.tasks

    def title(self, task: str) -> str:
        """A task's name in a table."""
        return self.tasks[task].title

    @cached_property
    def outcomes(self) -> Mapping[str, Outcomes]:
        """By task, the outcomes of all that was asked for."""
        return {
            name: outcomes_of(self.samples.get(name, []), task.problem_ids, task.num_samples, self.clusters.get(name))
            for name, task in self.tasks.items()
        }

    @cached_property
    def drawn(self) -> Drawn:
        """All its samples, in columns."""
        keyed = sorted(self.samples.items())
        places = {key: i for i, key in enumerate(sorted({(t, s.problem_id) for t, samples in keyed for s in samples}))}
        segments: dict[str, int] = {}
        rows = (
            (
                *(places[task, s.problem_id], s.sample_index, segments.setdefault(s.segment, len(segments))),
                *(s.text_tokens, int.from_bytes(s.text_digest, "little"), s.is_copy),
                *(s.correct, _known(s.num_tokens), _known(s.truncated), _known(s.sum_log_prob)),
            )
            for task, samples in keyed
            for s in samples
        )
        columns = np.fromiter(rows, dtype=Drawn.COLUMNS)
        order = np.argsort(columns["problem"], kind="stable")
        return Drawn(places=places, segments=tuple(segments), rows=columns[order])


def _known(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def load_run(run_dir: Path, grader: str = DEFAULT_GRADER) -> LoadedRun:
    """Read a run with the grades of one grader."""
    manifest = load_manifest(run_dir)
    grades = read_grades(run_dir, grader)
    return LoadedRun(manifest=manifest, grader=grades.grader, samples=samples_of(manifest, grades))


def clustered(run: LoadedRun, column: str, data_dir: Path | None = None) -> LoadedRun:
    """The run with its problems in clusters: those of which a column of the task's data says the same belong together.

    Args:
        run: its tasks' data are read again.
        column: of every task's data, such as a subject; ``task`` is always the task itself, whatever the data name so.
        data_dir: folder with ``<task>.jsonl``; None: the hub, with the columns that the task file names.

    Raises:
        StapoError: no such data, or no such column.
    """
    if column == "task":
        return replace(run, tasks_are_clusters=True)
    clusters: dict[str, dict[str, str]] = {}
    for problem in read_problems(run.manifest, data_dir):
        if (value := problem.columns.get(column)) in (None, "", []):
            there = ", ".join(name for name, found in problem.columns.items() if found is not None)
            raise StapoError(
                f"{run.name}: expected '{column}' to name a cluster of every problem, got none of {problem.problem_id} "
                f"in {problem.task}; " + (f"its columns: {there}" if there else "an imported run has no columns")
            )
        clusters.setdefault(problem.task, {})[problem.problem_id] = str(value)
    return replace(run, clusters=clusters)
