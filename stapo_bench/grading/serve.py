"""What runs inside a grading process: a pair comes in as a JSON line, a grade goes out as one, until the input ends.

``stapo_bench.grading.process`` starts it. The kernel enforces its limits, so that they hold in C code, off the main
thread and while a lock is held:

* CPU time: ``ITIMER_PROF`` counts the CPU time of the process and its signal, left at its default, ends it. A machine
  that is busy elsewhere changes nothing.
* Memory: ``RLIMIT_AS``, counted from what is mapped once everything is loaded.

Where the kernel has no such timer (Windows) a thread watches the CPU time, which C code that never gives up its lock
evades until the owner's patience ends. Without ``/proc`` (macOS) or limits (Windows) memory is not bounded.
"""

import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from stapo_bench.records import Gold, Grade

TIMED_OUT = 124
"""Exit code of a process that ended itself at its limit of CPU time."""
_LOOK_S = 0.05


def main(module: str, preload: list[str], cpu_s: float, memory_bytes: int) -> None:
    """Serve until the input ends. ``module`` is a grader's module (see ``stapo_bench.grading.registry``)."""
    replies = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # what a library prints must not end up among the replies
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    grader = import_module(module)
    for name in preload:
        import_module(name)
    _limit_memory(memory_bytes)
    set_timer = _timer()
    _send(replies, {"ready": grader.GRADER_VERSION})
    os.dup2(null, 2)  # up to here a traceback helps the user; from here on it would be noise
    for line in sys.stdin.buffer:
        reply = _reply(grader, json.loads(line), cpu_s, set_timer)
        _send(replies, reply)
        if "last" in reply:
            return


def _reply(grader: Any, request: dict[str, Any], cpu_s: float, set_timer: Callable[[float], object]) -> dict[str, Any]:
    """The grade of a request with the CPU time that it took, or the error that it raised."""
    gold = Gold(**request["gold"])
    start = time.thread_time()  # the process's clock runs by ticks while its timer is set
    set_timer(cpu_s)
    try:
        if "extracted" in request:
            grade = grader.grade_extracted(request["extracted"], gold)
        else:
            grade = grader.grade_answer(request["completion"], gold)
        if not isinstance(grade, Grade):
            raise TypeError(f"expected a Grade, got {type(grade).__name__}")
    except MemoryError:
        return {"error": "out of memory", "last": True}  # what a failed allocation left behind is not trusted
    except Exception as error:  # becomes GRADER_ERROR, never a verdict
        return {"error": f"raised {type(error).__name__}: {error}"[:300]}
    finally:
        set_timer(0.0)
    return {**asdict(grade), "cpu_s": time.thread_time() - start}


def _send(replies: BinaryIO, reply: dict[str, Any]) -> None:
    """Write one reply."""
    replies.write(json.dumps(reply).encode("ascii") + b"\n")
    replies.flush()


def _timer() -> Callable[[float], object]:
    """A function that has this process ended after so many seconds of CPU time from now; 0: not any more."""
    if hasattr(signal, "setitimer"):
        # A parent may have blocked or ignored the signal, and both are inherited.
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
        return partial(signal.setitimer, signal.ITIMER_PROF)
    deadline = math.inf

    def watch() -> None:
        while time.process_time() < deadline:
            time.sleep(_LOOK_S)
        os._exit(TIMED_OUT)

    def set_timer(cpu_s: float) -> None:
        nonlocal deadline
        deadline = time.process_time() + cpu_s if cpu_s else math.inf

    threading.Thread(target=watch, daemon=True).start()
    return set_timer


def _limit_memory(memory_bytes: int) -> None:
    """Have the kernel refuse this process more memory, where it can."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    statm = Path("/proc/self/statm")
    if statm.exists():  # elsewhere (macOS) the limit is not enforced
        limit = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize() + memory_bytes
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard == resource.RLIM_INFINITY or limit < hard:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _exit_with_parent(parent: int) -> None:
    """End this process when its parent has ended."""
    # The end of the input says the same, but not to a grade that sleeps, nor while a fork of the parent lives on.
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)
