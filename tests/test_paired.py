"""Paired differences: hand values, size and power by simulation, Holm by the book."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_outcomes import logistic, sample_matrix

from stapo_bench.statistics.difference import Difference
from stapo_bench.statistics.intervals import ERROR_NAMES, Interval, t_quantile
from stapo_bench.statistics.paired import (
    contrast,
    holm,
    mean_difference,
    paired_difference,
)

NAN = float("nan")


def rejections(pairs, error):
    return np.mean([paired_difference(a, b, error).p_value < 0.05 for a, b in pairs])


def test_by_hand():
    a = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=float)  # means 1/2, 0, 1
    b = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]], dtype=float)  # means 1, 1/2, 1
    these = paired_difference(a, b, "these problems")
    like = paired_difference(a, b, "problems like these")
    assert these.value == like.value == pytest.approx(1 / 3)
    # noise: problem 1 of A and problem 2 of B have s^2 = 1/4 * 4/3 = 1/3, / 4 samples; priors 1 / (2 * 16) each
    assert these.standard_error == pytest.approx(math.sqrt(1 / 12 + 1 / 12 + 1 / 32 + 1 / 32) / 3)
    # differences 1/2, 1/2, 0: sum of squares 1/6 and the priors; / 2, / 3
    assert like.standard_error == pytest.approx(math.sqrt((1 / 6 + 1 / 16) / 2 / 3))
    assert like.degrees == 2
    # sum of cubes 2 / 216 - 1 / 27 = -1 / 36, its noise sqrt(2 / 6^6 + 1 / 3^6) = 1 / 26.6: nothing is beyond it
    assert like.skewness == 0.0
    # unseen losses: 5 / 7 of the cubes and a quarter of a full problem; gains: a share alone, as the mean shows some
    share = 0.25 * math.exp(-((1 / 3 / like.standard_error) ** 2))
    losses, gains = (5 / 7 / 36 + 0.25) / (1 / 6 + 0.25) / 3, share / (1 / 6 + share) / 3
    assert like.unseen == (pytest.approx(losses), pytest.approx(gains))
    # t with 2 degrees: q = 4.30265, which reaches beyond the estimate by as many standard errors, and further by what
    # was not seen: y^2 = l^2 + 3 (1 - 0.025^(1/3)) gains y
    length, half = 4.30265 * like.standard_error, 3 * (1 - 0.025 ** (1 / 3)) * gains / 2
    assert like.unclipped().high == pytest.approx(1 / 3 + half + math.hypot(half, length), abs=1e-4)
    assert like.interval().high == 1.0  # no share rises by more


def test_skewness_by_hand():
    """4 of 16 problems are gained in full, 4 samples each: c = 3/4 four times, -1/4 twelve times."""
    gained = np.zeros((16, 4))
    gained[:4] = 1.0
    found = paired_difference(np.zeros((16, 4)), gained, "problems like these")
    # sum of squares 4 * 9/16 + 12/16 = 3 and the priors 1/16; of cubes (4 * 27 - 12) / 64 = 3/2; of sixth powers
    # (4 * 729 + 12) / 4096 = 2928/4096, a share 0.3177 of (3/2)^2; four changed alike: 4 / 24 of the rest is believed
    beyond = 1 - 2928 / 4096 / 2.25
    assert found.skewness == pytest.approx(1.5 / (3 + 1 / 16) ** 1.5 * beyond * 4 / 24)
    # the lower bound lies T standard errors below the estimate, T + s T^2 / 3 + s^2 T^3 / 27 + s / 6 = q
    s, below = found.skewness, (0.25 - found.unclipped().low) / found.standard_error
    assert below + s * below**2 / 3 + s**2 * below**3 / 27 + s / 6 == pytest.approx(t_quantile(0.95, 15))


def test_only_common_problems_count():
    a = np.array([[1.0, 0.0], [NAN, NAN], [0.0, 0.0]])
    b = np.array([[1.0, 1.0], [1.0, 1.0], [NAN, 0.0]])
    difference = paired_difference(a, b, "these problems")
    assert difference.num_problems == 2
    assert difference.value == pytest.approx(0.25)


def test_different_numbers_of_samples_may_be_compared():
    a, b = np.array([[1.0, 0.0]] * 4), np.array([[1.0, 0.0, 1.0, 1.0]] * 4)
    assert paired_difference(a, b, "these problems").value == pytest.approx(0.25)


def test_the_order_of_runs_only_turns_the_sign():
    rng = np.random.default_rng(0)
    a, b = (sample_matrix(rng, rng.random(10), 4) for _ in range(2))
    for error in ERROR_NAMES:
        there, back = paired_difference(a, b, error), paired_difference(b, a, error)
        assert there.value == -back.value
        assert there.p_value == pytest.approx(back.p_value)


def test_nothing_in_common_cannot_be_decided():
    difference = paired_difference(np.array([[NAN], [1.0]]), np.array([[1.0], [NAN]]), "these problems")
    assert math.isnan(difference.value)
    assert math.isnan(difference.p_value)


def test_runs_without_any_difference_are_not_proof_of_none():
    same = np.array([[1.0] * 4] * 15 + [[0.0] * 4] * 15)
    for error in ERROR_NAMES:
        difference = paired_difference(same, same, error)
        assert difference.p_value == 1.0
        assert 0.005 < difference.interval().high < (0.05 if error == "these problems" else 0.13)


@pytest.mark.parametrize("num_samples", [1, 4])
def test_equal_changes_of_scores_are_as_uncertain_whatever_their_rounding(num_samples):
    """0.75 + 0.1 - 0.75 is not 0.1 in floating point, and the difference of two such changes is nothing seen."""
    a = np.repeat(np.arange(30)[:, None] * 0.03, num_samples, axis=1)
    these, like = (paired_difference(a, a + 0.1, error) for error in ERROR_NAMES)
    # prior 0.5 / k^2 of each run: sqrt(1 / k^2 / 29 / 30), and sqrt(1 / k^2) / 30
    assert like.standard_error == pytest.approx(1 / num_samples / math.sqrt(29 * 30))
    if num_samples > 1:
        assert these.standard_error == pytest.approx(1 / num_samples / 30)
    assert these.interval().width > 0.02 and like.interval().width > 0.02


def test_pairing_takes_the_difficulty_out_of_the_error():
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 3, 100)
    a, b = sample_matrix(rng, logistic(logits), 16), sample_matrix(rng, logistic(logits + 0.5), 16)
    unpaired = math.sqrt(a.mean(axis=1).var(ddof=1) / 100 + b.mean(axis=1).var(ddof=1) / 100)
    assert paired_difference(a, b, "problems like these").standard_error < unpaired / 3


SIZES = [(30, 32), (100, 4)]
MANY = pytest.mark.slow(reason="6,000 comparisons each")


@pytest.mark.parametrize("difficulty", ["spread out", pytest.param("hard", marks=MANY)])
@pytest.mark.parametrize(
    ("num_problems", "num_samples"), [(30, 4), *(pytest.param(*size, marks=MANY) for size in SIZES)]
)
def test_size_is_five_percent(num_problems, num_samples, difficulty):
    """No difference: the same rates for these problems, mean-zero differences between problems for the other error."""
    rng = np.random.default_rng(11)
    center = {"spread out": 0.0, "hard": -2.0}[difficulty]
    fixed = logistic(np.sort(rng.normal(center, 1.5, num_problems)))
    twins = [[sample_matrix(rng, fixed, num_samples) for _ in range(2)] for _ in range(3000)]
    assert 0.04 <= rejections(twins, "these problems") <= 0.06

    def exchangeable():
        logits = rng.normal(center, 1.5, (1, num_problems)) + rng.normal(0, 0.5, (2, num_problems))
        return [sample_matrix(rng, logistic(row), num_samples) for row in logits]

    assert 0.04 <= rejections([exchangeable() for _ in range(3000)], "problems like these") <= 0.06


def test_power_for_seven_points_at_30_by_32_is_at_least_90_percent():
    rng = np.random.default_rng(12)
    logits = np.linspace(-4, 2, 30)
    shift = np.linspace(0, 2, 2001)
    gains = np.array([logistic(logits + s).mean() for s in shift]) - logistic(logits).mean()
    better = logistic(logits + shift[np.searchsorted(gains, 0.07)])
    pairs = [(sample_matrix(rng, logistic(logits), 32), sample_matrix(rng, better, 32)) for _ in range(600)]
    for error in ERROR_NAMES:
        assert rejections(pairs, error) >= 0.90


@pytest.mark.slow(reason="coverage by simulation")
def test_interval_of_the_mean_over_tasks_covers():
    rng = np.random.default_rng(13)
    shapes = [(30, 32, -2.0), (40, 32, 0.0), (100, 4, 1.0)]
    covered = dict.fromkeys(ERROR_NAMES, 0)
    effect = 0.4  # logits
    fixed = [rng.normal(center, 1.5, n) for n, _, center in shapes]
    wide = [rng.normal(center, 1.5, 400_000) for _, _, center in shapes]
    truth = {
        "these problems": np.mean([(logistic(x + effect) - logistic(x)).mean() for x in fixed]),
        "problems like these": np.mean([(logistic(x + effect) - logistic(x)).mean() for x in wide]),
    }
    for _ in range(1500):
        drawn = [rng.normal(center, 1.5, n) for n, _, center in shapes]
        for error, logits in (("these problems", fixed), ("problems like these", drawn)):
            parts = [
                paired_difference(
                    sample_matrix(rng, logistic(x), k), sample_matrix(rng, logistic(x + effect), k), error
                )
                for x, (_, k, _) in zip(logits, shapes, strict=True)
            ]
            interval = mean_difference(parts).interval()
            covered[error] += interval.low <= truth[error] <= interval.high
    for error in ERROR_NAMES:
        assert 0.93 <= covered[error] / 1500 <= 0.97


def test_mean_difference_by_hand():
    parts = [
        Difference(value=0.1, standard_error=0.03, degrees=29, num_problems=30),
        Difference(value=0.3, standard_error=0.04, degrees=9, num_problems=10),
    ]
    mean = mean_difference(parts)
    assert mean.value == pytest.approx(0.2)
    assert mean.standard_error == pytest.approx(0.05 / 2)
    # (0.0009 + 0.0016)^2 / (0.0009^2 / 29 + 0.0016^2 / 9)
    assert mean.degrees == pytest.approx(0.0025**2 / (0.0009**2 / 29 + 0.0016**2 / 9))
    assert mean.num_problems == 40
    assert mean.skewness == 0.0
    # third moments 0.2 * 0.03^3 and -0.1 * 0.04^3 over (0.05^2)^1.5
    skewed = mean_difference([replace(part, skewness=s) for part, s in zip(parts, (0.2, -0.1), strict=True)])
    assert skewed.skewness == pytest.approx((0.2 * 0.03**3 - 0.1 * 0.04**3) / 0.05**3)


def difference(value, skewness):
    return Difference(value=value, standard_error=0.03, degrees=29, num_problems=30, skewness=skewness)


@given(value=st.floats(-0.3, 0.3), skewness=st.floats(-0.3, 0.3))
def test_the_interval_leaves_out_zero_just_where_the_test_rejects(value, skewness):
    found = difference(value, skewness)
    interval = found.interval()
    assert (found.p_value < 0.05) == (interval.low > 0 or interval.high < 0)
    assert interval.low < value < interval.high
    turned = difference(-value, -skewness)
    assert turned.p_value == pytest.approx(found.p_value)
    assert turned.interval().low == pytest.approx(-interval.high)


def test_an_interval_reaches_further_to_where_the_gains_are_rare_and_large():
    """Of 30 problems 5 gain 10 points or 50: the population's mean gain may well be more, hardly be less."""
    found = difference(0.05, 0.2).interval()
    assert found.high - 0.05 > 1.3 * (0.05 - found.low)
    plain = difference(0.05, 0.0).interval()
    assert plain.high - 0.05 == pytest.approx(0.05 - plain.low)


