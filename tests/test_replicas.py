"""Several engines as one: the same samples, none lost and none twice, whoever dies; nobody waits for a long tail."""

# ruff: noqa: F401, F811  alone and opened are fixtures, which tests take as arguments
import heapq
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

import pytest
from cli_setup import EVAL, NUM_PROBLEMS
from replicas_setup import GOLDS, LONG, REQUESTS, alone, is_alive, opened, pids

from stapo_bench.engines import EngineOptions
from stapo_bench.engines.devices import gpu_groups
from stapo_bench.engines.replica_process import ReplicaProcess
from stapo_bench.engines.replica_wire import (
    Outbox,
    opening,
)
from stapo_bench.engines.replicas import ReplicatedEngine
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import segments


def test_replicas_draw_what_one_process_draws_call_after_call(opened, alone):
    engine = opened("spread: 1.0")
    assert engine.identity() == opened("spread: 1.0", replicas=None).identity()
    for asked in (REQUESTS, REQUESTS[:5], [], REQUESTS[7:]):
        found = list(engine.generate(asked, LONG))
        assert {completion.key: completion for completion in found} == {one.key: alone[one.key] for one in asked}
        assert len(found) == len(asked)
    before = pids(engine)
    engine.close()
    assert not any(map(is_alive, before))


@pytest.mark.parametrize(
    "victims", [1, pytest.param(2, marks=pytest.mark.slow(reason="two of three processes killed"))]
)
def test_a_killed_replica_s_work_goes_on_elsewhere(opened, alone, victims):
    engine = opened("{spread: 1.0, token_s: 0.0002}")
    told: list[str] = []
    engine.tell = told.append
    generation = engine.generate(REQUESTS, LONG)
    found = list(islice(generation, 30))
    for pid in pids(engine)[:victims]:
        os.kill(pid, signal.SIGKILL)
    found += generation
    assert len(found) == len(REQUESTS)  # none lost, and none twice:
    assert {completion.key: completion for completion in found} == alone
    assert len(told) == victims and "replica 1 of 3 died (SIGKILL" in sorted(told)[0]
    assert len(list(engine.generate(REQUESTS[:9], LONG))) == 9  # the others go on


def test_when_all_have_died_it_is_said_and_when_one_refuses_too(opened):
    engine = opened("crash_after: 20")
    engine.tell = lambda line: None
    found = []
    with pytest.raises(RuntimeError, match=r"the last replica died: scripted crash after 20 samples"):
        for completion in engine.generate(REQUESTS, LONG):
            found.append(completion.key)
    assert len(set(found)) == len(found) == 3 * 20
    with pytest.raises(StapoError, match="no gold answer was given for t p"):
        list(opened("success: 1.0", golds={}).generate(REQUESTS, LONG))
    with pytest.raises(
        StapoError, match=r"replica \d of 3 did not start: .*: expected a mapping with keys among success"
    ):
        opened("sucess: 1.0")


def test_one_that_dies_at_its_start_is_named_and_leaves_none_behind(monkeypatch, tmp_path):
    started: list[ReplicaProcess] = []

    def start(index: int, outbox: Outbox) -> ReplicaProcess:
        does = "sys.stderr.write('boom'); sys.exit(9)" if index == 0 else "time.sleep(60)"
        monkeypatch.setattr("stapo_bench.engines.replica_process._START", f"import sys, time; {does}")
        started.append(ReplicaProcess(f"replica {index + 1} of 2", None, outbox))
        return started[-1]

    with pytest.raises(StapoError, match=r"replica 1 of 2 did not start: exit code 9: boom$"):
        ReplicatedEngine(opening(EngineOptions(name="scripted"), tmp_path), start, 2)
    assert not any(is_alive(replica._process.pid) for replica in started)
    assert [replica.end() for replica in started] == ["exit code 9: boom", "SIGKILL"]


def test_its_group_is_killed_while_its_pid_is_still_its_own(monkeypatch):
    """A reaped pid may be another's by then."""
    monkeypatch.setattr("stapo_bench.engines.replica_process._START", "import sys; sys.exit(3)")
    states, kill = [], os.killpg

    def noting(pid: int, number: int) -> None:
        states.append(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0])
        kill(pid, number)

    monkeypatch.setattr("os.killpg", noting)
    assert ReplicaProcess("one", None, SimpleQueue()).end(60.0) == "exit code 3"
    assert states == ["Z"]


def test_two_that_end_one_at_once_are_told_the_same(monkeypatch):
    """One thread may find it dead while another ends it; a process is reaped once."""
    monkeypatch.setattr("stapo_bench.engines.replica_process._START", "import time; time.sleep(60)")
    replica = ReplicaProcess("one", None, SimpleQueue())
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(replica.end, [0.2] * 4)) == ["SIGKILL"] * 4


