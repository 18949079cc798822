"""The processes of a grader pool: how they live, are killed, are replaced and end."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from pool_setup import faulty_pool, is_running, outcomes

from stapo_bench.grading import pool as pool_module
from stapo_bench.grading import process as process_module
from stapo_bench.grading.pool import GraderPool


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.mark.parametrize("task", ["pid", "sleep"])
def test_workers_end_with_a_killed_parent(task):
    code = textwrap.dedent(f"""
        import sys, threading, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from stapo_bench.grading.registry import Grader
        from stapo_bench.grading.pool import GraderPool
        pool = GraderPool(1, grader=Grader(name="faulty", summary="", module="faulty_graders"))
        print(pool.grade([("pid", "x")])[0].extracted, flush=True)
        pool.grade([({task!r}, "x")])
        time.sleep(60)
        """)
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    time.sleep(0.2)
    assert is_running(worker)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60
    while is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(worker)


def test_no_zombies_and_no_open_files_stay():
    def state() -> set[object]:
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text(encoding="utf-8").split()
        return {*(f"file {path.name}" for path in Path("/proc/self/fd").iterdir()), *children, *threading.enumerate()}

    before = state()  # of which some may end: what other tests of this process left
    for _ in range(3):
        with faulty_pool(workers=3) as pool:
            pool.grade([("1", "1"), ("segfault", "x"), ("exit", "x"), ("2", "2")])
    assert state() <= before


def test_a_worker_lives_on_and_a_broken_one_is_replaced():
    with faulty_pool() as pool:
        first, again = (pool.grade([("pid", gold)])[0].extracted for gold in "ab")
        pool.grade([("eat memory", "x")])
        other = pool.grade([("pid", "c")])[0].extracted
    assert first == again != other


def test_an_interrupted_question_ends_its_worker(monkeypatch):
    def interrupted(worker, request):
        raise KeyboardInterrupt

    with faulty_pool(workers=1) as pool:
        worker = int(pool.grade([("pid", "x")])[0].extracted)
        with monkeypatch.context() as patch:
            patch.setattr(pool_module.GradingProcess, "ask", interrupted)
            with pytest.raises(KeyboardInterrupt):
                pool.grade([("1", "1")])
        assert not is_running(worker)
        assert outcomes(pool.grade([("1", "1")])) == ["CORRECT"]


def test_one_worker_is_asked_in_the_caller_s_thread(monkeypatch):
    threads, ask = [], GraderPool._ask

    def noted(pool, request):
        threads.append(threading.get_ident())
        return ask(pool, request)

    monkeypatch.setattr(GraderPool, "_ask", noted)
    with faulty_pool(workers=1) as pool:
        assert outcomes(pool.grade([("1", "1"), ("2", "2")])) == ["CORRECT", "CORRECT"]
    assert threads == 2 * [threading.get_ident()]


def test_a_worker_killed_from_outside_at_work_costs_nothing():
    with faulty_pool() as pool:
        worker = int(pool.grade([("pid", "x")])[0].extracted)
        os.kill(worker, signal.SIGSTOP)  # it will take the next pair, and be killed before it can answer
        threading.Timer(0.3, os.kill, (worker, signal.SIGKILL)).start()
        assert outcomes(pool.grade([("1", "1")])) == ["CORRECT"]


def test_a_worker_killed_while_idle_costs_nothing():
    with faulty_pool() as pool:
        worker = int(pool.grade([("pid", "x")])[0].extracted)
        os.kill(worker, signal.SIGKILL)
        while is_running(worker):
            time.sleep(0.01)
        assert outcomes(pool.grade([("1", "1")])) == ["CORRECT"]


def test_a_worker_killed_while_it_starts_costs_nothing(monkeypatch):
    real, killed = pool_module.GradingProcess._read, []

    def read(worker, patience_s):
        if not killed:
            killed.append(worker.end())
            return {"error": killed[0]}
        return real(worker, patience_s)

    monkeypatch.setattr(pool_module.GradingProcess, "_read", read)
    with faulty_pool() as pool:
        assert outcomes(pool.grade([("1", "1")])) == ["CORRECT"]
    assert killed == ["crashed: SIGKILL"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc: the wall clock decides alone")
def test_the_cpu_time_of_a_process_is_what_the_system_charges_it():
    began = time.process_time()
    while time.process_time() < began + 0.1:
        sum(range(1000))
    before, (letter, seconds), after = sum(os.times()[:2]), process_module._state(os.getpid()), sum(os.times()[:2])
    assert letter == "R"
    assert before - 0.02 <= seconds <= after + 0.02  # counted in hundredths
