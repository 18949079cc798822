"""Pacing of side work that must not hold up an engine: it takes at most a share of the running time.

At fixed intervals, syncing to a slow disk or redrawing a long table could take any share of the time. Intervals in
proportion to the last duration keep the cost within the share, on any machine.
"""

import time
from collections.abc import Callable


class Pace:
    """Says when something is due again.

    >>> now = [0.0]
    >>> pace = Pace(1.0, share=0.01, clock=lambda: now[0])
    >>> now[0] = 0.9; pace.due()
    False
    >>> now[0] = 1.0; pace.due()
    True
    >>> now[0] = 1.5; pace.done()  # it took half a second: 50 seconds are its hundred times as much
    >>> now[0] = 51.4; pace.due()
    False
    >>> now[0] = 51.5; pace.due()
    True
    """

    def __init__(
        self,
        seconds: float,
        *,
        share: float,
        longest: float = float("inf"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Due ``seconds`` after the last time, or later to take at most ``share``, but never after ``longest``."""
        self._seconds = seconds
        self._share = share
        self._longest = longest
        self._clock = clock
        self._begun = clock()
        self._next = self._begun + seconds

    def due(self) -> bool:
        """Whether the work is due; if so, the time until ``done`` counts as the work."""
        now = self._clock()
        if now < self._next:
            return False
        self._begun = now
        return True

    def done(self) -> None:
        """The work is done; it took from the last ``due`` until now."""
        now = self._clock()
        self._next = now + min(max(self._seconds, (now - self._begun) / self._share), self._longest)
