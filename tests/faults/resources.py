"""Exhausted or withdrawn resources, signals at bad moments, and two writers where one was meant."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from tests.faults.bench import Bench, num_lines, reward_by_hash, stored, trained_results, until
from tests.faults.kills import check_whole, shard, slow_down, strike
from tests.faults.process import Command, start
from tests.faults.trial import Fault, Trial, check, same

NOBODY = 65534


def commands(bench: Bench, run: Path) -> list[list[object]]:
    """Commands that work on a run."""
    return [
        bench.eval(run),
        ["stapo-bench", "grade", run, "--data-dir", bench.root],
        ["stapo-bench", "score", run, "--data-dir", bench.root],
    ]


# -- disk -------------------------------------------------------------------------------------------------------------


class Mount:
    """A file system of its own in memory, where that is allowed."""

    def __init__(self, folder: Path, size: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.there = mount("-t", "tmpfs", "-o", f"size={size}", "none", folder)

    def change(self, option: str) -> None:
        """Remount with another option."""
        check(mount("-o", f"remount,{option}", self.folder), f"cannot remount with {option}")

    def __enter__(self) -> "Mount":
        return self

    def __exit__(self, *exception: object) -> None:
        if self.there:
            subprocess.run(["umount", str(self.folder)], check=True)


def mount(*arguments: object) -> bool:
    """Run ``mount``; False where it fails or is not installed."""
    try:
        return subprocess.run(["mount", *map(str, arguments)], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def limit_files(num_bytes: int) -> None:
    """In a new process: limit file sizes, the nearest to a full disk without a mount."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))


def full_disk(bench: Bench, rng: Random, folder: Path) -> Trial:
    """The disk fills while samples are drawn, or graded; with room again it goes on."""
    with Mount(folder / "disk", f"{rng.randrange(3, 10) * 4096}") as disk:
        run = disk.folder / "run"
        before = None if disk.there else partial(limit_files, rng.randrange(2000, 30000))
        for command in commands(bench, run):
            done = start(command, folder, before=before)
            if done.wait() != 0:
                done.fail(1)
        safe = stored(run)
        if disk.there:
            disk.change("size=64m")
        start(bench.eval(run), folder).succeed()
        lost = sum(row not in stored(run) for row in safe)
        check_whole(bench, run)
        return Trial(lost=lost, note="tmpfs" if disk.there else "RLIMIT_FSIZE, no mount allowed")


def full_disk_training(bench: Bench, rng: Random, folder: Path) -> Trial:
    """The disk fills while a training run saves."""
    with Mount(folder / "disk", f"{rng.randrange(40, 1000) * 1024}") as disk:
        out = disk.folder / "run"
        config = bench.train(folder / "run")  # the config stands elsewhere
        command = [*config, f"out={out}"]
        limit = None if disk.there else partial(limit_files, rng.randrange(2000, 100000))

        def before() -> None:
            reward_by_hash()
            if limit:
                limit()

        done = start(command, folder, before=before)
        if done.wait() != 0:
            done.fail(1)
        if disk.there:
            disk.change("size=64m")
        start(command, folder, before=reward_by_hash).succeed()
        same(trained_results(out), trained_results(bench.trained), "weights and metrics")
        return Trial(note="tmpfs" if disk.there else "RLIMIT_FSIZE, no mount allowed")


# -- permissions and limits -------------------------------------------------------------------------------------------


