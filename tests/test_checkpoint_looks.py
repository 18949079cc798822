"""Decisions on the checkpoints of a training: false alarms over whole trainings, samples against a fixed design."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from stapo_bench.statistics import Interval, paired_difference
from stapo_bench.statistics.checkpoint_looks import _decided, _state, level_of, look_at, planned_aim, quantile_of

SAMPLES = 32


def draw(rng, rates, samples=SAMPLES):
    return (rng.random((len(rates), samples)) < rates[:, None]).astype(float)


def stopped(correct, base, number):
    """The look at which a checkpoint stops, every four rounds."""
    looks = (look_at([correct[:, :k]], [base], [SAMPLES], number) for k in range(4, SAMPLES + 1, 4))
    return next(look for look in looks if look.stop)


def training(rng, gain, checkpoints=8, num_problems=24):
    """A training whose checkpoints gain evenly up to ``gain`` over a base of rates from Beta(0.4, 0.6): their looks,
    and whether a fixed design with the same levels shows each."""
    rates = rng.beta(0.4, 0.6, num_problems)
    base, looks, fixed = draw(rng, rates), [], []
    for number in range(1, checkpoints + 1):
        share = gain * number / checkpoints / (1.0 - rates.mean())
        correct = draw(rng, rates + (1.0 - rates) * min(share, 1.0))
        looks.append(stopped(correct, base, number))
        fixed.append(paired_difference(base, correct, "these problems").interval(1.0 - level_of(number)).low > 0)
    return looks, fixed


def test_the_levels_of_all_checkpoints_add_up_to_five_in_a_hundred():
    assert level_of(1) == 0.025 and level_of(2) == pytest.approx(0.05 / 6)
    assert sum(level_of(n) for n in range(1, 100_000)) == pytest.approx(0.05, abs=1e-6)
    assert quantile_of(1) == pytest.approx(2.4977, abs=1e-4)  # Phi(2.4977) = 1 - 0.025 / 4


@pytest.mark.slow(reason="a rate of false alarms by simulation")
def test_trainings_that_change_nothing_hardly_ever_show_a_change():
    rng = np.random.default_rng(5)
    alarms = sum(any(look.state in ("better", "worse") for look in training(rng, 0.0)[0]) for _ in range(80))
    assert alarms / 80 <= 0.05


def test_ordinary_intervals_at_every_look_would_be_wrong_far_more_often():
    rng, alarms = np.random.default_rng(6), 0
    for _ in range(30):
        rates = rng.beta(0.4, 0.6, 24)
        base = draw(rng, rates)
        looks = (
            paired_difference(base, correct[:, :k], "these problems").p_value < 0.05
            for correct in (draw(rng, rates) for _ in range(8))
            for k in range(4, SAMPLES + 1, 4)
        )
        alarms += any(looks)
    assert alarms / 30 > 0.3


@pytest.mark.slow(reason="delays by simulation, 36 trainings of eight checkpoints")
def test_half_of_the_samples_find_the_gain_nearly_as_soon():
    rng, used, delays = np.random.default_rng(7), [], []
    for gain in [0.1, 0.2, 0.3] * 12:
        looks, fixed = training(rng, gain)
        used += [look.rounds / SAMPLES for look in looks]
        shown = [look.state == "better" for look in looks]
        if any(fixed) and any(shown):
            delays.append(shown.index(True) - fixed.index(True))
    assert np.mean(used) <= 0.5
    assert np.mean(delays) <= 1.0 and len(delays) >= 20


def test_the_last_look_is_hardly_wider_than_a_single_one():
    rng = np.random.default_rng(8)
    rates = rng.beta(0.4, 0.6, 24)
    base, correct = draw(rng, rates), draw(rng, rates)
    look = look_at([correct], [base], [SAMPLES], 1)
    single = paired_difference(base, correct, "these problems").interval(1.0 - level_of(1))
    assert look.stop  # nothing is left to draw
    assert 1.0 < look.interval.width / single.width < 1.15  # 2.50 against 2.24 standard errors
    early = look_at([correct[:, :8]], [base], [SAMPLES], 1)
    # V / sqrt(V_end) in units of the last one's: (1/32 + 1/8) / (2/32) = 2.5 for equal variances
    assert early.interval.width / look.interval.width == pytest.approx(2.5, rel=0.15)


def test_too_few_rounds_decide_nothing_and_one_round_of_greedy_samples_may():
    ones, zeros = np.ones((30, 8)), np.zeros((30, 8))
    early = look_at([ones[:, :3]], [zeros], [8], 1)
    assert (early.state, early.stop) == ("open", False) and math.isnan(early.interval.low)
    assert look_at([ones[:, :4]], [zeros], [8], 1).state == "better"
    assert look_at([zeros[:, :4]], [ones], [8], 1).state == "worse"
    assert look_at([ones[:, :1]], [zeros[:, :1]], [1], 1).stop
    assert look_at([zeros], [zeros[:, :1]], [8], 1).rounds == 8
    assert look_at([zeros[:, :4]], [zeros[:, :1]], [8], 1).value == 0.0
    short = look_at([ones[:, :3], ones], [zeros, zeros], [8, 8], 1)  # a task of two
    assert (short.state, short.stop, short.rounds) == ("open", False, 8)
    ungraded = np.full((30, 8), np.nan)
    assert not look_at([ungraded], [zeros], [8], 1).stop


def test_equal_scores_of_many_problems_are_a_tie():
    rng = np.random.default_rng(9)
    rates = rng.uniform(0.0, 1.0, 800)
    look = look_at([draw(rng, rates)], [draw(rng, rates)], [SAMPLES], 1)
    assert look.state == "tied"


def test_an_equal_checkpoint_whose_rounds_will_show_a_tie_is_not_given_up():
    base = np.tile([0.0, 1.0], (800, SAMPLES // 2))
    early, late = (look_at([base[:, :k]], [base], [SAMPLES], 1) for k in (8, SAMPLES))
    # V_end = 2 * 0.25 / (800 * 32), c sqrt(V_end) = 2.50 * 0.0044 = 0.011 < 0.02; at 8 rounds 0.011 * 2.5 = 0.028
    assert (early.state, early.stop) == ("open", False) and early.interval.high > 0.02
    assert (late.state, late.stop) == ("tied", True)


def test_the_probability_of_a_decision_is_that_of_a_difference_and_of_a_tie():
    # N(0, 1): P(D > 1) = 0.1587; |D| <= 1.5 - 1 has P = 2 * 0.6915 - 1 = 0.3829
    assert _decided(0.0, 1.0, 1.0, margin=1.5) == pytest.approx(0.1587 + 0.3829, abs=1e-4)
    assert _decided(0.0, 1.0, 1.0, margin=0.9) == pytest.approx(0.1587, abs=1e-4)
    assert _decided(1.0, 0.5, 1.0, margin=0.0) == pytest.approx(0.5)
    assert _decided(0.1, 0.01, 0.05, margin=10.0) == 1.0


@pytest.mark.parametrize(("probability", "stop"), [(0.101, False), (0.1, False), (0.099, True)])
def test_one_in_ten_is_hardly(monkeypatch, probability, stop):
    monkeypatch.setattr("stapo_bench.statistics.checkpoint_looks._decided", lambda *_: probability)
    base = np.tile([0.0, 1.0], (30, 16))
    look = look_at([base[:, :8]], [base], [32], 1)
    assert (look.state, look.stop) == ("open", stop)


def test_more_rounds_than_were_planned_are_all_of_them():
    base = np.tile([0.0, 1.0], (30, 4))
    assert look_at([base], [base], [4], 1) == look_at([base], [base], [8], 1)


def test_tasks_weigh_alike_in_the_plan():
    assert planned_aim([30, 30], [32, 32]) == pytest.approx(planned_aim([30], [32]) / math.sqrt(2))


@pytest.mark.parametrize("rounds", [4, 8, 16])
def test_a_look_by_its_formulas(rounds):
    rng = np.random.default_rng(rounds)
    tasks = [(rng.random((num, rounds)) < 0.6).astype(float) for num in (20, 30)]
    base = [(rng.random((num, 16)) < 0.4).astype(float) for num in (20, 30)]
    look = look_at(tasks, base, [16, 16], number=2)
    # V of each task: its own and the base's noise, and half a sample of a further problem in both runs, over n^2
    noise = [sum(row.var(ddof=1) / rounds for row in task) / len(task) ** 2 for task in tasks]
    of_base = [sum(row.var(ddof=1) / 16 for row in task) / len(task) ** 2 for task in base]
    prior = [(0.5 / rounds**2 + 0.5 / 16**2) / len(task) ** 2 for task in tasks]
    now = (sum(noise) + sum(of_base) + sum(prior)) / 4
    end = now - sum(noise) * (1 - rounds / 16) / 4
    value = sum(task.mean() - other.mean() for task, other in zip(tasks, base, strict=True)) / 2
    half = -NormalDist().inv_cdf(0.05 / 6 / 4) * now / math.sqrt(end)  # alpha_2 = 0.05 / (2 * 3)
    assert (look.value, look.rounds) == (pytest.approx(value), rounds)
    assert (look.interval.low, look.interval.high) == (pytest.approx(value - half), pytest.approx(value + half))
    assert look.state == ("better" if value > half else "open")
    assert look.stop or look.state == "open"


def test_the_ends_of_a_look():
    right, wrong = np.ones((3, 8)), np.zeros((3, 8))
    best, worst = look_at([right], [wrong], [8], 1), look_at([wrong], [right], [8], 1)
    assert (best.state, best.interval.high, worst.state, worst.interval.low) == ("better", 1.0, "worse", -1.0)
    for state, low, high in (("better", 0.01, 0.5), ("worse", -0.5, -0.01), ("open", 0.0, 0.03), ("tied", -0.02, 0.02)):
        assert _state(Interval(low=low, high=high), 0.02) == state
    assert _state(Interval(low=-0.021, high=0.0), 0.02) == "open"
    early = look_at([right[:, :3]], [wrong], [8], 1)
    assert (early.state, early.stop, early.rounds, early.value) == ("open", False, 3, 1.0)
    assert math.isnan(early.interval.low)
