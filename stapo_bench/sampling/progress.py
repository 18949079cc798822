"""For the person watching: how far a run is, how fast, and what its scores look like so far.

On a terminal a block is redrawn in place, one line per task; elsewhere (a log file) one line comes every ten seconds,
with the scores behind the counts, and the block once, at the end.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from stapo_bench.errors import LOG_SECONDS, TERMINAL_SECONDS, duration, redraw, redraws, tell
from stapo_bench.records import Sample, SampleKey
from stapo_bench.runs import Pace

WRONG, RIGHT, UNDECIDED, AWAITED = range(4)
"""What is known of a sample: awaited from when it is asked for to its grade; undecided where none is to come."""

_RUNNING = "avg@k of whole rounds so far, % [95 %: these problems]"
_NO_SCORE = "–"
_SHARE = 0.005  # of the time that showing may take; intervals over many problems take some milliseconds


class TaskProgress:
    """What is known of one task so far."""

    def __init__(self, name: str, total: int) -> None:
        self.name = name
        self.total = total  # samples that this command is to see done
        self.done = 0
        self.num_seen = 0  # samples of the run, other shards' and earlier commands' included
        self.num_cut = 0  # of them truncated
        self.outcomes: dict[str, bytearray] = {}  # by problem: what is known of sample 0, 1, …

    def set(self, key: SampleKey, outcome: int) -> None:
        """Take note of what is known of a sample."""
        row = self.outcomes.setdefault(key.problem_id, bytearray())
        row.extend([UNDECIDED] * (key.sample_index + 1 - len(row)))
        row[key.sample_index] = outcome

    def score(self) -> str:
        """Running avg@k with the 95 % interval of "these problems", as a table has them; "–" before there is a round.

        Of whole rounds alone: short completions end first, and are right more often than those still under way.

        >>> task = TaskProgress("aime24", 4)
        >>> task.outcomes = {"a": bytearray([RIGHT, RIGHT]), "b": bytearray([WRONG, AWAITED])}
        >>> task.score().split()[0]
        '50.00'
        """
        import numpy as np

        from stapo_bench.statistics import avg_at_k, interval

        rows = list(self.outcomes.values())
        known = np.full((len(rows), max(map(len, rows), default=0)), UNDECIDED, dtype=np.uint8)
        for line, row in zip(known, rows, strict=True):
            line[: len(row)] = np.frombuffer(row, dtype=np.uint8)
        awaited = (known == AWAITED).any(axis=0)
        whole = known[:, : int(awaited.argmax()) if awaited.any() else None]
        matrix = np.where(whole == UNDECIDED, np.nan, whole)
        if np.isnan(matrix).all():
            return _NO_SCORE
        near = interval(matrix, "these problems")
        return f"{100 * avg_at_k(matrix):.2f} [{100 * near.low:.1f}, {100 * near.high:.1f}]"

    def cut_share(self) -> str:
        """Truncated samples, in percent."""
        return f"{100 * self.num_cut / self.num_seen:.0f} %" if self.num_seen else ""


class Progress:
    """Counts finished samples and grades, and says how far a run is. Grades may come from another thread.

    >>> now = [0.0]
    >>> progress = Progress({"aime24": 960}, stream=sys.stdout, clock=lambda: now[0])
    >>> progress.start(SampleKey("aime24", "1", index) for index in range(60))
    >>> now[0] = 10.0
    >>> progress.add(Sample(task="aime24", problem_id="1", sample_index=0, seed=0, completion="", num_tokens=500,
    ...                     finish_reason="stop"))
    aime24 901/960 · 0.1 samples/s · 50 tokens/s · ETA 0:09:50
    """

    def __init__(
        self,
        totals: Mapping[str, int],
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``totals``: samples by task that this command is to see done."""
        self._tasks = {name: TaskProgress(name, total) for name, total in totals.items()}
        self._stream = stream or sys.stderr
        self._clock = clock
        self._terminal = redraws(self._stream)
        self._start = 0.0
        self._num_new = 0
        self._num_tokens = 0
        self._num_lines = 0  # of the block on the terminal
        self._lock = threading.Lock()
        self._pace = self._new_pace()

    def _new_pace(self) -> Pace:
        return Pace(TERMINAL_SECONDS if self._terminal else LOG_SECONDS, share=_SHARE, clock=self._clock)

    def start(self, missing: Iterable[SampleKey]) -> None:
        """Begin to count; ``missing`` is what this command asks for."""
        for task in self._tasks.values():
            task.done = task.total
        for key in missing:
            task = self._tasks[key.task]
            task.done -= 1
            task.set(key, AWAITED)
        self._start = self._clock()
        self._pace = self._new_pace()

    def see(self, sample: Sample) -> None:
        """Take note of a sample that was stored before, whoever sampled it."""
        if (task := self._tasks.get(sample.task)) is not None:
            self._count(task, sample)
            task.set(sample.key, UNDECIDED)  # until the grade that it has is read; one that has none is not waited for

    def _count(self, task: TaskProgress, sample: Sample) -> None:
        task.num_seen += 1
        task.num_cut += sample.finish_reason == "length"

    def grade(self, key: SampleKey, outcome: str) -> None:
        """Take note of a grade."""
        task = self._tasks.get(key.task)
        if task is not None:
            with self._lock:
                task.set(key, UNDECIDED if outcome == "GRADER_ERROR" else RIGHT if outcome == "CORRECT" else WRONG)

    def add(self, sample: Sample) -> None:
        """Count a sample of this command that is safe on disk."""
        task = self._tasks[sample.task]
        self._count(task, sample)
        task.done += 1
        self._num_new += 1
        self._num_tokens += sample.num_tokens or 0
        if self._pace.due():
            self._show()
            self._pace.done()

    def say(self, line: str) -> None:
        """A line that stays; a block on the terminal begins anew below it."""
        self._num_lines = 0
        tell(self._stream, line)

    def line(self) -> str:
        """The present state in one line; behind it the scores of the tasks of which a round is graded."""
        counts = " ".join(f"{task.name} {task.done}/{task.total}" for task in self._tasks.values())
        with self._lock:
            scores = [f"{name} {score}" for name, task in self._tasks.items() if (score := task.score()) != _NO_SCORE]
        return " · ".join([counts, self._rates(), *([f"{_RUNNING}: {', '.join(scores)}"] if scores else [])])

    def block(self) -> list[str]:
        """The present state, a line per task and one for all. Once all is there, the scores are the table's to say."""
        running = any(task.done < task.total for task in self._tasks.values())
        heading = _RUNNING if running else ""
        lines = [f"{'task':<15} {'done':>12}  {'cut off':>7}  {heading}".rstrip()]
        with self._lock:
            for task in self._tasks.values():
                counts = f"{task.name:<15} {f'{task.done}/{task.total}':>12}  {task.cut_share():>7}"
                lines.append(f"{counts}  {task.score() if running else ''}".rstrip())
        done, total = (sum(getattr(task, name) for task in self._tasks.values()) for name in ("done", "total"))
        return [*lines, f"{'all':<15} {f'{done}/{total}':>12}  {self._rates()}"]

    def close(self) -> None:
        """Show the last state."""
        if not self._terminal:
            for line in self.block():
                tell(self._stream, line)
        else:
            self._show()

    def _rates(self) -> str:
        seconds = max(self._clock() - self._start, 1e-9)
        left = sum(task.total - task.done for task in self._tasks.values())
        eta = duration(left * seconds / self._num_new) if self._num_new else "?"
        return f"{self._num_new / seconds:,.1f} samples/s · {self._num_tokens / seconds:,.0f} tokens/s · ETA {eta}"

    def _show(self) -> None:
        if not self._terminal:
            tell(self._stream, self.line())
            return
        width = shutil.get_terminal_size().columns - 1
        lines = [line[:width] for line in self.block()]
        redraw(self._stream, lines, self._num_lines)
        self._num_lines = len(lines)
