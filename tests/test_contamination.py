"""Scores without the problems that a training set holds, by hand."""

import json

import pytest
from eval_setup import make_task
from import_setup import lines

from stapo_bench.analysis import scores_without
from stapo_bench.presenting import render_without
from stapo_bench.runs import load_manifest
from stapo_bench.tasks.errata import Errata, Erratum


@pytest.fixture
def without(tmp_path, make_run):
    """``without(rows)``: a run of three problems, scored without those that stand in the training rows."""
    task = {"title": "T", "num_problems": 3, "num_samples": 2, "problem_ids": ["t-0", "t-1", "t-2"]}
    task["file"] = make_task(tmp_path, "t", num_problems=3)
    run = make_run("run", {"t": [[1, 1], [1, 0], [0, 0]]}, about={"tasks": {"t": task}})

    def scored(rows):
        train = tmp_path / "train.jsonl"
        train.write_text("".join(json.dumps({"problem": row}) + "\n" for row in rows))
        return scores_without(run, train, data_dir=tmp_path)

    return scored


def test_a_problem_that_the_training_set_holds_is_left_out(without):
    (score,) = without(["something else", "t: 0 - 0 + 1?"])
    assert score.num_excluded == 1
    assert (score.all.value, score.clean.value) == (0.5, 0.25)  # (2/2 + 1/2 + 0) / 3, and (1/2 + 0) / 2
    line = render_without([score]).splitlines()[-1]
    assert line.startswith("| T | 3 | 1 | 50.00 [")
    assert " | 25.00 [" in line


def test_without_any_problem_left_there_is_no_score(without):
    (score,) = without([f"t: {i} - {i} + 1?" for i in range(3)])
    assert score.num_excluded == 3
    line = render_without([score]).splitlines()[-1]
    assert line.startswith("| T | 3 | 3 | 50.00 [")
    assert line.endswith(" | – |")


ANSWERS = [  # problem, completion, gold
    ("What is 1 + 2?", "\\boxed{3}", "3"),
    ("What is 2 + 3?", "The answer is 5.", "5"),  # in no box: not right by strict
    ("What is 3 + 5?", "\\boxed{8}", "7"),  # by the errata 8
    ("What is 4 + 6?", "\\boxed{0}", "10"),
    ("What is 5 + 6?", "The answer is 11.", "11"),
]


@pytest.mark.usefixtures("graded_here")
@pytest.mark.parametrize(
    ("options", "with_and_without"),
    [
        ((), ["60.00", "50.00"]),  # the first, second and last of five; two of four without the first
        (("--grader", "strict"), ["20.00", "0.00"]),  # the first alone
        (("--golds", "corrected"), ["80.00", "75.00"]),  # all but the fourth
        (("--grader", "strict", "--golds", "corrected"), ["40.00", "25.00"]),  # the first and third
    ],
)
def test_both_scores_are_by_the_grader_and_golds_that_are_named(
    stapo, tmp_path, monkeypatch, options, with_and_without
):
    rows = [{"problem": problem, "completion": completion, "gold": gold} for problem, completion, gold in ANSWERS]
    answers, train = lines(tmp_path / "answers.jsonl", rows), lines(tmp_path / "train.jsonl", rows[:1])
    run = tmp_path / "run"
    assert stapo("import", answers, "--out", run, "--model", "M")[0] == 0
    ((task, asked),) = load_manifest(run).about.tasks.items()
    fixed = Erratum(id=asked.problem_ids[2], task=task, kind="gold", published="7", corrected="8", reason="3 + 5 = 8")
    monkeypatch.setattr("stapo_bench.tasks.errata.load_errata", lambda: Errata(version=1, items=(fixed,)))
    code, output, _ = stapo("score", run, "--exclude-overlap", train, *options)
    assert code == 0
    (line,) = (line for line in output.splitlines() if line.startswith("| answers | 5 | 1 |"))
    assert [cell.split()[0] for cell in line.strip("| ").split(" | ")[3:]] == with_and_without
