"""The loop end to end on a random model: what it writes, that it repeats, and that no kill changes its result."""

import json
import os
import random
import re
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors import SafetensorError
from safetensors.torch import load_file
from train_setup import grade_by_hash, make_base, make_config, make_values

from stapo_bench.checkpoint import read_checkpoint
from stapo_bench.errors import StapoError
from stapo_bench.sealed import seal, unseal
from stapo_train import run
from stapo_train.checkpoint import RunFolder, TrainState


@pytest.fixture(autouse=True)
def graded_by_hash(monkeypatch):
    monkeypatch.setattr(run, "grade", grade_by_hash)
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("base") / "base")


@pytest.fixture
def folder(tmp_path, base):
    (tmp_path / "base").symlink_to(base)
    return tmp_path


def result(out: Path):
    """Weights as bytes, and the metrics without what a repetition may change."""
    rows = [unseal(line) for line in (out / "metrics.jsonl").read_bytes().splitlines()]
    for row in rows:
        del row["seconds"], row["memory"]
    return (out / "checkpoints" / "final" / "model.safetensors").read_bytes(), rows


def test_what_a_run_leaves(folder):
    final = run.train(make_config(folder))
    out = folder / "run"
    assert final == out / "checkpoints" / "final"
    assert sorted(p.name for p in (out / "checkpoints").iterdir()) == ["final", "step-000001", "step-000002"]
    labels = json.loads((final / "stapo.json").read_text())
    assert labels["method"] == "STAPO" and labels["objective"] == "stapo" and labels["step"] == 3
    assert read_checkpoint(final).method == "STAPO"
    weights, rows = result(out)
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert [row["learning_rate"] for row in rows] == pytest.approx([5e-3, 1e-2, 1e-2])
    first = rows[0]
    assert first["num_rollouts"] == 16 and 0 < first["reward"] < 1
    assert first["entropy"] == pytest.approx(5.5, abs=0.2)  # a random model over about 258 tokens: ln 258 = 5.55
    assert first["num_tokens"] == first["num_kept"] + round(first["masked_share"] * first["num_tokens"])
    assert first["num_candidates"] > 0 and 0 < first["masked_share_of_candidates"] < 1
    assert first["rollout_mismatch"] < 1e-4  # the engine draws with the very weights that are trained
    assert weights != (folder / "base" / "model.safetensors").read_bytes()
    assert not list(out.rglob("*.pt")) + list(out.rglob("*.pkl")) + list(out.rglob(".*.partial"))


def test_the_seed_decides_everything(folder):
    results = []
    for number, seed in enumerate((0, 0, 1)):
        run.train(make_config(folder, out=str(folder / str(number)), seed=seed))
        results.append(result(folder / str(number)))
    assert results[0] == results[1]
    assert results[0][0] != results[2][0]


def test_finished_begun_and_other_runs(folder, capsys):
    config = make_config(folder)
    run.train(config)
    before = result(folder / "run")
    run.train(config)
    assert "finished already" in capsys.readouterr().err
    assert result(folder / "run") == before
    with pytest.raises(StapoError, match=r"another config \(objective.tau_p: 0.1 here, 0.02 there; seed: 4 here, 0"):
        run.train(make_config(folder, seed=4, objective__tau_p=0.1), resume=True)


def test_a_mistake_found_before_the_first_iteration_can_be_put_right(folder):
    with pytest.raises(StapoError, match="expected a checkpoint folder, found none"):
        run.train(make_config(folder, model=str(folder / "nowhere")))
    run.train(make_config(folder, iterations=1))


def fail(*_arguments):
    raise KeyboardInterrupt


def test_an_engine_that_does_not_open_leaves_the_folder_to_another_config(folder, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "open_engine", fail)
        run.train(make_config(folder))
    run.train(make_config(folder, seed=4))
    run.train(make_config(folder, seed=4, out=str(folder / "whole")))
    assert result(folder / "run") == result(folder / "whole")


def test_rollouts_of_a_config_that_was_put_right_are_drawn_again(folder, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "collate", fail)
        run.train(make_config(folder))
    assert (folder / "run" / "state" / "rollouts-000001.jsonl").is_file()
    run.train(make_config(folder, seed=4))
    run.train(make_config(folder, seed=4, out=str(folder / "whole")))
    assert result(folder / "run") == result(folder / "whole")


def test_a_begun_run_is_not_overwritten_by_accident(folder, monkeypatch):
    config = make_config(folder)
    stop_after(monkeypatch, iterations=1)
    with pytest.raises(KeyboardInterrupt):
        run.train(config)
    with pytest.raises(StapoError, match="--resume goes on"):
        run.train(config)


