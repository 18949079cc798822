"""ASPO: good rollouts' tokens weigh 1 / rho instead of rho (arXiv:2510.06062).

    A > 0:   J_t = A rho / sg(rho^2)     so that a token which became more likely weighs less
    A <= 0:  J_t = A rho

Beyond 1 + epsilon (A > 0) or below 1 - epsilon (A <= 0) there is no gradient. Where the weight, 1 / rho or rho, passes
3 it is held there and the gradient goes on: J_t = 3 A ln pi. epsilon is 0.2, and 0.4 at the fifth of a rollout's tokens
with the highest entropy. The authors' KL penalty of 0.001 on the other tokens is left out. Their code:
github.com/wizard-III/Archer2.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stapo_train.objective import Needs, Objective, Reduce, Selection, TokenStats, keep, quantile
from stapo_train.origins import NO_PART, Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor, torch


@dataclass(frozen=True, kw_only=True)
class Aspo(Objective):
    """Denominator: all tokens."""

    label: ClassVar[str] = "ASPO"
    source: ClassVar[str] = "arXiv:2510.06062; constants of the authors' script"
    origins: ClassVar[Origins] = {
        "clip_low clip_high clip_wide share max_weight": ("code", "the authors' script"),
        "dual_clip": NO_PART,
    }
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "all response tokens of the mini-batch"
    detaches_ratio: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(zero_advantage_statistics=False, zero_advantage_gradient=False)
    check_with: ClassVar[Mapping[str, float]] = {"max_weight": 1.3}

    clip_high: float = 0.2
    clip_wide: float = 0.4  # both ways, at tokens of high entropy
    share: float = 0.2  # of a rollout's tokens, those of high entropy
    max_weight: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "clip_wide", at_least=0)
        check_range(self, "share", at_least=0, at_most=1)
        check_range(self, "max_weight", above=1)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens are kept; marked are those above the 80 % quantile of their rollout's entropy."""
        bounds = [quantile(stats.entropy[stats.sequence == s], 1 - self.share) for s in range(_rollouts(stats))]
        bound = torch.tensor(bounds, dtype=torch.float64, device=stats.entropy.device)
        marked = stats.entropy.double() > bound[stats.sequence]
        return keep(stats, torch.ones_like(marked), reduce, marked_mask=marked)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """A rho / sg(rho^2) for A > 0, else A rho; within the clip, and held at ``max_weight``."""
        wide, rho, good = selection.marked_mask, self.ratio(stats), stats.advantages > 0
        # full_like: bare numbers would make a float32, and 0.2 is not one
        low = torch.full_like(rho, self.clip_low).masked_fill(wide, self.clip_wide)
        high = torch.full_like(rho, self.clip_high).masked_fill(wide, self.clip_wide)
        rho = torch.where(good, torch.minimum(rho, 1 + high), torch.maximum(rho, 1 - low))
        weight = torch.where(good, 1 / rho, rho).detach()
        inside = torch.where(good, rho / rho.detach().square(), rho)
        return torch.where(weight > self.max_weight, self.max_weight * stats.log_probs, inside) * stats.advantages


def _rollouts(stats: TokenStats) -> int:
    return int(stats.sequence.max()) + 1 if len(stats.sequence) else 0
