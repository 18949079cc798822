"""STAPO's ablations: the same candidates, silenced by other rules.

``random-mask`` and ``high-entropy-mask`` silence as many candidates of a mini-batch as STAPO would, ``full-mask`` all
of them (arXiv:2602.15620v5, ablation study); so what differs from STAPO is the choice and not the amount.
``stapo-micro-batch``, which is not in the paper, applies STAPO's rule to each micro-batch separately.
"""

from dataclasses import dataclass
from typing import ClassVar

from stapo_train.objective import ONE_PROCESS, Needs, Reduce, Selection, TokenStats, keep, uniform
from stapo_train.objectives.stapo import FEW, Stapo
from stapo_train.origins import Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor, torch


@dataclass(frozen=True, kw_only=True)
class RandomMask(Stapo):
    """Candidates are silenced at random."""

    label: ClassVar[str] = "Random mask"
    look: ClassVar[str] = "sky cross dotted"
    source: ClassVar[str] = "arXiv:2602.15620v5, ablation"
    silences: ClassVar[str] = "a random q of the candidates (A > 0, pi < tau_p)"
    needs: ClassVar[Needs] = FEW

    seed: int

    def score(self, stats: TokenStats) -> Tensor:
        """[N] uniform in [0, 1): the q of them below their quantile are chosen at random."""
        return uniform(stats.key, self.seed)


@dataclass(frozen=True, kw_only=True)
class HighEntropyMask(Stapo):
    """The candidates with the highest entropy are silenced."""

    label: ClassVar[str] = "High-entropy mask"
    look: ClassVar[str] = "green plus dashed"
    source: ClassVar[str] = "arXiv:2602.15620v5, ablation"
    silences: ClassVar[str] = "the q of the candidates (A > 0, pi < tau_p) with the highest entropy"
    needs: ClassVar[Needs] = FEW

    def score(self, stats: TokenStats) -> Tensor:
        """[N] -H: the lowest is the highest entropy."""
        return -stats.entropy


@dataclass(frozen=True, kw_only=True)
class FullMask(Stapo):
    """Every candidate is silenced, whatever its entropy."""

    label: ClassVar[str] = "Full mask"
    look: ClassVar[str] = "ink triangle-down dash-dot"
    source: ClassVar[str] = "arXiv:2602.15620v5, ablation"
    silences: ClassVar[str] = "all candidates (A > 0, pi < tau_p)"
    needs: ClassVar[Needs] = FEW

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """All candidates are silenced."""
        candidates = self.candidates(stats)
        return keep(stats, ~candidates, reduce, candidate_mask=candidates)


@dataclass(frozen=True, kw_only=True)
class StapoMicroBatch(Stapo):
    """STAPO's quantile within each micro-batch alone: what a policy loss that is called per micro-batch would compute.

    Micro-batches are runs of ``micro_batch_rollouts`` rollouts in the mini-batch's order, whatever the trainer's own
    split is. A single candidate in a micro-batch is its own quantile and is kept, so smaller ones silence less.
    The result depends on the order of rollouts and on the ranks; the denominator is STAPO's, so that only the unit of
    the quantile differs.
    """

    label: ClassVar[str] = "STAPO per micro-batch"
    look: ClassVar[str] = "red diamond dash-dot-dot"
    source: ClassVar[str] = "an approximation of arXiv:2602.15620v5, S2T over candidates"
    origins: ClassVar[Origins] = {
        "micro_batch_rollouts": ("ours", "the approximation is ours"),
    }
    silences: ClassVar[str] = (
        "candidates (A > 0, pi < tau_p) below the q quantile of their own micro-batch's candidates"
    )
    needs: ClassVar[Needs] = FEW

    micro_batch_rollouts: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "micro_batch_rollouts", at_least=1)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """STAPO's selection in each micro-batch of ``micro_batch_rollouts`` rollouts, counted over the mini-batch."""
        keep_mask = torch.ones_like(stats.advantages, dtype=torch.bool)
        micro_batch = stats.sequence // self.micro_batch_rollouts
        for number in micro_batch.unique():  # type: ignore[no-untyped-call]
            here = micro_batch == number
            keep_mask[here] = super().select(stats.take(here), ONE_PROCESS, phase).keep_mask
        return keep(stats, keep_mask, reduce, candidate_mask=self.candidates(stats))
