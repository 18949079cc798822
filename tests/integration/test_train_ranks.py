"""Trainings on 2 and 4 CPU ranks beside the same on one: weights, metrics, kills, and going on with another number."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from ranks_setup import GRADED_BY_HASH, HELD, SETTINGS, assert_same_training, on_ranks, rank_processes, train_each
from safetensors.torch import load_file
from train_setup import make_base, make_values

from stapo_train.inspect.dump import load_dump
from stapo_train.objective import ONE_PROCESS
from stapo_train.objectives import REGISTRY

OBJECTIVES = {
    name: {"objective": {"name": name, **cls.check_with}}
    for name, cls in REGISTRY.items()
    if name != "stapo-micro-batch"  # the quantile of each run of rollouts, which depends on the ranks by definition
}
OTHERS = {
    "kl": {"objective": {"name": "grpo", "kl_beta": 0.1}},  # a second model, sharded too
    "rejection": {"update__correction": "rejection"},
    "rounds": {"rollout__max_rounds": 3},
    "checkpointing": {"gradient_checkpointing": True},
    "one mini-batch": {"update__mini_batches": 1},
    "few rollouts": {"rollout__prompts": 2, "rollout__group_size": 2},  # on four ranks most have nothing to run
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Entropies far apart: rounding, which differs with the number of ranks, changes no threshold."""
    return make_base(tmp_path_factory.mktemp("base") / "base", sharpness=10.0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, base):
    """Every training on 1, 2 and 4 ranks, in the folders of these names."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "base").symlink_to(base)
    wanted = {**OBJECTIVES, **OTHERS}
    train_each(ONE_PROCESS, folder, wanted)
    for size in (2, 4):
        on_ranks(size, train_each, folder, wanted)
    return folder


@pytest.mark.parametrize("size", ["2", "4"])
@pytest.mark.parametrize("name", [*OBJECTIVES, *OTHERS])
def test_ranks_train_what_one_process_trains(trained, name, size):
    assert_same_training(trained / "1" / name, trained / size / name)


def test_a_training_moves_the_weights(trained):
    before = load_file(trained / "base" / "model.safetensors")
    after = load_file(trained / "4" / "stapo" / "checkpoints" / "final" / "model.safetensors")
    assert before.keys() == after.keys()
    assert max(float((after[name] - before[name]).abs().max()) for name in after) > 1e-3


# --- whole processes --------------------------------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path, base):
    """Starts ``python -m ...`` on a config of 10 iterations, its rollouts graded by hash, like those of ``trained``."""
    (tmp_path / "base").symlink_to(base)
    held = HELD.format(metrics=str(tmp_path / "run" / "metrics.jsonl"))
    (tmp_path / "sitecustomize.py").write_text(GRADED_BY_HASH + held)  # which Python imports when it starts
    values = make_values(tmp_path, **{**SETTINGS, "iterations": 10, "checkpoint__every": 2})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    path = os.pathsep.join([str(tmp_path), *sys.path])

    def start(*arguments: str, held_at: int = 1000) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env={**os.environ, "PYTHONPATH": path, "HELD_AT": str(held_at)},
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def wait_for_lines(process: subprocess.Popen[str], metrics: Path, count: int) -> None:
    """Until so many iterations are in the log."""
    deadline = time.monotonic() + 300
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < count:
        assert process.poll() is None, process.communicate()[1][-3000:]
        assert time.monotonic() < deadline, f"no {count} iterations in {metrics}"
        time.sleep(0.05)


def last_line(process: subprocess.Popen[str]) -> str:
    """The one line that is no run header, progress or notice."""
    lines = process.communicate()[1].splitlines()
    said = [line for line in lines if line.startswith(("stapo-train:", "Traceback", "[", "E", "W"))]
    assert len(said) == 1, lines
    return said[0]


def test_kills_and_other_numbers_of_ranks_change_nothing(command, tmp_path):
    config, metrics = str(tmp_path / "config.yaml"), tmp_path / "run" / "metrics.jsonl"
    for killed, lines in (("1", 3), ("0", 5)):
        process = command("stapo_train", config, "--ranks", "2", "--resume", held_at=lines + 1)
        wait_for_lines(process, metrics, lines)
        os.kill(rank_processes(process.pid)[killed], signal.SIGKILL)
        line = last_line(process)
        assert line.startswith(f"stapo-train: rank {killed} was ended by SIGKILL, as the system does where memory runs")
        assert process.returncode == 1

    process = command("stapo_train", config, "--ranks", "3", "--resume", held_at=8)
    wait_for_lines(process, metrics, 7)
    process.send_signal(signal.SIGINT)
    line = last_line(process)
    assert line.startswith("stapo-train: stopped; the same command goes on from the last checkpoint")
    assert process.returncode == 130

    process = command("torch.distributed.run", "--nproc_per_node", "2", "-m", "stapo_train", config, "--resume")
    process.communicate()
    assert process.returncode == 0
    train_each(ONE_PROCESS, tmp_path, {"whole": {"iterations": 10, "checkpoint__every": 2}})
    assert_same_training(tmp_path / "1" / "whole", tmp_path / "run")


def test_a_launched_rank_ends_with_its_interpreter_as_it_stands(command, tmp_path):
    """Each interpreter that is taken apart leaves a file of its rank's name: that of the launcher alone does."""
    with (tmp_path / "sitecustomize.py").open("a") as file:
        file.write(TELLS_ITS_END.format(folder=str(tmp_path)))
    process = command("stapo_train", str(tmp_path / "config.yaml"), "iterations=1", "--ranks", "2")
    process.communicate()
    assert process.returncode == 0
    assert {path.name for path in tmp_path.glob("ended-*")} == {"ended-launcher"}


