"""One grading process as its owner sees it: start it, ask it, and say how it ended.

What runs inside it is ``stapo_bench.grading.serve``. A request goes in as a JSON line and a grade comes back as one;
when its output ends it is dead.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, cast

from stapo_bench.errors import StapoError
from stapo_bench.grading.registry import Grader
from stapo_bench.grading.serve import TIMED_OUT
from stapo_bench.records import Gold

# The search path first: then a json.py in the current folder cannot stand in for the library's.
_START = """\
import sys
sys.path[:] = sys.argv[2:]
import json
from stapo_bench.grading.serve import main
main(**json.loads(sys.argv[1]))
"""
# One hash seed: set order, and with it sympy's path to a result, is the same in every worker. One thread: numeric
# libraries otherwise reserve memory for every core of a large machine.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
KILLED = "crashed: SIGKILL"  # our limits never send that signal: another process did
_BUSY = "RD"  # running or waiting for a CPU, waiting for a disk: on a loaded machine that may take long


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one grade may use. Far above what any sane pair needs: p99 is some milliseconds."""

    cpu_s: float = 3.0
    memory_bytes: int = 1 << 30  # beyond what the loaded libraries take
    asleep_s: float = 30.0  # on the wall, without using CPU time


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a worker is asked. Equal requests are asked once."""

    text: str
    is_extracted: bool  # the text is the answer alone; else the whole completion
    gold: Gold

    def line(self) -> bytes:
        """The request as the process reads it."""
        kind = "extracted" if self.is_extracted else "completion"
        return json.dumps({kind: self.text, "gold": asdict(self.gold)}).encode("ascii") + b"\n"


class KilledError(StapoError):
    """Another process killed a worker that was starting."""


class GradingProcess:
    """A subprocess that grades, one request after the other, within limits that the kernel enforces."""

    def __init__(self, grader: Grader, limits: Limits) -> None:
        self._limits = limits
        config = {
            "module": grader.module,
            "preload": grader.preload,
            "cpu_s": limits.cpu_s,
            "memory_bytes": limits.memory_bytes,
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(config), *map(str, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_ENVIRONMENT},
                start_new_session=True,  # Ctrl-C reaches the parent, which then ends its workers
            )
        except OSError as error:
            raise StapoError(f"cannot start a grading process with {sys.executable!r}: {error}") from error
        self._next_line = _reader(self._output)
        ready = self._read(patience_s=max(60.0, limits.asleep_s))  # the libraries may come from a slow disk
        if "ready" not in ready:
            kind = KilledError if ready["error"] == KILLED else StapoError
            raise kind(f"the grading process of grader {grader.name!r} did not start: {ready['error']}")

    @property
    def _input(self) -> BinaryIO:
        """Where requests are written."""
        return cast(BinaryIO, self._process.stdin)

    @property
    def _output(self) -> BinaryIO:
        """Where replies are read."""
        return cast(BinaryIO, self._process.stdout)

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ask(self, request: Request) -> dict[str, Any]:
        """The worker's reply, or ``{"error": why there is none}``; then the worker has ended."""
        try:
            self._input.write(request.line())
            self._input.flush()
        except OSError:  # a broken pipe; Windows calls it an invalid argument
            return {"error": self.end()}
        return self._read(self._limits.asleep_s)

    def end(self) -> str:
        """Kill it if it lives, reap it, and say how it ended."""
        self._process.kill()
        code = self._process.wait()
        with suppress(OSError):  # a broken pipe; Windows calls it an invalid argument
            self._input.close()
        self._output.close()
        if code in (-getattr(signal, "SIGPROF", 0), TIMED_OUT):
            return f"timed out: more than {self._limits.cpu_s:g} s of CPU time"
        return f"crashed: {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _read(self, patience_s: float) -> dict[str, Any]:
        """The next line, or an error once the process is dead, or asleep and without CPU time for so long."""
        used = -1.0
        while (line := self._next_line(patience_s / 2)) is None:  # looks twice before it decides
            before, (state, used) = used, _state(self._process.pid)
            if state not in _BUSY and used - before < 0.01 * patience_s:
                self.end()
                return {"error": f"asleep: no CPU time used in {patience_s:g} s"}
        if not line.endswith(b"\n"):
            with suppress(subprocess.TimeoutExpired):
                # A process that exits closes its output first; its own exit code says more than that of a kill.
                self._process.wait(1.0)
            return {"error": self.end()}
        reply = cast(dict[str, Any], json.loads(line))
        if reply.pop("last", False):
            self.end()
        return reply


def _reader(output: BinaryIO) -> Callable[[float], bytes | None]:
    """A function that waits so many seconds for a line of the output: None where none came, b"" at its end."""
    if hasattr(select, "poll"):
        readable = select.poll()
        readable.register(output, select.POLLIN)
        return lambda seconds: output.readline() if readable.poll(1000 * seconds) else None
    lines: SimpleQueue[bytes] = SimpleQueue()  # Windows waits for no pipe: a thread does

    def read() -> None:
        with suppress(OSError, ValueError):  # closed under it
            while line := output.readline():
                lines.put(line)
        lines.put(b"")

    threading.Thread(target=read, daemon=True).start()

    def next_line(seconds: float) -> bytes | None:
        try:
            return lines.get(timeout=seconds)
        except Empty:
            return None

    return next_line


def _state(pid: int) -> tuple[str, float]:
    """State letter and CPU seconds of a process, proc(5). Where /proc is missing the wall clock decides alone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "S", 0.0
    fields = stat.rpartition(")")[2].split()  # from field 3 on: the name before ")" may hold spaces
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
