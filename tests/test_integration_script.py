"""scripts/integration.sh where all environments are there: what it starts, and that it leaves nothing running."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "integration.sh"
HANGING = 'sleep 60 & echo $$ $! >> "$0.started"; wait'


# Undoes nohup's and the background's: a shell that begins with a signal ignored ignores it for good.
HEEDING = """import os, signal, sys
for each in signal.SIGHUP, signal.SIGINT, signal.SIGTERM: signal.signal(each, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])"""


@pytest.fixture
def start(tmp_path):
    """Start a copy of the script, in whose environments python is the given shell command."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / "scripts" / "environment.sh").write_text("")
    (tmp_path / "scripts" / "layers.sh").write_text("make_layer() { :; }\n")

    def started(python: str, *parts: str) -> subprocess.Popen:
        for name in (".venv", ".venv-lm-eval", ".venv-trl"):
            command = tmp_path / name / "bin" / "python"
            command.parent.mkdir(parents=True)
            command.write_text(f"#!/bin/sh\n{python}\n")
            command.chmod(0o755)
        return subprocess.Popen(
            [sys.executable, "-c", HEEDING, tmp_path / "scripts" / "integration.sh", *parts],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )

    return started


def runs(pid: str) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def until(holds) -> bool:
    deadline = time.monotonic() + 60
    while not (found := holds()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc, which says what runs")
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("SIGTERM", "trl lm-eval"),
        ("SIGTERM", "trl"),
        ("SIGTERM", "lm-eval ranks"),
        ("SIGHUP", "trl"),
        ("SIGINT", "trl lm-eval"),
    ],
)
def test_what_it_started_ends_with_it(start, tmp_path, name, parts):
    script = start(HANGING, *parts.split())
    expected = 1 if parts == "lm-eval ranks" else len(parts.split())  # these two run one after the other
    try:
        first = script.stdout.readline()
        told = lambda: " ".join(path.read_text() for path in tmp_path.glob(".venv*/bin/python.started")).split()  # noqa: E731
        assert until(lambda: len(told()) == 2 * expected)
        pids = told()
        assert all(map(runs, pids))
        os.kill(script.pid, signal.Signals[name])
        assert script.wait(60) == -signal.Signals[name]
        assert until(lambda: not any(map(runs, pids)))
    finally:
        script.kill()
    (folder,) = tmp_path.glob("tmp.*")
    assert (
        first == f"integration: what environments and parts print is in {folder}, which is kept where something fails\n"
    )


def test_a_part_named_twice_runs_once(start, tmp_path):
    script = start('echo "$0" >> started', "ranks", "trl", "ranks", "trl")
    said, _ = script.communicate(timeout=60)
    assert script.returncode == 0
    assert sorted((tmp_path / "started").read_text().split()) == [".venv-trl/bin/python", ".venv/bin/python"]
    assert said.count("integration: trl tested in") == said.count("integration: ranks tested in") == 1
    assert not list(tmp_path.glob("tmp.*"))


@pytest.mark.parametrize("parts", [["trl"], ["trl", "lm-eval"]])
@pytest.mark.parametrize(("python", "code"), [("true", 0), ("false", 1)])
def test_what_was_printed_is_kept_where_a_part_fails(start, tmp_path, python, code, parts):
    script = start(python, *parts)
    script.communicate(timeout=60)
    assert (script.returncode, len(list(tmp_path.glob("tmp.*")))) == (code, code)


@pytest.mark.parametrize("parts", [["trl"], ["trl", "lm-eval"]])
def test_what_was_printed_is_kept_where_an_environment_cannot_be_made(start, tmp_path, parts):
    (tmp_path / "scripts" / "layers.sh").write_text("make_layer() { echo error: no room; return 1; }\n")
    said, _ = (script := start("true", *parts)).communicate(timeout=60)
    assert script.returncode == 0
    (folder,) = tmp_path.glob("tmp.*")
    assert f"trl skipped: its environment cannot be made: error: no room (more in {folder}/trl.log)" in said
    assert (folder / "trl.log").exists()


@pytest.mark.parametrize("parts", [["trl"], ["trl", "lm-eval"]])
def test_an_environment_that_is_ready_at_the_last_moment_has_not_failed(start, tmp_path, parts):
    # Whether they are still being made is answered when all are, to a part that missed its own just before.
    (tmp_path / "scripts" / "layers.sh").write_text(
        "make_layer() { sleep 0.5; }\n"
        'kill() { while [ "$1" = -0 ] && builtin kill "$@"; do sleep 0.02; done; builtin kill "$@"; }\n'
    )
    said, _ = (script := start("true", *parts)).communicate(timeout=60)
    assert script.returncode == 0
    assert [said.count(f"integration: {part} tested in") for part in parts] == [1] * len(parts)
    assert not list(tmp_path.glob("tmp.*"))
