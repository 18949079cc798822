"""The samples of a run: ``samples/*.jsonl``, append-only segments that survive a kill at any moment.

One line is one finished sample with a checksum and a stamp of its run's settings, one segment has one writer, and a
writer holds an OS lock on its segment that dies with it. Every line is handed to the operating system as soon as its
sample ends (a killed process loses none) and is counted only after an fsync (a power cut loses none that was counted).
Reading streams, also while writers are at work: memory does not grow with a run.

    for sample in read_samples(run_dir, load_manifest(run_dir).stamps):
        ...
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from reprlib import repr as shortened
from typing import NamedTuple, get_args

from stapo_bench.errors import StapoError, watched
from stapo_bench.records import FinishReason, Sample, SampleKey, ToolOutput
from stapo_bench.runs.files import whole_lines
from stapo_bench.runs.sealed import complete_lines, seal, unseal
from stapo_bench.seeds import derive_seed

MAX_SAMPLE_INDEX = 1_000_000  # bounds bit masks and columns against a damaged line
_SEED_END, _TOKENS_END = 1 << 63, 1 << 31
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
_MAY_BE_UNKNOWN = ("seed", "num_tokens", "finish_reason")  # in an imported run; stated as null


class StoredSample(NamedTuple):
    """A sample and the line that holds it."""

    sample: Sample
    segment: Path
    line: int  # number, from 1

    @property
    def place(self) -> str:
        """The line as an error names it."""
        return f"{self.segment}:{self.line}"


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
    """A sample as one line of ASCII JSON; empty optional fields are left out, unknown ones are null.

    ASCII, because a completion may hold what UTF-8 cannot (half of a surrogate pair at a cut-off).
    """
    values = {name: getattr(sample, name) for name in _FIELDS}
    values["tool_outputs"] = sample.tool_outputs or None
    present = {name: value for name, value in values.items() if value is not None or name in _MAY_BE_UNKNOWN}
    return seal(present)


def sample_from_line(line: bytes) -> Sample:
    """Read one line; ValueError says what is wrong with it."""
    values = unseal(line)
    if values.get("token_ids") is not None:
        values["token_ids"] = tuple(values["token_ids"])
    outputs = values.pop("tool_outputs", [])
    try:
        sample = Sample(**values)
    except TypeError as error:  # unknown or missing fields
        raise ValueError(str(error).replace("Sample.__init__() ", "")) from None
    for name, kind in _TYPES.items():
        if not isinstance(values[name], kind) and (values[name] is not None or name not in _MAY_BE_UNKNOWN):
            raise ValueError(f"{name} is {values[name]!r}, expected {kind.__name__}")
    if not 0 <= sample.sample_index < MAX_SAMPLE_INDEX:
        raise ValueError(f"sample_index is {sample.sample_index}, expected 0 to {MAX_SAMPLE_INDEX - 1}")
    if not (abs(sample.seed or 0) < _SEED_END and abs(sample.num_tokens or 0) < _TOKENS_END):  # what columns can hold
        raise ValueError(f"seed is {sample.seed}, num_tokens {sample.num_tokens}, expected 64 and 32 bits")
    if sample.finish_reason not in (*get_args(FinishReason), None):
        raise ValueError(f"finish_reason is {sample.finish_reason!r}, expected one of {get_args(FinishReason)}")
    return sample if outputs == [] else replace(sample, tool_outputs=read_outputs(outputs, sample.num_tokens))


def read_outputs(stored: object, num_drawn: int | None) -> tuple[ToolOutput, ...]:
    """What tools wrote into a reply of so many drawn tokens (None: not known), from ``[[after, token ids], ...]``.

    ValueError where it is no such list, a place is not in the reply or before an earlier one, or an id is none.
    """
    if not isinstance(stored, list):
        raise ValueError(f"tool_outputs is {shortened(stored)}, expected a list")
    found: list[ToolOutput] = []
    least, most = 0, _TOKENS_END - 1 if num_drawn is None else num_drawn
    for output in stored:
        match output:
            case [after, [*ids]] if type(after) is int and least <= after <= most and all(map(_is_token, ids)):
                found.append(ToolOutput(after, tuple(ids)))
                least = after
            case _:
                raise ValueError(
                    f"tool_outputs holds {shortened(output)}, expected a number of tokens from {least} to {most}, "
                    "and a list of token ids"
                )
    return tuple(found)


def _is_token(value: object) -> bool:
    return type(value) is int and 0 <= value < _TOKENS_END


def segments(run_dir: Path) -> list[Path]:
    """The segments of a run, oldest first (their names start with a number)."""
    return sorted((run_dir / "samples").glob("*.jsonl"))


def segment_sizes(run_dir: Path) -> dict[str, int]:
    """Bytes of each segment by its name: they are never rewritten, so that equal sizes are equal contents."""
    return {path.name: path.stat().st_size for path in segments(run_dir)}


def num_lines(run_dir: Path) -> int:
    """Lines of all segments: at least as many as there are samples, counted without reading any."""
    return sum(map(whole_lines, segments(run_dir)))


def stored_samples(run_dir: Path, stamps: Mapping[str, str] | None = None) -> Iterator[StoredSample]:
    """Every stored line in order, those that repeat a key included.

    ``stamps``: the manifest's; samples made under other settings are then refused.

    Raises:
        StapoError: a damaged line, or one of another run.
    """
    lines = ((path, number, line) for path in segments(run_dir) for number, line in complete_lines(path))
    megabytes = sum(segment_sizes(run_dir).values()) / 1e6
    for path, number, line in watched(
        lines, f"reading {run_dir.name}", "MB", megabytes, lambda stored: len(stored[2]) / 1e6
    ):
        try:
            sample = sample_from_line(line)
            if stamps is not None:
                _check_stamp(sample, stamps)
        except ValueError as error:
            raise StapoError(
                f"{path}:{number}: expected a sample, got a damaged line: {error}; "
                "restore the file, or delete this line and run eval again to draw its sample anew"
            ) from None
        yield StoredSample(sample, path, number)


def _check_stamp(sample: Sample, stamps: Mapping[str, str]) -> None:
    """ValueError for a sample that was made under other settings than its run's; see ``Manifest.stamps``."""
    if sample.stamp is not None and sample.stamp != (expected := stamps.get(sample.task)):
        raise ValueError(
            f"expected a sample of {sample.task} under this run's settings (stamp {expected}), got stamp "
            f"{sample.stamp}: it belongs to another run"
        )


