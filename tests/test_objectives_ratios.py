"""Objectives that bound something else than a token's ratio, and those that differ in their advantages, by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from objective_setup import loss, stats

from stapo_train.objective import policy_loss, select
from stapo_train.objectives import build


def slopes(s, objective):
    """[N] of the loss's numerator by ln pi."""
    s = replace(s, log_probs=s.log_probs.detach().requires_grad_())
    policy_loss(s, select(s, objective), objective).numerator.sum().backward()
    return s.log_probs.grad.tolist()


@pytest.mark.parametrize("name", ["dppo-tv", "dppo-kl"])
def test_dppo_lets_a_rare_token_rise_a_hundredfold_and_stops_a_likely_one(name):
    # 1e-5 -> 1e-3 is no distance (TV 0.00099, KL 0.0009); 0.5 -> 0.9 is (TV 0.4, KL 0.51); DAPO's clip is the reverse
    # at 0.99 -> 0.8 and A < 0: rho 0.81 is inside 1 - 0.2, TV 0.19 and KL 0.18 beyond the bound
    s = stats([1e-3, 0.9, 0.8], old=[1e-5, 0.5, 0.99], advantages=[1, 1, -1])
    assert slopes(s, build(name, max_length=8)) == [pytest.approx(-100), 0, 0]
    assert slopes(s, build("dapo")) == [0, 0, pytest.approx(0.8 / 0.99)]


@pytest.mark.parametrize("name", ["dppo-tv", "dppo-kl"])
def test_dppo_stops_no_step_that_leads_back(name):
    s = stats([0.5, 0.9], old=[0.9, 0.5], advantages=[1, -1])
    assert slopes(s, build(name, max_length=8)) == pytest.approx([-5 / 9, 9 / 5])


def test_dppo_counts_what_it_stops():
    s = stats([0.7, 0.69, 0.3], old=[0.5, 0.6, 0.5], advantages=[1, 1, -1])
    metrics = policy_loss(s, select(s, build("dppo-tv", max_length=8)), build("dppo-tv", max_length=8)).metrics
    assert (int(metrics["clipped_high"]), int(metrics["clipped_low"])) == (1, 1)


def test_gmpo_clips_each_ratio_before_their_geometric_mean():
    # A = 1, ln rho = ln 4, clipped at 0.4, and ln 0.5, which is not: exp((0.4 - ln 2) / 2); a mean over one rollout
    s = stats([0.8, 0.1], old=[0.2, 0.2], sequence=[0, 0])
    expected = math.exp((0.4 - math.log(2)) / 2)
    assert loss(s, build("gmpo")) == pytest.approx(-expected)
    assert slopes(s, build("gmpo")) == pytest.approx([0, -expected / 2])


def test_luspo_weighs_a_rollout_by_its_length():
    # ratios 1: two rollouts of one and three tokens; GSPO gives each its advantage, LUSPO one and three times it
    s = stats([0.5] * 4, advantages=[1, -1, -1, -1], sequence=[0, 1, 1, 1])
    assert loss(s, build("gspo")) == pytest.approx(0)
    assert loss(s, build("luspo")) == pytest.approx((-1 + 3) / 2)


def test_vespo_weight_is_one_on_policy_and_falls_on_both_sides():
    assert slopes(stats([0.5, 0.5]), build("vespo")) == pytest.approx([-1, -1])
    # two tokens of ratio 2: w = 4; phi = e^3 4^2 e^-12 for A >= 0, e^2 4^3 e^-8 for A < 0
    doubled = stats([0.5, 0.5], old=[0.25, 0.25])
    assert slopes(doubled, build("vespo")) == pytest.approx([-16 * math.exp(-9)] * 2)
    failed = replace(doubled, advantages=-doubled.advantages)
    assert slopes(failed, build("vespo")) == pytest.approx([64 * math.exp(-6)] * 2)


def test_ce_gppo_gives_clipped_tokens_a_bounded_gradient():
    # rho 3 at A = 1: 1 x 1.2; rho 0.5 at A = -1: 0.5 x 0.8; rho 20 at A = -1: at most 10, no gradient; rho 1.1: 1.1
    s = stats([0.6, 0.2, 0.8, 0.55], old=[0.2, 0.4, 0.04, 0.5], advantages=[1, -1, -1, 1])
    assert slopes(s, build("ce-gppo")) == pytest.approx([-1.2, 0.4, 0, -1.1])
    assert loss(s, build("ce-gppo")) == pytest.approx((-1.2 + 0.4 + 10 - 1.1) / 4)


