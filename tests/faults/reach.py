"""What a run folder from elsewhere must not reach, what is moved while it is written, file systems without locks."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from tests.faults.bench import Bench, key_of, num_lines, stored, until
from tests.faults.kills import check_whole, slow_down, strike
from tests.faults.process import start
from tests.faults.security import readers
from tests.faults.trial import Fault, Trial, check, same

TORN = b'{"task":"sums","prob'  # what is cut off a file of the run's own


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def link(path: Path, target: Path) -> None:
    """A symbolic link."""
    path.symlink_to(target)


def second_name(path: Path, target: Path) -> None:
    """A hard link."""
    os.link(target, path)


def reach(bench: Bench, rng: Random, folder: Path, *, level: str) -> Trial:
    """In a run folder, what every command would change is somewhere else; nothing there changes."""
    run, ours = bench.copy(folder), folder / "ours"
    ours.mkdir()
    for path in [*run.glob("samples/*"), *run.glob("grades/*")]:
        path.write_bytes(path.read_bytes().replace(b"math-15", b"math-2") + TORN)
    if level == "folder":
        moved = [run / rng.choice(["samples", "grades"])]
    else:
        files = [path for path in sorted(run.rglob("*")) if path.is_file()]
        moved = rng.sample(files, rng.randrange(1, len(files) + 1))
    for path in moved:
        shutil.move(path, ours / path.name)
        (second_name if level == "name" else link)(path, ours / path.name)
    before = contents(ours)
    for command in (*readers(bench, run, folder), bench.eval(run, "--samples", 9)):
        done = start(command, folder)
        if done.wait() != 0:
            done.fail(1)
    same(contents(ours), before, "files elsewhere")
    return Trial()


def foreign(bench: Bench, rng: Random, folder: Path) -> Trial:
    """Files that are not ours stand where ours are looked for: left as they are."""
    run = bench.copy(folder)
    name = rng.choice(["samples/notes.jsonl", "samples/0009-shard0of1-0badc0de.jsonl", "grades/strict.jsonl"])
    path, content = run / name, rng.choice([b"notes\nwithout an end", b"", bytes(64), b"[1]\n[2", b"notes" + TORN])
    path.write_bytes(content)
    grading = ["stapo-bench", "grade", run, "--data-dir", bench.root, "--grader", "strict"]
    for command in (*readers(bench, run, folder), bench.eval(run, "--samples", 9), *([grading] if content else [])):
        done = start(command, folder)
        if done.wait() != 0:
            check(path.name in (line := done.fail(1)), f"the file is not named: {line}")
    same(path.read_bytes(), content, "a file that is not ours")
    return Trial()


# -- moved while it is written ----------------------------------------------------------------------------------------


def delete(segment: Path) -> None:
    """The segment is deleted."""
    segment.unlink()


def move_samples(segment: Path) -> None:
    """The folder of the segments is moved."""
    segment.parent.rename(segment.parents[1] / "old")


def move_run(segment: Path) -> None:
    """The run is moved."""
    segment.parents[1].rename(segment.parents[2] / "old")


def replace(segment: Path) -> None:
    """Another file takes the segment's name."""
    segment.with_name("new").write_bytes(segment.read_bytes())
    segment.with_name("new").rename(segment)


def cut(segment: Path) -> None:
    """The segment loses all lines but one."""
    os.truncate(segment, segment.read_bytes().index(b"\n") + 1)


GONE: tuple[Callable[[Path], None], ...] = (delete, move_samples, move_run, replace, cut)


