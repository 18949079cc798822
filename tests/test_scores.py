"""From run folders to scores: what is counted, what is declared missing, what is never taken for wrong."""

import json

import numpy as np
import pytest

from stapo_bench.analysis.score_file import from_json, score_run, to_json
from stapo_bench.analysis.scores import run_score, score_task
from stapo_bench.errors import StapoError
from stapo_bench.grading import grade_answer
from stapo_bench.presenting import render_table, rows_from_scores
from stapo_bench.records import Outcome, Outcomes
from stapo_bench.runs.graded_samples import GradedSample
from stapo_bench.runs.grades import read_grades
from stapo_bench.runs.loaded_run import outcomes_of, read_graded_samples
from stapo_bench.statistics.estimators import avg_at_k
from stapo_bench.statistics.intervals import clustered_variance, sampling_variance

NAN = float("nan")
ROWS = [[1, 1, 0, 0], [0, 0.5, 0, 0], [1, 1, 1, 1]]  # 2/4, 0/4 (one without an answer), 4/4


def draws_of(rows, outcomes):
    return [
        GradedSample(problem_id=f"p{i}", sample_index=j, outcome=outcomes[value])
        for i, row in enumerate(rows)
        for j, value in enumerate(row)
        if value is not None
    ]


MARKS = {1: Outcome.CORRECT, 0: Outcome.INCORRECT, "-": Outcome.NO_ANSWER, "e": Outcome.GRADER_ERROR, "?": None}


def test_a_finished_run(make_run):
    score = score_run(make_run("stapo", {"aime24": ROWS}))
    (task,) = score.tasks
    assert (task.task, task.title) == ("aime24", "AIME24")
    assert task.value == pytest.approx((0.5 + 0 + 1) / 3)
    assert (task.num_problems, task.num_problems_expected, task.samples_per_problem) == (3, 3, 4)
    assert (task.num_samples, task.num_samples_expected) == (12, 12)
    assert task.num_no_answer == 1
    assert task.complete
    assert task.bounds.low == task.bounds.high == task.value
    # pass@2: 1 - C(2,2)/C(4,2) = 5/6, 0, 1; pass@4: 1, 0, 1
    assert task.pass_at == {1: pytest.approx(0.5), 2: pytest.approx((5 / 6 + 1) / 3), 4: pytest.approx(2 / 3)}
    # maj@4: two right against two different wrong answers, nothing right, all right
    assert task.maj_at == {4: pytest.approx(2 / 3)}
    assert task.counts == {"aime24-0": (2, 4), "aime24-1": (0, 4), "aime24-2": (4, 4)}
    assert (score.model, score.method, score.regime, score.grader) == ("Tiny", "stapo", "training", "math-1")


def test_scores_json_holds_what_was_returned(make_run):
    run = make_run("stapo", {"aime24": ROWS, "amc23": [[1, 0]] * 3})
    score = score_run(run)
    stored = json.loads((run / "scores.json").read_text())
    assert from_json(stored) == score
    assert stored["tasks"][0]["these_problems"] == [
        score.tasks[0].these_problems.low,
        score.tasks[0].these_problems.high,
    ]
    assert to_json(score) == stored


def test_missing_samples_are_declared_and_not_wrong():
    rows = [[1, 0, None, None], [1, None, None, None], [None, None, None, None]]
    task = score_task("t", "T", draws_of(rows, MARKS), ["p0", "p1", "p2"], 4)
    assert task.value == pytest.approx((0.5 + 1) / 2)
    assert (task.num_samples, task.num_samples_expected) == (3, 12)
    assert (task.num_problems, task.num_problems_expected) == (2, 3)
    assert not task.complete
    assert list(task.pass_at) == [1]  # one problem has a single sample
    assert task.bounds.low == task.bounds.high  # nothing drawn is undecided


def test_a_run_under_way_tells_its_whole_rounds():
    """Short completions end first and are right more often: what has ended, 5 of 6, promises more than avg@1."""
    task = score_task("t", "T", draws_of([[1, 1, 1, None], [0, None, 1, 1]], MARKS), ["p0", "p1"], 4)
    assert (task.num_rounds, task.rounds_value, task.value) == (1, 0.5, pytest.approx(5 / 6))
    assert score_task("t", "T", draws_of([[1, 1], [None, 1]], MARKS), ["p0", "p1"], 2).num_rounds == 0
    lost = score_task("t", "T", draws_of([[1, "e"], [1, 0]], MARKS), ["p0", "p1"], 2)  # a grader error is drawn
    assert (lost.num_rounds, lost.rounds_value) == (2, 0.75)


