"""Advantages against hand values and the properties that define them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stapo_train.advantages import group_advantages


def one_group(rewards):
    return group_advantages(np.array(rewards, dtype=float), np.zeros(len(rewards), dtype=int))


# The paper's ladder for eight rollouts: k correct, mean k/8, sample variance k (8 - k) / 56.
# k = 7: (1 - 7/8) / sqrt(7 / 56) = 0.125 / 0.35355 = 0.354
@pytest.mark.parametrize(
    ("correct", "positive"), [(7, 0.354), (6, 0.540), (5, 0.725), (4, 0.935), (3, 1.208), (2, 1.620), (1, 2.475)]
)
def test_ladder_for_eight_rollouts(correct, positive):
    advantages = one_group([1.0] * correct + [0.0] * (8 - correct))
    assert advantages[0] == pytest.approx(positive, abs=5e-4)
    assert advantages.sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("rewards", [[1.0] * 8, [0.0] * 8, [0.1, 0.1, 0.1], [1.0], []])
def test_no_difference_no_advantage(rewards):
    assert one_group(rewards).tolist() == [0.0] * len(rewards)


def test_sample_std_and_not_population_std():
    # rewards 1, 0: sample std sqrt(1/2); population std would give an advantage of 1
    assert one_group([1.0, 0.0])[0] == pytest.approx(0.5 / (np.sqrt(0.5) + 1e-6), rel=1e-12)


def test_failed_gradings_are_left_out_and_get_zero():
    with_failures = one_group([1.0, np.nan, 0.0, 0.0, np.nan])
    assert with_failures[[1, 4]].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(with_failures[[0, 2, 3]], one_group([1.0, 0.0, 0.0]), rtol=1e-12)


def test_without_std_it_is_the_distance_from_the_mean():
    advantages = group_advantages(np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(4, dtype=int), divide_by_std=False)
    assert advantages.tolist() == [0.75, -0.25, -0.25, -0.25]


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match="one group id per reward"):
        group_advantages(np.zeros(3), np.zeros(4, dtype=int))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 1.0, 0.5])), min_size=1, max_size=40),
    st.integers(-3, 3),
    st.randoms(use_true_random=False),
)
def test_groups_of_any_size_in_any_order(rows, shift, random):
    groups, rewards = (np.array(column) for column in zip(*rows, strict=True))
    advantages = group_advantages(rewards, groups)
    for group in set(groups.tolist()):
        assert advantages[groups == group].sum() == pytest.approx(0, abs=1e-9)
        np.testing.assert_allclose(advantages[groups == group], one_group(rewards[groups == group]), atol=1e-12)
    np.testing.assert_allclose(group_advantages(rewards + shift, groups), advantages, atol=1e-9)
    order = list(range(len(rows)))
    random.shuffle(order)
    np.testing.assert_allclose(group_advantages(rewards[order], groups[order]), advantages[order], atol=1e-12)


def test_an_infinite_reward_is_named():
    with pytest.raises(ValueError, match="expected numbers, or NaN where nothing is known, got -inf at 2"):
        one_group([np.nan, 1.0, -np.inf, np.inf])