def read_only(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A run on a file system that takes no writes: it is scored and shown; what has to write says so in one line."""
    with Mount(folder / "disk", "64m") as disk:
        if not disk.there:
            return Trial(injected=0, note="no mount allowed")
        run = bench.copy(disk.folder)
        if is_stale := rng.random() < 0.5:
            (run / "scores.json").unlink()
        disk.change("ro")
        reading = [*commands(bench, run)[1:], ["stapo-bench", "table", run]]
        reading.append(["stapo-bench", "report", run, "-o", folder / "report.html"])
        for command in rng.sample(reading, 2):
            start(command, folder).succeed()
        check(is_stale != (run / "scores.json").exists(), "something was written")
        start(rng.choice([bench.eval(run, "--samples", 9), bench.eval(run / "new")]), folder).fail(1)
        disk.change("rw")
        start(bench.eval(run), folder).succeed()
        check_whole(bench, run)
        return Trial()


def as_nobody() -> None:
    """In a new process: become a user who owns nothing."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def no_permission(bench: Bench, rng: Random, folder: Path) -> Trial:
    """Another user's run: what can be read is scored, what cannot, or needs to write there, says so in one line."""
    if os.getuid() != 0:
        return Trial(injected=0, note="needs root, to become somebody else")
    run = bench.copy(folder)
    for file in [run, *run.rglob("*")]:
        file.chmod(0o755 if file.is_dir() else rng.choice([0o644, 0o600]))
    command = rng.choice([*commands(bench, run)[1:], bench.eval(run, "--samples", 9), bench.eval(folder / "new")])
    (folder / "output").mkdir(mode=0o777)
    (folder / "output").chmod(0o777)
    done = start(command, folder / "output", before=as_nobody)
    if done.wait() != 0 or command[1] == "eval":
        done.fail(1)
    start(bench.eval(run), folder).succeed()
    check_whole(bench, run)
    return Trial()


def few_handles(bench: Bench, rng: Random, folder: Path) -> Trial:
    """So few file handles that something fails to open: one line, and with more of them it goes on."""
    run = folder / "run"
    limit = rng.randrange(5, 40)

    def before() -> None:
        from stapo_bench.sampling import identity

        commit = identity.commit()  # asked of git, which cannot start then; the manifest would lack it
        identity.commit = lambda: commit
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    for command in commands(bench, run):
        done = start(command, folder, before=before)
        if done.wait() != 0:
            done.fail(1)
    start(bench.eval(run), folder).succeed()
    check_whole(bench, run)
    return Trial()


# -- time -------------------------------------------------------------------------------------------------------------


def jumping_clock(seed: int) -> None:
    """In a new process: the clock on the wall leaps by up to two days either way, at every look."""
    real, rng = time.time, Random(seed)
    time.time = lambda: real() + rng.uniform(-2e5, 2e5)
    slow_down(0.002)


def clock(bench: Bench, rng: Random, folder: Path) -> Trial:
    """The clock leaps, within a command and between two: nothing depends on it, stale scores are not shown."""
    run = folder / "run"
    start(bench.eval(run, "--samples", 4), folder, before=partial(jumping_clock, rng.getrandbits(32))).succeed()
    for file in run.rglob("*"):  # what was written before the clock was put right
        moment = time.time() + rng.uniform(-2e5, 2e5)
        os.utime(file, (moment, moment))
    start(bench.eval(run), folder, before=partial(jumping_clock, rng.getrandbits(32))).succeed()
    shown = start(["stapo-bench", "table", run, "--long"], folder).succeed()
    check_whole(bench, run)
    same(shown.out.strip(), (bench.whole / "table.md").read_text().strip(), "tables")
    return Trial()


# -- signals ----------------------------------------------------------------------------------------------------------


def stopped(bench: Bench, rng: Random, folder: Path, *, number: int) -> Trial:
    """SIGINT or SIGTERM at a random moment, sometimes twice: its exit code and one line; then the run resumes."""
    run, injected = folder / "run", 0
    for _ in range(4):
        before = stored(run)
        command = shard(bench, run, 0, 1, 0.005)
        injected += strike([command], rng, 1.0, number)
        if rng.random() < 0.3:  # impatience
            time.sleep(rng.uniform(0.0, 0.05))
            command.kill(number)
        if command.wait() != 0:
            command.fail(128 + number)
        check(all(row in stored(run) for row in before), "finished samples are gone")
    start(bench.eval(run), folder).succeed()
    check_whole(bench, run)
    return Trial(injected=injected)


def stopped_early(bench: Bench, rng: Random, folder: Path, *, number: int) -> Trial:
    """The same signals to a new interpreter from its start on: no traceback, whatever was being imported."""
    arguments = [str(part) for part in bench.eval(folder / "run")[1:]]
    code = "import sys; sys.argv[0] = 'stapo-bench'; from stapo_bench.cli import main; main()"
    with (folder / "err").open("wb") as err:
        process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=err, stderr=err)
        time.sleep(0.15 + rng.uniform(0.0, 1.5))
        process.send_signal(number)
        process.wait(60)
    text = (folder / "err").read_text()
    check("Traceback" not in text, f"a traceback: {text[-300:]}")
    check(process.returncode in (0, 128 + number, -number), f"exit code {process.returncode}: {text[-300:]}")
    start(bench.eval(folder / "run"), folder).succeed()
    check_whole(bench, folder / "run")
    return Trial()