def test_what_a_killed_one_had_said_is_not_given_as_the_reason(monkeypatch):
    does = "sys.stderr.write('a warning'); sys.stderr.flush(); os.kill(os.getpid(), 9)"
    monkeypatch.setattr("stapo_bench.engines.replica_process._START", f"import os, sys; {does}")
    assert ReplicaProcess("one", None, SimpleQueue()).end(60.0) == "SIGKILL, after it had said: a warning"


def test_one_that_cannot_be_ended_or_started_keeps_no_other_from_its_end(tmp_path):
    ended = []

    class Stubborn:
        def __init__(self, name: str) -> None:
            self.name = name

        def send(self, message) -> None:
            if self.name == "1" and message is None:
                raise ValueError("write to closed file")

        def end(self, patience_s: float = 1.0) -> str:
            ended.append(self.name)
            if self.name == "0":
                raise PermissionError("not yours")
            return "ended"

    def start(index: int, outbox: Outbox) -> Stubborn:
        if index == 3:
            raise OSError("no more processes")
        return Stubborn(str(index))

    with pytest.raises(PermissionError, match="not yours"):
        ReplicatedEngine(opening(EngineOptions(name="scripted"), tmp_path), start, 4)
    assert ended == ["0", "1", "2"]


def test_what_an_engine_says_twice_is_one_answer(opened, alone):
    engine = opened("{spread: 1.0, duplicates: 0.5}", "2")
    for asked in (REQUESTS, REQUESTS[:50]):
        found = list(engine.generate(asked, LONG))
        assert {completion.key: completion for completion in found} == {one.key: alone[one.key] for one in asked}
        assert len(found) > len(asked)


def test_a_generation_that_is_left_leaves_no_process_behind(opened):
    engine = opened("token_s: 0.01")
    before = pids(engine)
    generation = engine.generate(REQUESTS, LONG)
    next(generation)
    generation.close()
    deadline = time.monotonic() + 10
    while any(map(is_alive, before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_alive, before))


@pytest.mark.slow(reason="processes that draw against the clock, up to three times")
def test_a_long_tail_holds_nobody_back(opened):
    """Two replicas of 16 sequences at once are as fast as 32 machines that take from one list."""
    script = "{spread: 1.0, median_tokens: 300, success: 1.0, token_s: 0.0005}"
    lengths = {one.key: one.num_tokens for one in opened(script.replace("0.0005", "0"), None).generate(REQUESTS, LONG)}
    ends = [0] * 32
    for request in REQUESTS:
        heapq.heappushpop(ends, ends[0] + lengths[request.key])
    engine = opened(script, "2")

    def seconds() -> float:
        start = time.monotonic()
        assert len(list(engine.generate(REQUESTS, LONG))) == len(REQUESTS)
        return time.monotonic() - start

    # Were the next 32 begun when the last of 32 has ended, it would be 3 times as long.
    enough = 2.5 * 0.0005 * max(ends)
    assert any(seconds() < enough for _ in range(3))  # others use the machine, too; bench.replicas measures


def test_eval_with_replicas_is_the_same_run(small, stapo):
    code, _, error = stapo(*EVAL, "--data-dir", ".", "--out", "one")
    assert code == 0, error
    code, _, error = stapo(*EVAL, "--data-dir", ".", "--out", "several", "--replicas", 2)
    assert code == 0, error
    one, several = (
        sorted(line for path in segments(Path(run)) for line in path.read_bytes().splitlines())
        for run in ("one", "several")
    )
    assert one == several and len(one) == 8 * NUM_PROBLEMS
    manifests = [json.loads(Path(run, "manifest.json").read_text()) for run in ("one", "several")]
    assert manifests[0]["identity"] == manifests[1]["identity"]
    code, _, error = stapo(*EVAL, "--data-dir", ".", "--out", "one", "--replicas", 2)
    assert code == 0 and "nothing is missing" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--replicas", "0"), "--replicas: expected a number from 1 up or auto, got '0'"),
        (("--replicas", "many"), "--replicas: expected a number from 1 up or auto, got 'many'"),
        (("--replicas", "auto"), "expected 1 × 1 GPUs, found 0; without GPUs give a number"),
        (("--replicas", "2", "--engine", "openai"), "--replicas: expected engine vllm, transformers or scripted"),
    ],
)
def test_what_cannot_be_is_refused(small, stapo, monkeypatch, arguments, words):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    code, _, error = stapo(*EVAL, "--data-dir", ".", *arguments)
    assert code == 2 and words in error


def test_gpus_are_dealt_out_in_groups(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,5,GPU-7,8")
    assert gpu_groups("auto", 2) == ["0,2", "5,GPU-7"]
    assert gpu_groups("3", 1) == ["0", "2", "5"]
    with pytest.raises(UsageError, match="--replicas 3: expected 3 × 2 GPUs, found 5"):
        gpu_groups("3", 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpu_groups("2", 1) == [None, None]
