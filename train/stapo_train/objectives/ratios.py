"""Objectives that change the ratio or how rollouts are averaged: Dr. GRPO, GSPO, CISPO, SAPO."""

from dataclasses import dataclass, replace
from typing import ClassVar

from stapo_train.objective import (
    LEAST,
    Needs,
    Objective,
    Reduce,
    Selection,
    TokenStats,
    keep_all,
    keep_all_by_rollout,
    log_ratio,
    rollout_sums,
    sequence_mean,
)
from stapo_train.origins import NO_PART, Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor, torch


@dataclass(frozen=True, kw_only=True)
class DrGrpo(Objective):
    """A = R - mean without the std; tokens are summed and divided by rollouts times the maximum length."""

    label: ClassVar[str] = "Dr. GRPO"
    look: ClassVar[str] = "orange plus dotted"
    source: ClassVar[str] = "arXiv:2503.20783, Sec. 3.2"
    origins: ClassVar[Origins] = {
        "dual_clip": ("published", "arXiv:2503.20783, Sec. 3.2"),
        "clip_low clip_high": ("code", "verl's and TRL's default"),
    }
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "rollouts x maximum length"
    divide_by_std: ClassVar[bool] = False
    needs: ClassVar[Needs] = LEAST

    clip_high: float = 0.2
    max_length: int  # tokens; a constant, so that no length is favoured

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "max_length", at_least=1)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens over rollouts times ``max_length``."""
        _, num_rollouts = sequence_mean(stats, reduce)
        return replace(keep_all(stats, reduce), denominator=num_rollouts * self.max_length)


@dataclass(frozen=True, kw_only=True)
class Gspo(Objective):
    """One ratio per rollout, the geometric mean of its tokens': s = (pi / pi_old)^(1/|y|), clipped at 3e-4 / 4e-4."""

    label: ClassVar[str] = "GSPO"
    look: ClassVar[str] = "green square solid"
    source: ClassVar[str] = "arXiv:2507.18071, Eq. 5-7"
    origins: ClassVar[Origins] = {
        "clip_low clip_high dual_clip": ("published", "arXiv:2507.18071"),
    }
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "rollouts, of each one's token mean"
    needs: ClassVar[Needs] = LEAST

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens, each with weight 1 / |y_i|, over the number of rollouts."""
        return keep_all_by_rollout(stats, reduce)

    def ratio(self, stats: TokenStats) -> Tensor:
        """[N] s_i = exp(mean over the rollout's tokens of ln rho), the same at each of them (Eq. 5-7)."""
        total, length = rollout_sums(log_ratio(stats), stats)
        return (total / length).exp()


@dataclass(frozen=True, kw_only=True)
class Cispo(Objective):
    """sg(min(rho, 1 + clip_high)) A ln pi: the clip bounds a token's weight and never drops its gradient.

    The paper bounds the ratio from above alone and does not state the bound; 5 is what later work reports.
    """

    label: ClassVar[str] = "CISPO"
    look: ClassVar[str] = "green triangle dotted"
    source: ClassVar[str] = "arXiv:2506.13585, Eq. 4-5"
    origins: ClassVar[Origins] = {
        "clip_low": ("published", "arXiv:2506.13585"),
        "clip_high": ("code", "TRL's example, after later work"),
        "dual_clip": NO_PART,
    }
    detaches_ratio: ClassVar[bool] = True
    needs: ClassVar[Needs] = LEAST

    clip_low: float = 1.0
    clip_high: float = 4.0

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """sg(clipped rho) A ln pi (Eq. 4-5)."""
        weight = self.ratio(stats).detach().clamp(1 - self.clip_low, 1 + self.clip_high)
        return weight * stats.advantages * stats.log_probs


@dataclass(frozen=True, kw_only=True)
class Sapo(Objective):
    """A smooth gate for the clip: (4 / tau) sigmoid(tau (rho - 1)) A, whose slope at rho = 1 is A."""

    label: ClassVar[str] = "SAPO"
    look: ClassVar[str] = "green diamond dash-dot"
    source: ClassVar[str] = "arXiv:2511.20347"
    origins: ClassVar[Origins] = {
        "tau_positive tau_negative": ("published", "arXiv:2511.20347"),
        "clip_low clip_high dual_clip": NO_PART,
    }
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "rollouts, of each one's token mean"
    needs: ClassVar[Needs] = LEAST

    tau_positive: float = 1.0
    tau_negative: float = 1.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "tau_positive", "tau_negative", above=0)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens, each with weight 1 / |y_i|, over the number of rollouts."""
        return keep_all_by_rollout(stats, reduce)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """(4 / tau) sigmoid(tau (rho - 1)) A, with a tau for each sign of A."""
        # full_like: two bare numbers would make a float32, and 1.05 is not one
        tau = torch.full_like(stats.advantages, self.tau_negative)
        tau = tau.masked_fill(stats.advantages > 0, self.tau_positive)
        return 4 / tau * torch.sigmoid(tau * (self.ratio(stats) - 1)) * stats.advantages
