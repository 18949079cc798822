"""Objectives without a clip: GPG and DRO.

    GPG   J_t = A ln pi,  A = (R - mean) B / (rollouts with a reward other than 0)  arXiv:2504.02546
    DRO   J_t = A ln pi - beta / 2 (ln rho)^2                                       arXiv:2405.19107

B is the number of the iteration's rollouts.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stapo_train.advantages import group_advantages
from stapo_train.objective import LEAST, Needs, Objective, Selection, TokenStats, log_ratio
from stapo_train.origins import NO_PART, Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor, torch


@dataclass(frozen=True, kw_only=True)
class Gpg(Objective):
    """The plain policy gradient; a mean over all tokens."""

    label: ClassVar[str] = "GPG"
    source: ClassVar[str] = "arXiv:2504.02546; advantages and loss of verl"
    origins: ClassVar[Origins] = {
        "clip_low clip_high dual_clip": NO_PART,
    }
    advantage_rule: ClassVar[str] = "(R - mean) x rollouts / rollouts with a reward"
    needs: ClassVar[Needs] = LEAST

    def advantages(
        self, rewards: NDArray[np.float64], group_ids: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """R - mean within the group, times the graded rollouts over those of them with a reward other than 0."""
        graded = rewards[~np.isnan(rewards)]
        scale = len(graded) / max(int(np.count_nonzero(graded)), 1)
        return scale * group_advantages(rewards, group_ids, divide_by_std=False)

    def clipped(self, stats: TokenStats) -> tuple[Tensor, Tensor]:
        """None: there is no clip."""
        nowhere = torch.zeros_like(stats.advantages, dtype=torch.bool)
        return nowhere, nowhere

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """A ln pi."""
        return stats.advantages * stats.log_probs


@dataclass(frozen=True, kw_only=True)
class Dro(Gpg):
    """A quadratic pull to the old policy instead of a clip; GRPO's advantages, a mean over all tokens."""

    label: ClassVar[str] = "DRO"
    source: ClassVar[str] = "arXiv:2405.19107; loss of verl"
    origins: ClassVar[Origins] = {
        "beta": ("ours", "verl has no default"),
    }
    advantage_rule: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs(current_policy="none", zero_advantage_statistics=False)

    beta: float = 1.0  # verl has no default

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "beta", above=0)

    def advantages(
        self, rewards: NDArray[np.float64], group_ids: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """(R - mean) / (sample std + 1e-6) within the group."""
        return group_advantages(rewards, group_ids)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """A ln pi - beta / 2 (ln rho)^2."""
        return super().term(stats, selection) - 0.5 * self.beta * log_ratio(stats).square()
