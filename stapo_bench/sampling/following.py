"""Evaluates the checkpoints of a training while it goes on: each complete one, in order, against one base.

    for ended in follow(FollowOptions(folder=Path("runs/stapo"), base=Path("Qwen3-1.7B"), asked=options), stderr): ...

wait -> complete checkpoints -> the first that is not done -> evaluate, until decided -> a line of ``followed.jsonl``

The log says which checkpoints were begun, and as which number, before a sample of them is drawn, and what came of them
in the end. A process that was killed goes on with what it had begun; nothing is drawn twice. A checkpoint that its
training deleted before its weights were read stays with the samples that it has, which may decide it.
"""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TextIO

from stapo_bench.analysis import look_at_checkpoint
from stapo_bench.errors import StapoError, UsageError, tell
from stapo_bench.runs import (
    FoundCheckpoint,
    complete_checkpoints,
    complete_lines,
    grade_run,
    is_adapter,
    is_final,
    load_run,
    make_folder,
    num_lines,
    own_file,
    read_checkpoint,
    seal,
    try_lock,
    unseal,
    write_atomically,
)
from stapo_bench.sampling.engine_cache import EngineCache
from stapo_bench.sampling.eval_options import EvalOptions, for_checkpoint
from stapo_bench.sampling.evaluation import evaluate
from stapo_bench.sampling.merging import in_shards, merged, merged_folder
from stapo_bench.sampling.stop_rules import against_base
from stapo_bench.statistics import CheckpointLook

LOG = "followed.jsonl"


@dataclass(frozen=True, kw_only=True)
class FollowOptions:
    """What ``stapo-bench follow`` was asked for."""

    folder: Path  # where the training writes its checkpoints
    base: Path | None  # None: the first complete checkpoint
    asked: EvalOptions  # of every checkpoint; ``out``: the folder of all runs
    until: int | None = None  # end with a checkpoint of this step, or a later one
    once: bool = False  # end when all that is complete is done
    every_s: float = 30.0  # between two looks at the folder


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of ``followed.jsonl``."""

    number: int  # in order of their beginnings; 0: the base
    step: int | None  # of the training; None: the base does not state it
    checkpoint: str  # its folder, absolute: whoever goes on may stand elsewhere
    run: str  # the name of its run folder
    state: str  # begun, then: base, better, worse, tied, open (not decided by its samples), or vanished
    rounds: int = 0  # samples of every problem
    value: float | None = None  # over the base, a fraction; None: not known
    low: float | None = None  # its interval: all of a training hold together at 95 %, at every look
    high: float | None = None

    @property
    def has_ended(self) -> bool:
        """Whether no more samples will be drawn of it."""
        return self.state != "begun"

    def seen(self, look: CheckpointLook) -> "Entry":
        """The entry as a last look at its checkpoint leaves it."""
        numbers = (look.value, look.interval.low, look.interval.high)
        value, low, high = (None if math.isnan(number) else number for number in numbers)
        return replace(self, state=look.state, rounds=look.rounds, value=value, low=low, high=high)


def follow(
    options: FollowOptions,
    watch: TextIO,
    *,
    engines: EngineCache | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Sequence[Entry]]:
    """Evaluate checkpoint after checkpoint; yields all that have ended so far, whenever there are more.

    Args:
        options: what to follow, and how each checkpoint is evaluated.
        watch: where progress goes.
        engines: opens engines; None: one of its own.
        sleep: waits so many seconds.

    Raises:
        StapoError: another process follows into the same folder, the settings differ from those of its runs, a
            checkpoint cannot be evaluated.
    """
    out = options.asked.out
    make_folder(out)
    with _held(out), engines or EngineCache() as cache:
        log = read_log(out)
        _check_base(options, log, cache, watch)
        if before := [entry for entry in log.values() if entry.has_ended]:
            yield before
        is_told, waiting = False, set[int]()
        while True:
            found = complete_checkpoints(options.folder)
            now = _not_begun(options, log, found)
            for step in sorted(waiting - now - {entry.step for entry in log.values()}):
                tell(
                    watch, f"step {step}: was deleted before its evaluation began; have the training keep more of them"
                )
            waiting = now
            if entry := _next(options, log, found):
                _note(out, log, entry)
                _note(out, log, _evaluate(options, log, entry, cache, watch))
                yield list(log.values())
                is_told = False
            elif _is_over(options, found):
                if not log:
                    raise StapoError(f"{options.folder}: expected a complete checkpoint, found none; leave --once out")
                return
            else:
                if not is_told:
                    tell(watch, f"{options.folder}: waiting for the next complete checkpoint")
                is_told = True
                sleep(options.every_s)


def read_log(out: Path) -> dict[int, Entry]:
    """The entries by their numbers, in order; {} where nothing was followed yet."""
    log: dict[int, Entry] = {}
    for number, line in complete_lines(out / LOG) if (out / LOG).exists() else ():
        try:
            entry = Entry(**unseal(line))
        except (ValueError, TypeError) as error:
            raise StapoError(
                f"{out / LOG}:{number}: expected a followed checkpoint, got {error}; restore the file"
            ) from None
        log[entry.number] = entry
    return log


def _check_base(options: FollowOptions, log: Mapping[int, Entry], engines: EngineCache, watch: TextIO) -> None:
    """Refuse another base, or other settings, than those that the log's checkpoints are evaluated with."""
    if (base := log.get(0)) is None:
        return
    if options.base is not None and options.base.resolve() != Path(base.checkpoint).resolve():
        raise UsageError(
            f"--base: {options.asked.out} follows with the base {base.checkpoint}, got {options.base}; "
            "choose another --out"
        )
    if base.has_ended and Path(base.checkpoint).exists():  # finds nothing missing, or settings that differ
        _evaluate(options, log, base, engines, watch)