def stop_after(monkeypatch, iterations):
    iterate = run.iterate

    def stopping(r, state):
        if state.iteration == iterations:
            raise KeyboardInterrupt
        return iterate(r, state)

    monkeypatch.setattr(run, "iterate", stopping)


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("lost", [["state"], ["state/step-000001"], ["state", "metrics.jsonl"]])
def test_checkpoints_without_their_state_are_not_written_over(folder, monkeypatch, lost, resume):
    config = make_config(folder)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(patch, iterations=1)
        run.train(config)
    for path in (folder / "run" / name for name in lost):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = files(folder / "run")
    assert "checkpoints/step-000001/model.safetensors" in before
    expected = "no checkpoint has its state: checkpoints/ holds step-000001, state/ holds none; restore what is missing"
    with pytest.raises(StapoError, match=expected if resume else "holds this run, begun"):
        run.train(config, resume=resume)
    assert files(folder / "run") == before


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", ["grpo", "20-entropy", "lopti", "clip-cov"])
def test_other_objectives_resume_to_the_same_bits(folder, name):
    settings = {"objective": {"name": name}}
    run.train(make_config(folder, out=str(folder / "whole"), **settings))
    config = make_config(folder, out=str(folder / "parts"), **settings)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, iterations=2)
        with pytest.raises(KeyboardInterrupt):
            run.train(config)
    run.train(config, resume=True)
    assert result(folder / "parts") == result(folder / "whole")


def test_grpo_with_a_kl_penalty_asks_for_the_reference(folder):
    run.train(make_config(folder, objective={"name": "grpo", "kl_beta": 0.5}))
    free = make_config(folder, objective={"name": "grpo"}, out=str(folder / "free"))
    run.train(free)
    assert result(folder / "run")[0] != result(folder / "free")[0]


def test_rollouts_drawn_before_a_kill_are_not_drawn_again(folder, monkeypatch):
    run.train(make_config(folder, out=str(folder / "whole")))
    config = make_config(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "collate", fail)
        with pytest.raises(KeyboardInterrupt):
            run.train(config)
    draws = []
    draw = run.draw
    monkeypatch.setattr(run, "draw", lambda *args, **kw: draws.append(kw["iteration"]) or draw(*args, **kw))
    run.train(config, resume=True)
    assert draws == [2, 3]
    assert result(folder / "run") == result(folder / "whole")
    assert not list((folder / "run" / "state").glob("rollouts-*"))


