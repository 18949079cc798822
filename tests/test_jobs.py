"""The runner of jobs with real processes: threads, priority, what it tells, what it stops."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stapo_bench.errors import StapoError
from stapo_train import jobs
from stapo_train.jobs import Job, ready, run_jobs, status_line


def job(folder, name, script, **more):
    return Job(name=name, command=["sh", "-c", script], weight=10, log=folder / f"{name}.log", **more)


def test_a_job_for_all_lanes_runs_alone_with_their_threads_and_the_others_with_one(tmp_path, capsys):
    events = tmp_path / "events"
    start, end = f"echo start $OMP_NUM_THREADS >> {events}", f"echo end >> {events}"
    both = f"n=0; until [ $(grep -c start {events}) = 3 ] || [ $n = 200 ]; do sleep 0.05; n=$((n + 1)); done"
    base = job(tmp_path, "base", f"{start}; sleep 0.1; {end}", all_lanes=True)
    plan = [base, *(job(tmp_path, name, f"{start}; {both}; {end}", needs=("base",)) for name in "ab")]
    run_jobs(plan, lanes=2)
    told = events.read_text().splitlines()
    assert told[:2] == ["start 2", "end"]
    assert told[2:4] == ["start 1", "start 1"]  # side by side
    assert all(each.done for each in plan)
    told = capsys.readouterr().out
    assert "base: done" in told


def test_niceness_is_added_and_every_end_is_told_with_its_cost(tmp_path):
    ended = []
    plan = [job(tmp_path, "nice", "nice"), job(tmp_path, "bad", "nice; exit 3", needs=("nice",))]
    with pytest.raises(StapoError, match=r"bad failed \(exit 3\): "):
        run_jobs(plan, lanes=1, niceness=3, ended=lambda job, usage: ended.append((job.name, usage.ru_utime >= 0)))
    assert (tmp_path / "nice.log").read_text() == f"{os.nice(0) + 3}\n"
    assert ended == [("nice", True), ("bad", True)]


def test_where_one_fails_the_others_are_interrupted_and_waited_for(tmp_path):
    # TERM, too: where the tests run in the background, SIGINT is ignored, and a shell cannot change that.
    ends = f"sleep 0.2; echo interrupted > {tmp_path}/slow; exit 130"
    script = f"trap '{ends}' INT TERM; touch {tmp_path}/up; sleep 60 & wait"
    waits = f"until test -e {tmp_path}/up; do sleep 0.05; done; echo no room; exit 1"
    began = time.monotonic()
    with pytest.raises(StapoError, match=r"bad failed \(exit 1\): no room; all of it: .*bad.log"):
        run_jobs([job(tmp_path, "slow", script), job(tmp_path, "bad", waits)], lanes=2)
    assert (tmp_path / "slow").read_text() == "interrupted\n"
    assert time.monotonic() - began < 50


@pytest.mark.parametrize(
    ("ignored", "end", "patience_s"),
    [("INT", -signal.SIGTERM, 1.0), ("INT TERM", -signal.SIGKILL, 0.1)],  # a busy machine lets one die in a second
    ids=["SIGTERM", "SIGKILL"],
)
def test_one_that_ignores_being_asked_is_stopped_more_firmly(tmp_path, monkeypatch, ignored, end, patience_s):
    monkeypatch.setattr(jobs, "PATIENCE_S", patience_s)
    deaf = job(tmp_path, "deaf", f"trap '' {ignored}; touch {tmp_path}/up; exec sleep 60")
    waits = f"until test -e {tmp_path}/up; do sleep 0.05; done; exit 1"
    began = time.monotonic()
    with pytest.raises(StapoError, match=r"bad failed"):
        run_jobs([deaf, job(tmp_path, "bad", waits)], lanes=2)
    assert deaf.process.returncode == end
    assert time.monotonic() - began < 50


def test_what_is_done_is_not_run_and_what_leaves_nothing_failed(tmp_path):
    done = job(tmp_path, "done", f"touch {tmp_path}/again", done=True)
    run_jobs([done, job(tmp_path, "next", "true", needs=("done",))], lanes=1)
    assert not (tmp_path / "again").exists()
    with pytest.raises(StapoError, match=r"empty failed \(exit 0\)"):
        run_jobs([job(tmp_path, "empty", "true", is_done=lambda: False)], lanes=1)


def test_the_status_tells_the_share_by_weight_and_the_time_left(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    half = Job(name="half", command=(), weight=100, log=tmp_path / "half.log", process=object())
    half.log.write_text("3/6\n")
    whole = Job(name="whole", command=(), weight=100, done=True)
    later = Job(name="later", command=(), weight=200)
    # 100 + 50 of 400 in 60 s: 0.4 s per unit of weight, 250 units left: 100 s, which is 2 min.
    line = status_line([whole, half, later], lanes=2, began=40.0)
    assert line == "[ 1:00] half 3/6 | 38%, about 2 min left"
    # Nothing is worked on yet, nor is a twentieth: the weights count, 400 and 390 over two lanes, which is 3 min.
    plan = [
        Job(name="first", command=(), weight=20, log=half.log, process=object()),
        Job(name="b", command=(), weight=380),
    ]
    assert status_line(plan[1:], lanes=2, began=99.0) == "[ 0:01]  | 0%, about 3 min left"
    assert status_line(plan, lanes=2, began=25.0) == "[ 1:15] first 3/6 | 2%, about 3 min left"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("", ("starting", 0.0)),
        ("step 1/8\rstep 3/8", ("3/8", 0.375)),  # the last one
        ("500/1,000 steps", ("500/1,000", 0.5)),
        ("9/8", ("9/8", 1.0)),
        ("0/0", ("0/0", 0.0)),
        ("3/8" + " " * 4093, ("3/8", 0.375)),  # the last 4096 bytes are read
        ("3/8" + " " * 4096, ("starting", 0.0)),
    ],
)
def test_how_far_a_job_is_by_what_it_printed_last(tmp_path, written, told):
    one = Job(name="one", command=(), weight=1, log=tmp_path / "one.log")
    assert one.progress() == ("", 0.0)  # not started
    one.process = object()
    assert one.progress() == ("", 0.0)  # nothing is written yet
    one.log.write_text(written)
    assert one.progress() == told
    one.done = True
    assert one.progress() == ("done", 1.0)


def test_a_line_of_status_is_printed_now_and_then(tmp_path, monkeypatch, capsys):
    def lines(every_s):
        monkeypatch.setattr(jobs, "LINE_EVERY_S", every_s)
        run_jobs([job(tmp_path, "nap", "sleep 0.2")], lanes=1)
        return [line for line in capsys.readouterr().out.splitlines() if "min left" in line]

    assert len(lines(0.0)) >= 2 and len(lines(time.monotonic() - 5.0)) == 1  # at once, and not again so soon


# -- nothing outlives a runner ----------------------------------------------------------------------------------------

RUNNER = """
import sys
from pathlib import Path
from stapo_train.jobs import Job, run_guarded, run_jobs
folder, command = Path(sys.argv[2]), sys.argv[3:]
if sys.argv[1].endswith("at once"):  # killed as soon as the command works, before anybody could take note of it
    import os, signal, subprocess, time
    start = subprocess.Popen.__init__
    def killed(*words, **settings):
        start(*words, **settings)
        while not any(path.read_text().strip() for path in (folder / "pids").iterdir()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    subprocess.Popen.__init__ = killed
if sys.argv[1].startswith("jobs"):
    run_jobs([Job(name=name, command=command, weight=1, log=folder / f"{name}.log") for name in "ab"], lanes=2)
else:
    run_guarded(command)
"""
GRADING = """
import os, sys, time
from pathlib import Path
from stapo_bench.grading import GraderPool
pool = GraderPool(workers=1)
pool.grade([("\\\\boxed{1/3}", "\\\\frac{2}{7}")])
(worker,) = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
Path(sys.argv[1], str(os.getpid())).write_text(worker)
time.sleep(600)
"""


def is_running(pid: int) -> bool:
    """Whether a process is there; what has ended and waits to be reaped is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", ["jobs", "guarded", "jobs, at once", "guarded, at once"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_a_runner_that_is_killed(tmp_path, how, number):
    pids = tmp_path / "pids"
    pids.mkdir()
    deaf = "trap '' INT TERM; sh -c 'trap \"\" INT TERM; sleep 600' & echo $! > $0/$$; wait"  # hears no request
    command = [sys.executable, "-c", RUNNER, how, str(tmp_path), "sh", "-c", deaf, str(pids)]
    runner = subprocess.Popen(command)
    num_jobs = 2 if how == "jobs" else 1
    assert until(lambda: len([path for path in pids.iterdir() if path.read_text().strip()]) == num_jobs)
    left = [int(number) for path in pids.iterdir() for number in (path.name, path.read_text())]
    if not how.endswith("at once"):
        assert all(is_running(pid) for pid in left)
        runner.send_signal(number)
    runner.wait()
    assert until(lambda: not any(is_running(pid) for pid in left), 10), left


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_no_grading_process_outlives_a_killed_runner(tmp_path):
    pids = tmp_path / "pids"
    pids.mkdir()
    command = [sys.executable, "-c", GRADING, str(pids)]
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, "guarded", str(tmp_path), *command])
    assert until(lambda: any(path.read_text() for path in pids.iterdir()))
    (path,) = pids.iterdir()
    left = [int(path.name), int(path.read_text())]
    runner.kill()
    runner.wait()
    assert until(lambda: not any(is_running(pid) for pid in left), 10), left


def until(holds, patience_s=60.0):
    """Wait until a condition holds; False on timeout."""
    deadline = time.monotonic() + patience_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def test_which_jobs_begin_by_hand(tmp_path):
    plan = [job(tmp_path, name, "") for name in "abc"] + [job(tmp_path, "d", "", needs=("a",))]

    def begin(lanes):
        return [each.name for each in ready(plan, lanes)]

    assert (begin(0), begin(1), begin(2), begin(4)) == ([], ["a"], ["a", "b"], ["a", "b", "c"])  # d waits for a
    plan[0].done = True
    assert begin(3) == ["b", "c", "d"]
    plan[1].process = object()  # runs: one lane less
    assert (begin(1), begin(2), begin(3)) == ([], ["c"], ["c", "d"])
    plan[2].all_lanes = True
    assert begin(3) == ["d"]  # c waits for what runs
    plan[1].done = True
    assert begin(3) == ["c"]  # and then runs alone
    plan[2].process = object()
    assert begin(3) == []
