"""Grade files: ``grades/<grader>.jsonl``, one line per sample behind a first line that names the grader's version.

    for key, grade in stream_grades(run_dir, "math").grades:
        ...

If a sample has several lines, the last counts. A file holds grades of one version; a new version empties it first.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from stapo_bench.errors import StapoError, did_you_mean
from stapo_bench.grading import DEFAULT_GRADER, get_grader
from stapo_bench.records import Grade, Outcome, SampleKey
from stapo_bench.runs.files import after_last_newline, append, open_own, sync_folder, writing
from stapo_bench.runs.golds import split_golds
from stapo_bench.runs.graded_samples import GradedKeys
from stapo_bench.runs.locks import locked_folder
from stapo_bench.runs.sealed import complete_lines, seal, unseal
from stapo_bench.runs.store import MAX_SAMPLE_INDEX, KeySet

REPORTED = "-reported"
"""Ends the names of graders whose verdicts came with an imported run: nothing of ours makes them again."""

JUDGED = "judge-"
"""Begins the names of graders that are models: ``grade`` alone asks them."""

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
    outcomes: GradedKeys


def is_reported(grader: str) -> bool:
    """Whether a grade file holds verdicts that came with an imported run.

    >>> is_reported("qwen-reported"), is_reported("qwen")
    (True, False)
    """
    return grader.endswith(REPORTED)


def grade_files(run_dir: Path) -> list[str]:
    """Names of a run's grade files, the default grader first.

    >>> grade_files(Path("no run"))
    []
    """
    names = sorted(path.stem for path in (run_dir / "grades").glob("*.jsonl"))
    return sorted(names, key=lambda name: split_golds(name)[0] != DEFAULT_GRADER)


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
        UsageError: no such file, and no grader of that name.
        StapoError: no such file (the error names those that exist); while reading: a damaged line.
    """
    path = _path(run_dir, grader)
    if not path.is_file():
        raise _no_grades(run_dir, grader)
    lines = complete_lines(path)
    first = list(islice(lines, 1))
    version = _stated_version(path, *first[0]) if first else None
    return GradeStream(grader=version or grader, grades=_grades(path, lines if version else chain(first, lines)))


def _no_grades(run_dir: Path, grader: str) -> StapoError:
    """What to do about grades that are not there; UsageError for a name that no grader has."""
    found = sorted(grade_files(run_dir))
    if grader.startswith(JUDGED):
        option = " --judge FOLDER"
    else:
        option = f" --grader {grader}" if grader != DEFAULT_GRADER else ""
        if not is_reported(grader):
            get_grader(split_golds(grader)[0], found)
    grade = f"run 'stapo-bench grade {run_dir}{option}'"
    came_along = next((name for name in found if is_reported(name)), None)
    if is_reported(grader):  # nothing of ours makes them
        there = f"; name one that is there: --grader {found[0]}" if found else ""
        advice = did_you_mean(grader, found) or f"such verdicts come with imported files alone{there}"
    elif came_along:
        advice = f"name what came along: --grader {came_along}; where the golds are known, {grade}"
    else:
        advice = grade
    return StapoError(f"{run_dir}: expected grades by '{grader}', found {', '.join(found) or 'none'}; {advice}")


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
    return Grades(grader=stream.grader, outcomes=_outcomes(stream.grades))


def _outcomes(grades: Iterable[tuple[SampleKey, Grade]]) -> GradedKeys:
    outcomes = GradedKeys()
    for key, grade in grades:
        outcomes.set(key, grade.outcome, grade.extracted, grade.is_unread)
    return outcomes


def graded_keys(
    run_dir: Path, grader: str, version: str, see: Callable[[SampleKey, str], None] | None = None
) -> KeySet:
    """The keys graded by this version, none where the file is another's; ``see`` gets each key and its outcome."""
    keys = KeySet()
    for key, grade in _by_version(run_dir, grader, version):
        if keys.add(key) and see is not None:
            see(key, grade.outcome.value)
    return keys


def grades_by(run_dir: Path, grader: str, version: str) -> Mapping[SampleKey, tuple[Outcome, str | None]]:
    """What this version found so far, nothing where the file is another's: what ``append_grades`` would go on from."""
    return _outcomes(_by_version(run_dir, grader, version))


def _by_version(run_dir: Path, grader: str, version: str) -> Iterator[tuple[SampleKey, Grade]]:
    if not _path(run_dir, grader).exists():
        return iter(())
    stream = stream_grades(run_dir, grader)
    return stream.grades if stream.grader == version else iter(())


def append_grades(run_dir: Path, grader: str, version: str, grades: Iterable[tuple[SampleKey, Grade]]) -> None:
    """Add lines to the grade file; safe on disk when this returns. Another version's file is emptied first.

    The lock is held for moments only. Two commands that grade at once may both grade a sample, with the same result.

    Raises:
        StapoError: the file cannot be written, or what stands there is no grade file of the run's own.
    """
    lines = b"".join(seal(grade_line(key, grade)) for key, grade in grades)
    path = _path(run_dir, grader)
    with (
        writing(path, safe="the samples are safe"),
        locked_folder(run_dir),
        open_own(run_dir, f"grades/{grader}.jsonl") as file,
    ):
        _put_in_order(file, path, version)
        append(file, lines)
        os.fsync(file.fileno())
        sync_folder(path.parent)


def _put_in_order(file: BinaryIO, path: Path, version: str) -> None:
    """Head the file by this version and cut off a torn last line; StapoError for a file that holds no grades."""
    header = json.dumps({"grader": version}, separators=(",", ":")).encode("ascii") + b"\n"
    keep, end = after_last_newline(file), file.seek(0, os.SEEK_END)
    file.seek(0)
    first = file.readline()
    if first == header:
        if keep < end:
            file.truncate(keep)
        return
    if end and not _begins_grades(path, first):
        raise StapoError(f"{path}: expected grades, got a file that begins otherwise; move it away and grade again")
    file.truncate(0)
    append(file, header)


def _begins_grades(path: Path, first: bytes) -> bool:
    """Whether a first line, torn perhaps, is of a grade file: it names a version, or is a grade (older files)."""
    if not first.endswith(b"\n"):
        return any(begin.startswith(first[: len(begin)]) for begin in (b'{"grader":', b'{"task":'))
    try:
        return _stated_version(path, 1, first) is not None or bool(grade_from_line(first))
    except (StapoError, ValueError):
        return False


def _path(run_dir: Path, grader: str) -> Path:
    return run_dir / "grades" / f"{grader}.jsonl"