# --- kills -----------------------------------------------------------------------------------------------------------


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
        import shutil

        shutil.rmtree = counted(shutil.rmtree)
        run.train(config, resume=True)

    kills = 0
    for operation in range(1, 200):
        _, status = os.waitpid(in_child(lambda n=operation % 23 + 1: train_until(n)), 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        kills += 1
    assert kills >= 20
    assert result(folder / "run") == result(folder / "whole")


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


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:invalid value")
def test_steps_without_a_finite_gradient_stop_the_run(folder, monkeypatch):
    real = run.collate

    def broken(rollouts, advantages, dtype, device):
        return real(rollouts, advantages * float("inf"), dtype, device)

    monkeypatch.setattr(run, "collate", broken)
    with pytest.raises(StapoError, match="3 optimizer steps in a row had no finite gradient"):
        run.train(make_config(folder))
    rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [len(row["skipped_updates"]) for row in rows] == [2, 1] and rows[0]["loss"] is None


@pytest.mark.parametrize(
    ("steps", "taken"),  # x: no finite gradient; four steps an iteration
    [("xxx.....", 3), ("..xxx...", 5), ("x.xxxxx.", 5), ("xx.xx.xx", 8)],
)
def test_the_run_stops_as_soon_as_the_row_is_as_long_as_its_limit(folder, monkeypatch, steps, taken):
    real, done = run.optimizer_step, []

    def scripted(*args):
        done.append(steps[len(done)])
        record = real(*args)
        return replace(record, skipped="loss nan") if done[-1] == "x" else record

    monkeypatch.setattr(run, "optimizer_step", scripted)
    config = make_config(folder, iterations=2, update__mini_batches=4)
    if taken < len(steps):
        with pytest.raises(StapoError, match="3 optimizer steps in a row"):
            run.train(config)
    else:
        run.train(config)
    assert len(done) == taken
    assert len(list((folder / "run" / "skipped").iterdir())) == steps[:taken].count("x")


def test_disk_full_keeps_the_last_good_checkpoint(folder, monkeypatch):
    from stapo_train import checkpoint

    real, calls = checkpoint.save_file, []

    def full(tensors, path):
        calls.append(path)
        if len(calls) == 2:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        real(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(
        StapoError, match=r"disk full at iteration 2; .*step-000001 is whole: free space, then --resume"
    ):
        run.train(make_config(folder))
    assert not list((folder / "run").rglob(".*.partial"))
    monkeypatch.setattr(checkpoint, "save_file", real)
    run.train(make_config(folder), resume=True)
    run.train(make_config(folder, out=str(folder / "whole")))
    assert result(folder / "run") == result(folder / "whole")


def test_a_full_disk_under_the_weights_is_one_line(folder, monkeypatch):
    def full(*_arguments):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("stapo_train.checkpoint.save_file", full)
    with pytest.raises(StapoError, match="disk full at iteration 1; nothing is saved yet: free space, then --resume"):
        run.train(make_config(folder))


def test_two_processes_do_not_share_a_folder(folder):
    config = make_config(folder)
    held = RunFolder(config, resume=False)
    with pytest.raises(StapoError, match="another process"):
        RunFolder(config, resume=False)
    held.close()
    RunFolder(config, resume=False).close()


def test_damaged_metrics_are_named(folder, monkeypatch):
    config = make_config(folder)
    stop_after(monkeypatch, iterations=2)
    with pytest.raises(KeyboardInterrupt):
        run.train(config)
    path = folder / "run" / "metrics.jsonl"
    first, second = whole = path.read_bytes().splitlines(keepends=True)
    digit = re.search(rb'"reward":0\.(\d)', second)
    for lines, expected in (
        ([second], r"metrics.jsonl:1: expected the record of iteration 1, got one of 2; restore the file"),
        (
            [first, second.replace(digit[0], b'"reward":0.%d' % (int(digit[1]) ^ 1))],
            r"metrics.jsonl:2: .*crc32",
        ),
        ([first, second.replace(b"loss", b"los\xf3")], r"metrics.jsonl:2: not JSON"),
        ([first, second.replace(b"crc32", b"crc33")], r"metrics.jsonl:2: it has 'crc33', which no record has"),
        ([first + second.rstrip()], r"expected at least 2 lines, as many as the checkpoint's iterations, got 1"),
    ):
        path.write_bytes(b"".join(lines))
        with pytest.raises(StapoError, match=expected):
            run.train(config, resume=True)
    old = {name: value for name, value in unseal(first).items() if name != "memory"}  # of an older version, unsealed
    path.write_bytes(json.dumps(old).encode() + b"\n" + second + seal({"iteration": 7}) + b'{"iteration": 8, "rew')
    monkeypatch.undo()
    run.train(config, resume=True)
    lines = path.read_bytes().splitlines(keepends=True)
    assert [unseal(line)["iteration"] for line in lines] == [1, 2, 3] and lines[1] == whole[1]


def test_the_command(folder):
    import yaml

    from stapo_train.cli import cli

    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(make_values(folder)))
    done = CliRunner().invoke(cli, [str(path), "iterations=1", "seed=3", "--resume"])
    assert done.exit_code == 0, done.output
    assert f"checkpoint: {folder / 'run' / 'checkpoints' / 'final'}" in done.output
    assert "iteration 1/1" in done.stderr
    wrong = CliRunner().invoke(cli, [str(folder / "none.yaml")])
    assert wrong.exit_code != 0 and "no such file" in str(wrong.exception)


def test_state_survives_the_way_to_disk(folder):
    config = make_config(folder)
    model, tokenizer = run.load_model(Path(config.model), config)
    optimizer = run.make_optimizer(model, config.optim)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    held = RunFolder(config, resume=False)
    state = TrainState(iteration=7, position=28, skipped_in_row=1)
    held.save(state, model, tokenizer, optimizer, {}, final=False)
    again, _ = run.load_model(held.latest(), config)
    theirs = run.make_optimizer(again, config.optim)
    assert run.load_state(held.latest(), again, theirs) == state
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
        assert all(torch.equal(optimizer.state[a][k], theirs.state[b][k]) for k in ("exp_avg", "exp_avg_sq", "step"))
    assert "step/model.norm.weight" in load_file(held.path / "state" / "step-000007" / "optimizer.safetensors")


@pytest.mark.parametrize(
    "name",
    ["state/step-000002/optimizer.safetensors", "state/step-000002/state.json", "state/rollouts-000003.jsonl",
     "checkpoints/step-000002/model.safetensors", "config.yaml"],
)  # fmt: skip
def test_what_a_run_goes_on_from_is_checked(folder, monkeypatch, name):
    config = make_config(folder)
    update = run.update
    with monkeypatch.context() as patch:
        patch.setattr(run, "update", lambda *a: update(*a) if a[-1] < 3 else os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            run.train(config)
    path = folder / "run" / name
    whole = bytearray(path.read_bytes())
    whole[-9] ^= 128
    path.write_bytes(whole)
    with pytest.raises(StapoError, match=Path(name).name):
        run.train(config, resume=True)
    whole[-9] ^= 128
    path.write_bytes(whole)
    run.train(config, resume=True)
    run.train(make_config(folder, out=str(folder / "whole")))
    assert result(folder / "run") == result(folder / "whole")
