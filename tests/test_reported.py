"""What printed means and their protocols tell: errors worked out by hand, bounds that no rates exceed, leads."""

import math
from dataclasses import replace

import numpy as np
import pytest

from stapo_bench.analysis import LIKELY, claim, load_published, table_leads
from stapo_bench.statistics import (
    Reported,
    Shares,
    half_width,
    reported_difference,
    reported_error,
    seed_spread_allowed,
    share_between,
    share_common,
    share_of_passes,
    times_needed,
    trainings_needed,
)

THESE, LIKE = "these problems", "problems like these"
AIME = {"num_problems": 30, "num_samples": 32}


def test_the_error_of_these_problems_by_hand():
    # 240 of 960 right, held as 241 of 962: sqrt(0.250520 * 0.749480 / 960) = 0.013985; half of it between: / sqrt(2)
    score = Reported(value=0.25, **AIME)
    assert reported_error(score, THESE, 0.0) == pytest.approx(0.013985, abs=1e-6)
    assert reported_error(score, THESE, 0.5) == pytest.approx(0.013985 / math.sqrt(2), abs=1e-6)
    assert reported_error(score, THESE, 1.0) == 0.0


def test_the_error_of_problems_like_these_by_hand():
    # Held as 8.5 of 32: v = 0.195068. rho = 1: sqrt(v / 30); rho = 0: sqrt(v / 960); rho = 0.6: (0.6 + 0.4 / 32) v / 30
    score = Reported(value=0.25, **AIME)
    assert reported_error(score, LIKE, 1.0) == pytest.approx(math.sqrt(0.1950684 / 30))
    assert reported_error(score, LIKE, 0.0) == pytest.approx(math.sqrt(0.1950684 / 960))
    assert reported_error(score, LIKE, 0.6) == pytest.approx(math.sqrt(0.6125 * 0.1950684 / 30))


def test_a_printed_zero_has_an_error():
    # 0 of 960 held as 1 of 962
    score = Reported(value=0.0, **AIME)
    assert reported_error(score, THESE, 0.0) == pytest.approx(math.sqrt(1 / 962 * 961 / 962 / 960))


def test_the_error_of_a_difference_by_hand():
    # Both at a half of 30: v = 1/4. rho .8, r .5: 2 (.8 + .2/32) / 4 / 30 - 2 * .5 * .8 / 4 / 30 = (.403125 - .2) / 30
    a, b = Reported(value=0.5, **AIME), Reported(value=0.5, **AIME)
    found = reported_difference(a, b, LIKE, Shares(between=0.8, correlation=0.5))
    assert found.standard_error == pytest.approx(math.sqrt(0.203125 / 30))
    assert found.degrees == 29 and found.num_problems == 30
    # At the worst each solves what the other does not: E d^2 = 1, Var = 1 / 30
    assert reported_difference(a, b, LIKE, None).standard_error == pytest.approx(math.sqrt(1 / 30))
    assert half_width(reported_difference(a, b, LIKE, None)) == pytest.approx(2.045230 * math.sqrt(1 / 30), rel=1e-5)
    these = reported_difference(a, b, THESE, None)
    assert these.standard_error == pytest.approx(math.sqrt(2 * 0.25 / 960)) and math.isinf(these.degrees)
    with pytest.raises(ValueError, match="got 30 and 40"):
        reported_difference(a, replace(b, num_problems=40), LIKE, None)


def test_no_rates_exceed_the_worst_case():
    """Rates of any kind, also of two models that solve opposite problems: the true errors lie within both bounds."""
    rng = np.random.default_rng(5)
    for shape in (0.05, 0.3, 1.0, 8.0):
        for opposite in (False, True):
            rates = rng.beta(shape, shape, 400)
            other = 1.0 - rates if opposite else rng.permutation(rates)
            a, b = (Reported(value=float(r.mean()), num_problems=400, num_samples=4) for r in (rates, other))
            within = (rates * (1 - rates) + other * (1 - other)) / 4
            these = math.sqrt(within.sum()) / 400
            like = math.sqrt(((other - rates).var() + within.mean()) / 400)
            assert these <= reported_difference(a, b, THESE, None).standard_error
            assert like <= reported_difference(a, b, LIKE, None).standard_error


