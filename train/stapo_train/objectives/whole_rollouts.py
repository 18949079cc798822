"""Objectives whose weight belongs to a rollout and not to a token: GMPO, LUSPO, VESPO.

    GMPO    A (prod_t rho_t')^(1/|y|),  ln rho_t' clipped at +-0.4                       arXiv:2507.20673, Eq. 4
    LUSPO   |y| min(s A, clip(s) A),  s the geometric mean of the ratios, as in GSPO     arXiv:2602.05261
    VESPO   sg(phi(w)) A ln pi,  w = prod_t rho_t,  phi(w) = e^lambda w^k e^(-lambda w)  arXiv:2602.10693

VESPO's k and lambda are 2 and 3 for A >= 0, and 3 and 2 for A < 0; phi(1) = 1.
"""

import math
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
from stapo_train.objectives.ratios import Gspo
from stapo_train.origins import NO_PART, Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor, torch


@dataclass(frozen=True, kw_only=True)
class Gmpo(Objective):
    """The geometric mean of a rollout's ratios, each clipped first: one extreme token hardly moves it."""

    label: ClassVar[str] = "GMPO"
    source: ClassVar[str] = "arXiv:2507.20673, Eq. 4"
    origins: ClassVar[Origins] = {
        "clip_low clip_high": ("published", "arXiv:2507.20673, Eq. 4"),
        "dual_clip": NO_PART,
    }
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "rollouts, of each one's token mean"
    needs: ClassVar[Needs] = LEAST

    clip_low: float = 0.4  # of ln rho
    clip_high: float = 0.4

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens, each with weight 1 / |y_i|, over the number of rollouts."""
        return keep_all_by_rollout(stats, reduce)

    def clipped(self, stats: TokenStats) -> tuple[Tensor, Tensor]:
        """Tokens with ln rho above ``clip_high`` and A > 0, and below -``clip_low`` with A < 0."""
        log_rho = log_ratio(stats)
        high = (stats.advantages > 0) & (log_rho > self.clip_high)
        return high, (stats.advantages < 0) & (log_rho < -self.clip_low)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """A times the geometric mean of the clipped ratios, the same at each of a rollout's tokens (Eq. 4)."""
        high, low = self.clipped(stats)
        log_rho = log_ratio(stats)
        log_rho = log_rho.masked_fill(high, self.clip_high).masked_fill(low, -self.clip_low)
        total, length = rollout_sums(log_rho, stats)
        return (total / length).exp() * stats.advantages


@dataclass(frozen=True, kw_only=True)
class Luspo(Gspo):
    """GSPO with each rollout weighed by its length, which takes away GSPO's preference for short ones."""

    label: ClassVar[str] = "LUSPO"
    look: ClassVar[str] = ""
    source: ClassVar[str] = "arXiv:2602.05261, clip of Sec. 5.1"
    origins: ClassVar[Origins] = {
        "clip_low clip_high dual_clip": ("published", "arXiv:2602.05261, Sec. 5.1"),
    }
    divides_by: ClassVar[str] = "rollouts"
    needs: ClassVar[Needs] = LEAST

    clip_low: float = 2e-3
    clip_high: float = 2.5e-3

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens over the number of rollouts."""
        return replace(keep_all(stats, reduce), denominator=sequence_mean(stats, reduce)[1])


@dataclass(frozen=True, kw_only=True)
class Vespo(Objective):
    """A smooth weight that falls off where a whole rollout has moved far, in place of a clip."""

    label: ClassVar[str] = "VESPO"
    source: ClassVar[str] = "arXiv:2602.10693; constants of the authors' scripts"
    origins: ClassVar[Origins] = {
        "k_positive lambda_positive k_negative lambda_negative": ("code", "the authors' scripts"),
        "clip_low clip_high dual_clip": NO_PART,
    }
    detaches_ratio: ClassVar[bool] = True
    needs: ClassVar[Needs] = LEAST

    k_positive: float = 2.0
    lambda_positive: float = 3.0
    k_negative: float = 3.0
    lambda_negative: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "k_positive", "k_negative", at_least=0)
        check_range(self, "lambda_positive", "lambda_negative", above=0)

    def clipped(self, stats: TokenStats) -> tuple[Tensor, Tensor]:
        """None: there is no clip."""
        nowhere = torch.zeros_like(stats.advantages, dtype=torch.bool)
        return nowhere, nowhere

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """sg(phi(w)) A ln pi; ln w is bounded at ln 1e-8 and 20, as in the authors' code."""
        log_w = rollout_sums(log_ratio(stats).detach(), stats)[0].clamp(math.log(1e-8), 20)
        good = stats.advantages >= 0
        k = torch.where(good, self.k_positive, self.k_negative).to(log_w)
        rate = torch.where(good, self.lambda_positive, self.lambda_negative).to(log_w)
        return (rate + k * log_w - rate * log_w.exp()).exp() * stats.advantages * stats.log_probs
