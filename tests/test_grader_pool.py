"""The grader pool, by fault injection: what goes wrong with one pair stays with that pair."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from pool_setup import FAULTY, faulty_pool, is_running, outcomes

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import pool as pool_module
from stapo_bench.grading.pool import GraderPool, Limits, grade_many
from stapo_bench.grading.registry import Grader
from stapo_bench.records import Gold, Grade, Outcome

QUICK = Grader(name="quick", summary="has a quick rule", module="quick_graders")

FAULTS = {
    "hang in python": "timed out: more than 0.4 s of CPU time",
    "hang in C": "timed out: more than 0.4 s of CPU time",
    "sleep": "asleep: no CPU time used in 1.5 s",
    "eat memory": "out of memory",
    "segfault": "crashed: SIGSEGV",
    "null pointer": "crashed: SIGSEGV",
    "exit": "ended with exit code 3",
    "raise": "raised ValueError: no such thing",
    "no grade": "raised TypeError: expected a Grade, got NoneType",
}


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


ASLEEP = pytest.mark.slow(reason="a grader asleep is waited for; with all faults at once it is, too")


@pytest.mark.parametrize("fault", [pytest.param(name, marks=ASLEEP if name == "sleep" else ()) for name in FAULTS])
def test_a_fault_costs_its_own_pair_only(fault):
    pairs = [("1", "1"), ("2", "3"), (fault, "1"), ("4", "4"), ("5", "6")]
    with faulty_pool() as pool:
        grades = pool.grade(pairs)
    assert outcomes(grades) == ["CORRECT", "INCORRECT", "GRADER_ERROR", "CORRECT", "INCORRECT"]
    assert grades[2].detail == FAULTS[fault]
    assert grades[2].grader == "faulty-1"
    assert [grade.extracted for grade in grades] == ["1", "2", None, "4", "5"]


def test_all_faults_at_once_keep_order():
    pairs = [pair for number, fault in enumerate(FAULTS) for pair in ((str(number), str(number)), (fault, "x"))]
    with faulty_pool(workers=4) as pool:
        grades = pool.grade(pairs)
    assert [grade.extracted for grade in grades[::2]] == [str(number) for number in range(len(FAULTS))]
    assert [grade.detail for grade in grades[1::2]] == list(FAULTS.values())


def test_what_a_grader_prints_is_no_reply():
    with faulty_pool() as pool:
        assert outcomes(pool.grade([("print", "x"), ("1", "1")])) == ["INCORRECT", "CORRECT"]


def test_cpu_time_decides_not_the_wall_clock():
    # The grade burns 0.2 s of its 0.4 s. Stopped halfway for 0.8 s, as on a busy machine, it still ends.
    with faulty_pool(limits=Limits(cpu_s=0.4, asleep_s=30)) as pool:
        (alone,) = pool.grade([("burn", "x")])
        worker = int(pool.grade([("pid", "x")])[0].extracted)
        with ThreadPoolExecutor(1) as thread:
            start = time.monotonic()
            stopped = thread.submit(pool.grade, [("burn", "y")])
            time.sleep(0.1)
            os.kill(worker, signal.SIGSTOP)
            time.sleep(0.8)
            os.kill(worker, signal.SIGCONT)
            assert outcomes(stopped.result()) == outcomes([alone]) == ["INCORRECT"]
            assert time.monotonic() - start > 0.9


def test_an_inherited_blocked_or_ignored_signal_does_not_lift_the_limit():
    before = signal.signal(signal.SIGPROF, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
    try:
        with faulty_pool() as pool:
            assert pool.grade([("hang in python", "x")])[0].detail.startswith("timed out")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
        signal.signal(signal.SIGPROF, before)


def test_equal_pairs_are_graded_once(tmp_path):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    with faulty_pool(workers=3) as pool:
        grades = pool.grade([("count", first), ("count", second), ("1", "1")] * 4)
    assert outcomes(grades) == ["INCORRECT", "INCORRECT", "CORRECT"] * 4
    assert (tmp_path / "first").read_text() == (tmp_path / "second").read_text() == "x"


def test_equal_answers_of_different_completions_are_graded_once(tmp_path):
    log = str(tmp_path / "log")
    pairs = [(f"Way {number}: answer 7", log) for number in range(20)] + [("no idea", log)]
    grades = grade_many(pairs, workers=2, grader=QUICK)
    assert (tmp_path / "log").read_text() == "x"
    assert [grade.detail for grade in grades] == ["graded its answer"] * 20 + ["graded whole"]
    assert {grade.extracted for grade in grades[:20]} == {"7"}


def test_later_calls_know_what_earlier_ones_graded(tmp_path, monkeypatch):
    monkeypatch.setattr(pool_module, "MAX_KNOWN", 2)
    logs = [str(tmp_path / name) for name in "abc"]
    with GraderPool(1, grader=QUICK) as pool:
        for number in range(3):
            for log in logs[:2]:
                assert pool.grade([(f"Way {number}: answer 7", log)])[0].extracted == "7"
        assert [Path(log).read_text(encoding="utf-8") for log in logs[:2]] == ["x", "x"]
        pool.grade([("answer 7", logs[2])])  # a third: the first is forgotten
        pool.grade([("answer 7", log) for log in logs])
    assert [Path(log).read_text(encoding="utf-8") for log in logs] == ["xx", "x", "x"]


def test_what_is_known_of_one_question_is_not_said_of_another():
    answer = "10\\%"
    golds = [Gold(answer="10", question=question) for question in ("What percent of 50 is 5?", "What is 50 / 5?", None)]
    with GraderPool(1) as pool:
        assert outcomes([pool.grade_extracted(answer, gold) for gold in golds]) == ["CORRECT", "INCORRECT", "INCORRECT"]


def test_an_oversized_completion_is_not_extracted_in_the_caller(tmp_path, monkeypatch):
    monkeypatch.setattr(pool_module, "MAX_EXTRACTED_HERE", 10)
    (grade,) = grade_many([("It is the answer 7", str(tmp_path / "log"))], workers=1, grader=QUICK)
    assert grade.detail == "graded whole"


def test_what_a_quick_rule_decides_starts_no_worker(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert [grade.detail for grade in grade_many([("1", "1")] * 3, grader=QUICK)] == ["quick"] * 3
    with pytest.raises(StapoError, match=r"cannot start a grading process with '/nonexistent/python'"):
        grade_many([("1", "2")], grader=QUICK)


def test_gold_and_answer_type_reach_the_grader():
    with faulty_pool() as pool:
        grades = pool.grade(
            [("1", Gold(answer="1", tolerance=0.5)), ("2", "2", "number"), ("3", Gold(answer="3"), "text")]
        )
    assert outcomes(grades) == ["CORRECT"] * 3


@pytest.mark.parametrize("text", ["\0", "\ud800", "\u202e42", "\n\r\n", '{"last": true}', "x" * 3_000_000])
def test_any_text_passes_unchanged(text):
    with faulty_pool() as pool:
        assert [grade.extracted for grade in pool.grade([(text, Gold(answer=text))])] == [text]


def test_no_pairs():
    assert grade_many([], grader=FAULTY) == []


def test_a_pool_serves_many_threads():
    with faulty_pool(workers=2) as pool, ThreadPoolExecutor(8) as threads:

        def job(number: int) -> list[str]:
            return outcomes(pool.grade([(str(number), str(number)), ("segfault" if number == 3 else "a", "b")]))

        answers = list(threads.map(job, range(16)))
    wrong = [["CORRECT", "INCORRECT"]] * 16
    wrong[3] = ["CORRECT", "GRADER_ERROR"]
    assert answers == wrong


def test_inside_an_event_loop():
    async def both() -> list[Grade]:
        direct = grade_many([("1", "1")], workers=1, grader=FAULTY)
        return direct + await asyncio.to_thread(grade_many, [("1", "2")], 1, grader=FAULTY)

    assert outcomes(asyncio.run(both())) == ["CORRECT", "INCORRECT"]


def _grade_in_child(pool: GraderPool | None, send) -> None:
    grades = pool.grade([("1", "1")]) if pool else grade_many([("1", "1")], workers=1, grader=FAULTY)
    send.send(outcomes(grades))


@pytest.mark.parametrize("inherited", [False, True])
def test_inside_a_daemonic_process(inherited):
    context = get_context("fork")
    receive, send = context.Pipe(duplex=False)
    with faulty_pool() as pool:
        pool.grade([("1", "1")])
        child = context.Process(target=_grade_in_child, args=(pool if inherited else None, send), daemon=True)
        child.start()
        assert receive.poll(60)
        assert receive.recv() == ["CORRECT"]
        child.join()
        assert outcomes(pool.grade([("1", "2")])) == ["INCORRECT"]  # the child did not end the parent's workers


WAITS = pytest.mark.slow(reason="graders that sleep for a second and a half, once more")


@pytest.mark.parametrize("closes", [pytest.param(False, marks=WAITS), True])
def test_a_fork_while_the_pool_is_busy(closes):
    def child() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)  # a hang ends the child, and with it the test
        same = outcomes(pool.grade([("1", "1")])) == ["CORRECT"]
        if closes:
            pool.close()
        os._exit(0 if same else 1)

    with faulty_pool(workers=2) as pool, ThreadPoolExecutor(3) as threads:
        worker = int(pool.grade([("pid", "x")])[0].extracted)
        pool.grade([("burn", "a"), ("burn", "b")])  # two workers
        first = [threads.submit(pool.grade, [("sleep", gold)]) for gold in "cd"]  # 1.5 s, and nobody else may grade
        time.sleep(0.3)
        with pool._lock:
            pid = os.fork()
            if pid == 0:
                child()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert [grade.result()[0].detail for grade in first] == 2 * ["asleep: no CPU time used in 1.5 s"]
        assert not is_running(worker)
        idle = int(pool.grade([("pid", "y")])[0].extracted)
        pid = os.fork()
        if pid == 0:
            child()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert is_running(idle)
        assert int(pool.grade([("pid", "z")])[0].extracted) == idle


def test_from_a_script_without_a_main_guard_or_terminal(tmp_path):
    script = tmp_path / "scripts" / "script.py"
    script.parent.mkdir()
    script.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from stapo_bench.grading.registry import Grader
        from stapo_bench.grading.pool import grade_many
        faulty = Grader(name="faulty", summary="", module="faulty_graders")
        print([g.outcome.value for g in grade_many([("1", "1"), ("exit", "1")], workers=2, grader=faulty)])
        """)
    )
    (tmp_path / "json.py").write_text("raise SystemExit('a file of the current folder was imported')")
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert done.stdout == "['CORRECT', 'GRADER_ERROR']\n", done.stderr


