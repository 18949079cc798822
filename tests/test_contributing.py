"""CONTRIBUTING.md shows how a task, an objective, an engine and a grader are added: every change applies and works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = re.compile(r"^## (An? \w+)\n.*?```diff\n(.*?)```\n\n```console\n\$ (.*?)\n```", re.DOTALL | re.MULTILINE)
SAYS = {
    "A task": "title: Sums",
    "An objective": "ok   order of rollouts",
    "An engine": "Tiny AIME24 30×1",
    "A grader": "CORRECT",
}
"""By section, a part of what its command prints."""

CHANGES = {title: (diff, command) for title, diff, command in SECTIONS.findall((ROOT / "CONTRIBUTING.md").read_text())}


def test_every_section_has_a_change_and_a_command():
    assert CHANGES.keys() == SAYS.keys()


SLOW = {
    "An objective": pytest.mark.slow(reason="a whole check of an objective, with torch"),
    "An engine": pytest.mark.slow(reason="a whole evaluation by a copy of all the code"),
}


@pytest.mark.parametrize("title", [pytest.param(title, marks=SLOW.get(title, ())) for title in SAYS])
def test_the_change_works(title, tmp_path):
    diff, command = CHANGES[title]
    for folder in ("stapo_bench", "train/stapo_train", "tasks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, text=True, check=True)
    paths = {"PYTHONPATH": f"{tmp_path}:{tmp_path / 'train'}", "PATH": f"{Path(sys.executable).parent}:{os.defpath}"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env={**os.environ, **paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert SAYS[title] in done.stdout
