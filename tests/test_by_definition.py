"""Statistics against slow references in plain Python, from the formulas, sharing nothing with the fast code."""

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import t

from stapo_bench.statistics import Difference, Interval, interval, mean_difference, paired_difference
from stapo_bench.statistics.difference import UNDECIDED, Pairs
from stapo_bench.statistics.intervals import confidence_of, t_quantile
from stapo_bench.statistics.paired import Beyond, like_these
from stapo_bench.statistics.sequential import anytime, boundary, widening

NAN = math.nan


def root(function, low, high):
    """Where a growing function becomes 0, by halving."""
    for _ in range(90):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high


# --- a difference with its interval ----------------------------------------------------------------------------------


def hall(found, quantile):
    s = found.skewness
    return root(lambda x: x + s * x**2 / 3 + s**2 * x**3 / 27 + s / 6 - quantile, -500, 500)


def upper(value, length, unseen):
    """value + length as far as 0, and beyond it the y with (gap + y)^2 = length^2 + unseen y."""
    gap = max(0, -value)
    if length < gap:
        return value + length
    return max(0, value) + root(lambda y: (gap + y) ** 2 - length**2 - unseen * y - 1e-300, 0, 50)


def slow_interval(found, confidence):
    tail = (1 - confidence) / 2
    quantile = -NormalDist().inv_cdf(tail) if found.degrees == math.inf else t.isf(tail, found.degrees)
    num = found.num_clusters or found.num_problems
    none_drawn = num * (1 - tail ** (1 / num))
    low = -upper(-found.value, hall(found, quantile) * found.standard_error, none_drawn * found.unseen[0])
    high = upper(found.value, -hall(found, -quantile) * found.standard_error, none_drawn * found.unseen[1])
    return low, high


def differences():
    rng = np.random.default_rng(0)
    for number in range(60):
        yield Difference(
            value=float(rng.normal(0, 0.15)),
            standard_error=float(rng.uniform(0.02, 0.2)),
            degrees=(math.inf, 4.0, 29.0, 7.5)[number % 4],
            num_problems=int(rng.integers(5, 60)),
            num_clusters=(None, 5)[number % 2],
            skewness=float(rng.choice([0.0, 0.3, -0.2, 1e-5])),
            unseen=tuple(rng.uniform(0, 0.1, 2)),
            unseen_by_ties=None if number % 3 else tuple(rng.uniform(0.1, 0.3, 2)),
            farthest=(math.inf, 0.3)[number // 2 % 2],
        )


@pytest.mark.parametrize("confidence", [0.95, 0.8, 0.999])
def test_an_interval_is_halls_with_room_for_what_was_not_drawn(confidence):
    for found in differences():
        low, high = slow_interval(found, confidence)
        plain, cut = found.unclipped(confidence), found.interval(confidence)
        assert (plain.low, plain.high) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))
        assert (cut.low, cut.high) == (max(plain.low, -found.farthest), min(plain.high, found.farthest))
        if found.unseen_by_ties:
            low, high = slow_interval(replace(found, unseen=found.unseen_by_ties), confidence)
        expected = min(max(-low, high), found.farthest)
        assert found.tied_at(confidence) == pytest.approx(expected, abs=1e-9)


def test_ties_hold_at_five_percent_together():
    for found in differences():
        assert found.tied_within() == found.tied_at(0.9)
        assert found.tied_within(4) == pytest.approx(found.tied_at(0.975))
        s, ratio = found.skewness, found.value / found.standard_error
        turned = abs(ratio + s * ratio**2 / 3 + s**2 * ratio**3 / 27 + s / 6)
        tails = NormalDist().cdf(-turned) if found.degrees == math.inf else t.sf(turned, found.degrees)
        assert found.p_value == pytest.approx(2 * tails)
    assert math.isnan(UNDECIDED.p_value) and math.isnan(UNDECIDED.interval().high) and UNDECIDED.degrees == math.inf


def mid_p(wins, losses):
    total, few = wins + losses, min(wins, losses)
    return 2 * (sum(math.comb(total, x) for x in range(few)) + math.comb(total, few) / 2) / 2**total


def least_share(wins, losses, level):
    """The share of wins at which so many or more would come out in half of ``level``, those equal by half."""
    total = wins + losses

    def excess(share):
        chances = [math.comb(total, x) * share**x * (1 - share) ** (total - x) for x in range(wins, total + 1)]
        return sum(chances) - chances[0] / 2 - level / 2

    return root(excess, 0, 1)


