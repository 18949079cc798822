"""A run that is stopped, killed, or let down by its engine ends with the same samples as an unbroken one."""

import io
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import eval_setup
import pytest
from eval_setup import (
    NUM_PROBLEMS,
    NUM_SAMPLES,
    FakeEngine,
    completions,
    make_options,
    make_task,
    run,
    unbroken_run,
)
from interrupted import heeding_ctrl_c

from stapo_bench.analysis.score_file import score_run
from stapo_bench.errors import StapoError
from stapo_bench.records import SampleKey
from stapo_bench.runs.locks import is_locked
from stapo_bench.runs.run_grading import grade_run
from stapo_bench.runs.sample_writer import lock_file
from stapo_bench.runs.store import scan_keys, segments
from stapo_bench.sampling.evaluation import evaluate


@pytest.fixture
def unbroken(tmp_path) -> dict[SampleKey, str]:
    return unbroken_run(tmp_path)


def test_an_engine_that_dies_leaves_what_is_done_and_says_so(tmp_path, unbroken):
    options = make_options(tmp_path)
    watch = io.StringIO()
    with pytest.raises(StapoError, match=r"the device fell off the bus.*run the same command again"):
        evaluate(options, engine=FakeEngine(fail_after=50), watch=watch)
    assert len(completions(tmp_path / "run")) == 50
    assert "50 new samples are safe" in watch.getvalue()
    assert not is_locked(lock_file(tmp_path / "run", "shard0of1"))
    assert run(options).num_sampled == len(unbroken) - 50
    assert completions(tmp_path / "run") == unbroken


def test_a_completion_that_comes_twice_counts_once(tmp_path, unbroken):
    class Stutter(FakeEngine):
        def complete(self, request):
            self.first = getattr(self, "first", None) or super().complete(request)
            return super().complete(request)

        def generate(self, requests, params):
            yield from super().generate(requests, params)
            yield self.first

    drawn = run(make_options(tmp_path), Stutter())
    assert drawn.num_repeated == 1
    assert completions(tmp_path / "run") == unbroken


def test_a_completion_nobody_asked_for_is_an_error(tmp_path):
    class Stranger(FakeEngine):
        def complete(self, request):
            return replace(super().complete(request), key=request.key._replace(sample_index=99))

    with pytest.raises(StapoError, match="not asked for"):
        run(make_options(tmp_path), Stranger())
    assert completions(tmp_path / "run") == {}


def test_what_an_engine_gave_up_or_dropped_stays_missing_and_is_drawn_next_time(tmp_path, unbroken):
    class Weary(FakeEngine):
        def generate(self, requests, params):
            for number, completion in enumerate(super().generate(requests, params)):
                if number % 10 == 0:
                    yield replace(completion, finish_reason="error", text="")
                elif number % 10 != 1:  # dropped without a word
                    yield completion

    options = make_options(tmp_path)
    drawn = run(options, Weary())
    assert drawn.num_missing == 20 + 20  # of 192: numbers 0, 10, … 190 and 1, 11, … 191
    assert drawn.num_sampled == len(unbroken) - 40
    assert run(options).num_missing == 0
    assert completions(tmp_path / "run") == unbroken


