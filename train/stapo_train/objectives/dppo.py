"""DPPO: the clip bounds a token's divergence instead of its ratio (arXiv:2602.04879).

    J_t = sg(rho) A ln pi, where the token's divergence is within its bound or the step leads back, else 0

A ratio says little of a rare token: from 1e-5 to 1e-3 it is 100 and the policy has hardly moved; from 0.99 to 0.8 it is
0.8 and much has moved. The divergence is that of two outcomes, this token and any other, from pi_old to pi:

    TV:  |pi - pi_old|                       bound 0.15 upwards (A > 0) and downwards (A < 0)
    KL:  KL(Bernoulli(pi_old), Bernoulli(pi))    bound 0.05

Tokens are summed and divided by rollouts times the maximum length, and A = R - mean, as in Dr. GRPO, which the authors'
example takes. It also takes the sampling engine's log-probs for pi_old; here they are the trainer's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stapo_train.objective import LEAST, Needs, Selection, TokenStats, log_ratio
from stapo_train.objectives.ratios import DrGrpo
from stapo_train.origins import NO_PART, Origins
from stapo_train.torch_later import Tensor


@dataclass(frozen=True, kw_only=True)
class DppoTv(DrGrpo):
    """The bound is on total variation."""

    label: ClassVar[str] = "DPPO (TV)"
    look: ClassVar[str] = ""
    source: ClassVar[str] = "arXiv:2602.04879, Binary-TV; constants of the example in verl"
    origins: ClassVar[Origins] = {
        "clip_low clip_high": ("code", "the example in verl"),
        "dual_clip": NO_PART,
    }
    detaches_ratio: ClassVar[bool] = True
    needs: ClassVar[Needs] = LEAST
    check_with: ClassVar[Mapping[str, float]] = {"clip_low": 0.003, "clip_high": 0.003}

    clip_low: float = 0.15
    clip_high: float = 0.15

    def clipped(self, stats: TokenStats) -> tuple[Tensor, Tensor]:
        """Tokens beyond the bound upwards with A > 0, and downwards with A <= 0."""
        moved = stats.log_probs.exp() - stats.old_log_probs.exp()
        good = stats.advantages > 0
        return good & (moved > self.clip_high), ~good & (moved < -self.clip_low)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """sg(rho) A ln pi within the bound, else 0."""
        high, low = self.clipped(stats)
        return (log_ratio(stats).exp().detach() * stats.advantages * stats.log_probs).masked_fill(high | low, 0.0)


@dataclass(frozen=True, kw_only=True)
class DppoKl(DppoTv):
    """The bound is on the Kullback-Leibler divergence."""

    label: ClassVar[str] = "DPPO (KL)"
    source: ClassVar[str] = "arXiv:2602.04879, Binary-KL; constants of the example in verl"
    detaches_ratio: ClassVar[bool] = True
    needs: ClassVar[Needs] = LEAST
    check_with: ClassVar[Mapping[str, float]] = {"clip_low": 2e-4, "clip_high": 2e-4}

    clip_low: float = 0.05
    clip_high: float = 0.05

    def clipped(self, stats: TokenStats) -> tuple[Tensor, Tensor]:
        """Tokens beyond the bound whose probability has risen with A > 0, or fallen with A <= 0."""
        now, old = stats.log_probs.exp(), stats.old_log_probs.exp()
        others = ((1 - old + 1e-8) / (1 - now + 1e-8)).log()
        divergence = old * (stats.old_log_probs - stats.log_probs) + (1 - old) * others
        good = stats.advantages > 0
        return good & (divergence > self.clip_high) & (now > old), ~good & (divergence > self.clip_low) & (now < old)
