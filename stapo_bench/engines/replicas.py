"""Several engines as one, with one queue: a GPU (or a group that shares a model) waits for no other.

    engine = open_engine(EngineOptions(name="vllm", replicas="8"), Path("checkpoint"))

A replica gets as many requests as it runs at once, never more than its share of what is left, and one more for each
that ends: no long tail of one replica holds back the others. Whichever dies, what it had not answered goes to the
others first; what one that has fallen silent is at, goes to the others as well (``stapo_bench.engines.ledger``).
Samples depend on their seeds, so who drew one makes no difference, and this process alone stores them. Where a replica
runs is not known here: ``replica_process`` and ``ray_replicas`` start them.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue

from stapo_bench.engines.ledger import Ledger
from stapo_bench.engines.replica_wire import Message, Outbox, Replica, as_json, completion_of
from stapo_bench.errors import StapoError, tell
from stapo_bench.records import Completion, Request, SamplingParams

_CLOSING_SECONDS = 20.0  # that an engine may take to close
_START_SECONDS = 2 * 3600.0  # for all to be ready: large weights from a slow disk take most of an hour
_SAY_SECONDS = 60.0  # between lines that name those which are waited for
_LOOK_SECONDS = 2.0  # after which it is looked for replicas that have fallen silent, though none says anything

Start = Callable[[int, Outbox], Replica]
"""Starts replica number i."""


class ReplicatedEngine:
    """Several replicas as one engine; see the module's docstring."""

    def __init__(self, first: Message, start: Start, number: int, held: ExitStack | None = None) -> None:
        """Start them and wait until all are ready.

        first: the opening that each is sent.
        held: what they run on, which is closed after them, and where they do not start.
        """
        self._outbox: Outbox = SimpleQueue()
        self.tell: Callable[[str], None] = lambda line: tell(sys.stderr, line)
        self._held = held or ExitStack()
        self._looked = 0.0  # when it was last looked who has fallen silent
        self._ready: dict[Replica, Message] = {}
        replicas: list[Replica] = []
        try:
            for index in range(number):
                replicas.append(start(index, self._outbox))
                replicas[-1].send(first)
            self._wait_for(replicas)
            self._ready = {replica: self._ready[replica] for replica in replicas}  # in their order again
            said = self._ready[replicas[0]]
            if any(other["ready"] != said["ready"] for other in self._ready.values()):
                raise StapoError("expected replicas that are alike, got other devices or settings among them")
        except BaseException:
            with self._held:
                _end_all(replicas, patience_s=0.0)
            raise
        self._identity: dict[str, str] = said["ready"]
        self.continues_exactly: bool = said["continues_exactly"]
        self.context_length: int | None = said["context_length"]

    def _wait_for(self, replicas: Sequence[Replica]) -> None:
        """Until all are ready, and not in silence; StapoError where one dies, or hangs longer than any load takes."""
        began = time.monotonic()
        while late := [replica for replica in replicas if replica not in self._ready]:
            names, seconds = ", ".join(replica.name for replica in late), time.monotonic() - began
            if seconds > _START_SECONDS:
                raise StapoError(
                    f"{names} did not start within {_START_SECONDS / 60:.0f} min; see to the machine, or start fewer "
                    "--replicas, without it"
                )
            try:
                replica, said = self._outbox.get(timeout=_SAY_SECONDS)
            except Empty:
                self.tell(
                    f"waiting for {names} to be ready, for {(time.monotonic() - began) / 60:.0f} min so far and for "
                    f"{_START_SECONDS / 60:.0f} at most: weights take many minutes to load"
                )
                continue
            if said is None or "error" in said:
                raise StapoError(f"{replica.name} did not start: {said['error'] if said else replica.end()}")
            self._ready[replica] = said

    def identity(self) -> dict[str, str]:
        """That of each replica: their number decides no sample."""
        return dict(self._identity)

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """Yield one completion per request, as each ends anywhere."""
        if not self._ready:
            raise RuntimeError("all replicas have died")
        ledger = Ledger(requests, self._ready)
        self._looked = time.monotonic()
        for replica in self._ready:
            replica.send({"params": as_json(params)})
        try:
            while ledger.is_open:
                self._hand_out(ledger)
                for replica, said in self._heard():
                    if said is None or "error" in said:
                        ledger.lost(replica)
                        self._bury(replica, said)
                    elif "completion" in said:
                        completion = completion_of(said["completion"])
                        if ledger.answered(replica, completion.key, time.monotonic()):
                            yield completion
            self._finish(ledger)
        except BaseException:
            self._end(patience_s=0.0)  # what still runs has no one to answer to
            raise

    def _heard(self) -> Iterator[tuple[Replica, Message | None]]:
        """What is said next, by one that is not buried; nothing where none says anything for a while."""
        with suppress(Empty):
            replica, said = self._outbox.get(timeout=_LOOK_SECONDS)
            if replica in self._ready:
                yield replica, said

    def _finish(self, ledger: Ledger[Replica]) -> None:
        """End the generation of each, and each that does not say that it has."""
        for replica in self._ready:
            replica.send({"end": True})
            ledger.begins_to_end(replica, time.monotonic())
        generating = set(self._ready)
        while generating := generating & self._ready.keys():
            now = self._look(ledger)
            for replica in generating:
                if ledger.is_late(replica, now):
                    del self._ready[replica]
                    self.tell(f"{replica.name} is still silent though all samples are there: {replica.end()}")
            for replica, said in self._heard():
                if said is None:
                    del self._ready[replica]
                    replica.end()
                elif "completion" not in said:
                    generating.discard(replica)

    def _hand_out(self, ledger: Ledger[Replica]) -> None:
        """Give every replica what it has room for, and what a silent one is at to the others too."""
        now = self._look(ledger)
        for replica in ledger.fallen_silent(now):
            self.tell(
                f"{replica.name} has answered nothing for {ledger.patience_s / 60:.0f} min, over three times what "
                "any sample took: the others draw what it is at, too, and the first answer counts"
            )
        at_once = {replica: ready["at_once"] for replica, ready in self._ready.items()}
        for replica, batch in ledger.batches(at_once, now):
            replica.send({"requests": [as_json(request) for request in batch]})

    def _look(self, ledger: Ledger[Replica]) -> float:
        """The time; a look that comes later than it should (who takes the samples was busy, or all was stopped)
        makes no replica late.
        """
        last, self._looked = self._looked, time.monotonic()
        ledger.nobody_listened(max(0.0, self._looked - last - _LOOK_SECONDS))
        return self._looked

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
        with self._held:
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
