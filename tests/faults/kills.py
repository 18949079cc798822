"""kill -9 of every kind of process at random moments; after resuming, results are as if nothing had happened."""

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace

from tests.faults.bench import Bench, grades, key_of, num_lines, results, reward_by_hash, stored, trained_results, until
from tests.faults.process import Command, start
from tests.faults.servers import answering, free_port
from tests.faults.trial import Fault, Trial, check, same

KILLS = 4  # into one run


def strike(going: Sequence[Command], rng: Random, within_s: float, number: int = signal.SIGKILL) -> int:
    """Send each command a signal at its own random moment; return how many were still running then."""
    moments = sorted(((rng.uniform(0.0, within_s), command) for command in going), key=lambda pair: pair[0])
    started, injected = time.monotonic(), 0
    for moment, command in moments:
        while time.monotonic() - started < moment and command.poll() is None:
            time.sleep(0.001)
        if command.poll() is None:
            command.kill(number)
            injected += 1
    return injected


def check_whole(bench: Bench, run: Path) -> None:
    """Check that an interrupted run has the same samples, grades, scores and table as an unbroken one."""
    keys = [key_of(row) for row in stored(run)]
    check(len(keys) == len(set(keys)), f"{len(keys) - len(set(keys))} samples stand there twice")
    names = ("samples", "grades", "scores", "tables")
    for name, found, expected in zip(names, results(run), results(bench.whole), strict=True):
        same(found, expected, name)


def shard(bench: Bench, run: Path, index: int, count: int, delay_s: float) -> Command:
    """Start sampling one shard of a run."""
    return start(bench.eval(run, "--shard", f"{index}/{count}"), run.parent, before=partial(slow_down, delay_s))


def slow_down(delay_s: float) -> None:
    """In a new process: make the scripted engine take ``delay_s`` per sample."""
    from stapo_bench.engines import scripted

    scripted.time = SimpleNamespace(sleep=lambda _: time.sleep(delay_s))  # type: ignore[attr-defined]


def kill_eval(bench: Bench, rng: Random, folder: Path, *, writers: int) -> Trial:
    """All writers of a run die at their own moments, several times over; then they are left alone."""
    run, lost, injected = folder / "run", 0, 0
    delay_s, within_s, rounds = (0.01, 0.6, KILLS) if writers == 1 else (0.1, 1.2, 2)
    for _ in range(rounds):
        before = stored(run)
        injected += strike([shard(bench, run, i, writers, delay_s) for i in range(writers)], rng, within_s)
        after = stored(run)
        lost += sum(row not in after for row in before)
    for command in [shard(bench, run, i, writers, delay_s=0.0) for i in range(writers)]:
        command.succeed()
    start(["stapo-bench", "score", run, "--data-dir", bench.root], folder).succeed()
    check_whole(bench, run)
    return Trial(injected=injected, lost=lost)


def kill_grade(bench: Bench, rng: Random, folder: Path) -> Trial:
    """The grading of a drawn run dies, several times over."""
    run = bench.copy(folder)
    (run / "grades" / "math.jsonl").unlink()
    command, injected, lost = ["stapo-bench", "grade", run, "--data-dir", bench.root], 0, 0
    for _ in range(KILLS):
        before = grades(run)
        injected += strike([start(command, folder)], rng, 1.2)
        after = grades(run)
        lost += sum(row not in after for row in before)
        if len(after) == len(stored(run)):  # too late: nothing would be left to interrupt
            (run / "grades" / "math.jsonl").unlink()
    start(command, folder).succeed()
    check_whole(bench, run)
    return Trial(injected=injected, lost=lost)


def kill_score(bench: Bench, rng: Random, folder: Path) -> Trial:
    """Scoring dies: the old scores or the new ones are there, whole."""
    run = bench.copy(folder)
    before = {name: (run / name).read_bytes() for name in ("scores.json", "table.md")}
    command, injected = ["stapo-bench", "score", run, "--data-dir", bench.root], 0
    for _ in range(KILLS):
        injected += strike([start(command, folder)], rng, 0.12)
        for name, content in before.items():
            same((run / name).read_bytes(), content, name)
        (run / "scores.json").unlink()
        injected += strike([start(command, folder)], rng, 0.12)
        if (run / "scores.json").exists():
            same((run / "scores.json").read_bytes(), before["scores.json"], "scores")
        start(command, folder).succeed()
        check_whole(bench, run)
    return Trial(injected=injected)


