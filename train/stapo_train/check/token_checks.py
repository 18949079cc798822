"""Checks on single tokens with random logits: silenced ones, slopes, the paper's gradient-norm identity and bounds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from stapo_train.check.computed import Check, worst_of
from stapo_train.objective import Objective, Selection, TokenStats, policy_loss, select
from stapo_train.token_statistics import logit_gradient_norm_bounds, logit_gradient_norm_squared, token_distribution


@dataclass(frozen=True, kw_only=True)
class RandomTokens:
    """Tokens with random next-token distributions, from flat to peaked, and an objective's loss on them."""

    objective: Objective
    logits: Tensor  # [N, V]
    taken: Tensor  # [N]
    stats: TokenStats
    selection: Selection

    @staticmethod
    def make(vocabulary: int, like: TokenStats, objective: Objective, phase: int) -> "RandomTokens":
        """Advantages, rollouts and ratios as in ``like``; fewer tokens where the vocabulary is large."""
        like = like.take(torch.arange(min(len(like.key), 2_000_000 // vocabulary)))
        generator = torch.Generator().manual_seed(2)
        count = len(like.key)
        scale = torch.linspace(0.1, 8.0, count, dtype=torch.float64).unsqueeze(1)
        logits = scale * torch.randn(count, vocabulary, generator=generator, dtype=torch.float64)
        taken = torch.randint(vocabulary, (count,), generator=generator)
        now = token_distribution(logits, taken, 1.0)
        shift = like.log_probs - like.old_log_probs
        noise = torch.randn(count, generator=generator, dtype=torch.float64)
        stats = replace(
            like,
            log_probs=now.log_probs,
            entropy=now.entropy,
            old_log_probs=now.log_probs - shift,
            ref_log_probs=now.log_probs + shift,
            proxy_log_probs=now.log_probs + noise,
        )
        selection = select(stats, objective, phase=phase)
        return RandomTokens(objective=objective, logits=logits, taken=taken, stats=stats, selection=selection)

    def numerator(self, logits: Tensor) -> Tensor:
        """[N] loss numerators at other logits, the selection held fixed."""
        now = token_distribution(logits, self.taken, 1.0)
        stats = replace(self.stats, log_probs=now.log_probs)
        return policy_loss(stats, self.selection, self.objective).numerator

    def gradient(self) -> Tensor:
        """[N, V] of the loss with respect to the logits."""
        leaf = self.logits.clone().requires_grad_()
        torch.autograd.backward(self.numerator(leaf).sum())
        assert leaf.grad is not None
        return leaf.grad

    def gradient_by_log_prob(self) -> Tensor:
        """[N] of the loss with respect to the taken tokens' log-probs, all else fixed."""
        leaf = self.stats.log_probs.clone().requires_grad_()
        stats = replace(self.stats, log_probs=leaf)
        torch.autograd.backward(policy_loss(stats, self.selection, self.objective).numerator.sum())
        assert leaf.grad is not None
        return leaf.grad


def token_checks(tokens: RandomTokens) -> Iterator[Check]:
    """Checks of gradients with respect to the logits, against closed forms or finite differences."""
    gradient, selection = tokens.gradient(), tokens.selection
    silenced = gradient[~selection.keep_mask]
    worst = float(silenced.abs().max()) if len(silenced) else math.nan
    yield Check(
        name="0 at silenced tokens",
        deviation=math.inf if worst > 0 else worst,  # exactly, or not at all
        applicable=len(silenced) > 0,
        note=f"{len(silenced)} of {len(gradient)} silenced",
    )
    has_slope = not tokens.objective.detaches_ratio  # else the gradient is by definition not that of the value
    slope = _finite_differences(tokens, gradient) if has_slope else math.nan
    yield Check(name="finite differences", deviation=slope, applicable=has_slope)

    # ||d loss / d logits||^2 = w^2 (1 - 2 pi + sum pi_v^2), where the loss depends on the logits through pi alone
    plain = ~selection.marked_mask
    now = token_distribution(tokens.logits, tokens.taken, 1.0)
    weight, probs = tokens.gradient_by_log_prob(), now.log_probs.exp()
    measured = (gradient**2).sum(-1)
    identity = logit_gradient_norm_squared(weight, probs, now.sum_squares)
    low, high = logit_gradient_norm_bounds(weight, probs, now.entropy, tokens.logits.shape[1])
    scale = float(identity.max().clamp(min=1e-12))
    yield Check(name="gradient norm", deviation=float((measured - identity)[plain].abs().max()) / scale)
    outside = torch.maximum(low - measured, measured - high)[plain].clamp(min=0)
    yield Check(name="its bounds", deviation=float(outside.max()) / scale)


def _finite_differences(tokens: RandomTokens, gradient: Tensor, step: float = 1e-6) -> float:
    """Compare slopes along random directions."""
    worst, generator = 0.0, torch.Generator().manual_seed(9)
    for _ in range(3):
        direction = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            above, below = (float(tokens.numerator(tokens.logits + s * direction).sum()) for s in (step, -step))
        expected = float((gradient * direction).sum())
        worst = worst_of(worst, abs((above - below) / (2 * step) - expected) / max(abs(expected), 1.0))
    return worst