def first_of_each(stored: Iterator[StoredSample]) -> Iterator[StoredSample]:
    """Each key once: the first line that holds it."""
    seen = KeySet()
    return (found for found in stored if seen.add(found.sample.key))


def read_samples(run_dir: Path, stamps: Mapping[str, str] | None = None) -> Iterator[Sample]:
    """Stream the samples of a run, each key once; ``stamps`` as for ``stored_samples``."""
    for found in first_of_each(stored_samples(run_dir, stamps)):
        yield found.sample


def scan_keys(
    run_dir: Path,
    run_seed: int | None,
    see: Callable[[Sample], None] = lambda sample: None,
    stamps: Mapping[str, str] | None = None,
) -> tuple[KeySet, int]:
    """The keys that a run holds, and how many of its lines repeat one; every seed is checked against its key.

    Args:
        run_dir: the run.
        run_seed: its manifest's; None: its samples were imported, with whatever seeds they had.
        see: called with each key's first sample.
        stamps: its manifest's.

    Raises:
        StapoError: a sample's seed or stamp is not the run's: the line comes from another run.
    """
    keys = KeySet()
    num_repeated = 0
    for stored in stored_samples(run_dir, stamps):
        sample = stored.sample
        expected = None if run_seed is None else derive_seed(run_seed, *sample.key)
        if expected is not None and sample.seed != expected:
            raise StapoError(
                f"{stored.place}: expected seed {expected} for {'/'.join(map(str, sample.key))} under run seed "
                f"{run_seed}, got {sample.seed}; the line belongs to another run: move it there"
            )
        if keys.add(sample.key):
            see(sample)
        else:
            num_repeated += 1
    return keys, num_repeated
