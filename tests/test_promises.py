"""The page of promises names tests that are there, at least one for each."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
ROWS = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| ") and "| held by |" not in line]


@cache
def functions_in(file: str) -> set[str]:
    path = next((ROOT / "tests").rglob(f"{file}.py"), None)
    tree = ast.parse(path.read_text(encoding="utf-8")) if path else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_promise_is_held_by_tests_that_are_there():
    assert len(ROWS) > 20
    for promise, tests in ROWS:
        named = re.findall(r"`(\w+)::(\w+)`", tests)
        assert named, promise
        assert [f"{file}::{name}" for file, name in named if name not in functions_in(file)] == [], promise


def test_every_subject_has_its_promises():
    subjects = [line.split()[1] for line in PAGE.splitlines() if line.startswith("## ")]
    assert subjects == ["Samples", "Grades", "Scores,", "Training", "Secrets", "Strangers'", "Platforms", "What"]
