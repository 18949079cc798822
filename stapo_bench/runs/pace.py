"""How often to do what must not hold up an engine: after a while, and never for more than a share of the time.

A disk that syncs slowly, a table that takes long to draw: done at fixed intervals they would cost what they cost. Done
in proportion to what the last time took, they cost at most the share, on any machine.
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
        """Due ``seconds`` after the last time, or later so that it takes at most ``share``; ``longest`` bounds that."""
        self._seconds = seconds
        self._share = share
        self._longest = longest
        self._clock = clock
        self._begun = clock()
        self._next = self._begun + seconds

    def due(self) -> bool:
        """Whether it is time. Where it is, what follows counts as the work, up to ``done``."""
        now = self._clock()
        if now < self._next:
            return False
        self._begun = now
        return True

    def done(self) -> None:
        """It is done, and took from the last ``due`` until now."""
        now = self._clock()
        self._next = now + min(max(self._seconds, (now - self._begun) / self._share), self._longest)
