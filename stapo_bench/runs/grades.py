"""Grade the samples of a run: ``grades/<grader>.jsonl``, one line per sample, made again at any time from the samples.

The first line names the grader's version. Only samples without a grade are graded; another version grades all anew.

    grade_run(Path("results/base-justrl"))                      # grades/math.jsonl
    grade_run(Path("results/base-justrl"), "math+corrected")    # against corrected golds: a file of their own
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Gold, Grade, Outcome, Sample, SampleKey
from stapo_bench.runs.golds import read_golds, split_golds, version_with_golds
from stapo_bench.runs.manifest import load_manifest
from stapo_bench.runs.sealed import seal, unseal
from stapo_bench.runs.store import KeySet, after_last_newline, complete_lines, read_samples

_FIELDS = (*SampleKey._fields, "outcome", "extracted")  # of a line, besides a detail
_BATCH = 512  # pairs handed to the workers at once; each batch is synced before the next


@dataclass(frozen=True, kw_only=True)
class Grading:
    """What ``grade_run`` did."""

    grader: str  # name and version
    num_graded: int  # by this call
    num_kept: int  # graded before


def grade_run(
    run_dir: Path,
    grader: str = DEFAULT_GRADER,
    *,
    data_dir: Path | None = None,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Grading:
    """Grade every sample of a run that the grader's present version has not graded.

    Args:
        run_dir: a run folder; writers may be at work in it.
        grader: a name from ``stapo_bench.grading.registry``, with ``+corrected`` for corrected golds.
        data_dir: where the golds are, as in ``load_problems``; not touched when nothing is to be graded.
        workers: grading processes; None: one per CPU.
        progress: called with the number graded so far.
    """
    from stapo_bench.grading import GraderPool

    manifest = load_manifest(run_dir)
    rule, which = split_golds(grader)
    with GraderPool(workers, grader=rule) as pool:
        version = version_with_golds(pool.grader.version, which)
        graded = graded_keys(run_dir, grader, version)
        num_kept, num_graded = len(graded), 0
        golds: dict[tuple[str, str], Gold] = {}
        ungraded = (sample for sample in read_samples(run_dir, manifest.stamps) if sample.key not in graded)
        while batch := list(islice(ungraded, _BATCH)):
            golds = golds or read_golds(manifest, data_dir, which)
            grades = pool.grade((sample.completion, _gold(golds, sample)) for sample in batch)
            append_grades(run_dir, grader, version, zip((s.key for s in batch), grades, strict=True))
            num_graded += len(batch)
            if progress is not None:
                progress(num_graded)
    return Grading(grader=version, num_graded=num_graded, num_kept=num_kept)


def grade_line(key: SampleKey, grade: Grade) -> dict[str, Any]:
    """One line of a grade file."""
    return {
        **key._asdict(),
        "outcome": grade.outcome.value,
        "extracted": grade.extracted,
        "detail": grade.detail,
    }


def grade_from_line(line: bytes) -> tuple[SampleKey, Grade]:
    """The reverse of ``grade_line``; ValueError says what is wrong with it."""
    row = unseal(line)
    if lacking := [name for name in _FIELDS if name not in row]:
        raise ValueError(f"it has no {lacking[0]}")
    if unknown := [name for name in row if name not in (*_FIELDS, "detail")]:
        raise ValueError(f"it has {unknown[0]}, which no grade has")
    key = SampleKey(row["task"], row["problem_id"], row["sample_index"])
    if not isinstance(key.sample_index, int):
        raise ValueError(f"sample_index is {key.sample_index!r}, expected int")
    return key, Grade(outcome=Outcome(row["outcome"]), extracted=row["extracted"], detail=row.get("detail", ""))


def damaged_grade(path: Path, number: int, error: Exception) -> StapoError:
    """What to say of a line that is no grade."""
    return StapoError(
        f"{path}:{number}: expected a grade, got a damaged line: {error}; "
        "delete the file, 'stapo-bench grade' makes it again"
    )


@contextmanager
def _open_grades(run_dir: Path, grader: str, version: str) -> Iterator[BinaryIO]:
    """The grade file, locked and ready for appending: headed by this version (another's is emptied), no torn line.

    The lock is held for moments only. Two commands that grade at once may both grade a sample, with the same result.
    """
    path = run_dir / "grades" / f"{grader}.jsonl"
    if path.is_symlink():  # a run folder from elsewhere must not empty a file of ours
        raise StapoError(f"{path}: expected a file of the run's own, got a link to {path.readlink()}; remove it")
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            header = json.dumps({"grader": version}, separators=(",", ":")).encode("ascii") + b"\n"
            file.truncate(after_last_newline(path))
            file.seek(0)
            if file.read(len(header)) != header:
                file.truncate(0)
                file.write(header)
            yield file
            os.fsync(file.fileno())
    except OSError as error:
        raise StapoError(f"{path}: {error.strerror}; the samples are safe: make room and grade again") from None


def graded_keys(
    run_dir: Path, grader: str, version: str, see: Callable[[SampleKey, str], None] | None = None
) -> KeySet:
    """The keys graded by this version; ``see`` is called with each key and its outcome."""
    keys = KeySet()
    with _open_grades(run_dir, grader, version) as file:
        path = Path(file.name)
        for number, line in islice(complete_lines(path), 1, None):
            try:
                key, grade = grade_from_line(line)
            except ValueError as error:
                raise damaged_grade(path, number, error) from None
            if keys.add(key) and see is not None:
                see(key, grade.outcome.value)
    return keys


def append_grades(run_dir: Path, grader: str, version: str, grades: Iterable[tuple[SampleKey, Grade]]) -> None:
    """Add lines to the grade file; safe on disk when this returns."""
    rest = memoryview(b"".join(seal(grade_line(key, grade)) for key, grade in grades))
    with _open_grades(run_dir, grader, version) as file:
        while rest:
            rest = rest[file.write(rest) :]


def _gold(golds: dict[tuple[str, str], Gold], sample: Sample) -> Gold:
    gold = golds.get((sample.task, sample.problem_id))
    if gold is None:
        raise StapoError(f"sample of {sample.task}/{sample.problem_id}: the task has no such problem")
    return gold
