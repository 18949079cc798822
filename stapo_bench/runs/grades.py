"""Grade files: ``grades/<grader>.jsonl``, one line per sample behind a first line that names the grader's version.

    for key, grade in stream_grades(run_dir, "math").grades:
        ...

If a sample has several lines, the last counts. A file holds grades of one version; a new version empties it first.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Grade, Outcome, SampleKey
from stapo_bench.runs.graded_samples import GradedKeys
from stapo_bench.runs.sealed import after_last_newline, complete_lines, seal, unseal
from stapo_bench.runs.store import MAX_SAMPLE_INDEX, KeySet

_FIELDS = (*SampleKey._fields, "outcome", "extracted")  # of a line, besides a detail
_WITH_DETAIL = {*_FIELDS, "detail"}


@dataclass(frozen=True, kw_only=True)
class GradeStream:
    """A grade file while it is read."""

    grader: str  # name and version
    grades: Iterator[tuple[SampleKey, Grade]]  # line by line; the last of a key counts


@dataclass(frozen=True, kw_only=True)
class Grades:
    """A grade file: its grader's name and version, and what it found."""

    grader: str
    outcomes: Mapping[SampleKey, tuple[Outcome, str | None]]


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
    if row.keys() != _WITH_DETAIL:
        if lacking := [name for name in _FIELDS if name not in row]:
            raise ValueError(f"it has no {lacking[0]}")
        if unknown := [name for name in row if name not in _WITH_DETAIL]:
            raise ValueError(f"it has {unknown[0]}, which no grade has")
    key = SampleKey(row["task"], row["problem_id"], row["sample_index"])
    for name, value, kind in zip(SampleKey._fields, key, (str, str, int), strict=True):
        if not isinstance(value, kind):
            raise ValueError(f"{name} is {value!r}, expected {kind.__name__}")
    if not 0 <= key.sample_index < MAX_SAMPLE_INDEX:
        raise ValueError(f"sample_index is {key.sample_index}, expected 0 to {MAX_SAMPLE_INDEX - 1}")
    if not isinstance(extracted := row["extracted"], str | None):
        raise ValueError(f"extracted is {extracted!r}, expected str or null")
    return key, Grade(outcome=Outcome(row["outcome"]), extracted=extracted, detail=row.get("detail", ""))


def stream_grades(run_dir: Path, grader: str) -> GradeStream:
    """Open ``grades/<grader>.jsonl`` for reading line by line, also while a grader is at work.

    Raises:
        StapoError: no such file (the error names those that exist); while reading: a damaged line.
    """
    path = run_dir / "grades" / f"{grader}.jsonl"
    if not path.is_file():
        found = ", ".join(sorted(p.stem for p in (run_dir / "grades").glob("*.jsonl"))) or "none"
        how = f"stapo-bench grade {run_dir}" + (f" --grader {grader}" if grader != DEFAULT_GRADER else "")
        raise StapoError(f"{run_dir}: expected grades by '{grader}', found {found}; run '{how}'")
    lines = complete_lines(path)
    first = list(islice(lines, 1))
    version = _stated_version(path, *first[0]) if first else None
    return GradeStream(grader=version or grader, grades=_grades(path, lines if version else chain(first, lines)))


def _stated_version(path: Path, number: int, line: bytes) -> str | None:
    """The grader's name and version from a line that states only these."""
    try:
        row = unseal(line)
    except ValueError as error:
        raise _damaged(path, number, error) from None
    return str(row["grader"]) if set(row) == {"grader"} else None


def _grades(path: Path, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[SampleKey, Grade]]:
    for number, line in lines:
        try:
            yield grade_from_line(line)
        except ValueError as error:
            raise _damaged(path, number, error) from None


def _damaged(path: Path, number: int, error: ValueError) -> StapoError:
    return StapoError(
        f"{path}:{number}: expected a grade, got a damaged line: {error}; "
        "delete the file, 'stapo-bench grade' makes it again"
    )


def read_grades(run_dir: Path, grader: str) -> Grades:
    """What a grader found, without its reasons; errors as for ``stream_grades``."""
    stream = stream_grades(run_dir, grader)
    outcomes = GradedKeys()
    for key, grade in stream.grades:
        outcomes.set(key, grade.outcome, grade.extracted)
    return Grades(grader=stream.grader, outcomes=outcomes)


def graded_keys(
    run_dir: Path, grader: str, version: str, see: Callable[[SampleKey, str], None] | None = None
) -> KeySet:
    """The keys graded by this version; ``see`` is called with each key and its outcome.

    A file by another version is emptied, a torn last line cut off: the file is in order for ``append_grades``.
    """
    keys = KeySet()
    with _open_grades(run_dir, grader, version):
        for key, grade in stream_grades(run_dir, grader).grades:
            if keys.add(key) and see is not None:
                see(key, grade.outcome.value)
    return keys


def append_grades(run_dir: Path, grader: str, version: str, grades: Iterable[tuple[SampleKey, Grade]]) -> None:
    """Add lines to the grade file; safe on disk when this returns."""
    rest = memoryview(b"".join(seal(grade_line(key, grade)) for key, grade in grades))
    with _open_grades(run_dir, grader, version) as file:
        while rest:
            rest = rest[file.write(rest) :]


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
