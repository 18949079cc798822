"""Damaged files: each is named, what is intact stays usable, and no sample is dropped or counted twice.

Every trial damages one place of a finished run, then runs the commands that read it. Either the one-line error names
the damaged file, and everything is as before once it is restored or made again; or the result equals the unbroken
run's.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

from tests.faults.bench import Bench, reward_by_hash, trained_results
from tests.faults.kills import check_whole
from tests.faults.process import start
from tests.faults.trial import Fault, Trial, check, same

Damage = Callable[[bytes, Random], bytes]


def cut(content: bytes, rng: Random) -> bytes:
    """The first part of a file."""
    return content[: rng.randrange(len(content))]


def flip(content: bytes, rng: Random) -> bytes:
    """A file with one bit flipped."""
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def zero(content: bytes, rng: Random) -> bytes:
    """A stretch of zeros, as a failing disk or a power cut leaves it."""
    start, length = rng.randrange(len(content)), rng.randrange(1, 600)
    stop = min(start + length, len(content))
    return content[:start] + bytes(stop - start) + content[stop:]


def of_run(bench: Bench, rng: Random, folder: Path, *, pattern: str, damage: Damage) -> Trial:
    """Damage one file of a finished run, then evaluate, grade, score and show it."""
    run = bench.copy(folder)
    file = next(iter(sorted(run.glob(pattern))))
    whole = file.read_bytes()
    while (damaged := damage(whole, rng)) == whole:
        pass
    file.write_bytes(damaged)
    for product in ("scores.json", "table.md"):  # nothing may be taken from before
        (run / product).unlink(missing_ok=True)
    readers: Sequence[Sequence[object]] = (
        ["stapo-bench", "grade", run, "--data-dir", bench.root],
        ["stapo-bench", "score", run, "--data-dir", bench.root],
        ["stapo-bench", "report", run, "--data-dir", bench.root, "-o", folder / "x.html"],
        bench.eval(run),
    )
    named = False
    for command in rng.sample(readers, 3):
        done = start(command, folder)
        if done.wait() == 0:
            continue
        line = done.fail(1)
        check(file.name in line, f"the damaged file is not named: {line}")
        named = True
    if named:
        check(file.read_bytes() == damaged or pattern.startswith("grades"), "a damaged file was touched")
        file.write_bytes(whole)  # "restore the file"
        for command in (bench.eval(run), ["stapo-bench", "score", run, "--data-dir", bench.root]):
            start(command, folder).succeed()
    start(bench.eval(run), folder).succeed()
    check_whole(bench, run)
    return Trial(lost=0 if named else max(0, whole.count(b"\n") - damaged.count(b"\n")))


def half_grades(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A grade file cut anywhere: what is gone is graded again, in the same way."""
    run = bench.copy(folder)
    file = run / "grades" / "math.jsonl"
    whole = file.read_bytes()
    file.write_bytes(cut(whole, rng))
    lost = whole.count(b"\n") - file.read_bytes().count(b"\n")
    start(["stapo-bench", "score", run, "--data-dir", bench.root], folder).succeed()
    check_whole(bench, run)
    return Trial(lost=lost)


def foreign(bench: Bench, rng: Random, folder: Path, *, change: Sequence[object]) -> Trial:
    """Samples of a run under another setting appear in a run that lacks just those: refused, by file and line."""
    run, other = folder / "run", folder / "other"
    start(bench.eval(run, "--shard", "0/2"), folder).succeed()
    start([*bench.eval(other, "--shard", "1/2"), *change], folder).succeed()
    (guest,) = (other / "samples").glob("*.jsonl")
    lines = guest.read_bytes().splitlines(keepends=True)
    own = next((run / "samples").glob("*.jsonl"))
    held = own.read_bytes()
    if rng.random() < 0.5:  # a file of its own, or lines among ours
        place = Path(shutil.copy(guest, run / "samples" / f"0009-{guest.name}"))
    else:
        place = own
        own.write_bytes(held + b"".join(rng.sample(lines, rng.randrange(1, len(lines)))))
    commands = (
        bench.eval(run),
        ["stapo-bench", "grade", run, "--data-dir", bench.root],
        ["stapo-bench", "score", run, "--data-dir", bench.root],
        ["stapo-bench", "report", run, "--data-dir", bench.root, "-o", folder / "x.html"],
    )
    for command in rng.sample(commands, len(commands)):
        line = start(command, folder).fail(1)
        check(f"{place.name}:" in line, f"the place is not named: {line}")
    own.write_bytes(held) if place == own else place.unlink()
    start(bench.eval(run), folder).succeed()
    check_whole(bench, run)
    return Trial()


