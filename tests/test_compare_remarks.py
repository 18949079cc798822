"""What is said beside a verdict: what could turn the sign, what is left out or missing, the table and its remarks."""

import json

import pytest
from compare_setup import outcome_rows

from stapo_bench.analysis.compare import compare_outcomes, compare_runs
from stapo_bench.errors import StapoError
from stapo_bench.presenting.verdicts import render_comparison, sentence, sign_risk


def test_what_only_one_run_has_is_left_out_and_said(make_run):
    a = make_run("a", {"t": outcome_rows([1, 2, 3]), "u": outcome_rows([1])})
    b = make_run("b", {"t": outcome_rows([1, 2]), "v": outcome_rows([1])})
    comparison = compare_runs(a, b)
    assert [task.task for task in comparison.tasks] == ["t"]
    assert comparison.notes[:2] == ("only in one run, left out: U", "only in one run, left out: V")
    assert "t: 1 problem is in one run only and left out; 2 are compared" in comparison.notes
    with pytest.raises(StapoError, match="nothing to compare"):
        compare_runs(a, make_run("w", {"w": outcome_rows([1])}))


def test_truncation_that_could_flip_the_sign_is_reported(make_run):
    cut = {"finish_reason": "length"}
    # A: 1 of 4 right, two of the wrong ones cut off; B: 2 of 4 right: 0.5 - 0.25 = +25, or 0.5 - 0.75 = -25 points
    a = make_run("a", {"t": outcome_rows([1] * 10)}, sample=lambda _t, _i, j: cut if j in (1, 2) else {})
    b = make_run("b", {"t": outcome_rows([2] * 10)})
    (warning,) = map(sign_risk, compare_runs(a, b).tasks[0].warnings)
    assert warning == "truncated samples (50.0 % of A, 0.0 % of B) could flip the sign: between -25.0 and +25.0 points"
    assert sentence(compare_runs(a, b)).endswith(
        "The sign could flip with samples that are cut off, missing or ungraded on T (below)."
    )
    whole = make_run("whole", {"t": outcome_rows([1] * 10)})
    assert compare_runs(whole, b).tasks[0].warnings == ()
    assert "flip" not in sentence(compare_runs(whole, b))


def test_the_mean_over_tasks_may_flip_where_no_task_does(make_run):
    """+10 points that are sure, and -5 that may be -20: neither turns, the mean of +2.5 may be -5."""
    cut = {"finish_reason": "length"}
    a = make_run(
        "a",
        {"t": outcome_rows([4] * 5, 10), "u": outcome_rows([9] * 5, 20)},
        sample=lambda task, _i, j: cut if task == "u" and 9 <= j < 12 else {},
    )
    b = make_run("b", {"t": outcome_rows([5] * 5, 10), "u": outcome_rows([8] * 5, 20)})
    comparison = compare_runs(a, b)
    assert [task.warnings for task in comparison.tasks] == [(), ()]
    # u: -5 points, and 15 % of A's samples are cut off: between -20 and -5; shares are means over the tasks as well
    assert [sign_risk(risk) for risk in comparison.average.warnings] == [
        "truncated samples (7.5 % of A, 0.0 % of B) could flip the sign: between -5.0 and +2.5 points",
    ]


def test_what_could_flip_is_asked_of_the_problems_that_both_have(make_run):
    nan, cut = float("nan"), {"finish_reason": "length"}
    # on the problem that both have 3/4 - 2/4, or 3/4 - 4/4; with A's other problem it would be 3/4 - (4/4 + 0) / 2 > 0
    a = make_run(
        "a", {"t": [[1, 1, 0, 0], [0, 0, 0, 0]]}, sample=lambda _t, i, j: cut if (i, j) in ((0, 2), (0, 3)) else {}
    )
    b = make_run("b", {"t": [[1, 1, 1, 0], [nan] * 4]})
    (warning,) = map(sign_risk, compare_runs(a, b).tasks[0].warnings)
    assert warning.endswith("could flip the sign: between -25.0 and +25.0 points")


def test_undecided_samples_that_could_flip_the_sign_are_reported(make_run):
    a = make_run("a", {"t": [[1, 0, 0, -1]] * 10})  # 1/3 of the decided; between 1/4 and 2/4
    b = make_run("b", {"t": outcome_rows([2] * 10)})
    (warning,) = map(sign_risk, compare_runs(a, b).tasks[0].warnings)
    assert "ungraded samples (25.0 % of A, 0.0 % of B) could flip the sign: between 0.0 and +25.0" in warning


