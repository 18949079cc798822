"""vLLM's replicas on a Ray cluster: the samples of one process, though one of them is killed in the middle.

Run by ``scripts/integration.sh vllm``, whose environment has both.
"""

# ruff: noqa: F401, F811  cluster is a fixture, which tests take as an argument
import json
import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="ray is not installed: scripts/integration.sh runs this")
pytest.importorskip("vllm", reason="vLLM is not installed: scripts/integration.sh runs this")
from eval_setup import make_task
from ray_setup import cluster, engine_processes, lines_of, stapo, wait_until

# One sequence at a time: in a batch the last digits of log-probabilities depend on what else is in it.
EVAL = ("eval", "--engine", "vllm", "--slots", 1, "--decoding", "justrl", "--max-new-tokens", 24, "--samples", 32)
TASK = ("--tasks", "sums.yaml", "--data-dir", ".")


def samples_of(run: Path) -> list[dict]:
    """Without the time that each took, which is the machine's."""
    return [{**json.loads(line), "seconds": None, "crc32": None} for line in lines_of(run)]


def test_vllm_on_a_cluster_is_the_same_run_though_a_replica_is_killed(cluster, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    make_task(tmp_path, "sums", 4)
    alone = stapo(tmp_path, *EVAL, *TASK, "--ckpt", checkpoint, "--out", "one")
    _, error = alone.communicate(timeout=300)
    assert alone.returncode == 0, error

    strangers = engine_processes()
    place = ("--out", "ray", "--ray", cluster.address, "--replicas", 2)
    several = stapo(tmp_path, *EVAL, *TASK, "--ckpt", checkpoint, *place)
    assert wait_until(lambda: several.poll() is not None or len(lines_of(tmp_path / "ray")) >= 10, 300)
    os.kill(min(engine_processes() - strangers), signal.SIGKILL)
    _, error = several.communicate(timeout=300)
    assert several.returncode == 0, error
    assert "died (SIGKILL" in error and "what it had not finished goes to the other 1" in error

    one, found = samples_of(tmp_path / "one"), samples_of(tmp_path / "ray")
    assert len(found) == 4 * 32 == len({tuple(sample["key"]) for sample in found})  # none lost, and none twice
    assert found == one