def test_taco_takes_credit_from_the_rare_token_that_its_distribution_does_not_explain():
    # alpha 0.01: risky below 0.01 exp(-H). pi = 0.001 at H = 0: 0.1 + 0.9 x 0.1; at H = 3 usual is 0.0005: untouched;
    # a failed rollout's token keeps all of its blame; a likely one all of its credit
    s = stats([1e-3, 1e-3, 1e-3, 0.5], entropy=[0, 3, 0, 0], advantages=[1, 1, -1, 1])
    assert slopes(s, build("taco")) == pytest.approx([-0.19, -1, 1, -1])
    assert slopes(s, build("taco", strength=1))[0] == pytest.approx(-0.1)
    assert loss(s, build("taco")) == pytest.approx((-0.19 - 1 + 1 - 1) / 4)  # over all tokens


def test_aspo_turns_the_ratio_of_good_tokens_over():
    # One rollout each, so that no entropy is above its own quantile. A = 1: rho 1.1 -> 1 / 1.1, rho 0.2 -> 5, held at
    # 3, rho 2 -> no gradient. A = -1: rho 1.1 as it is, rho 20 held at 3, rho 0.5 -> no gradient.
    s = stats(
        [0.55, 0.1, 0.8, 0.55, 0.8, 0.2], old=[0.5, 0.5, 0.4, 0.5, 0.04, 0.4], advantages=[1, 1, 1, -1, -1, -1],
        sequence=[0, 1, 2, 3, 4, 5],
    )  # fmt: skip
    assert slopes(s, build("aspo")) == pytest.approx([-1 / 1.1, -3, 0, 1.1, 3, 0])


def test_aspo_has_a_wider_clip_where_entropy_is_high():
    # rho = 1.3 at all five tokens: beyond 1.2, within 1.4, which is the bound of the one with the highest entropy
    s = stats([0.65] * 5, old=[0.5] * 5, entropy=[1, 2, 3, 4, 5])
    assert slopes(s, build("aspo")) == pytest.approx([0, 0, 0, 0, -1 / 1.3])


def test_dro_pulls_back_to_the_old_policy():
    # A - beta ln rho: 1 - 0.5 ln 2
    assert slopes(stats([0.5], old=[0.25]), build("dro", beta=0.5)) == pytest.approx([-(1 - 0.5 * math.log(2))])


REWARDS, GROUPS, LENGTHS = np.array([1.0, 0, 0, 1, 1, 0]), np.array([0, 0, 0, 1, 1, 1]), np.array([1, 2, 3, 4, 5, 1])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rloo", [1, -0.5, -0.5, 0.5, 0.5, -1]),
        ("maxrl", [2, -1, -1, 0.5, 0.5, -1]),  # means 1/3 and 2/3
        # 10 of 16 tokens have reward 1: mean 0.625, variance 0.625 x 0.375 x 16 / 15 = 0.25
        ("reinforce++", [0.75, -1.25, -1.25, 0.75, 0.75, -1.25]),
        # the best alone, by 1 and by 0; sample std sqrt(1/3)
        ("grpo-pass-k", [math.sqrt(3), 0, 0, 0, 0, 0]),
        # means weighted by length: 1 / 6 and 9 / 10
        ("opo", [5 / 6, -1 / 6, -1 / 6, 0.1, 0.1, -0.9]),
        ("gpg", [4 / 3, -2 / 3, -2 / 3, 2 / 3, 2 / 3, -4 / 3]),  # 6 rollouts, 3 with a reward: twice R - mean
        ("dro", [x / math.sqrt(3) for x in (2, -1, -1, 1, 1, -2)]),
    ],
)  # fmt: skip
def test_advantages_by_hand(name, expected):
    assert build(name).advantages(REWARDS, GROUPS, LENGTHS).tolist() == pytest.approx(expected, abs=1e-5)


def test_a_single_reward_of_four_rollouts_counts_four_times():
    found = build("gpg").advantages(np.array([1.0, 0, 0, 0]), np.zeros(4, dtype=int), np.ones(4, dtype=int))
    assert found.tolist() == [3.0, -1.0, -1.0, -1.0]  # 4 / 1 times R - 1/4


