"""Scores without the problems that a training set holds, by hand."""

import json

import pytest
from eval_setup import make_task

from stapo_bench.analysis import render_without, scores_without


@pytest.fixture
def without(tmp_path, make_run):
    """``without(rows)``: a run of two problems, scored without those that stand in the training rows."""
    task = {"title": "T", "num_problems": 2, "num_samples": 2, "problem_ids": ["t-0", "t-1"]}
    task["file"] = make_task(tmp_path, "t", num_problems=2)
    run = make_run("run", {"t": [[1, 1], [1, 0]]}, about={"tasks": {"t": task}})

    def scored(rows):
        train = tmp_path / "train.jsonl"
        train.write_text("".join(json.dumps({"problem": row}) + "\n" for row in rows))
        return scores_without(run, train, data_dir=tmp_path)

    return scored


def test_a_problem_that_the_training_set_holds_is_left_out(without):
    (score,) = without(["something else", "t: 0 - 0 + 1?"])
    assert score.num_excluded == 1
    assert (score.all.value, score.clean.value) == (0.75, 0.5)  # (2/2 + 1/2) / 2, and 1/2 alone
    line = render_without([score]).splitlines()[-1]
    assert line.startswith("| T | 2 | 1 | 75.00 [")
    assert "| 50.00 [" in line


def test_without_any_problem_left_there_is_no_score(without):
    (score,) = without(["t: 0 - 0 + 1?", "t: 1 - 1 + 1?"])
    assert score.num_excluded == 2
    line = render_without([score]).splitlines()[-1]
    assert line.startswith("| T | 2 | 2 | 75.00 [")
    assert line.endswith(" | – |")
