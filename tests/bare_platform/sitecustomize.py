"""Every Python process as on a platform that lacks what Linux has; Python imports this file itself where it begins.

    PYTHONPATH=tests/bare_platform python -m stapo_bench compare a.csv b.csv

Without fcntl, resource and their kin, without fork, /proc, interval timers, poll and the fsync of a folder; processes
are started by spawn, and a text file whose encoding nobody names is in cp1252. It stands in for macOS and Windows where
there is neither, and cannot show what only they do.
"""

import builtins
import io
import multiprocessing
import os
import select
import signal
import stat
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

UNIX = frozenset(["fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"])
GONE = {
    os: "fork forkpty register_at_fork sysconf sched_getaffinity getuid getpgid killpg statvfs mkfifo O_NOFOLLOW",
    signal: "SIGPROF SIGHUP SIGUSR1 ITIMER_PROF setitimer pthread_sigmask",
    select: "poll",
}


class Absent(MetaPathFinder):
    """No module of Unix can be found."""

    def find_spec(self, name, path=None, target=None):
        """None for all that is left."""
        if name.split(".")[0] in UNIX:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def make_bare() -> None:
    """Take away from this process what the platform lacks."""
    sys.meta_path.insert(0, Absent())
    for name in UNIX & sys.modules.keys():
        del sys.modules[name]
    for module, names in GONE.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    multiprocessing.set_start_method("spawn")
    fsync, opened, exists = os.fsync, io.open, Path.exists

    def fsync_of_files(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise PermissionError(13, "Permission denied")  # what Windows says of a folder
        fsync(fd)

    def open_elsewhere(file, mode="r", buffering=-1, encoding=None, *arguments, **named):
        if str(file).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", str(file))
        if "b" not in mode and encoding in (None, "locale"):
            encoding = "cp1252"
        return opened(file, mode, buffering, encoding, *arguments, **named)

    os.fsync = fsync_of_files
    io.open = builtins.open = open_elsewhere
    Path.exists = lambda self, **named: not str(self).startswith("/proc") and exists(self, **named)


if __name__ == "sitecustomize":  # not where a test runner imports every file to look for doctests
    make_bare()
