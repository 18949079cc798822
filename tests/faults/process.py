"""The real commands in processes that can be killed within milliseconds of any moment.

A fork of a process that has imported everything runs the console script's ``main`` in place of a new interpreter: a
kill then lands in the work and not in the imports, and a hundred kills cost minutes less.
"""

import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.faults.trial import BrokenError, check

PATIENCE_S = 120.0  # a command that takes longer hangs
NEEDED = (
    "stapo_bench.cli",
    "stapo_bench.commands.evaluate",
    "stapo_bench.commands.score",
    "stapo_bench.sampling.evaluation",
    "stapo_bench.engines.openai",
    "stapo_bench.presenting.figures.render",
    "stapo_bench.engines.scripted",
    "stapo_bench.sampling.judging",
    "stapo_bench.analysis.grader_agreement",
    "stapo_bench.presenting.report.page",
    "stapo_bench.analysis.scores",
    "stapo_bench.presenting.tables.table",
    "stapo_train.cli",
    "stapo_train.run",
    "transformers.models.qwen3.modeling_qwen3",
)
"""As names: imports that nothing here uses would be taken for mistakes."""


def preload(among: str = "") -> None:
    """Import what the commands import when they need it; ``among``: of these packages alone."""
    for name in NEEDED:
        if name.startswith(among):
            import_module(name)
    gc.freeze()  # children share these pages


@dataclass
class Command:
    """A command under way, or ended."""

    pid: int
    folder: Path  # its output lies there
    code: int | None = None  # negative: the signal that ended it

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal; SIGKILL also waits for its end."""
        if self.poll() is None:
            os.kill(self.pid, number)
        if number == signal.SIGKILL:
            self.wait()

    def poll(self) -> int | None:
        """The exit code once it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def wait(self, patience_s: float = PATIENCE_S) -> int:
        """The exit code; BrokenError where it hangs."""
        deadline = time.monotonic() + patience_s
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                self.code = -signal.SIGKILL
                raise BrokenError(f"hangs: no end within {patience_s:g} s")
            time.sleep(0.002)
        return code

    @property
    def out(self) -> str:
        """Standard output so far."""
        return self._read("out")

    @property
    def err(self) -> str:
        """Standard error so far."""
        return self._read("err")

    def _read(self, name: str) -> str:
        path = self.folder / f"{self.pid}.{name}"  # not there in the process's first moments
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def succeed(self) -> "Command":
        """Wait for exit code 0."""
        code = self.wait()
        check(code == 0, f"exit code {code}: {self.err.strip()[-300:]}")
        return self

    def fail(self, *codes: int) -> str:
        """Wait for one of these exit codes and one clear line, which is returned."""
        code = self.wait()
        lines = [line for line in self.err.splitlines() if line.startswith(("stapo-bench: ", "stapo-train: "))]
        check(code in codes, f"exit code {code}, expected {codes}: {self.err.strip()[-300:]}")
        check("Traceback" not in self.err, f"a traceback: {self.err.strip()[-300:]}")
        check(len(lines) == 1, f"expected one clear line, got {lines}: {self.err.strip()[-300:]}")
        check(": unexpected " not in lines[0], f"a defect: {lines[0]}")
        return lines[0]


def start(arguments: Sequence[object], folder: Path, before: Callable[[], None] | None = None) -> Command:
    """Start ``stapo-bench`` or ``stapo-train`` with arguments; ``before`` runs in the new process first."""
    name, *rest = map(str, arguments)
    from stapo_bench import cli
    from stapo_train import cli as train_cli

    main = {"stapo-bench": cli.main, "stapo-train": train_cli.main}[name]

    def run() -> None:
        sys.argv = [name, *rest]
        main()

    return fork(run, folder, before)


def fork(main: Callable[[], None], folder: Path, before: Callable[[], None] | None = None) -> Command:
    """Run a function in a process of its own, its output in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Command(pid, folder)
    code = 70
    try:
        for number, name in ((1, "out"), (2, "err")):
            file = os.open(folder / f"{os.getpid()}.{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(file, number)
            os.close(file)
        if before is not None:
            before()
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def impatient(timeout_s: float = 0.3) -> None:
    """In a new process: two tries a request, a short wait for what never ends anyway, and little time for templates."""
    from stapo_bench.engines import openai
    from stapo_bench.tasks import prompts

    openai.Retries.__init__.__kwdefaults__.update(tries=2, first_pause_s=0.001, timeout_s=timeout_s)
    prompts.CPU_S = 0.5
