"""20-Entropy: only the 20 % of tokens with the highest entropy learn (arXiv:2506.01939, Eq. 6).

keep_t = H_t >= tau,  tau the 80 % quantile of H over all response tokens of the mini-batch, whatever the sign of A

The kept tokens have JustRL's loss, with its dual clip of 10 for A < 0. The authors' code takes the quantile of each
micro-batch by itself; with one micro-batch it is this.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from stapo_train.objective import Needs, Reduce, Selection, TokenStats, keep, quantile
from stapo_train.objectives.dapo import JustRl
from stapo_train.origins import Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import torch


@dataclass(frozen=True, kw_only=True)
class Entropy20(JustRl):
    """Loss on the high-entropy tokens, over their number (the authors' code) or over all tokens (TRL)."""

    label: ClassVar[str] = "20-Entropy"
    look: ClassVar[str] = "purple triangle dash-dot"
    source: ClassVar[str] = "arXiv:2506.01939, Eq. 6"
    origins: ClassVar[Origins] = {
        "clip_low clip_high share": ("published", "arXiv:2506.01939"),
        "denominator": ("code", "the authors' code"),
    }
    silences: ClassVar[str] = "tokens below the 80 % quantile of entropy over all response tokens"
    divides_by: ClassVar[str] = "kept tokens of the mini-batch (denominator: all is an option)"
    needs: ClassVar[Needs] = Needs(zero_advantage_gradient=False)

    share: float = 0.2
    denominator: Literal["kept", "all"] = "kept"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "share", at_least=0, at_most=1)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """Tokens at or above the 1 - share quantile of all tokens' entropy are kept."""
        everyone = reduce.gather(stats.entropy)
        tau = quantile(everyone, 1 - self.share)
        num_tokens = torch.tensor(len(everyone), dtype=torch.float64)
        return keep(
            stats,
            stats.entropy.double() >= tau,
            reduce,
            candidate_mask=torch.ones_like(stats.entropy, dtype=torch.bool),
            denominator=num_tokens if self.denominator == "all" else None,
            thresholds={"tau_h": tau},
        )
