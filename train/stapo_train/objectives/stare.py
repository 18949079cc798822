"""STARE: the most surprising tokens of good rollouts weigh more while entropy is low (arXiv:2606.19236).

    s_t = -ln pi_t;  weight W on the top 10 % by s among A > 0;  variant C2: weight M on the top 10 % among A < 0
    only while the mean entropy of the iteration's rollouts, under the policy that sampled them, is below 0.3 nats

The terms are the clipped surrogate at 0.2 / 0.28 with a dual clip of 10, as in the authors' scripts. Shares are rounded
up. The authors also have a controller that moves W and M with the entropy, off by default and not built here. They rank
surprisal within each micro-batch, we within the mini-batch. Their code: github.com/hp-luo/STARE.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from stapo_train.objective import Needs, Objective, Reduce, Selection, TokenStats, count_true, keep, mean, top_mask
from stapo_train.origins import Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor, torch

ROUND_UP = 0.999999
"""Added before cutting a count to an integer, as the authors do: 10.0000001 is 10 and not 11."""


@dataclass(frozen=True, kw_only=True)
class Stare(Objective):
    """Variant O1 by default; ``weight_negative: 0.9`` is C2. The authors use 1.05 and 0.95 for 14B and 32B models.

    ``gate: mini-batch`` asks each mini-batch's own entropy, under the current policy, instead of the iteration's.
    """

    label: ClassVar[str] = "STARE"
    look: ClassVar[str] = "wine square dash-dot"
    source: ClassVar[str] = "arXiv:2606.19236, Sec. 4; constants of the authors' script for 7B"
    origins: ClassVar[Origins] = {
        "weight_negative": ("published", "arXiv:2606.19236, variant O1"),
        "share weight_positive max_entropy gate clip_low clip_high dual_clip": ("code", "the authors' script for 7B"),
    }
    definition: ClassVar[int] = 2
    former: ClassVar[str] = "decided its gate for each mini-batch, rounded its share down and had no dual clip"
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "all response tokens of the mini-batch"
    needs: ClassVar[Needs] = Needs(zero_advantage_gradient=False)  # a mini-batch's mean entropy is over all tokens
    check_with: ClassVar[Mapping[str, float]] = {"share": 0.2, "max_entropy": 10.0}

    dual_clip: float | None = 10.0
    share: float = 0.1
    weight_positive: float = 1.1
    weight_negative: float = 1.0
    max_entropy: float = 0.3  # nats
    gate: Literal["iteration", "mini-batch"] = "iteration"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "share", at_least=0, at_most=1)
        check_range(self, "weight_positive", "weight_negative", "max_entropy", at_least=0)

    @property
    def needs_batch_entropy(self) -> bool:
        """True where the gate is decided once for all mini-batches of an iteration."""
        return self.gate == "iteration"

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens are kept; while mean entropy is low the most surprising of each sign of A weigh more or less."""
        weights = torch.ones_like(stats.advantages)
        entropy = mean(self._entropy(stats), reduce)
        if entropy < self.max_entropy:
            signs = ((stats.advantages > 0, self.weight_positive), (stats.advantages < 0, self.weight_negative))
            for eligible, weight in signs:
                count = self._count(count_true(eligible, reduce))
                weights[top_mask(-stats.log_probs, eligible, count, reduce, key=stats.key)] = weight
        keep_mask = torch.ones_like(weights, dtype=torch.bool)
        return keep(stats, keep_mask, reduce, weights=weights, thresholds={"mean_entropy": entropy})

    def _count(self, eligible: int) -> int:
        """The share of that many tokens, rounded up: at least one of any."""
        return min(eligible, max(1, math.floor(self.share * eligible + ROUND_UP))) if self.share else 0

    def _entropy(self, stats: TokenStats) -> Tensor:
        if self.gate == "mini-batch":
            return stats.entropy
        if stats.batch_entropy is None:
            raise ValueError("stare: expected batch_entropy in the token statistics (gate: iteration), got none")
        return stats.batch_entropy
