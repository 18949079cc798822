"""Copies are said while sampling: once, early, and not of honest samples."""

import io
import math
from dataclasses import replace
from itertools import pairwise

import pytest
from eval_setup import FakeEngine, make_options
from store_setup import make_sample

from stapo_bench.records import SampleKey, SamplingParams
from stapo_bench.sampling import copy_watch
from stapo_bench.sampling.copy_watch import CopyWatch
from stapo_bench.sampling.evaluation import evaluate
from stapo_bench.sampling.progress import Progress
from stapo_bench.sampling.stop_rules import width_below

TRAINING = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=4096)


class Deaf(FakeEngine):
    """Gives every sample of a problem the same text: it does not listen to seeds."""

    def complete(self, request):
        text = f"{request.prompt.text} " + "it follows " * 200 + "\\boxed{1}"
        return replace(super().complete(request), text=text, num_tokens=400, log_probs=None)


class Watch(io.StringIO):
    """Notes how many samples had been asked for when a warning came."""

    def __init__(self, engine):
        super().__init__()
        self.engine = engine
        self.asked_when_warned = []

    def write(self, text):
        if "equal completions" in text:
            self.asked_when_warned.append(len(self.engine.requested))
        return super().write(text)


def test_an_engine_deaf_to_seeds_is_named_once_and_early(tmp_path):
    engine = Deaf()
    watch = Watch(engine)
    evaluate(make_options(tmp_path), engine=engine, watch=watch)
    (asked,) = watch.asked_when_warned
    assert asked <= 3 * 24 < len(engine.requested) == 192  # in the first three of eight rounds of 24 problems
    line = next(line for line in watch.getvalue().splitlines() if "equal completions" in line)
    assert line.startswith("warning: equal completions on ") and " of 24 problems, far beyond chance; " in line


def test_a_run_that_is_looked_at_in_stages_is_warned_of_once(tmp_path):
    engine = Deaf()
    watch = Watch(engine)
    evaluate(make_options(tmp_path), engine=engine, watch=watch, rule=width_below(0.0001))
    assert len(watch.asked_when_warned) == 1 and len(engine.requested) == 192


def test_a_run_that_goes_on_is_warned_of_again(tmp_path):
    evaluate(make_options(tmp_path, samples=4), engine=Deaf(), watch=io.StringIO())
    engine = Deaf()
    watch = Watch(engine)
    evaluate(make_options(tmp_path), engine=engine, watch=watch)
    assert watch.asked_when_warned == [0]  # by what was stored, before another sample was asked for


def test_an_engine_that_listens_to_seeds_is_not_named(tmp_path):
    watch = io.StringIO()
    evaluate(make_options(tmp_path), engine=FakeEngine(), watch=watch)
    assert "equal completions" not in watch.getvalue()


def test_samples_count_by_their_indices_however_they_come():
    """Of two problems the first has one long text twice, at indices 6 and 7: nothing is said before the others came."""
    keys = [SampleKey("aime24", f"I-{i}", j) for j in range(8) for i in range(40)]
    watch = CopyWatch(keys, TRAINING)
    text = "and so on " * 400

    def see(problem, index, text):
        sample = replace(make_sample(0, text), problem_id=f"I-{problem}", sample_index=index, num_tokens=6000)
        return list(watch.see(sample))

    late = [see(problem, index, text) for problem in range(40) for index in (7, 6)]
    assert late == [[]] * 80
    spoken = [line for index in range(6) for problem in range(40) for line in see(problem, index, f"{text}{index}")]
    assert len(spoken) == 1


def test_a_problems_first_eight_samples_are_looked_at_and_no_further_one():
    keys = [SampleKey("aime24", f"I-{i}", j) for j in range(10) for i in range(40)]
    text = "and so on " * 400

    def lines(repeated):
        """Of 40 problems, each sample a text of its own but the one at ``repeated``, which is the first's."""
        watch = CopyWatch(keys, TRAINING)
        for _, problem, index in keys:
            sample = make_sample(0, text + ("" if index in (0, repeated) else str(index)))
            yield from watch.see(replace(sample, problem_id=problem, sample_index=index, num_tokens=6000))

    assert (len(list(lines(7))), len(list(lines(8)))) == (1, 0)


