"""The writer of samples: a kill loses none that was counted, and no writer touches another's file.

    with SegmentWriter(run_dir, "shard0of1") as writer:
        for sample in samples:
            for safe in writer.append(sample):
                ...  # on disk: may be counted

A writer appends to a segment of its own, ``samples/<number>-<label>-<unique>.jsonl``, locked while it lives.
"""

import contextlib
import fcntl
import os
import uuid
from pathlib import Path

from stapo_bench.errors import StapoError
from stapo_bench.records import Sample
from stapo_bench.runs.pace import Pace
from stapo_bench.runs.sealed import after_last_newline, sync_folder
from stapo_bench.runs.store import sample_to_line, segments

SYNC_SECONDS = 0.5
SYNC_SHARE = 0.002
LONGEST_SYNC_SECONDS = 30.0
MOST_PENDING_BYTES = 1 << 24
"""While samples keep coming, their lines are synced together every half a second; where that would take more than the
share of the time (a slow disk), less often, but within half a minute and before this many bytes wait in memory."""


def live_segments(run_dir: Path) -> list[Path]:
    """Segments whose writer is alive."""
    return [path for path in segments(run_dir) if _is_locked(path)]


def _is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def repair(run_dir: Path) -> int:
    """Cut torn last lines, which a kill or a power cut leaves, off the segments without a live writer; how many."""
    return sum(_repair_segment(path) for path in segments(run_dir))


def _repair_segment(path: Path) -> bool:
    if path.is_symlink():  # a run folder from elsewhere must not cut a file of ours
        return False
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False  # a live writer is in the middle of a line
        end = file.seek(0, os.SEEK_END)
        keep = after_last_newline(path)
        if keep == end:
            return False
        file.truncate(keep)
        os.fsync(file.fileno())
        return True


class SegmentWriter:
    """Appends samples to a new segment of its own, locked while the writer lives."""

    def __init__(self, run_dir: Path, label: str) -> None:
        """The segment ``samples/<number>-<label>-<unique>.jsonl`` is made with the first sample."""
        self._folder = run_dir / "samples"
        self._label = label
        self._fd: int | None = None
        self.num_safe = 0
        self._end = 0  # bytes of whole lines written
        self._safe_end = 0  # of them synced
        self._pending: list[Sample] = []  # written, not yet synced
        self._pace = Pace(SYNC_SECONDS, share=SYNC_SHARE, longest=LONGEST_SYNC_SECONDS)

    def append(self, sample: Sample) -> list[Sample]:
        """Write a sample; returns the samples that this call made safe (all since the last sync, or none yet)."""
        line = sample_to_line(sample)
        try:
            if self._fd is None:
                self._fd = self._create()
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            if self._fd is not None:
                with contextlib.suppress(OSError, StapoError):
                    os.ftruncate(self._fd, self._end)
                    self.sync()
            raise self._failure(error) from None
        self._end += len(line)
        self._pending.append(sample)
        due = self._pace.due() or self._end - self._safe_end > MOST_PENDING_BYTES
        return self.sync() if due else []

    def _create(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        number = len(list(self._folder.glob("*.jsonl"))) + 1
        path = self._folder / f"{number:04d}-{self._label}-{uuid.uuid4().hex[:8]}.jsonl"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        fcntl.flock(fd, fcntl.LOCK_EX)  # waits at most for a repair that is just looking at the new file
        sync_folder(self._folder)
        return fd

    def sync(self) -> list[Sample]:
        """Force what was written to disk; returns the samples that became safe."""
        if self._pending and self._fd is not None:
            try:
                os.fsync(self._fd)
            except OSError as error:
                # Linux reports a failed write-back once: another fsync would succeed, and these lines may be lost.
                self._pending = []
                raise self._failure(error) from None
        safe, self._pending = self._pending, []
        self.num_safe += len(safe)
        self._safe_end = self._end
        self._pace.done()
        return safe

    def close(self) -> list[Sample]:
        """Sync and let go of the segment; returns the samples that became safe."""
        if self._fd is None:
            return []
        try:
            return self.sync()
        finally:
            os.close(self._fd)
            self._fd = None

    def _failure(self, error: OSError) -> StapoError:
        return StapoError(
            f"{self._folder}: {error.strerror}; {self.num_safe} samples of this writer are safe there: "
            "make room and run the same command again to go on"
        )

    def __enter__(self) -> "SegmentWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