@pytest.mark.parametrize("wins", range(9))
@pytest.mark.parametrize("losses", [0, 1, 3, 8])
def test_pairs_are_fair_coins(wins, losses):
    pairs = Pairs(wins, losses)
    assert pairs.p_value == pytest.approx(mid_p(wins, losses))
    assert pairs.smallest_p == pytest.approx(mid_p(wins + losses, 0))
    for level in (0.05, 0.2) if wins + losses else ():
        expected = (wins + losses) * (2 * least_share(wins, losses, level) - 1)
        assert pairs.least_gain(level) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("wins", "losses"), [(9, 0), (0, 9), (6, 4), (4, 6), (12, 3), (3, 12), (20, 4), (4, 20), (20, 5)]
)
def test_the_interval_of_few_pairs_leaves_out_zero_where_they_are_told_apart(wins, losses):
    found = Difference(
        value=(wins - losses) / 40, standard_error=0.09, degrees=39, num_problems=40, pairs=Pairs(wins, losses)
    )
    for confidence in (0.95, 0.5):
        plain, seen = replace(found, pairs=None).unclipped(confidence), found.unclipped(confidence)
        if wins + losses >= 25:
            assert (seen, found.p_value) == (plain, replace(found, pairs=None).p_value)
            continue
        assert found.p_value == pytest.approx(mid_p(wins, losses))
        if mid_p(wins, losses) >= 1 - confidence:
            assert seen == Interval(low=min(plain.low, 0.0), high=max(plain.high, 0.0))
            continue
        least = (wins + losses) * (2 * least_share(max(wins, losses), min(wins, losses), 1 - confidence) - 1) / 40
        near, far = (plain.low, plain.high) if wins > losses else (-plain.high, -plain.low)
        near = min(near, least) if near > 0 else least
        assert (seen.low, seen.high) == pytest.approx((near, far) if wins > losses else (-far, -near), abs=1e-6)


# --- the difference of two runs --------------------------------------------------------------------------------------


def slow_like_these(changes, beyond):
    n = len(changes)
    mean = sum(changes) / n
    c = [d - mean for d in changes]
    second, third, sixth = (sum(x**power for x in c) for power in (2, 3, 6))
    effective = sum(d**2 for d in changes) ** 2 / sum(d**4 for d in changes)
    error = math.sqrt((second + beyond.prior) / (n - 1) / n)
    own = max(0, 1 - sixth / third**2)
    few, reach = 5 / (effective + 5), beyond.reach
    everything = [beyond.farthest] * 2
    if beyond.prior == 0:
        normal = max(0, 1 - 9 * 6 * second**3 / n**2 / third**2)
        few, reach = few * max(normal, own), min(beyond.farthest, (1 + normal / 2) * reach)

    def gammas(reaches):
        for sign, far in zip((-1, 1), reaches, strict=True):
            weight = math.exp(-(max(0, sign * mean / error) ** 2)) / 4
            yield (max(0, sign * few * third) + weight * far**3) / (second + weight * far**2) / n

    skewness = own * effective / (effective + 20) * third / (second + beyond.prior) ** 1.5
    ties = tuple(gammas(everything)) if beyond.prior == 0 else None
    reaches = [beyond.farthest if full else reach for full in beyond.in_full]
    return mean, error, skewness, tuple(gammas(reaches)), ties


