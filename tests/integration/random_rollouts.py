"""The rollouts that our objectives meet inside other trainers, and what those must report of them."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from stapo_train.objective import Selection
from stapo_train.train_records import Rollout

GROUPS, GROUP_SIZE, MAX_NEW_TOKENS = 4, 4, 24


def drawn() -> list[Rollout]:
    """Random prompts and responses of all lengths; one group's rewards are all equal, one holds an unknown reward."""
    rng = np.random.default_rng(0)
    made = []
    for group in range(GROUPS):
        prompt = tuple(rng.integers(0, 256, rng.integers(3, 12)).tolist())
        for index in range(GROUP_SIZE):
            length = MAX_NEW_TOKENS if index == 0 else int(rng.integers(1, MAX_NEW_TOKENS))
            reward = math.nan if (group, index) == (1, 3) else float(index < group)
            made.append(
                Rollout(
                    group_id=group, problem_id=f"p{group}", index=index, seed=group * GROUP_SIZE + index,
                    prompt_ids=prompt, response_ids=tuple(rng.integers(0, 256, length).tolist()),
                    rollout_log_probs=None, text="", finish_reason="stop", reward=reward,
                )
            )  # fmt: skip
    return made


def check_reported(log: Mapping[str, float], selection: Selection, tolerance: float) -> None:
    """Counts and thresholds of the mini-batch are ours."""
    assert log["objective/num_tokens"] == selection.num_tokens
    assert log["objective/num_candidates"] == selection.num_candidates
    assert log["objective/num_kept"] == selection.num_kept
    assert log["objective/num_silenced"] == selection.num_tokens - selection.num_kept
    nats = log.get("objective/candidate_entropy")  # not known where the selection needs no statistics
    assert nats is None or nats == pytest.approx(selection.candidate_entropy, rel=tolerance)
    for threshold, value in selection.thresholds.items():
        assert log[f"objective/{threshold}"] == pytest.approx(value, rel=tolerance)
