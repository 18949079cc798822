"""Two remedies for low-probability tokens that dominate the gradient: AR and Lopti (arXiv:2505.12929).

Clip range and dual clip are those of the authors' scripts; their KL penalty of 0.001 is left out. Their code:
github.com/zhyang2226/AR-Lopti.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from stapo_train.objective import (
    LEAST,
    Needs,
    Objective,
    Reduce,
    Selection,
    TokenStats,
    clipped_surrogate,
    keep,
    keep_all,
)
from stapo_train.origins import Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor


@dataclass(frozen=True, kw_only=True)
class AdvantageReweighting(Objective):
    """AR: A <- (alpha pi_old + 1 - alpha) A, so that unlikely tokens weigh less. Eq. 8."""

    label: ClassVar[str] = "AR"
    look: ClassVar[str] = "green cross dash-dot-dot"
    source: ClassVar[str] = "arXiv:2505.12929, Eq. 8"
    origins: ClassVar[Origins] = {
        "alpha": ("published", "arXiv:2505.12929"),
        "clip_low clip_high dual_clip": ("code", "the authors' script"),
    }
    needs: ClassVar[Needs] = LEAST

    alpha: float = 0.2  # 0.3 together with Lopti
    clip_high: float = 0.24
    dual_clip: float | None = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "alpha", at_least=0, at_most=1)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """The clipped surrogate with A <- (alpha pi_old + 1 - alpha) A (Eq. 8)."""
        advantages = (self.alpha * stats.old_log_probs.exp() + 1 - self.alpha) * stats.advantages
        return clipped_surrogate(self.ratio(stats), advantages, self.clip_low, self.clip_high, self.dual_clip)


@dataclass(frozen=True, kw_only=True)
class Lopti(AdvantageReweighting):
    """Low-probability token isolation: an iteration's tokens with pi_old < eta learn first, then all the others.

    As the authors' trainer does, ``order: passes`` goes through all mini-batches with the unlikely tokens and then
    through all of them again with the rest; ``order: steps`` makes both steps on a mini-batch before the next one.
    Both divide by all response tokens. ``alpha: 0.3, eta: 0.5`` is the authors' AR + Lopti.
    """

    label: ClassVar[str] = "Lopti"
    look: ClassVar[str] = "ink plus dashed"
    source: ClassVar[str] = "arXiv:2505.12929, Alg. 1"
    origins: ClassVar[Origins] = {
        "alpha eta": ("published", "arXiv:2505.12929"),
        "order": ("code", "the authors' trainer"),
    }
    definition: ClassVar[int] = 2
    former: ClassVar[str] = "made both steps on a mini-batch before the next one"
    divides_by: ClassVar[str] = "all response tokens of the mini-batch"
    silences: ClassVar[str] = "in the first step tokens with pi_old >= eta, in the second the others"
    num_phases: ClassVar[int] = 2
    needs: ClassVar[Needs] = LEAST

    alpha: float = 0.0
    eta: float = 0.4
    order: Literal["passes", "steps"] = "passes"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "eta", at_least=0, at_most=1)

    def schedule(self, num_mini_batches: int) -> list[tuple[int, int]]:
        """(mini-batch, phase) of an iteration's optimizer steps: see ``order``.

        >>> Lopti().schedule(2)
        [(0, 0), (1, 0), (0, 1), (1, 1)]
        """
        steps = super().schedule(num_mini_batches)
        return sorted(steps, key=lambda step: step[1]) if self.order == "passes" else steps

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """In phase 0 tokens with pi_old < eta, in phase 1 the others (Alg. 1)."""
        unlikely = stats.old_log_probs.exp() < self.eta
        everyone = keep_all(stats, reduce).denominator
        return keep(stats, unlikely if phase == 0 else ~unlikely, reduce, denominator=everyone)
