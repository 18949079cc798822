"""Differences where few problems change: coverage, false ties, false claims, and tests of single samples.

The populations are those of ``bench.pairs``, whose record has all of them on more designs.
"""

import math

import numpy as np
import pytest
from scipy import stats

from bench.pairs import AIME24, measure
from stapo_bench.analysis.compare import compare_runs
from stapo_bench.presenting.verdicts import render_comparison, sentence
from stapo_bench.statistics import MARGIN, contrast, mean_difference, paired_difference
from stapo_bench.statistics.difference import FEW_PAIRS, Difference, Pairs

LIKE, THESE = "problems like these", "these problems"
NAN = math.nan


def single(wins, losses, both=0, neither=0):
    """Two runs of one sample per problem."""
    before = [0.0] * wins + [1.0] * losses + [1.0] * both + [0.0] * neither
    after = [1.0] * wins + [0.0] * losses + [1.0] * both + [0.0] * neither
    return np.array(before)[:, None], np.array(after)[:, None]


@pytest.mark.slow(reason="coverage by simulation")
@pytest.mark.parametrize(
    ("population", "design"),
    [
        ("nothing solved, but 4 % half by B", (30, 32)),
        ("nothing solved, but 4 % by B", (30, 4)),
        ("nothing solved, but 2 % by B", (100, 4)),
        ("nothing solved, but 8 % half by B", (100, 32)),
        ("AIME24's rates, 10 % newly solved", (30, 32)),
        ("AIME24's rates, 4 % newly solved", (30, 32)),
        ("two points: 30 % gain 25", (30, 32)),
        ("spread, 4 points", (30, 32)),
    ],
)
def test_rare_gains_are_covered_and_called_no_tie(population, design):
    """Standard error of a share of 95 %: 0.7 points; of 5 % likewise."""
    found = measure(population, design, 1000)[LIKE]
    assert found["covered"] >= 0.925
    assert found["false_tie"] <= 0.06


@pytest.mark.slow(reason="a rate of false alarms by simulation")
@pytest.mark.parametrize(
    ("population", "design"),
    [
        ("AIME24's rates, alike", (100, 4)),
        ("nothing solved, but 5 % half by each", (100, 4)),
        ("spread, no gain", (30, 32)),
    ],
)
def test_equal_runs_are_told_apart_in_five_percent_at_most(population, design):
    assert measure(population, design, 1500)[LIKE]["shown"] <= 0.062


def test_few_coins_of_one_side_are_no_skewness_to_build_on():
    """Three problems of a hundred are won, none is lost: p = 1/4 by the sign test; believing the skewness gave 4 %."""
    b = np.zeros((100, 32))
    b[:3] = 1.0
    assert 0.05 < paired_difference(np.zeros((100, 32)), b, LIKE).p_value < 0.15


@pytest.mark.parametrize("solved", [0, 9])
def test_identical_runs_are_tied_on_these_problems_and_not_on_others(solved):
    same = np.zeros((30, 32))
    same[:solved] = 1.0
    these, like = (paired_difference(same, same, error) for error in (THESE, LIKE))
    assert these.tied_within() < 0.005
    # none of 30 changed: a share of 1 - 0.05^(1/30) may still, in full
    assert like.tied_within() == pytest.approx(1 - 0.05 ** (1 / 30), rel=0.01)
    assert like.interval().high == pytest.approx(1 - 0.025 ** (1 / 30), rel=0.01)


def test_a_tie_needs_as_many_problems_as_the_rule_of_three_says():
    """1 - 0.05^(1/n) <= 2 % from 149 problems on."""
    assert 1 - 0.05 ** (1 / 149) <= MARGIN < 1 - 0.05 ** (1 / 148)
    tied = {
        n: paired_difference(np.zeros((n, 32)), np.zeros((n, 32)), LIKE).tied_within() <= MARGIN for n in (148, 152)
    }
    assert tied == {148: False, 152: True}


@pytest.mark.parametrize("changed", [0, 1, 2, 3, 10])
def test_the_bound_is_poissons_exact_limit_where_all_changes_are_alike(changed):
    """Garwood (1936): half a chi-square quantile with 2 (changed + 1) degrees of freedom."""
    n = 10_000
    found = Difference(
        value=changed / n,
        standard_error=math.sqrt(changed) / n,
        degrees=math.inf,
        num_problems=n,
        unseen=(0.0, 1.0 / n),
    )
    for confidence in (0.90, 0.95):
        expected = stats.chi2.ppf((1 + confidence) / 2, 2 * (changed + 1)) / 2
        assert found.interval(confidence).high * n == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("changed", [1, 2, 3])
