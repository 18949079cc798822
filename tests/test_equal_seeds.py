"""Paired differences of runs with equal seeds: hand values, and size and power by simulation."""

import math

import numpy as np
import pytest
from random_outcomes import logistic, sample_matrix

from stapo_bench.statistics.paired import contrast_variances, paired_difference

NAN = float("nan")


def coupled(rng, rates_a, rates_b, num_samples):
    """Two runs whose samples meet the same random numbers."""
    numbers = rng.random((len(rates_a), num_samples))
    return (numbers < rates_a[:, None]).astype(float), (numbers < rates_b[:, None]).astype(float)


def test_equal_seeds_by_hand():
    a = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], dtype=float)
    b = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], dtype=float)
    # differences of samples 0, 0, 1, 0 and 0, 1, 0, 0: variance 1/4 each, / 4 samples; priors 1 / (2 * 16) twice
    paired = paired_difference(a, b, "these problems", same_seeds=True)
    assert paired.standard_error == pytest.approx(math.sqrt(1 / 16 + 1 / 16 + 1 / 16) / 2)
    # other problems are another matter: the same with either
    like = [paired_difference(a, b, "problems like these", same_seeds=same) for same in (True, False)]
    assert like[0] == like[1]


@pytest.mark.slow(reason="a rate of false alarms by simulation")
def test_size_stays_and_power_grows_with_equal_seeds():
    rng = np.random.default_rng(16)
    rates = logistic(np.linspace(-4, 2, 30))
    up, down = np.clip(rates + 0.05, 0, 1), np.clip(rates - 0.05, 0, 1)
    turns = np.arange(30) % 2 == 0
    left, right = np.where(turns, up, down), np.where(turns, down, up)
    right = right + (left.mean() - right.mean())  # no difference on the whole, large ones on each problem
    rejected = np.zeros(2)
    for _ in range(2000):
        a, b = coupled(rng, left, right, 16)
        rejected += [
            paired_difference(a, b, "these problems", same_seeds=same).p_value < 0.05 for same in (True, False)
        ]
    assert 0.035 <= rejected[0] / 2000 <= 0.06
    assert rejected[1] / 2000 < 0.01  # taken for independent, the same runs hardly ever reject
    pairs = [coupled(rng, rates, np.clip(rates + 0.03, 0, 1), 16) for _ in range(300)]
    power = [
        np.mean([paired_difference(a, b, "these problems", same_seeds=s).p_value < 0.05 for a, b in pairs])
        for s in (True, False)
    ]
    assert power[0] > 0.9 > power[1]


def test_equal_seeds_and_missing_samples_by_hand():
    a = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], dtype=float)
    b = np.array([[1, 0, NAN, NAN], [1, NAN, NAN, NAN]], dtype=float)
    # problem 1: s_A^2 = 1/3 of 4, s_B^2 = 1/2 of 2, covariance of (1, 1) and (1, 0): 0
    # problem 2: s_A^2 = 1/4 of 4; B has one sample: p (1 - p) at p = 3/4, and no covariance
    first, second = 1 / 12 + 1 / 4, 1 / 16 + 3 / 16
    prior = (1 / 4**2 + 0.75**2) / 2  # mean of 1 / k: 1/4 in A, 3/4 in B
    found = paired_difference(a, b, "these problems", same_seeds=True)
    assert found.standard_error == pytest.approx(math.sqrt(first + second + prior) / 2)
    b[0] = [NAN, 1, 0, NAN]  # (1, 0) and (1, 0): covariance 1/2 of 2 in common, - 2 * 2 * 1/2 / (4 * 2)
    found = paired_difference(a, b, "these problems", same_seeds=True)
    assert found.standard_error == pytest.approx(math.sqrt(first - 1 / 4 + second + prior) / 2)


def test_equal_seeds_and_unequal_numbers_of_samples_are_paired_where_both_have_them():
    rng = np.random.default_rng(17)
    a, b = coupled(rng, rng.random(10), rng.random(10), 8)
    padded = np.where(np.arange(8) < 4, b, NAN)
    fewer, missing = (paired_difference(a, of_b, "these problems", same_seeds=True) for of_b in (b[:, :4], padded))
    assert fewer == missing
    assert fewer.standard_error < paired_difference(a, padded, "these problems").standard_error


def test_without_gaps_the_noise_of_equal_seeds_is_that_of_the_differences_of_samples():
    rng = np.random.default_rng(20)
    runs, weights = [sample_matrix(rng, rng.random(12), 8) for _ in range(4)], [1.0, -1.0, -1.0, 1.0]
    differences = np.tensordot(weights, np.stack(runs), axes=1)
    once, means = contrast_variances(runs, weights, same_seeds=True)
    assert once == pytest.approx(differences.var(axis=1, ddof=1), abs=1e-12)
    assert means == pytest.approx(differences.var(axis=1, ddof=1) / 8, abs=1e-12)


BETWEEN = pytest.mark.slow(reason="a rate of false alarms by simulation, once more")


@pytest.mark.parametrize("coupling", [1.0, pytest.param(0.5, marks=BETWEEN), 0.0])
def test_size_stays_with_equal_seeds_and_four_of_32_samples(coupling):
    rng = np.random.default_rng(21)
    rates = logistic(np.linspace(-4, 2, 30))[:, None]
    rejected, values, variances = 0, [], []
    for _ in range(1500):
        numbers, others = rng.random((2, 30, 32))
        a, b = numbers < rates, np.where(rng.random((30, 32)) < coupling, numbers, others) < rates
        found = paired_difference(
            a.astype(float), np.where(np.arange(32) < 4, b, NAN), "these problems", same_seeds=True
        )
        rejected += found.p_value < 0.05
        values.append(found.value)
        variances.append(found.standard_error**2)
    assert 0.03 <= rejected / 1500 <= 0.06
    assert math.sqrt(np.mean(variances)) == pytest.approx(np.std(values), rel=0.07)
