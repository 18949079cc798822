"""Who may draw a shard: one process, known before it opens an engine."""

import io
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import pytest
from eval_setup import FakeEngine, make_options, run

from stapo_bench.engines import EngineOptions
from stapo_bench.engines.scripted import Script, ScriptedEngine
from stapo_bench.errors import StapoError
from stapo_bench.records import Request, SamplingParams
from stapo_bench.runs.manifest import About
from stapo_bench.runs.store import read_samples, scan_keys
from stapo_bench.sampling.evaluation import evaluate
from stapo_bench.sampling.generate import sole_writer
from stapo_bench.sampling.identity import started_now

pytestmark = pytest.mark.usefixtures("graded_here")


@pytest.fixture
def impatient(monkeypatch) -> None:
    """Whoever finds a writer at work gives way at once."""
    monkeypatch.setattr("stapo_bench.sampling.generate._PATIENCE_S", 0.05)


def open_nothing(*_arguments: object) -> None:
    raise AssertionError("an engine was opened")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("is_new", [True, False])
def test_a_second_writer_is_refused_before_it_opens_an_engine(tmp_path, monkeypatch, is_new):
    options = make_options(tmp_path, engine=EngineOptions(name="scripted"), samples=1, max_new_tokens=4096)
    if not is_new:
        evaluate(options, watch=io.StringIO())
    options.out.mkdir(exist_ok=True)
    monkeypatch.setattr("stapo_bench.sampling.engine_cache.open_for", open_nothing)
    more = replace(options, samples=2)
    with sole_writer(options.out, "shard0of1"):
        with pytest.raises(StapoError, match="another process is drawing shard 0/1 of this run"):
            evaluate(more, watch=io.StringIO())
        if not is_new:  # what misses nothing writes nothing
            assert evaluate(options, watch=io.StringIO()).num_sampled == 0
    with pytest.raises(AssertionError, match="an engine was opened"):
        evaluate(more, watch=io.StringIO())


class ProbedEngine(FakeEngine):
    """Of which nobody knows what it does: it is probed with a request of the run."""

    def __init__(self) -> None:
        super().__init__()
        self.probed: list[Request] = []

    def probe(self, request: Request, params: SamplingParams) -> list[str]:
        assert not self.requested, "expected the probe before the first sample"
        self.probed.append(request)
        return [f"warning: min_p is not kept to, {params.max_new_tokens} tokens are"]


def test_what_a_probe_finds_is_said_before_the_first_sample(tmp_path):
    options, engine, watch = make_options(tmp_path, samples=2), ProbedEngine(), io.StringIO()
    evaluate(replace(options, samples=1), engine=FakeEngine(), watch=io.StringIO())
    evaluate(options, engine=engine, watch=watch)
    assert [request.key for request in engine.probed] == [engine.requested[0].key]  # one that is missing
    assert engine.probed[0].key.sample_index == 1
    assert watch.getvalue().count("warning: min_p is not kept to, 16 tokens are\n") == 1


@pytest.mark.usefixtures("impatient")
def test_a_shard_is_held_while_its_engine_opens(tmp_path, monkeypatch):
    options = make_options(tmp_path, samples=1)
    refused = []

    def open_slowly(*_arguments: object) -> ScriptedEngine:
        with pytest.raises(StapoError, match="another process is drawing"):
            run(options)
        refused.append(1)
        return ScriptedEngine(Script(success=0.0), {})

    monkeypatch.setattr("stapo_bench.sampling.engine_cache.open_for", open_slowly)
    assert evaluate(replace(options, engine=EngineOptions(name="scripted")), watch=io.StringIO()).num_sampled == 24
    assert refused == [1]


