"""Several engines as one: the same samples, none lost and none twice, whoever dies; nobody waits for a long tail."""

import heapq
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest
from cli_setup import EVAL, NUM_PROBLEMS
from eval_setup import FakeEngine

from stapo_bench.engines import EngineOptions, open_engine
from stapo_bench.engines.devices import gpu_groups
from stapo_bench.engines.feed import Feed, arrived
from stapo_bench.engines.replica import serve
from stapo_bench.engines.replica_wire import as_json, completion_of, opened_by, opening, params_of, request_of
from stapo_bench.engines.replicas import Outbox, ReplicaProcess, ReplicatedEngine
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams
from stapo_bench.runs import segments

LONG = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=4000)
GOLDS = {("t", f"p{i}"): "7" for i in range(12)}
REQUESTS = [
    Request(key=SampleKey("t", f"p{i}", j), prompt=Prompt(task="t", problem_id=f"p{i}", text="?"), seed=100 * j + i)
    for j in range(20)
    for i in range(12)
]


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and bool(Path(f"/proc/{pid}/cmdline").read_bytes())


def pids(engine: ReplicatedEngine) -> list[int]:
    return [replica._process.pid for replica in engine._ready]


@pytest.fixture
def opened(tmp_path) -> Iterator:
    """Opens a scripted engine of that script, with that many replicas."""
    engines = []

    def start(script: str, replicas: str | None = "3", golds: dict = GOLDS):
        (tmp_path / "script.yaml").write_text(script)
        engine = open_engine(EngineOptions(name="scripted", replicas=replicas, golds=golds), tmp_path / "script.yaml")
        engines.append(engine)
        return engine

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[SampleKey, Completion]:
    """What one process draws."""
    script = tmp_path_factory.mktemp("alone") / "script.yaml"
    script.write_text("spread: 1.0\n")
    engine = open_engine(EngineOptions(name="scripted", golds=GOLDS), script)
    return {completion.key: completion for completion in engine.generate(REQUESTS, LONG)}


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


@pytest.mark.parametrize("victims", [1, 2])
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
        monkeypatch.setattr("stapo_bench.engines.replicas._START", f"import sys, time; {does}")
        started.append(ReplicaProcess(f"replica {index + 1} of 2", None, outbox))
        return started[-1]

    with pytest.raises(StapoError, match=r"replica 1 of 2 did not start: exit code 9: boom$"):
        ReplicatedEngine(opening(EngineOptions(name="scripted"), tmp_path), start, 2)
    assert not any(is_alive(replica._process.pid) for replica in started)
    assert [replica.end() for replica in started] == ["exit code 9: boom", "SIGKILL"]


def test_its_group_is_killed_while_its_pid_is_still_its_own(monkeypatch):
    """A reaped pid may be another's by then."""
    monkeypatch.setattr("stapo_bench.engines.replicas._START", "import sys; sys.exit(3)")
    states, kill = [], os.killpg

    def noting(pid: int, number: int) -> None:
        states.append(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0])
        kill(pid, number)

    monkeypatch.setattr("os.killpg", noting)
    assert ReplicaProcess("one", None, SimpleQueue()).end(60.0) == "exit code 3"
    assert states == ["Z"]


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
    time.sleep(0.1)
    assert not any(map(is_alive, before))


def test_a_long_tail_holds_nobody_back(opened):
    """Two replicas of 16 sequences at once are as fast as 32 machines that take from one list."""
    script = "{spread: 1.0, median_tokens: 300, success: 1.0, token_s: 0.0005}"
    lengths = {one.key: one.num_tokens for one in opened(script.replace("0.0005", "0"), None).generate(REQUESTS, LONG)}
    ends = [0] * 32
    for request in REQUESTS:
        heapq.heappushpop(ends, ends[0] + lengths[request.key])
    engine = opened(script, "2")
    start = time.monotonic()
    assert len(list(engine.generate(REQUESTS, LONG))) == len(REQUESTS)
    took, expected = time.monotonic() - start, 0.0005 * max(ends)
    assert took < 1.5 * expected, (took, expected)  # on a machine that others use; bench.replicas measures


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


class InThread:
    """A replica in a thread of this process."""

    def __init__(self, name: str, outbox: Outbox) -> None:
        self.name, self._inbox = name, SimpleQueue()
        threading.Thread(target=serve, args=(self._inbox, lambda said: outbox.put((self, said))), daemon=True).start()

    def send(self, message) -> None:
        self._inbox.put(message)

    def end(self, patience_s: float = 1.0) -> str:
        return "ended"


def test_an_engine_that_takes_no_more_meanwhile_gets_what_is_there(monkeypatch, tmp_path):
    engines = [FakeEngine() for _ in range(3)]
    left = list(engines)
    monkeypatch.setattr("stapo_bench.engines.replica.open_here", lambda options, checkpoint: left.pop())
    first = opening(EngineOptions(), tmp_path)
    engine = ReplicatedEngine(first, lambda index, outbox: InThread(str(index), outbox), 3)
    found = {completion.key: completion for completion in engine.generate(REQUESTS, LONG)}
    assert found == {request.key: engines[0].complete(request) for request in REQUESTS}
    asked = [request.key for one in engines for request in one.requested]
    assert sorted(asked) == sorted(found)  # each once
    assert all(len(one.requested) >= 40 for one in engines)  # half of a third at once, the rest by who is free
    left.append(FakeEngine(version="2"))
    left.append(FakeEngine())
    with pytest.raises(StapoError, match="expected replicas that are alike"):
        ReplicatedEngine(first, lambda index, outbox: InThread(str(index), outbox), 2)


def test_a_feed_waits_only_where_nothing_runs():
    first, second = REQUESTS[:2]
    waits, there = [], [[first], [], [second], None]

    def get(wait: bool) -> list[Request] | None:
        waits.append(wait)
        if not wait and len(waits) == 2:
            raise Empty
        return there.pop(0)

    feed = Feed(get)
    assert list(arrived(feed)) == [first] and waits == [True, False]
    feed.answered(first.key)
    feed.answered(first.key)  # said twice, it is still one
    assert list(arrived(feed)) == [second] and waits == [True, False, True, True, False]
    assert list(arrived(feed)) == [] and list(arrived(iter(REQUESTS))) == REQUESTS


def test_what_goes_over_the_wire_comes_back(tmp_path):
    request = Request(
        key=SampleKey("t", "p", 3),
        prompt=Prompt(task="t", problem_id="p", text="é \ud800", token_ids=(1, 2)),
        seed=2**62,
        generated_ids=(4,),
    )
    completion = Completion(
        key=request.key, text="\ud800\n", finish_reason="stop", num_tokens=2, token_ids=(5, 6), log_probs=(-0.1, -1e-9)
    )
    params = SamplingParams(temperature=0.6, top_p=0.9, max_new_tokens=8, top_k=3, stop=("Q:",))
    for record, back in ((request, request_of), (completion, completion_of), (params, params_of)):
        assert back(json.loads(json.dumps(as_json(record)))) == record
    options = EngineOptions(name="vllm", adapter=tmp_path, golds={("t", "p"): "7"}, positions=9)
    found, checkpoint = opened_by(json.loads(json.dumps(opening(options, tmp_path))))
    assert (found, checkpoint, found.golds, found.positions) == (options, tmp_path, options.golds, 9)