def test_what_problems_like_these_say_by_their_formulas():
    rng = np.random.default_rng(1)
    for number in range(40):
        rare = rng.random(25) < 0.15
        changes = np.where(rare, rng.uniform(0, 1, 25) ** 0.2, 0) + 0.02 * rng.normal(size=25) * (number % 3)
        changes = (-1) ** number * (changes + 1e-3)
        beyond = Beyond(prior=(0.0, 0.3)[number // 2 % 2], reach=0.4 + 0.5 * (number % 2), farthest=1.0)
        if beyond.prior == 0:
            beyond = beyond._replace(in_full=(number % 3 == 1, number % 5 == 1))
        found = like_these(changes, beyond)
        value, error, skewness, unseen, by_ties = slow_like_these(changes.tolist(), beyond)
        assert (found.value, found.standard_error) == (pytest.approx(value), pytest.approx(error))
        assert (found.degrees, found.num_problems, found.num_clusters, found.farthest) == (24, 25, None, 1.0)
        assert found.skewness == pytest.approx(skewness) and found.unseen == pytest.approx(unseen)
        assert found.unseen_by_ties == (None if by_ties is None else pytest.approx(by_ties))
    one = like_these(np.array([0.5]), Beyond(0.1, 1.0, 1.0))
    assert (one.value, one.num_problems) == (0.5, 1) and math.isnan(one.standard_error)


def test_the_mean_over_tasks_by_its_formulas():
    a = Difference(
        value=0.1, standard_error=0.03, degrees=4, num_problems=20, num_clusters=5, skewness=0.4,
        unseen=(0.01, 0.05), unseen_by_ties=(0.2, 0.02), farthest=1.0,
    )  # fmt: skip
    b = Difference(value=0.4, standard_error=0.04, degrees=9, num_problems=10, unseen=(0.03, 0.01), farthest=2.0)
    found = mean_difference([a, b])
    assert (found.value, found.standard_error) == (pytest.approx(0.25), pytest.approx(0.05 / 2))
    assert found.degrees == pytest.approx(0.0025**2 / (0.0009**2 / 4 + 0.0016**2 / 9))  # variances 9, 16 and 25
    assert found.skewness == pytest.approx(0.4 * 0.027 / 0.125)  # third moments 0.4 of 0.03^3, of 0.05^3
    assert (found.num_problems, found.num_clusters, found.num_units) == (30, 15, 15)
    assert found.unseen == (pytest.approx(0.015), pytest.approx(0.025))
    assert found.unseen_by_ties == (pytest.approx(0.1), pytest.approx(0.01))
    assert found.farthest == 1.5
    plain = mean_difference([replace(a, num_clusters=None, unseen_by_ties=None), b])
    assert (plain.num_clusters, plain.unseen_by_ties, plain.num_units) == (None, None, 30)
    known = mean_difference([replace(b, degrees=math.inf)] * 2)
    assert known.degrees == math.inf
    assert mean_difference([a]) is a and repr(mean_difference([])) == repr(UNDECIDED)


def slow_these(a, b):
    """(standard error, degrees) of B - A on these problems, rights and wrongs without a single sample."""
    n = len(a)
    noise = 0
    for row in (*a, *b):
        k, mean = len(row), sum(row) / len(row)
        noise += sum((x - mean) ** 2 for x in row) / (k - 1) / k
    prior = sum((sum(1 / len(row) for row in run) / n) ** 2 / 2 for run in (a, b))
    return math.sqrt(noise + prior) / n


def test_the_error_on_these_problems_is_the_noise_and_half_a_sample():
    rng = np.random.default_rng(2)
    for _ in range(10):
        a, b = ([rng.integers(0, 2, rng.integers(2, 6)).tolist() for _ in range(7)] for _ in range(2))
        matrices = [np.array([row + [NAN] * (6 - len(row)) for row in run], dtype=float) for run in (a, b)]
        found = paired_difference(*matrices, "these problems")
        assert found.standard_error == pytest.approx(slow_these(a, b))
        assert (found.degrees, found.num_problems, found.farthest) == (math.inf, 7, 1.0)
        assert (found.pairs, found.unseen, found.skewness) == (None, (0.0, 0.0), 0.0)


def test_the_error_of_scores_on_these_problems_is_their_noise_alone():
    rng = np.random.default_rng(6)
    for counts in ((3, 4), (2, 2)):
        a, b = ([rng.uniform(0.2, 0.8, count).tolist() for _ in range(7)] for count in counts)
        noise = sum(np.var(row, ddof=1) / len(row) for row in (*a, *b))
        found = paired_difference(np.array(a), np.array(b), "these problems")
        assert found.standard_error == pytest.approx(math.sqrt(noise) / 7)
        assert found.degrees == max(6, 7 * sum(counts) - 14)
    # Equal samples of unequal problems show no noise: half a sample of one further problem, as far as changes reach.
    a, b = np.array([[0.2] * 4, [0.4] * 4]), np.array([[0.4] * 4, [0.4] * 4])  # changes 0.2 and 0: 0.1 from their mean
    found = paired_difference(a, b, "these problems")
    assert found.standard_error == pytest.approx(math.sqrt(2 * 0.5 / 16) * 0.1 / 2)
    assert found.degrees == 12


def test_the_prior_of_clusters_is_that_of_a_problems_part():
    # Two clusters of two, means 1 and 0: squares 1/2 and of the prior 0.4 a quarter, over 2 - 1 and 2.
    found = like_these(np.array([1.0, 1.0, 0.0, 0.0]), Beyond(0.4, 1.0, 1.0), np.array([0, 0, 1, 1]))
    assert found.standard_error == pytest.approx(math.sqrt((0.5 + 0.1) / 2))
    assert (found.value, found.num_problems, found.num_clusters, found.degrees) == (0.5, 4, 2, pytest.approx(1.0))


# --- one run ---------------------------------------------------------------------------------------------------------


def wilson(mean, size, quantile):
    """Both p with |mean - p| = quantile sqrt(p (1 - p) / size), as the roots of the quadratic equation."""
    a, b, c = 1 + quantile**2 / size, -2 * mean - quantile**2 / size, mean**2
    part = math.sqrt(b * b - 4 * a * c)
    return max(0, (-b - part) / (2 * a)), min(1, (-b + part) / (2 * a))


@pytest.mark.parametrize("scores", [False, True])
def test_intervals_are_wilsons_with_the_effective_number_of_samples(scores):
    rng = np.random.default_rng(3)
    for _ in range(20):
        rows = [rng.integers(0, 5 if scores else 2, rng.integers(1, 6)) / (4 if scores else 1) for _ in range(8)]
        matrix = np.array([[*row, *[NAN] * (6 - len(row))] for row in map(list, rows)])
        means = [row.mean() for row in rows]
        mean, n = sum(means) / 8, 8
        inverse = sum(1 / len(row) for row in rows) / n
        # unseen spread of a single sample: that of all scores, each problem weighing the same
        pooled = sum((row**2).mean() for row in rows) / n - mean**2
        own = [row.var(ddof=1) if len(row) > 1 else pooled for row in rows]
        # the variance of the mean, in samples of the equal number k that the unequal ones are worth
        within = sum(s / len(row) / inverse for s, row in zip(own, rows, strict=True))
        prior = 0 if scores else 0.5 * inverse
        size = n / inverse * (n * mean * (1 - mean) + prior) / (within + prior)
        samples = sum(map(len, rows))
        quantile = t.isf(0.025, samples - n) if scores else -NormalDist().inv_cdf(0.025)
        if samples - n < n - 1 and scores:
            quantile = t.isf(0.025, n - 1)
        found = interval(matrix, "these problems")
        assert (found.low, found.high) == pytest.approx(wilson(mean, size, quantile), abs=1e-9)
        between, prior = n * np.var(means, ddof=1), 0 if scores else 0.05
        size = n * (n * mean * (1 - mean) + prior) / (between + prior)
        found = interval(matrix, "problems like these")
        assert (found.low, found.high) == pytest.approx(wilson(mean, size, t.isf(0.025, n - 1)), abs=1e-9)


@pytest.mark.parametrize("degrees", [1.0, 3.5, 200.0])
def test_confidence_is_the_quantiles_inverse(degrees):
    assert confidence_of(t_quantile(0.9, degrees), degrees) == pytest.approx(0.9)
    assert t_quantile(0.9, degrees) == pytest.approx(t.isf(0.05, degrees))


def test_the_bound_of_every_look_is_where_the_likelihoods_ratio_is_twenty():
    """Robbins' mixture: exp(x^2 / (2 (1 + eta V))) sqrt(eta V / (1 + eta V)) = 1 / 0.05 at x standard errors."""
    best = -2 * math.log(0.05) + math.log(-2 * math.log(0.05)) + 1
    for standard_error, aim in ((0.0033, 0.01), (0.02, 0.01), (0.001, 0.03)):
        x = boundary(standard_error**2, aim)
        scaled = standard_error**2 / ((aim / 3) ** 2 * best)
        assert math.exp(x**2 / (2 * (1 + scaled))) * math.sqrt(scaled / (1 + scaled)) == pytest.approx(20)
        assert widening(standard_error, aim) == pytest.approx(x / -NormalDist().inv_cdf(0.025))
        one = Difference(value=0.1, standard_error=standard_error, degrees=9, num_problems=30, pairs=Pairs(3, 1))
        wide = anytime(one, aim)
        assert wide == replace(one, standard_error=standard_error * widening(standard_error, aim), pairs=None)
    assert math.isnan(boundary(NAN, 0.01)) and math.isfinite(boundary(0.0, 0.01))


# --- clusters, printed means and copies ------------------------------------------------------------------------------
