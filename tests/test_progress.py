"""What the person watching sees."""

import heapq
import io
import random
from types import SimpleNamespace

import numpy as np
import pytest

from stapo_bench.presenting import score_interval
from stapo_bench.records import Sample, SampleKey
from stapo_bench.sampling.progress import Progress
from stapo_bench.statistics import interval
from stapo_train import training_log


def test_a_terminal_gets_one_line_that_is_redrawn():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def sample(index, finish_reason):
        key = SampleKey("a", "p", index)
        return Sample(**key._asdict(), seed=0, completion="", num_tokens=10, finish_reason=finish_reason)

    terminal, now = Terminal(), [0.0]
    progress = Progress({"a": 4}, stream=terminal, clock=lambda: now[0])
    progress.see(sample(0, "length"))
    progress.start(SampleKey("a", "p", index) for index in (1, 2, 3))
    progress.grade(SampleKey("a", "p", 0), "CORRECT")
    progress.grade(SampleKey("a", "q", 0), "INCORRECT")
    progress.grade(SampleKey("a", "r", 0), "GRADER_ERROR")  # unknown, not wrong
    progress.grade(SampleKey("a", "q", 1), "CORRECT")  # its round is not whole
    for index, now[0] in ((1, 1.0), (2, 1.1), (3, 2.0)):
        progress.add(sample(index, "stop"))
    progress.close()
    blocks = terminal.getvalue().split("\x1b[3F")  # three lines up
    assert len(blocks) == 3  # the sample at 1.1 s is too soon for another
    _, task, everything, _ = blocks[0].replace("\x1b[2K", "").split("\n")
    assert task.split()[:5] == ["a", "2/4", "50", "%", "50.00"]
    assert everything.split(maxsplit=2) == ["all", "2/4", "1.0 samples/s · 10 tokens/s · ETA 0:00:02"]
    assert "4/4" in blocks[2]


def test_showing_takes_a_small_share_of_the_time_however_long_it_takes():
    now = [0.0]

    class Slow(io.StringIO):
        def write(self, text):
            now[0] += 0.05  # 0.05 s is 0.005 of 10 s
            return super().write(text)

        def isatty(self):
            return True

    slow = Slow()
    progress = Progress({"a": 1000}, stream=slow, clock=lambda: now[0])
    progress.start(SampleKey("a", "p", index) for index in range(1000))
    for index in range(1000):
        now[0] += 0.1
        key = SampleKey("a", "p", index)
        progress.add(Sample(**key._asdict(), seed=0, completion="", num_tokens=1, finish_reason="stop"))
    shown = slow.getvalue().count("samples/s")
    cost = now[0] - 100.0
    assert shown >= 5
    assert cost < 0.01 * now[0]


def test_the_running_score_is_that_of_whole_rounds():
    """Short completions end first and are right more often: half of a round would promise too much."""
    random_ = random.Random(0)
    asked = [SampleKey("a", str(problem), index) for index in range(32) for problem in range(30)]
    length = {key: random_.lognormvariate(9.0, 0.5) for key in asked}
    correct = {key: random_.random() < (0.9 if length[key] < 8000 else 0.1) for key in asked}
    truth = 100 * sum(correct.values()) / len(asked)
    progress = Progress({"a": len(asked)}, stream=io.StringIO())
    progress.start(asked)
    running, queue, now, ended, told = [], iter(asked), 0.0, [], []
    for _ in asked:  # 256 slots, refilled as sequences end
        while len(running) < 256 and (key := next(queue, None)):
            heapq.heappush(running, (now + length[key], key))
        now, key = heapq.heappop(running)
        progress.grade(key, "CORRECT" if correct[key] else "INCORRECT")
        ended.append(100 * correct[key])
        if (score := progress._tasks["a"].score()) != "–":
            told.append(float(score.split()[0]))
    assert sum(ended[:96]) / 96 - truth > 20  # what a tenth of the run has ended would promise
    assert len(told) > 400  # a score from half of the run on, at the latest
    assert max(abs(score - truth) for score in told) < 7  # 30 problems: by chance
    assert told[-1] == pytest.approx(truth, abs=0.006)


def test_a_grade_that_comes_before_the_sample_is_counted_stays():
    def sample(key):
        return Sample(**key._asdict(), seed=0, completion="", num_tokens=1, finish_reason="stop")

    progress = Progress({"a": 2}, stream=io.StringIO())
    progress.see(sample(SampleKey("a", "q", 0)))  # stored without a grade by an earlier command
    key = SampleKey("a", "p", 0)
    progress.start([key])
    progress.grade(key, "CORRECT")
    progress.add(sample(key))
    assert progress._tasks["a"].score().split()[0] == "100.00"


