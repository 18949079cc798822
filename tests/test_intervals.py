"""Intervals cover what they claim: measured on simulated benchmarks whose success rates are known."""

import warnings

import numpy as np
import pytest

from stapo_bench.statistics.estimators import avg_at_k
from stapo_bench.statistics.intervals import (
    ERROR_NAMES,
    Interval,
    clustered_variance,
    interval,
    macro_interval,
    ordinary_quantile,
    sampling_variance,
)

REPETITIONS = 1500  # standard error of a coverage of 95 %: 0.56 points

POPULATIONS = {
    "spread out": lambda rng, size: rng.beta(0.5, 0.5, size),
    "hard": lambda rng, size: rng.beta(0.3, 3.0, size),  # mean 0.09, most problems near 0
    "easy": lambda rng, size: rng.beta(3.0, 0.3, size),  # mean 0.91
    "mostly unsolved": lambda rng, size: rng.random(size) * (rng.random(size) < 0.3),  # 70 % have rate 0
}
MEANS = {"spread out": 0.5, "hard": 0.3 / 3.3, "easy": 3.0 / 3.3, "mostly unsolved": 0.15}
DESIGNS = [
    (30, 4),
    *(
        pytest.param(*size, marks=pytest.mark.slow(reason="coverage by simulation, of more samples and problems"))
        for size in ((30, 32), (500, 4))
    ),
]


def sample_matrix(rng, rates, num_samples):
    return (rng.random((len(rates), num_samples)) < rates[:, None]).astype(float)


def typical_rates(rng, population, num_problems):
    """A fixed benchmark: equally spaced quantiles of a population."""
    return np.sort(POPULATIONS[population](rng, num_problems * 101))[50::101]


def coverage(truth, intervals):
    return np.mean([i.low <= truth <= i.high for i in intervals])


def test_degrees_of_scores_are_those_of_problems_or_of_samples_whichever_are_more():
    # Student's t_0.975: 3.182 with 3 degrees, 4.303 with 2.
    assert ordinary_quantile(np.array([[0.2], [0.4], [0.6], [0.8]]), "these problems") == pytest.approx(
        3.1824, abs=1e-4
    )
    assert ordinary_quantile(np.array([[0.2, 0.1], [0.4, 0.3]]), "these problems") == pytest.approx(4.3027, abs=1e-4)


def test_one_problem_shows_nothing_of_others_and_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(clustered_variance(np.array([[1.0, 0.0]])))
    # Means 1/2 and 1: s^2 = 2 (1/4)^2 = 1/8, of two problems.
    assert clustered_variance(np.array([[1.0, 0.0], [1.0, 1.0]])) == 1 / 16


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize(("num_problems", "num_samples"), DESIGNS)
def test_coverage_for_these_problems(num_problems, num_samples, population):
    rng = np.random.default_rng(2411)
    rates = typical_rates(rng, population, num_problems)
    found = [interval(sample_matrix(rng, rates, num_samples), "these problems") for _ in range(REPETITIONS)]
    assert 0.93 <= coverage(rates.mean(), found) <= 0.97


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize(("num_problems", "num_samples"), DESIGNS)
def test_coverage_for_problems_like_these(num_problems, num_samples, population):
    rng = np.random.default_rng(640)
    found = [
        interval(sample_matrix(rng, POPULATIONS[population](rng, num_problems), num_samples), "problems like these")
        for _ in range(REPETITIONS)
    ]
    assert 0.93 <= coverage(MEANS[population], found) <= 0.97


@pytest.mark.parametrize("rate", [0.005, 0.02, 0.98, 0.995])
def test_near_the_ends_no_interval_is_too_narrow(rate):
    # Few successes come in whole numbers, so the coverage cannot be 95 % exactly; it may exceed it.
    rng = np.random.default_rng(3)
    rates = np.full(30, rate)
    for error in ERROR_NAMES:
        for num_samples in (4, 32):
            found = [interval(sample_matrix(rng, rates, num_samples), error) for _ in range(400)]
            assert coverage(rate, found) >= 0.93