def kill_worker(bench: Bench, rng: Random, folder: Path) -> Trial:
    """The grading processes of a ``grade`` die, the command lives on; its grades are the same."""
    run = bench.copy(folder)
    (run / "grades" / "math.jsonl").unlink()
    grading = start(["stapo-bench", "grade", run, "--data-dir", bench.root], folder)
    killed: set[int] = set()
    check(until(lambda: bool(children(grading.pid)) or grading.poll() is not None), "no grading process came up")
    time.sleep(rng.uniform(0.0, 0.8))  # starting takes most of it
    for worker in children(grading.pid):
        killed.add(worker)
        os.kill(worker, signal.SIGKILL)
    grading.succeed()
    start(["stapo-bench", "score", run, "--data-dir", bench.root], folder).succeed()
    check_whole(bench, run)
    return Trial(injected=len(killed))


def children(pid: int) -> list[int]:
    """Ids of the child processes of all threads of a process."""
    try:
        files = list(Path(f"/proc/{pid}/task").glob("*/children"))
        return [int(child) for file in files for child in file.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def kill_train(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A training run dies, several times over; weights and metrics are those of the unbroken run to the last bit."""
    out, lost, injected = folder / "run", 0, 0
    for _ in range(KILLS):
        injected += strike([start(bench.train(out), folder, before=reward_by_hash)], rng, 1.2)
        done = num_lines(out / "metrics.jsonl")
        states = [int(path.name.removeprefix("step-")) for path in (out / "state").glob("step-*")]
        lost += 0 if (out / "checkpoints" / "final").exists() else max(0, done - max(states, default=0))
    start(bench.train(out), folder, before=reward_by_hash).succeed()
    same(trained_results(out), trained_results(bench.trained), "weights and metrics")
    return Trial(injected=injected, lost=lost)


def kill_server(bench: Bench, rng: Random, folder: Path) -> Trial:
    """The server of an ``openai`` evaluation dies mid-answer, several times over, and comes back on its port."""
    port, run, injected = free_port(), folder / "run", 0
    server = answering(port, folder)
    where = ("--tasks", bench.task, "--data-dir", bench.root, "--out", run, "--base-url", f"http://127.0.0.1:{port}/v1")
    arguments = ["stapo-bench", "eval", "--engine", "openai", "--ckpt", bench.script(), "--decoding", "justrl", *where]
    drawing = start([*arguments, "--max-new-tokens", 64, "--slots", 8], folder)
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.05, 0.5))
        injected += drawing.poll() is None
        server.kill()
        time.sleep(rng.uniform(0.0, 0.2))
        server = answering(port, folder)
    if drawing.wait() != 0:  # a server that is gone while it is asked for its models ends the command
        drawing.fail(1)
        start([*arguments, "--max-new-tokens", 64, "--slots", 8], folder).succeed()
    server.kill()
    rows = stored(run)
    same([key_of(row) for row in rows], [key_of(row) for row in stored(bench.whole)], "keys")
    same([row["completion"] for row in rows], [f"so \\boxed{{{row['seed'] % 9}}}" for row in rows], "completions")
    return Trial(injected=injected)


FAULTS = (
    Fault(name="kill -9 eval, 1 writer", unit="samples", trials=8, quick=1, inject=partial(kill_eval, writers=1)),
    Fault(name="kill -9 eval, 8 writers", unit="samples", trials=3, quick=0, inject=partial(kill_eval, writers=8)),
    Fault(name="kill -9 grade", unit="grades", trials=5, quick=0, inject=kill_grade),
    Fault(name="kill -9 score", unit="files", trials=4, quick=0, inject=kill_score),
    Fault(name="kill -9 stapo-train", unit="iterations", trials=6, quick=1, inject=kill_train),
    Fault(name="kill -9 grading process", unit="grades", trials=12, quick=1, inject=kill_worker),
    Fault(name="kill -9 openai server mid-answer", unit="samples", trials=4, quick=0, inject=kill_server),
)
