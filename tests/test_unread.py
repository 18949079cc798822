"""What could not be read or compared counts as wrong, but not in silence: grade, grade file, scores, table."""

import json

import pytest

from stapo_bench.analysis.score_file import from_json, score_run
from stapo_bench.grading import grade_answer
from stapo_bench.presenting import render_table, rows_from_scores
from stapo_bench.records import Grade, Outcome


@pytest.mark.parametrize(
    ("answer", "gold", "outcome", "is_unread"),
    [
        ("43", "42", "INCORRECT", False),  # read, and another number
        (r"42 \mod 10 = 2", "42", "INCORRECT", True),
        (r"\oint_C f", r"\oint_C f", "CORRECT", False),  # letter for letter
        (r"\frac{1}{2}", r"\oint_C f", "INCORRECT", True),  # it is the gold that cannot be read
        ("2" * 20_001, "42", "INCORRECT", True),  # too long to be looked at
        (r"\sin(10^{10^{10}})", "1", "INCORRECT", True),  # too large to be evaluated
    ],
)
def test_what_only_its_text_tells_apart_is_unread(answer, gold, outcome, is_unread):
    grade = grade_answer(rf"\boxed{{{answer}}}", gold)
    assert (grade.outcome.value, grade.is_unread) == (outcome, is_unread), grade


def test_no_answer_and_a_failed_grader_are_not_unread():
    """They are outcomes of their own, whatever their detail."""
    for outcome in (Outcome.NO_ANSWER, Outcome.GRADER_ERROR, Outcome.CORRECT):
        assert not Grade(outcome=outcome, extracted=None, detail="not comparable: x").is_unread


@pytest.fixture
def run_with_two_unread(make_run):
    """Problem 0: right, wrong; problem 1: two wrong ones, both unread."""
    run = make_run("stapo", {"aime24": [[1, 0], [0, 0]]})
    path = run / "grades" / "math.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line.get("problem_id") == "aime24-1":
            line["detail"] = "response cannot be read: leftover '='"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_scores_count_them_and_the_table_says_so(run_with_two_unread):
    score = score_run(run_with_two_unread)
    assert (score.tasks[0].value, score.tasks[0].num_unread) == (0.25, 2)
    stored = json.loads((run_with_two_unread / "scores.json").read_text())
    assert stored["tasks"][0]["num_unread"] == 2
    assert from_json(stored) == score
    text = render_table(rows_from_scores([score]))
    assert "AIME24: 2 of 4 completions count as wrong because their answer could not be read or compared" in text


def test_scores_of_a_run_without_any_are_the_file_that_they_were(make_run):
    run = make_run("stapo", {"aime24": [[1, 0], [0, 0]]})
    assert score_run(run).tasks[0].num_unread == 0
    assert "unread" not in (run / "scores.json").read_text()
