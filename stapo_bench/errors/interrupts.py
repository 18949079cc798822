"""Ctrl-C, or a batch system's SIGTERM: one line, whatever the command was doing, and exit code 130 or 143.

These are 128 and the signal's number, as shells give them for a program that a signal ended.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from stapo_bench.errors.escaping import safe_text


class Stopped(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def exit_code_of(stop: BaseException) -> int:
    """128 and the number of the signal that stopped a command; of Ctrl-C where nothing names another.

    >>> exit_code_of(Stopped(signal.SIGTERM)), exit_code_of(KeyboardInterrupt())
    (143, 130)
    """
    named = [each.number for each in (stop, stop.__cause__) if isinstance(each, Stopped)]  # click: Abort from it
    return 128 + (named[0] if named else signal.SIGINT)


@contextmanager
def interruptible(name: str, when_stopped: str | None) -> Iterator[None]:
    """Within it both signals raise Stopped, a KeyboardInterrupt; while a module is being imported they end the process.

    An exception in the middle of an import may be caught by the module, which then is half there, and the command goes
    on. Nothing is at stake there: what is finished is on disk. SIGINT stays ignored where the shell has it ignored (a
    background job, nohup): Ctrl-C is then meant for others, and SIGTERM is what ends the command.

    Args:
        name: of the command, before the line.
        when_stopped: what is left behind and how to go on; None: nothing is said, as another process says it.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        if _importing(frame):
            if when_stopped is not None:
                with suppress(OSError):
                    os.write(2, f"{stopped_line(name, when_stopped)}\n".encode())
            os._exit(exit_code_of(Stopped(number)))
        raise Stopped(number)

    before: list[tuple[signal.Signals, Callable[[int, FrameType | None], object] | int | None]] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:
            before.append((number, signal.signal(number, handle)))
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def stopped_line(name: str, when_stopped: str) -> str:
    """What a stopped command says."""
    return safe_text(f"{name}: stopped; {when_stopped}", "terminal")


def start_command(load: Callable[[], Callable[[], None]], name: str, when_stopped: str | None) -> None:
    """Run a console script that can be interrupted from its first import on.

    Args:
        load: imports the command and returns it.
        name: as for ``interruptible``.
        when_stopped: as for ``interruptible``.
    """
    try:
        with interruptible(name, when_stopped):
            load()()
    except KeyboardInterrupt as stop:
        if when_stopped is not None:
            print(stopped_line(name, when_stopped), file=sys.stderr)
        sys.exit(exit_code_of(stop))
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):  # while the interpreter ends, without a traceback
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
