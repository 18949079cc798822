"""Runs commands in parallel lanes, each after those it needs, with status lines; stops all when one fails.

    run_jobs([Job(name="a", command=["stapo-train", "a.yaml"], weight=60, log=Path("logs/a.log"))], lanes=2)

The project's commands resume where they were stopped, and so does a plan that is run again.
"""

import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from stapo_bench.errors import StapoError
from stapo_bench.runs import writing

LINE_EVERY_S = 10.0
PATIENCE_S = 60.0  # with a job that was asked to stop: it may be writing a checkpoint
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(kw_only=True)
class Job:
    """One command with its place in the order. ``weight``: CPU seconds on the machine it was last timed on."""

    name: str
    command: Sequence[str]
    weight: float
    needs: Sequence[str] = ()
    all_lanes: bool = False  # runs alone, with a thread for every lane
    log: Path = field(default_factory=Path)
    is_done: Callable[[], bool] = lambda: True  # checks for the files that a successful command leaves
    process: subprocess.Popen[bytes] | None = None
    done: bool = False

    def progress(self) -> tuple[str, float]:
        """The last ``done/total`` that the command printed, as text and as a fraction."""
        if self.done:
            return "done", 1.0
        if self.process is None or not self.log.exists():
            return "", 0.0
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 4096))
            counts = re.findall(r"([\d,]+)/([\d,]+)", log.read().decode(errors="replace"))
        if not counts:
            return "starting", 0.0
        done, total = (int(count.replace(",", "") or 0) for count in counts[-1])
        return "/".join(counts[-1]), min(1.0, done / total) if total else 0.0


Ended = Callable[[Job, resource.struct_rusage], None]
"""Callback for every job that has ended, successfully or not, with its resource usage."""


def run_jobs(plan: Sequence[Job], lanes: int, niceness: int = 0, ended: Ended | None = None) -> None:
    """Run all jobs that are not done, in the order of the plan; stop everything when one fails.

    Args:
        plan: jobs that name the jobs they need; those that are done already count as finished.
        lanes: jobs at once, each with one thread: the same bits whatever else runs, and no contention for cores.
        niceness: added to this process's own; 19 is the lowest priority.
        ended: called with each job's resource usage.

    Raises:
        StapoError: a command failed; the message names its log.
    """
    began, last_line = time.monotonic(), 0.0
    todo = [job for job in plan if not job.done]
    guard = Guard()
    try:
        while not all(job.done for job in todo):
            for job in ready(plan, lanes):
                _start(job, lanes, niceness, guard)
            time.sleep(0.05)
            for job in todo:
                if job.process is None or job.done or not _has_ended(job, ended):
                    continue
                guard.ended(job.process.pid)
                _check(job)
                job.done = True
                print(f"[{_clock(began)}] {job.name}: done", flush=True)
            if time.monotonic() - last_line >= LINE_EVERY_S:
                last_line = time.monotonic()
                print(status_line(todo, lanes, began), flush=True)
    finally:
        try:
            _stop([job for job in todo if job.process is not None and job.process.returncode is None], ended)
        finally:
            guard.close()


def ready(plan: Sequence[Job], lanes: int) -> Iterator[Job]:
    """Jobs that can start now: what they need is done and a lane is free; in order of the plan."""
    running = [job for job in plan if job.process is not None and not job.done]
    finished = {job.name for job in plan if job.done}
    free = 0 if any(job.all_lanes for job in running) else lanes - len(running)
    for job in plan:
        is_waiting = job.process is None and not job.done
        if is_waiting and finished.issuperset(job.needs) and free > 0 and not (job.all_lanes and running):
            yield job
            free = 0 if job.all_lanes else free - 1


def status_line(plan: Sequence[Job], lanes: int, began: float) -> str:
    """Running jobs, overall progress, and the time left at the pace so far."""
    running = [job for job in plan if job.process is not None and not job.done]
    now = ", ".join(f"{job.name} {job.progress()[0]}" for job in running)
    total = sum(job.weight for job in plan)
    worked = sum(job.weight * job.progress()[1] for job in plan)
    # Use the plan's weights until this machine's pace is known.
    pace = (time.monotonic() - began) / worked if worked > 0.05 * total else 1 / lanes
    return f"[{_clock(began)}] {now} | {worked / total:.0%}, about {(total - worked) * pace / 60:.0f} min left"