def test_another_grader_that_sees_the_other_sign_is_named(make_run):
    a, b = make_run("a", {"t": outcome_rows([1] * 5)}), make_run("b", {"t": outcome_rows([3] * 5)})
    for run, right in ((a, "CORRECT"), (b, "INCORRECT")):
        lines = [json.loads(line) for line in (run / "grades" / "math.jsonl").read_text().splitlines()]
        changed = [{"grader": "strict-1"}, *({**line, "outcome": right} for line in lines[1:])]
        (run / "grades" / "strict.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))
    assert "grader 'strict' sees the opposite sign on: T" in compare_runs(a, b).notes
    assert sentence(compare_runs(a, b)).endswith("The sign could flip with the choice of the grader (below).")


def test_samples_that_are_not_drawn_are_declared(make_run):
    a = make_run("a", {"t": [[1, 0]] * 3})
    b = make_run("b", {"t": [[1, float("nan")], [1, 0], [0, 0]]}, identity={"seed": 1})
    assert compare_runs(a, b).notes == ("T: b has 5 of 6 samples; the rest is not drawn",)
    assert sentence(compare_runs(a, b)).endswith(" With caution: b lacks samples (below).")
    assert compare_runs(a, a).notes == ()


@pytest.mark.parametrize(("num_cut", "flips"), [(1, False), (2, True)])
@pytest.mark.parametrize("swapped", [False, True])
def test_cut_off_samples_can_turn_the_sign_or_cannot(make_run, num_cut, flips, swapped):
    # 0 of 4 against 2 of 4: with one of the first run's samples right after all the gap is 1/4, with two it is gone.
    cut = lambda _t, _i, j: {"finish_reason": "length"} if j < num_cut else {}  # noqa: E731
    low = make_run("low", {"t": [[0, 0, 0, 0]]}, sample=cut)
    high = make_run("high", {"t": [[1, 1, 0, 0]]}, identity={"seed": 1})
    (task,) = compare_runs(*((high, low) if swapped else (low, high))).tasks
    assert task.value_b - task.value_a == (-0.5 if swapped else 0.5)
    assert bool(task.warnings) == flips
    if flips:
        ends = "between -50.0 and 0.0 points" if swapped else "between 0.0 and +50.0 points"
        assert sign_risk(task.warnings[0]).endswith(ends)


def test_samples_beyond_those_asked_for_do_not_stand_for_missing_ones(make_run):
    a = make_run("a", {"t": [[1, float("nan"), 1]] * 2}, num_samples=2)
    b = make_run("b", {"t": [[1, 0]] * 2}, identity={"seed": 1})
    assert compare_runs(a, b).notes == ("T: a has 2 of 4 samples; the rest is not drawn",)


def test_the_table_of_a_comparison_line_by_line(make_run):
    a = make_run("a", {"t": outcome_rows([0, 1]), "u": outcome_rows([4, 4])})
    b = make_run("b", {"t": outcome_rows([2, 3]), "u": outcome_rows([4, 3])}, identity={"seed": 1})
    lines = [line for line in render_comparison(compare_runs(a, b)).splitlines() if line.startswith("| ")]
    # t: 1 of 8 and 5 of 8; u: 8 of 8 and 7 of 8; the means of both
    assert [line.split("[")[0] for line in lines[1:]] == [
        "| T | 12.50 | 62.50 | +50.0 | ",
        "| U | 100.00 | 87.50 | -12.5 | ",
        "| mean of 2 tasks | 56.25 | 75.00 | +18.8 | ",
    ]
    assert [line.count("|") for line in lines] == [11] * 4


def test_one_task_is_its_own_mean_and_a_comparison_without_remarks_ends_with_the_table(make_run):
    a = make_run("a", {"t": outcome_rows([0, 1])})
    b = make_run("b", {"t": outcome_rows([2, 3])}, identity={"seed": 1})
    *_, last_but_one, last = render_comparison(compare_runs(a, b)).split("\n")
    assert last_but_one.startswith("|---")
    assert last.startswith("| T | 12.50 | 62.50 | +50.0 | ")


def test_remarks_stand_below_the_table_after_an_empty_line(make_run):
    a = make_run("a", {"t": [[1, 0]] * 3})
    b = make_run("b", {"t": [[1, float("nan")], [1, 0], [0, 0]]}, identity={"seed": 1})
    *_, table_end, empty, note = render_comparison(compare_runs(a, b)).split("\n")
    assert table_end.startswith("| T | ")
    assert (empty, note) == ("", "- T: b has 5 of 6 samples; the rest is not drawn")


@pytest.mark.parametrize(("num_fields", "more"), [(4, ""), (5, " and 1 more fields"), (6, " and 2 more fields")])
def test_at_most_four_fields_are_named(make_run, num_fields, more):
    a, b = (
        make_run(name, {"t": [[1, 0]] * 3}, identity={"seed": 1, "engine": dict.fromkeys("abcdef"[:num_fields], name)})
        for name in "xy"
    )
    assert sentence(compare_runs(a, b)).endswith(f" With caution: engine.a, engine.b, engine.c, engine.d{more} differ.")


def test_the_exact_test_is_named_only_where_its_p_value_is_shown():
    """One problem has no p-value for problems like these, and a normal one for these."""
    alone = compare_outcomes({"p": 1}, {"p": 0})
    assert "| 0.3173 | not enough data | [–] | – |" in render_comparison(alone)
    assert "- all items: one sample per problem: B alone is right on 0, A alone on 1\n" in render_comparison(alone)
    two = compare_outcomes({"p": 1, "q": 1}, {"p": 0, "q": 1})
    assert "A alone on 1 (exact test, McNemar's mid-p; no p below 0.5000" in render_comparison(two)