def start(folder: Path, shard: int, num_shards: int, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, eval_setup.__file__, *map(str, (folder, shard, num_shards, seconds))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def num_stored_bytes(run_dir: Path) -> int:
    return sum(path.stat().st_size for path in segments(run_dir))


KILLS = pytest.mark.slow(reason="up to nine processes, most of them killed")


@pytest.mark.parametrize(
    ("num_shards", "num_kills"), [(1, 2), *(pytest.param(*how, marks=KILLS) for how in ((1, 5), (3, 2)))]
)
def test_killed_again_and_again_it_ends_with_the_samples_of_an_unbroken_run(tmp_path, unbroken, num_shards, num_kills):
    random_ = random.Random(num_shards)
    for _ in range(num_kills):
        before = num_stored_bytes(tmp_path / "run")
        processes = [start(tmp_path, i, num_shards, 0.05) for i in range(num_shards)]
        wait_for(lambda before=before: num_stored_bytes(tmp_path / "run") != before)
        time.sleep(0.05 * random_.random())
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    assert 0 < len(completions(tmp_path / "run")) < len(unbroken)
    processes = [start(tmp_path, i, num_shards, 0.0) for i in range(num_shards)]
    assert [p.communicate() and p.returncode for p in processes] == [0] * num_shards
    assert completions(tmp_path / "run") == unbroken
    assert scan_keys(tmp_path / "run", 0)[1] == 0
    assert len(segments(tmp_path / "run")) <= num_shards * (num_kills + 1)


@pytest.mark.parametrize(
    ("other", "refused"), [((0, 1), True), ((0, 2), True), ((1, 3), False)], ids=["same", "overlapping", "beside it"]
)
def test_a_second_writer_is_refused_by_a_lock_that_dies_with_the_first(tmp_path, other, refused):
    first = (0, 1) if refused else (0, 3)
    process = start(tmp_path, *first, 0.2)  # at work for longer than the second waits, on a busy machine, too
    wait_for(lambda: segments(tmp_path / "run"))
    second = replace(make_options(tmp_path), shard=other)
    if refused:
        with pytest.raises(StapoError, match=rf"another process is drawing shard {first[0]}/{first[1]} of this run"):
            run(second)
    else:
        run(second)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    run(second)


def test_samples_of_a_run_under_other_settings_are_found_among_ours(tmp_path):
    options = make_options(tmp_path, samples=2)
    run(replace(options, shard=(0, 2)))
    run(replace(options, shard=(1, 2), decoding="training", out=tmp_path / "other"))  # the same keys and seeds
    (guest,) = segments(tmp_path / "other")
    place = guest.rename(tmp_path / "run" / "samples" / f"0002-{guest.name}")
    with pytest.raises(StapoError, match=rf"{place.name}:1: .*it belongs to another run"):
        run(options)
    place.unlink()
    run(options)


@pytest.mark.slow(reason="three commands in processes of their own, one stopped by Ctrl-C")
def test_scored_from_another_terminal_and_stopped_by_ctrl_c_it_ends_as_if_nothing_had_been(tmp_path):
    tasks = ",".join(make_task(tmp_path, name) for name in ("one", "two"))
    script = tmp_path / "script.yaml"
    command = "from stapo_bench.cli import main; main()"
    arguments = ["eval", "--engine", "scripted", "--ckpt", script, "--tasks", tasks, "--data-dir", tmp_path]
    arguments += ["--decoding", "justrl", "--max-new-tokens", "64", "--out"]

    def start(out: str) -> subprocess.Popen[str]:
        line = [sys.executable, "-c", command, *map(str, arguments), str(tmp_path / out)]
        with heeding_ctrl_c():  # and so do its children
            return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    script.write_text("success: 0.5\n")
    unbroken = start("unbroken")
    unbroken.communicate()
    script.write_text("{success: 0.5, delay_s: 0.2}\n")  # 40 s, of which it has a few
    process, run_dir = start("run"), tmp_path / "run"
    wait_for(lambda: num_stored_bytes(run_dir))
    grade_run(run_dir, data_dir=tmp_path, workers=1)
    under_way = score_run(run_dir)
    assert process.poll() is None
    assert 0 < sum(task.num_samples for task in under_way.tasks) < 2 * NUM_PROBLEMS * NUM_SAMPLES
    assert not any(task.complete for task in under_way.tasks)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    num_safe = len(completions(run_dir))
    assert f"{num_safe} new samples are safe in {run_dir}" in said
    assert "stapo-bench: stopped; " in said
    script.write_text("success: 0.5\n")
    again = start("run")
    _, said = again.communicate(timeout=60)
    assert (again.returncode, unbroken.returncode) == (0, 0), said
    assert f"{2 * NUM_PROBLEMS * NUM_SAMPLES - num_safe} new samples are safe" in said
    assert completions(run_dir) == completions(tmp_path / "unbroken")
    assert score_run(run_dir).macro == score_run(tmp_path / "unbroken").macro


def test_a_resumed_run_counts_what_it_has_and_what_it_still_draws(tmp_path):
    with pytest.raises(StapoError):
        run(make_options(tmp_path), FakeEngine(fail_after=50))
    watch = io.StringIO()
    drawn = evaluate(make_options(tmp_path), engine=FakeEngine(), watch=watch)
    per_task = NUM_PROBLEMS * NUM_SAMPLES
    assert 0 < drawn.num_sampled < 2 * per_task
    counts = dict(line.split()[:2] for line in watch.getvalue().splitlines() if "/" in line.split()[1])
    done, all_done = f"{per_task}/{per_task}", f"{2 * per_task}/{2 * per_task}"
    assert counts == {"one": done, "two": done, "all": all_done}
