"""Copies are said while sampling: once, early, and not of honest samples."""

import io
from dataclasses import replace

from eval_setup import FakeEngine, make_options
from store_setup import make_sample

from stapo_bench.records import SampleKey, SamplingParams
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
