"""STAPO: JustRL's loss with spurious tokens silenced (S2T), arXiv:2602.15620.

    spurious_t = A_i > 0  and  pi_t < tau_p  and  H_t < tau_h        (all strict)
    J = 1 / (kept tokens of the mini-batch)  sum over kept tokens  min(rho A, clip(rho, 1 - 0.2, 1 + 0.28) A)

and, where A < 0, at least 10 A: the dual clip of JustRL's script, which the paper builds on and does not mention;
``dual_clip: null`` leaves it out.

tau_p = 0.002 in every version. tau_h differs: v4-v5 ("NEW") take the 75 % quantile of H over the candidates
{A > 0, pi < tau_p}; v1-v3 ("OLD") the 80 % quantile of H over all response tokens. Quantiles are linear between order
statistics; a token at tau_h is kept; no candidates, nothing silenced. pi and H are the current policy's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stapo_train.objective import Needs, Reduce, Selection, TokenStats, keep, quantile
from stapo_train.objectives.dapo import JustRl
from stapo_train.origins import Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor

FEW = Needs(current_policy="few", zero_advantage_statistics=False, zero_advantage_gradient=False)
"""Candidates have A > 0 and are rare, so that a step changes few of the decisions."""


@dataclass(frozen=True, kw_only=True)
class Stapo(JustRl):
    """NEW: the lowest-entropy 75 % of the candidates are silenced."""

    label: ClassVar[str] = "STAPO"
    look: ClassVar[str] = "red circle solid"
    source: ClassVar[str] = "arXiv:2602.15620v5, S2T over candidates"
    origins: ClassVar[Origins] = {
        "clip_low clip_high tau_p q": ("published", "arXiv:2602.15620v5"),
    }
    silences: ClassVar[str] = "candidates (A > 0, pi < tau_p) below the q quantile of the candidates' entropy"
    divides_by: ClassVar[str] = "kept tokens of the mini-batch"
    needs: ClassVar[Needs] = FEW
    check_with: ClassVar[Mapping[str, float]] = {"tau_p": 0.02}

    tau_p: float = 0.002
    q: float = 0.75

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "tau_p", "q", at_least=0, at_most=1)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """Candidates whose score is below the q quantile of the population's scores are silenced."""
        candidates = self.candidates(stats)
        score = self.score(stats)
        tau = quantile(reduce.gather(score[self.population(stats, candidates)]), self.q)
        spurious = candidates & (score.double() < tau)
        return keep(stats, ~spurious, reduce, candidate_mask=candidates, thresholds={"tau_h": tau})

    def candidates(self, stats: TokenStats) -> Tensor:
        """[N] bool, the tokens that may be silenced."""
        return (stats.advantages > 0) & (stats.log_probs.exp() < self.tau_p)

    def score(self, stats: TokenStats) -> Tensor:
        """[N] the score; candidates with the lowest scores are silenced."""
        return stats.entropy

    def population(self, stats: TokenStats, candidates: Tensor) -> Tensor:
        """[N] bool, the tokens whose quantile is tau_h."""
        return candidates


@dataclass(frozen=True, kw_only=True)
class StapoOld(Stapo):
    """OLD: the candidates below the 80 % quantile of all response tokens' entropy are silenced."""

    label: ClassVar[str] = "STAPO (v1-v3)"
    look: ClassVar[str] = "red plus dotted"
    source: ClassVar[str] = "arXiv:2602.15620v1, S2T over all response tokens"
    origins: ClassVar[Origins] = {
        "clip_low clip_high tau_p q": ("published", "arXiv:2602.15620v1"),
    }
    silences: ClassVar[str] = "candidates (A > 0, pi < tau_p) below the q quantile of all response tokens' entropy"
    needs: ClassVar[Needs] = Needs(current_policy="few", zero_advantage_gradient=False)

    q: float = 0.8

    def population(self, stats: TokenStats, candidates: Tensor) -> Tensor:
        """[N] bool, every response token."""
        return candidates | True