def test_undecided_samples_make_bounds():
    task = score_task("t", "T", draws_of([[1, 0, "e", "?"]], MARKS), ["p0"], 4)
    assert task.value == 0.5
    assert (task.num_grader_errors, task.num_ungraded) == (1, 1)
    assert task.counts == {"p0": (1, 2)}
    assert (task.bounds.low, task.bounds.high) == (0.25, 0.75)
    assert not task.complete


def test_no_answer_is_counted_and_scores_zero():
    task = score_task("t", "T", draws_of([[1, "-"]], MARKS), ["p0"], 2)
    assert (task.value, task.num_no_answer) == (0.5, 1)


def test_an_empty_task_is_not_measured_rather_than_zero(make_run):
    score = score_run(make_run("stapo", {"aime24": [[NAN, NAN]] * 3, "amc23": [[1, 1]] * 3}))
    assert np.isnan(score.tasks[0].value)
    assert np.isnan(score.macro.value)
    assert from_json(to_json(score)).tasks[1] == score.tasks[1]
    assert "NaN" not in json.dumps(to_json(score))


def test_the_macro_average_weighs_tasks_equally(make_run):
    score = score_run(make_run("stapo", {"a": [[1, 0]] * 30, "b": [[1, 1, 1, 1]] * 5}))
    assert score.macro.value == pytest.approx(0.75)
    assert score.macro.these_problems.low < 0.75 < score.macro.these_problems.high
    assert score.macro.num_tasks == 2


def test_a_run_extended_to_more_samples_is_read_at_what_was_asked():
    draws = draws_of([[1, 0, 0, 0]], MARKS)
    assert score_task("t", "T", draws, ["p0"], 2).value == 0.5
    assert score_task("t", "T", draws, ["p0"], 2).num_samples == 2
    assert np.isnan(outcomes_of(draws, ["p0"], 5).scores[0, 4])


def test_truncated_samples_are_counted(make_run):
    run = make_run("r", {"t": ROWS}, sample=lambda _t, _i, j: {"finish_reason": "length"} if j == 3 else {})
    assert score_run(run).tasks[0].num_truncated == 3


def test_a_key_stored_twice_counts_once(make_run):
    run = make_run("r", {"t": [[1, 0]]})
    line = (run / "samples" / "0001-all.jsonl").read_text().splitlines()[0]
    (run / "samples" / "0002-again.jsonl").write_text(line + "\n")
    assert score_run(run).tasks[0].num_samples == 2


def test_a_line_being_written_is_not_there_yet(make_run):
    run = make_run("r", {"t": [[1, 0]]})
    with (run / "samples" / "0001-all.jsonl").open("a") as file:
        file.write('{"task": "t", "probl')
    assert score_run(run).tasks[0].num_samples == 2


@pytest.mark.parametrize("file", ["samples/0001-all.jsonl", "grades/math.jsonl"])
def test_a_damaged_line_is_named(make_run, file):
    run = make_run("r", {"t": [[1, 0]]})
    lines = (run / file).read_text().splitlines()
    (run / file).write_text("\n".join([lines[0], "{}", *lines[1:]]) + "\n")
    with pytest.raises(StapoError, match=f"{file}:2: expected a"):
        score_run(run)


def test_missing_grades_are_named_with_those_that_exist(make_run):
    run = make_run("r", {"t": [[1, 0]]}, grader="strict-1")
    with pytest.raises(StapoError, match="expected grades by 'math', found strict; run 'stapo-bench grade"):
        score_run(run)


def test_samples_without_a_grade_are_ungraded(make_run):
    run = make_run("r", {"t": [[1, 0, 1, 0]]})
    grades = run / "grades" / "math.jsonl"
    grades.write_text("".join(line + "\n" for line in grades.read_text().splitlines()[:3]))
    task = score_run(run).tasks[0]
    assert (task.num_ungraded, task.value, task.bounds.low, task.bounds.high) == (2, 0.5, 0.25, 0.75)


def test_draws_carry_what_statistics_need(make_run):
    run = make_run("r", {"t": [[1, 0]]}, sample=lambda _t, _i, j: {"seconds": 2.5, "completion": "same"} if j else {})
    draws = read_graded_samples(run, read_grades(run, "math"))["t"]
    assert [draw.sample_index for draw in draws] == [0, 1]
    assert draws[1].seconds == 2.5
    assert draws[0].text_digest != draws[1].text_digest
    assert draws[0].segment == "0001-all.jsonl"
    assert read_graded_samples(run, None)["t"][0].outcome is None


