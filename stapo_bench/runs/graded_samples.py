"""What statistics need of a stored sample: one small ``Draw`` per sample, without its text.

    samples/*.jsonl + grades/<grader>.jsonl --read_draws--> {task: Draws} --matrix--> [num_problems, num_samples]

Reading streams, and works while a run is still being written: what is not there yet is missing, never wrong.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Outcome, Sample, SampleKey
from stapo_bench.runs.columns import DIGEST_SIZE, Draw, Draws, GradedKeys
from stapo_bench.runs.grades import damaged_grade, grade_from_line
from stapo_bench.runs.manifest import Manifest, load_manifest
from stapo_bench.runs.sealed import unseal
from stapo_bench.runs.store import KeySet, check_stamp, complete_lines, sample_from_line, segments
from stapo_bench.statistics import Matrix

__all__ = ["CountedRun", "Draw", "Grades", "LoadedRun", "Outcomes", "load_run", "matrix", "read_draws", "read_grades"]


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


def matrix(draws: Iterable[Draw], problem_ids: Sequence[str], num_samples: int) -> tuple[Matrix, NDArray[np.bool_]]:
    """Outcomes as [num_problems, num_samples], rows in the given order, and where a completion stays undecided.

    Draws of other problems, or beyond ``num_samples``, are left out: a run that was extended to more samples can still
    be read at the smaller number.

    >>> matrix([Draw(problem_id="b", sample_index=1, outcome=Outcome.CORRECT)], ["a", "b"], 2)[0]
    array([[nan, nan],
           [nan,  1.]])
    """
    row_of = {problem_id: row for row, problem_id in enumerate(problem_ids)}
    correct = np.full((len(problem_ids), num_samples), np.nan)
    ungraded = np.zeros(correct.shape, dtype=np.bool_)
    for draw in draws:
        if draw.problem_id in row_of and draw.sample_index < num_samples:
            place = row_of[draw.problem_id], draw.sample_index
            correct[place] = draw.correct
            ungraded[place] = np.isnan(draw.correct)
    return correct, ungraded


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


class Outcomes(Protocol):
    """A run as paired statistics see it: what was asked of each task, and what came out."""

    @property
    def tasks(self) -> Mapping[str, Any]:
        """By task: at least ``problem_ids``."""
        ...

    def outcomes(self, task: str, problem_ids: Sequence[str] | None = None) -> tuple[Matrix, NDArray[np.bool_]]:
        """``matrix`` of a task; of these problems in this order, or of all that were asked."""
        ...


@dataclass(frozen=True, kw_only=True)
class CountedRun:
    """A run of which only counts are known; its matrices have the right samples first.

    >>> CountedRun(counts={"t": {"p": (1, 2), "q": (0, 1)}}).outcomes("t")[0]
    array([[ 1.,  0.],
           [ 0., nan]])
    """

    counts: Mapping[str, Mapping[str, tuple[int, int]]]  # task -> problem -> right and decided samples

    @property
    def tasks(self) -> dict[str, dict[str, Any]]:
        return {task: {"problem_ids": list(counts)} for task, counts in self.counts.items()}

    def outcomes(self, task: str, problem_ids: Sequence[str] | None = None) -> tuple[Matrix, NDArray[np.bool_]]:
        """As ``LoadedRun.outcomes``; nothing is ungraded."""
        ids = self.counts[task] if problem_ids is None else problem_ids
        counts = [self.counts[task][problem_id] for problem_id in ids]
        correct = np.full((len(counts), max((decided for _, decided in counts), default=0)), np.nan)
        for row, (right, decided) in zip(correct, counts, strict=True):
            row[:decided] = 0.0
            row[:right] = 1.0
        return correct, np.zeros(correct.shape, dtype=np.bool_)


@dataclass(frozen=True, kw_only=True)
class LoadedRun:
    """A run's manifest with its draws: what comparisons, plans and audits read."""

    manifest: Manifest
    grader: str  # name and version
    draws: Mapping[str, Sequence[Draw]]  # by task

    @property
    def name(self) -> str:
        return self.manifest.run_dir.resolve().name

    @property
    def tasks(self) -> dict[str, dict[str, Any]]:
        """What was asked of each task: title, problem_ids, num_samples."""
        return dict(self.manifest.about["tasks"])

    def title(self, task: str) -> str:
        return str(self.tasks[task].get("title", task))

    def outcomes(self, task: str, problem_ids: Sequence[str] | None = None) -> tuple[Matrix, NDArray[np.bool_]]:
        """``matrix`` of a task; of these problems in this order, or of all that were asked."""
        asked = self.tasks[task]
        ids = asked["problem_ids"] if problem_ids is None else problem_ids
        return matrix(self.draws.get(task, []), ids, int(asked["num_samples"]))


def load_run(run_dir: Path, grader: str = DEFAULT_GRADER) -> LoadedRun:
    """Read a run with the grades of one grader."""
    manifest = load_manifest(run_dir)
    grades = read_grades(run_dir, grader)
    return LoadedRun(manifest=manifest, grader=grades.grader, draws=read_draws(run_dir, grades, manifest.stamps))
