"""Every measurement runs to its end at a small size and says what it found and where; no figure is tested."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from train_setup import make_base

SCRIPTS = Path(__file__).parent.parent / "scripts"


def measure(tmp_path, script, *arguments):
    out = tmp_path / "out.json"
    command = [sys.executable, str(SCRIPTS / script), *arguments, "--json", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert {"device", "versions", "commit"} <= found.keys()
    return found


def test_linear(tmp_path):
    arguments = ("--sizes", "tiny", "--tokens", "32", "--repeats", "1")
    (row,) = measure(tmp_path, "bench_linear.py", *arguments)["sizes"].values()
    assert {"ours", "naive"} <= row["contestants"].keys()
    assert not row["contestants"].keys() & row["not_run"].keys()
    assert row["contestants"]["ours"]["log_prob_error"] < 1e-4


def test_startup(tmp_path):
    found = measure(tmp_path, "bench_startup.py", "--repeats", "1")
    assert found["loads"] == []  # importing the package loads no heavy one
    assert all(row["wall_s"] > 0 for row in found["commands"].values())


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("bench_store.py", ("--samples", "500", "1000", "--characters", "100")),
        ("bench_engine.py", ("--requests", "8", "--slots", "4", "--max-new-tokens", "8")),
        ("bench_eval.py", ("--only", "scripted", "--repeats", "1", "--seconds", "1")),
    ],
)
def test_the_others(tmp_path, script, arguments):
    measure(tmp_path, script, *arguments)


def test_trainer(tmp_path):
    model = make_base(tmp_path / "base")
    measure(tmp_path, "bench_trainer.py", "--model", str(model), "--rounds", "1", "--prompts", "8")