def doubled(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A duplicated segment: every sample counts once."""
    run = bench.copy(folder)
    file = next((run / "samples").glob("*.jsonl"))
    lines = file.read_bytes().splitlines(keepends=True)
    (run / "samples" / f"0009-{file.name}").write_bytes(b"".join(rng.sample(lines, rng.randrange(1, len(lines)))))
    done = start(bench.eval(run), folder).succeed()
    check("drawn twice" in done.err, "what stands twice is not counted aloud")
    check((run / "scores.json").read_bytes() == (bench.whole / "scores.json").read_bytes(), "doubles change the scores")
    return Trial()


def of_training(bench: Bench, rng: Random, folder: Path, *, pattern: str, damage: Damage) -> Trial:
    """Damage a file that a training run resumes from: it is named, and once restored the run ends as usual."""
    out = folder / "run"
    command = start(bench.train(out), folder, before=partial(stop_after, 2))
    check(command.wait() == 9, f"the run was to stop after its second checkpoint: {command.err[-300:]}")
    file = max(out.glob(pattern))
    whole = file.read_bytes()
    while (damaged := damage(whole, rng)) == whole:
        pass
    file.write_bytes(damaged)
    again = start(bench.train(out), folder, before=reward_by_hash)
    if again.wait() != 0:
        line = again.fail(1, 2)
        check(file.name in line, f"the damaged file is not named: {line}")
        file.write_bytes(whole)
        start(bench.train(out), folder, before=reward_by_hash).succeed()
    same(trained_results(out), trained_results(bench.trained), "weights and metrics")
    return Trial()


def stop_after(iterations: int) -> None:
    """In a new process: rewards by hash, and an exit right after a checkpoint."""
    from stapo_train import run
    from stapo_train.run_folder import RunFolder

    reward_by_hash()
    save = RunFolder.save

    def save_and_stop(self: RunFolder, state: run.TrainState, *arguments: object, **more: object) -> None:
        save(self, state, *arguments, **more)  # type: ignore[arg-type]
        if state.iteration == iterations:
            os._exit(9)

    RunFolder.save = save_and_stop  # type: ignore[method-assign]


def replaced_checkpoint(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A bit of a trained checkpoint's weights flips: an evaluation of it says so."""
    checkpoint = Path(shutil.copytree(bench.trained / "checkpoints" / "final", folder / "checkpoint"))
    file = checkpoint / "model.safetensors"
    file.write_bytes(flip(file.read_bytes(), rng))
    where = ("--tasks", bench.task, "--data-dir", bench.root, "--out", folder / "run")
    sizes = ("--samples", 1, "--limit", 1, "--max-new-tokens", 4)
    engine = ("--engine", "transformers", "--ckpt", checkpoint, "--decoding", "justrl")
    line = start(["stapo-bench", "eval", *engine, *where, *sizes], folder).fail(1)
    check(file.name in line, f"the damaged file is not named: {line}")
    check(not (folder / "run" / "samples").exists(), "samples of damaged weights were drawn")
    return Trial()


SEGMENT, MANIFEST, GRADES = "samples/*.jsonl", "manifest.json", "grades/math.jsonl"
OPTIMIZER, ROLLOUTS = "state/step-*/optimizer.safetensors", "state/rollouts-*.jsonl"

FAULTS = (
    *(
        Fault(
            name=f"{damage.__name__} {what}",
            unit="samples",
            trials=trials,
            quick=quick,
            inject=partial(of_run, pattern=pattern, damage=damage),
        )
        for what, pattern, damage, trials, quick in (
            ("segment", SEGMENT, cut, 15, 0),
            ("segment", SEGMENT, flip, 40, 1),
            ("segment", SEGMENT, zero, 10, 0),
            ("manifest", MANIFEST, cut, 10, 0),
            ("manifest", MANIFEST, flip, 40, 1),
            ("manifest", MANIFEST, zero, 5, 0),
            ("grades", GRADES, flip, 40, 1),
            ("grades", GRADES, zero, 10, 0),
        )
    ),
    Fault(name="half-written grades", unit="grades", trials=15, quick=0, inject=half_grades),
    *(
        Fault(
            name=f"samples of another run mixed in: other {what}",
            unit="samples",
            trials=5,
            quick=quick,
            inject=partial(foreign, change=change),
        )
        for what, change, quick in (
            ("seed", ("--seed", 1), 0),
            ("decoding", ("--decoding", "training"), 1),
            ("prompt", ("--prompt-format", "plain"), 0),
        )
    ),
    Fault(name="a segment twice", unit="samples", trials=5, quick=0, inject=doubled),
    *(
        Fault(
            name=f"{damage.__name__} {what}",
            unit="iterations",
            trials=trials,
            quick=quick,
            inject=partial(of_training, pattern=pattern, damage=damage),
        )
        for what, pattern, damage, trials, quick in (
            ("optimizer state", OPTIMIZER, flip, 8, 0),
            ("optimizer state", OPTIMIZER, cut, 4, 0),
            ("state.json", "state/step-*/state.json", flip, 4, 0),
            ("checkpoint weights", "checkpoints/step-*/model.safetensors", flip, 8, 0),
            ("checkpoint weights", "checkpoints/step-*/model.safetensors", cut, 4, 0),
            ("config.yaml", "config.yaml", flip, 6, 0),
            ("metrics.jsonl", "metrics.jsonl", flip, 12, 0),
            ("metrics.jsonl", "metrics.jsonl", cut, 4, 0),
        )
    ),
    Fault(name="flip a finished checkpoint's weights", unit="samples", trials=5, quick=1, inject=replaced_checkpoint),
)
