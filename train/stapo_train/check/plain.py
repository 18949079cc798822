"""Response tokens in plain numbers, and what the slow references are built from: Python alone, token by token."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Token:
    """One response token, in numbers."""

    log_prob: float
    old_log_prob: float
    entropy: float
    advantage: float
    sequence: int
    key: int
    batch_entropy: float = 0.0  # mean of the iteration's tokens, old policy
    distribution: tuple[float, ...] = ()  # [V] probabilities of the policy that sampled the token
    taken: int = 0  # which of them was taken

    @property
    def prob(self) -> float:
        """pi of the taken token, current policy."""
        return math.exp(self.log_prob)

    @property
    def ratio(self) -> float:
        """pi / pi_old of the taken token."""
        return math.exp(self.log_prob - self.old_log_prob)


Result = tuple[list[float], float]
"""What is maximised at each token (0 where silenced), and the denominator: J = sum / denominator."""


def clip(o: Any, ratio: float, advantage: float) -> float:
    """The clipped surrogate of one token (arXiv:1707.06347, Eq. 7), with a dual clip (arXiv:1912.09729) if set."""
    bounded = min(max(ratio, 1 - o.clip_low), 1 + o.clip_high)
    term: float = min(ratio * advantage, bounded * advantage)
    if o.dual_clip is not None and advantage < 0:
        term = max(term, o.dual_clip * advantage)
    return term


def quantile(values: Sequence[float], q: float) -> float:
    """Linear interpolation between order statistics."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def uniform(key: int, seed: int) -> float:
    """A number in [0, 1) for each key: SplitMix64's finaliser, in Python's unbounded integers."""
    word = (1 << 64) - 1
    x = (key + seed * 0x9E3779B97F4A7C15) & word
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & word
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & word
    return ((x ^ (x >> 31)) >> 11) / 2**53


def lengths(tokens: Sequence[Token]) -> dict[int, int]:
    """Number of tokens of each rollout."""
    counts: dict[int, int] = {}
    for t in tokens:
        counts[t.sequence] = counts.get(t.sequence, 0) + 1
    return counts


def largest(values: Sequence[tuple[float, int]], count: int) -> set[int]:
    """Indices of the ``count`` largest of (value, index)."""
    return {i for _, i in sorted(values, reverse=True)[:count]}
