"""The writer of samples: a kill loses none that was counted, and no writer touches another's file.

    with SegmentWriter(run_dir, "shard0of1") as writer:
        for sample in samples:
            for safe in writer.append(sample):
                ...  # on disk, under its name: may be counted

A writer appends to a segment of its own, ``samples/<number>-<label>-<unique>.jsonl``, and holds its label's lock
(``sole_writer``) while it lives.
"""

import contextlib
import os
import re
import uuid
from pathlib import Path
from typing import BinaryIO

from stapo_bench.errors import StapoError
from stapo_bench.records import Sample
from stapo_bench.runs.files import after_last_newline, cannot_write, is_file, open_own, sync_folder, whole_lines
from stapo_bench.runs.locks import is_locked
from stapo_bench.runs.pace import Pace
from stapo_bench.runs.store import sample_to_line, segments

SYNC_SECONDS = 0.5
SYNC_SHARE = 0.002
LONGEST_SYNC_SECONDS = 30.0
MOST_PENDING_BYTES = 1 << 24
"""While samples keep coming, their lines are synced together every half a second; where that would take more than the
share of the time (a slow disk), less often, but within half a minute and before this many bytes wait in memory."""


_OURS = re.compile(r"\d{4,}-(\w+)-[0-9a-f]{8}\.jsonl")
_BEGIN = b'{"task":'  # of every line


def lock_file(run_dir: Path, label: str) -> Path:
    """The lock of whoever writes segments with this label; never deleted, since another may be about to take it."""
    return run_dir / f".{label}.lock"


def repair(run_dir: Path, label: str) -> int:
    """Cut torn last lines, which a kill or a power cut leaves, off segments without a live writer; how many.

    Only a segment that is the run's own is cut: its name and its first line are a writer's, and it is no link.

    Args:
        run_dir: the run.
        label: the caller's, whose lock it holds: its segments are of writers that are gone.
    """
    torn = []
    for path in segments(run_dir):  # listed before locks are looked at: who comes later makes a segment of its own
        found = _OURS.fullmatch(path.name)
        if found and (found[1] == label or not is_locked(lock_file(run_dir, found[1]))):
            torn.append(_repair_segment(run_dir, path))
    return sum(torn)


def _repair_segment(run_dir: Path, path: Path) -> bool:
    try:
        file = open_own(run_dir, str(path.relative_to(run_dir)))
    except StapoError:  # a link, or one of several names: readers pass over its torn line
        return False
    with file:
        keep, end = after_last_newline(file), file.seek(0, os.SEEK_END)
        file.seek(0)
        if keep == end or not _BEGIN.startswith(file.read(len(_BEGIN))[:end]):
            return False
        file.truncate(keep)
        os.fsync(file.fileno())
        return True


class SegmentWriter:
    """Appends samples to a new segment of its own."""

    def __init__(self, run_dir: Path, label: str) -> None:
        """The segment ``samples/<number>-<label>-<unique>.jsonl`` is made with the first sample."""
        self._run_dir = run_dir
        self._label = label
        self._file: BinaryIO | None = None
        self._path = run_dir / "samples"
        self.num_safe = 0
        self._num_drawn = 0
        self._end = 0  # bytes of whole lines written
        self._safe_end = 0  # of them synced
        self._pending: list[Sample] = []  # written, not yet synced
        self._pace = Pace(SYNC_SECONDS, share=SYNC_SHARE, longest=LONGEST_SYNC_SECONDS)

    def append(self, sample: Sample) -> list[Sample]:
        """Write a sample; returns the samples that this call made safe (all since the last sync, or none yet)."""
        line = sample_to_line(sample)
        try:
            if self._file is None:
                self._file = self._create()
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._file.fileno(), rest) :]
        except OSError as error:
            if self._file is not None:
                with contextlib.suppress(OSError, StapoError):
                    self._file.truncate(self._end)
                    self.sync()
            raise self._failure(error) from None
        self._end += len(line)
        self._num_drawn += 1
        self._pending.append(sample)
        due = self._pace.due() or self._end - self._safe_end > MOST_PENDING_BYTES
        return self.sync() if due else []

    def _create(self) -> BinaryIO:
        number = len(segments(self._run_dir)) + 1
        name = f"samples/{number:04d}-{self._label}-{uuid.uuid4().hex[:8]}.jsonl"
        file = open_own(self._run_dir, name, new=True)
        self._path = self._run_dir / name
        sync_folder(self._path.parent)
        return file

    def sync(self) -> list[Sample]:
        """Force what was written to disk; returns the samples that became safe.

        Raises:
            StapoError: the system could not, or the segment was deleted, moved or replaced meanwhile.
        """
        if self._pending and self._file is not None:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                # Linux reports a failed write-back once: another fsync would succeed, and these lines may be lost.
                self._pending = []
                raise self._failure(error) from None
            if not is_file(self._path, self._file):  # the fsync of a deleted file succeeds
                raise self._gone()
        safe, self._pending = self._pending, []
        self.num_safe += len(safe)
        self._safe_end = self._end
        self._pace.done()
        return safe

    def close(self) -> list[Sample]:
        """Sync, let go of the segment and count its lines on disk; returns the samples that became safe.

        Raises:
            StapoError: as for ``sync``, or fewer lines are there than were said to be safe.
        """
        if self._file is None:
            return []
        try:
            safe = self.sync()
            if not is_file(self._path, self._file) or whole_lines(self._path) < self.num_safe:
                raise self._gone()
            return safe
        finally:
            self._file.close()
            self._file = None

    def _failure(self, error: OSError) -> StapoError:
        return cannot_write(self._path, error, f"{self.num_safe} samples of this writer are safe there")

    def _gone(self) -> StapoError:
        """What was drawn is not where it was written: what is there is counted."""
        assert self._file is not None
        self._pending = []
        self.num_safe = whole_lines(self._path) if is_file(self._path, self._file) else 0
        return StapoError(
            f"{self._path}: expected {self._num_drawn} new samples in it, {self.num_safe} are there: it was deleted, "
            "moved or replaced meanwhile; put it back if it was moved, and run the same command again"
        )

    def __enter__(self) -> "SegmentWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
