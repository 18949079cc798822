"""Steps side by side, each on one core and in nobody's way; what each cost stands in ``costs.jsonl``.

A step that was killed is started again and goes on where its own command left off.
"""

import ctypes
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

from stapo_bench.errors import StapoError
from stapo_bench.runs import complete_lines
from stapo_train.experiments.steps import Step

LINE_EVERY_S = 15.0
COSTS = "costs.jsonl"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(kw_only=True)
class Running:
    """A step under way."""

    step: Step
    process: subprocess.Popen[bytes]
    log: Path


def run_steps(plan: Mapping[str, Step], out: Path, jobs: int) -> None:
    """Run what is not finished, ``jobs`` steps at once; stop everything where one fails.

    Raises:
        StapoError: a command failed; the message names its log.
    """
    done = {name for name, step in plan.items() if step.is_done()}
    todo = [step for name, step in plan.items() if name not in done]
    total, began, told = sum(step.cpu_s for step in todo), time.monotonic(), 0.0
    running: list[Running] = []
    _code()
    print(f"{len(done)} of {len(plan)} steps are finished", flush=True)
    try:
        while todo or running:
            while len(running) < jobs and (step := next((s for s in todo if done.issuperset(s.needs)), None)):
                todo.remove(step)
                running.append(_start(step, out))
            time.sleep(0.05)
            for item in list(running):
                if not _has_ended(item, out):
                    continue
                running.remove(item)
                _check(item)
                done.add(item.step.name)
            if time.monotonic() - told >= LINE_EVERY_S:
                told = time.monotonic()
                print(_line(running, todo, total, began, jobs), flush=True)
    finally:
        for item in running:
            item.process.send_signal(signal.SIGINT)
        while running:
            running = [item for item in running if not _has_ended(item, out)]
            time.sleep(0.05)


def _start(step: Step, out: Path) -> Running:
    log = out / "logs" / f"{step.name.replace(' ', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return Running(step=step, process=spawn(step.command, file), log=log)


def spawn(command: Sequence[str], log: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a command with one thread: the same bits whatever else runs, and no core that two steps want."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.Popen(  # no threads here: preexec_fn is safe
        command,
        stdout=log,
        stderr=log,
        env=env,
        preexec_fn=behind_all_others,  # noqa: PLW1509
    )


def behind_all_others() -> None:
    """In the new process: lowest priority."""
    os.nice(19)
    die_with_the_runner()


def die_with_the_runner() -> None:
    """In the new process: no life beyond that of the runner, as a second runner may be writing then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _has_ended(item: Running, out: Path) -> bool:
    """Reap the process and write down what it cost, finished or not."""
    pid, status, usage = os.wait4(item.process.pid, os.WNOHANG)
    if not pid:
        return False
    item.process.returncode = os.waitstatus_to_exitcode(status)
    spent = round(usage.ru_utime + usage.ru_stime, 2)
    row = {"step": item.step.name, "kind": item.step.kind, "cpu_s": spent, **_code()}
    with (out / COSTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    return True


def _check(item: Running) -> None:
    code = item.process.returncode
    if code == 0 and item.step.is_done():
        return
    last = item.log.read_text(errors="replace").strip().splitlines()[-1:]
    raise StapoError(f"{item.step.name} failed (exit {code}): {' '.join(last)}; all of it: {item.log}")


def _line(running: list[Running], todo: list[Step], total: float, began: float, jobs: int) -> str:
    shares = {item.step.name: _share(item.log) for item in running}
    left = sum(step.cpu_s for step in todo)
    left += sum(item.step.cpu_s * (1.0 - shares[item.step.name]) for item in running)
    worked, seconds = total - left, time.monotonic() - began
    # The plan's own numbers until enough has been seen; then this machine's pace.
    pace = seconds / worked if worked > 0.02 * total else 1.0 / jobs
    now = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return f"{seconds / 60:5.1f} min · {worked / total:.0%} · about {left * pace / 60:.0f} min left · {now}"


def _share(log: Path) -> float:
    """How far a command is, by the last ``done/total`` that it printed."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        counts = re.findall(r"([\d,]+)/([\d,]+)", file.read().decode(errors="replace"))
    done, total = (int(count.replace(",", "") or 0) for count in counts[-1]) if counts else (0, 1)
    return min(1.0, done / total) if total else 0.0


@cache
def _code() -> dict[str, Any]:
    """Commit of this checkout, whether tracked files differ from it, and versions: as of the runner's start."""
    about: dict[str, Any] = {"commit": None, "dirty": None}
    try:
        git = ["git", "-C", str(Path(__file__).resolve().parent)]
        about["commit"] = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
        about = {"commit": about["commit"].strip(), "dirty": bool(changed.stdout)}
    except (OSError, subprocess.CalledProcessError):
        pass  # not a checkout: unknown
    names = ("stapo-bench", "torch", "transformers")
    return {
        **about,
        "versions": ", ".join([f"Python {platform.python_version()}", *(f"{n} {version(n)}" for n in names)]),
    }


def read_costs(out: Path) -> list[dict[str, Any]]:
    """Lines of the ledger, in the order in which commands ended."""
    path = out / COSTS
    return [json.loads(line) for _, line in complete_lines(path)] if path.is_file() else []