@pytest.mark.slow(reason="coverage by simulation, 4,000 pairs of runs")
def test_gains_of_few_problems_are_covered():
    """70 % of the problems cannot gain, 30 % gain 23 points; a plain t interval covers less."""
    rng = np.random.default_rng(19)
    ours = plain = apart = 0
    for _ in range(4000):
        rates = rng.uniform(0, 0.75, 30) * (rng.random(30) < 0.3)
        better = np.where(rates > 0, rates + 0.23, 0.0)
        a, twin, b = (sample_matrix(rng, r, 32) for r in (rates, rates, better))
        found = paired_difference(a, b, "problems like these")
        for kept in (True, False):
            interval = (found if kept else replace(found, skewness=0.0, unseen=(0.0, 0.0))).interval()
            held = interval.low <= 0.069 <= interval.high
            ours, plain = ours + (held and kept), plain + (held and not kept)
        apart += paired_difference(a, twin, "problems like these").p_value < 0.05
    assert 0.93 <= ours / 4000 <= 0.975  # standard error 0.4 points; the upper bound also holds gains that are rarer
    assert plain < ours
    assert 0.04 <= apart / 4000 <= 0.06


def test_a_task_without_data_leaves_the_mean_open():
    known = Difference(value=0.1, standard_error=0.03, degrees=math.inf, num_problems=30)
    assert math.isnan(
        mean_difference([known, paired_difference(np.empty((0, 1)), np.empty((0, 1)), "these problems")]).value
    )