def test_scoring_reads_the_grades_it_is_given(make_run):
    from stapo_bench.runs.manifest import load_manifest

    run = make_run("r", {"t": [[1, 0]]})
    assert run_score(load_manifest(run), "math", read_grades(run, "math")).tasks[0].value == 0.5
    assert not (run / "scores.json").exists()


def test_counts_are_all_that_averages_and_their_errors_need():
    rng = np.random.default_rng(0)
    correct = np.where(rng.random((20, 8)) < 0.1, NAN, (rng.random((20, 8)) < 0.4).astype(float))
    marks = {0.0: Outcome.INCORRECT, 1.0: Outcome.CORRECT}
    draws = draws_of([[None if np.isnan(x) else x for x in row] for row in correct], marks)
    again = Outcomes.of_counts(score_task("t", "T", draws, [f"p{i}" for i in range(20)], 8).counts).scores
    assert avg_at_k(again) == pytest.approx(avg_at_k(correct))
    assert sampling_variance(again) == pytest.approx(sampling_variance(correct))
    assert clustered_variance(again) == pytest.approx(clustered_variance(correct))


def test_majority_counts_equal_values_as_one_answer():
    # two right, three wrong that all say one half: by value the wrong class wins, by text the right one would
    wrong = [("1/2", Outcome.INCORRECT), ("0.5", Outcome.INCORRECT), (r"\frac{1}{2}", Outcome.INCORRECT)]
    found = [("7", Outcome.CORRECT), ("7.0", Outcome.CORRECT), *wrong]
    draws = [
        GradedSample(problem_id="p", sample_index=j, outcome=outcome, extracted=text)
        for j, (text, outcome) in enumerate(found)
    ]
    assert score_task("t", "T", draws, ["p"], 5).maj_at == {5: 0.0}
    tied = score_task("t", "T", draws[:4], ["p"], 4)  # two against two: a tie is broken evenly at random
    assert tied.maj_at == {4: 0.5}


def test_right_answers_vote_alike_in_whatever_sentence_they_stand():
    texts = ["Two sides agree, which makes it an isosceles triangle.", "As AB = AC we have an isosceles one here."]
    texts += ["It is isosceles.", "It is scalene.", "It is scalene."]
    grades = [grade_answer(text, "isosceles") for text in texts]
    assert len({grade.extracted for grade in grades[:3]}) == 3
    draws = [
        GradedSample(problem_id="p", sample_index=j, outcome=grade.outcome, extracted=grade.extracted)
        for j, grade in enumerate(grades)
    ]
    # Three votes against two that agree: each right one on its own would lose.
    assert score_task("t", "T", draws, ["p"], 5).maj_at == {5: 1.0}


def test_a_run_that_stopped_early_has_intervals_for_every_look_and_says_so(make_run):
    from stapo_bench.presenting.tables.rows import rows_from_runs
    from stapo_bench.statistics.sequential import stop_at_width

    tasks = {"a": [[1, 0, 1, 1]] * 5, "b": [[1, 0, 0, 0]] * 5}
    stopped = make_run("stopped", tasks, about={"stopping": {"rule": "--until-width 0.1", "aim": 0.05}})
    score, fixed = score_run(stopped), score_run(make_run("fixed", tasks))
    matrices = [np.array(rows, dtype=float) for rows in tasks.values()]
    found, expected = score.macro.these_problems, stop_at_width(matrices, 0.1).interval
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    for wide, narrow in zip((*score.tasks, score.macro), (*fixed.tasks, fixed.macro), strict=True):
        assert wide.these_problems.width > 1.3 * narrow.these_problems.width
        assert wide.problems_like_these.width > 1.3 * narrow.problems_like_these.width
    assert from_json(to_json(score)) == score
    (row,) = rows_from_runs([stopped])
    assert "stopped under --until-width 0.1: its intervals, and tests against it, hold at every look" in row.details
    assert row.aim == 0.05
    assert fixed.stopping is None


@pytest.mark.parametrize(
    ("rows", "few"),
    [
        ([[1, 1]] * 29 + [[0, 0]], True),  # that problem may have come out right once or twice: 76 of 100 are covered
        ([[1, 1]] * 29 + [[1, 0]], True),
        ([[1, 1]] * 28 + [[1, 0]] * 2, False),
        ([[1, 1]] * 30, False),  # all right: the interval knows what that leaves open
        ([[1]] * 29 + [[0]], False),  # single samples are taken for independent
    ],
)
def test_too_few_distinct_outcomes_are_named(make_run, rows, few):
    run = make_run("a", {"t": rows})
    assert [task.few_outcomes for task in score_run(run).tasks] == [few]
    text = render_table(rows_from_scores([score_run(run)], run_dirs=[run]))
    assert ("too few distinct outcomes for 95 %" in text) == few
