"""What goes on beside a training on several CPU ranks: evaluations in shards, and rollouts drawn ahead.

Run by ``scripts/integration.sh ranks``.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from ranks_setup import GRADED_BY_HASH, HELD, SETTINGS, assert_same_training, on_ranks, rank_processes, train_each
from train_setup import make_base, make_values, result

from stapo_bench.runs.store import scan_keys
from stapo_train.objective import ONE_PROCESS

EVAL = {"every": 2, "tasks": ["tiny_aime24"], "samples": 1}
EVALUATED = {"iterations": 3, "checkpoint__every": 2, "eval": EVAL}
BESIDE = {**EVALUATED, "rollout__ahead": 1, "rollout__max_rounds": 2}  # groups of a second round are exchanged, too


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trainings on one and on two ranks, in folders of these names."""
    folder = tmp_path_factory.mktemp("trained")
    make_base(folder / "base", sharpness=10.0)
    wanted = {"evaluated": EVALUATED, "beside": BESIDE, "without": {**EVALUATED, "eval": None}}
    train_each(ONE_PROCESS, folder, wanted)
    on_ranks(2, train_each, folder, wanted)
    return folder


def texts(out: Path) -> dict:
    """Every sample of a training's evaluations, by run and key."""
    found = {}
    for place in sorted(out.glob("eval/step-*")):
        scan_keys(place, 0, lambda sample, at=place.name: found.update({(at, sample.key): sample.completion}))
    return found


@pytest.mark.parametrize("name", ["evaluated", "beside"])
def test_two_ranks_draw_and_train_what_one_process_does(trained, name):
    one, two = trained / "1" / name, trained / "2" / name
    assert_same_training(one, two)  # with the scores, which stand in the metrics
    assert [row["evaluation"].keys() > {"score", "gain"} for row in result(two)[1]] == [False, True, True]
    assert texts(two) == texts(one) and len(texts(two)) == 3 * 30
    for place in (two / "eval").glob("step-*"):
        lines = {path.name.split("-")[1]: path.read_bytes().count(b"\n") for path in (place / "samples").iterdir()}
        assert lines == {"shard0of2": 15, "shard1of2": 15}, "half of the 30 each"


def test_no_weight_depends_on_the_evaluation(trained):
    assert result(trained / "2" / "evaluated")[0] == result(trained / "2" / "without")[0]


def test_drawn_ahead_is_another_training(trained):
    assert result(trained / "2" / "beside")[0] != result(trained / "2" / "without")[0]


def test_a_rank_that_is_killed_beside_its_drawing_changes_nothing(trained, tmp_path):
    """Killed while the next rollouts are drawn or a checkpoint is evaluated, and gone on with one process."""
    (tmp_path / "base").symlink_to(trained / "base")
    metrics, deadline = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 300
    held = HELD.format(metrics=str(metrics))
    (tmp_path / "sitecustomize.py").write_text(GRADED_BY_HASH + held)  # which Python imports when it starts
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(make_values(tmp_path, **{**SETTINGS, **BESIDE})))
    command = [sys.executable, "-m", "stapo_train", str(tmp_path / "config.yaml"), "--resume"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    process = subprocess.Popen(
        [*command, "--ranks", "2"], env={**environment, "HELD_AT": "3"}, stderr=subprocess.PIPE, text=True
    )
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(rank_processes(process.pid)["1"], signal.SIGKILL)
    said = [line for line in process.communicate()[1].splitlines() if line.startswith(("stapo-train:", "Traceback"))]
    assert len(said) == 1 and said[0].startswith("stapo-train: rank 1 was ended by SIGKILL"), said
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_same_training(tmp_path / "run", trained / "1" / "beside")
    assert texts(tmp_path / "run") == texts(trained / "1" / "beside")
