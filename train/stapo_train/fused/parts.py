"""What the two ways of measuring a vocabulary part by part have in common."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Head:
    """A language model's last step, and the tokens that were taken."""

    hidden: Tensor  # [N, D]
    weight: Tensor  # [V, D]
    taken: Tensor  # [N] int64
    temperature: float


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Per part of the vocabulary and token; float32, or float64 where the hidden states are."""

    columns: int  # of a part; the last may have fewer
    log_sum: Tensor  # [B, N] Z_b
    entropy: Tensor  # [B, N] H_b, nats, of the distribution within the part
    sum_squares: Tensor  # [B, N] q_b, within the part
    taken_log_prob: Tensor  # [N] of the taken token within its part
    kept: tuple[tuple[Tensor, Tensor], ...] = ()  # per block: e^(l - u) and u; none: made again


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The loss's gradient by the outputs, and what the backward pass needs of the forward one."""

    by_log_prob: Tensor | None  # [N]; None: the loss does not use it
    by_entropy: Tensor | None  # [N]
    log_sum: Tensor  # [N] Z
    entropy: Tensor  # [N] H


class Backend(Protocol):
    """Measures forward, multiplies backward."""

    def measure(self, head: Head, keep: bool) -> Parts:
        """The four numbers of each part. ``keep``: a backward pass will follow."""
        ...

    def gradients(self, head: Head, demand: Demand, kept: tuple[tuple[Tensor, Tensor], ...]) -> tuple[Tensor, Tensor]:
        """[N, D] and [V, D] the loss's gradient by the hidden states and the weight."""
        ...