def test_errors_are_those_of_simulated_evaluations():
    """rho = 1 / (a + b + 1) of a Beta: variances over redrawn samples and problems are what the formulas say."""
    rng = np.random.default_rng(1)
    a, b, n, k = 0.5, 1.5, 60, 8
    score = Reported(value=a / (a + b), num_problems=n, num_samples=k)
    redrawn = rng.binomial(k, rng.beta(a, b, (20_000, n))).mean(axis=1) / k
    like = reported_error(score, LIKE, 1 / (a + b + 1))
    assert redrawn.std() == pytest.approx(like, rel=0.03)  # as if a problem more were right: 1.6 % wider
    rates = rng.beta(a, b, (200, n))
    again = (rng.binomial(k, rates, (200, 200, n)).mean(axis=2) / k).var(axis=0).mean()
    assert math.sqrt(again) == pytest.approx(reported_error(score, THESE, 1 / (a + b + 1)), rel=0.03)


@pytest.mark.parametrize(("error", "alike"), [(THESE, True), (LIKE, False)])
def test_equal_models_are_seldom_told_apart(error, alike):
    """Rates within the likely range, 2,000 pairs of evaluations: at its large end below 5 %, at the worst far below."""
    rng = np.random.default_rng(11)
    n, k, pairs = 60, 8, 2000
    # rho = 1 / (0.4 + 0.6 + 1) = 0.5; where the models differ, on another fifth of the problems each time: r = 0.8
    rates = rng.beta(0.4, 0.6, (pairs, n))
    other = rates if alike else np.where(rng.random((pairs, n)) < 0.2, rng.beta(0.4, 0.6, (pairs, n)), rates)
    means = [rng.binomial(k, r).mean(axis=1) / k for r in (rates, other)]
    found = [
        claim([tuple(Reported(value=float(mean), num_problems=n, num_samples=k) for mean in pair)], error)
        for pair in zip(*means, strict=True)
    ]
    verdicts = [each.verdict for each in found]
    assert verdicts.count("likely") + verdicts.count("shown") <= 0.05 * pairs
    assert verdicts.count("shown") <= 0.01 * pairs
    assert verdicts.count("open") > 0.02 * pairs  # the small end is no bound


def test_shares_are_found_again_in_outcomes():
    rng = np.random.default_rng(2)
    rates = rng.beta(0.3, 0.7, 20_000)  # rho = 1 / 2
    a, b = (rng.random((20_000, 2)) < rates[:, None] for _ in range(2))
    assert share_between(a.astype(float)) == pytest.approx(0.5, abs=0.02)
    assert share_common(a[:, :1].astype(float), b[:, :1].astype(float)) == pytest.approx(0.5, abs=0.02)
    assert math.isnan(share_between(np.array([[1.0], [0.0]])))
    assert math.isnan(share_common(np.zeros((3, 1)), np.ones((3, 1))))


def test_two_problems_are_the_fewest_that_tell_a_share():
    # One solved always and one never: nothing varies within. Rates 1 and 1/2: between them 1/8, and as much is what the
    # samples add: half of their variances, 0 and 1/2, on average.
    assert share_between(np.array([[1.0, 1.0], [0.0, 0.0]])) == 1.0
    assert share_between(np.array([[1.0, 1.0], [1.0, 0.0]])) == 0.0
    assert math.isnan(share_between(np.array([[1.0, 1.0]])))
    assert share_common(np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]])) == 2.0  # 1/2 over 1/4: of n - 1 = 1
    assert math.isnan(share_common(np.array([[1.0]]), np.array([[0.0]])))
    for number, degrees in ((1, 1), (2, 1), (3, 2)):
        two = (Reported(value=value, num_problems=number, num_samples=1) for value in (0.0, 1.0))
        assert reported_difference(*two, LIKE, None).degrees == degrees


