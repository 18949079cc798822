"""Early stopping keeps its promises under continuous peeking."""

import math

import numpy as np
import pytest

from stapo_bench.statistics import Difference, Interval
from stapo_bench.statistics.difference import Pairs
from stapo_bench.statistics.sequential import (
    MIN_ROUNDS,
    _verdict,
    anytime,
    anytime_interval,
    boundary,
    complete_rounds,
    stop_at_width,
    stop_when_decided,
)

NAN = float("nan")


def sample_matrix(rng, rates, num_samples):
    return (rng.random((len(rates), num_samples)) < rates[:, None]).astype(float)


@pytest.fixture
def rng():
    return np.random.default_rng(9)


@pytest.mark.slow(reason="coverage by simulation, 200 runs looked at after every round")
def test_looking_after_every_round_misses_the_truth_at_most_five_times_in_a_hundred(rng):
    rates = rng.beta(0.5, 1.5, 30)
    missed = 0
    for _ in range(200):
        correct = sample_matrix(rng, rates, 48)
        looks = [stop_at_width([correct[:, :k]], width=0.06).interval for k in range(MIN_ROUNDS, 49)]
        missed += any(not look.low <= rates.mean() <= look.high for look in looks)
    assert missed / 200 <= 0.05


@pytest.mark.slow(reason="coverage by simulation")
def test_so_do_the_intervals_for_problems_like_these_whatever_stopped_the_run(rng):
    """Problems drawn anew each time, mean rate 1/4; looks while the rounds go on, as ``--until-width`` has them."""
    missed = at_the_stop = 0
    for _ in range(200):
        correct = sample_matrix(rng, rng.beta(0.5, 1.5, 30), 32)
        looks = [anytime_interval([correct[:, :k]], 0.03, "problems like these") for k in range(MIN_ROUNDS, 33, 2)]
        missed += any(not look.low <= 0.25 <= look.high for look in looks)
        stop = next(k for k in range(MIN_ROUNDS, 33, 2) if k == 32 or stop_at_width([correct[:, :k]], 0.06).stop)
        at_the_stop += looks[(stop - MIN_ROUNDS) // 2].low <= 0.25 <= looks[(stop - MIN_ROUNDS) // 2].high
    assert missed / 200 <= 0.05
    assert at_the_stop / 200 >= 0.95


def test_the_score_at_the_stop_is_as_sure_as_was_asked(rng):
    tasks = [rng.beta(0.4, 1.0, 30), rng.beta(2.0, 1.0, 60)]
    truth = np.mean([rates.mean() for rates in tasks])
    caught = stopped_early = 0
    for _ in range(120):
        drawn = [sample_matrix(rng, rates, 64) for rates in tasks]
        decisions = (stop_at_width([task[:, :k] for task in drawn], width=0.06) for k in range(MIN_ROUNDS, 65, 2))
        decision = next((d for d in decisions if d.stop), None)
        assert decision is not None
        assert decision.interval.width <= 0.06
        caught += decision.interval.low <= truth <= decision.interval.high
        stopped_early += decision.rounds < 64
    assert caught / 120 >= 0.93
    assert stopped_early == 120


@pytest.mark.slow(reason="a rate of false alarms by simulation, 200 pairs of runs")
def test_equal_runs_are_hardly_ever_told_apart_while_peeking(rng):
    rates = rng.beta(0.5, 1.0, 30)
    alarms = 0
    for _ in range(200):
        a, b = sample_matrix(rng, rates, 48), sample_matrix(rng, rates, 32)
        looks = (stop_when_decided([a[:, :k]], [b]) for k in range(MIN_ROUNDS, 49, 2))
        alarms += any(look.stop and "tied" not in look.reason for look in looks)
    assert alarms / 200 <= 0.05


@pytest.mark.slow(reason="coverage by simulation")
def test_peeking_at_ordinary_intervals_would_not_do(rng):
    """The same looks with ±1.96 standard errors: far more than five in a hundred."""
    from stapo_bench.statistics.paired import paired_difference

    rates = rng.beta(0.5, 1.0, 30)
    alarms = 0
    for _ in range(200):
        a, b = sample_matrix(rng, rates, 48), sample_matrix(rng, rates, 48)
        looks = (paired_difference(b[:, :k], a[:, :k], "these problems").p_value for k in range(MIN_ROUNDS, 49, 2))
        alarms += any(p < 0.05 for p in looks)
    assert alarms / 200 > 0.10


def test_a_clear_difference_is_decided_early_and_in_the_right_direction(rng):
    rates = rng.uniform(0.1, 0.5, 30)
    better, base = sample_matrix(rng, rates + 0.25, 32), sample_matrix(rng, rates, 32)
    up = next(d for k in range(1, 33) if (d := stop_when_decided([better[:, :k]], [base])).stop)
    down = next(d for k in range(1, 33) if (d := stop_when_decided([base[:, :k]], [better])).stop)
    assert up.reason.startswith("better by ")
    assert down.reason.startswith("worse by ")
    assert up.rounds < 32
    assert up.value > 0.15


def test_a_tie_can_be_decided_too(rng):
    rates = rng.uniform(0.2, 0.8, 400)
    a, b = sample_matrix(rng, rates, 64), sample_matrix(rng, rates, 64)
    decision = stop_when_decided([a], [b], margin=0.03)
    assert decision.stop
    assert decision.reason == "tied within ±3 points"
    assert not stop_when_decided([a], [b], margin=0.001).stop


def test_nothing_is_decided_before_the_least_number_of_rounds(rng):
    ones, zeros = np.ones((30, 8)), np.zeros((30, 8))
    early = stop_when_decided([ones[:, :3]], [zeros])
    assert not early.stop
    assert early.reason == "3 rounds of every problem; a decision needs 4"
    assert stop_when_decided([ones[:, :4]], [zeros]).stop
    assert not stop_at_width([ones[:, :3]], width=0.9).stop
    assert stop_at_width([ones[:, :4]], width=0.9).stop


def test_the_task_and_the_run_with_fewest_rounds_have_to_have_enough():
    ones, zeros = np.ones((30, 8)), np.zeros((30, 8))
    short = stop_at_width([ones[:, :3], ones], width=0.9)
    assert (short.stop, short.rounds) == (False, 8) and short.reason.startswith("3 rounds of every problem; ")
    for tasks, others in (([ones[:, :3], ones], [zeros, zeros]), ([ones, ones], [zeros, zeros[:, :3]])):
        decision = stop_when_decided(tasks, others)
        assert not decision.stop and decision.reason == "3 rounds of every problem; a decision needs 4"
    assert stop_when_decided([ones], [zeros[:, :4]]).stop


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.121, 0.345, "better by 12.1 to 34.5 points"),
        (-0.345, -0.121, "worse by 12.1 to 34.5 points"),
        (0.0, 0.03, None),
        (-0.03, 0.0, None),
        (0.0, 0.025, "tied within ±2.5 points"),
        (-0.025, 0.01, "tied within ±2.5 points"),
        (-0.026, 0.01, None),
    ],
)
def test_what_an_interval_decides(low, high, verdict):
    assert _verdict(Interval(low=low, high=high), 0.025) == verdict


