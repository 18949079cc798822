"""Locks between processes: the system's where the file system has them, else a lease file that its owner renews.

    with locked_folder(run_dir):
        ...

A system's lock ends with its process, however that ends. Some file systems have none (Lustre without ``-o flock``, some
FUSE and NFS mounts); there ``<lock>.lease`` names its owner by process, host and token, is renewed every 10 s, and may
be taken over once it was not renewed for half a minute, or its owner is known to be dead. A process that loses its
lease is stopped, as by Ctrl-C.
"""

import _thread
import contextlib
import errno
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stapo_bench.errors import tell
from stapo_bench.runs.files import own_file

if TYPE_CHECKING:
    from filelock import BaseFileLock, LeaseCompromise

LEASE_SECONDS = 30.0
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}  # what file systems without locks say


def try_lock(path: Path, patience_s: float = 0.0) -> "BaseFileLock | None":
    """Take a lock, to be given back with ``release``; None: another process, or another place in this one, holds it.

    Args:
        path: the lock file.
        patience_s: seconds to wait for whoever holds it.

    Raises:
        OSError: the lock file cannot be written.
    """
    return _acquire(path, timeout=patience_s)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock for moments, after waiting for whoever holds it."""
    lock = _acquire(path, timeout=-1)
    assert lock is not None
    try:
        yield
    finally:
        lock.release()


def has_locks(folder: Path) -> bool:
    """Whether the folder's file system has locks of the system; where it has none, lease files stand in for them."""
    from filelock import FileLock, SoftFileLease

    lock = try_lock(folder / "probe.lock")
    if lock is None:
        return True
    lock.release()
    return isinstance(lock, FileLock) and not isinstance(lock, SoftFileLease)


def locked_folder(run_dir: Path) -> contextlib.AbstractContextManager[None]:
    """Hold a run folder for moments: what several commands change in it, each changes alone."""
    return locked(own_file(run_dir, ".lock"))


def is_locked(path: Path) -> bool:
    """Whether somebody holds a lock right now. Where it never was taken, nothing is made."""
    if not path.exists() and not _lease(path).exists():
        return False
    lock = try_lock(path)
    if lock is not None:
        lock.release()
    return lock is None


def _acquire(path: Path, timeout: float) -> "BaseFileLock | None":
    from filelock import FileLock, Timeout

    try:
        lock = FileLock(path, timeout=timeout, fallback_to_soft=False)
        lock.acquire()
    except Timeout:
        return None
    except (OSError, NotImplementedError) as error:
        if getattr(error, "errno", errno.ENOSYS) not in _NO_LOCKS:
            raise
        return _acquire_lease(_lease(path), timeout)
    return lock


def _acquire_lease(path: Path, timeout: float) -> "BaseFileLock | None":
    """Take a lease; one that another holds is watched until it is renewed (None), or has run out and is ours."""
    from filelock import SoftFileLease, Timeout

    lock = SoftFileLease(path, timeout=timeout, lease_duration=LEASE_SECONDS, on_compromise=_stop)
    renewed = _renewed(path)
    while True:
        try:
            lock.acquire()
        except Timeout:
            if renewed not in (None, found := _renewed(path)):
                return None
            renewed = found
            time.sleep(LEASE_SECONDS / 100)
        else:
            return lock


def _renewed(path: Path) -> int | None:
    """When a lease was last renewed, by the file system's clock."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _lease(path: Path) -> Path:
    return path.with_name(path.name + ".lease")


def _stop(lost: "LeaseCompromise") -> None:
    """In the thread that renews a lease: what it protects may be another process's by now."""
    tell(sys.stderr, f"{lost.lock_file}: this lock was lost ({lost.reason}): another process may go on here")
    is_heard = callable(signal.getsignal(signal.SIGINT))  # not in a background job of a shell
    _thread.interrupt_main(signal.SIGINT if is_heard else signal.SIGTERM)
