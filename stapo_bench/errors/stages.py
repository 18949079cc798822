"""How far a long command is: one line, from wherever the work is done, for the person who waits.

A command says ``with watching():``; loops that may take long say ``watched(items, …)``, which shows nothing elsewhere
(in a notebook, in a test). On a terminal the line is redrawn in place and taken away at the end; elsewhere (a log file)
one line comes every ten seconds. It goes to standard error: results are the same with it and without.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO, TypeVar

from stapo_bench.errors.streams import redraw, redraws, tell

TERMINAL_SECONDS = 0.5
LOG_SECONDS = 10.0

Item = TypeVar("Item")


@dataclass(eq=False, kw_only=True)
class _Stage:
    doing: str
    unit: str
    total: float | None
    begun: float  # seconds
    done: float = 0.0

    def line(self, now: float, *, is_last: bool) -> str:
        """``reading base 12/449 MB · 6.1 MB/s · ETA 0:01:12``; of a stage around another one the count and the ETA."""
        pace = self.done / max(now - self.begun, 1e-9)
        count = f"{self.done:,.0f}" + ("" if self.total is None else f"/{self.total:,.0f}")
        parts = [f"{self.doing} {count} {self.unit}"]
        if is_last:
            parts.append(f"{pace:,.1f} {self.unit}/s")
        if self.total is not None:
            parts.append(f"ETA {duration(max(self.total - self.done, 0) / pace) if pace else '?'}")
        return " · ".join(parts)


class _Watch:
    """The stages that a command is in, one within the other, and when they were last shown."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self.stream, self.clock, self.thread = stream, clock, threading.get_ident()
        self.stages: list[_Stage] = []
        self.redraws = redraws(stream)
        self.every = TERMINAL_SECONDS if self.redraws else LOG_SECONDS
        self.next = clock() + self.every
        self.num_lines = 0  # that stand on the terminal

    def look(self) -> None:
        now = self.clock()
        if now < self.next:
            return
        self.next = now + self.every
        last = len(self.stages) - 1
        line = " · ".join(stage.line(now, is_last=i == last) for i, stage in enumerate(self.stages))
        if self.redraws:
            redraw(self.stream, [line[: shutil.get_terminal_size().columns - 1]], self.num_lines)
            self.num_lines = 1
        else:
            tell(self.stream, line)

    def wipe(self) -> None:
        """Take the line off the terminal."""
        if self.num_lines:
            redraw(self.stream, [""], self.num_lines)
            redraw(self.stream, [], 1)
            self.num_lines = 0


_watches: list[_Watch] = []  # of this process: the command's, if it shows anything


@contextmanager
def watching(stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Within it, ``watched`` loops say how far they are; ``stream``: None is standard error."""
    watch = _Watch(stream or sys.stderr, clock)
    _watches.append(watch)
    try:
        yield
    finally:
        watch.wipe()
        _watches.remove(watch)


def watched(
    items: Iterable[Item],
    doing: str,
    unit: str,
    total: float | None = None,
    size: Callable[[Item], float] = lambda item: 1.0,
) -> Iterator[Item]:
    """The items; where somebody watches, a line now and then says how far they are, how fast, and until when.

    Args:
        items: what is worked through.
        doing: what is done with them, as the line begins.
        unit: of what is counted, in the plural.
        total: of all items; None: not known.
        size: of an item, in the unit.

    >>> with watching(sys.stdout, iter([0.0, 0.0, 4.0, 10.0, 12.0]).__next__):
    ...     found = list(watched("abc", "reading", "letters", total=3))
    reading 1/3 letters · 0.1 letters/s · ETA 0:00:20
    """
    if not _watches or _watches[-1].thread != threading.get_ident():  # what others do meanwhile is not waited for
        yield from items
        return
    watch = _watches[-1]
    stage = _Stage(doing=doing, unit=unit, total=total, begun=watch.clock())
    watch.stages.append(stage)
    try:
        for item in items:
            watch.look()
            yield item
            stage.done += size(item)
    finally:
        watch.stages.remove(stage)
        if not watch.stages:
            watch.wipe()


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(3725.4)
    '1:02:05'
    """
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}"
