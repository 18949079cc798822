"""The interface and records of the two backends, which process the vocabulary part by part."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Head:
    """Inputs of a language model's output layer, and the taken tokens."""

    hidden: Tensor  # [N, D]
    weight: Tensor  # [V, D]
    taken: Tensor  # [N] int64
    temperature: float


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Results per part of the vocabulary and token; float32, or float64 where the hidden states are."""

    columns: int  # of a part; the last may have fewer
    log_sum: Tensor  # [B, N] Z_b
    entropy: Tensor  # [B, N] H_b, nats, of the distribution within the part
    sum_squares: Tensor  # [B, N] q_b, within the part
    taken_log_prob: Tensor  # [N] of the taken token within its part
    kept: tuple[tuple[Tensor, Tensor], ...] = ()  # per block: e^(l - u) and u; empty: recomputed


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The loss's gradient with respect to the outputs, and forward results that the backward pass needs."""

    by_log_prob: Tensor | None  # [N]; None: the loss does not use it
    by_entropy: Tensor | None  # [N]
    log_sum: Tensor  # [N] Z
    entropy: Tensor  # [N] H


class Backend(Protocol):
    """One implementation of the forward sums and the backward products."""

    def measure(self, head: Head, keep: bool) -> Parts:
        """The four numbers of each part. ``keep``: a backward pass will follow."""
        ...

    def gradients(self, head: Head, demand: Demand, kept: tuple[tuple[Tensor, Tensor], ...]) -> tuple[Tensor, Tensor]:
        """[N, D] and [V, D] the loss's gradients with respect to the hidden states and the weight."""
        ...