def test_contrast_of_four_runs_is_a_difference_of_differences():
    rng = np.random.default_rng(14)
    a1, b1, a2, b2 = (sample_matrix(rng, rng.random(20), 8) for _ in range(4))
    both = contrast([a1, b1, a2, b2], [1, -1, -1, 1], "these problems")
    first, second = paired_difference(a1, b1, "these problems"), paired_difference(a2, b2, "these problems")
    assert both.value == pytest.approx(second.value - first.value)
    assert both.standard_error == pytest.approx(math.hypot(first.standard_error, second.standard_error))


def test_intervals_end_where_differences_of_shares_do():
    """Two problems, one sample of each run: changes of 1 and 0, a t interval with one degree of freedom."""
    a, b = np.array([[0.0], [0.0]]), np.array([[1.0], [0.0]])
    for error in ERROR_NAMES:
        found = paired_difference(a, b, error)
        plain = found.unclipped()
        assert plain.high > 1.5
        assert found.interval() == Interval(low=max(plain.low, -1.0), high=1.0) and found.tied_within() == 1.0
        assert found.p_value == replace(found, farthest=math.inf).p_value
    change = contrast([b, a, a, b], [1, -1, -1, 1], "problems like these")
    assert change.unclipped().high > 2 and change.interval() == Interval(low=-2.0, high=2.0)
    task = paired_difference(a, b, "problems like these")
    assert task.unclipped().low < -5 and task.interval() == Interval(low=-1.0, high=1.0)
    assert mean_difference([task, task]).interval() == Interval(low=-1.0, high=1.0)
    known = paired_difference(np.zeros((30, 8)), np.full((30, 8), 0.5), "these problems")
    assert known.interval() == known.unclipped()  # what is possible stays


