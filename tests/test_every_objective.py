"""What all objectives share: what nothing is learned from, what is refused, and what no split changes."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from objective_setup import loss, stats

from stapo_bench.errors import UsageError
from stapo_train.objective import TokenStats, policy_loss, quantile, select, uniform
from stapo_train.objectives import REGISTRY, build, for_run


@pytest.mark.parametrize("name", REGISTRY)
def test_nothing_but_zero_where_nothing_is_learned(name):
    objective = for_run({"name": name}, seed=0, max_new_tokens=8)
    s = stats([0.5, 0.001], advantages=[0.0, 0.0])
    assert loss(s, objective) == 0


def test_a_silenced_token_has_gradient_zero_even_where_its_term_is_infinite():
    s = stats([0.001, 0.001], entropy=[0.1, 0.2], advantages=[math.inf, 1.0])
    leaf = s.log_probs.clone().requires_grad_()
    s = TokenStats(**{**vars(s), "log_probs": leaf})
    objective = build("stapo")
    policy_loss(s, select(s, objective), objective).numerator.sum().backward()
    assert leaf.grad.tolist() == [0.0, -1.0]


def test_importance_weights_scale_each_token():
    s = stats([0.5, 0.5])
    s = TokenStats(**{**vars(s), "importance": torch.tensor([0.5, 2.0], dtype=torch.float64)})
    assert loss(s, build("dapo")) == pytest.approx(-1.25)


def test_each_token_is_weighed_by_its_own_importance():
    s = stats([0.5, 0.5, 0.5], advantages=[1, 1, -1])
    s = replace(s, importance=torch.tensor([0.5, 4.0, 3.0], dtype=torch.float64))
    objective = build("dapo")
    assert policy_loss(s, select(s, objective), objective).numerator.tolist() == [-0.5, -4.0, 3.0]


def test_clipped_tokens_are_counted_by_hand():
    # ratios   1.5  1.2  0.5 | 0.5  0.9  1.5  0.5
    # A          1    1    1 |  -1   -1   -1   -1, under 0.2 / 0.28
    # high: the first alone; low: the fourth and the last, which is silenced and does not count
    probs, advantages = [0.6, 0.48, 0.2, 0.2, 0.36, 0.6, 0.2], [1, 1, 1, -1, -1, -1, -1]
    s = stats(probs, old=[0.4] * 7, advantages=advantages)
    selection = select(s, build("dapo"))
    selection = replace(selection, keep_mask=torch.arange(7) < 6)
    metrics = policy_loss(s, selection, build("dapo")).metrics
    assert (int(metrics["clipped_high"]), int(metrics["clipped_low"]), int(metrics["tokens"])) == (1, 1, 7)


def test_small_advantages_are_clipped_on_their_own_side_alone():
    # ratio 0.5 with A = 0.5, 0 and -0.5: below 1 - clip_low only the last one's clip holds
    s = stats([0.2] * 3, old=[0.4] * 3, advantages=[0.5, 0.0, -0.5])
    assert int(policy_loss(s, select(s, build("dapo")), build("dapo")).metrics["clipped_low"]) == 1
    s = stats([0.6] * 3, old=[0.4] * 3, advantages=[0.5, 0.0, -0.5])
    assert int(policy_loss(s, select(s, build("dapo")), build("dapo")).metrics["clipped_high"]) == 1


def test_a_token_as_likely_as_tau_p_is_no_candidate():
    s = stats([1.0, 0.5])  # ln 1 is 0 and its exponential 1, without rounding
    assert select(s, build("stapo", tau_p=1.0)).candidate_mask.tolist() == [False, True]


def test_stare_leaves_rollouts_without_advantage_and_entropy_at_the_bound_alone():
    # Half of the two with A > 0 and of the two with A < 0 are one each: the less likely. The first two have A = 0.
    s = stats([0.1, 0.1, 0.5, 0.6, 0.5, 0.6], entropy=[0.5] * 6, advantages=[0, 0, 1, 1, -1, -1])
    stare = build("stare", share=0.5, weight_positive=2.0, weight_negative=0.5, max_entropy=1.0)
    assert select(s, stare).weights.tolist() == [1, 1, 2, 1, 0.5, 1]
    assert select(s, replace(stare, max_entropy=0.5)).weights.tolist() == [1] * 6


def test_gspo_ratio_of_a_rollout_of_one_token_is_the_tokens():
    # 0.4 / 0.2; beside it two tokens of ratios 4 and 1: sqrt(4)
    s = stats([0.4, 0.4, 0.1], old=[0.2, 0.1, 0.1], sequence=[0, 1, 1])
    assert build("gspo").ratio(s).tolist() == pytest.approx([2.0, 2.0, 2.0])


@pytest.mark.parametrize(("low", "high", "num_eligible"), [(0.5, 1.5, 2), (0.5, 1.0, 0), (1.0, 1.5, 0)])
def test_clip_cov_draws_from_strictly_between_its_bounds(low, high, num_eligible):
    # A = 1, -1 and ln pi = -1, -3: the means are 0 and -2, both covariances exactly 1
    log_probs = torch.tensor([-1.0, -3.0], dtype=torch.float64)
    s = replace(stats([0.5, 0.5], advantages=[1, -1]), log_probs=log_probs, old_log_probs=log_probs)
    selection = select(s, build("clip-cov", seed=0, low=low, high=high))
    assert selection.num_candidates == num_eligible
    assert selection.num_kept == 2 - min(num_eligible, 1)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'stapo'"):
        build("stappo")
    with pytest.raises(UsageError, match="did you mean 'tau_p'"):
        build("stapo", tau_q=0.1)


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("stapo", {"q": math.nan}, "q: expected at least 0 and at most 1, got nan"),
        ("stapo-old", {"tau_p": 2}, "tau_p: expected at least 0 and at most 1, got 2"),
        ("random-mask", {"seed": 0.5}, "seed: expected int, got 0.5"),
        ("gspo", {"clip_low": "3e-4x"}, "clip_low: expected float"),
        ("grpo", {"kl_beta": -0.1}, "kl_beta: expected at least 0, got -0.1"),
        ("ar", {"alpha": 2}, "alpha: expected"),
        ("20-entropy", {"share": 1.5}, "share: expected at least 0 and at most 1, got 1.5"),
        ("lopti", {"eta": 1.5}, "eta: expected at least 0 and at most 1, got 1.5"),
        ("stare", {"share": 1.5}, "share: expected at least 0 and at most 1, got 1.5"),
        ("stare", {"weight_positive": -0.1}, "weight_positive: expected at least 0, got -0.1"),
        ("stare", {"weight_negative": -0.1}, "weight_negative: expected at least 0, got -0.1"),
        ("stare", {"max_entropy": -0.1}, "max_entropy: expected at least 0, got -0.1"),
        ("lp-reg", {"beta": -0.1}, "beta: expected at least 0, got -0.1"),
        ("kl-cov", {"beta": -0.1}, "beta: expected at least 0, got -0.1"),
        ("kl-cov", {"share": 1.5}, "share: expected at least 0 and at most 1, got 1.5"),
        ("clip-cov", {"seed": 0, "share": 1.5}, "share: expected at least 0 and at most 1, got 1.5"),
        ("lopti", {"alpha": 2}, "alpha: expected"),
        ("lopti", {"eta": -1}, "eta: expected"),
        ("stare", {"share": 10}, "share: expected"),
        ("lp-reg", {"beta": -1}, "beta: expected"),
        ("kl-cov", {"share": -1}, "share: expected"),
        ("clip-cov", {"seed": 0, "high": 0.5}, "high: expected at least 1, got 0.5"),
        ("dr-grpo", {"max_length": 0}, "max_length: expected at least 1, got 0"),
        ("sapo", {"tau_positive": 0}, "tau_positive: expected above 0, got 0"),
    ],
)
def test_impossible_settings_are_refused(name, setting, message):
    with pytest.raises(UsageError) as caught:
        build(name, **setting)
    assert str(caught.value).startswith(f"objective {name}: {message}")


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("setting", ["clip_low", "clip_high"])
def test_no_objective_takes_a_clip_range_below_zero(name, setting):
    with pytest.raises(UsageError, match=f"{setting}: expected at least 0, got -0.1"):
        for_run({"name": name, setting: -0.1}, seed=0, max_new_tokens=8)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30), st.floats(0, 1))
def test_quantile_is_torchs(values, q):
    x = torch.tensor(values, dtype=torch.float64)
    assert quantile(x, q) == pytest.approx(float(torch.quantile(x, q)), abs=1e-9)


def test_uniform_draws_look_uniform_and_hang_on_the_seed():
    keys = torch.arange(20_000)
    draws = uniform(keys, 1)
    assert draws.min() >= 0 and draws.max() < 1
    # standard error of the mean 0.289 / sqrt(20000) = 0.002
    assert draws.mean() == pytest.approx(0.5, abs=0.01)
    assert torch.corrcoef(torch.stack([draws, uniform(keys, 2)]))[0, 1].abs() < 0.03
