"""Mutations of one small module: what its tests notice, what they do not, and what none of them runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="scripts/integration.sh mutation makes the environment")

from attrs import evolve
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec

from bench.mutation.session import Chosen, lines_of, open_session

ROOT = Path(__file__).resolve().parents[2]
SMALL = "train/stapo_train/small.py"
MODULE = """LIMIT = 10


def larger(a: int, b: int | float) -> float:
    return a if a > b else b


def unchecked(a: int) -> int:
    return not a
"""
TESTS = """from stapo_train.small import LIMIT, larger


def test_larger():
    assert (larger(1, 2), larger(2, 1), LIMIT) == (2, 2, 10)
"""


def mutate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.mutation", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{ROOT / 'train'}", "HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path):
    for name, text in (("train/stapo_train/small.py", MODULE), ("tests/test_small.py", TESTS)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "train/stapo_train/__init__.py").touch()
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "docs").mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def test_a_module_is_mutated_and_put_back(project):
    done = mutate(project, SMALL, "--json", "record.json")
    assert done.returncode == 0, done.stderr
    # 10 becomes 9 or 11; a > b becomes not a > b, ==, !=, <, <=, >=, is or is not; nobody compares equal numbers.
    assert done.stdout.splitlines() == [
        "trainer      9 noticed, 0 noticed since, 1 unnoticed, 0 equivalent, 1 not run",
        "train/stapo_train/small.py:5: return a if a > b else b  ->  return a if a >= b else b",
        "train/stapo_train/small.py:9: return not a  ->  run by no test",
    ]
    page = (project / "docs" / "mutation.md").read_text()
    assert "* line 5: `return a if a > b else b` → `return a if a >= b else b`\n" in page
    assert (project / "train/stapo_train/small.py").read_text() == MODULE
    assert [path.name for path in (project / "build" / "mutation").iterdir() if path.is_dir()] == ["map"]
    # A reason that somebody gives stays, and nothing is tried twice.
    record = (project / "record.json").read_text()
    (project / "record.json").write_text(record.replace('"reason": ""', '"reason": "equal numbers"', 1))
    again = mutate(project, SMALL, "--json", "record.json")
    assert again.stderr == "" and again.stdout == done.stdout
    assert "`return a if a >= b else b`: equal numbers\n" in (project / "docs" / "mutation.md").read_text()


def test_the_command_of_a_record_makes_it_again(project):
    sample = ["--sample", "3", "--seed", "2", "--json", "record.json", "--tests", "tests/test_small.py", "--", SMALL]
    done = mutate(project, "--jobs", "2", *sample)
    record = (project / "record.json").read_text()
    command = json.loads(record)["samples"][0]["command"].split()
    assert command == ["scripts/mutation.sh", *sample]
    again = mutate(project, *command[1:])
    assert again.returncode == 0, again.stderr
    assert (again.stdout, (project / "record.json").read_text()) == (done.stdout, record)
    # What another command finds stands beside it.
    assert mutate(project, "--sample", "2", *sample[2:]).returncode == 0
    first, second = json.loads((project / "record.json").read_text())["samples"]
    assert first == json.loads(record)["samples"][0]
    assert second["command"] == first["command"].replace("--sample 3", "--sample 2")


def test_what_the_tests_of_today_notice_is_told_apart(project):
    def tried(*arguments):
        assert mutate(project, SMALL, "--json", "record.json", *arguments).returncode == 0
        (sample,) = json.loads((project / "record.json").read_text())["samples"]
        return {(row["line"], row["tests"]) for row in sample["unnoticed"]}, sample["rooms"]["trainer"]

    assert tried()[0] == {(5, "unnoticed"), (9, "not run")}
    more = "    assert isinstance(larger(2, 2.0), float)\n\n\ndef test_none():\n    assert unchecked(0) is True\n"
    text = TESTS.replace("import LIMIT, larger", "import LIMIT, larger, unchecked")
    (project / "tests" / "test_small.py").write_text(text + more)
    again, counts = tried("--again")
    assert again == {(5, "noticed since"), (9, "noticed since")}
    assert counts == {"noticed": 9, "noticed since": 2, "unnoticed": 0, "equivalent": 0, "not run": 0}
    assert tried() == (again, counts)


def test_a_sample_hangs_on_its_seed_and_takes_a_place_once(project, monkeypatch):
    def drawn(folder, sample, seed):
        chosen = Chosen(modules=(SMALL,), sample=sample, seed=seed)
        with use_db(open_session(project / folder, chosen)) as db:
            return {(one.start_pos, one.operator_name, one.occurrence) for i in db.work_items for one in i.mutations}

    monkeypatch.chdir(project)
    every = drawn("a", None, 0)
    assert {line for (line, _), _, _ in every} == {1, 5, 9}  # the annotation in line 4 has none
    assert drawn("a", 2, 1) == drawn("b", 2, 1)
    samples = [drawn("a", 2, seed) for seed in range(8)]
    assert all(len({place for place, _, _ in sample}) == 2 and sample <= every for sample in samples)
    assert len(set(map(frozenset, samples))) > 1


def test_the_lines_of_a_change_are_those_of_its_whole_expression(tmp_path):
    path = tmp_path / "m.py"
    path.write_text("if (\n    a\n    and b\n):\n    c = 1\n")
    change = MutationSpec(module_path=path, operator_name="", occurrence=0, start_pos=(3, 4), end_pos=(3, 7))
    assert lines_of(change) == (2, 3)
    assert lines_of(evolve(change, start_pos=(5, 8), end_pos=(5, 9))) == (5, 5)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["train/nowhere.py"],
            1,
            "expected Python files, or folders of them, in stapo_bench or train/stapo_train, got ",
        ),
        (["docs"], 1, "or folders of them, in stapo_bench or train/stapo_train, got docs"),
        ([str(ROOT / "stapo_bench" / "seeds.py")], 1, "in stapo_bench or train/stapo_train, got /"),
        (["statistics"], 1, "got stapo_bench/statistics"),
        (["--sample", "0"], 2, "argument --sample: expected a whole number from 1 on, got '0'"),
        (["--tests", "train"], 1, "in tests, got train"),
    ],
)
def test_what_cannot_be_mutated_is_refused_in_one_line(project, arguments, code, message):
    done = mutate(project, SMALL, *arguments)
    assert (done.returncode, message in done.stderr.splitlines()[-1]) == (code, True), done.stderr


def test_a_sample_keeps_its_places_after_its_module_changed(project):
    """The places of a record are found again by the texts of their lines, and are not drawn anew."""

    def tried(*arguments):
        done = mutate(project, "--sample", "4", "--seed", "3", "--json", "record.json", *arguments, SMALL)
        assert done.returncode == 0, done.stderr
        (sample,) = json.loads((project / "record.json").read_text())["samples"]
        return done, sample

    path = project / SMALL
    four = "def f(a: int, b: int) -> int:\n    return a - b\n\n\n"
    path.write_text(MODULE + "\n\n" + four.replace("f(", "third(") + four.replace("f(", "fourth("))
    _, first = tried()
    places = [(row["text"], row["operator"].rpartition("/")[2], row["occurrence"]) for row in first["places"]]
    assert len(places) == len(set(places)) == 4
    # A module that changed elsewhere: nothing is tried again, and the same places are there, on other lines.
    path.write_text("BEFORE = 1 + 2\n\n" + path.read_text().replace("\n\n\n", "\n\n\nMORE = not 3 < 4\n\n\n", 1))
    done, second = tried()
    assert "map" not in done.stderr
    assert (second["places"], second["rooms"]) == (first["places"], first["rooms"])
    moved = {row["place"]: row["line"] for row in second["unnoticed"]}
    assert moved == {row["place"]: row["line"] + (2 if row["line"] < 3 else 5) for row in first["unnoticed"]}
    assert moved, "a sample of which nothing is unnoticed shows nothing"
    # A line that is gone is said to be gone; what was found of it stays.
    gone = [row["text"] for row in first["places"] if row["text"] == "return a - b"]
    assert gone
    path.write_text(path.read_text().replace("return a - b", "return b"))
    done, third = tried("--again")
    assert done.stdout.splitlines()[0] == f"the line of {len(gone)} of the sample's 4 places is gone since"
    assert [row["text"] for row in third["places"] if row.get("gone")] == gone
    assert third["rooms"] == first["rooms"]
    assert f"; the line of {len(gone)} is gone since." in (project / "docs" / "mutation.md").read_text()


def test_a_record_without_places_is_not_replaced(project):
    done = mutate(project, SMALL, "--json", "record.json")
    assert done.returncode == 0, done.stderr
    record = json.loads((project / "record.json").read_text())
    del record["samples"][0]["places"]
    (project / "record.json").write_text(json.dumps(record))
    (project / SMALL).write_text(MODULE.replace("not a", "-a"))
    again = mutate(project, SMALL, "--json", "record.json")
    assert again.returncode == 1
    assert again.stderr.startswith("record.json: no places were kept of this sample, so nothing more is tried; ")
    assert json.loads((project / "record.json").read_text()) == record


def test_the_script_says_what_it_takes():
    """As it is called: in the environments that it makes, which are there where these tests run."""
    done = subprocess.run([ROOT / "scripts" / "mutation.sh", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: scripts/mutation.sh [-h] [--sample SAMPLE]")
