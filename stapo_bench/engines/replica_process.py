"""Replicas as processes of this machine, its GPUs dealt out among them.

engine = open_on_this_machine(EngineOptions(name="vllm", replicas="8"), Path("checkpoint"))
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, cast

from stapo_bench.engines.devices import gpu_groups
from stapo_bench.engines.options import EngineOptions
from stapo_bench.engines.replica_wire import Message, Outbox, Replica, opening
from stapo_bench.engines.replicas import ReplicatedEngine

_START = """\
import sys
sys.path[:] = sys.argv[1:]
from stapo_bench.engines.replica import main
main()
"""


class ReplicaProcess:
    """A replica in a process of its own, with a group of the machine's GPUs."""

    def __init__(self, name: str, gpus: str | None, outbox: Outbox) -> None:
        """``gpus``: as CUDA_VISIBLE_DEVICES has them; None: as this process sees them."""
        self.name = name if gpus is None else f"{name} (GPU {gpus})"
        self._how: str | None = None  # it ended
        self._ending = threading.Lock()  # one thread may find it dead while another ends it
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed in ``end``)
        environment = {} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *map(str, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C reaches the parent, which then ends its replicas
        )
        self._inbox: SimpleQueue[Message | None] = SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()
        threading.Thread(target=self._listen, args=(outbox,), daemon=True).start()

    def _write(self) -> None:
        """In a thread: one that hangs reads nothing, and its pipe is soon full."""
        pipe = cast(BinaryIO, self._process.stdin)
        with suppress(OSError):  # dead: its output says so
            while True:
                pipe.write(json.dumps(self._inbox.get()).encode("ascii") + b"\n")
                pipe.flush()

    def _listen(self, outbox: Outbox) -> None:
        for line in cast(BinaryIO, self._process.stdout):
            if line.endswith(b"\n"):  # else it was killed as it wrote
                outbox.put((self, json.loads(line)))
        outbox.put((self, None))

    def send(self, message: Message | None) -> None:
        """A line on its input."""
        self._inbox.put(message)

    def end(self, patience_s: float = 1.0) -> str:
        """Kill its whole group where it does not end by itself, and reap it; asked again, the answer is the same."""
        with self._ending:
            if self._how is None:
                self._how = self._ended_within(patience_s)
            return self._how

    def _ended_within(self, patience_s: float) -> str:
        pid, until = self._process.pid, time.monotonic() + patience_s
        # Not reaped yet: its pid, which is its group's, must not have gone to another when it is killed.
        while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) and time.monotonic() < until:
            time.sleep(0.01)
        with suppress(ProcessLookupError, PermissionError):  # of a group that is gone
            os.killpg(pid, signal.SIGKILL)
        self._inbox.put(None)  # which wakes the thread that writes: there is no one to write to
        code = self._process.wait()
        with self._said as said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - 2000))
            lines = said.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if code < 0:  # what it said last, a warning maybe, is not why it was killed
            return signal.Signals(-code).name + (f", after it had said: {last[:300]}" if last else "")
        return f"exit code {code}" + (f": {last[:300]}" if last else "")


def open_on_this_machine(options: EngineOptions, checkpoint: Path) -> ReplicatedEngine:
    """As many processes as were asked for, with the machine's GPUs dealt out among them; all are ready.

    Raises:
        UsageError: more than there are GPUs for.
        StapoError: one does not start.
    """
    assert options.replicas is not None
    groups = gpu_groups(options.replicas, options.tensor_parallel or 1)

    def start(index: int, outbox: Outbox) -> Replica:
        return ReplicaProcess(f"replica {index + 1} of {len(groups)}", groups[index], outbox)

    return ReplicatedEngine(opening(replace(options, replicas=None), checkpoint), start, len(groups))
