"""Which replica draws what: the requests that wait, those that run, and the replicas that have fallen silent.

    ledger = Ledger(requests, ["one", "two"])
    for replica, batch in ledger.batches({"one": 16, "two": 16}, now=0.0): ...

Nothing here waits or asks a clock: times are handed in, in seconds.

A long completion and a hung engine look alike from outside. A replica is silent once it has answered nothing for
``PATIENCE_TIMES`` the longest that any request of this generation took, and for ``PATIENCE_S`` at least. It is left to
its work, and the others get the same requests as well: the first answer counts. So honest work, however long, costs
at worst that it is done twice.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from stapo_bench.records import Request, SampleKey

PATIENCE_S = 600.0
PATIENCE_TIMES = 3.0
_SHARE_OF_UNFED = 0.5  # of its share that an engine gets at once if it takes no requests while it generates

R = TypeVar("R")  # a replica, or what stands for one


class Ledger(Generic[R]):
    """The requests of one generation and who is at them."""

    def __init__(self, requests: Iterable[Request], replicas: Iterable[R]) -> None:
        self._waiting = deque(requests)
        self._running: dict[R, dict[SampleKey, tuple[Request, float]]] = {replica: {} for replica in replicas}
        self._heard: dict[R, float] = {}  # when it last said something, or got work after it had none
        self._silent: set[R] = set()
        self._copied: set[SampleKey] = set()  # of silent replicas: others have them too
        self._longest = 0.0  # from handing over to answering

    @property
    def is_open(self) -> bool:
        """Whether an answer is missing."""
        return bool(self._waiting) or any(self._running.values())

    @property
    def patience_s(self) -> float:
        """How long a replica at work may answer nothing; without end until the first answer says what to expect."""
        return max(PATIENCE_S, PATIENCE_TIMES * self._longest) if self._longest else math.inf

    def batches(self, at_once: Mapping[R, int | None], now: float) -> Iterator[tuple[R, list[Request]]]:
        """Fill every replica up to what it runs at once, and to its share of what is left; what is yielded runs.

        at_once: by replica; None: it takes no requests while it generates.
        """
        share = math.ceil((len(self._waiting) + sum(map(len, self._running.values()))) / max(1, len(self._running)))
        for replica, running in self._running.items():
            most = at_once[replica]
            if most is None:
                room = 0 if running else math.ceil(_SHARE_OF_UNFED * share)
            else:
                room = min(most, share) - len(running)
            room = 0 if replica in self._silent else min(room, len(self._waiting))
            if batch := [self._waiting.popleft() for _ in range(room)]:
                if not running:
                    self._heard[replica] = now
                running.update((request.key, (request, now)) for request in batch)
                yield replica, batch

    def answered(self, replica: R, key: SampleKey, now: float) -> bool:
        """Note an answer; False: another replica has given it before."""
        self.heard(replica, now)
        entry = self._running[replica].pop(key, None)
        if entry is not None:
            self._longest = max(self._longest, now - entry[1])
        if key in self._copied:
            for running in self._running.values():
                running.pop(key, None)
            self._waiting = deque(request for request in self._waiting if request.key != key)
            return entry is not None
        return True

    def heard(self, replica: R, now: float) -> None:
        """It has said something; if it was silent, what it is at need not wait for others any more."""
        self._heard[replica] = now
        if replica in self._silent:
            self._silent.remove(replica)
            self._waiting = deque(request for request in self._waiting if request.key not in self._running[replica])

    def lost(self, replica: R) -> None:
        """It is dead: what it had not answered waits again, before all else."""
        self._ask_again(self._running.pop(replica, {}))

    def _ask_again(self, running: Mapping[SampleKey, tuple[Request, float]]) -> None:
        """Let these wait before all else, but for those that wait already or that a replica which is not silent has."""
        known = {request.key for request in self._waiting} if self._copied else set()
        known.update(*(at for replica, at in self._running.items() if replica not in self._silent))
        self._waiting.extendleft(reversed([request for key, (request, _) in running.items() if key not in known]))

    def is_late(self, replica: R, now: float) -> bool:
        """Whether it has said nothing for longer than can be expected."""
        return now - self._heard.get(replica, now) > self.patience_s

    def begins_to_end(self, replica: R, now: float) -> None:
        """It is told that no more comes: from now on it is waited for, unless it is silent already."""
        if replica not in self._silent:
            self._heard[replica] = now

    def nobody_listened(self, seconds: float) -> None:
        """For so long nothing could be heard, whoever spoke: it counts against none."""
        self._heard = {replica: at + seconds for replica, at in self._heard.items()}

    def fallen_silent(self, now: float) -> list[R]:
        """The replicas that are late by now and were not before; what they are at waits for the others, too."""
        found = [r for r, at in self._running.items() if at and r not in self._silent and self.is_late(r, now)]
        self._silent.update(found)
        for replica in found:
            self._copied.update(self._running[replica])
            self._ask_again(self._running[replica])
        return found
