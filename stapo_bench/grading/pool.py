r"""Grading in worker processes that can be killed: a hang, a crash or a memory hog costs its own pair and nothing else.

    with GraderPool() as pool:
        grades = pool.grade([(r"\boxed{42}", "42"), (r"\boxed{43}", "42")])

A pair that cannot be graded is GRADER_ERROR, and the detail says why: CPU time used up, memory used up, asleep,
crashed, raised. CPU time decides, not the clock on the wall, so that a loaded machine gives the same grades. Equal
pairs are graded once in a pool's life, and pairs that a cheap exact rule decides never reach a worker.

Workers are plain subprocesses that speak JSON lines: no pickle, no ``__main__`` guard, and they start from threads,
from daemonic processes and from inside an event loop (``await asyncio.to_thread(pool.grade, pairs)``).
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, BinaryIO, TypeAlias, cast
from weakref import WeakSet

from stapo_bench.errors import StapoError
from stapo_bench.grading.panel import DEFAULT_GRADER, Grader, get_grader
from stapo_bench.records import Gold, Grade, Outcome

# The search path first: then a json.py in the current folder cannot stand in for the library's.
_START = """\
import sys
sys.path[:] = sys.argv[2:]
import json
from stapo_bench.grading.worker import main
main(**json.loads(sys.argv[1]))
"""
# One hash seed: set order, and with it sympy's path to a result, is the same in every worker. One thread: numeric
# libraries otherwise reserve memory for every core of a large machine.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_KILLED = "crashed: SIGKILL"
_BUSY = "RD"  # running or waiting for a CPU, waiting for a disk: on a loaded machine that may take long
MAX_EXTRACTED_HERE = 200_000  # characters
MAX_KNOWN = 50_000  # grades that a pool remembers, of answers up to so many characters:
MAX_KNOWN_ANSWER = 2_000

Pair: TypeAlias = "tuple[str, str | Gold] | tuple[str, str | Gold, str | None]"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one grade may use. Far above what any sane pair needs: p99 is some milliseconds."""

    cpu_s: float = 3.0
    memory_bytes: int = 1 << 30  # beyond what the loaded libraries take
    asleep_s: float = 30.0  # on the wall, without using CPU time


def grade_many(
    pairs: Iterable[Pair], workers: int | None = None, *, grader: str | Grader = DEFAULT_GRADER
) -> list[Grade]:
    r"""Grade (completion, answer) or (completion, answer, answer_type) pairs in worker processes; order kept.

    >>> [grade.outcome.value for grade in grade_many([(r"\boxed{42}", "42"), ("no idea", "42")], grader="strict")]
    ['CORRECT', 'NO_ANSWER']
    """
    with GraderPool(workers, grader=grader) as pool:
        return pool.grade(pairs)