def test_a_running_score_is_written_as_tables_write_it_and_what_is_finished_has_none_beside_theirs():
    stream = io.StringIO()
    progress = Progress({"a": 3}, stream=stream, clock=lambda: 0.0)
    progress.start([SampleKey("a", "p", 2)])
    for problem, index, outcome in (
        ("p", 0, "CORRECT"),
        ("q", 0, "INCORRECT"),
        ("p", 1, "CORRECT"),
        ("q", 1, "CORRECT"),
    ):
        progress.grade(SampleKey("a", problem, index), outcome)
    (line,) = [line for line in progress.block() if line.startswith("a ")]
    rows = np.array([[1, 1], [0, 1]])
    near = interval(rows, "these problems")
    assert line.endswith(f"75.00 {score_interval(near)}")  # as a table has it
    key = SampleKey("a", "p", 2)
    progress.add(Sample(**key._asdict(), seed=0, completion="", num_tokens=1, finish_reason="stop"))
    progress.close()
    assert stream.getvalue().splitlines()[-2].split() == ["a", "3/3", "0", "%"]


def test_the_first_line_of_a_log_comes_ten_seconds_after_the_start_however_long_an_engine_took_to_open():
    log, now = io.StringIO(), [0.0]
    progress = Progress({"a": 3}, stream=log, clock=lambda: now[0])
    now[0] = 100.0
    progress.start(SampleKey("a", "p", index) for index in range(3))
    lines = []
    for index, now[0] in enumerate((109.0, 110.0, 111.0)):
        key = SampleKey("a", "p", index)
        progress.add(Sample(**key._asdict(), seed=0, completion="", num_tokens=50, finish_reason="stop"))
        lines.append(log.getvalue())
    assert lines == ["", *["a 2/3 · 0.2 samples/s · 10 tokens/s · ETA 0:00:05\n"] * 2]


def test_the_time_left_of_a_training_counts_evaluations_by_themselves(monkeypatch):
    """Two iterations of 1 s and an evaluation of 30 s: of ten eight are left, and those after 4, 8 and 10."""
    now, stream = [0.0], io.StringIO()
    monkeypatch.setattr(training_log.time, "monotonic", lambda: now[0])
    line = training_log.ProgressLine(0, 10, stream=stream, evaluated=(4, 8, 10), quiet_s=0.0)
    now[0] = 32.0
    line.evaluation(30.0)
    seen = {"reward": 0.5, "entropy": 1.0, "num_kept": 1, "num_tokens": 1, "response_length": 8.0}
    line.show(SimpleNamespace(iteration=2, **seen))
    assert stream.getvalue().endswith("1.00 s each · ETA 0:01:38\n")  # 8 x 1 + 3 x 30
    now[0] = 34.0
    line.show(SimpleNamespace(iteration=4, **seen))  # its own evaluation comes after it
    assert stream.getvalue().endswith("1.00 s each · ETA 0:01:36\n")


def test_a_line_of_a_log_has_the_running_score_of_each_task_of_which_a_round_is_graded():
    log, now = io.StringIO(), [0.0]
    progress = Progress({"a": 4, "b": 4, "c": 2}, stream=log, clock=lambda: now[0])
    keys = [SampleKey(task, problem, index) for task in "ab" for index in range(2) for problem in "pq"]
    progress.start([*keys, SampleKey("c", "p", 0), SampleKey("c", "p", 1)])
    for problem, outcome in (("p", "CORRECT"), ("q", "INCORRECT")):
        progress.grade(SampleKey("a", problem, 0), outcome)
        progress.grade(SampleKey("b", problem, 0), "CORRECT")
    progress.grade(SampleKey("a", "p", 1), "CORRECT")  # a half of the second round: not in the score
    now[0] = 10.0
    progress.add(Sample(**keys[0]._asdict(), seed=0, completion="", num_tokens=50, finish_reason="stop"))
    a, b = (score_interval(interval(np.array(round_), "these problems")) for round_ in ([[1], [0]], [[1], [1]]))
    assert log.getvalue() == (
        "a 1/4 b 0/4 c 0/2 · 0.1 samples/s · 5 tokens/s · ETA 0:01:30"
        f" · avg@k of whole rounds so far, % [95 %: these problems]: a 50.00 {a}, b 100.00 {b}\n"
    )


@pytest.mark.parametrize(("terminal", "shown"), [(True, ["1", "2", "3"]), (False, ["1", "3"])])
def test_a_terminal_shows_every_iteration_and_a_log_the_first_and_the_last_within_seconds(terminal, shown):
    class Stream(io.StringIO):
        def isatty(self):
            return terminal

    line = training_log.ProgressLine(0, 3, stream=(stream := Stream()), quiet_s=1e6)
    plain = {"reward": 0.5, "entropy": 1.0, "response_length": 8.0, "num_kept": 4, "num_tokens": 4}
    for iteration in (1, 2, 3):
        line.show(SimpleNamespace(iteration=iteration, **plain))
    assert [told.split()[1].partition("/")[0] for told in stream.getvalue().splitlines()] == shown


@pytest.mark.parametrize(("platform", "mib"), [("linux", 3072.0), ("darwin", 3.0)])
def test_the_peak_of_a_process_is_told_in_kibibytes_by_linux_and_in_bytes_by_macos(monkeypatch, platform, mib):
    monkeypatch.setattr(training_log.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(training_log.sys, "platform", platform)
    monkeypatch.setattr(training_log.resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=3 * 2**20))
    assert training_log.peak_mib() == mib