@pytest.mark.parametrize(
    ("rows", "spoken"),
    [
        ("aa aa", 0),
        ("aa aa aa", 1),
        ("ab aa aa aa", 0),
        ("ab aa aa aa aa", 1),
        ("a aa aa aa", 0),  # of one sample nothing is known, and it counts
    ],
)
def test_problems_without_copies_weigh_against_those_with_them(rows, spoken):
    """A text of 664 tokens has a likelihood of e^-3 at most: twice on a problem E_i is 16.06, the mean of r e^3.

    Over n problems and m without copies E is the mean of 1.30^n 0.98^m, 4.01^n 0.8^m and 14.56^n 0.1^m: 77 of two,
    1,051 of three, 121 of three beside one without, and 1,568 of four beside it; it speaks from 1,000 on.
    """
    texts = [(str(problem), index, text) for problem, row in enumerate(rows.split()) for index, text in enumerate(row)]
    watch = CopyWatch([SampleKey("aime24", problem, index) for problem, index, _ in texts], TRAINING)
    lines = []
    for problem, index, text in texts:
        drawn = replace(make_sample(0, text), problem_id=problem, sample_index=index, num_tokens=664)
        lines += watch.see(drawn)
    assert len(lines) == spoken
    num_repeated = rows.split().count("aa")
    assert all(f"on {num_repeated} of {len(rows.split())} problems" in line for line in lines)


def test_problems_of_which_nothing_came_yet_weigh_nothing():
    """Three of two copies are told, as above, whatever else the run will ask."""
    watch = CopyWatch(
        [SampleKey("aime24", str(problem), index) for problem in range(9) for index in range(2)], TRAINING
    )
    lines = []
    for problem in range(3):
        for index in range(2):
            drawn = replace(make_sample(0, "a"), problem_id=str(problem), sample_index=index, num_tokens=664)
            lines += watch.see(drawn)
    (line,) = lines
    assert "on 3 of 3 problems" in line


def test_many_problems_are_not_looked_at_with_each_sample(monkeypatch):
    """The next look comes when there is a hundredth more of samples, or one more of fewer than a hundred."""
    looks = []
    monkeypatch.setattr(copy_watch, "copy_evidence", lambda repeated, _: (looks.append(len(repeated)), (0.0, 0.2))[1])
    monkeypatch.setattr(copy_watch, "problem_evidence", lambda texts: 0.0)
    watch = CopyWatch([SampleKey("aime24", str(i), 0) for i in range(1000)], TRAINING)
    for i in range(1000):
        assert list(watch.see(replace(make_sample(0), problem_id=str(i), sample_index=0))) == []
    assert looks[:100] == list(range(1, 101))
    assert all(1 <= after - before <= max(1, before / 100) for before, after in pairwise(looks))
    assert len(looks) < 400
    looks.clear()
    monkeypatch.setattr(copy_watch, "problem_evidence", lambda texts: -math.inf)
    assert list(CopyWatch([make_sample(0).key], TRAINING).see(make_sample(0))) == [] == looks  # it repeats nothing


def test_a_line_that_stays_on_a_terminal_is_not_redrawn_over():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, now = Terminal(), [0.0]
    progress = Progress({"aime24": 4}, stream=terminal, clock=lambda: now[0])
    progress.start(SampleKey("aime24", f"I-{i}", i) for i in range(4))
    for index in range(4):
        now[0] += 1.0
        progress.add(make_sample(index))
        if index == 1:
            progress.say("warning: look")
    shown = terminal.getvalue()
    assert shown.split("warning: look\n")[1].startswith("\x1b[2Ktask")  # a new block, not three lines up
    assert shown.count("\x1b[3F") == 2  # at the second sample and the fourth
