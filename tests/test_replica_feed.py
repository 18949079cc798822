"""What replicas are handed, what goes over the wire, and who is called silent or hung."""

# ruff: noqa: F401, F811  alone and opened are fixtures, which tests take as arguments
import json
import os
import signal
import threading
from itertools import islice
from queue import Empty, SimpleQueue
from types import SimpleNamespace

import pytest
from eval_setup import FakeEngine
from replicas_setup import LONG, REQUESTS, alone, is_alive, opened, pids

from stapo_bench.engines import EngineOptions
from stapo_bench.engines.feed import Feed, arrived
from stapo_bench.engines.replica import serve
from stapo_bench.engines.replica_wire import (
    Outbox,
    as_json,
    completion_of,
    opened_by,
    opening,
    params_of,
    request_of,
)
from stapo_bench.engines.replicas import ReplicatedEngine
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams


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


class InThread:
    """A replica in a thread of this process."""

    def __init__(self, name: str, outbox: Outbox) -> None:
        self.name, self._inbox = name, SimpleQueue()
        threading.Thread(target=serve, args=(self._inbox, lambda said: outbox.put((self, said))), daemon=True).start()

    def send(self, message) -> None:
        self._inbox.put(message)

    def end(self, patience_s: float = 1.0) -> str:
        return "ended"


@pytest.mark.parametrize("stops", ["who takes the samples", "all"])
def test_replicas_are_not_called_silent_where_nobody_listened(monkeypatch, tmp_path, stops):
    """A slow disk, a debugger, a machine that slept: 5000 s pass in which both have answered."""
    clock, asked = [0.0], []

    class Answering:
        def __init__(self, name: str, outbox: Outbox) -> None:
            self.name, self._outbox = name, outbox

        def send(self, message) -> None:
            if message and "requests" in message:
                for key in (request["key"] for request in message["requests"]):
                    asked.append(key)
                    said = Completion(key=key, text="7", finish_reason="stop", num_tokens=1)
                    self._outbox.put((self, {"completion": as_json(said)}))
            else:
                alike = {"at_once": 4, "continues_exactly": True, "context_length": None}
                self._outbox.put((self, {"ready": {"name": "answering"}, **alike}))

        def end(self, patience_s: float = 1.0) -> str:
            return "ended"

    class Stopped:
        """Gives nothing while all is stopped: what was said then comes after."""

        def __init__(self) -> None:
            self.said, self.is_stopped = [], False
            self.put = self.said.append

        def get(self, timeout: float | None = None):
            clock[0] += 1.0
            if self.is_stopped:
                self.is_stopped = False
                clock[0] += 5000.0
                raise Empty
            return self.said.pop(0)

    monkeypatch.setattr("stapo_bench.engines.replicas.SimpleQueue", Stopped)
    monkeypatch.setattr("stapo_bench.engines.replicas.time", SimpleNamespace(monotonic=lambda: clock[0]))
    engine = ReplicatedEngine(opening(EngineOptions(), tmp_path), lambda i, outbox: Answering(str(i), outbox), 2)
    told: list[str] = []
    engine.tell = told.append
    found = []
    for completion in engine.generate(REQUESTS, LONG):
        found.append(completion.key)
        if stops == "all":
            engine._outbox.is_stopped = len(found) in (3, 100)
        elif len(found) in (3, 100):
            clock[0] += 5000.0
    assert told == [] and len(found) == len(asked) == len(REQUESTS)


@pytest.mark.slow(reason="a process that hangs is waited for, and ended by force")
def test_what_a_hung_replica_is_at_is_drawn_by_the_others_too(opened, alone, monkeypatch):
    monkeypatch.setattr("stapo_bench.engines.ledger.PATIENCE_S", 1.0)
    monkeypatch.setattr("stapo_bench.engines.replicas._LOOK_SECONDS", 0.1)
    engine = opened("{spread: 1.0, token_s: 0.0001}")
    told: list[str] = []
    engine.tell = told.append
    victim = pids(engine)[0]
    generation = engine.generate(REQUESTS, LONG)
    found = list(islice(generation, 30))
    os.kill(victim, signal.SIGSTOP)
    found += generation
    assert len(found) == len(REQUESTS)  # none lost, none twice
    assert {completion.key: completion for completion in found} == alone
    silent, ended = (line for line in told if line.startswith("replica 1 of 3 "))
    assert "has answered nothing for 0 min" in silent and "is still silent though all samples are there" in ended
    assert not is_alive(victim)
    assert len(list(engine.generate(REQUESTS[:9], LONG))) == 9  # the others go on


def test_one_that_was_only_slow_is_heard_again(opened, alone, monkeypatch):
    monkeypatch.setattr("stapo_bench.engines.ledger.PATIENCE_S", 0.3)
    monkeypatch.setattr("stapo_bench.engines.replicas._LOOK_SECONDS", 0.1)
    engine = opened("{spread: 1.0, token_s: 0.0001}", "2")
    told: list[str] = []
    engine.tell = lambda line: (told.append(line), os.kill(slow, signal.SIGCONT))
    slow = pids(engine)[0]
    generation = engine.generate(REQUESTS, LONG)
    found = list(islice(generation, 30))
    os.kill(slow, signal.SIGSTOP)
    found += generation
    assert {completion.key: completion for completion in found} == alone and len(found) == len(REQUESTS)
    assert told and not [line for line in told if "still silent" in line] and is_alive(slow)  # it was never ended
    assert len(list(engine.generate(REQUESTS[:50], LONG))) == 50 and len(pids(engine)) == 2