class GraderPool:
    """Worker processes that stay for many calls; started when first needed. Safe to share between threads."""

    def __init__(
        self, workers: int | None = None, *, grader: str | Grader = DEFAULT_GRADER, limits: Limits | None = None
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"expected at least 1 worker, got {workers}")
        self.grader = get_grader(grader) if isinstance(grader, str) else grader
        self.limits = limits or Limits()
        self.workers = workers or min(_num_cpus(), 16)
        self._module = self.grader.load()
        self._known: dict[_Request, Grade] = {}
        self._closed = False
        self._start_afresh()
        _POOLS.add(self)

    def _start_afresh(self) -> None:
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(self.workers)

    def grade(self, pairs: Iterable[Pair]) -> list[Grade]:
        """One grade per pair, in order. Blocks until all are graded; raises only if no worker can be started."""
        if self._closed:
            raise StapoError("expected an open grader pool, got one that was closed; make a new one")
        questions = [(pair[0], _as_gold(pair[1], pair[2] if len(pair) == 3 else None)) for pair in pairs]
        first_look = {question: _quick_grade(self._module, *question) for question in dict.fromkeys(questions)}
        asked = self._grades(look for look in first_look.values() if isinstance(look, _Request))
        looks = (first_look[question] for question in questions)
        return [asked[look] if isinstance(look, _Request) else look for look in looks]

    def grade_extracted(self, extracted: str, gold: Gold) -> Grade:
        """The grade of one answer that was extracted already, by a grader that grades such answers."""
        if self._closed:
            raise StapoError("expected an open grader pool, got one that was closed; make a new one")
        request = _Request(text=extracted, is_extracted=True, gold=gold)
        return self._grades([request])[request]

    def _grades(self, requests: "Iterable[_Request]") -> "dict[_Request, Grade]":
        requests = list(dict.fromkeys(requests))
        with self._lock:
            asked = {request: self._known[request] for request in requests if request in self._known}
        if new := [request for request in requests if request not in asked]:
            asked.update(zip(new, self._ask_all(new), strict=True))
            self._remember({request: asked[request] for request in new})
        return asked

    def _ask_all(self, requests: "list[_Request]") -> list[Grade]:
        if self.workers == 1:  # in the caller's thread: then its CPU time is the caller's, who may want to hold it low
            return [self._ask(request) for request in requests]
        with ThreadPoolExecutor(min(self.workers, len(requests))) as threads:
            return list(threads.map(self._ask, requests))

    def _remember(self, grades: "dict[_Request, Grade]") -> None:
        """Keep the grades of answers, so that later calls need not ask again; the oldest are forgotten first."""
        with self._lock:
            for request, grade in grades.items():
                if request.is_extracted and len(request.text) <= MAX_KNOWN_ANSWER:
                    self._known[request] = grade
            while len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]

    def close(self) -> None:
        """End the workers; grades under way in other threads still finish."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def __enter__(self) -> "GraderPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: "_Request") -> Grade:
        reply = self._reply(request)
        if reply.get("error") == _KILLED:
            # None of our limits sends SIGKILL: somebody killed the worker, perhaps before it saw this pair.
            reply = self._reply(request)
        if "error" not in reply:
            return Grade(**{**reply, "outcome": Outcome(reply["outcome"])})
        extracted = request.text if request.is_extracted else None
        return Grade(
            outcome=Outcome.GRADER_ERROR, extracted=extracted, detail=reply["error"], grader=self._module.GRADER_VERSION
        )

    def _reply(self, request: "_Request") -> dict[str, Any]:
        with self._free:
            worker = self._take()
            try:
                reply = worker.ask(request)
            except BaseException:  # Ctrl-C: what it would answer next belongs to this request
                worker.end()
                raise
            self._put_back(worker)
        return reply

    def _take(self) -> "_Worker":
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive():
                    return worker
        try:
            return _Worker(self.grader, self.limits)
        except _KilledError:  # none of our limits sends SIGKILL either while it starts
            return _Worker(self.grader, self.limits)

    def _put_back(self, worker: "_Worker") -> None:
        with self._lock:
            if worker.is_alive() and not self._closed:
                self._idle.append(worker)
                return
        worker.end()


_POOLS: "WeakSet[GraderPool]" = WeakSet()


def _after_fork() -> None:
    """In a child: the workers are its parent's, and a thread that it does not have may hold a lock."""
    for pool in list(_POOLS):
        pool._start_afresh()


