"""What statistics need of a stored sample: one small ``Draw`` per sample, without its text.

    samples/*.jsonl + grades/<grader>.jsonl --read_draws--> {task: Draws} --outcomes_of--> Outcomes

Reading streams, and works while a run is still being written: what is not there yet is missing, never wrong.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Outcome, Outcomes, Sample, SampleKey
from stapo_bench.runs.columns import DIGEST_SIZE, Draw, Draws, GradedKeys
from stapo_bench.runs.grades import damaged_grade, grade_from_line
from stapo_bench.runs.manifest import AskedTask, Manifest, load_manifest
from stapo_bench.runs.sealed import unseal
from stapo_bench.runs.store import KeySet, check_stamp, complete_lines, sample_from_line, segments


@dataclass(frozen=True, kw_only=True)
class Grades:
    """A grade file: its grader's name and version, and what it found."""

    grader: str
    outcomes: Mapping[SampleKey, tuple[Outcome, str | None]]


def read_grades(run_dir: Path, grader: str) -> Grades:
    """Read ``grades/<grader>.jsonl``; the last line of a key counts.

    Raises:
        StapoError: no such file (the error names those that exist), or a damaged line.
    """
    path = run_dir / "grades" / f"{grader}.jsonl"
    if not path.is_file():
        found = ", ".join(sorted(p.stem for p in (run_dir / "grades").glob("*.jsonl"))) or "none"
        raise StapoError(f"{run_dir}: expected grades by '{grader}', found {found}; run 'stapo-bench grade {run_dir}'")
    version = grader
    outcomes = GradedKeys()
    for number, line in complete_lines(path):
        try:
            if number == 1 and (header := _header(line)):
                version = header
                continue
            key, grade = grade_from_line(line)
            outcomes.set(key, grade.outcome, grade.extracted)
        except (ValueError, TypeError) as error:
            raise damaged_grade(path, number, error) from None
    return Grades(grader=version, outcomes=outcomes)


def _header(line: bytes) -> str | None:
    """The grader's name and version, where a line states them alone."""
    row = unseal(line)
    return str(row["grader"]) if set(row) == {"grader"} else None


def read_draws(run_dir: Path, grades: Grades | None, stamps: Mapping[str, str] | None = None) -> dict[str, Draws]:
    """The draws of a run by task, in order of their keys; a key that was stored twice counts once (its first line).

    ``stamps``: the manifest's; samples drawn under other settings are then refused.
    """
    seen = KeySet()
    draws: dict[str, Draws] = {}
    for path in segments(run_dir):
        for number, line in complete_lines(path):
            try:
                sample = sample_from_line(line)
                check_stamp(sample, stamps)
                if seen.add(sample.key):
                    draws.setdefault(sample.task, Draws()).append(_draw(sample, path.name, grades))
            except (ValueError, OverflowError) as error:
                raise StapoError(
                    f"{path}:{number}: expected a sample, got a damaged line: {error}; "
                    "restore the file, or delete this line and run eval again to draw its sample anew"
                ) from None
    for of_task in draws.values():
        of_task.sort()
    return dict(sorted(draws.items()))


def outcomes_of(draws: Iterable[Draw], problem_ids: Sequence[str], num_samples: int) -> Outcomes:
    """Outcomes of a task's samples, rows in the given order.

    Samples of other problems, or beyond ``num_samples``, are left out: a run that was extended to more samples can
    still be read at the smaller number.

    >>> outcomes_of([Draw(problem_id="b", sample_index=1, outcome=Outcome.CORRECT)], ["a", "b"], 2).scores
    array([[nan, nan],
           [nan,  1.]])
    """
    row_of = {problem_id: row for row, problem_id in enumerate(problem_ids)}
    scores = np.full((len(problem_ids), num_samples), np.nan)
    undecided = np.zeros(scores.shape, dtype=np.bool_)
    for draw in draws:
        if draw.problem_id in row_of and draw.sample_index < num_samples:
            place = row_of[draw.problem_id], draw.sample_index
            scores[place] = draw.correct
            undecided[place] = np.isnan(draw.correct)
    return Outcomes(problem_ids=tuple(problem_ids), scores=scores, undecided=undecided)


def _draw(sample: Sample, segment: str, grades: Grades | None) -> Draw:
    outcome, extracted = (grades.outcomes.get(sample.key) if grades else None) or (None, None)
    text = sample.completion.encode("utf-8", "surrogatepass")
    return Draw(
        problem_id=sample.problem_id,
        sample_index=sample.sample_index,
        outcome=outcome,
        extracted=extracted,
        truncated=sample.finish_reason == "length",
        failed=sample.finish_reason == "error",
        num_tokens=sample.num_tokens,
        seconds=sample.seconds,
        seed=sample.seed,
        segment=segment,
        text_digest=hashlib.blake2b(text, digest_size=DIGEST_SIZE).digest(),
        sum_log_prob=sample.sum_log_prob,
    )


@dataclass(frozen=True, kw_only=True)
class LoadedRun:
    """A run's manifest with its draws: what comparisons, plans and audits read."""

    manifest: Manifest
    grader: str  # name and version
    draws: Mapping[str, Sequence[Draw]]  # by task

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
            name: outcomes_of(self.draws.get(name, []), task.problem_ids, task.num_samples)
            for name, task in self.tasks.items()
        }


def load_run(run_dir: Path, grader: str = DEFAULT_GRADER) -> LoadedRun:
    """Read a run with the grades of one grader."""
    manifest = load_manifest(run_dir)
    grades = read_grades(run_dir, grader)
    return LoadedRun(manifest=manifest, grader=grades.grader, draws=read_draws(run_dir, grades, manifest.stamps))
