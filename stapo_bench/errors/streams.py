"""The outputs of a command: text is made safe on its way out, and messages that cannot be written end nothing."""

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from stapo_bench.errors.escaping import safe_text


class SafeStream(io.TextIOBase):
    """Passes text on to a stream, made safe; what the stream's encoding lacks is shown as its escape.

    Args:
        stream: where it goes.
        is_result: text that cannot be written is an error; else (messages) it is dropped, and the work goes on.
    """

    def __init__(self, stream: TextIO, *, is_result: bool) -> None:
        self._stream = stream
        self._failures: tuple[type[Exception], ...] = () if is_result else (OSError, ValueError)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's own."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """What becomes of characters that the encoding lacks."""
        return "backslashreplace"

    def write(self, text: str) -> int:
        """Pass a text on. A carriage return at its beginning stays: progress bars of libraries use it."""
        if not isinstance(text, str):
            raise TypeError(f"expected a text, got {type(text).__name__}")
        begin = "\r" if text.startswith("\r") else ""
        self.write_own(begin + safe_text(text.removeprefix(begin), "terminal", lines=True))
        return len(text)

    def write_own(self, text: str) -> None:
        """Pass on a text of ours with its control sequences."""
        with suppress(*self._failures):
            self._stream.write(text.encode(self.encoding, self.errors).decode(self.encoding))

    def flush(self) -> None:
        """Have the stream write what it holds."""
        with suppress(*self._failures):
            self._stream.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The stream's."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """It is."""
        return True


@contextmanager
def safe_output() -> Iterator[None]:
    """Within it, standard output and standard error are safe streams; closed ones lead nowhere.

    A closed descriptor is opened on the null device first: otherwise the next file of the run would get its number,
    and a message of some library would land among the samples.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        SafeStream(stream or Path(os.devnull).open("w", encoding="utf-8"), is_result=is_result)  # noqa: SIM115  the process's
        for stream, is_result in zip(before, (True, False), strict=True)
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in filter(None, before):
            try:
                stream.flush()
            except (OSError, ValueError):  # the interpreter's own last flush would fail, too, and change the exit code
                with suppress(OSError, ValueError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def redraws(stream: TextIO) -> bool:
    """Whether lines there can be drawn again: on a terminal, but for a notebook's, which keeps all of them."""
    return stream.isatty() and "JPY_PARENT_PID" not in os.environ  # a kernel's commands have it


def redraw(stream: TextIO, lines: Sequence[str], num_before: int) -> None:
    """Write lines on a terminal in place of the last ``num_before`` ones."""
    up = f"\x1b[{num_before}F" if num_before else ""
    text = up + "".join(f"\x1b[2K{safe_text(line, 'terminal')}\n" for line in lines)
    write = stream.write_own if isinstance(stream, SafeStream) else stream.write
    write(text)
    stream.flush()


def tell(stream: TextIO | None, line: str) -> None:
    """Write one line for the person who watches, now; nowhere where there is no such stream."""
    if stream is not None:
        print(safe_text(line, "terminal"), file=stream, flush=True)
