"""What the person watching sees."""

import io

from stapo_bench.progress import Progress
from stapo_bench.records import Sample, SampleKey


def test_a_terminal_gets_one_line_that_is_redrawn():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def sample(index, finish_reason):
        key = SampleKey("a", "p", index)
        return Sample(**key._asdict(), seed=0, completion="", num_tokens=10, finish_reason=finish_reason)

    terminal, now = Terminal(), [0.0]
    progress = Progress({"a": 4}, stream=terminal, clock=lambda: now[0])
    progress.start({"a": 1})
    progress.see(sample(0, "length"))
    progress.grade(SampleKey("a", "p", 0), "CORRECT")
    progress.grade(SampleKey("a", "q", 0), "INCORRECT")
    progress.grade(SampleKey("a", "q", 1), "GRADER_ERROR")  # unknown, not wrong
    for index, now[0] in ((1, 1.0), (2, 1.1), (3, 2.0)):
        progress.add(sample(index, "stop"))
    progress.close()
    blocks = terminal.getvalue().split("\x1b[3F")  # three lines up
    assert len(blocks) == 3  # the sample at 1.1 s is too soon for another
    _, task, everything, _ = blocks[0].replace("\x1b[2K", "").split("\n")
    assert task.split()[:5] == ["a", "2/4", "50", "%", "50.0"]
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
    progress.start({"a": 0})
    for index in range(1000):
        now[0] += 0.1
        key = SampleKey("a", "p", index)
        progress.add(Sample(**key._asdict(), seed=0, completion="", num_tokens=1, finish_reason="stop"))
    shown = slow.getvalue().count("samples/s")
    cost = now[0] - 100.0
    assert shown >= 5
    assert cost < 0.01 * now[0]
