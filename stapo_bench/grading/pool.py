r"""Grading in worker processes that can be killed: a hang, a crash or a memory hog costs its own pair and nothing else.

    with GraderPool() as pool:
        grades = pool.grade([(r"\boxed{42}", "42"), (r"\boxed{43}", "42")])

A pair that cannot be graded is GRADER_ERROR, and the detail says why: CPU time used up, memory used up, asleep,
crashed, raised. CPU time decides, not the clock on the wall, so that a loaded machine gives the same grades. Equal
pairs are graded once in a pool's life, and pairs that a cheap exact rule decides never reach a worker.

Workers are plain subprocesses that speak JSON lines: no pickle, no ``__main__`` guard, and they start from threads,
from daemonic processes and from inside an event loop (``await asyncio.to_thread(pool.grade, pairs)``).
"""

import math
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import ModuleType, TracebackType
from typing import Any, TypeAlias
from weakref import WeakSet

from stapo_bench.errors import StapoError, watched
from stapo_bench.grading.golds import as_gold
from stapo_bench.grading.process import KILLED, GradingProcess, KilledError, Limits, Request
from stapo_bench.grading.registry import Grader, get_grader
from stapo_bench.records import DEFAULT_GRADER, Gold, Grade, Outcome

MAX_EXTRACTED_HERE = 200_000  # characters
MAX_KNOWN = 50_000  # grades that a pool remembers, of answers up to so many characters:
MAX_KNOWN_ANSWER = 2_000

Pair: TypeAlias = "tuple[str, str | float | Gold] | tuple[str, str | float | Gold, str | None]"


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
        self.grader.check_installed()
        self._known: dict[Request, Grade] = {}
        self._closed = False
        self._start_afresh()
        _POOLS.add(self)

    def _start_afresh(self) -> None:
        """Begin with no workers, and with locks that nobody holds."""
        self._idle: list[GradingProcess] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(self.workers)

    def grade(self, pairs: Iterable[Pair]) -> list[Grade]:
        """One grade per pair, in order. Blocks until all are graded; raises only if no worker can be started."""
        if self._closed:
            raise StapoError("expected an open grader pool, got one that was closed; make a new one")
        questions = [(pair[0], as_gold(pair[1], answer_type=pair[2] if len(pair) == 3 else None)) for pair in pairs]
        first_look = {question: _quick_grade(self._module, *question) for question in dict.fromkeys(questions)}
        asked = self._grades(look for look in first_look.values() if isinstance(look, Request))
        looks = (first_look[question] for question in questions)
        return [asked[look] if isinstance(look, Request) else look for look in looks]

    def grade_extracted(self, extracted: str, gold: Gold) -> Grade:
        """The grade of one answer that was extracted already, by a grader that grades such answers."""
        if self._closed:
            raise StapoError("expected an open grader pool, got one that was closed; make a new one")
        request = Request(text=extracted, is_extracted=True, gold=gold)
        return self._grades([request])[request]

    def grade_timed(self, pairs: Iterable[Pair]) -> list[tuple[Grade, float]]:
        """Grade and CPU seconds of each pair, in order: all of it done by a worker, nothing shared or remembered.

        Of a pair that no worker survives, or that raised, the time is NaN.
        """
        golds = [(pair[0], as_gold(pair[1], answer_type=pair[2] if len(pair) == 3 else None)) for pair in pairs]
        requests = [Request(text=text, is_extracted=False, gold=gold) for text, gold in golds]
        return list(watched(self._ask_all(requests), f"grading by {self.grader.name}", "answers", len(requests)))

    def _grades(self, requests: Iterable[Request]) -> dict[Request, Grade]:
        """The grades of the requests; those of new ones are asked for and remembered."""
        requests = list(dict.fromkeys(requests))
        with self._lock:
            asked = {request: self._known[request] for request in requests if request in self._known}
        if new := [request for request in requests if request not in asked]:
            asked.update(zip(new, (grade for grade, _ in self._ask_all(new)), strict=True))
            self._remember({request: asked[request] for request in new})
        return asked

    def _ask_all(self, requests: list[Request]) -> Iterator[tuple[Grade, float]]:
        """Ask as many workers at a time as the pool has."""
        if self.workers == 1:  # in the caller's thread: then its CPU time is the caller's, who may want to hold it low
            yield from map(self._ask, requests)
            return
        from concurrent.futures import ThreadPoolExecutor  # not before it is needed: it brings logging

        with ThreadPoolExecutor(max(1, min(self.workers, len(requests)))) as threads:
            yield from threads.map(self._ask, requests)

    def _remember(self, grades: dict[Request, Grade]) -> None:
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

    def _ask(self, request: Request) -> tuple[Grade, float]:
        """The grade of one request, and its CPU seconds; a request that no worker survives is GRADER_ERROR."""
        reply = self._reply(request)
        if reply.get("error") == KILLED:  # perhaps before it saw this pair
            reply = self._reply(request)
        if "error" not in reply:
            cpu_s = reply.pop("cpu_s")
            return Grade(**{**reply, "outcome": Outcome(reply["outcome"])}), cpu_s
        extracted = request.text if request.is_extracted else None
        failed = Grade(
            outcome=Outcome.GRADER_ERROR, extracted=extracted, detail=reply["error"], grader=self._module.GRADER_VERSION
        )
        return failed, math.nan

    def _reply(self, request: Request) -> dict[str, Any]:
        """What a free worker replies; waits until one is free."""
        with self._free:
            worker = self._take()
            try:
                reply = worker.ask(request)
            except BaseException:  # Ctrl-C: what it would answer next belongs to this request
                worker.end()
                raise
            self._put_back(worker)
        return reply

    def _take(self) -> GradingProcess:
        """An idle worker that lives, or a new one."""
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive():
                    return worker
        try:
            return GradingProcess(self.grader, self.limits)
        except KilledError:
            return GradingProcess(self.grader, self.limits)

    def _put_back(self, worker: GradingProcess) -> None:
        """Keep a worker that lives for the next request."""
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


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_after_fork)


def _quick_grade(module: ModuleType, completion: str, gold: Gold) -> Grade | Request:
    """The grade where the grader has a quick rule that decides, else what to ask a worker."""
    quick = getattr(module, "quick_grade", None)
    grade: Grade | None = quick(completion, gold) if quick else None
    if grade is not None:
        return grade
    # Extracting here lets completions with the same answer share one grade; a worker extracts from what is oversized.
    extracted = None
    if hasattr(module, "grade_extracted") and len(completion) <= MAX_EXTRACTED_HERE:
        with suppress(Exception):  # the worker meets it again, and reports it
            extract_for = getattr(module, "extract_for", None)
            extracted = extract_for(completion, gold) if extract_for else module.extract_answer(completion)
    if extracted is None:
        return Request(text=completion, is_extracted=False, gold=gold)
    return Request(text=extracted, is_extracted=True, gold=gold)


def _num_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
