"""Clusters, printed means and copies of answers against slow references, from the formulas."""

import math

import numpy as np
import pytest
from scipy.special import beta

from stapo_bench.statistics.clusters import clustering
from stapo_bench.statistics.copies import copy_evidence, is_copied, most_log_probability, problem_evidence
from stapo_bench.statistics.reported import share_between, share_common, share_of_passes
from stapo_bench.statistics.seed_differences import spread

NAN = math.nan


def test_the_correlation_within_clusters_is_that_of_the_analysis_of_variance():
    rng = np.random.default_rng(4)
    for _ in range(10):
        labels = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3])
        changes = rng.normal(size=4)[labels] + rng.normal(size=10)
        groups = [[c for c, label in zip(changes, labels, strict=True) if label == g] for g in range(4)]
        mean = sum(changes) / 10
        between = sum(len(g) * (sum(g) / len(g) - mean) ** 2 for g in groups) / 3
        within = sum((x - sum(g) / len(g)) ** 2 for g in groups for x in g) / 6
        typical = (10 - (9 + 4 + 1 + 16) / 10) / 3
        found = clustering(changes, labels)
        assert found.correlation == pytest.approx((between - within) / (between + (typical - 1) * within))
        assert (found.num_clusters, found.largest) == (4, 4)
        # CR2: squared sums of residuals over 1 - share, over N^2; against s^2 / N
        clustered = sum(sum(x - mean for x in g) ** 2 / (1 - len(g) / 10) for g in groups) / 100
        assert found.design_effect == pytest.approx(clustered / (np.var(changes, ddof=1) / 10))
    alone = clustering(np.array([1.0, 2.0]), np.array([0, 0]))
    assert math.isnan(alone.design_effect) and math.isnan(alone.correlation) and alone.largest == 2
    assert math.isnan(clustering(np.ones(4), np.array([0, 0, 1, 1])).correlation)


@pytest.mark.parametrize("rho", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("k", [2, 4, 16])
def test_a_printed_pass_at_k_tells_the_share_of_a_beta_distribution(rho, k):
    # rates of Beta(a, b) with mean 0.3 and a + b = 1 / rho - 1; 1 - pass@k is the mean of (1 - rate)^k
    a, b = 0.3 * (1 / rho - 1), 0.7 * (1 / rho - 1)
    passed = 1 - beta(a, b + k) / beta(a, b)
    assert share_of_passes(0.3, passed, k) == pytest.approx(rho, abs=1e-9)
    assert math.isnan(share_of_passes(0.3, 0.29, k)) and math.isnan(share_of_passes(0.3, 1 - 0.7**k + 1e-6, k))
    assert share_of_passes(0.3, 0.3, k) == pytest.approx(1, abs=1e-9)


def test_shares_by_hand():
    # Rates 1, 0, 1/2, 1/2 of 2 samples: within 0, 0, 1/2, 1/2, mean 1/4; between 1/6 - 1/8. The last shows nothing.
    rows = np.array([[1, 1], [0, 0], [1, 0], [0, 1], [1, NAN]], dtype=float)
    assert share_between(rows) == pytest.approx((1 / 24) / (1 / 24 + 1 / 4))
    assert math.isnan(share_between(rows[3:])) and math.isnan(share_between(np.ones((3, 2))))
    # Means 2/3 and 1/3: covariance of 1 1 0 and 1 0 0 is 1/6, p (1 - p) is 2/9 for both.
    a, b = np.array([[1.0], [1.0], [0.0], [NAN]]), np.array([[1.0], [0.0], [0.0], [1.0]])
    assert share_common(a, b) == pytest.approx((1 / 6) / (2 / 9))
    assert math.isnan(share_common(a[:1], b[:1])) and math.isnan(share_common(np.ones((3, 1)), b[:3]))


def slow_evidence(texts, known):
    total = 0.0
    for rate in (0.5, 0.9, 0.999):
        seen, product = {text: math.exp(p) for text, p in known.items() if p < 0}, 1.0
        for text, p in texts:
            repeat, chance = text in seen, sum(seen.values())
            if 0 < chance < rate:
                product *= rate / chance if repeat else (1 - rate) / (1 - chance)
            if p < 0 and not repeat:
                seen[text] = math.exp(p)
        total += product / 3
    return math.log(total)


def test_the_evidence_of_copies_is_the_product_of_its_bets():
    rng = np.random.default_rng(5)
    for number in range(40):
        probability = {name: float(rng.choice([-0.2, -2.0, -8.0, 0.0])) for name in "abcde"}
        texts = [(str(name), probability[str(name)]) for name in rng.choice(list("abcde"), 6)]
        known = {} if number % 2 else {"a": -3.0, "b": 0.0}
        seen, repeated = {text for text, p in known.items() if p < 0}, False
        for text, p in texts:
            repeated |= text in seen
            seen |= {text} if p < 0 else set()
        found = problem_evidence(texts, known or None)
        assert found == (pytest.approx(slow_evidence(texts, known)) if repeated else -math.inf)


def test_the_evidence_of_a_run_is_the_mean_over_shares_of_problems():
    for problems, rest in (([3.0, -1.0, 0.5], 4), ([20.0] * 6, 24), ([9.0], 0)):
        by_share = {
            share: math.prod(1 - share + share * math.exp(e) for e in problems) * (1 - share) ** rest
            for share in (0.02, 0.2, 0.9)
        }
        evidence, share = copy_evidence(problems, rest)
        assert evidence == pytest.approx(math.log(sum(by_share.values()) / 3))
        assert share == max(by_share, key=by_share.get)
    assert [is_copied(math.log(odds), 0.2) for odds in (3.99, 4.01)] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"num_tokens": 264, "temperature": 0.0, "log_prob": -30.0}, 0.0),
        ({"num_tokens": 264, "temperature": 0.5}, -0.5),
        ({"num_tokens": 264, "temperature": 2.0}, -1.0),
        ({"num_tokens": 85, "temperature": 1.0}, 0.0),  # -0.105: more likely than 0.9
        ({"num_tokens": 86, "temperature": 1.0}, -0.11),
        ({"num_tokens": 64, "temperature": 1.0, "log_prob": -2.9}, 0.0),  # more likely than 0.05
        ({"num_tokens": 64, "temperature": 1.0, "log_prob": -3.1}, -3.1),
        ({"num_tokens": 10, "temperature": 1.0, "log_prob": -9.0, "top_p": 0.8}, -9.0 - 10 * math.log(0.8)),
        ({"num_tokens": 1064, "temperature": 1.0, "log_prob": -5.2, "top_p": 0.5}, -5.0),  # no likelier than by length
    ],
)  # fmt: skip
def test_how_likely_a_text_may_be(arguments, expected):
    assert most_log_probability(**arguments) == pytest.approx(expected)


@pytest.mark.filterwarnings("error")  # of a variance of one number
def test_a_task_of_one_problem_adds_none_to_the_spread_over_problems():
    # the first task's, 0.125 / 2 less 1 / 1200, is that of half of the mean
    two, one = np.array([[0.2, 0.8], [0.4, 0.8], [0.3, 0.8]]), np.array([[0.1], [0.4], [0.7]])
    assert spread([two, one]).problems ** 2 == pytest.approx((0.0625 - 1 / 1200) / 4)
