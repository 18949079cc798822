"""Advantages from rewards: each rollout is compared with the others of its prompt.

>>> group_advantages(np.array([1.0, 0.0, 0.0, 0.0]), np.array([7, 7, 7, 7])).round(3)
array([ 1.5, -0.5, -0.5, -0.5])
"""

import numpy as np
from numpy.typing import NDArray

EPS = 1e-6
"""Added to the standard deviation, in reward units."""


def group_advantages(
    rewards: NDArray[np.float64], group_ids: NDArray[np.int64], *, divide_by_std: bool = True
) -> NDArray[np.float64]:
    """Normalise rewards within each group: A_i = (R_i - mean) / (std + 1e-6).

    Mean and std run over the graded rollouts with the same group id; std is the sample std (ddof = 1).
    arXiv:2602.15620v5, Sec. 2 (the same in v1-v3). Dr. GRPO (arXiv:2503.20783) leaves the division out.

    Args:
        rewards: [R] rewards, any scale. NaN: the grader failed on this rollout; it is left out of its group's mean
            and std and gets advantage 0.
        group_ids: [R] ids; equal ids share one prompt. Sizes may differ, members may stand anywhere.
        divide_by_std: False gives R_i - mean.

    Returns:
        [R] advantages, float64; equal rewards, or a group with one graded rollout, give exactly 0.

    Raises:
        ValueError: not one group id per reward, or an infinite reward.

    >>> group_advantages(np.array([1.0, np.nan, 0.0]), np.array([0, 0, 0]), divide_by_std=False)
    array([ 0.5,  0. , -0.5])
    """
    # Whole numbers and booleans are rewards, too, and their advantages are no whole numbers.
    rewards, group_ids = np.asarray(rewards, dtype=np.float64), np.asarray(group_ids)
    if rewards.shape != group_ids.shape or rewards.ndim != 1:
        raise ValueError(
            f"expected one group id per reward, got rewards {rewards.shape} and group_ids {group_ids.shape}"
        )
    if np.isinf(rewards).any():
        place = int(np.flatnonzero(np.isinf(rewards))[0])
        raise ValueError(f"rewards: expected numbers, or NaN where nothing is known, got {rewards[place]} at {place}")
    advantages = np.zeros_like(rewards)
    for group in np.unique(group_ids):
        members = (group_ids == group) & ~np.isnan(rewards)
        graded = rewards[members]
        # Equal rewards must give exactly 0 whatever the rounding: mean([0.1] * 3) is not 0.1.
        if (graded == graded[:1]).all():  # or of one, or of none
            continue
        scale = graded.std(ddof=1) + EPS if divide_by_std else 1.0
        advantages[members] = (graded - graded.mean()) / scale
    return advantages