def test_what_another_writer_stored_between_the_look_and_the_lock_is_not_drawn_again(tmp_path, monkeypatch):
    options = make_options(tmp_path, samples=2)
    run(replace(options, samples=1))
    real = sole_writer

    @contextmanager
    def late(folder: Path, label: str, watch: TextIO) -> Iterator[None]:
        monkeypatch.setattr("stapo_bench.sampling.evaluation.sole_writer", real)
        run(options)  # another process was just before us, and is done
        with real(folder, label, watch):
            yield

    monkeypatch.setattr("stapo_bench.sampling.evaluation.sole_writer", late)
    drawn = run(options)
    assert (drawn.num_sampled, drawn.num_missing) == (0, 0)
    assert scan_keys(options.out, 0)[1] == 0


@pytest.mark.usefixtures("impatient")
def test_a_run_next_to_one_that_is_being_drawn_is_not_refused(tmp_path):
    options = make_options(tmp_path, samples=1)
    run(options)
    other = replace(options, seed=1, allow_different=True)
    with sole_writer(options.out, "shard0of1"):
        assert run(other).run_dir == tmp_path / "run-2"
    with sole_writer(tmp_path / "run-2", "shard0of1"), pytest.raises(StapoError, match="run-2: another process"):
        run(replace(other, samples=2))


def test_a_process_that_an_engine_left_behind_does_not_hold_the_shard(tmp_path):
    with sole_writer(tmp_path, "shard0of1"):
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        with sole_writer(tmp_path, "shard0of1"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_run_names_the_commit_of_its_code(tmp_path, monkeypatch):
    root = Path(__file__).parents[1]
    if not (root / ".git").exists() or shutil.which("git") is None:
        pytest.skip("no checkout, or no git to ask")
    head = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert started_now(About(tasks={})).commit == head.stdout.strip()
    assert len(head.stdout.strip()) == 40
    # a git that knows no commit, and no git at all
    (tmp_path / "git").write_text("#!/bin/sh\necho nothing\nexit 128\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert started_now(About(tasks={})).commit is None
    (tmp_path / "git").unlink()
    assert started_now(About(tasks={})).commit is None


class Truncating(FakeEngine):
    """Cuts the samples of even seeds off."""

    def complete(self, request):
        return replace(super().complete(request), finish_reason="stop" if request.seed % 2 else "length")


def test_what_is_watched_counts_the_samples_of_this_command_and_of_those_before(tmp_path):
    options = make_options(tmp_path, samples=2)
    run(replace(options, samples=1), Truncating())
    watch = io.StringIO()
    evaluate(options, engine=Truncating(), watch=watch)
    rows = {words[0]: words[1:3] for line in watch.getvalue().splitlines() if len(words := line.split()) > 2}
    stored = list(read_samples(options.out))
    assert len(stored) == 48
    for task in ("one", "two"):
        cut = sum(sample.finish_reason == "length" for sample in stored if sample.task == task)
        assert 0 < cut < 24
        assert rows[task] == ["24/24", str(round(100 * cut / 24))]
    assert rows["all"][0] == "48/48"


def test_a_line_is_told_for_every_sample_that_became_safe(tmp_path, monkeypatch):
    monkeypatch.setattr("stapo_bench.sampling.progress.LOG_SECONDS", 0.0)
    monkeypatch.setattr("stapo_bench.sampling.progress._SHARE", 1e9)
    monkeypatch.setattr("stapo_bench.runs.sample_writer.SYNC_SECONDS", 0.0)
    monkeypatch.setattr("stapo_bench.runs.sample_writer.SYNC_SHARE", 1e9)
    options = make_options(tmp_path, samples=2)
    run(replace(options, samples=1))
    watch = io.StringIO()
    evaluate(options, engine=FakeEngine(), watch=watch)
    told = [line for line in watch.getvalue().splitlines() if line.startswith("one ") and " · " in line]
    counts = [[int(part.partition("/")[0]) for part in line.split()[1:4:2]] for line in told]
    assert counts[0] in ([13, 12], [12, 13]) and counts[-1] == [24, 24]  # 12 of 24 of each task were there
    assert [sum(done) for done in counts] == list(range(25, 49))
