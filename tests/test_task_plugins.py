"""Tasks of other packages: found through their entry point, behind ours, and refused where two claim a name."""

import json

import pytest
from click.testing import CliRunner

from stapo_bench.cli import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.tasks import load_problems, load_task, task_names

TASK = """
task: stapo_{name}
repeats: 4
doc_to_text: "{{{{problem}}}}"
metadata:
  num_problems: 2
  suite: {suite}
  title: {name} of elsewhere
"""
PAPER = ["aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench"]


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Makes an installed package with task files: ``offer(package, name=suite, ...)``."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(package, **suites):
        about = tmp_path / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[stapo_bench.tasks]\n{package} = {package}.files\n")
        folder = tmp_path / package / "files"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").touch()
        (folder / "__init__.py").touch()
        for name, suite in suites.items():
            (folder / f"{name}.yaml").write_text(TASK.format(name=name, suite=suite))
        return folder

    return make


def test_a_task_of_another_package_is_listed_suggested_and_loaded(offer, tmp_path):
    assert "circles" not in task_names()
    offer("plane_geometry", circles="geometry", triangles="geometry")
    assert task_names("geometry") == ["circles", "triangles"]
    assert task_names()[-2:] == ["circles", "triangles"]
    rows = [{"id": f"c{i}", "problem": f"Area of radius {i}?", "answer": f"{i * i}\\pi"} for i in (1, 2)]
    (tmp_path / "circles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = load_problems(load_task("circles"), tmp_path)
    assert [(p.task, p.problem_id, p.gold.answer) for p in problems] == [
        ("circles", "c1", "1\\pi"), ("circles", "c2", "4\\pi"),
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"unknown task 'circels': did you mean 'circles'\?"):
        load_task("circels")
    with pytest.raises(UsageError, match=r"unknown suite 'plane': expected one of .*geometry.*paper"):
        task_names("plane")
    output = CliRunner().invoke(cli, ["tasks"]).output
    assert "circles            geometry      2 problems ×  4  circles of elsewhere\n" in output


def test_a_suite_of_ours_keeps_its_tasks(offer):
    offer("more_of_it", extra="paper")
    assert task_names("paper") == PAPER
    assert load_task("extra").num_samples == 4


def test_two_files_of_one_name_are_refused_where_others_are_asked_for(offer):
    offer("another_aime", aime24="elsewhere")
    assert load_task("aime24").num_problems == 30  # ours, as before
    with pytest.raises(StapoError, match=r"task aime24: expected one file, got .*aime24.yaml and .*; rename one"):
        task_names()


def test_a_package_that_cannot_be_imported_is_named(offer, tmp_path):
    (offer("broken", lines="geometry") / "__init__.py").write_text("import no_such_module\n")
    with pytest.raises(StapoError, match=r"tasks of 'broken': cannot load broken.files: .*; repair its package"):
        load_task("lines")
    assert task_names("paper") == PAPER
