"""Weights against the mismatch of training and inference: the engine that sampled rounds otherwise than the trainer.

    r_t = pi_trainer / pi_engine of the taken token, both before the iteration's first update

    token-tis      min(r_t, 2)                               truncated importance sampling, arXiv:2212.06868
    sequence-tis   min(prod_t r_t, 2)                        the same with a rollout's product
    icepop         r_t if 0.5 <= r_t <= 5, else 0            arXiv:2510.18855
    mis            prod_t r_t if it is <= 3, else 0          masked importance sampling; TRL's default
    rejection      1, and rollouts whose geometric mean of r_t is outside [0.999, 1.001] are left out altogether

The weights multiply every token's term, whatever the objective, and do not change its denominator; ``rejection`` takes
rollouts out of both. The paper's recipe corrects nothing. ``update.correction_bounds`` sets other bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stapo_bench.errors import StapoError
from stapo_train.config import CorrectionKind
from stapo_train.train_records import Rollout

BOUNDS: dict[CorrectionKind, tuple[float, float]] = {
    "token-tis": (0.0, 2.0),
    "sequence-tis": (0.0, 2.0),
    "icepop": (0.5, 5.0),
    "mis": (0.0, 3.0),
    "rejection": (0.999, 1.001),
}
"""Lower and upper bound by kind, those of verl and of TRL; truncation has no lower one."""

MAX_LOG = 20.0
"""ln r is clamped to +-20 before it is raised, as in verl."""


@dataclass(frozen=True, kw_only=True)
class Correction:
    """Weights of an iteration's tokens, and the rollouts that take part."""

    weights: Tensor  # [N]
    kept: Tensor  # [R] bool


def engine_log_probs(rollouts: Sequence[Rollout], like: Tensor) -> Tensor:
    """[N] the log-probs that the engine reported, laid end to end; StapoError where it reported none."""
    if any(r.rollout_log_probs is None for r in rollouts):
        raise StapoError("update.correction: expected an engine that returns log-probs, got one that does not")
    found = [p for r in rollouts for p in r.rollout_log_probs or ()]
    return torch.tensor(found, dtype=like.dtype, device=like.device)


def correct(
    log_ratio: Tensor, sequence: Tensor, num_rollouts: int, kind: CorrectionKind, bounds: tuple[float, float]
) -> Correction:
    """Weights and kept rollouts of an iteration.

    Args:
        log_ratio: [N] ln r.
        sequence: [N] which rollout, below ``num_rollouts``.
        num_rollouts: R; a rollout without tokens is kept.
        kind: see the module's docstring.
        bounds: lower and upper.

    >>> correct(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0, 0, 1]), 2, "icepop", (0.5, 5.0)).weights
    tensor([1.0000, 2.7183, 0.0000])
    """
    low, high = bounds
    summed = torch.zeros(num_rollouts, dtype=log_ratio.dtype, device=log_ratio.device).index_add(0, sequence, log_ratio)
    everyone = torch.ones(num_rollouts, dtype=torch.bool, device=log_ratio.device)
    if kind == "rejection":
        lengths = torch.bincount(sequence, minlength=num_rollouts).clamp(min=1)
        mean = (summed / lengths).exp()
        return Correction(weights=torch.ones_like(log_ratio), kept=(mean >= low) & (mean <= high))
    whole = kind in ("sequence-tis", "mis")
    ratio = (summed[sequence] if whole else log_ratio).clamp(-MAX_LOG, MAX_LOG).exp()
    if kind in ("token-tis", "sequence-tis"):
        return Correction(weights=ratio.clamp(max=high), kept=everyone)
    return Correction(weights=ratio.masked_fill((ratio < low) | (ratio > high), 0.0), kept=everyone)
