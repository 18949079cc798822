"""Token statistics in numbers, and the loss of an objective on them."""

import torch

from stapo_train.objective import TokenStats, policy_loss, select


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
