"""STARE: the most surprising tokens of good rollouts weigh more while entropy is low (arXiv:2606.19236).

s_t = -ln pi_t;  weight W on the top 10 % by s among A > 0;  C2: weight M on the top 10 % among A < 0;
only while the mini-batch's mean entropy is below 0.3 nats
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from stapo_train.objective import Needs, Objective, Reduce, Selection, TokenStats, count_true, keep, mean, top_mask
from stapo_train.parse import check_range


@dataclass(frozen=True, kw_only=True)
class Stare(Objective):
    """Variant C1 by default; ``weight_negative: 0.9`` is C2."""

    label: ClassVar[str] = "STARE"
    look: ClassVar[str] = "wine square dash-dot"
    source: ClassVar[str] = "arXiv:2606.19236"
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "all response tokens of the mini-batch"
    needs: ClassVar[Needs] = Needs(zero_advantage_gradient=False)  # the mean entropy is over all tokens
    check_with: ClassVar[Mapping[str, float]] = {"share": 0.2, "max_entropy": 10.0}

    share: float = 0.1
    weight_positive: float = 1.1
    weight_negative: float = 1.0
    max_entropy: float = 0.3  # nats

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "share", at_least=0, at_most=1)
        check_range(self, "weight_positive", "weight_negative", "max_entropy", at_least=0)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens are kept; while mean entropy is low the most surprising of each sign of A weigh more or less."""
        weights = torch.ones_like(stats.advantages)
        entropy = mean(stats.entropy, reduce)
        if entropy < self.max_entropy:
            signs = ((stats.advantages > 0, self.weight_positive), (stats.advantages < 0, self.weight_negative))
            for eligible, weight in signs:
                count = int(self.share * count_true(eligible, reduce))
                weights[top_mask(-stats.log_probs, eligible, count, reduce)] = weight
        keep_mask = torch.ones_like(weights, dtype=torch.bool)
        return keep(stats, keep_mask, reduce, weights=weights, thresholds={"mean_entropy": entropy})
