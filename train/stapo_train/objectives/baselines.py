"""Objectives that differ from PPO's clipped loss in their advantages: RLOO, REINFORCE++, OPO, MaxRL, GRPO for pass@k.

    RLOO             R_i - mean of the group's other rewards                  arXiv:2402.14740, Eq. 9
    REINFORCE++      R_i, less the mean and over the std of all tokens        arXiv:2501.03262
      -baseline      R_i - the group's mean, then over the std of all tokens  arXiv:2501.03262, its variant for groups
    OPO              R_i - the group's mean weighted by length                arXiv:2505.23585
    MaxRL            (R_i - mean) / mean                                      arXiv:2602.02710
    GRPO for pass@k  best less second best, over the std, for the best alone  arXiv:2503.19595

Their loss is verl's default: a mean over all tokens, clip 0.2 / 0.2, dual clip 3. A reward that is not known (NaN) is
left out of every mean and gets advantage 0, and so do the rollouts of a group with a single graded one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stapo_train.objective import LEAST, Needs, Objective
from stapo_train.origins import Origins

EPS = 1e-6
"""Added to what a reward is divided by, in reward units, as in the authors' code and in verl."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def by_group(rewards: Floats, group_ids: Ints, rule: Callable[[Floats, Ints], Floats]) -> Floats:
    """[R] what ``rule`` says of each group's graded rewards, given with their places; 0 elsewhere, and alone."""
    advantages = np.zeros(rewards.shape)  # of whole numbers, too
    for group in np.unique(group_ids):
        places = np.flatnonzero((group_ids == group) & ~np.isnan(rewards))
        # Equal rewards give exactly 0 whatever the rounding of their mean.
        if len(places) > 1 and not (rewards[places] == rewards[places[0]]).all():
            advantages[places] = rule(rewards[places], places)
    return advantages


def whitened(values: Floats, lengths: Ints) -> Floats:
    """[R] less the mean and over the (sample) std of all tokens: a rollout counts as often as it has tokens."""
    known = ~np.isnan(values) & (lengths > 0)
    tokens = lengths[known].sum()
    advantages = np.zeros(values.shape)
    if tokens < 2:
        return advantages
    mean = np.average(values[known], weights=lengths[known])
    variance = np.average((values[known] - mean) ** 2, weights=lengths[known]) * tokens / (tokens - 1)
    advantages[known] = (values[known] - mean) / np.sqrt(variance + 1e-8)
    return advantages


@dataclass(frozen=True, kw_only=True)
class Rloo(Objective):
    """Leave-one-out: each reward against the mean of its group's others."""

    label: ClassVar[str] = "RLOO"
    source: ClassVar[str] = "arXiv:2402.14740, Eq. 9; loss and constants of verl"
    origins: ClassVar[Origins] = {
        "clip_low clip_high dual_clip": ("code", "verl's default"),
    }
    advantage_rule: ClassVar[str] = "R - mean of the group's others"
    needs: ClassVar[Needs] = LEAST

    clip_high: float = 0.2
    dual_clip: float | None = 3.0

    def advantages(self, rewards: Floats, group_ids: Ints, lengths: Ints) -> Floats:
        """R_i - sum over j != i of R_j / (G - 1)."""
        return by_group(rewards, group_ids, lambda r, _: (r - r.mean()) * len(r) / (len(r) - 1))


@dataclass(frozen=True, kw_only=True)
class ReinforcePlusPlus(Rloo):
    """Rewards against all of the iteration's, not against their group's."""

    label: ClassVar[str] = "REINFORCE++"
    source: ClassVar[str] = "arXiv:2501.03262; loss and constants of verl"
    advantage_rule: ClassVar[str] = "(R - mean) / std, both over all tokens of the iteration"
    needs: ClassVar[Needs] = LEAST

    def advantages(self, rewards: Floats, group_ids: Ints, lengths: Ints) -> Floats:
        """Rewards less the mean and over the std of all tokens; no discount."""
        return whitened(rewards, lengths)


@dataclass(frozen=True, kw_only=True)
class ReinforcePlusPlusBaseline(Rloo):
    """Rewards against their group's mean, scaled by the std of all of the iteration's tokens."""

    label: ClassVar[str] = "REINFORCE++ baseline"
    source: ClassVar[str] = "arXiv:2501.03262; loss and constants of verl"
    advantage_rule: ClassVar[str] = "R - the group's mean, then less the mean and over the std of all tokens"
    needs: ClassVar[Needs] = LEAST

    def advantages(self, rewards: Floats, group_ids: Ints, lengths: Ints) -> Floats:
        """The group's mean is taken off first, then mean and std of all tokens."""
        centred = by_group(rewards, group_ids, lambda r, _: r - r.mean())
        return np.nan_to_num(whitened(np.where(np.isnan(rewards), np.nan, centred), lengths))


@dataclass(frozen=True, kw_only=True)
class Opo(Rloo):
    """The baseline of least variance, if a token's gradient is as large in any rollout: the mean weighted by length."""

    label: ClassVar[str] = "OPO"
    source: ClassVar[str] = "arXiv:2505.23585; loss and constants of verl"
    advantage_rule: ClassVar[str] = "R - the group's mean weighted by length"
    needs: ClassVar[Needs] = LEAST

    def advantages(self, rewards: Floats, group_ids: Ints, lengths: Ints) -> Floats:
        """R_i - sum_j |y_j| R_j / sum_j |y_j|."""
        return by_group(rewards, group_ids, lambda r, places: r - (lengths[places] * r).sum() / lengths[places].sum())


@dataclass(frozen=True, kw_only=True)
class MaxRl(Rloo):
    """Likelihood of success instead of its rate: a rare success weighs 1 / rate, so that hard problems learn more."""

    label: ClassVar[str] = "MaxRL"
    source: ClassVar[str] = "arXiv:2602.02710; constants of the authors' scripts"
    origins: ClassVar[Origins] = {
        "clip_low clip_high dual_clip": ("code", "the authors' scripts"),
    }
    advantage_rule: ClassVar[str] = "(R - mean) / (mean + 1e-6)"
    needs: ClassVar[Needs] = LEAST

    def advantages(self, rewards: Floats, group_ids: Ints, lengths: Ints) -> Floats:
        """(R_i - mean) / (mean + 1e-6) within the group."""
        return by_group(rewards, group_ids, lambda r, _: (r - r.mean()) / (r.mean() + EPS))


@dataclass(frozen=True, kw_only=True)
class PassK(Rloo):
    """Only a group's best rollout learns, by how much it is better than the second best."""

    label: ClassVar[str] = "GRPO for pass@k"
    source: ClassVar[str] = "arXiv:2503.19595; loss and constants of verl"
    advantage_rule: ClassVar[str] = "the best alone: best - second best, / (sample std + 1e-6)"
    needs: ClassVar[Needs] = LEAST

    def advantages(self, rewards: Floats, group_ids: Ints, lengths: Ints) -> Floats:
        """(largest - second largest) / (std + 1e-6) at the first of the largest, 0 at all others."""

        def rule(r: Floats, _: Ints) -> Floats:
            second, best = np.sort(r)[-2:]
            return np.where(np.arange(len(r)) == r.argmax(), (best - second) / (r.std(ddof=1) + EPS), 0.0)

        return by_group(rewards, group_ids, rule)