os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What a worker is asked. Equal requests are asked once."""

    text: str
    is_extracted: bool  # the text is the answer alone; else the whole completion
    gold: Gold

    def line(self) -> bytes:
        kind = "extracted" if self.is_extracted else "completion"
        return json.dumps({kind: self.text, "gold": asdict(self.gold)}).encode("ascii") + b"\n"


def _as_gold(answer: str | Gold, answer_type: str | None) -> Gold:
    if isinstance(answer, str):
        return Gold(answer=answer, answer_type=answer_type)
    return answer if answer_type is None else replace(answer, answer_type=answer_type)


def _quick_grade(module: ModuleType, completion: str, gold: Gold) -> "Grade | _Request":
    """The grade where the grader has a quick rule that decides, else what to ask a worker."""
    quick = getattr(module, "quick_grade", None)
    grade: Grade | None = quick(completion, gold) if quick else None
    if grade is not None:
        return grade
    # Extracting here lets completions with the same answer share one grade; a worker extracts from what is oversized.
    extracted = None
    if hasattr(module, "grade_extracted") and len(completion) <= MAX_EXTRACTED_HERE:
        with suppress(Exception):  # the worker meets it again, and reports it
            extracted = module.extract_answer(completion)
    if extracted is None:
        return _Request(text=completion, is_extracted=False, gold=gold)
    return _Request(text=extracted, is_extracted=True, gold=gold)


class _KilledError(StapoError):
    """Somebody killed a worker that was starting."""


class _Worker:
    """One subprocess. A pair goes in as a line, a reply comes back as a line; the end of its output is its death."""

    def __init__(self, grader: Grader, limits: Limits) -> None:
        self._limits = limits
        config = {
            "module": grader.module,
            "preload": grader.preload,
            "cpu_s": limits.cpu_s,
            "memory_bytes": limits.memory_bytes,
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(config), *map(str, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_ENVIRONMENT},
                start_new_session=True,  # Ctrl-C reaches the parent, which then ends its workers
            )
        except OSError as error:
            raise StapoError(f"cannot start a grading process with {sys.executable!r}: {error}") from error
        self._readable = select.poll()
        self._readable.register(self._output, select.POLLIN)
        ready = self._read(patience_s=max(60.0, limits.asleep_s))  # the libraries may come from a slow disk
        if "ready" not in ready:
            kind = _KilledError if ready["error"] == _KILLED else StapoError
            raise kind(f"the grading process of grader {grader.name!r} did not start: {ready['error']}")

    @property
    def _input(self) -> BinaryIO:
        return cast(BinaryIO, self._process.stdin)

    @property
    def _output(self) -> BinaryIO:
        return cast(BinaryIO, self._process.stdout)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: _Request) -> dict[str, Any]:
        """The worker's reply, or ``{"error": why there is none}``; then the worker has ended."""
        try:
            self._input.write(request.line())
            self._input.flush()
        except BrokenPipeError:
            return {"error": self.end()}
        return self._read(self._limits.asleep_s)

    def end(self) -> str:
        """Kill it if it lives, reap it, and say how it ended."""
        self._process.kill()
        code = self._process.wait()
        with suppress(BrokenPipeError):
            self._input.close()
        self._output.close()
        if code == -signal.SIGPROF:
            return f"timed out: more than {self._limits.cpu_s:g} s of CPU time"
        return f"crashed: {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _read(self, patience_s: float) -> dict[str, Any]:
        """The next line, or an error once the process is dead, or asleep and without CPU time for so long."""
        used = -1.0
        while not self._readable.poll(patience_s * 500):  # milliseconds: looks twice before it decides
            before, (state, used) = used, _state(self._process.pid)
            if state not in _BUSY and used - before < 0.01 * patience_s:
                self.end()
                return {"error": f"asleep: no CPU time used in {patience_s:g} s"}
        line = self._output.readline()
        if not line.endswith(b"\n"):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(
                    1.0
                )  # a process that exits closes its output first; its own end tells more than a kill
            return {"error": self.end()}
        reply = cast(dict[str, Any], json.loads(line))
        if reply.pop("last", False):
            self.end()
        return reply


def _state(pid: int) -> tuple[str, float]:
    """State letter and CPU seconds of a process, proc(5). Where /proc is missing the wall clock decides alone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "S", 0.0
    fields = stat.rpartition(")")[2].split()  # from field 3 on: the name before ")" may hold spaces
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _num_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
