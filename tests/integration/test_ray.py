"""Replicas on a Ray cluster of several machines, by Ray's own local one: the same samples, whatever dies meanwhile.

Run by ``scripts/integration.sh verl``, whose environment has Ray; ``test_ray_vllm.py`` has vLLM on such a cluster.
"""

# ruff: noqa: F401, F811  alone and cluster are fixtures, which tests take as arguments
import json
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="ray is not installed: scripts/integration.sh runs this")
import psutil
from cli_setup import make_sums
from eval_setup import make_task
from ray.cluster_utils import Cluster
from ray_setup import NODE, cluster, engine_processes, lines_of, stapo, wait_until
from replicas_setup import GOLDS, LONG, REQUESTS, alone

from stapo_bench.engines import EngineOptions, open_engine
from stapo_bench.engines.replicas import ReplicatedEngine
from stapo_bench.errors import StapoError, UsageError

EVAL = ("eval", "--decoding", "justrl", "--tasks", "sums.yaml", "--data-dir", ".")
SCRIPTED = (*EVAL, "--engine", "scripted", "--ckpt", "script.yaml")


def die(cluster: Cluster, node: Any) -> None:
    """End a machine with all that runs on it; Ray alone leaves its workers a few seconds, in which they may finish."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    children = raylet.children(recursive=True)
    cluster.remove_node(node, allow_graceful=False)
    for process in children:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture
def opened(cluster, tmp_path) -> Iterator:
    """Opens a scripted engine of that script, on that many replicas of the cluster."""
    engines = []

    def start(script: str, replicas: int = 4) -> ReplicatedEngine:
        (tmp_path / "script.yaml").write_text(script)
        options = EngineOptions(name="scripted", ray=cluster.address, replicas=str(replicas), golds=GOLDS)
        engines.append(open_engine(options, tmp_path / "script.yaml"))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture
def strangers() -> set[int]:
    """Those that somebody else on this machine had started before the test."""
    return engine_processes()


def test_several_machines_draw_what_one_process_draws(strangers, opened, alone):
    engine = opened("spread: 1.0")
    assert engine.identity()["engine"] == "scripted"
    for asked in (REQUESTS, REQUESTS[:5], []):
        found = list(engine.generate(asked, LONG))
        assert {completion.key: completion for completion in found} == {one.key: alone[one.key] for one in asked}
        assert len(found) == len(asked)
    ours = engine_processes() - strangers
    assert len(ours) >= 4
    engine.close()
    assert wait_until(lambda: not ours & engine_processes(), 60)


def test_a_machine_that_dies_in_the_middle_costs_no_sample(cluster, opened, alone, capfd):
    third = cluster.add_node(**NODE, num_cpus=2)
    cluster.wait_for_nodes()
    engine = opened("{spread: 1.0, token_s: 0.0005}", 6)
    told: list[str] = []
    engine.tell = told.append
    generation = engine.generate(REQUESTS, LONG)
    found = list(islice(generation, 30))
    die(cluster, third)
    found += generation
    assert len(found) == len(REQUESTS)  # none lost, and none twice
    assert {completion.key: completion for completion in found} == alone
    assert len(told) == 2 and all(re.match(r"replica \d of 6 \(.*\) died \(Actor", line) for line in told)
    assert all("\n" not in line and len(line) < 600 for line in told)
    assert len(list(engine.generate(REQUESTS[:9], LONG))) == 9  # the others go on
    engine.close()
    assert capfd.readouterr().out == ""  # Ray's own words would stand among a table's


def test_a_model_through_transformers_is_the_same_run(cluster, checkpoint, tmp_path):
    make_task(tmp_path, "sums", 4)
    # One sequence at a time: in a batch the last digits of log-probabilities depend on what else is in it.
    common = (*EVAL, "--engine", "transformers", "--slots", 1, "--ckpt", checkpoint, "--max-new-tokens", 24)
    for place in (("--out", "one"), ("--out", "ray", "--ray", cluster.address, "--replicas", 2)):
        ran = stapo(tmp_path, *common, "--samples", 3, *place)
        _, error = ran.communicate(timeout=300)
        assert ran.returncode == 0, error
    one, several = (
        [{**json.loads(line), "seconds": None, "crc32": None} for line in lines_of(tmp_path / run)]
        for run in ("one", "ray")
    )  # how long each took is the machine's
    assert one == several and len(several) == 12


def test_a_driver_that_is_killed_leaves_nothing_running_and_goes_on(strangers, cluster, tmp_path):
    make_sums(tmp_path)
    ran = stapo(tmp_path, *SCRIPTED, "--out", "one")
    assert ran.wait(120) == 0, ran.stderr.read()
    (tmp_path / "script.yaml").write_text("{success: 0.5, token_s: 0.05}\n")  # its times change no sample
    asked = (*SCRIPTED, "--out", "ray", "--ray", cluster.address, "--replicas", 2)
    ran = stapo(tmp_path, *asked)
    assert wait_until(lambda: len(lines_of(tmp_path / "ray")) >= 5, 120)
    ours = engine_processes() - strangers
    assert ours
    ran.send_signal(signal.SIGKILL)
    ran.wait()
    stored = len(lines_of(tmp_path / "ray"))
    assert stored < 80
    assert wait_until(lambda: not ours & engine_processes(), 60)
    (tmp_path / "script.yaml").write_text("success: 0.5\n")
    ran = stapo(tmp_path, *asked)
    table, error = ran.communicate(timeout=120)
    assert ran.returncode == 0 and f"{80 - stored} new samples are safe" in error, error
    assert lines_of(tmp_path / "ray") == lines_of(tmp_path / "one")
    assert table.startswith("**avg@k") and "Origin" in table


def test_what_cannot_be_is_one_line(cluster, opened, tmp_path):
    with pytest.raises(UsageError, match=r"--replicas 5: expected a CPU for each, the Ray cluster has room for 4"):
        opened("spread: 1.0", 5)
    with pytest.raises(StapoError, match=r"replica 1 of 1 \(.*\) did not start: .*script.yaml: expected a mapping"):
        opened("sucess: 1.0", 1)
    (tmp_path / "script.yaml").unlink()
    with pytest.raises(UsageError, match="room for 4; without GPUs give a number"):
        open_engine(EngineOptions(name="scripted", ray=cluster.address, golds=GOLDS), tmp_path / "script.yaml")


def test_a_cluster_that_others_fill_is_said(cluster, opened, monkeypatch):
    opened("spread: 1.0", 3)
    monkeypatch.setattr("stapo_bench.engines.ray_replicas._ROOM_SECONDS", 1.0)
    with pytest.raises(StapoError, match=r"expected room for 2 replicas of 1 CPU each, the cluster had none for 1 s"):
        opened("spread: 1.0", 2)
