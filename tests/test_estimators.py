"""Point estimates against hand values, brute force over all subsets, and their defining properties."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stapo_bench.statistics.estimators import (
    answer_classes,
    avg_at_k,
    g_pass_at_k,
    maj_at_k,
    mg_pass_at_k,
    pass_at_k,
    pass_hat_k,
    problem_means,
    score_bounds,
    stability,
)

NAN = float("nan")


@st.composite
def matrices(draw, max_samples=6):
    """[1-4, 1-6] matrices of 0, 1 and NaN in which every problem has a decided sample."""
    num_samples = draw(st.integers(1, max_samples))
    row = st.lists(st.sampled_from([0.0, 1.0, NAN]), min_size=num_samples, max_size=num_samples)
    rows = draw(st.lists(row.filter(lambda r: not all(np.isnan(r))), min_size=1, max_size=4))
    return np.array(rows)


def fewest(correct):
    return int((~np.isnan(correct)).sum(axis=1).min())


def over_subsets(correct, k, statistic):
    """Mean over problems of the mean over all k-subsets of decided samples: the slow definition."""
    rows = [[int(x) for x in row if not np.isnan(x)] for row in correct]
    return np.mean([np.mean([statistic(subset) for subset in combinations(row, k)]) for row in rows])


def test_avg_weighs_problems_not_samples():
    # problem 1: 1/4; problem 2: 2/2 (two samples missing); (0.25 + 1) / 2; the mean of the six samples would be 0.5
    assert avg_at_k(np.array([[1, 0, 0, 0], [1, 1, NAN, NAN]], dtype=float)) == 0.625


def test_avg_leaves_out_a_problem_without_decided_samples():
    assert avg_at_k(np.array([[1.0, 0.0], [NAN, NAN]])) == 0.5
    assert np.isnan(avg_at_k(np.full((3, 2), NAN)))


def test_problem_means_keep_their_rows():
    means = problem_means(np.array([[1.0, 0.0], [NAN, NAN], [NAN, 1.0]]))
    assert means[0] == 0.5
    assert np.isnan(means[1])
    assert means[2] == 1.0


def test_values_between_zero_and_one_are_refused():
    with pytest.raises(ValueError, match="not an outcome"):
        avg_at_k(np.array([[0.5, 1.0]]))


@given(matrices(), st.randoms())
def test_avg_does_not_depend_on_the_order_of_samples(correct, random):
    shuffled = correct.copy()
    for row in shuffled:
        row[:] = random.sample(list(row), len(row))
    assert avg_at_k(shuffled) == pytest.approx(avg_at_k(correct))


def test_ungraded_samples_make_bounds_and_missing_ones_do_not():
    correct = np.array([[1.0, NAN, 0.0, NAN]])
    ungraded = np.array([[False, True, False, False]])
    # decided 1, 0; undecided one; one never drawn: (1 + 0 + 0) / 3 to (1 + 1 + 0) / 3
    assert score_bounds(correct, ungraded) == (pytest.approx(1 / 3), pytest.approx(2 / 3))


def test_pass_at_2_of_one_success_in_four():
    # 1 - C(3, 2) / C(4, 2) = 1 - 3/6 = 0.5
    assert pass_at_k(np.array([[1.0, 0.0, 0.0, 0.0]]), k=2) == pytest.approx(0.5)


@settings(max_examples=60)
@given(matrices())
def test_subset_metrics_equal_brute_force(correct):
    for k in range(1, fewest(correct) + 1):
        assert pass_at_k(correct, k) == pytest.approx(over_subsets(correct, k, any))
        assert pass_hat_k(correct, k) == pytest.approx(over_subsets(correct, k, all))
        for tau in (0.25, 0.5, 0.75, 1.0):
            expected = over_subsets(correct, k, lambda s, tau=tau: sum(s) >= max(1, int(np.ceil(tau * len(s)))))
            assert g_pass_at_k(correct, k, tau) == pytest.approx(expected)


@given(matrices())
def test_pass_at_1_is_avg_and_pass_at_k_never_falls(correct):
    curve = [pass_at_k(correct, k) for k in range(1, fewest(correct) + 1)]
    assert curve[0] == pytest.approx(avg_at_k(correct))
    assert all(b >= a - 1e-12 for a, b in pairwise(curve))


def test_k_beyond_the_fewest_samples_is_refused():
    correct = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, NAN]])
    for metric in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match=r"expected 1 <= k <= 2, .* got k = 3"):
            metric(correct, 3)
        with pytest.raises(ValueError, match="got k = 0"):
            metric(correct, 0)


def test_pass_at_k_is_exact_for_many_samples():
    # 1 - C(992, 512) / C(1000, 512), by exact integers: 1 - prod_{i=0}^{7} (488 - i) / (1000 - i)
    correct = np.array([[1.0] * 8 + [0.0] * 992])
    exact = 1 - np.prod([(488 - i) / (1000 - i) for i in range(8)])
    assert pass_at_k(correct, 512) == pytest.approx(exact, rel=1e-10)


def test_g_pass_does_not_trip_over_rounding():
    # 0.28 * 25 = 7.000000000000001 in floating point; the threshold is 7 of 25, which 7 of 25 right meet
    assert 0.28 * 25 > 7
    assert g_pass_at_k(np.array([[1.0] * 7 + [0.0] * 18]), 25, 0.28) == pytest.approx(1.0)


def test_mg_pass_is_the_mean_over_the_upper_half():
    correct = np.array([[1.0, 1.0, 1.0, 0.0]])
    # k = 4: i = 3, 4; G-Pass@4_{3/4} = 1, G-Pass@4_{4/4} = 0; (2/4) (1 + 0) = 0.5
    assert mg_pass_at_k(correct, 4) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="k >= 2"):
        mg_pass_at_k(correct, 1)


@pytest.mark.parametrize(
    ("right", "classes", "expected"),
    [
        ([1, 1, 0, 0, 0], [5, 5, 1, 2, 3], 1.0),  # two right votes beat single ones
        ([1, 0, 0], [5, 1, 1], 0.0),
        ([1, 1, 0, 0], [5, 5, 1, 1], 0.5),  # a tie of two: half
        ([1, 0, 0, 0], [5, 1, 2, 3], 0.25),  # a tie of four
        ([1, 0, 0, 0], [5, -1, -1, -1], 1.0),  # no answer does not vote
        ([0, 0, 0, 0], [-1, -1, -1, -1], 0.0),  # nobody votes
        ([1, 1, 0, 0, 0], [5, 6, 1, 1, 2], 0.5),  # right answers of two classes are one: each equals the gold
    ],
)
def test_majority_of_all_samples(right, classes, expected):
    correct = np.array([right], dtype=float)
    assert maj_at_k(correct, np.array([classes]), len(right)) == pytest.approx(expected)


def slow_majority(row, classes, k):
    shares = []
    for subset in combinations(range(len(row)), k):
        votes = {}
        for i in subset:
            if row[i] or classes[i] >= 0:
                name = "right" if row[i] else int(classes[i])
                votes[name] = votes.get(name, 0) + 1
        leaders = [name for name, count in votes.items() if count == max(votes.values())]
        shares.append(("right" in leaders) / len(leaders) if leaders else 0.0)
    return np.mean(shares)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.integers(-1, 3)), min_size=1, max_size=7))
def test_majority_equals_brute_force_over_subsets(samples):
    row = [right for right, _ in samples]
    classes = [number for _, number in samples]
    for k in range(1, len(row) + 1):
        got = maj_at_k(np.array([row], dtype=float), np.array([classes]), k)
        assert got == pytest.approx(slow_majority(row, classes, k))
        gaps = np.array([[*row, np.nan, np.nan]], dtype=float), np.array([[*classes, -1, 0]])  # nothing was said there
        assert maj_at_k(*gaps, k) == pytest.approx(got)


def test_a_problem_of_which_nothing_is_decided_has_no_majority():
    correct, classes = np.array([[NAN, NAN, NAN], [1.0, 1.0, 0.0]]), np.array([[0, 1, 1], [0, 0, 1]])
    assert maj_at_k(correct, classes, 3) == 1.0


def test_answer_classes_compare_with_a_representative():
    equal = {("0.5", "1/2"), ("3.0", "3")}
    classes = answer_classes(
        ["1/2", None, "0.5", "3", "1/2", "3.0"], same=lambda a, b: a == b or (a, b) in equal or (b, a) in equal
    )
    assert classes == [0, -1, 0, 1, 0, 1]
    assert answer_classes(["1/2", "0.5", "1/2"]) == [0, 1, 0]


@pytest.mark.parametrize(("fewest", "k"), [(0, 0), (1, 0), (2, 2), (3, 2), (15, 8), (16, 16), (17, 16), (64, 16)])
def test_stability_is_over_the_largest_power_of_two_up_to_sixteen(fewest, k):
    correct = np.tile([1.0, 1.0, 1.0, 0.0], (2, 16))
    expected = {f"G-Pass@{k}_{tau:g}": g_pass_at_k(correct, k, tau) for tau in (0.5, 0.75, 1.0)} if k else {}
    assert stability(correct, fewest) == expected | ({f"mG-Pass@{k}": mg_pass_at_k(correct, k)} if k else {})


def test_what_is_no_share_of_k_or_no_class_of_each_sample_is_refused():
    correct = np.array([[1.0, 0.0, 0.0]])
    assert g_pass_at_k(correct, 2, 0.0) == pytest.approx(pass_at_k(correct, 2))  # at least one
    for tau in (-0.01, 1.01):
        with pytest.raises(ValueError, match="expected 0 <= tau <= 1"):
            g_pass_at_k(correct, 2, tau)
    with pytest.raises(ValueError, match=r"expected classes of shape \(1, 3\)"):
        maj_at_k(correct, np.array([[0, 1]]), 1)
    with pytest.raises(ValueError, match=r"got shape \(3,\)"):
        pass_at_k(correct[0], 1)
    assert math.isnan(avg_at_k(np.full((2, 2), NAN)))


def test_an_undecided_problem_is_no_division_by_zero():
    with np.errstate(all="raise"):
        means = problem_means(np.array([[np.nan, np.nan], [1.0, 0.0]]))
    np.testing.assert_array_equal(means, [np.nan, 0.5])
