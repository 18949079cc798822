"""Sample what is missing of a run: requests -> engine -> store, each sample on disk before it is counted.

with sole_writer(run.run_dir, shard_label((0, 1))):
    state = shard_state(run, eval_tasks, (0, 1), sys.stderr)
    result = generate_missing(state, eval_tasks, engine, preset("training"), sys.stderr)
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from math import fsum
from pathlib import Path
from typing import TextIO

from stapo_bench.engines import Charges, Engine, Probes, Tells, generate_with_tools
from stapo_bench.errors import StapoError, tell
from stapo_bench.records import Completion, Request, Sample, SampleKey, SamplingParams
from stapo_bench.runs import (
    KeySet,
    Manifest,
    SegmentWriter,
    is_locked,
    lock_file,
    note_spent,
    own_file,
    repair,
    scan_keys,
    segment_sizes,
    try_lock,
)
from stapo_bench.sampling.copy_watch import CopyWatch
from stapo_bench.sampling.eval_tasks import EvalTask, count_samples, requests, sample_keys
from stapo_bench.sampling.live_grading import LiveGrader
from stapo_bench.sampling.progress import Progress


@dataclass(frozen=True, kw_only=True)
class SamplingResult:
    """What a command added to a run, and what it could not."""

    run_dir: Path
    num_sampled: int  # by this command
    num_missing: int  # of what it asked for: the engine gave them up
    num_repeated: int  # stored lines, or completions, that repeat a key; the first counts


@dataclass(frozen=True, kw_only=True)
class ShardState:
    """What a run holds before the missing samples of a shard are generated."""

    run: Manifest
    shard: tuple[int, int]
    keys: KeySet  # of the whole run
    num_repeated: int
    num_missing: int  # of the shard
    sizes: Mapping[str, int]  # of the segments that were read, in bytes
    progress: Progress
    copies: CopyWatch
    versions: set[str]  # of the model that answered, where a server resolves its name


def shard_state(
    run: Manifest,
    eval_tasks: Sequence[EvalTask],
    shard: tuple[int, int],
    watch: TextIO,
    copies: CopyWatch | None = None,
) -> ShardState:
    """Read what is there; ``copies``: of a command that reads several states."""
    asked = count_samples(eval_tasks, shard)
    progress, sizes = Progress(asked, stream=watch), segment_sizes(run.run_dir)
    copies = copies or CopyWatch((key for key, _ in sample_keys(eval_tasks, shard)), run.identity.sampling)

    versions: set[str] = set()

    def see(sample: Sample) -> None:
        """Take note of a stored sample."""
        progress.see(sample)
        if sample.model is not None:
            versions.add(sample.model)
        for line in copies.see(sample):
            tell(watch, line)

    found, num_repeated = scan_keys(run.run_dir, run.seed, see, run.stamps)
    return ShardState(
        run=run,
        shard=shard,
        keys=found,
        num_repeated=num_repeated,
        num_missing=sum(asked.values()) - sum(count_samples(eval_tasks, shard, among=found).values()),
        sizes=sizes,
        progress=progress,
        copies=copies,
        versions=versions,
    )


def generate_missing(
    state: ShardState, eval_tasks: Sequence[EvalTask], engine: Engine, params: SamplingParams, watch: TextIO
) -> SamplingResult:
    """Generate a shard's missing samples and store each as it ends. The caller holds the shard (``sole_writer``)."""
    run, shard, progress = state.run, state.shard, state.progress
    done, num_repeated = state.keys, state.num_repeated
    progress.start(key for key, _ in sample_keys(eval_tasks, shard) if key not in done)
    waiting: dict[SampleKey, int] = {}  # seeds of requests not yet answered
    stamps, prefixes = run.stamps, {one.task.name: one.style.assistant_prefix for one in eval_tasks}
    assert run.seed is not None, "nothing is sampled into a run that was imported"
    seed = run.seed

    def missing() -> Iterator[Request]:
        """The requests for the engine, noted as they are handed over."""
        for request in requests(eval_tasks, seed, shard):
            if request.key not in done:
                waiting[request.key] = request.seed
                yield request

    calls = {one.task.name: one.tool for one in eval_tasks if one.tool is not None}
    golds = {(one.task.name, p.problem_id): p.asked_gold for one in eval_tasks for p in one.problems}
    writer = SegmentWriter(run.run_dir, shard_label(shard))
    grader = LiveGrader(run.run_dir, golds, progress.grade)

    def count_safe(samples: list[Sample]) -> None:
        """Show samples that are on disk, and have them graded."""
        for sample in samples:
            progress.add(sample)
            grader.put(sample)

    if isinstance(engine, Tells):
        engine.tell = progress.say
    num_sampled = 0
    try:
        with billed(engine, run.run_dir, shard_label(shard)), engine_failures():
            _probe(engine, (one for one in requests(eval_tasks, seed, shard) if one.key not in done), params, progress)
            for completion in generate_with_tools(engine, missing(), params, calls):
                key = completion.key
                if key in waiting:
                    if completion.finish_reason != "error":
                        done.add(key)
                        num_sampled += 1
                        refuse_other_version(completion, state.versions)
                        sample = to_sample(completion, waiting.pop(key), stamps[key.task], prefixes[key.task])
                        for line in state.copies.see(sample):
                            progress.say(line)
                        count_safe(writer.append(sample))
                elif key in done:
                    num_repeated += 1
                else:
                    raise StapoError(f"the engine returned {key}, which was not asked for")
    finally:
        try:
            count_safe(writer.close())
        finally:
            grader.close()
            progress.close()
            for model, number in getattr(engine, "turned_away", {}).items():  # of engines that ask servers
                tell(watch, f"{number} answers turned away: another model, {model}, gave them")
            tell(watch, f"{writer.num_safe} new samples are safe in {run.run_dir}")
    return SamplingResult(
        run_dir=run.run_dir, num_sampled=num_sampled, num_missing=len(waiting), num_repeated=num_repeated
    )