def _next(options: FollowOptions, log: Mapping[int, Entry], found: Sequence[FoundCheckpoint]) -> Entry | None:
    """What to evaluate now: what was begun, else the base, else the earliest step that is not in the log."""
    if begun := [entry for entry in log.values() if not entry.has_ended]:
        return begun[0]
    if not log and options.base is not None:
        step = read_checkpoint(options.base).step
        return Entry(number=0, step=step, checkpoint=str(options.base.resolve()), run="base", state="begun")
    done = {entry.step for entry in log.values() if entry.number}
    waiting = [
        one
        for one in found
        if one.step not in done
        and (options.until is None or one.step <= options.until)
        and not (log and _is_base(one, log[0]))
    ]
    if not waiting:
        return None
    first, path = waiting[0], waiting[0].path.resolve()
    if not log and is_adapter(path):
        raise UsageError(
            f"{path}: expected the model that this adapter (LoRA) stands on, got none; give it: --base PATH"
        )
    run = f"step-{first.step:06d}" if log else "base"
    return Entry(number=len(log), step=first.step, checkpoint=str(path), run=run, state="begun")


def _not_begun(options: FollowOptions, log: Mapping[int, Entry], found: Sequence[FoundCheckpoint]) -> set[int]:
    """Steps that wait for their turn."""
    begun = {entry.step for entry in log.values()}
    return {one.step for one in found if options.until is None or one.step <= options.until} - begun


def _is_base(one: FoundCheckpoint, base: Entry) -> bool:
    """Whether a checkpoint is the base: the same folder, or its step beside it, as ``final`` is the last one again.

    Another training, which the base may be of, has the same steps in folders of its own.
    """
    path, known = one.path.resolve(), Path(base.checkpoint).resolve()
    return path == known or (path.parent, one.step) == (known.parent, base.step)


def _is_over(options: FollowOptions, found: Sequence[FoundCheckpoint]) -> bool:
    """Whether no checkpoint will come that is asked for."""
    reached = options.until is not None and any(one.step >= options.until for one in found)
    return options.once or reached or any(is_final(one) for one in found)


def _evaluate(
    options: FollowOptions, log: Mapping[int, Entry], entry: Entry, engines: EngineCache, watch: TextIO
) -> Entry:
    """Sample a checkpoint until it is decided, or the base to its end."""
    out, path = options.asked.out, Path(entry.checkpoint)
    copy = merged_folder(out, entry.step or 0)  # of verl's shards
    rule = against_base(out / log[0].run, entry.number) if entry.number else None
    asked = replace(options.asked, checkpoint=path, out=out / entry.run)
    try:
        if in_shards(path):
            asked = replace(asked, checkpoint=merged(path, out, entry.step or 0))
        elif entry.number and is_adapter(path):
            asked = for_checkpoint(asked, Path(log[0].checkpoint))
        result = evaluate(asked, engines=engines, rule=rule, watch=watch)
    except (StapoError, OSError) as error:
        if not entry.number or path.exists() or copy.exists() or engines.has_weights(asked):
            raise
        tell(watch, f"{path}: was deleted meanwhile; what was drawn of it stays, and no more can be: {error}")
        return _by_what_is_there(asked, out / log[0].run, entry)
    if result.num_missing:
        raise StapoError(f"the engine gave up on {result.num_missing} samples; run the same command again to draw them")
    if not entry.number:
        grade_run(asked.out, data_dir=asked.data_dir)  # all looks at others read its grades
        return replace(entry, state="base")
    if in_shards(path):
        shutil.rmtree(copy, ignore_errors=True)
    return entry.seen(look_at_checkpoint(load_run(asked.out), load_run(out / log[0].run), entry.number))


def _by_what_is_there(asked: EvalOptions, base: Path, entry: Entry) -> Entry:
    """What became of a checkpoint that is gone: its verdict, where its samples suffice for one; else it vanished."""
    if num_lines(asked.out):
        grade_run(asked.out, data_dir=asked.data_dir)
        look = look_at_checkpoint(load_run(asked.out), load_run(base), entry.number)
        if look.stop:
            return entry.seen(look)
    return replace(entry, state="vanished")


def _note(out: Path, log: dict[int, Entry], entry: Entry) -> None:
    """Put an entry into the log, on disk before anything follows from it."""
    if log.get(entry.number) != entry:
        log[entry.number] = entry
        write_atomically(own_file(out, LOG), b"".join(seal(asdict(one)) for one in log.values()))


@contextmanager
def _held(out: Path) -> Iterator[None]:
    lock = try_lock(own_file(out, ".follow.lock"))
    if lock is None:
        raise StapoError(f"{out}: another process follows a training here; wait for it, or choose another --out")
    try:
        yield
    finally:
        lock.release()
