"""Files of a run: the one module that opens them, and the one that replaces a file by a new one.

A run folder may come from elsewhere, so what stands in it is looked at before it is touched:

* Read is any regular file, also behind a link: archives and download caches keep files as links. Pipes, devices and
  sockets are refused, since reading one might never end.
* Written is a file of the run's own alone: no link between the run folder and the file, and no second name for it
  (a hard link) elsewhere. The run folder itself may be a link, since the person who names it made it.

    with open_own(run_dir, "grades/math.jsonl") as file:
        ...
    with replacing(Path("samples.csv")) as beside:
        ...  # write ``beside``; it takes the name once it is whole
"""

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from stapo_bench.errors import StapoError, UsageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_FOLDER_SYNC = {errno.EACCES, errno.EPERM, errno.EINVAL, errno.EBADF, errno.EISDIR, errno.ENOTSUP}
_OPEN = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def cannot_write(path: Path, error: OSError, safe: str = "") -> StapoError:
    """What the system said of a file that could not be written, with the way out; ``safe``: what is not lost."""
    reason = error.strerror or str(error)
    way_out = "make room there" if error.errno in _FULL else "put that right"
    return StapoError(f"cannot write {path}: {reason}; {safe and f'{safe}: '}{way_out} and run the same command again")


@contextlib.contextmanager
def writing(path: Path, safe: str = "") -> Iterator[None]:
    """Name the file in whatever the system says while it is written: a full disk does not say which."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error, safe) from None


def can_write(folder: Path) -> bool:
    """Whether files can be made in a folder; an archive, or another person's folder, is read all the same."""
    return os.access(folder, os.W_OK)


def open_to_read(path: Path) -> BinaryIO:
    """Open a file for reading; StapoError for a pipe, a device or a socket, which is not opened at all."""
    if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():  # a folder is refused by the system, by name
        raise StapoError(f"{path}: expected a file of the run's own, got a pipe, device or socket; remove it")
    return path.open("rb")


def read_bounded(path: Path, most_bytes: int = 1 << 28) -> bytes:
    """The content of a file; StapoError for what is no file, or larger."""
    with open_to_read(path) as file:
        # Its size comes first: a quarter of a gigabyte is not read only to be refused. It may grow meanwhile.
        if os.fstat(file.fileno()).st_size <= most_bytes and len(content := file.read(most_bytes + 1)) <= most_bytes:
            return content
    raise StapoError(f"{path}: expected at most {most_bytes} bytes, got more; restore the file")


def own_file(run_dir: Path, name: str) -> Path:
    """The path of a run's file that may be written: the run's own, or not there yet.

    Raises:
        StapoError: a link leads from the run to it, it has a second name, or it is no regular file.
    """
    path = run_dir / name
    for part in (*reversed(path.relative_to(run_dir).parents), Path(name)):
        place = run_dir / part
        if part != Path() and place.is_symlink():
            kind = "file" if part == Path(name) else "folder"
            raise StapoError(
                f"{place}: expected a {kind} of the run's own, got a link to {place.readlink()}; remove it, or put a "
                "copy in its place"
            )
    try:
        found = path.lstat()
    except FileNotFoundError:
        return path
    _check_own(path, found)
    return path


def _check_own(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise StapoError(f"{path}: expected a file of the run's own, got a folder, pipe or device; remove it")
    if found.st_nlink > 1:
        raise StapoError(
            f"{path}: expected a file of the run's own, got one of {found.st_nlink} names of a file (a hard link), "
            "which may be somebody else's; put a copy in its place"
        )


def open_own(run_dir: Path, name: str, *, new: bool = False) -> BinaryIO:
    """Open a run's own file, unbuffered, to be read and appended to; it is made where it is not there.

    ``new``: FileExistsError where it is there. Errors as for ``own_file``.
    """
    path = own_file(run_dir, name)
    own_folder(path.parent)
    fd = os.open(path, _OPEN | (os.O_EXCL if new else 0), 0o666)
    file = os.fdopen(fd, "r+b", buffering=0)
    try:
        _check_own(path, os.fstat(fd))  # again: it may have been replaced since it was looked at
    except StapoError:
        file.close()
        raise
    return file


def own_folder(folder: Path) -> None:
    """Make a folder where it is not there, with its name on disk."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)


def append(file: BinaryIO, content: bytes) -> None:
    """Add bytes to a file that is open unbuffered: all of them, where the system takes them in parts."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def is_file(path: Path, opened: BinaryIO) -> bool:
    """Whether a path names the very file that is open: not deleted, moved or replaced since."""
    try:
        return os.path.samestat(path.stat(), os.fstat(opened.fileno()))
    except OSError:
        return False


def whole_lines(path: Path) -> int:
    """How many whole lines a file on disk has."""
    with open_to_read(path) as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def after_last_newline(file: BinaryIO) -> int:
    """Offset behind the last newline of a file; 0 without one. Reads blocks from the end."""
    block = 1 << 16
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - block)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def sync_folder(folder: Path) -> None:
    """Make the folder's new entry survive a power cut, where the system can: Windows opens no folder, and need not."""
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    fd = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside ``path``, which takes its name once it is whole and on disk: a reader, or a kill, finds the
    old file or the new one, never a part. Where writing fails the old one stays and nothing is left behind.

    Raises:
        StapoError: it cannot be written; or ``path`` is a device or a pipe, which a file must not replace.
    """
    if path.exists() and not path.is_file():
        raise StapoError(f"cannot write {path}: expected a file, or a name that is free, got a folder, device or pipe")
    beside = path.with_name(f".{uuid.uuid4().hex[:8]}.{path.name}")
    try:
        with writing(path):
            yield beside
            sync(beside)
            beside.replace(path)
            sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file at once: the old one or the new one is there, whole."""
    with replacing(path) as beside:
        beside.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))


def refuse_foreign(out: Path, beginning: bytes) -> None:
    """Refuse to replace a file that does not begin as what will be written: it is another's, perhaps an input.

    Raises:
        UsageError: it begins otherwise; an empty file, and a name that is free, may be taken.
    """
    if not out.is_file():
        return
    with writing(out), open_to_read(out) as file:
        found = file.read(len(beginning))
    if found not in (b"", beginning):
        raise UsageError(
            f"{out}: expected a free name, or a file that this command wrote, got another's; choose another name"
        )


def write_result(out: Path, content: str | bytes) -> None:
    """Write a file that somebody asked for by name, with its folder; where the name is a link, what it leads to."""
    with writing(out):
        own_folder(out.parent)
    write_atomically(out.resolve(), content)


def write_parts(out: Path, parts: Iterable[str]) -> None:
    """``write_result`` for a file that may be larger than memory: its text part by part, in UTF-8."""
    with writing(out):
        own_folder(out.parent)
    with replacing(out.resolve()) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        for part in parts:
            file.write(part)
