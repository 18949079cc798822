"""When drawing may stop: what is said where the other run is no fair opponent."""

import pytest

from stapo_bench.errors import StapoError
from stapo_bench.runs.loaded_run import load_run
from stapo_bench.sampling import stop_rules
from stapo_bench.sampling.stop_rules import against_base, decided_against
from stapo_bench.statistics import CheckpointLook, Interval

LONGER = {"sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 128}}


@pytest.fixture
def finished(make_run):
    return make_run("finished", {"t": [[0] * 16] * 12})


def test_a_decision_against_a_run_under_the_same_settings(make_run, finished):
    better = make_run("better", {"t": [[1] * 16] * 12}, identity={"seed": 1})
    decision = decided_against(finished).decide(load_run(better))
    assert decision.stop
    assert decision.reason.startswith("better by ") and decision.reason.endswith(" points")


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"grader": "math-2"}, "grader: math-1 in A, math-2 in B"),
        ({"identity": LONGER}, "sampling.max_new_tokens: 64 in A, 128 in B"),
    ],
)
def test_what_else_differs_is_said_with_each_decision(make_run, finished, how, what):
    decision = decided_against(finished).decide(load_run(make_run("better", {"t": [[1] * 16] * 12}, **how)))
    assert decision.stop
    assert decision.reason.endswith(f"; no evidence about the weights: A = finished, B = better, {what}")


def test_the_same_weights_under_other_settings_are_a_question_of_their_own(make_run, finished):
    identity = {"checkpoint": {"digest": "finished"}, **LONGER}
    decision = decided_against(finished).decide(load_run(make_run("longer", {"t": [[1] * 16] * 12}, identity=identity)))
    assert decision.stop and decision.reason.endswith(" points")


@pytest.mark.parametrize(
    ("state", "stop", "said"),
    [
        ("better", True, "better: -1.5 points over finished after 4 rounds"),
        ("open", False, "-1.5 points over finished after 4 rounds"),
        ("open", True, "-1.5 points over finished after 4 rounds, which all rounds will hardly decide"),
    ],
)
def test_what_is_said_of_a_checkpoint(finished, monkeypatch, state, stop, said):
    look = CheckpointLook(state=state, stop=stop, rounds=4, value=-0.015, interval=Interval(low=-0.1, high=0.1))
    monkeypatch.setattr(stop_rules, "look_at_checkpoint", lambda *_: look)
    found = against_base(finished, 1).decide(None)
    assert (found.stop, found.reason, found.rounds, found.value) == (stop, said, 4, -0.015)


def test_a_run_without_the_tasks_is_no_opponent(make_run, finished):
    with pytest.raises(StapoError, match="expected the tasks of x, got none of u"):
        decided_against(finished).decide(load_run(make_run("x", {"u": [[1] * 16]})))


@pytest.mark.parametrize(
    ("right", "says"), [([0] * 16, "worse by "), ([1] * 8 + [0] * 8, "worse by "), ([1] * 16, "tied within ±2 points")]
)
def test_the_other_runs_own_outcomes_decide(make_run, right, says):
    solved = make_run("solved", {"t": [[1] * 16] * 60})
    run = load_run(make_run("run", {"t": [right] * 60}, identity={"seed": 1}))
    decision = decided_against(solved).decide(run)
    assert decision.reason.startswith(says)
    assert decision.value == sum(right) / 16 - 1
