"""TACO: rare tokens that their own distribution does not explain get less positive credit (arXiv:2607.07976).

    r_t = -ln pi_t - H_t + ln alpha                      tail risk: surprise beyond what the entropy lets expect
    w_t = 1 - lambda (1 - exp(-r_t))                     where A > 0 and r_t > 0; else 1
    J   = 1 / (response tokens of the mini-batch)  sum over all tokens  w_t min(rho A, clip(rho, 1 - 0.2, 1 + 0.28) A)

and, where A < 0, at least 10 A. r_t > 0 says pi_t < alpha exp(-H_t): of the credit of a rare, sure token, which STAPO
silences, TACO leaves at least 1 - lambda. pi and H are the current policy's. Clip range and dual clip are those of the
authors' script. Their code: github.com/xiuyilou/TACO.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stapo_train.objective import Needs, Objective, Reduce, Selection, TokenStats, keep
from stapo_train.origins import Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import torch


@dataclass(frozen=True, kw_only=True)
class Taco(Objective):
    """A smaller ``alpha`` calls fewer tokens risky; ``strength`` is lambda, the largest part of credit taken away."""

    label: ClassVar[str] = "TACO"
    source: ClassVar[str] = "arXiv:2607.07976; constants of the authors' script"
    origins: ClassVar[Origins] = {
        "alpha strength clip_low clip_high dual_clip": ("code", "the authors' script"),
    }
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "all response tokens of the mini-batch"
    needs: ClassVar[Needs] = Needs(zero_advantage_statistics=False, zero_advantage_gradient=False)
    check_with: ClassVar[Mapping[str, float]] = {"alpha": 1.0}

    dual_clip: float | None = 10.0
    alpha: float = 0.01
    strength: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "alpha", above=0)
        check_range(self, "strength", at_least=0, at_most=1)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens are kept; those of good rollouts that are riskier than alpha allows weigh less."""
        risk = -stats.log_probs - stats.entropy + math.log(self.alpha)
        risky = (stats.advantages > 0) & (risk > 0)
        weights = torch.where(risky, 1 - self.strength * (1 - torch.exp(-risk)), torch.ones_like(risk))
        return keep(stats, torch.ones_like(risky), reduce, weights=weights)
