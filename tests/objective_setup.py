"""Token statistics in numbers, the loss of an objective on them, and gradients that are the same."""

import pytest
import torch

from stapo_train.objective import TokenStats, policy_loss, select
from stapo_train.objectives import REGISTRY

OF_EACH_KIND = ("grpo", "20-entropy", "lopti", "lp-reg", "stapo")
"""A loss over all tokens, one over a quantile of entropy, two phases, a proxy's statistics, a mask of rare tokens."""


def every_objective(*without: str):
    """For ``pytest.mark.parametrize``: every name but these; in the quick run those of ``OF_EACH_KIND`` alone."""
    slow = pytest.mark.slow(reason="the same once more for each of the other objectives")
    return [pytest.param(name, marks=[] if name in OF_EACH_KIND else slow) for name in REGISTRY if name not in without]


def stats(probs, entropy=None, advantages=None, old=None, sequence=None):
    """Tokens in numbers; by default one rollout, advantage 1, entropy 1, ratio 1, no proxy."""
    n = len(probs)
    log_probs = torch.tensor(probs, dtype=torch.float64).log()
    entropies = torch.tensor(entropy or [1.0] * n, dtype=torch.float64)
    return TokenStats(
        log_probs=log_probs,
        old_log_probs=log_probs.clone() if old is None else torch.tensor(old, dtype=torch.float64).log(),
        entropy=entropies,
        advantages=torch.tensor(advantages or [1.0] * n, dtype=torch.float64),
        sequence=torch.tensor(sequence or [0] * n),
        key=torch.arange(n),
        proxy_log_probs=torch.full((n,), -torch.inf, dtype=torch.float64),
        batch_entropy=entropies.mean().expand(n),
    )


def loss(s, objective, selection=None, phase=0):
    selection = selection or select(s, objective, phase=phase)
    denominator = selection.denominator.clamp(min=1)  # as the trainer does where nothing is kept
    return float(policy_loss(s, selection, objective).numerator.detach().sum() / denominator)


def assert_same(found, expected):
    """To 1e-6 of the largest element: Qwen3's norms compute in float32 even in a float64 model."""
    assert (found - expected).abs().max() <= 1e-6 * expected.abs().max()
