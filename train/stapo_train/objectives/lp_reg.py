"""Lp-Reg: unlikely tokens of failed rollouts are held near a cleaned-up old policy (arXiv:2510.03222).

    J_t = min(rho A, clip(rho, 0, 10) A)                        at most tokens: their Eq. 6
    J_t = rho A - beta (e^d - d - 1),  d = ln pi_proxy - ln pi  at tokens with A < 0 among the 1 % of those with the
                                                                lowest probability, where d > 0

The proxy is the policy that sampled (pi_old) cut to tokens with at least kappa times the top probability, and rescaled;
a taken token that the cut leaves out is taken for noise and not held. e^d - d - 1 is the low-variance estimate of the
KL; its gradient raises a held token, until the estimate passes 10 (at d = 2.6), where the authors' clamp ends it.

Constants are those of the authors' script for Qwen3-14B-Base; theirs for 32B models marks 0.5 %. They mark within each
micro-batch, we within the mini-batch. Their code: github.com/CarlanLark/Lp-Reg-dev, verl/trainer/ppo/core_algos.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stapo_train.objective import (
    Needs,
    Objective,
    Reduce,
    Selection,
    TokenStats,
    count_true,
    keep,
    log_ratio,
    top_mask,
)
from stapo_train.origins import Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor, torch

MAX_KL = 10.0
"""Nats up to which the authors count the estimate of a token's KL; beyond it has no gradient."""


@dataclass(frozen=True, kw_only=True)
class LpReg(Objective):
    """rho A with a wide clip, and the hold; denominator: all tokens."""

    label: ClassVar[str] = "Lp-Reg"
    look: ClassVar[str] = "blue triangle solid"
    source: ClassVar[str] = "arXiv:2510.03222, Eq. 6; constants of the authors' script for 14B"
    origins: ClassVar[Origins] = {
        "clip_low clip_high dual_clip": ("published", "arXiv:2510.03222, Eq. 6"),
        "share beta": ("code", "the authors' script for 14B"),
    }
    definition: ClassVar[int] = 2
    former: ClassVar[str] = "cut the current policy, and lowered the tokens that the authors' code raises"
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "all response tokens of the mini-batch"
    min_p: ClassVar[float | None] = 0.02  # kappa
    needs: ClassVar[Needs] = Needs(zero_advantage_statistics=False, zero_advantage_gradient=False)
    check_with: ClassVar[Mapping[str, float]] = {"share": 0.2}

    clip_low: float = 1.0
    clip_high: float = 9.0
    share: float = 0.01
    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "share", at_least=0, at_most=1)
        check_range(self, "beta", at_least=0)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens are kept; marked are the least likely of those with A < 0, where the proxy is above the policy.

        As in the authors' code nothing is marked where the share is a single token.
        """
        failed = stats.advantages < 0
        count = int(self.share * count_true(failed, reduce))
        lowest = top_mask(-stats.log_probs, failed, count if count > 1 else 0, reduce, key=stats.key)
        marked = lowest & (stats.log_probs < self._proxy(stats))
        return keep(stats, torch.ones_like(marked), reduce, candidate_mask=failed, marked_mask=marked)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """The clipped surrogate; at the marked tokens rho A less beta times the estimate of their KL."""
        marked, log_probs = selection.marked_mask, stats.log_probs
        distance = torch.where(marked, self._proxy(stats), log_probs.detach()) - log_probs
        kl = (distance.exp() - distance - 1).clamp(max=MAX_KL)
        held = log_ratio(stats).exp() * stats.advantages - self.beta * kl
        return torch.where(marked, held, super().term(stats, selection))

    def _proxy(self, stats: TokenStats) -> Tensor:
        if stats.proxy_log_probs is None:
            raise ValueError("lp-reg: expected proxy_log_probs in the token statistics (min_p is set), got none")
        return stats.proxy_log_probs
