"""What a person is told while no request is answered: what is wrong, and what is waited for.

A request that fails is tried again for minutes, so that a server may restart; without a word that looks like work.
"""

import time
from collections.abc import Callable

FIRST_S = 1.5  # without an answer, before anything is said
AGAIN_S = 30.0  # until it is said again


class Waiting:
    """Tells of failures that last, and of their end.

    >>> now = [0.0]
    >>> waiting = Waiting("each is sent up to 9 times", clock=lambda: now[0])
    >>> waiting.failed("gpu1:8000: HTTP 500", print)
    >>> now[0] = 4.0
    >>> waiting.failed("gpu1:8000: HTTP 500", print)
    gpu1:8000: HTTP 500; no request has been answered for 4 s; each is sent up to 9 times
    >>> waiting.answered(print)
    requests are answered again
    """

    def __init__(self, patience: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """``patience``: in words, how long requests are tried."""
        self._patience = patience
        self._clock = clock
        self._since: float | None = None  # the first failure after the last answer
        self._told: float | None = None

    def failed(self, reason: str, tell: Callable[[str], None]) -> None:
        """A request failed, and is tried again."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        seconds = now - self._since
        if seconds < FIRST_S or (self._told is not None and now - self._told < AGAIN_S):
            return
        self._told = now
        tell(f"{reason}; no request has been answered for {seconds:.0f} s; {self._patience}")

    def answered(self, tell: Callable[[str], None]) -> None:
        """A request was answered."""
        if self._told is not None:
            tell("requests are answered again")
        self._since = self._told = None