def test_tied_within_is_the_bound_of_two_one_sided_tests():
    normal = Difference(value=-0.01, standard_error=0.01, degrees=math.inf, num_problems=100)
    assert normal.tied_within() == pytest.approx(0.01 + 1.6449 * 0.01, abs=1e-5)
    # of six bounds that hold together each is at 5 % / 6: the normal quantile of 1 - 0.05 / 6 is 2.3940
    assert normal.tied_within(6) == pytest.approx(0.01 + 2.3940 * 0.01, abs=1e-5)


def test_holm_by_the_book():
    assert holm([0.01, 0.04, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), pytest.approx(0.06)]
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    adjusted = holm([0.01, NAN, 0.02])
    assert adjusted[0] == pytest.approx(0.02)  # two tests, not three
    assert math.isnan(adjusted[1])


@pytest.mark.slow(reason="a rate of false alarms by simulation")
def test_holm_keeps_false_alarms_of_six_tasks_below_five_percent():
    rng = np.random.default_rng(15)
    rates = logistic(np.linspace(-3, 3, 30))
    alarms = 0
    for _ in range(600):
        pairs = [[sample_matrix(rng, rates, 8) for _ in range(2)] for _ in range(6)]
        alarms += min(holm([paired_difference(a, b, "these problems").p_value for a, b in pairs])) < 0.05
    assert alarms / 600 <= 0.068  # 0.05 and two standard errors


def test_the_p_value_of_a_skewed_difference_by_hand():
    # T = 2, s = 0.3: g = 2 + 0.3 * 4 / 3 + 0.09 * 8 / 27 + 0.3 / 6 = 2.476667; 2 Phi(-2.476667)
    found = Difference(value=0.04, standard_error=0.02, degrees=math.inf, num_problems=30, skewness=0.3)
    assert found.p_value == pytest.approx(0.0132616, abs=1e-6)


def test_scores_between_right_and_wrong_have_no_pairs_for_an_exact_test():
    """Seven items that all rise from 0.4 to 0.6: wins and losses would say that at least 30 points were shown."""
    a, b = np.full((7, 1), 0.4), np.full((7, 1), 0.6)
    for error in ERROR_NAMES:
        found = paired_difference(a, b, error)
        assert found.pairs is None
        assert found.value == pytest.approx(0.2) and found.interval().low < 0.2 < found.interval().high
    mixed = paired_difference(np.zeros((7, 1)), b, "problems like these")  # one side alone is right or wrong
    assert mixed.pairs is None and mixed.interval().low < 0.6 < mixed.interval().high
    assert paired_difference(np.zeros((7, 1)), np.ones((7, 1)), "problems like these").pairs == (7, 0)


@pytest.mark.parametrize("num", [5, 15])
def test_single_scores_of_few_problems_are_covered(num):
    rng = np.random.default_rng(0)
    before = rng.beta(2, 2, (1000, num, 1))
    after = np.clip(before + rng.normal(0.1, 0.1, before.shape), 0, 1)
    truth = float((after - before).mean())  # of 1000 problems times ``num``
    intervals = [paired_difference(a, b, "problems like these").interval() for a, b in zip(before, after, strict=True)]
    assert np.mean([interval.low <= truth <= interval.high for interval in intervals]) >= 0.92