def test_the_size_of_few_changes_is_that_of_those_seen(changed):
    n = 10_000
    b = np.zeros((n, 64))
    b[:changed, :32] = 1.0  # gains of one half
    expected = stats.chi2.ppf(0.975, 2 * (changed + 1)) / 2 / 2
    found = paired_difference(np.zeros((n, 64)), b, LIKE).interval().high * n
    assert expected * 0.9 <= found <= expected * 1.3  # a problem that changed in full may be among those not drawn


def test_what_was_not_seen_never_moves_a_bound_between_the_estimate_and_zero():
    shown = Difference(value=0.05, standard_error=0.02, degrees=29, num_problems=30, unseen=(0.03, 0.03))
    plain = Difference(value=0.05, standard_error=0.02, degrees=29, num_problems=30)
    assert shown.interval().low == plain.interval().low > 0
    assert shown.p_value == plain.p_value
    assert shown.interval().high > plain.interval().high
    turned = Difference(value=-0.05, standard_error=0.02, degrees=29, num_problems=30, unseen=(0.03, 0.03))
    assert turned.interval().low == -shown.interval().high
    # continuous at 0: the bound just beyond it differs from the plain one by little
    quantile = stats.t.ppf(0.975, 29)
    for gap in (1e-3, 1e-5):
        edge = Difference(
            value=quantile * 0.02 - gap, standard_error=0.02, degrees=29, num_problems=30, unseen=(0.003, 0.003)
        )
        assert -1.3 * gap < edge.interval().low < -gap


def test_the_mean_over_tasks_expects_the_unseen_where_a_problem_weighs_most():
    parts = [
        Difference(value=0.0, standard_error=1e-9, degrees=29, num_problems=30, unseen=(1 / 30, 1 / 30)),
        Difference(value=0.0, standard_error=1e-9, degrees=99, num_problems=100, unseen=(1 / 100, 1 / 100)),
    ]
    assert mean_difference(parts).tied_within() == pytest.approx(130 * (1 - 0.05 ** (1 / 130)) / 30 / 2, rel=1e-4)
    assert mean_difference(parts[:1]) is parts[0]


def test_a_difference_of_differences_may_change_by_twice_as_much():
    zeros = np.zeros((30, 32))
    once = contrast([zeros] * 2, [-1.0, 1.0], LIKE)
    twice = contrast([zeros] * 4, [1.0, -1.0, -1.0, 1.0], LIKE)
    assert twice.tied_within() == pytest.approx(2 * once.tied_within(), rel=0.01)


@pytest.mark.parametrize(("wins", "losses"), [(4, 0), (5, 0), (1, 7), (12, 3), (3, 3), (0, 0)])
def test_single_samples_are_tested_by_mcnemars_mid_p(wins, losses):
    found = paired_difference(*single(wins, losses, both=200, neither=200), LIKE)
    total, few = wins + losses, min(wins, losses)
    exact = min(1.0, 2 * stats.binom.cdf(few, total, 0.5))
    expected = min(1.0, 2 * stats.binom.cdf(few - 1, total, 0.5) + stats.binom.pmf(few, total, 0.5))
    assert found.p_value == pytest.approx(expected)
    assert found.p_value <= exact + 1e-12  # never less power than the exact test
    assert found.pairs == (wins, losses)
    assert found.pairs.smallest_p == pytest.approx(0.5**total)
    interval = found.interval()
    assert (found.p_value < 0.05) == (interval.low > 0 or interval.high < 0)
    assert interval.low <= found.value <= interval.high


def test_many_single_samples_agree_with_the_exact_test():
    found = paired_difference(*single(40, 20, both=200, neither=240), LIKE)
    assert sum(found.pairs) >= FEW_PAIRS
    assert found.p_value == pytest.approx(Pairs(40, 20).p_value, rel=0.15)


