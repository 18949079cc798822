"""The samples of a run: ``samples/*.jsonl``, append-only segments that survive a kill at any moment.

One line is one finished sample with a checksum and a stamp of its run's settings, one segment has one writer, and a
writer holds an OS lock on its segment that dies with it. Every line is handed to the operating system as soon as its
sample ends (a killed process loses none) and is counted only after an fsync (a power cut loses none that was counted).
Reading streams: memory does not grow with a run.

    with SegmentWriter(run_dir, "shard0of1") as writer:
        for sample in samples:
            for safe in writer.append(sample):
                ...  # on disk: may be counted
"""

import contextlib
import fcntl
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import get_args

from stapo_bench.errors import StapoError
from stapo_bench.records import FinishReason, Sample, SampleKey
from stapo_bench.runs.pace import Pace
from stapo_bench.runs.sealed import seal, unseal
from stapo_bench.seeds import derive_seed

SYNC_SECONDS = 0.5
SYNC_SHARE = 0.002
LONGEST_SYNC_SECONDS = 30.0
MOST_PENDING_BYTES = 1 << 24
"""While samples keep coming, their lines are synced together every half a second; where that would take more than the
share of the time (a slow disk), less often, but within half a minute and before so many bytes wait in memory."""

_MAX_SAMPLE_INDEX = 1_000_000  # bounds the bit masks of KeySet against a damaged line
_FIELDS = tuple(field.name for field in fields(Sample))
_TYPES = {
    "task": str,
    "problem_id": str,
    "sample_index": int,
    "seed": int,
    "completion": str,
    "num_tokens": int,
    "finish_reason": str,
}


class KeySet:
    """A set of sample keys, one bit each: a million keys in a few megabytes.

    >>> keys = KeySet()
    >>> keys.add(SampleKey("aime24", "I-1", 3)), keys.add(SampleKey("aime24", "I-1", 3))
    (True, False)
    >>> SampleKey("aime24", "I-1", 2) in keys, len(keys)
    (False, 1)
    """

    def __init__(self) -> None:
        self._masks: dict[tuple[str, str], int] = {}
        self._size = 0

    def add(self, key: SampleKey) -> bool:
        """Add a key; False when it was there."""
        mask = self._masks.get(key[:2], 0)
        bit = 1 << key.sample_index
        if mask & bit:
            return False
        self._masks[key[:2]] = mask | bit
        self._size += 1
        return True

    def __contains__(self, key: SampleKey) -> bool:
        return bool(self._masks.get(key[:2], 0) >> key.sample_index & 1)

    def __len__(self) -> int:
        return self._size


def sample_to_line(sample: Sample) -> bytes:
    """A sample as one line of ASCII JSON; empty optional fields are left out.

    ASCII, because a completion may hold what UTF-8 cannot (half of a surrogate pair at a cut-off).
    """
    present = {name: value for name in _FIELDS if (value := getattr(sample, name)) is not None}
    return seal(present)


def sample_from_line(line: bytes) -> Sample:
    """Read one line; ValueError says what is wrong with it."""
    values = unseal(line)
    if values.get("token_ids") is not None:
        values["token_ids"] = tuple(values["token_ids"])
    try:
        sample = Sample(**values)
    except TypeError as error:  # unknown or missing fields
        raise ValueError(str(error).replace("Sample.__init__() ", "")) from None
    for name, kind in _TYPES.items():
        if not isinstance(values[name], kind):
            raise ValueError(f"{name} is {values[name]!r}, expected {kind.__name__}")
    if not 0 <= sample.sample_index < _MAX_SAMPLE_INDEX:
        raise ValueError(f"sample_index is {sample.sample_index}, expected 0 to {_MAX_SAMPLE_INDEX - 1}")
    if sample.finish_reason not in get_args(FinishReason):
        raise ValueError(f"finish_reason is {sample.finish_reason!r}, expected one of {get_args(FinishReason)}")
    return sample


def complete_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of every whole line; a last line without its end is being written, or torn."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return  # and no further: what its writer adds meanwhile would look like a line of its own
            yield number, line


def segments(run_dir: Path) -> list[Path]:
    """The segments of a run, oldest first (their names start with a number)."""
    return sorted((run_dir / "samples").glob("*.jsonl"))


def segment_sizes(run_dir: Path) -> dict[str, int]:
    """Bytes of each segment by its name: they are never rewritten, so that equal sizes are equal contents."""
    return {path.name: path.stat().st_size for path in segments(run_dir)}


def check_stamp(sample: Sample, stamps: Mapping[str, str] | None) -> None:
    """ValueError for a sample that was drawn under other settings than its run's; see ``Manifest.stamps``."""
    if stamps is not None and sample.stamp is not None and sample.stamp != (expected := stamps.get(sample.task)):
        raise ValueError(
            f"expected a sample of {sample.task} under this run's settings (stamp {expected}), got stamp "
            f"{sample.stamp}: it belongs to another run"
        )


def _stored_samples(run_dir: Path, stamps: Mapping[str, str] | None) -> Iterator[tuple[Sample, str]]:
    """Every stored line in order, duplicates included, with the place where it stands."""
    for path in segments(run_dir):
        for number, line in complete_lines(path):
            place = f"{path}:{number}"
            try:
                sample = sample_from_line(line)
                check_stamp(sample, stamps)
            except ValueError as error:
                raise StapoError(
                    f"{place}: expected a sample, got a damaged line: {error}; "
                    "restore the file, or delete this line and run eval again to draw its sample anew"
                ) from None
            yield sample, place


def read_samples(run_dir: Path, stamps: Mapping[str, str] | None = None) -> Iterator[Sample]:
    """Stream the samples of a run, each key once (the first line that holds it); works while writers are at work.

    ``stamps``: the manifest's; samples drawn under other settings are then refused.
    """
    seen = KeySet()
    for sample, _ in _stored_samples(run_dir, stamps):
        if seen.add(sample.key):
            yield sample


def scan_keys(
    run_dir: Path,
    run_seed: int,
    see: Callable[[Sample], None] = lambda sample: None,
    stamps: Mapping[str, str] | None = None,
) -> tuple[KeySet, int]:
    """The keys that a run holds, and how many of its lines repeat one; every seed is checked against its key.

    Args:
        run_dir: the run.
        run_seed: its manifest's.
        see: called with each key's first sample.
        stamps: its manifest's.

    Raises:
        StapoError: a sample's seed or stamp is not the run's: the line comes from another run.
    """
    keys = KeySet()
    num_repeated = 0
    for sample, place in _stored_samples(run_dir, stamps):
        expected = derive_seed(run_seed, *sample.key)
        if sample.seed != expected:
            raise StapoError(
                f"{place}: expected seed {expected} for {'/'.join(map(str, sample.key))} under run seed {run_seed}, "
                f"got {sample.seed}; the line belongs to another run: move it there"
            )
        if keys.add(sample.key):
            see(sample)
        else:
            num_repeated += 1
    return keys, num_repeated


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


def after_last_newline(path: Path) -> int:
    """Offset behind the last newline of a file; 0 without one. Reads blocks from the end."""
    block = 1 << 16
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - block)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


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
        _sync_folder(self._folder)
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


def _sync_folder(folder: Path) -> None:
    """Make the folder's new entry survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a reader, or a kill, finds the old one or the new one whole."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise StapoError(
            f"cannot write {path}: {error.strerror}; put that right and run the same command again"
        ) from None
