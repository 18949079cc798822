"""Several processes with an engine each, one queue: a GPU (or a group that shares a model) waits for no other.

    engine = open_replicas(EngineOptions(name="vllm", replicas="8"), Path("checkpoint"))

A replica gets as many requests as it runs at once, never more than its share of what is left, and one more for each
that ends: no long tail of one replica holds back the others. Whichever dies, what it had not answered goes to the
others first. Samples depend on their seeds, so who drew one makes no difference, and this process alone stores them.
"""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, Protocol, cast

from stapo_bench.engines.devices import gpu_groups
from stapo_bench.engines.engine import EngineOptions
from stapo_bench.engines.replica_wire import Message, as_json, completion_of, opening
from stapo_bench.errors import StapoError, tell
from stapo_bench.records import Completion, Request, SampleKey, SamplingParams

_START = """\
import sys
sys.path[:] = sys.argv[1:]
from stapo_bench.engines.replica import main
main()
"""
_CLOSING_SECONDS = 20.0  # that an engine may take to close
_SHARE_OF_UNFED = 0.5  # of its share that an engine gets at once if it takes no requests while it generates


class Replica(Protocol):
    """Where a replica runs: messages go in by ``send``; those that come out are put into the queue it was given."""

    name: str

    def send(self, message: Message | None) -> None:
        """Hand over a message; None: close. One that is dead loses it."""
        ...

    def end(self, patience_s: float = 1.0) -> str:
        """End it, after so many seconds by force, and say how it ended."""
        ...


Outbox = SimpleQueue[tuple[Replica, Message | None]]
"""What replicas say, in the order of each; None: it has ended."""


class ReplicaProcess:
    """A replica in a process of its own, with a group of the machine's GPUs."""

    def __init__(self, name: str, gpus: str | None, outbox: Outbox) -> None:
        """``gpus``: as CUDA_VISIBLE_DEVICES has them; None: as this process sees them."""
        self.name = name if gpus is None else f"{name} (GPU {gpus})"
        self._how: str | None = None  # it ended
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
        threading.Thread(target=self._listen, args=(outbox,), daemon=True).start()

    def _listen(self, outbox: Outbox) -> None:
        for line in cast(BinaryIO, self._process.stdout):
            if line.endswith(b"\n"):  # else it was killed as it wrote
                outbox.put((self, json.loads(line)))
        outbox.put((self, None))

    def send(self, message: Message | None) -> None:
        """A line on its input."""
        line = json.dumps(message).encode("ascii") + b"\n"
        with suppress(OSError):  # dead: its output says so
            pipe = cast(BinaryIO, self._process.stdin)
            pipe.write(line)
            pipe.flush()

    def end(self, patience_s: float = 1.0) -> str:
        """Kill its whole group where it does not end by itself, and reap it; asked again, the answer is the same."""
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
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        with self._said as said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - 2000))
            lines = said.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"{how}{f': {last[:300]}' if last else ''}"


Start = Callable[[int, Outbox], Replica]
"""Starts replica number i."""


def open_replicas(options: EngineOptions, checkpoint: Path) -> "ReplicatedEngine":
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


class ReplicatedEngine:
    """Several replicas as one engine; see the module's docstring."""

    def __init__(self, first: Message, start: Start, number: int) -> None:
        """``first``: the opening that each is sent."""
        self._outbox: Outbox = SimpleQueue()
        self.tell: Callable[[str], None] = lambda line: tell(sys.stderr, line)
        self._ready: dict[Replica, Message] = {}
        replicas: list[Replica] = []
        try:
            for index in range(number):
                replicas.append(start(index, self._outbox))
                replicas[-1].send(first)
            while len(self._ready) < number:
                replica, said = self._outbox.get()
                if said is None or "error" in said:
                    raise StapoError(f"{replica.name} did not start: {said['error'] if said else replica.end()}")
                self._ready[replica] = said
            self._ready = {replica: self._ready[replica] for replica in replicas}  # in their order again
            said = self._ready[replicas[0]]
            if any(other["ready"] != said["ready"] for other in self._ready.values()):
                raise StapoError("expected replicas that are alike, got other devices or settings among them")
        except BaseException:
            _end_all(replicas, patience_s=0.0)
            raise
        self._identity: dict[str, str] = said["ready"]
        self.continues_exactly: bool = said["continues_exactly"]
        self.context_length: int | None = said["context_length"]

    def identity(self) -> dict[str, str]:
        """That of each replica: their number decides no sample."""
        return dict(self._identity)

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """Yield one completion per request, as each ends anywhere."""
        pending = deque(requests)
        asked: dict[Replica, dict[SampleKey, Request]] = {replica: {} for replica in self._ready}
        for replica in asked:
            replica.send({"params": as_json(params)})
        generating = set(asked)  # until each says that it is done
        try:
            while pending or any(asked.values()):
                self._hand_out(pending, asked)
                replica, said = self._outbox.get()
                if replica not in self._ready:  # buried
                    continue
                if said is None or "error" in said:
                    pending.extendleft(reversed(list(asked.pop(replica, {}).values())))
                    self._bury(replica, said)
                elif "completion" in said:
                    completion = completion_of(said["completion"])
                    asked[replica].pop(completion.key, None)
                    yield completion
            for replica in asked:
                replica.send({"end": True})
            while generating & self._ready.keys():
                replica, said = self._outbox.get()
                generating.discard(replica)
                if said is None and replica in self._ready:
                    del self._ready[replica]
                    replica.end()
        except BaseException:
            self._end(patience_s=0.0)  # what still runs has no one to answer to
            raise

    def _hand_out(self, pending: deque[Request], asked: Mapping[Replica, dict[SampleKey, Request]]) -> None:
        """Fill every replica up to what it runs at once, and to its share of what is left."""
        share = math.ceil((len(pending) + sum(map(len, asked.values()))) / len(asked))
        for replica, running in asked.items():
            at_once = self._ready[replica]["at_once"]
            if at_once is None:
                room = 0 if running else math.ceil(_SHARE_OF_UNFED * share)
            else:
                room = min(at_once, share) - len(running)
            if batch := [pending.popleft() for _ in range(min(room, len(pending)))]:
                running.update((request.key, request) for request in batch)
                replica.send({"requests": [as_json(request) for request in batch]})

    def _bury(self, replica: Replica, said: Message | None) -> None:
        """Go on without a replica; what it says of a request is raised, as any other would say it."""
        self._ready.pop(replica, None)
        ended = replica.end()
        how = ended if said is None else said["error"]
        if said is not None and said["is_ours"]:
            raise StapoError(how)
        if not self._ready:
            raise RuntimeError(f"the last replica died: {how}")
        self.tell(f"{replica.name} died ({how}); what it had not finished goes to the other {len(self._ready)}")

    def close(self) -> None:
        """End all replicas."""
        self._end(_CLOSING_SECONDS)

    def _end(self, patience_s: float) -> None:
        ready, self._ready = self._ready, {}
        _end_all(list(ready), patience_s)


def _end_all(replicas: Sequence[Replica], patience_s: float) -> None:
    """Tell all, then end all, whatever one of them raises; that is raised at the end."""
    with ExitStack() as last_first:
        for replica in reversed(replicas):
            last_first.callback(replica.end, patience_s)
        for replica in reversed(replicas):
            last_first.callback(replica.send, None)