# -- two writers ------------------------------------------------------------------------------------------------------


def two_writers(bench: Bench, rng: Random, folder: Path) -> Trial:
    """The same run started twice: the second is refused; when the first was killed, it is not."""
    run = folder / "run"
    first = shard(bench, run, 0, 1, 0.01)
    check(until(lambda: bool(stored(run)) or first.poll() is not None), "the first writer did not come up")
    other = rng.choice([(0, 1), (0, 2), (1, 3)])
    refused = shard(bench, run, *other, 0.0).fail(1)
    check("another process is drawing" in refused, f"refused for another reason: {refused}")
    first.kill()
    start(bench.eval(run), folder).succeed()
    check_whole(bench, run)
    return Trial()


def two_at_once(bench: Bench, rng: Random, folder: Path) -> Trial:
    """Several started within milliseconds: one draws, no sample is drawn twice."""
    run = folder / "run"
    writers: list[Command] = []
    for _ in range(4):
        writers.append(shard(bench, run, 0, 1, 0.005))
        time.sleep(rng.uniform(0.0, 0.01))
    codes = [writer.wait() for writer in writers]
    for writer, code in zip(writers, codes, strict=True):
        if code:
            check("another process is drawing" in writer.fail(1), writer.err)
    check(codes.count(0) == 1, f"exit codes {codes}")
    check_whole(bench, run)
    return Trial(injected=3)


def train_twice(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A training run started twice: the second is refused."""
    out = folder / "run"
    first = start(bench.train(out), folder, before=reward_by_hash)
    check(until(lambda: num_lines(out / "metrics.jsonl") > 0 or first.poll() is not None), "no first iteration")
    second = start(bench.train(out), folder, before=reward_by_hash)
    if second.wait() != 0:
        check("another process is training there" in second.fail(1), second.err)
    first.succeed()
    same(trained_results(out), trained_results(bench.trained), "weights and metrics")
    return Trial()


Inject = Callable[[Bench, Random, Path], Trial]


def fault(name: str, inject: Inject, trials: int, quick: int, unit: str = "samples") -> Fault:
    """A fault from positional arguments."""
    return Fault(name=name, unit=unit, trials=trials, quick=quick, inject=inject)


FAULTS = (
    fault("disk full, eval, grade and score", full_disk, 10, 1),
    fault("disk full, stapo-train", full_disk_training, 8, 0, "iterations"),
    fault("read-only folder", read_only, 8, 1),
    fault("no permission", no_permission, 8, 1),
    fault("few file handles", few_handles, 12, 1),
    fault("clock jumps", clock, 6, 0),
    fault("SIGTERM to eval", partial(stopped, number=signal.SIGTERM), 6, 0),
    fault("SIGINT to eval", partial(stopped, number=signal.SIGINT), 6, 0),
    fault("SIGTERM while starting", partial(stopped_early, number=signal.SIGTERM), 6, 0),
    fault("SIGINT while starting", partial(stopped_early, number=signal.SIGINT), 6, 0),
    fault("a second writer, later", two_writers, 8, 1),
    fault("four writers at once", two_at_once, 5, 0),
    fault("stapo-train started twice", train_twice, 3, 0, "iterations"),
)
