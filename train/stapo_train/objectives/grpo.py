"""GRPO as in DeepSeekMath (arXiv:2402.03300, Eq. 3-4).

    J = 1/R sum_i 1/|y_i| sum_t  min(rho A, clip(rho, 1 - 0.2, 1 + 0.2) A) - beta KL_t

KL_t is the k3 estimate against the reference policy: pi_ref / pi - ln(pi_ref / pi) - 1.
"""

from dataclasses import dataclass
from typing import ClassVar

from stapo_train.objective import LEAST, Needs, Objective, Reduce, Selection, TokenStats, keep_all_by_rollout
from stapo_train.origins import Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor


@dataclass(frozen=True, kw_only=True)
class Grpo(Objective):
    """The per-rollout mean: a short response's token weighs more than a long one's."""

    label: ClassVar[str] = "GRPO"
    look: ClassVar[str] = "orange square dashed"
    source: ClassVar[str] = "arXiv:2402.03300, Eq. 3-4"
    origins: ClassVar[Origins] = {
        "dual_clip": ("published", "arXiv:2402.03300, Eq. 3"),
        "clip_low clip_high": ("code", "verl's and TRL's default"),
        "kl_beta": ("code", "TRL's default; the paper has 0.04"),
    }
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "rollouts, of each one's token mean"
    needs: ClassVar[Needs] = LEAST

    clip_high: float = 0.2
    kl_beta: float = 0.0  # 0: no reference policy is needed

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "kl_beta", at_least=0)

    @property
    def needs_reference(self) -> bool:
        """True only with a KL penalty."""
        return self.kl_beta > 0

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens, each with weight 1 / |y_i|, over the number of rollouts."""
        return keep_all_by_rollout(stats, reduce)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """The clipped surrogate less beta times the k3 estimate of KL(pi || pi_ref)."""
        surrogate = super().term(stats, selection)
        if not self.kl_beta:
            return surrogate
        if stats.ref_log_probs is None:
            raise ValueError(f"kl_beta {self.kl_beta}: expected ref_log_probs in the token statistics, got none")
        log_ratio = stats.ref_log_probs - stats.log_probs
        return surrogate - self.kl_beta * (log_ratio.exp() - log_ratio - 1)
