"""Ctrl-C and SIGTERM at any moment: exit code 130 and one line; where the shell ignores Ctrl-C, so does the command."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from interrupted import SHADOW, heeding_ctrl_c

ROOT = Path(__file__).resolve().parent.parent


def run(command, folder, module, number, *, ignored=""):
    """The command, in which ``module`` is interrupted while it is being imported."""
    (folder / f"{module}.py").write_text(SHADOW.format(number=int(signal.Signals[number])))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT, ROOT / "train")))}
    line = (
        f"trap '' {ignored}; exec {sys.executable} -m {command}" if ignored else f"exec {sys.executable} -m {command}"
    )
    with heeding_ctrl_c():  # and so do its children
        return subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("module", ["click", "yaml"])  # before there are commands, and inside of one
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_during_an_import_ends_the_command(tmp_path, module, number):
    done = run("stapo_bench tasks", tmp_path, module, number)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == ("stapo-bench: stopped; what is finished is safe: run the same command again to go on\n")


def test_the_trainer_ends_as_well(tmp_path):
    done = run("stapo_train --help", tmp_path, "click", "SIGTERM")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("stapo-train: stopped; ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("module", ["click", "yaml"])
def test_a_background_job_goes_on_after_ctrl_c_and_ends_at_sigterm(tmp_path, module):
    done = run("stapo_bench tasks", tmp_path, module, "SIGINT", ignored="INT")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("aime24 ")
    done = run("stapo_bench tasks", tmp_path, module, "SIGTERM", ignored="INT")
    assert done.returncode == 130 and done.stderr.count("\n") == 1


def test_handlers_come_back(monkeypatch):
    from stapo_bench.errors import interruptible

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interruptible("x", "y"):
        os.kill(os.getpid(), signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
