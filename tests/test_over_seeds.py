"""Methods over seeds: values by hand, what the errors must do, and how often the interval holds the truth."""

import math

import numpy as np
import pytest

from stapo_bench.analysis.seed_comparison import (
    changes_by_task,
    compare_over_seeds,
)
from stapo_bench.presenting import seeds_sentence
from stapo_bench.records import Outcomes
from stapo_bench.statistics import SEED_ERRORS, over_seeds

SEEDS, BOTH = SEED_ERRORS


def run_of(*right):
    """A run of one task with ten samples of each problem, so many of them right."""
    return {"t": Outcomes.of_counts({f"p{i}": (count, 10) for i, count in enumerate(right)})}


def test_both_errors_by_hand():
    # d = [[2, 8], [4, 8], [3, 8]] tenths. D = 5, 6, 5.5; var = 1/4; V_s = 1/12.  Means of problems 3, 8: P = 12.5 / 2.
    # Rests: d - row - column + 5.5 = -.5, .5 / .5, -.5 / 0, 0: E = 1 / (2 * 1) / 6 = 1/12.
    # V = 1/12 + 6.25 - 1/12 = 6.25; degrees 6.25^2 / (1/144 / 2 + 6.25^2 / 1).
    changes = [np.array([[0.2, 0.8], [0.4, 0.8], [0.3, 0.8]])]
    seeds, both = over_seeds(changes, SEEDS), over_seeds(changes, BOTH)
    assert seeds.value == both.value == pytest.approx(0.55)
    assert (seeds.standard_error, seeds.degrees) == (pytest.approx(math.sqrt(1 / 12) / 10), 2)
    assert both.standard_error == pytest.approx(0.25)
    assert both.degrees == pytest.approx(6.25**2 / (1 / 288 + 6.25**2))


def test_the_broader_error_is_never_narrower_nor_surer():
    # D = 2, 6 tenths: V_s = 4; V = 7 with 49/32 degrees: 6.0 * sqrt(7) < 12.7 * sqrt(4).
    changes = [np.array([[0.1, 0.3], [0.3, 0.9]])]
    assert over_seeds(changes, BOTH) == over_seeds(changes, SEEDS)
    # Far in the tails few degrees weigh more than a smaller variance: p is 0.007 over seeds, 0.003 over both.
    gains = [[5, 9, 7, 6], [6, 6, 6, 3], [7, 8, 9, 4]]
    runs = {"A": [run_of(0, 0, 0, 0)] * 3, "B": [run_of(*row) for row in gains]}
    (found,) = compare_over_seeds(runs, [("A", "B")])
    seeds, both = found.effects
    assert both.difference.interval().width > seeds.difference.interval().width
    assert both.difference.p_value == pytest.approx(0.00265, abs=1e-5)
    assert both.p_adjusted == seeds.p_adjusted == pytest.approx(0.00736, abs=1e-5)


def test_two_tasks_weigh_the_same_whatever_their_size():
    # D_s = (0.2 + 0.0) / 2, (0.4 + 0.2) / 2 = 0.1, 0.3: V_s = 0.02 / 2.  Task 2: all problems alike, P = E = 0.
    # Task 1: one rest of +-0.0: means of problems 0.3, 0.3: P = 0. V = V_s.
    changes = [np.array([[0.2, 0.2], [0.4, 0.4]]), np.array([[0.0, 0.0, 0.0], [0.2, 0.2, 0.2]])]
    for error in SEED_ERRORS:
        found = over_seeds(changes, error)
        assert (found.value, found.standard_error) == (pytest.approx(0.2), pytest.approx(0.1))
        assert found.num_problems == 5


def test_the_variance_over_problems_is_a_floor():
    # Rests dominate: D = 0, 0 and problems' means 0, 0, but V_s + P - E would be negative.
    changes = [np.array([[0.5, -0.5, 0.1], [-0.5, 0.5, 0.0]])]
    both = over_seeds(changes, BOTH)
    assert both.standard_error >= over_seeds(changes, SEEDS).standard_error > 0


def test_a_problem_that_some_seed_left_undecided_is_left_out():
    changes = [np.array([[0.1, np.nan, 0.3], [0.3, 0.7, 0.9]])]
    assert over_seeds(changes, BOTH) == over_seeds([np.array([[0.1, 0.3], [0.3, 0.9]])], BOTH)
    assert math.isnan(over_seeds([np.full((2, 2), np.nan)], SEEDS).value)


