"""Slow tests say why they are, scripts/test.sh leaves them out and says so, and .ci/run leaves out none."""

import ast
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import pytest_collection_modifyitems

ROOT = Path(__file__).resolve().parent.parent


def reasons(text: str) -> list[str | None]:
    """Of every ``pytest.mark.slow`` in a file, in order; None where there is none."""
    tree = ast.parse(text)
    given = {
        node.func: keyword.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "reason" and isinstance(keyword.value, ast.Constant)
    }
    marks = [
        node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node).endswith("mark.slow")
    ]
    return [given.get(node) for node in marks]


def test_every_slow_test_says_why():
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    found = {name: reasons(text) for name, text in texts.items() if "mark.slow" in text}
    assert sum(len(each) for each in found.values()) > 5
    assert {name: each for name, each in found.items() if not all(reason and len(reason) > 15 for reason in each)} == {}


def test_a_mark_without_a_reason_is_seen():
    text = "@pytest.mark.slow\ndef a(): ...\n@pytest.mark.slow()\ndef b(): ...\nm = [pytest.mark.slow(reason='r')]\n"
    assert sorted(reasons(text), key=str) == [None, None, "r"]


@pytest.fixture
def started(tmp_path):
    """Starts a script with its tools replaced: the arguments that pytest was given, and what was printed."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "scripts" / "environment.sh").write_text("")
    (tmp_path / "bin").mkdir()
    for name in ("ruff", "mypy", "python"):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\n[ {name} = python ] && printf "%s\\n" "$@" > told\nexit 0\n')
        (tmp_path / "bin" / name).chmod(0o755)

    def start(command: str) -> tuple[list[str], str]:
        found = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        out = subprocess.run(["bash", *shlex.split(command)], cwd=tmp_path, env=found, capture_output=True, check=True)
        return (tmp_path / "told").read_text().splitlines(), out.stdout.decode()

    return start


def test_slow_tests_are_left_out_and_it_is_said(started):
    told, printed = started("scripts/test.sh tests/test_seeds.py")
    processes = str(os.sysconf("SC_NPROCESSORS_ONLN") * 3 // 2)
    assert told == ["-m", "pytest", "-n", processes, "--dist", "worksteal", "-m", "not slow", "tests/test_seeds.py"]
    assert printed == (
        "scripts/test.sh: without the slow tests; with them, as .ci/run does: scripts/test.sh -m 'slow or not slow'\n"
    )


def test_ci_leaves_none_out(started):
    (command,) = [
        line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("scripts/test.sh")
    ]
    told, printed = started(command)
    assert told[-2:] == ["-m", "slow or not slow"] and told.count("-m") == 2
    assert printed == ""


def test_slow_tests_come_first_and_all_keep_their_order():
    items = [
        SimpleNamespace(name=name, get_closest_marker=lambda _, name=name: "mark" if name.isupper() else None)
        for name in "aBcDe"
    ]
    pytest_collection_modifyitems(items)
    assert "".join(item.name for item in items) == "BDace"
