"""Every measurement runs to its end at a small size and says what it found and where; no figure is tested."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from train_setup import make_base

ROOT = Path(__file__).resolve().parent.parent


def measure(tmp_path, name, *arguments):
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", f"bench.{name}", *arguments, "--json", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert {"device", "versions", "commit"} <= found.keys()
    return found


def test_linear(tmp_path):
    arguments = ("--sizes", "tiny", "--tokens", "32", "--repeats", "1")
    (row,) = measure(tmp_path, "linear", *arguments)["sizes"].values()
    assert {"ours", "naive"} <= row["contestants"].keys()
    assert not row["contestants"].keys() & row["not_run"].keys()
    assert row["contestants"]["ours"]["log_prob_error"] < 1e-4


def test_startup(tmp_path):
    found = measure(tmp_path, "startup", "--repeats", "1")
    assert found["loads"] == []  # importing the package loads no heavy one
    assert all(row["wall_s"] > 0 for row in found["commands"].values())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("replicas", ("--replicas", "2", "--problems", "2", "--samples", "4", "--token-s", "0.0001")),
        ("store", ("--samples", "500", "1000", "--characters", "100")),
        ("importing", ("--samples", "1000", "--characters", "80")),
        ("engine", ("--requests", "8", "--slots", "4", "--max-new-tokens", "8")),
        ("eval", ("--only", "scripted", "--repeats", "1", "--seconds", "1")),
    ],
)
def test_the_others(tmp_path, name, arguments):
    measure(tmp_path, name, *arguments)


def test_trainer(tmp_path):
    model = make_base(tmp_path / "base")
    measure(tmp_path, "trainer", "--model", str(model), "--rounds", "1", "--prompts", "8")


def test_packing(tmp_path):
    found = measure(tmp_path, "packing", "--device", "cpu", "--size", "toy", "--repeats", "1")
    packed = [found["ways"][f"packed, {name}"] for name in ("sdpa", "torch_varlen")]
    for way in packed:
        assert way["num_positions"] == found["num_positions"] < found["ways"]["padded, sdpa"]["num_positions"]
        assert max(way["gradient_difference"], way["log_prob_difference"]) < 1e-12
    assert "packed, flash_attention_2" in found["not_run"]


def test_beside_trl(tmp_path):
    """Where it is not installed ours is measured alone, with a model of random weights."""
    found = measure(tmp_path, "trl", "--device", "cpu", "--size", "toy", "--rounds", "1", "--iterations", "2")
    assert len(found["summary"]["ours"]["mean_curve"]) == 2
    assert 0 < found["summary"]["ours"]["reward_first_3"] < 1  # some rollouts have a gradient


def test_planted_causes(tmp_path):
    found = measure(tmp_path, "why", "--pairs", "2")
    assert found["pairs"] == 2 and found["largest_error"] < 1e-12


def test_methods_over_seeds(tmp_path):
    rows = measure(tmp_path, "seeds", "--trials", "2")["rows"]
    assert len(rows) == 16
    assert all(0 <= row["coverage"][error] <= 1 for row in rows for error in row["coverage"])


FAKE_PYTHON = """#!/bin/sh
case "$*" in
    *bench.packing*) echo "no such kernel" >&2 && exit 3 ;;
    *bench.trainer*) sleep 60 ;;
    *bench.*) echo "ran $*" ;;
    *) echo "a GPU" ;;
esac
"""


def test_a_failed_part_is_named_and_the_others_run(tmp_path):
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    command = ["bash", str(ROOT / "scripts" / "bench_gpu.sh"), "--out", str(tmp_path / "out"), "--limit", "1"]
    environment = {**os.environ, "PYTHON": str(python)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    tables = done.stdout[done.stdout.index("== short tables") :]
    assert "ran -m bench.linear --sizes 1.7b 8b 14b" in tables
    assert "ran -m bench.trl --size 0.6b" in tables
    assert "failed: packing: exit code 3: no such kernel" in tables
    assert "failed: mask: more than 1 s" in tables
    assert done.returncode == 1
    some = subprocess.run([*command, "linear"], capture_output=True, text=True, check=False, env=environment)
    assert some.returncode == 0
    assert "bench.trl" not in some.stdout
    unknown = subprocess.run([*command, "lineer"], capture_output=True, text=True, check=False, env=environment)
    assert unknown.returncode == 2
    assert "unknown argument 'lineer'" in unknown.stderr


def test_measurements_for_a_gpu_run_on_a_cpu_at_toy_size(tmp_path):
    command = ["bash", str(ROOT / "scripts" / "bench_gpu.sh"), "--toy", "--out", str(tmp_path), "linear", "mask"]
    environment = {**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout
    ways = json.loads((tmp_path / "trainer_gpu.json").read_text())["ways"]
    assert [way["candidate_rate"] for way in ways] == [None, *[1e-4] * 3, *[1e-2] * 3]
    assert "ours" in json.loads((tmp_path / "linear_gpu.json").read_text())["sizes"]["tiny"]["contestants"]