def test_single_samples_show_a_false_difference_in_five_percent_at_most():
    """All data sets of 500 problems at 3 to 20 expected problems won or lost: exact sizes, no simulation."""
    significant = {
        (w, c - w): paired_difference(*single(w, c - w, neither=500 - c), LIKE).p_value < 0.05
        for c in range(FEW_PAIRS + 25)
        for w in range(c + 1)
    }
    for expected in (3, 4, 5, 6, 8, 10, 14, 20):
        size = sum(
            stats.poisson.pmf(w, expected / 2) * stats.poisson.pmf(m, expected / 2)
            for (w, m), found in significant.items()
            if found
        )
        assert size <= 0.052


def test_single_samples_are_no_less_certain_on_these_problems_than_on_others():
    these, like = (paired_difference(*single(15, 0, both=250, neither=235), error) for error in (THESE, LIKE))
    assert these.p_value == like.p_value < 0.0001
    assert these.interval().width < like.interval().width


def test_a_single_sample_in_one_run_is_bounded_likewise():
    """A greedy run beside one of 32 samples: A's noise is unknown, but no larger than all the variation there is."""
    rng = np.random.default_rng(3)
    rates = np.where(np.arange(500) < 250, 0.02, 0.98)
    a = (rng.random((500, 1)) < rates[:, None]).astype(float)
    b = (rng.random((500, 32)) < np.clip(rates + 0.03, 0, 1)[:, None]).astype(float)
    these, like = (paired_difference(a, b, error) for error in (THESE, LIKE))
    assert these.interval().width <= like.interval().width
    # and where each has two, the noise is known and nothing is bounded
    twice = [np.repeat(run[:, :1], 2, axis=1) for run in (a, b)]
    assert math.isinf(paired_difference(*twice, THESE).degrees)


def test_a_missing_sample_is_no_pair():
    before, after = single(4, 0, both=5)
    after[0] = NAN
    assert paired_difference(before, after, LIKE).pairs == (3, 0)
    assert paired_difference(np.hstack([before, before]), after, LIKE).pairs is None


def test_the_rates_of_aime24_are_shares_of_31():
    assert AIME24.mean() == pytest.approx(214 / 930)


def test_the_words_of_a_tie_on_few_problems(make_run):
    unsolved = [[0] * 32] * 30
    a, b = make_run("a", {"t": unsolved}), make_run("b", {"t": unsolved})
    assert [e.verdict for e in compare_runs(a, b).average.effects] == ["tied", "not enough data"]
    assert sentence(compare_runs(a, b)) == (
        "b and a are tied within ±0.2 points on these problems (0.0 points, 95 % interval [-0.2, +0.2]); 30 problems "
        "are too few to say so of problems like these ([-11.6, +11.6])."
    )


def test_the_words_of_single_samples(make_run):
    a = make_run("a", {"t": [[0]] * 4 + [[1]] * 10 + [[0]] * 10})
    b = make_run("b", {"t": [[1]] * 4 + [[1]] * 10 + [[0]] * 10})
    text = render_comparison(compare_runs(a, b))
    assert (
        "one sample per problem: B alone is right on 4, A alone on 0 (exact test, McNemar's mid-p; no p below 0.0625 "
        "could have come out)"
    ) in text


def test_of_several_tasks_the_smallest_p_is_said_to_be_that_before_the_correction(make_run):
    a, b = ([[0]] * 4 + [[1]] * 10, [[1]] * 4 + [[1]] * 10)
    text = render_comparison(compare_runs(make_run("a", {"t": a, "u": a}), make_run("b", {"t": b, "u": b})))
    assert "| T | 71.43 | 100.00 | +28.6 |" in text
    (line,) = [line for line in text.splitlines() if line.startswith("- T: one sample")]
    assert line.endswith("no p below 0.0625 could have come out before Holm's correction for 2 tasks)")
    # and the smallest that did come out is corrected: twice as large
    (row,) = [line for line in text.splitlines() if line.startswith("| T |")]
    assert row.split(" | ")[-2] == "0.1250"


def test_few_single_samples_claim_no_more_than_the_exact_test_can():
    """Four problems, all lost: McNemar's mid-p is 2 (1/16) / 2, whatever the pooled variance, which is 0, says."""
    found = paired_difference(np.ones((4, 1)), np.zeros((4, 1)), "these problems")
    assert found.p_value == 0.0625 and found.interval().high >= 0.0
