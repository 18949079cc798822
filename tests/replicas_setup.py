"""Requests that several engines share, and what one process draws of them; imported by the tests of replicas."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stapo_bench.engines import EngineOptions, open_engine
from stapo_bench.engines.replicas import ReplicatedEngine
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams

LONG = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=4000)
GOLDS = {("t", f"p{i}"): "7" for i in range(12)}
REQUESTS = [
    Request(key=SampleKey("t", f"p{i}", j), prompt=Prompt(task="t", problem_id=f"p{i}", text="?"), seed=100 * j + i)
    for j in range(20)
    for i in range(12)
]


def is_alive(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def pids(engine: ReplicatedEngine) -> list[int]:
    return [replica._process.pid for replica in engine._ready]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[SampleKey, Completion]:
    """What one process draws."""
    script = tmp_path_factory.mktemp("alone") / "script.yaml"
    script.write_text("spread: 1.0\n")
    engine = open_engine(EngineOptions(name="scripted", golds=GOLDS), script)
    return {completion.key: completion for completion in engine.generate(REQUESTS, LONG)}


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
