"""Log-probabilities, entropy and the proxy KL of tokens against hand-computed values."""

import math

import pytest
import torch

from stapo_train.token_statistics import (
    logit_gradient_norm_bounds,
    logit_gradient_norm_squared,
    token_distribution,
)


def test_token_distribution_by_hand():
    # probabilities 0.5, 0.25, 0.25 at temperature 2 come from logits 2 ln p
    logits = 2 * torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64).log()
    found = token_distribution(logits, torch.tensor([1]), temperature=2.0)
    assert found.log_probs.exp().item() == pytest.approx(0.25)
    assert found.entropy.item() == pytest.approx(1.5 * math.log(2))  # 0.5 ln 2 + 0.5 ln 4
    assert found.sum_squares.item() == pytest.approx(0.375)


def test_bfloat16_logits_are_read_in_float32():
    logits = torch.tensor([[9.0, 0.0, -3.0]], dtype=torch.bfloat16)
    found = token_distribution(logits, torch.tensor([0]), temperature=1.0)
    assert found.log_probs.dtype == torch.float32
    # ln(1 / (1 + e^-9 + e^-12)); bfloat16 would say 0
    assert found.log_probs.item() == pytest.approx(-math.log1p(math.exp(-9) + math.exp(-12)), rel=1e-3)


def test_impossible_tokens_add_nothing_to_the_entropy():
    found = token_distribution(torch.tensor([[0.0, 0.0, -math.inf]]), torch.tensor([0]), temperature=1.0)
    assert found.entropy.item() == pytest.approx(math.log(2))


def test_the_min_p_proxy_is_the_policy_without_its_unlikely_tokens():
    probs = torch.tensor([[0.6, 0.39, 0.01], [0.6, 0.39, 0.01]], dtype=torch.float64)
    found = token_distribution(probs.log(), torch.tensor([1, 2]), temperature=1.0, min_p=0.02)
    # 0.01 < 0.02 * 0.6: cut. 0.39 / 0.99 for a taken token inside, nothing for one outside.
    assert found.proxy_log_probs.tolist() == [pytest.approx(math.log(0.39 / 0.99)), -math.inf]
    # A token at kappa times the largest stays in: a quarter against a half of a half.
    edge = token_distribution(torch.tensor([[2.0, 1.0, 1.0]]).log2() * math.log(2), torch.tensor([1]), 1.0, min_p=0.5)
    assert edge.proxy_log_probs.item() == pytest.approx(math.log(0.25))


def test_the_min_p_proxy_is_that_of_the_sampling_temperature_and_held_fixed():
    logits = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64).log().requires_grad_()
    found = token_distribution(logits, torch.tensor([0]), temperature=0.5, min_p=0.2)
    # squared and rescaled: 25, 9, 4 of 38; 4 < 0.2 * 25 is cut
    assert found.proxy_log_probs.item() == pytest.approx(math.log(25 / 34))
    assert not found.proxy_log_probs.requires_grad


@pytest.mark.parametrize("probs", [[0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.15, 0.05], [0.01, 0.97, 0.01, 0.01]])
def test_the_norm_of_a_gradient_by_the_logits_is_autograds_and_between_its_bounds(probs):
    logits = torch.tensor([probs], dtype=torch.float64).log().requires_grad_()
    found = token_distribution(logits, torch.tensor([0]), temperature=1.0)
    weight = torch.tensor(-2.0, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(weight * found.log_probs.sum(), logits)
    taken = found.log_probs.detach().exp()
    norm = logit_gradient_norm_squared(weight, taken, found.sum_squares).item()
    assert norm == pytest.approx((gradient**2).sum().item())
    low, high = (bound.item() for bound in logit_gradient_norm_bounds(weight, taken, found.entropy, 4))
    assert low - 1e-12 <= norm <= high + 1e-12
    if len(set(probs)) == 1:  # where all tokens are as likely both are the norm: 4 (1 - 2 / 4 + 1 / 4)
        assert (low, norm, high) == (pytest.approx(3.0),) * 3


@pytest.mark.parametrize(
    ("taken", "temperature", "message"),
    [([0], 1.0, r"expected one token id for each of the logits \[2, 3\], got \[1\]"), ([0, 1], 0.0, "got 0.0")],
)
def test_logits_and_tokens_that_do_not_fit_are_refused(taken, temperature, message):
    with pytest.raises(ValueError, match=message):
        token_distribution(torch.zeros(2, 3), torch.tensor(taken), temperature)
