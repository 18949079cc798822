"""CE-GPPO: clipped tokens keep a bounded gradient, and two constants say how much (arXiv:2509.20712).

    J_t = beta_1 (1 - 0.2) rho / sg(rho) A    where A < 0 and rho < 1 - 0.2
          beta_2 (1 + 0.2) rho / sg(rho) A    where A > 0 and rho > 1 + 0.2
          rho A                               else; with A < 0 at least 10 A

The gradient of rho / sg(rho) is that of ln pi, so beyond the bounds a token weighs beta times the bound. Unlikely
tokens of good rollouts raise entropy (beta_2), those of bad ones lower it (beta_1). The authors' code:
github.com/Kwai-Klear/CE-GPPO.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stapo_train.objective import LEAST, Needs, Objective, Selection, TokenStats
from stapo_train.origins import Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor, torch


@dataclass(frozen=True, kw_only=True)
class CeGppo(Objective):
    """beta_1 = 0.5 and beta_2 = 1 are the authors' for 1.5B; for 7B they take 0.75 and 1."""

    label: ClassVar[str] = "CE-GPPO"
    source: ClassVar[str] = "arXiv:2509.20712; constants of the authors' script for 1.5B"
    origins: ClassVar[Origins] = {
        "clip_low clip_high dual_clip beta_low beta_high": ("code", "the authors' script for 1.5B"),
    }
    detaches_ratio: ClassVar[bool] = True
    needs: ClassVar[Needs] = LEAST
    check_with: ClassVar[Mapping[str, float]] = {"dual_clip": 1.3}

    clip_high: float = 0.2
    dual_clip: float | None = 10.0
    beta_low: float = 0.5
    beta_high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "beta_low", "beta_high", at_least=0)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """rho A inside the clip; beyond it the bound times its beta, with the gradient of ln pi."""
        rho, (high, low) = self.ratio(stats), self.clipped(stats)
        through = rho / rho.detach()
        weight = torch.where(low, self.beta_low * (1 - self.clip_low) * through, rho)
        weight = torch.where(high, self.beta_high * (1 + self.clip_high) * through, weight)
        term = weight * stats.advantages
        if self.dual_clip is not None:
            term = torch.where(stats.advantages < 0, torch.maximum(term, self.dual_clip * stats.advantages), term)
        return term
