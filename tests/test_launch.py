"""How ranks begin and end: what is refused, what a rank leaves that fails, and the one line that is said of it."""

import json
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from train_setup import make_config, make_values

from stapo_bench.errors import StapoError, UsageError, exit_code_of
from stapo_train import launch
from stapo_train.cli import cli
from stapo_train.objective import ONE_PROCESS
from stapo_train.preflight import check_before_loading


def failure(tmp_path: Path, exitcode: int, message: str | None = None, at: int = 1) -> ProcessFailure:
    """As the launcher finds it."""
    file = tmp_path / f"{exitcode}{at}.json"
    if message is not None:
        content = {"message": message, "extraInfo": {"py_callstack": "", "timestamp": str(at)}}
        file.write_text(json.dumps({"message": content}))
    return ProcessFailure(local_rank=0, pid=1, exitcode=exitcode, error_file=str(file))


def test_the_rank_that_was_killed_is_named_whatever_the_others_said(tmp_path):
    failed = ChildFailedError(
        "x",
        {
            0: failure(tmp_path, 1, "RuntimeError: Connection closed by peer"),
            1: failure(tmp_path, -15),
            2: failure(tmp_path, -9),
        },
    )
    error = launch._first_failure(failed)
    assert str(error) == (
        "rank 2 was ended by SIGKILL, as the system does where memory runs out; "
        "--resume goes on from the last checkpoint"
    )
    assert error.exit_code == 1


@pytest.mark.parametrize(
    ("message", "code", "line"),
    [
        ("StapoError: out runs/x: disk full", 1, "out runs/x: disk full"),
        ("UsageError: device: expected auto", 2, "device: expected auto"),
        ("RuntimeError: no such: thing", 1, "unexpected RuntimeError: no such: thing"),
        (None, 3, "rank 0 ended with exit code 3 and said nothing"),
    ],
)
def test_what_a_rank_said_is_said_again_with_its_exit_code(tmp_path, message, code, line):
    later = failure(tmp_path, 1, "RuntimeError: Connection closed by peer", at=9_999_999_999)
    error = launch._first_failure(ChildFailedError("x", {0: failure(tmp_path, code, message), 1: later}))
    assert (str(error), error.exit_code) == (line, code)


def test_without_a_launcher_there_is_one_process(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with launch.joined("auto") as ranks:
        assert ranks is ONE_PROCESS


def launched_as(monkeypatch, tmp_path, rank=0):
    for name, value in {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "TORCHELASTIC_RUN_ID": "x"}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    monkeypatch.setattr(launch, "die_with_the_runner", lambda _pid: None)
    for name in ("stdout", "stderr"):  # a rank that fails prints no more
        monkeypatch.setattr(sys, name, getattr(sys, name))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StapoError("out runs/x: disk full"), 1),
        (UsageError("lr: expected 0 or more"), 2),
        (RuntimeError("a defect"), 1),
    ],
)
def test_a_rank_that_fails_prints_nothing_and_leaves_why(monkeypatch, tmp_path, capsys, error, code):
    launched_as(monkeypatch, tmp_path)
    monkeypatch.setattr(launch, "_in_group", lambda _device: nullcontext(ONE_PROCESS))
    with pytest.raises(SystemExit) as stop, launch.joined("cpu"):
        raise error
    assert stop.value.code == code
    assert capsys.readouterr() == ("", "")
    recorded = json.loads((tmp_path / "error.json").read_text())["message"]["message"]
    assert recorded == f"{type(error).__name__}: {error}"


def test_a_rank_that_is_stopped_leaves_the_word_to_the_launcher(monkeypatch, tmp_path, capsys):
    launched_as(monkeypatch, tmp_path)
    monkeypatch.setattr(launch, "_in_group", lambda _device: nullcontext(ONE_PROCESS))
    with pytest.raises(SystemExit) as stop, launch.joined("cpu"):
        raise KeyboardInterrupt
    assert stop.value.code == 130
    assert capsys.readouterr() == ("", "") and not (tmp_path / "error.json").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_launcher_ends_by_the_signal_that_stopped_it(monkeypatch, number, code):
    def elastic_launch(*_):
        def start(*_):
            raise SignalException("got a signal", number)

        return start

    monkeypatch.setattr("torch.distributed.launcher.api.elastic_launch", elastic_launch)
    monkeypatch.setattr(launch.logging, "disable", lambda _level: None)
    monkeypatch.setattr(launch.os, "environ", dict(launch.os.environ))
    with pytest.raises(KeyboardInterrupt) as stop:
        launch.start_ranks(2, ["config.yaml"])
    assert exit_code_of(stop.value) == code


@pytest.mark.parametrize("device", ["cuda:0", "mps"])
def test_a_device_for_all_ranks_is_refused(monkeypatch, tmp_path, device):
    launched_as(monkeypatch, tmp_path)
    with pytest.raises(SystemExit) as stop, launch.joined(device):
        pytest.fail("joined")
    assert stop.value.code == 2
    assert f"each with its own GPU, got {device}" in (tmp_path / "error.json").read_text()


def test_what_several_ranks_cannot_do_is_refused_before_they_start(folder, monkeypatch, tmp_path):
    launched_as(monkeypatch, tmp_path)
    with pytest.raises(UsageError, match="expected none where torchrun has started the ranks"):
        check_before_loading(make_config(folder), ranks=2)


def test_the_command_hands_its_arguments_to_the_ranks(folder, monkeypatch):
    (folder / "c.yaml").write_text(yaml.safe_dump(make_values(folder)))
    asked = []
    monkeypatch.setattr(launch, "start_ranks", lambda count, arguments: asked.append((count, arguments)))
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    arguments = ["run", str(folder / "c.yaml"), "iterations=4", "--resume", "--ranks", "3", "--dump-rollouts", "2"]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert asked == [(3, ["run", str(folder / "c.yaml"), "iterations=4", "--resume", "--dump-rollouts=2"])]
    assert CliRunner().invoke(cli, [*arguments[:2], "--ranks", "0"]).exit_code == 2