def test_a_grader_that_does_not_load_is_an_error_of_the_run_not_a_grade(capfd):
    broken = Grader(name="broken", summary="", module="faulty_graders", preload=("no_such_module",))
    with pytest.raises(StapoError, match=r"grading process of grader 'broken' did not start: ended with exit code 1"):
        grade_many([("1", "1")], grader=broken)
    assert "No module named 'no_such_module'" in capfd.readouterr().err


def test_bad_use_is_named():
    with pytest.raises(UsageError, match=r"unknown grader 'stric'.*did you mean 'strict'"):
        grade_many([], grader="stric")
    with pytest.raises(ValueError, match="expected at least 1 worker, got 0"):
        GraderPool(0)
    pool = faulty_pool()
    pool.close()
    with pytest.raises(StapoError, match="one that was closed"):
        pool.grade([("1", "1")])


def test_the_quick_look_agrees_with_the_whole_checker():
    # A quick verdict that differs from the checker's own would depend on the length of the completion around it.
    from stapo_bench.grading import grade_answer, quick_grade

    answers = ["42", "042", "42.0", "43", "", "x", "1/2", "\\text{42}", "-0", "+7", "42%", "4 2"]
    for answer in answers:
        for gold in (Gold(answer=text) for text in ["42", "0", "7", "x", "0.5"]):
            quick = quick_grade(f"so \\boxed{{{answer}}}", gold)
            assert quick in (None, grade_answer(f"so \\boxed{{{answer}}}", gold)), (answer, gold)
    assert quick_grade("so \\boxed{043}", Gold(answer="42")).outcome is Outcome.INCORRECT
    assert quick_grade("so \\boxed{1/2}", Gold(answer="0.5")) is None
