"""Trainings on two ranks, each with a vLLM of its own that gets whole weights from the shards, beside one process.

Run by ``scripts/integration.sh vllm``, in an environment with vLLM.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from ranks_setup import SETTINGS, assert_same_training, on_ranks, rank_processes, train_each
from train_setup import make_base, make_values

from stapo_bench.runs.sealed import unseal
from stapo_bench.runs.store import scan_keys

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: scripts/integration.sh runs this"
)
IN_SYNC = 1e-5
"""Nats between the log-probs of trainer and engine, both in float32; rounding alone leaves about 1e-7."""


@pytest.fixture(scope="module", autouse=True)
def few_keys():
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Entropies far apart: rounding, which differs with the number of ranks, changes no threshold."""
    return make_base(tmp_path_factory.mktemp("base") / "base", sharpness=10.0, head_dim=32)


def test_ranks_with_engines_of_their_own_train_what_one_process_trains(tmp_path, base):
    (tmp_path / "base").symlink_to(base)
    for size in (1, 2):
        on_ranks(size, train_each, tmp_path, {"stapo": {"rollout__engine": "vllm"}})
    assert_same_training(tmp_path / "1" / "stapo", tmp_path / "2" / "stapo")
    rows = records(tmp_path / "2" / "stapo")
    assert all(0 < row["rollout_mismatch"] < IN_SYNC for row in rows), "each engine has what the ranks have trained"


def test_evaluated_and_drawn_ahead_on_ranks_as_in_one_process(tmp_path, base):
    (tmp_path / "base").symlink_to(base)
    evaluation = {"every": 2, "tasks": ["tiny_aime24"], "samples": 1}
    beside = {"rollout__engine": "vllm", "rollout__ahead": 1, "eval": evaluation, "checkpoint__every": 2}
    for size in (1, 2):
        on_ranks(size, train_each, tmp_path, {"beside": {**beside, "iterations": 3}})
    one, two = tmp_path / "1" / "beside", tmp_path / "2" / "beside"
    assert_same_training(one, two)
    for step in ("step-000000", "step-000002", "step-000003"):
        texts = []
        for run in (one, two):
            texts.append({})
            scan_keys(
                run / "eval" / step, 0, lambda sample, found=texts[-1]: found.update({sample.key: sample.completion})
            )
        assert texts[0] == texts[1] and len(texts[0]) == 30


def records(run: Path) -> list[dict]:
    path = run / "metrics.jsonl"
    return [unseal(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def test_a_rank_that_is_killed_ends_all_in_one_line_and_the_run_goes_on(tmp_path, base):
    (tmp_path / "base").symlink_to(base)
    values = make_values(tmp_path, **{**SETTINGS, "iterations": 6, "checkpoint__every": 2, "rollout__engine": "vllm"})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "stapo_train", str(tmp_path / "config.yaml"), "--ranks", "2", "--resume"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    log, deadline = tmp_path / "log", time.monotonic() + 300
    with log.open("w") as file:
        process = subprocess.Popen(command, env=environment, stderr=file)
    while len(records(tmp_path / "run")) < 3:
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)
    os.kill(rank_processes(process.pid)["1"], signal.SIGKILL)
    assert process.wait(timeout=60) == 1
    said = [line for line in log.read_text().splitlines() if line.startswith(("stapo-train:", "Traceback"))]
    assert len(said) == 1 and said[0].startswith("stapo-train: rank 1 was ended by SIGKILL"), said
    done = subprocess.run(command, check=False, env=environment, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = records(tmp_path / "run")
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert all(0 < row["rollout_mismatch"] < IN_SYNC for row in rows)
