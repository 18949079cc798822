"""Grade while sampling: the running score for the person watching, and less left to grade at the end.

Grading must not hold up the engine, with which it shares the interpreter: it rests in proportion to what it used. What
is not graded in time, or at all, ``grade_run`` grades afterwards.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from stapo_bench.errors import StapoError
from stapo_bench.records import Gold, Outcome, Sample, SampleKey
from stapo_bench.runs import append_grades, graded_keys
from stapo_bench.tasks import without_calls

_BATCH = 64
_SHARE = 0.005  # of one CPU's time that grading may take in this process; the grading itself runs in another
_WAITING = 4096  # samples at most that wait for a grade; those beyond are left to grade_run


class LiveGrader:
    """A thread that grades samples as they become safe."""

    def __init__(
        self, run_dir: Path, golds: Mapping[tuple[str, str], Gold], see: Callable[[SampleKey, str], None]
    ) -> None:
        """Start with the grades that are there; ``see`` is called with every key and outcome."""
        self._run_dir = run_dir
        self._golds = golds
        self._see = see
        self._queue: queue.Queue[Sample | None] = queue.Queue(_WAITING)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="live-grader", daemon=True)
        self._thread.start()

    def put(self, sample: Sample) -> None:
        """Hand over a sample; never waits."""
        try:
            self._queue.put_nowait(sample)
        except queue.Full:
            self._see(sample.key, Outcome.GRADER_ERROR.value)  # undecided for now, and nothing waits for it

    def close(self) -> None:
        """Stop after the batch under way; what still waits is left to ``grade_run``."""
        self._stopping.set()
        self.put_end()
        self._thread.join()

    def put_end(self) -> None:
        """Wake the thread when nothing more comes."""
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return  # then it is awake

    def _work(self) -> None:
        from stapo_bench.grading import GraderPool

        try:
            with GraderPool(workers=1) as pool:
                grader, version = pool.grader.name, pool.grader.version
                graded_keys(self._run_dir, grader, version, self._see)
                used = time.thread_time()
                while batch := self._next_batch():
                    read = (without_calls(s.completion, s.tool_outputs) for s in batch)
                    grades = pool.grade(zip(read, (self._golds[s.task, s.problem_id] for s in batch), strict=True))
                    append_grades(self._run_dir, grader, version, zip((s.key for s in batch), grades, strict=True))
                    for sample, grade in zip(batch, grades, strict=True):
                        self._see(sample.key, grade.outcome.value)
                    self._stopping.wait((time.thread_time() - used) / _SHARE)
                    used = time.thread_time()
        except StapoError:
            return  # the run goes on without a running score; grade_run meets the same failure and reports it

    def _next_batch(self) -> list[Sample]:
        """What waits, at least one; empty when it is time to stop."""
        batch: list[Sample] = []
        while not self._stopping.is_set() and len(batch) < _BATCH:
            try:
                sample = self._queue.get(block=not batch)
            except queue.Empty:
                break
            if sample is None:
                break
            batch.append(sample)
        return batch
