"""Replicas that take their time to start are waited for aloud, and not for ever."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest
from replicas_setup import is_alive

from stapo_bench.engines import EngineOptions, replicas
from stapo_bench.engines.replica_process import ReplicaProcess
from stapo_bench.engines.replica_wire import Outbox, opening
from stapo_bench.engines.replicas import ReplicatedEngine
from stapo_bench.errors import StapoError

READY = """
import json, pathlib, sys, time
while not pathlib.Path({file!r}).exists():
    time.sleep(0.01)
sys.stdin.readline()
said = dict(ready=dict(engine="slow"), at_once=4, continues_exactly=True, context_length=None)
print(json.dumps(said), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Starts two replicas, the second of which does something else; the engine, and what was started."""
    started: list[ReplicaProcess] = []

    def begin(second: str) -> ReplicatedEngine:
        def one(index: int, outbox: Outbox) -> ReplicaProcess:
            code = READY.format(file="/") if index == 0 else second
            monkeypatch.setattr("stapo_bench.engines.replica_process._START", code)
            started.append(ReplicaProcess(f"replica {index + 1} of 2", None, outbox))
            return started[-1]

        return ReplicatedEngine(opening(EngineOptions(name="scripted"), tmp_path), one, 2)

    yield begin, started
    for replica in started:
        replica.end(0.0)


@pytest.fixture
def when_said_of_the_second(monkeypatch):
    """Does something as soon as the second replica alone is said to be waited for, however long the first took."""

    def prepare(do: Callable[[], object]) -> None:
        def say(stream: TextIO, line: str) -> None:
            print(line, file=stream)
            if line.startswith("waiting for replica 2 of 2 "):
                do()

        monkeypatch.setattr(replicas, "_SAY_SECONDS", 0.1)
        monkeypatch.setattr(replicas, "tell", say)

    return prepare


def test_a_slow_one_is_waited_for_and_named(start, when_said_of_the_second, tmp_path, capsys):
    when_said_of_the_second((tmp_path / "ready").touch)
    begin, _ = start
    engine = begin(READY.format(file=str(tmp_path / "ready")))
    assert engine.identity() == {"engine": "slow"}
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"waiting for replica 2 of 2 to be ready, for 0 min so far and for 120 at most: .*", line), line
    engine.close()


def test_one_that_hangs_at_its_start_ends_the_command_at_last(start, when_said_of_the_second, monkeypatch):
    when_said_of_the_second(lambda: monkeypatch.setattr(replicas, "_START_SECONDS", 0.0))
    begin, started = start
    with pytest.raises(StapoError, match=r"^replica 2 of 2 did not start within 0 min; .* without it"):
        begin("import time; time.sleep(600)")
    assert not any(is_alive(replica._process.pid) for replica in started)


def test_one_that_dies_as_it_starts_is_not_waited_for(start, monkeypatch, capsys):
    monkeypatch.setattr(replicas, "_SAY_SECONDS", 60.0)
    begin, _ = start
    with pytest.raises(StapoError, match=r"^replica 2 of 2 did not start: exit code 7"):
        begin("import sys; sys.exit(7)")
    assert capsys.readouterr().err == ""


def test_the_page_says_the_bound():
    page = (Path(__file__).parent.parent / "docs/how-to/ray.md").read_text()
    assert replicas._START_SECONDS == 2 * 3600 and "two hours" in page