def test_reinforce_plus_plus_with_a_baseline_centres_groups_and_scales_the_iteration():
    centred = np.array([2, -1, -1, 1, 1, -2]) / 3
    mean = (centred * LENGTHS).sum() / 16
    std = math.sqrt((((centred - mean) ** 2) * LENGTHS).sum() / 15)
    found = build("reinforce++-baseline").advantages(REWARDS, GROUPS, LENGTHS)
    assert found.tolist() == pytest.approx(((centred - mean) / std).tolist(), abs=1e-6)


@pytest.mark.parametrize(
    ("rewards", "lengths", "expected"),
    [
        ([1.0], [1], [0.0]),  # one token tells no spread
        ([1.0, 0.0], [1, 1], [math.sqrt(0.5), -math.sqrt(0.5)]),  # two do: mean 1/2, sample variance 1/2
        ([1.0, 0.0, np.nan, 5.0], [1, 1, 9, 0], [math.sqrt(0.5), -math.sqrt(0.5), 0.0, 0.0]),
        # tokens 1 1 1 0: mean 3/4, sample variance 4 x 3/16 / 3 = 1/4
        ([1.0, 0.0], [3, 1], [0.5, -1.5]),
    ],
)
def test_whitening_by_hand(rewards, lengths, expected):
    found = build("reinforce++").advantages(np.array(rewards), np.arange(len(rewards)), np.array(lengths))
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_whitening_is_that_of_the_tokens_laid_end_to_end():
    rng = np.random.default_rng(0)
    for _ in range(20):
        rewards, lengths = rng.choice([0.0, 0.5, 1.0, np.nan], 6), rng.integers(0, 5, 6)
        tokens = np.repeat(rewards, lengths)
        tokens = tokens[~np.isnan(tokens)]
        found = build("reinforce++").advantages(rewards, np.zeros(6, dtype=int), lengths)
        known = ~np.isnan(rewards) & (lengths > 0)
        assert (found[~known] == 0).all()
        if len(tokens) > 1 and tokens.std() > 0:
            np.testing.assert_allclose(found[known], (rewards[known] - tokens.mean()) / tokens.std(ddof=1), rtol=1e-6)


def test_each_reward_of_a_group_of_unequal_sizes_by_hand():
    # rewards 0, 1/4, 1 and 1/2, 1; lengths 1, 2, 1 and 3, 1
    rewards, groups, lengths = np.array([0, 0.25, 1, 0.5, 1]), np.array([3, 3, 3, 8, 8]), np.array([1, 2, 1, 3, 1])
    expected = {
        "rloo": [-0.625, -0.25, 0.875, -0.5, 0.5],  # less the mean of the others: 5/8, 1/2, 1/8; 1, 1/2
        "maxrl": [-1.0, -0.4, 1.4, -1 / 3, 1 / 3],  # means 5/12 and 3/4
        "opo": [-0.375, -0.125, 0.625, -0.125, 0.375],  # means by length 3/8 and 5/8
        # 1 less 1/4 over the sample std, of squares 25/144, 4/144 and 49/144; 1 less 1/2 over that of 1/16 and 1/16
        "grpo-pass-k": [0, 0, 0.75 / math.sqrt(39 / 144), 0, 0.5 / math.sqrt(1 / 8)],
    }
    for name, values in expected.items():
        assert build(name).advantages(rewards, groups, lengths).tolist() == pytest.approx(values, abs=1e-5)


@pytest.mark.parametrize("name", ["rloo", "maxrl", "reinforce++", "reinforce++-baseline", "opo", "grpo-pass-k", "gpg"])
def test_an_unknown_reward_is_left_out_and_equal_ones_teach_nothing(name):
    rewards, groups = np.array([1.0, 0.0, np.nan, 1.0, 1.0]), np.array([0, 0, 0, 1, 1])
    found = build(name).advantages(rewards, groups, np.array([2, 2, 9, 2, 2]))
    assert np.isfinite(found).all()
    assert found[2] == 0
    without = build(name).advantages(rewards[[0, 1, 3, 4]], groups[[0, 1, 3, 4]], np.array([2, 2, 2, 2]))
    assert found[[0, 1, 3, 4]].tolist() == pytest.approx(without.tolist())
    if not name.startswith("reinforce"):  # which compares over groups
        assert found[3:].tolist() == [0, 0]


def test_a_rule_of_its_own_is_said_in_the_header():
    assert build("rloo").describe_advantages() == "R - mean of the group's others"
    assert build("dr-grpo", max_length=3).describe_advantages() == "R - mean"
    assert torch.is_tensor(select(stats([0.5]), build("rloo")).weights)
