"""Ctrl-C and SIGTERM at any moment: exit code 130 or 143 and one line; where the shell ignores Ctrl-C, so does it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from interrupted import SHADOW, heeding_ctrl_c

from stapo_train.reproduce.table import run_script

ROOT = Path(__file__).resolve().parent.parent
CODES = {"SIGINT": 128 + 2, "SIGTERM": 128 + 15}


def run(command, folder, module, number, *, ignored="", **variables):
    """The command, in which ``module`` is interrupted while it is being imported."""
    (folder / f"{module}.py").write_text(SHADOW.format(number=int(signal.Signals[number])))
    env = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT, ROOT / "train")))}
    line = (
        f"trap '' {ignored}; exec {sys.executable} -m {command}" if ignored else f"exec {sys.executable} -m {command}"
    )
    with heeding_ctrl_c():  # and so do its children
        return subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("module", ["click", "yaml"])  # before there are commands, and inside of one
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_during_an_import_ends_the_command(tmp_path, module, number):
    done = run("stapo_bench tasks", tmp_path, module, number)
    assert (done.returncode, done.stdout) == (CODES[number], "")
    assert done.stderr == ("stapo-bench: stopped; what is finished is safe: run the same command again to go on\n")


def test_the_trainer_ends_as_well(tmp_path):
    done = run("stapo_train --help", tmp_path, "click", "SIGTERM")
    assert (done.returncode, done.stdout) == (143, "")
    assert done.stderr.startswith("stapo-train: stopped; ") and done.stderr.count("\n") == 1


def test_one_of_several_ranks_leaves_the_word_to_its_launcher(tmp_path):
    launched = {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "stapo-train"}
    for module in ("click", "yaml"):  # before there are commands, and inside of one
        done = run("stapo_train --help", tmp_path, module, "SIGTERM", **launched)
        assert (done.returncode, done.stdout, done.stderr) == (143, "", "")


@pytest.mark.parametrize("number", CODES)
def test_an_interrupt_during_work_ends_a_command_and_a_script(number, stapo, monkeypatch, capsys):
    def stop(*_arguments):
        signal.raise_signal(signal.Signals[number])

    monkeypatch.setattr("stapo_bench.tasks.task_names", stop)
    with heeding_ctrl_c():
        code, _, error = stapo("tasks")
        assert code == CODES[number] and error.strip().startswith("stapo-bench: stopped; ")
        with pytest.raises(SystemExit) as ended:
            run_script(stop)
    assert ended.value.code == CODES[number]
    assert capsys.readouterr().err == "\nreproduce_table.sh: stopped; start it again to go on from here\n"


@pytest.mark.parametrize("module", ["click", "yaml"])
def test_a_background_job_goes_on_after_ctrl_c_and_ends_at_sigterm(tmp_path, module):
    done = run("stapo_bench tasks", tmp_path, module, "SIGINT", ignored="INT")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("aime24 ")
    done = run("stapo_bench tasks", tmp_path, module, "SIGTERM", ignored="INT")
    assert done.returncode == 143 and done.stderr.count("\n") == 1


def test_handlers_come_back(monkeypatch):
    from stapo_bench.errors import interruptible

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interruptible("x", "y"):
        os.kill(os.getpid(), signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