def test_the_textbook_interval_fails_where_ours_holds():
    """Rare problems with a high rate: the mean of 30 is skewed, and mean ± 1.96 s / sqrt(n) misses far too often."""
    rng = np.random.default_rng(4)
    ours, textbook = [], []
    for _ in range(REPETITIONS):
        correct = sample_matrix(rng, 0.9 * (rng.random(30) < 0.05), 32)
        ours.append(interval(correct, "problems like these"))
        half = 1.96 * np.sqrt(clustered_variance(correct))
        textbook.append(Interval(low=avg_at_k(correct) - half, high=avg_at_k(correct) + half))
    assert coverage(0.045, ours) >= 0.93
    assert coverage(0.045, textbook) <= 0.85


@pytest.mark.slow(reason="coverage by simulation")
def test_macro_average_over_six_tasks_covers_both_errors():
    rng = np.random.default_rng(5)
    shapes = [(30, 32, "hard"), (30, 32, "mostly unsolved"), (40, 32, "spread out")]
    shapes += [(100, 4, "easy"), (60, 4, "hard"), (120, 4, "spread out")]
    fixed = [typical_rates(rng, name, n) for n, _, name in shapes]
    truths = {
        "these problems": np.mean([rates.mean() for rates in fixed]),
        "problems like these": np.mean([MEANS[name] for _, _, name in shapes]),
    }
    found = {error: [] for error in ERROR_NAMES}
    for _ in range(1000):
        drawn = [POPULATIONS[name](rng, n) for n, _, name in shapes]
        for error, rates in (("these problems", fixed), ("problems like these", drawn)):
            tasks = [sample_matrix(rng, r, k) for r, (_, k, _) in zip(rates, shapes, strict=True)]
            found[error].append(macro_interval([avg_at_k(t) for t in tasks], [interval(t, error) for t in tasks]))
    for error in ERROR_NAMES:
        assert 0.93 <= coverage(truths[error], found[error]) <= 0.97


def test_nothing_right_gives_an_honest_upper_end():
    zeros = np.zeros((30, 32))
    # q^2 / (size + q^2): q = 1.96 and 960 samples; q = t_29 = 2.045 and 30 problems
    assert interval(zeros, "these problems").high == pytest.approx(0.00398, abs=1e-5)
    assert interval(zeros, "problems like these").high == pytest.approx(0.1224, abs=1e-4)
    assert interval(zeros, "these problems").low == 0.0


def test_right_and_wrong_are_symmetric():
    rng = np.random.default_rng(6)
    correct = sample_matrix(rng, rng.random(30) ** 3, 4)
    for error in ERROR_NAMES:
        there, back = interval(correct, error), interval(1 - correct, error)
        assert (there.low, there.high) == (pytest.approx(1 - back.high), pytest.approx(1 - back.low))


def test_new_problems_add_error_and_more_samples_take_it_away():
    rng = np.random.default_rng(7)
    rates = rng.beta(0.5, 0.5, 40)
    few, many = sample_matrix(rng, rates, 4), sample_matrix(rng, rates, 64)
    assert interval(few, "these problems").width > 2 * interval(many, "these problems").width
    assert interval(many, "problems like these").width > 3 * interval(many, "these problems").width


def test_variances_by_hand():
    correct = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, np.nan, np.nan]])
    # s_1^2 = 1/4 * 3/4 * 4/3 = 1/4, s_2^2 = 0; (1/2)^2 (1/4 / 4 + 0 / 2) = 1/64
    assert sampling_variance(correct) == pytest.approx(1 / 64)
    # means 1/4 and 1: variance (0.375^2 + 0.375^2) / 1 = 0.28125; / 2
    assert clustered_variance(correct) == pytest.approx(0.140625)


def test_one_sample_per_problem_counts_as_independent_draws():
    correct = np.array([[1.0]] * 3 + [[0.0]] * 7)
    # p (1 - p) = 0.21 for every problem; / 10
    assert sampling_variance(correct) == pytest.approx(0.021)


def test_missing_samples_widen_the_interval():
    rng = np.random.default_rng(8)
    correct = sample_matrix(rng, rng.random(30), 32)
    partial = correct.copy()
    partial[:, 8:] = np.nan
    assert interval(partial, "these problems").width > 1.5 * interval(correct, "these problems").width


def test_what_the_data_cannot_tell_is_nan():
    assert np.isnan(interval(np.array([[1.0, 0.0]]), "problems like these").low)
    assert np.isnan(interval(np.full((2, 2), np.nan), "these problems").low)
    assert np.isnan(macro_interval([], []).high)
    known = Interval(low=0.1, high=0.6)
    assert np.isnan(macro_interval([0.4, 0.5], [known, interval(np.array([[1.0, 0.0]]), "problems like these")]).low)


