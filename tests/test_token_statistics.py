"""Log-probabilities, entropy and the proxy KL of tokens against hand-computed values."""

import math

import pytest
import torch

from stapo_train.token_statistics import token_distribution


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


def test_proxy_kl_is_the_mass_outside_the_min_p_set():
    probs = torch.tensor([[0.6, 0.39, 0.01], [0.6, 0.39, 0.01]], dtype=torch.float64)
    found = token_distribution(probs.log(), torch.tensor([1, 2]), temperature=1.0, min_p=0.02)
    # 0.01 < 0.02 * 0.6: cut. KL = -ln 0.99 for a taken token inside, 0 for one outside.
    assert found.proxy_kl.tolist() == [pytest.approx(-math.log(0.99)), 0.0]


def test_proxy_kl_gradient_is_that_of_the_kl_with_the_proxy_held_fixed():
    logits = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3
    taken = logits.argmax(-1)
    ours = logits.clone().requires_grad_()
    token_distribution(ours, taken, 1.0, min_p=0.1).proxy_kl.sum().backward()
    theirs = logits.clone().requires_grad_()
    log_pi = theirs.log_softmax(-1)
    pi = log_pi.detach().exp()
    proxy = torch.where(pi >= 0.1 * pi.amax(-1, keepdim=True), pi, 0.0)
    proxy = proxy / proxy.sum(-1, keepdim=True)
    (proxy * (proxy.clamp(min=1e-300).log() - log_pi)).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)
