"""vLLM's replicas on a Ray cluster: the samples of one process, though a replica is killed in the middle.

Run by ``scripts/integration.sh vllm``, whose environment has both.
"""

# ruff: noqa: F401, F811  cluster is a fixture, which tests take as an argument
import importlib.util
import json
import os
import signal

import pytest

pytest.importorskip("ray", reason="ray is not installed: scripts/integration.sh runs this")
if importlib.util.find_spec("vllm") is None:  # importing it takes ten seconds, and only the commands need it
    pytest.skip("vLLM is not installed: scripts/integration.sh runs this", allow_module_level=True)
import psutil
from eval_setup import make_task
from ray.cluster_utils import Cluster
from ray_setup import cluster, engine_processes, lines_of, stapo, wait_until

# One sequence at a time: in a batch the last digits of log-probabilities may depend on what else is in it.
EVAL = ("eval", "--engine", "vllm", "--slots", 1, "--decoding", "justrl", "--max-new-tokens", 24, "--samples", 16,
        "--tasks", "sums.yaml", "--data-dir", ".")  # fmt: skip


def replicas_of(cluster: Cluster) -> set[int]:
    """The engines' processes on the machines of this cluster, and of no other."""
    raylets = [psutil.Process(node.all_processes["raylet"][0].process.pid) for node in cluster.list_all_nodes()]
    return engine_processes() & {process.pid for raylet in raylets for process in raylet.children(recursive=True)}


def test_vllm_on_a_cluster_is_the_same_run_though_a_replica_is_killed(cluster, checkpoint, tmp_path):
    make_task(tmp_path, "sums", 4)
    common = (*EVAL, "--ckpt", checkpoint)
    alone = stapo(tmp_path, *common, "--out", "one")
    several = stapo(tmp_path, *common, "--out", "ray", "--ray", cluster.address, "--replicas", 2)
    assert wait_until(lambda: len(lines_of(tmp_path / "ray")) >= 5 or several.poll() is not None, 900)
    replicas = replicas_of(cluster)
    assert len(replicas) == 2, several.communicate()
    os.kill(min(replicas), signal.SIGKILL)
    for ran in (alone, several):
        _, error = ran.communicate(timeout=900)
        assert ran.returncode == 0, error
    assert "died (SIGKILL" in error and "what it had not finished goes to the other 1" in error

    found = lines_of(tmp_path / "ray")
    keys = {(sample["problem_id"], sample["sample_index"]) for sample in map(json.loads, found)}
    assert len(found) == 4 * 16 == len(keys)  # none lost, and none twice
    assert found == lines_of(tmp_path / "one")