def test_one_seed_or_no_variation_tells_nothing():
    one = over_seeds([np.array([[0.1, 0.3]])], BOTH)
    assert one.value == pytest.approx(0.2) and math.isnan(one.p_value) and math.isnan(one.interval().low)
    assert math.isnan(over_seeds([np.zeros((3, 4))], SEEDS).p_value)


def test_runs_become_changes_and_a_verdict():
    worse = [run_of(1, 3), run_of(2, 4), run_of(1, 4)]
    better = [run_of(6, 8), run_of(7, 9), run_of(6, 8)]
    (changes,) = changes_by_task(worse, better)
    assert changes == pytest.approx(np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.4]]))
    (found,) = compare_over_seeds({"A": worse, "B": better}, [("A", "B")])
    # D = 0.5, 0.5, 0.45: mean 29/60, standard error 1/60, t_0.975(2) = 4.303: 48.3 -+ 7.2.
    assert found.effects[0].difference.interval().low == pytest.approx(29 / 60 - 4.302653 / 60)
    assert seeds_sentence(found).startswith("B is better than A: +48.3 points [")
    with pytest.raises(ValueError, match="got 3 and 2"):
        changes_by_task(worse, better[:2])


def test_holm_over_the_pairs():
    rng = np.random.default_rng(0)
    runs = {
        name: [run_of(*rng.binomial(10, rate, 8)) for _ in range(5)]
        for name, rate in {"A": 0.3, "B": 0.4, "C": 0.5}.items()
    }
    alone = compare_over_seeds(runs, [("A", "B")])[0].effects[0]
    together = compare_over_seeds(runs, [("A", "B"), ("A", "C")])[0].effects[0]
    assert alone.difference == together.difference
    assert alone.p_adjusted <= together.p_adjusted <= 2 * alone.p_adjusted + 1e-12


def test_the_words_for_ties_and_for_too_little_data():
    same = [run_of(5, 5, 5, 4), run_of(5, 5, 5, 5), run_of(5, 5, 5, 5), run_of(5, 5, 5, 5)]
    other = [run_of(5, 5, 5, 5), run_of(5, 5, 5, 5), run_of(5, 5, 5, 5), run_of(5, 5, 5, 4)]
    (tied,) = compare_over_seeds({"A": same, "B": other}, [("A", "B")], margin=0.1)
    assert seeds_sentence(tied).startswith("B and A are tied within ±")
    (unknown,) = compare_over_seeds({"A": same[:1], "B": other[:1]}, [("A", "B")])
    assert seeds_sentence(unknown).startswith("Not enough data to tell B from A: +2.5 points, [–]")


@pytest.mark.parametrize(("error", "sd_problem"), [(SEEDS, 0.0), (BOTH, 0.3)])
def test_the_interval_holds_the_truth_in_about_95_of_100(error, sd_problem):
    rng = np.random.default_rng(7)
    held, trials = 0, 600
    for _ in range(trials):
        changes = [
            0.1 + shift[:, None] + rng.normal(0, sd_problem, num) + rng.normal(0, 0.3, (5, num))
            for shift in [rng.normal(0, 0.03, 5)]
            for num in (20, 40)
        ]
        interval = over_seeds(changes, error).interval()
        held += interval.low <= 0.1 <= interval.high
    assert 0.92 < held / trials < 0.985  # standard error 0.009


def test_both_errors_of_two_tasks_by_hand():
    # d, in hundredths, of both tasks: [[-3, 1], [-4, 4], [-2, 4]]. D = -1, 0, 1: V_s = 1 / 3.  Means of problems -3, 3:
    # P = 18 / 2 = 9. Rests +-1, +-1, 0: E = 4 / (2 * 1) / (3 * 2) = 1/3.
    # V = 1/3 + 2 (9 - 1/3) / 2^2 = 14/3; degrees (14/3)^2 / ((1/3)^2 / 2 + 2 (9/4)^2 / 1).
    changes = [np.array([[-3.0, 1.0], [-4.0, 4.0], [-2.0, 4.0]]) / 100] * 2
    both = over_seeds(changes, BOTH)
    assert both.standard_error == pytest.approx(math.sqrt(14 / 3) / 100)
    assert both.degrees == pytest.approx((14 / 3) ** 2 / (1 / 18 + 81 / 8))