def gone(bench: Bench, rng: Random, folder: Path) -> Trial:
    """What was said to be safe is taken away while more is drawn: exit code 1, and what is called safe is there."""
    run = folder / "run"
    drawing = start(bench.eval(run), folder, before=partial(slow_down, 0.01))
    check(until(lambda: any(num_lines(path) > 2 for path in run.glob("samples/*.jsonl"))), "nothing is drawn")
    time.sleep(rng.uniform(0.0, 0.8))
    (segment,) = run.glob("samples/*.jsonl")
    rng.choice(GONE)(segment)
    line = drawing.fail(1)
    check(segment.name in line, f"the segment is not named: {line}")
    (said,) = [text.split(" new samples")[0] for text in drawing.err.splitlines() if "new samples are safe" in text]
    there = len(stored(run)) if run.exists() else 0
    check(int(said) <= there, f"{said} samples are said to be safe, {there} are there")
    start(bench.eval(run), folder).succeed()
    check_whole(bench, run)
    return Trial()


# -- no locks ---------------------------------------------------------------------------------------------------------


def without_flock(delay_s: float = 0.0) -> None:
    """In a new process: a file system without locks."""
    import fcntl

    from stapo_bench.runs import locks

    def flock(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    fcntl.flock = flock
    locks.LEASE_SECONDS = 3.0
    if delay_s:
        slow_down(delay_s)


def no_flock(bench: Bench, rng: Random, folder: Path) -> Trial:
    """Without locks one of several writers draws, and a killed one's place is taken over."""
    run = folder / "run"
    first = start(bench.eval(run), folder, before=partial(without_flock, 0.05))
    check(until(lambda: bool(stored(run))), "nothing is drawn")
    start(bench.eval(run), folder, before=without_flock).fail(1)
    injected = 1 + strike([first], rng, 0.5)
    start(bench.eval(run), folder, before=without_flock).succeed()
    check(not list(run.glob("*.lease")), "leases are left behind")
    keys = [key_of(row) for row in stored(run)]
    check(len(keys) == len(set(keys)), "samples stand there twice")
    check_whole(bench, run)
    return Trial(injected=injected)


# -- the runner of jobs -----------------------------------------------------------------------------------------------

RUNNER = """
import sys
from pathlib import Path
from stapo_train.jobs import Job, run_jobs
from stapo_train.reproduce.table import with_logs
plan = [Job(name=f"job {i}", command=sys.argv[2:], weight=1) for i in range(2)]
run_jobs(with_logs(plan, Path(sys.argv[1])), lanes=2)
"""
DEAF = "trap '' INT TERM; sh -c 'trap \"\" INT TERM; sleep 100' & echo $! $$ > $0/$$; wait"


def kill_runner(bench: Bench, rng: Random, folder: Path) -> Trial:
    """kill -9 of the runner behind ``scripts/reproduce_table.sh``: neither its jobs nor theirs live on."""
    pids = folder / "pids"
    pids.mkdir()
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(folder), "sh", "-c", DEAF, str(pids)], stdout=subprocess.DEVNULL
    )
    check(until(lambda: sum(path.read_text().endswith("\n") for path in pids.iterdir()) == 2), "no job came up")
    time.sleep(rng.uniform(0.0, 0.3))
    runner.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]))
    runner.wait()
    left = [int(pid) for path in pids.iterdir() for pid in path.read_text().split()]
    check(until(lambda: not any(map(is_running, left)), 10), f"processes live on: {list(filter(is_running, left))}")
    return Trial(injected=len(left))


def is_running(pid: int) -> bool:
    """Whether a process is there; what has ended and waits to be reaped is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


FAULTS = (
    Fault(name="a run's folder is elsewhere", unit="samples", trials=6, quick=1, inject=partial(reach, level="folder")),
    Fault(name="a run's files are links", unit="samples", trials=8, quick=0, inject=partial(reach, level="file")),
    Fault(name="a run's files are hard links", unit="samples", trials=8, quick=0, inject=partial(reach, level="name")),
    Fault(name="files that are not ours in a run", unit="files", trials=12, quick=1, inject=foreign),
    Fault(name="samples taken away while drawing", unit="samples", trials=10, quick=1, inject=gone),
    Fault(name="a file system without locks", unit="samples", trials=4, quick=1, inject=no_flock),
    Fault(name="kill -9 the runner of jobs", unit="processes", trials=4, quick=1, inject=kill_runner),
)