def test_passes_imply_the_share():
    # Beta(1, 3): rho 1/5, mean 1/4; E (1 - p)^k = 3 / (3 + k), so pass@4 = 4/7 and pass@16 = 16/19
    assert share_of_passes(0.25, 4 / 7, 4) == pytest.approx(0.2)
    assert share_of_passes(0.25, 16 / 19, 16) == pytest.approx(0.2)
    assert share_of_passes(0.25, 0.25, 8) == pytest.approx(1.0, abs=1e-6)  # always the same problems
    assert math.isnan(share_of_passes(0.25, 0.2, 8))  # pass@8 below pass@1 cannot be


def test_what_would_settle_a_difference():
    # 2.8016 standard errors are found in 80 of 100; at one, 7.849 times the data
    found = reported_difference(Reported(value=0.4, **AIME), Reported(value=0.5, **AIME), THESE, None)
    assert times_needed(found) == pytest.approx((2.80159 * found.standard_error / 0.1) ** 2, rel=1e-5)
    assert seed_spread_allowed(0.02) == pytest.approx(0.02 / (1.959964 * math.sqrt(2)))
    assert seed_spread_allowed(-0.02, 4) == pytest.approx(2 * seed_spread_allowed(0.02))
    assert trainings_needed(0.02, 0.02) == 16 and trainings_needed(0.05, 0.001) == 2  # 15.7; never one
    same = reported_difference(Reported(value=0.4, **AIME), Reported(value=0.4, **AIME), THESE, None)
    assert times_needed(same) == math.inf == trainings_needed(0.0, 0.01)


def test_leads_of_the_published_table():
    leads = table_leads(load_published("stapo_v1"), "STAPO")
    assert len(leads) == 3 * 2 * 7 and [lead.task for lead in leads[:7]][-1] == "average"
    aime25 = next(lead for lead in leads if (lead.regime, lead.task) == ("training", "aime25"))
    # Qwen3-1.7B, 15.42 over 8.44: held as (81 + 1) and (148 + 1) of 962
    variance = sum(x / 962 * (1 - x / 962) / 960 for x in (960 * 0.0844 + 1, 960 * 0.1542 + 1))
    assert (aime25.other, round(aime25.value, 4)) == ("20-Entropy", 0.0698)
    assert aime25.claims[THESE].worst.standard_error == pytest.approx(math.sqrt(variance))
    assert (aime25.claims[THESE].verdict, aime25.claims[LIKE].verdict) == ("shown", "open")
    average = next(lead for lead in leads if (lead.regime, lead.task) == ("justrl", "average"))
    assert (average.other, round(average.value, 5)) == ("JustRL", 0.0182)
    parts = [lead.claims[LIKE].largest for lead in table_leads(load_published("stapo_v1"), "STAPO", "JustRL")[7:13]]
    assert average.claims[LIKE].largest.standard_error == pytest.approx(
        math.sqrt(sum(part.standard_error**2 for part in parts)) / 6
    )


def test_leads_corrected_for_being_many_are_never_better_shown_and_the_range_is_ordered():
    order = ("shown", "likely", "open", "not told")
    for lead in table_leads(load_published("stapo_v1"), "STAPO"):
        for found in lead.claims.values():
            assert found.smallest.standard_error < found.largest.standard_error < found.worst.standard_error
            assert order.index(found.verdict_of_all) >= order.index(found.verdict)
            assert all(p <= adjusted for p, adjusted in zip(found.p_values, found.p_adjusted, strict=True))


def test_a_task_without_a_protocol_is_left_out_and_a_lead_may_be_negative():
    table = load_published("stapo_v1")
    short = replace(table, samples={task: k for task, k in table.samples.items() if task in ("minerva", "math500")})
    leads = table_leads(short, "GRPO", over="STAPO")
    assert {lead.task for lead in leads} == {"minerva", "math500", "average"} and {x.other for x in leads} == {"STAPO"}
    assert round(leads[1].value, 4) == 0.0422  # Minerva, 1.7B: GRPO 32.44 over 28.22
    assert leads[0].value < 0
    with pytest.raises(ValueError, match="same problems"):
        claim([(Reported(value=0.1, **AIME), Reported(value=0.1, num_problems=5, num_samples=1))], THESE)
    assert set(LIKELY) == {THESE, LIKE}