def test_macro_interval_by_hand():
    parts = [Interval(low=0.1, high=0.6), Interval(low=0.76, high=0.92)]
    # values 0.4, 0.8: below (0.3, 0.04), above (0.2, 0.12); mean 0.6
    got = macro_interval([0.4, 0.8], parts)
    assert got.low == pytest.approx(0.6 - np.hypot(0.3, 0.04) / 2)
    assert got.high == pytest.approx(0.6 + np.hypot(0.2, 0.12) / 2)


def test_a_macro_interval_does_not_leave_the_scores_there_are():
    wide = [Interval(low=-0.2, high=1.2)]
    assert macro_interval([0.5], wide) == Interval(low=0.0, high=1.0)


def test_scores_between_0_and_1_by_hand():
    scores = np.array([[0.4, 0.6], [0.9, 0.7]])
    # s^2 = 0.02 of both: Var = 2 x 0.02 / 2 / 4; means 0.5 and 0.8: 0.045 / 2
    assert sampling_variance(scores) == pytest.approx(0.005) and clustered_variance(scores) == pytest.approx(0.0225)
    # These: 0.04 / 0.455 of the variance, so 4 samples are as good as 45.5, and t of 2 degrees is 4.3027:
    # 18.513 / 45.5 = 0.40688, centre (0.65 + 0.20344) / 1.40688, half sqrt(0.40688 x 0.2275 + 0.20344^2) / 1.40688
    found = interval(scores, "these problems")
    assert (found.low, found.high) == pytest.approx((0.34647, 0.86677), abs=2e-5)
    # nothing varied: as if half a sample had come out the other way; a value beyond 1 is refused
    assert interval(np.full((30, 4), 0.5), "these problems").width > 0.0
    with pytest.raises(ValueError, match="from 0 to 1"):
        interval(scores + 1.0, "these problems")


def test_two_problems_and_two_scores_are_the_fewest_that_vary():
    # Means 1 and 0: 1.05 / 0.55 of the variance, so that two problems are as good as 1.0476, and t of one degree is
    # 12.7062: 0.5 -+ 0.5 sqrt(161.448 / 162.495)
    found = interval(np.array([[1.0], [0.0]]), "problems like these")
    assert (found.low, found.high) == pytest.approx((0.0016144, 0.9983856), abs=1e-6)
    assert ordinary_quantile(np.array([[0.4, 0.6]]), "these problems") == pytest.approx(12.7062, abs=1e-4)


@pytest.mark.parametrize("value", [0.003, 0.1, 0.5, 0.7, 0.9, 1 / 3])
@pytest.mark.parametrize("num_samples", [1, 4])
@pytest.mark.filterwarnings("error")
def test_equal_scores_are_as_uncertain_whatever_their_rounding(value, num_samples):
    """Seven times 0.003 has a variance of -6e-20 in floating point, 30 times 0.7 one of 3e-18: both are 0."""
    for num in (7, 30):
        scores = np.full((num, num_samples), value)
        assert 0.0 <= sampling_variance(scores) < 1e-16
        # d = prior / (n m (1 - m) + prior); Wilson's half at size n k / d
        for error, prior, per_problem in zip(ERROR_NAMES, (0.5 / num_samples, 0.05), (num_samples, 1), strict=True):
            q = ordinary_quantile(scores, error)
            shift = q**2 * prior / (num * value * (1 - value) + prior) / (num * per_problem)
            half = np.sqrt(shift * value * (1 - value) + shift**2 / 4) / (1 + shift)
            found = interval(scores, error)
            centre = (value + shift / 2) / (1 + shift)
            assert (found.low, found.high) == pytest.approx((max(0.0, centre - half), centre + half), rel=1e-6)
            assert found.width > 0.003


@pytest.mark.parametrize("error", ERROR_NAMES)
def test_scores_near_1_are_covered(error):
    rng = np.random.default_rng(3)
    held = []
    for _ in range(400):
        centre = rng.beta(20.0, 1.0, 30)
        scores = rng.beta(30.0 * centre[:, None] + 1e-9, 30.0 * (1.0 - centre[:, None]) + 1e-9, (30, 4))
        found = interval(scores, error)
        held.append(found.low <= (centre.mean() if error == "these problems" else 20.0 / 21.0) <= found.high)
    assert np.mean(held) == pytest.approx(0.945, abs=0.03)  # Student's: 0.927 for problems like these
