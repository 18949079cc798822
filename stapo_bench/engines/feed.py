"""Requests that arrive while an engine generates.

An iterable of requests may yield None: no other is there yet, ask again after a step. ``arrived`` takes what is there;
of an ordinary list that is all of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from queue import Empty

from stapo_bench.records import Request, SampleKey


class Feed:
    """The requests of one generation as another thread brings them; it waits where nothing runs, or yields None."""

    def __init__(self, get: Callable[[bool], Sequence[Request] | None]) -> None:
        """``get``: the next requests, None at the end; told not to wait it raises ``queue.Empty`` for none yet."""
        self._get = get
        self._here: Iterator[Request] = iter(())
        self._ended = False
        self._running: set[SampleKey] = set()

    def __iter__(self) -> "Feed":
        return self

    def __next__(self) -> Request | None:
        try:
            while not self._ended and (found := next(self._here, None)) is None:
                more = self._get(not self._running)
                self._here, self._ended = iter(more or ()), more is None
        except Empty:
            return None
        if self._ended:
            raise StopIteration
        assert found is not None
        self._running.add(found.key)
        return found

    def answered(self, key: SampleKey) -> None:
        """A request that was handed over has ended; an engine may say so more than once."""
        self._running.discard(key)


def arrived(requests: Iterator[Request | None]) -> Iterable[Request]:
    """The requests that are there now: up to the first None, or the end.

    A feed waits for the first one where nothing runs: nothing arrived then means that nothing will.
    """
    return chain.from_iterable(iter(lambda: [] if (r := next(requests, None)) is None else [r], []))
