"""Methods over seeds: values by hand, what the errors must do, and how often the interval holds the truth."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import nct

from stapo_bench.analysis.seed_comparison import (
    changes_by_task,
    compare_over_seeds,
)
from stapo_bench.presenting import seeds_sentence
from stapo_bench.records import Outcomes
from stapo_bench.statistics import SEED_ERRORS, Interval, Spread, over_seeds, seeds_needed, spread, t_quantile

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
    assert replace(over_seeds(changes, BOTH), unseen=(0.0, 0.0)) == over_seeds(changes, SEEDS)
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


def test_intervals_of_methods_end_where_shares_do():
    runs = {"A": [run_of(1, 0), run_of(9, 10)], "B": [run_of(9, 9), run_of(2, 1)]}
    (found,) = compare_over_seeds(runs, [("A", "B")])
    everything = Interval(low=-1.0, high=1.0)
    assert all(effect.difference.interval() == everything for effect in found.effects)
    # D = 0.85, -0.8: mean 0.025, standard error 0.825, t(1) = 0.0303: p = 1 - 2 atan(t) / pi
    assert found.effects[0].difference.p_value == pytest.approx(0.98071, abs=1e-4)


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


def test_a_task_of_one_problem_says_nothing_of_problems_like_it():
    # Seeds alone can be judged: D = 1/10, 3/10, their variance 1/50 over 2 seeds. What another problem would say is
    # not known, whatever the other task says.
    alone, other = np.array([[0.1], [0.3]]), np.array([[0.1, 0.3, 0.2], [0.3, 0.2, 0.4]])
    assert over_seeds([alone], SEEDS).standard_error == pytest.approx(0.1)
    for changes in ([alone], [other, alone], [alone, other]):
        both = over_seeds(changes, BOTH)
        assert math.isnan(both.standard_error) and math.isnan(both.p_value)
        assert both.value == over_seeds(changes, SEEDS).value
    # Two problems are enough, with many seeds and with few.
    assert over_seeds([np.array([[0.1, 0.3], [0.3, 0.9]])] * 2, BOTH).standard_error > 0
    # The spread knows the part of the seeds, and none of the single problem.
    found = spread([alone])
    assert found.of_seeds == ((pytest.approx(0.02), 2),) and found.of_problems == ((0.0, 1),)
    assert spread([np.array([[0.1, 0.3]])]).of_problems == () and math.isnan(spread([np.array([[0.1, 0.3]])]).seeds)


def test_the_parts_of_a_spread_by_hand():
    # Independent methods, one task of two problems. B: rows .2 .8 / .4 .8 / .3 .8, A: .1 .1 / .1 .3.
    # Means of seeds .5 .6 .55 and .1 .2: variances 1/400 and 1/200 over 3 and 2 seeds.
    # Means of problems .3 - .1 and .8 - .2: P = .08 / 2. Rests +-.05, +-.05, 0 and +-.05, +-.05:
    # E = .01 / 2 / 6 + .01 / 1 / 4.
    b, a = np.array([[0.2, 0.8], [0.4, 0.8], [0.3, 0.8]]), np.array([[0.1, 0.1], [0.1, 0.3]])
    found = spread([b], [a])
    assert found.of_seeds == ((pytest.approx(1 / 400), 3), (pytest.approx(1 / 200), 2))
    assert found.of_problems == ((pytest.approx(0.04 - 0.01 / 12 - 0.01 / 4), 2),)
    assert found.seeds == pytest.approx(math.sqrt(1 / 1200 + 1 / 400))
    both = over_seeds([b], BOTH, [a])
    variance, of_seeds, of_problems = 1 / 300 + 0.04 - 1 / 300, ((1 / 1200) ** 2 / 2, (1 / 400) ** 2), 0.04**2
    assert both.value == pytest.approx(0.4) and both.standard_error == pytest.approx(math.sqrt(variance))
    assert both.degrees == pytest.approx(variance**2 / (sum(of_seeds) + of_problems))
    seeds = over_seeds([b], SEEDS, [a])  # Welch: degrees (1/300)^2 / ((1/1200)^2 / 2 + (1/400)^2 / 1)
    assert seeds.degrees == pytest.approx((1 / 300) ** 2 / sum(of_seeds))


def test_the_part_of_the_problems_is_never_below_zero():
    # Means of problems 0.1, -0.1 and 0 with rests of +-1: what both share is more than what the problems vary by.
    found = spread([np.array([[1.1, -1.1, 0.0], [-0.9, 0.9, 0.0]])])
    assert found.of_problems == ((0.0, 3),) and found.problems == 0.0


def test_seeds_needed_are_the_first_with_the_power_by_scipys_noncentral_t():
    def power(variance, count, detect):
        return float(nct.sf(t_quantile(0.95, count - 1), count - 1, detect / math.sqrt(variance / count)))

    for deviation in (0.011, 0.02, 0.05, 0.12):
        number = seeds_needed(of_seeds(deviation**2), -0.02, SEEDS).number
        assert power(deviation**2, number, 0.02) >= 0.8 > power(deviation**2, number - 1, 0.02)
    assert math.isinf(seeds_needed(of_seeds(4.0), 0.02, SEEDS).number)  # 78,488 by the normal distribution: too many
    assert seeds_needed(of_seeds(0.6**2), 0.02, SEEDS).number == pytest.approx(30.0**2 * 7.8489, rel=0.001)
    more = seeds_needed(of_seeds(0.02**2), 0.02, SEEDS, power=0.9).number
    assert power(0.02**2, more, 0.02) >= 0.9 > power(0.02**2, more - 1, 0.02)
    assert math.isnan(seeds_needed(of_seeds(0.0), 0.02, SEEDS).fewest)


@pytest.mark.parametrize(("ratio", "expected"), [(1150, 9029), (1273, 9994), (1274, math.inf)])
def test_seeds_are_counted_up_to_the_most_that_are_asked_for(ratio, expected):
    # (1.95996 + 0.84162)^2 = 7.84888 standard errors squared: times the ratio 9026.2, 9991.6 and 9999.5, and Student's
    # t asks for 1.96^2 / 2 = 1.92 more than the normal distribution.
    assert seeds_needed(of_seeds(ratio * 0.02**2), 0.02, SEEDS).number == expected


def slow_variance(groups):
    """V of both errors by sums over single cells: two-way random effects, by the method of moments."""
    (_, first), num_tasks = groups[0], len(groups[0][1])
    of_seeds = of_problems = shared = 0.0
    for _, tasks in groups:
        averages = [sum(sum(task[s]) / len(task[s]) for task in tasks) / num_tasks for s in range(len(tasks[0]))]
        mean = sum(averages) / len(averages)
        of_seeds += sum((a - mean) ** 2 for a in averages) / (len(averages) - 1) / len(averages)
    for t in range(num_tasks):
        num = len(first[t][0])
        problems = [sum(sign * sum(row[i] for row in g[t]) / len(g[t]) for sign, g in groups) for i in range(num)]
        mean = sum(problems) / num
        of_problems += sum((p - mean) ** 2 for p in problems) / (num - 1) / num / num_tasks**2
        for _, g in groups:
            rows, all_ = g[t], sum(map(sum, g[t])) / (len(g[t]) * num)
            rests = sum(
                (row[i] - sum(row) / num - sum(other[i] for other in rows) / len(rows) + all_) ** 2
                for row in rows
                for i in range(num)
            )
            shared += rests / ((len(rows) - 1) * (num - 1)) / (len(rows) * num) / num_tasks**2
    return of_seeds, max(of_seeds + of_problems - shared, of_seeds, of_problems)


@pytest.mark.parametrize("seeds", [(4, None), (4, 4), (3, 5)])
def test_variances_are_those_of_sums_over_single_cells(seeds):
    rng = np.random.default_rng(sum(filter(None, seeds)))
    b, a = (None if num is None else [rng.random((num, n)) for n in (6, 9)] for num in seeds)
    groups = [(1, [t.tolist() for t in b]), *([(-1, [t.tolist() for t in a])] if a else [])]
    of_seeds, both = slow_variance(groups)
    assert over_seeds(b, SEEDS, a).standard_error == pytest.approx(math.sqrt(of_seeds))
    assert over_seeds(b, BOTH, a).standard_error in (pytest.approx(math.sqrt(both)), pytest.approx(math.sqrt(of_seeds)))


def test_variances_are_those_of_a_bootstrap():
    """Seeds and problems drawn again with replacement; that variance counts the noise of cells about three times."""
    rng = np.random.default_rng(4)
    changes = 0.05 + rng.normal(0, 0.05, (12, 1)) + rng.normal(0, 0.2, (1, 60)) + rng.normal(0, 0.05, (12, 60))
    drawn = [
        (
            changes[rng.integers(12, size=12)].mean(),
            changes[np.ix_(rng.integers(12, size=12), rng.integers(60, size=60))].mean(),
        )
        for _ in range(4000)
    ]
    of_seeds, both = np.std(drawn, axis=0)
    assert over_seeds([changes], SEEDS).standard_error == pytest.approx(of_seeds * math.sqrt(12 / 11), rel=0.05)
    assert over_seeds([changes], BOTH).standard_error == pytest.approx(both, rel=0.08)


@pytest.mark.parametrize(("error", "sd_problem"), [(SEEDS, 0.0), (BOTH, 0.3)])
def test_the_interval_of_methods_with_other_seeds_holds_the_truth_in_about_95_of_100(error, sd_problem):
    rng = np.random.default_rng(8)
    held, trials = 0, 600
    for _ in range(trials):
        gains = [0.1 + rng.normal(0, sd_problem, num) for num in (20, 40)]
        a, b = (
            [
                shift[:, None] + sign * gain + rng.normal(0, 0.3, (num_seeds, len(gain)))
                for shift in [rng.normal(0, 0.03 * num_seeds, num_seeds)]
                for gain in gains
            ]
            for sign, num_seeds in ((0, 3), (1, 6))
        )
        interval = over_seeds(b, error, a).interval()
        held += interval.low <= 0.1 <= interval.high
    assert 0.92 < held / trials < 0.985  # standard error 0.009


def test_equal_seeds_are_compared_seed_by_seed_in_any_order_and_others_as_independent():
    a, b = [run_of(1, 3), run_of(4, 6)], [run_of(6, 8), run_of(3, 5)]  # B - A: 2 tenths for seeds 7 and 8
    (paired,) = compare_over_seeds({"A": a, "B": b}, [("A", "B")], seeds={"A": (7, 8), "B": (8, 7)})
    assert paired.paired and math.isnan(paired.effects[0].difference.standard_error)  # both changes are 0.2
    assert paired.effects[0].difference.value == pytest.approx(0.2)
    (other,) = compare_over_seeds({"A": a, "B": b}, [("A", "B")], seeds={"A": (7, 8), "B": (8, 9)})
    # Averages 0.2, 0.5 and 0.7, 0.4: variances 0.045 each, over 2 seeds each.
    assert not other.paired and other.effects[0].difference.standard_error == pytest.approx(math.sqrt(0.045))
    (one_seed,) = compare_over_seeds({"A": a, "B": b}, [("A", "B")], seeds={"A": (0, 0), "B": (0, 0)})
    assert not one_seed.paired


def of_seeds(*variances, count=5):
    return Spread(of_seeds=tuple((v, count) for v in variances), of_problems=())


def test_the_seeds_that_two_points_need():
    # Published sample sizes of the paired t test at 80 %: 10 for an effect of one standard deviation, 34 for a half.
    found = [seeds_needed(of_seeds((0.02 / effect) ** 2), 0.02, SEEDS).number for effect in (1.0, 0.5, 20.0)]
    assert found == [10, 34, 2]
    # Of two independent groups with equal deviations, per group: 17 and 64.
    assert [seeds_needed(of_seeds(v, v), 0.02, SEEDS).number for v in (0.02**2, 0.04**2)] == [17, 64]


def test_the_range_of_seeds_is_that_of_the_deviation():
    found = seeds_needed(of_seeds(0.02**2), 0.02, SEEDS)
    # 4 degrees: chi^2 at 2.5 and 97.5 % is 0.4844 and 11.143, so deviations of 0.599 and 2.874 times the observed one.
    ends = [seeds_needed(of_seeds(0.02**2 * 4 / chi), 0.02, SEEDS).number for chi in (11.1433, 0.48442)]
    assert [found.fewest, found.most] == ends and found.fewest < found.number < found.most


def test_problems_limit_what_seeds_can_show():
    apart = Spread(of_seeds=((0.02**2, 5),), of_problems=((0.01**2, 30),))
    assert seeds_needed(apart, 0.02, SEEDS).number == 10
    assert math.isinf(seeds_needed(apart, 0.02, BOTH).number)  # 0.02 / 0.01 is 2 standard errors: power below 80 %
    # Nine seeds: V = 0.02^2 / 9 + 0.01^2, 35 degrees; 0.035 is 2.91 standard errors, t_0.975 = 2.03: power 81 %.
    assert seeds_needed(apart, 0.035, BOTH).number == 9
    assert math.isnan(seeds_needed(spread([np.array([[0.1, 0.3]])]), 0.02, BOTH).number)


@pytest.mark.parametrize("of_problems", [((1e-4, 3),), ((0.5e-4, 2), (0.5e-4, 2))])
def test_seeds_that_hardly_differ_leave_the_degrees_of_the_problems(of_problems):
    # One task of three problems has two degrees, and so have two equally spread tasks of two. With t_0.975(2) = 4.3027
    # a power of 80 % asks for 5.65 standard errors, which are 0.01, by scipy's noncentral t.
    found = Spread(of_seeds=((1e-12, 5),), of_problems=of_problems)
    needed = [seeds_needed(found, 0.01 * effect, BOTH).number for effect in (5.6, 5.7)]
    assert needed == [math.inf, 2]


def test_that_many_seeds_have_the_power():
    rng, deviation, detect = np.random.default_rng(2), 0.02, 0.02
    number = int(seeds_needed(of_seeds(deviation**2), detect, SEEDS).number)
    shown = [over_seeds([rng.normal(detect, deviation, (number, 1))], SEEDS).p_value < 0.05 for _ in range(1500)]
    assert 0.77 < np.mean(shown) < 0.84  # standard error 0.01


def test_gains_of_few_problems_that_were_not_drawn_are_no_tie():
    """One problem in 25 gains a half, two points in all; 30 problems hold none of them in 29 of 100 draws."""
    rng, ties, trials = np.random.default_rng(6), np.zeros(2), 400
    for _ in range(trials):
        base = rng.beta(2, 2, 30) * 0.5
        gain = 0.5 * (rng.random(30) < 0.04)
        changes = rng.binomial(256, base + gain, (6, 30)) / 256 - rng.binomial(256, base, (6, 30)) / 256
        far = (abs(gain.mean()) >= 0.02, True)  # what is not false on the drawn problems is no false tie on them
        for place, error in enumerate(SEED_ERRORS):
            ties[place] += over_seeds([changes], error).tied_within() <= 0.02 and far[place]
    assert (ties / trials <= 0.06).all()


def test_what_was_not_drawn_widens_the_far_side_alone_and_no_test():
    rng = np.random.default_rng(0)
    changes = [rng.normal(0.0, 0.004, (5, 30))]
    seeds, both = over_seeds(changes, SEEDS), over_seeds(changes, BOTH)
    assert seeds.unseen == (0.0, 0.0) and both.unseen[0] > 0 < both.unseen[1]
    # With hardly any spread the bound is that of a quarter of a problem that changed in full: about 3.5 / 30 at 95 %.
    assert both.interval().high == pytest.approx(30 * (1 - 0.025 ** (1 / 30)) / 30, abs=0.01)
    assert both.p_value == replace(both, unseen=(0.0, 0.0)).p_value
    shown = over_seeds([changes[0] + 0.2], BOTH)
    assert shown.interval().low == pytest.approx(replace(shown, unseen=(0.0, 0.0)).interval().low)
