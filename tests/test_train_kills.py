"""Kills of a training: none changes its result, and what is on disk is whole."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from train_setup import make_config, result

from stapo_train import run
from stapo_train.run_folder import Labels, RunFolder, TrainState
from stapo_train.whole_files import whole_folder

pytestmark = pytest.mark.usefixtures("graded_by_hash")


def test_a_kill_while_a_finished_training_is_opened_again_loses_nothing(folder, monkeypatch):
    short, longer = make_config(folder, iterations=2), make_config(folder, iterations=3)
    run.train(short)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("stapo_train.run_folder.write_atomically", heed_ctrl_c)
        run.train(longer, resume=True)
    assert run.train(short, resume=True).is_dir()
    run.train(longer, resume=True)
    run.train(make_config(folder, iterations=3, out=str(folder / "whole")))
    assert result(folder / "run") == result(folder / "whole")


def heed_ctrl_c(*_arguments):
    raise KeyboardInterrupt


def test_rollouts_drawn_before_a_kill_are_not_drawn_again(folder, monkeypatch):
    run.train(make_config(folder, out=str(folder / "whole")))
    config = make_config(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "collate", heed_ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            run.train(config)
    draws = []
    draw = run.sample_rollouts
    monkeypatch.setattr(run, "sample_rollouts", lambda *args, **kw: draws.append(kw["iteration"]) or draw(*args, **kw))
    run.train(config, resume=True)
    assert draws == [2, 3]
    assert result(folder / "run") == result(folder / "whole")
    assert not list((folder / "run" / "state").glob("rollouts-*"))


def in_child(work) -> int:
    """Run ``work`` in a forked process; its pid. The child never returns into the test."""
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return pid


@pytest.mark.slow(reason="as many starts of a training as it has file operations")
def test_sigkill_at_any_file_operation(folder, monkeypatch):
    """Kill at every file operation that orders what is on disk, one after the other, and go on each time."""
    run.train(make_config(folder, out=str(folder / "whole")))
    config = make_config(folder)

    def train_until(operation: int) -> None:
        left = [operation]

        def counted(function):
            def wrapper(*args, **kwargs):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **kwargs)

            return wrapper

        os.fsync = counted(os.fsync)
        Path.rename = counted(Path.rename)

        shutil.rmtree = counted(shutil.rmtree)
        run.train(config, resume=True)

    kills = 0
    for operation in range(1, 280):
        _, status = os.waitpid(in_child(lambda n=operation % 31 + 1: train_until(n)), 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        kills += 1
    assert kills >= 20
    assert result(folder / "run") == result(folder / "whole")


@pytest.mark.slow(reason="twenty kills of trainings")
def test_sigkill_at_random_moments(folder):
    """At least twenty kills, over as many runs as they take; every run that ends ends like the whole one."""
    start = time.monotonic()
    run.train(make_config(folder, out=str(folder / "whole"), iterations=6, checkpoint__every=2))
    seconds = time.monotonic() - start
    draw = random.Random(0)
    kills = number = 0
    while kills < 20:
        config = make_config(folder, iterations=6, checkpoint__every=2, out=str(folder / str(number)))
        pid = in_child(lambda config=config: run.train(config, resume=True))
        time.sleep(draw.uniform(0, 0.7 * seconds))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        kills += os.WIFSIGNALED(status)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            assert result(folder / str(number)) == result(folder / "whole")
            number += 1
    run.train(config, resume=True)
    assert result(Path(config.out)) == result(folder / "whole")


def test_state_survives_the_way_to_disk(folder):
    config = make_config(folder)
    model, tokenizer = run.load_model(Path(config.model), config)
    optimizer = run.make_optimizer(model, config.optim)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    held = RunFolder(config, resume=False)
    state = TrainState(iteration=7, position=28, skipped_in_row=1)
    held.save(state, model, tokenizer, optimizer, Labels(method="m", base="b", base_digest="d"), final=False)
    again, _ = run.load_model(held.latest(), config)
    theirs = run.make_optimizer(again, config.optim)
    assert run.load_state(held.latest(), again, theirs) == state
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
        assert all(torch.equal(optimizer.state[a][k], theirs.state[b][k]) for k in ("exp_avg", "exp_avg_sq", "step"))
    assert "step/model.norm.weight" in load_file(held.path / "state" / "step-000007" / "optimizer.safetensors")


def test_a_folder_is_on_disk_before_its_name_and_its_name_before_the_next_step(tmp_path, monkeypatch):
    """A power cut leaves a checkpoint whole or not at all: its files, then itself, then the entry in its parent."""
    synced = []
    fsync = os.fsync

    def watched(descriptor):
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), (tmp_path / "step").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    with whole_folder(tmp_path / "step") as partial:
        (partial / "weights").write_text("w")
        assert not (tmp_path / "step").exists()
    assert (tmp_path / "step" / "weights").read_text() == "w"
    assert synced == [(partial / "weights", False), (partial, False), (tmp_path, True)]


def test_whoever_may_read_a_folder_may_read_its_weights(tmp_path):
    with whole_folder(tmp_path / "step") as partial:
        save_file({"a": torch.zeros(1)}, partial / "a.safetensors")
        (partial / "b.json").write_text("{}")
        expected = (partial / "b.json").stat().st_mode
    assert [path.stat().st_mode for path in (tmp_path / "step").iterdir()] == [expected] * 2
