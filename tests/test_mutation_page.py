"""The page of mutations says what the record says; which tests try a mutation is decided by the lines they run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bench.mutation.covering import Covering
from bench.mutation.page import page

ROOT = Path(__file__).resolve().parent.parent


def test_a_page_by_hand():
    change = {"path": "stapo_bench/seeds.py", "line": 9, "was": "a < b", "became": "a <= b", "reason": "as before"}
    never_run = {"path": "stapo_bench/seeds.py", "line": 12, "was": "c", "became": "", "reason": ""}
    since = {"path": "stapo_bench/plugins.py", "line": 3, "was": "d", "became": "not d", "reason": ""}
    gone = {**change, "line": 10, "was": "@cache", "became": ""}
    rows = [{**since, "tests": "noticed since"}, {**change, "tests": "unnoticed"}, {**gone, "tests": "unnoticed"}]
    rows.append({**never_run, "tests": "not run"})
    rooms = {
        "plugins": {"noticed": 2, "noticed since": 1, "unnoticed": 0, "equivalent": 0, "not run": 0},
        "seeds": {"noticed": 3, "noticed since": 0, "unnoticed": 1, "equivalent": 1, "not run": 1},
    }
    old = {"sample": "c --seed 1", "commit": "abc", "rooms": {"seeds": {"noticed": 2, "unnoticed": 2, "equivalent": 1}}}
    sample = {"command": "c", "commit": "0123456789", "left": 7, "rooms": rooms, "unnoticed": rows}
    assert page({"samples": [sample], "earlier": [old]}).partition("## Sample 1")[2].splitlines() == [
        ": plugins, seeds",
        "",
        "Made by `c` at 0123456; 7 more were not tried.",
        "",
        "| room | mutations | noticed | by tests written since | not | equivalent | no test runs it | at first | now |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        "| plugins | 3 | 2 | 1 | 0 | 0 | 0 | 67 % | 100 % |",
        "| seeds | 6 | 3 | 0 | 1 | 1 | 1 | 60 % | 60 % |",
        "| together | 9 | 5 | 1 | 1 | 1 | 1 | 62 % | 75 % |",
        "",
        "### stapo_bench/seeds.py",
        "",
        "* line 9: `a < b` → `a <= b`: as before",
        "* line 10: `@cache`, dropped: as before",
        "* line 12: `c`, by no test",
        "",
        "## Former samples",
        "",
        "Noticed, of those that are not equivalent:",
        "",
        "* `c --seed 1` at abc: seeds 2 of 4",
    ]


def test_the_page_is_the_records_and_every_survivor_has_a_reason():
    record = json.loads((ROOT / "results" / "bench" / "mutation.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "mutation.md").read_text(encoding="utf-8") == page(record)
    missed = [row for sample in record["samples"] for row in sample["unnoticed"] if row["tests"] != "noticed since"]
    assert [row for row in missed if not row["reason"]] == []


def test_every_path_of_a_named_part_is_there():
    parts = yaml.safe_load((ROOT / "bench" / "mutation" / "parts.yaml").read_text(encoding="utf-8"))
    paths = [path for part in parts.values() for path in (*part["modules"], *part["tests"])]
    assert [path for path in paths if not any(ROOT.glob(path))] == []


IN_NO_PART = {
    "stapo_bench/__main__.py": "starts the command",
    "stapo_bench/runs/__init__.py": "names alone",
    "train/stapo_train/__init__.py": "a docstring",
    "train/stapo_train/__main__.py": "starts the command",
    "train/stapo_train/integrations/__init__.py": "a docstring",
    "train/stapo_train/integrations/conftest.py": "of doctests",
}


def test_every_module_is_in_one_part():
    parts = yaml.safe_load((ROOT / "bench" / "mutation" / "parts.yaml").read_text(encoding="utf-8"))
    owners: dict[str, list[str]] = {path: ["none"] for path in IN_NO_PART}
    for name, part in parts.items():
        for path in (found for pattern in part["modules"] for found in ROOT.glob(pattern)):
            for module in path.rglob("*.py") if path.is_dir() else [path]:
                owners.setdefault(str(module.relative_to(ROOT)), []).append(name)
    modules = {str(path.relative_to(ROOT)) for top in ("stapo_bench", "train") for path in (ROOT / top).rglob("*.py")}
    assert {module: owners.get(module, []) for module in modules if len(owners.get(module, [])) != 1} == {}
    assert owners.keys() - modules == set()


ONE = "from two import x\ndef f(): return x\ndef g(): return x\n"
FOUR = "y = 1\ndef h(): return y\n"


@pytest.fixture
def covering(tmp_path, monkeypatch):
    """``a`` runs lines 2 and 3 of one module, ``b`` line 3; all else runs on import."""
    monkeypatch.chdir(tmp_path)
    for path, text in (("one.py", ONE), ("two.py", "x = 1\n"), ("three.py", ""), ("four.py", FOUR)):
        Path(path).write_text(text)
    a, b = "tests/test_a.py::a", "tests/test_b.py::b"
    lines = {
        "one.py": {1: frozenset(), 2: frozenset([a]), 3: frozenset([a, b])},
        "two.py": {1: frozenset()},
        "four.py": {1: frozenset([a]), 2: frozenset([b])},
    }
    return Covering(lines=lines, size={a: 2, b: 1}, seconds={a: 1.0, b: 1.0})


@pytest.mark.parametrize(
    ("path", "first", "last", "tests"),
    [
        ("one.py", 2, 2, ["tests/test_a.py::a"]),
        ("one.py", 3, 3, ["tests/test_b.py::b", "tests/test_a.py::a"]),  # the one that runs less first
        ("one.py", 1, 1, ["tests/test_b.py::b", "tests/test_a.py::a"]),  # on import: whoever runs the module
        ("two.py", 1, 1, ["tests/test_b.py::b", "tests/test_a.py::a"]),  # whoever runs what imports it
        ("one.py", 4, 4, []),
        ("three.py", 1, 1, []),
        ("four.py", 1, 1, ["tests/test_b.py::b", "tests/test_a.py::a"]),  # a imported it, b runs the rest
        ("four.py", 2, 2, ["tests/test_b.py::b"]),
    ],
)
def test_the_tests_of_a_line(covering, path, first, last, tests):
    assert covering.tests_of(path, first, last) == tests


def test_tests_that_read_the_modules_try_what_some_test_runs(covering):
    with_readers = replace(covering, readers=("tests/test_records.py",))
    assert with_readers.tests_of("one.py", 2, 2) == ["tests/test_a.py::a", "tests/test_records.py"]
    assert with_readers.tests_of("two.py", 1, 1)[0] == "tests/test_records.py"  # run on import
    assert with_readers.tests_of("one.py", 4, 4) == []


def test_a_modules_doctests_come_first(covering):
    Path("one.py").write_text(ONE.replace("\n", "  # >>> x\n", 1))
    assert covering.tests_of("one.py", 2, 2) == ["one.py", "tests/test_a.py::a"]
