"""Work on strangers' texts in a process of its own, which the kernel ends at its limits: a template that never ends.

The process is a fork, so that it needs no imports and has every object at hand; it computes and sends back texts.
"""

import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from stapo_bench.errors import StapoError

MEMORY_BYTES = 1 << 30  # beyond what this process has
_REPLY_BYTES = 1 << 30
_WALL = 20  # seconds on the wall for one of CPU time: on a loaded machine they are far apart


def in_limits(work: Callable[[], Sequence[str]], cpu_s: float, what: str) -> list[str]:
    """The texts that ``work`` returns.

    Args:
        work: raises StapoError for what it cannot do.
        cpu_s: seconds of CPU time that it may take.
        what: is at fault where it takes more; for the error.

    Raises:
        StapoError: that of ``work``, or it went beyond the limits.
    """
    # Windows has no forks; on macOS a process that has used the system's frameworks must not go on as one.
    if sys.platform == "darwin" or not hasattr(os, "fork"):
        return list(work())
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _serve(work, cpu_s, writing)
    os.close(writing)
    try:
        reply = _read(reading, time.monotonic() + _WALL * cpu_s)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # where it has not ended; its reply is here, or too late
        _, status = os.waitpid(pid, 0)
    if not reply.endswith(b"\n"):
        took_long = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGKILL)
        raise StapoError(f"{what}: " + (f"took more than {cpu_s:g} s" if took_long else "ended without a result"))
    answer = json.loads(reply)
    if "error" in answer:
        raise StapoError(answer["error"].replace("{what}", what))
    return list(answer["texts"])


def _serve(work: Callable[[], Sequence[str]], cpu_s: float, writing: int) -> None:
    """In the new process: work, answer, and end without any of the parent's cleaning up."""
    try:
        gc.disable()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which then ends this process
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        _limit_memory()
        try:
            answer: dict[str, object] = {"texts": list(work())}
        except StapoError as error:
            answer = {"error": str(error)}
        except MemoryError:
            answer = {"error": "{what}: took more than 1 GB of memory"}
        content = memoryview(json.dumps(answer).encode("ascii") + b"\n")
        while content:
            content = content[os.write(writing, content) :]
    finally:
        os._exit(0)


def _limit_memory() -> None:
    import resource  # whatever has forks has it

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    statm = Path("/proc/self/statm")
    if statm.exists():
        limit = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize() + MEMORY_BYTES
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard == resource.RLIM_INFINITY or limit < hard:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _read(reading: int, deadline: float) -> bytes:
    """What is sent until the end, or until the deadline."""
    parts, size = [], 0
    while size < _REPLY_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            break
        if not (block := os.read(reading, 1 << 20)):
            break
        parts.append(block)
        size += len(block)
    return b"".join(parts)