TELLS_ITS_END = """
import os, sys
class Told:
    def __init__(self):
        rank, self.open, self.flags = os.environ.get("RANK", "launcher"), os.open, os.O_CREAT
        self.path = {folder!r} + "/ended-" + rank
    def __del__(self):
        self.open(self.path, self.flags)
sys.modules["told"] = Told()
"""


def test_a_checkpoint_that_cannot_be_written_ends_all_ranks_in_the_line_that_one_process_prints(command, tmp_path):
    """A file stands where the first state is to be written: the first rank fails there, while the other goes on."""
    config = str(tmp_path / "config.yaml")
    (tmp_path / "run" / "state").mkdir(parents=True)
    (tmp_path / "run" / "state" / ".step-000002.partial").write_text("")
    process = command("stapo_train", config, "--ranks", "2")
    line = last_line(process)
    assert line.startswith(f"stapo-train: {tmp_path / 'run'}: ") and "then --resume" in line
    assert process.returncode == 1


def test_a_dump_of_two_ranks_holds_the_whole_mini_batch(tmp_path, base):
    (tmp_path / "base").symlink_to(base)
    train_each(ONE_PROCESS, tmp_path, {"stapo": {"iterations": 1}}, dump_iterations=[1])
    on_ranks(2, train_each, tmp_path, {"stapo": {"iterations": 1}}, False, [1])
    one, two = (load_dump(tmp_path / size / "stapo" / "dumps" / "iteration-000001") for size in "12")
    order = sorted(range(len(two.batch.rows)), key=two.batch.rows.__getitem__)
    rows = sorted(range(len(one.batch.rows)), key=one.batch.rows.__getitem__)
    a, b = one.batch.select_rows(rows), two.batch.select_rows(order)
    assert a.rows == b.rows and a.row_advantages.tolist() == b.row_advantages.tolist()
    assert a.stats.key.tolist() == b.stats.key.tolist() and len(a.rows) == 8
    assert float((a.stats.old_log_probs - b.stats.old_log_probs).abs().max()) < 1e-6
    assert float((a.stats.log_probs - b.stats.log_probs).abs().max()) < 1e-6  # by the dumped weights
