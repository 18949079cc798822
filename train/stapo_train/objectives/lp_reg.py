"""Lp-Reg: unlikely tokens of failed rollouts are shielded by a KL to a cleaned-up policy (arXiv:2510.03222).

    J = DAPO's - beta KL(proxy || pi_theta) at tokens with A < 0 among the 1 % of those with the lowest probability

The proxy is the policy cut to tokens with at least kappa times the top probability, and rescaled; a taken token outside
it is taken for noise and not shielded. The clip is DAPO's; the authors' scripts open it to 1.0 / 9.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from stapo_train.objective import Needs, Objective, Reduce, Selection, TokenStats, count_true, keep, top_mask
from stapo_train.parse import check_range


@dataclass(frozen=True, kw_only=True)
class LpReg(Objective):
    """DAPO's loss with the shield; denominator: all tokens."""

    label: ClassVar[str] = "Lp-Reg"
    look: ClassVar[str] = "blue triangle solid"
    source: ClassVar[str] = "arXiv:2510.03222"
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "all response tokens of the mini-batch"
    min_p: ClassVar[float | None] = 0.02  # kappa
    needs: ClassVar[Needs] = Needs(zero_advantage_statistics=False, zero_advantage_gradient=False)
    check_with: ClassVar[Mapping[str, float]] = {"share": 0.2}

    share: float = 0.01
    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "share", at_least=0, at_most=1)
        check_range(self, "beta", at_least=0)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens are kept; the ``share`` least likely of those with A < 0 are marked."""
        failed = stats.advantages < 0
        marked = top_mask(-stats.log_probs, failed, int(self.share * count_true(failed, reduce)), reduce)
        everything = torch.ones_like(marked)
        return keep(stats, everything, reduce, candidate_mask=failed, marked_mask=marked)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """DAPO's term, less beta KL(proxy || pi) at the marked tokens."""
        if stats.proxy_kl is None:
            raise ValueError("lp-reg: expected proxy_kl in the token statistics (min_p is set), got none")
        shield = torch.where(selection.marked_mask, stats.proxy_kl, torch.zeros_like(stats.proxy_kl))
        return super().term(stats, selection) - self.beta * shield
