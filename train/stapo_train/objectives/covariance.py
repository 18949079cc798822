"""KL-Cov and Clip-Cov (arXiv:2505.22617): tokens that would cost the most entropy are held back.

cov_t = (A_t - mean A) (ln pi_t - mean ln pi), means over the mini-batch
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stapo_train.objective import (
    Needs,
    Objective,
    Reduce,
    Selection,
    TokenStats,
    count_true,
    keep,
    log_ratio,
    mean,
    top_mask,
    uniform,
)
from stapo_train.origins import NO_PART, Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor, torch


def covariance(stats: TokenStats, reduce: Reduce) -> Tensor:
    """[N] cov_t, whose mean is the covariance that drives the entropy's change."""
    advantages, log_probs = stats.advantages.double(), stats.log_probs.double()
    return (advantages - mean(advantages, reduce)) * (log_probs - mean(log_probs, reduce))


EQUAL = 1e-12
"""Mean distance of the covariances from their mean below which they differ only by float64's rounding."""

STILL = 1e-5
"""|ln rho| up to which a token counts as unmoved. On an iteration's first step ln rho is only float32's rounding, about
1e-6, but |ln rho| has slope +-1 however small it is: the sign of a rounding error, which depends on the split into
micro-batches, would decide a gradient of full size."""


@dataclass(frozen=True, kw_only=True)
class KlCov(Objective):
    """rho A without a clip; the top 0.2 % of tokens by cov get a penalty on |ln rho|."""

    label: ClassVar[str] = "KL-Cov"
    look: ClassVar[str] = "blue square dashed"
    source: ClassVar[str] = "arXiv:2505.22617, Eq. 11"
    origins: ClassVar[Origins] = {
        "share beta": ("published", "arXiv:2505.22617, for 7B"),
        "clip_low clip_high dual_clip": NO_PART,
    }
    silences: ClassVar[str] = "nothing"
    divides_by: ClassVar[str] = "all response tokens of the mini-batch"
    needs: ClassVar[Needs] = Needs()  # tokens with advantage 0, too, can be among the top
    check_with: ClassVar[Mapping[str, float]] = {"share": 0.2}

    share: float = 0.002
    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "share", at_least=0, at_most=1)
        check_range(self, "beta", at_least=0)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All tokens are kept; those with the largest cov are marked for the penalty."""
        everything = torch.ones_like(stats.advantages, dtype=torch.bool)
        cov = covariance(stats, reduce)
        spread = mean((cov - mean(cov, reduce)).abs(), reduce)
        # Equal covariances, such as those of advantages that are all 0, give no order to mark tokens by.
        count = max(1, int(self.share * count_true(everything, reduce))) if spread > EQUAL else 0
        marked = top_mask(cov, everything, count, reduce, key=stats.key)
        return keep(stats, everything, reduce, marked_mask=marked)

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """rho A, less beta |ln rho| at the marked tokens that have moved (Eq. 11)."""
        moved = log_ratio(stats).abs()
        pay = torch.where(selection.marked_mask & (moved > STILL), moved, torch.zeros_like(moved))
        return self.ratio(stats) * stats.advantages - self.beta * pay


@dataclass(frozen=True, kw_only=True)
class ClipCov(Objective):
    """The clipped loss without a random 0.02 % of the tokens, chosen among those with 1 < cov < 5 inside the clip.

    A silenced token has loss 0 and still counts in the denominator. The authors' scripts, for 7B and 32B, open the clip
    to rho in [0, 2] and have no dual clip; ``clip_low: 0.2, clip_high: 0.28`` is the same selection in DAPO's clip.
    """

    label: ClassVar[str] = "Clip-Cov"
    look: ClassVar[str] = "blue triangle-down dotted"
    source: ClassVar[str] = "arXiv:2505.22617, Eq. 9-10; constants of the authors' script for 7B"
    origins: ClassVar[Origins] = {
        "share low high": ("published", "arXiv:2505.22617"),
        "clip_low clip_high dual_clip": ("code", "the authors' script for 7B"),
    }
    definition: ClassVar[int] = 2
    former: ClassVar[str] = "had DAPO's clip of 0.2 / 0.28 instead of 1 / 1"
    divides_by: ClassVar[str] = "all response tokens of the mini-batch"
    silences: ClassVar[str] = "a random share of the tokens with low < covariance < high"
    needs: ClassVar[Needs] = Needs(zero_advantage_gradient=False)
    check_with: ClassVar[Mapping[str, float]] = {"share": 0.2, "low": 0.1, "high": 50.0}

    clip_low: float = 1.0
    clip_high: float = 1.0
    share: float = 0.0002
    low: float = 1.0
    high: float = 5.0
    seed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "share", at_least=0, at_most=1)
        check_range(self, "high", at_least=self.low)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """A ``share`` of all tokens is silenced, at random among those in the clip with low < cov < high (Eq. 9-10)."""
        everything = torch.ones_like(stats.advantages, dtype=torch.bool)
        num_tokens = count_true(everything, reduce)
        cov, ratio = covariance(stats, reduce), self.ratio(stats)
        up, down = stats.advantages > 0, stats.advantages < 0
        clipped = (up & (ratio > 1 + self.clip_high)) | (down & (ratio < 1 - self.clip_low))
        eligible = (cov > self.low) & (cov < self.high) & ~clipped
        count = max(1, int(self.share * num_tokens))
        silenced = top_mask(uniform(stats.key, self.seed), eligible, count, reduce)
        denominator = torch.tensor(num_tokens, dtype=torch.float64)
        return keep(stats, ~silenced, reduce, candidate_mask=eligible, denominator=denominator)