def test_the_exact_test_of_a_single_look_does_not_hold_at_every_look():
    plain = Difference(value=0.3, standard_error=0.1, degrees=math.inf, num_problems=20)
    counted = Difference(value=0.3, standard_error=0.1, degrees=math.inf, num_problems=20, pairs=Pairs(6, 0))
    assert anytime(counted, 0.02) == anytime(plain, 0.02)
    assert anytime(plain, 0.02).interval().low < 0.0 < counted.interval().low


def test_only_complete_rounds_count(rng):
    """What ends first is short, and short is not a fair sample: incomplete rounds wait."""
    correct = sample_matrix(rng, rng.uniform(0.2, 0.8, 20), 8)
    partial = correct.copy()
    partial[5, 6:] = NAN
    assert complete_rounds(partial) == 6
    assert stop_at_width([partial], 0.1) == stop_at_width([correct[:, :6]], 0.1)


def test_a_finished_task_stands_still_while_others_go_on(rng):
    short, long = sample_matrix(rng, rng.uniform(0.2, 0.8, 50), 4), sample_matrix(rng, rng.uniform(0.2, 0.8, 30), 64)
    widths = [stop_at_width([short, long[:, :k]], 0.05).interval.width for k in (4, 16, 64)]
    assert widths[0] > widths[1] > widths[2]
    assert stop_at_width([short, long], 0.05).rounds == 64


def test_the_bound_is_tightest_where_one_hopes_to_stop():
    at = {factor: boundary((factor * 0.01 / 3) ** 2, aim=0.01) for factor in (0.25, 0.5, 1.0, 2.0, 4.0)}
    # in standard errors: about 3 there, a little more before and after
    assert 2.9 < at[1.0] < 3.1
    assert all(at[1.0] < value < 4.3 for factor, value in at.items() if factor != 1.0)
    assert np.isnan(boundary(NAN, 0.01))


def test_runs_of_other_problems_are_refused(rng):
    with pytest.raises(ValueError, match="same problems"):
        stop_when_decided([np.ones((3, 4))], [np.ones((4, 4))])


@pytest.mark.parametrize("num_tasks", [1, 2])
def test_the_interval_for_every_look_by_hand(num_tasks):
    # 100 problems of one sample, half of them right, are 100 independent draws. Wilson's interval, q errors wide:
    # 0.5 -+ 0.5 sqrt(q^2 / (100 + q^2)). One error wide its half-width squared is 0.25 / 101; the mean of T tasks has
    # 1 / T of that variance, and its interval 1 / sqrt(T) of a task's half-width.
    found = anytime_interval([np.array([[1.0], [0.0]] * 50)] * num_tasks, aim=0.05)
    q = boundary(0.25 / 101 / num_tasks, aim=0.05)
    half = 0.5 * math.sqrt(q**2 / (100 + q**2)) / math.sqrt(num_tasks)
    assert q == pytest.approx({1: 3.668, 2: 3.267}[num_tasks], abs=0.001)
    assert (found.low, found.high) == (pytest.approx(0.5 - half), pytest.approx(0.5 + half))


def test_a_stop_says_which_width_it_is():
    task = np.tile([[1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]], (40, 4))
    decision = stop_at_width([task], 0.2)
    width = 100 * decision.interval.width
    assert decision.reason == (
        f"the 95 % interval for these problems, which holds at every look, is {width:.2f} points from end to end after "
        "32 rounds, asked for 20"
    )
    assert decision.interval == anytime_interval([task], aim=0.1)  # 20 points from end to end are 10 on either side