def _probe(engine: Engine, missing: Iterator[Request], params: SamplingParams, progress: Progress) -> None:
    """Before the first sample: say what an engine that somebody else runs does otherwise than it is asked to."""
    if isinstance(engine, Probes):
        for first in islice(missing, 1):
            for line in engine.probe(first, params):
                progress.say(line)


@contextmanager
def engine_failures() -> Iterator[None]:
    """What torch, CUDA, vLLM and connections raise when an engine dies, as one clear line."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise StapoError(
            f"the engine stopped: {type(error).__name__}: {reason}; run the same command again to go on"
        ) from error


@contextmanager
def billed(engine: Engine, run_dir: Path, writer: str) -> Iterator[None]:
    """Note in a run's folder what an engine that charges for its answers was asked for, also where it fails."""
    before = engine.spent if isinstance(engine, Charges) else None
    try:
        yield
    finally:
        if isinstance(engine, Charges) and before is not None and (now := engine.spent) != before:
            note_spent(run_dir, writer, now.since(before))


def to_sample(completion: Completion, seed: int, stamp: str, prefix: str = "") -> Sample:
    """What is kept of a completion; token ids only of one that was cut off, so that it can be continued.

    ``prefix``: with which the prompt has begun the reply, which graders and readers get whole.
    """
    return Sample(
        **completion.key._asdict(),
        seed=seed,
        completion=prefix + completion.text,
        num_tokens=completion.num_tokens,
        finish_reason=completion.finish_reason,
        token_ids=completion.token_ids if completion.finish_reason == "length" else None,
        sum_log_prob=None if completion.log_probs is None else fsum(completion.log_probs),
        seconds=None if completion.seconds is None else round(completion.seconds, 4),
        stamp=stamp,
        model=completion.model,
        tool_outputs=completion.tool_outputs,
    )


def refuse_other_version(completion: Completion, versions: set[str]) -> None:
    """Note which version of the model answered; StapoError where it is a second one, whose samples are another's."""
    if completion.model is not None and completion.model not in versions:
        if versions:
            raise StapoError(
                f"answered by {', '.join(sorted(versions))} before and by {completion.model} now: the name asked for "
                "stands for another version of the model; a run has one: name it with --model in a new run"
            )
        versions.add(completion.model)


_PATIENCE_S = 1.0  # a child that a killed writer had just forked may hold its lock for a moment


def shard_label(shard: tuple[int, int]) -> str:
    """What a shard's files are called.

    >>> shard_label((0, 4))
    'shard0of4'
    """
    return "shard{}of{}".format(*shard)


@contextmanager
def sole_writer(run_dir: Path, label: str, watch: TextIO | None = None) -> Iterator[None]:
    """Hold a shard of a run, before an engine is opened for it; what killed writers left torn is repaired.

    The lock ends with its process, however that ends.

    Raises:
        StapoError: a live process samples the same shard, or a shard of another split, whose samples overlap.
    """
    split = label.split("of")[1]
    own = try_lock(own_file(run_dir, lock_file(run_dir, label).name), _PATIENCE_S)
    if own is None:
        raise _refused(run_dir, label)
    try:
        # Our own lock is held by now: of two that start at once, at most one finds the other's lock free.
        for path in sorted(run_dir.glob(".shard*of*.lock")):
            other = path.name.removeprefix(".").removesuffix(".lock")
            if other.split("of")[1] != split and is_locked(path):
                raise _refused(run_dir, other)
        if torn := repair(run_dir, label):
            tell(watch or sys.stderr, f"{torn} torn last lines cut off; their samples are drawn again")
        yield
    finally:
        own.release()


def _refused(run_dir: Path, label: str) -> StapoError:
    return StapoError(
        f"{run_dir}: another process is drawing {label.replace('shard', 'shard ').replace('of', '/')} of this run; "
        "wait for it, or give each process a part of its own: --shard 0/2, --shard 1/2"
    )
