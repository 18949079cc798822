"""What goes wrong in a training: no finite gradient, a full disk, files that are damaged or gone."""

import json
import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from interrupted import heeding_ctrl_c
from safetensors import SafetensorError
from train_setup import make_config, result, stop_after

from stapo_bench.errors import StapoError
from stapo_bench.runs.sealed import seal, unseal
from stapo_train import run
from stapo_train.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("graded_by_hash")


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
    from stapo_train import optimizer_file

    real, calls = optimizer_file.save_file, []

    def full(tensors, path):
        calls.append(path)
        if len(calls) == 2:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        real(tensors, path)

    monkeypatch.setattr(optimizer_file, "save_file", full)
    with pytest.raises(
        StapoError, match=r"disk full at iteration 2; .*step-000001 is whole: free space, then --resume"
    ):
        run.train(make_config(folder))
    assert not list((folder / "run").rglob(".*.partial"))
    monkeypatch.setattr(optimizer_file, "save_file", real)
    run.train(make_config(folder), resume=True)
    run.train(make_config(folder, out=str(folder / "whole")))
    assert result(folder / "run") == result(folder / "whole")


def test_a_full_disk_under_the_weights_is_one_line(folder, monkeypatch):
    def full(*_arguments):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("stapo_train.optimizer_file.save_file", full)
    with pytest.raises(StapoError, match="disk full at iteration 1; nothing is saved yet: free space, then --resume"):
        run.train(make_config(folder))


def test_two_processes_do_not_share_a_folder(folder):
    config = make_config(folder)
    held = RunFolder(config, resume=False)
    with pytest.raises(StapoError, match="another process"):
        RunFolder(config, resume=False)
    held.close()
    RunFolder(config, resume=False).close()


@pytest.mark.parametrize("name", ["checkpoints", "state", "metrics.jsonl", ".lock"])
def test_nothing_is_written_through_a_link_in_the_folder(folder, name):
    """A folder from elsewhere may hold links; ``out`` itself may be one."""
    ours = folder / "ours"
    (ours / "step-000001").mkdir(parents=True)
    (ours / "step-000001" / "kept").write_text("kept")
    (folder / "run").mkdir()
    (folder / "run" / name).symlink_to(ours if "." not in name else ours / "step-000001" / "kept")
    with pytest.raises(StapoError, match=rf"run/{name}: expected a \w+ of the run's own, got a link to .*ours"):
        run.train(make_config(folder))
    assert [path.name for path in ours.rglob("*")] == ["step-000001", "kept"]
    assert (ours / "step-000001" / "kept").read_text() == "kept"


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


def test_a_state_past_the_first_without_checkpoints_is_not_begun_anew(folder, monkeypatch):
    config = make_config(folder)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(patch, iterations=2)
        run.train(config)
    shutil.rmtree(folder / "run" / "checkpoints")
    before = files(folder / "run")
    with pytest.raises(StapoError, match="no checkpoint has its state: checkpoints/ holds none, state/ holds step-00"):
        run.train(config, resume=True)
    assert files(folder / "run") == before


def test_another_base_under_the_same_name_is_not_gone_on_with(folder, monkeypatch):
    config = make_config(folder)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(patch, iterations=1)
        run.train(config)
    weights = folder / "base" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    before = files(folder / "run")
    message = r"model .*base: expected the one that this run began with \(digest .{12}\), got another .*; restore it"
    with pytest.raises(StapoError, match=message) as error:
        run.train(config, resume=True)
    assert "\n" not in str(error.value) and files(folder / "run") == before
    weights.write_bytes(whole)
    run.train(config, resume=True)


def test_another_base_is_noticed_before_the_first_checkpoint_too(folder, monkeypatch):
    """Once an iteration has ended it is refused; until then the run begins with it, without the other's rollouts."""
    weights = folder / "base" / "model.safetensors"
    whole = weights.read_bytes()
    other = whole[:-1] + bytes([whole[-1] ^ 1])

    def stopped_in(config, at: str) -> None:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            if at == "the first update":
                patch.setattr(run, "update", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            else:
                stop_after(patch, iterations=1)
            run.train(config)

    config = make_config(folder, checkpoint__every=3, out=str(folder / "late"))
    stopped_in(config, "the second iteration")
    weights.write_bytes(other)
    with pytest.raises(StapoError, match="expected the one that this run began with"):
        run.train(config, resume=True)
    weights.write_bytes(whole)
    run.train(config, resume=True)

    run.train(make_config(folder, out=str(folder / "whole")))
    weights.write_bytes(other)
    early = make_config(folder, out=str(folder / "early"))
    stopped_in(early, "the first update")
    rollouts = folder / "early" / "state" / "rollouts-000001.jsonl"
    assert rollouts.exists()
    rollouts.write_text("of the other base")
    weights.write_bytes(whole)
    run.train(early, resume=True)
    assert result(folder / "early") == result(folder / "whole")


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


MORE = pytest.mark.slow(reason="three more trainings, one of which is stopped")


@pytest.mark.parametrize(
    "name",
    [
        "state/step-000002/optimizer.safetensors",
        "state/step-000002/state.json",
        pytest.param("state/rollouts-000003.jsonl", marks=MORE),
        pytest.param("checkpoints/step-000002/model.safetensors", marks=MORE),
        pytest.param("config.yaml", marks=MORE),
    ],
)
def test_what_a_run_goes_on_from_is_checked(folder, monkeypatch, name):
    config = make_config(folder)
    update = run.update
    with monkeypatch.context() as patch, heeding_ctrl_c():
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