class Guard:
    """A process that outlives its runner and kills what that left running, however it ended: a pipe closes with it.

    Jobs are process groups of their own, so that what they started is killed with them.
    """

    def __init__(self) -> None:
        reading, self._told = os.pipe()
        self._pid = os.fork()  # this process starts no threads
        if self._pid:
            os.close(reading)
            return
        try:
            os.setsid()  # a Ctrl-C is for the runner
            os.close(self._told)
            groups: set[int] = set()
            with os.fdopen(reading) as lines:
                for line in lines:
                    change = groups.add if line.startswith("+") else groups.discard
                    change(int(line[1:]))
            for group in groups:
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)
        finally:
            os._exit(0)

    def started(self, group: int) -> None:
        """A group has started. It says so itself, before it does anything: its runner may be killed before it could."""
        os.write(self._told, b"+%d\n" % group)

    def ended(self, group: int) -> None:
        """A group has ended."""
        os.write(self._told, b"-%d\n" % group)

    def close(self) -> None:
        """Nothing is left to guard."""
        os.close(self._told)
        os.waitpid(self._pid, 0)


def run_guarded(command: Sequence[str]) -> int:
    """Run a command as ``subprocess.run`` does; it ends with this process, with all that it started."""
    guard = Guard()
    try:
        leads = partial(in_a_group, os.getpid(), guard)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=leads)  # noqa: PLW1509
        try:
            return process.wait()
        except BaseException:  # Ctrl-C reaches this process alone
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, number)
                    process.wait(PATIENCE_S)
                    break
            raise
    finally:
        guard.close()


def spawn(command: Sequence[str], log: BinaryIO, threads: int, niceness: int, guard: Guard) -> subprocess.Popen[bytes]:
    """Start a command that writes to the log and ends with this process, with all that it starts."""
    settings = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
    env = {**os.environ, **settings}

    runner = os.getpid()

    def in_the_new_process() -> None:
        os.nice(niceness)
        in_a_group(runner, guard)

    # This process starts no threads: preexec_fn is safe.
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=env,
        preexec_fn=in_the_new_process,  # noqa: PLW1509
    )


def in_a_group(runner: int, guard: Guard) -> None:
    """In the new process: lead a group of its own, which ends with the runner."""
    os.setpgid(0, 0)
    guard.started(os.getpid())
    die_with_the_runner(runner)


def die_with_the_runner(runner: int) -> None:
    """In the new process: end when the runner ends, because a second runner may write to the same files later."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != runner:  # it ended before this took effect
        os._exit(1)


def _start(job: Job, lanes: int, niceness: int, guard: Guard) -> None:
    with writing(job.log):
        job.log.parent.mkdir(parents=True, exist_ok=True)
        log = job.log.open("ab")
    with log:
        job.process = spawn(job.command, log, lanes if job.all_lanes else 1, niceness, guard)


def _has_ended(job: Job, ended: Ended | None) -> bool:
    """Reap the process if it has ended, and report its resource usage."""
    assert job.process is not None
    pid, status, usage = os.wait4(job.process.pid, os.WNOHANG)
    if not pid:
        return False
    job.process.returncode = os.waitstatus_to_exitcode(status)
    if ended is not None:
        ended(job, usage)
    return True


def _check(job: Job) -> None:
    assert job.process is not None
    code = job.process.returncode
    if code == 0 and job.is_done():
        return
    last = job.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise StapoError(f"{job.name} failed (exit {code}): {' '.join(last)}; all of it: {job.log}")


def _stop(running: list[Job], ended: Ended | None) -> None:
    """Ask each to stop, more firmly after a while, and wait until all have."""
    # Where this process ignores SIGINT (a background job, nohup), so do the jobs.
    asked = [signal.SIGTERM] if signal.getsignal(signal.SIGINT) == signal.SIG_IGN else [signal.SIGINT, signal.SIGTERM]
    for number in (*asked, signal.SIGKILL):
        for job in running:
            if job.process is not None:
                job.process.send_signal(number)
        deadline = time.monotonic() + PATIENCE_S
        while running and (number == signal.SIGKILL or time.monotonic() < deadline):
            running = [job for job in running if not _has_ended(job, ended)]
            time.sleep(0.05)


def _clock(began: float) -> str:
    seconds = int(time.monotonic() - began)
    return f"{seconds // 60:2d}:{seconds % 60:02d}"
