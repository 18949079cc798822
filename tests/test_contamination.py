"""Scores without the problems that a training set holds, by hand."""

import json

import pytest
from eval_setup import make_task

from stapo_bench.analysis import scores_without
from stapo_bench.presenting import render_without


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
