"""Rollouts to rewards, through the evaluation's graders."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stapo_bench.grading import REWARDS, GraderPool
from stapo_bench.records import Gold, Outcome
from stapo_bench.tasks import without_calls
from stapo_train.train_records import Rollout

OVERLONG_PENALTY = (REWARDS[Outcome.CORRECT] - REWARDS[Outcome.INCORRECT]) / 2
"""The largest penalty for length, in reward units. DAPO's is 1 beside rewards of -1 and 1: half of their range."""


def with_overlong_penalty(rollouts: Sequence[Rollout], max_new_tokens: int, buffer: int) -> list[Rollout]:
    """Rewards less DAPO's soft punishment (arXiv:2503.14476, Eq. 13), scaled from rewards of +-1 to ours of 0 and 1.

    0 up to ``max_new_tokens - buffer`` tokens, then rising to half a reward at ``max_new_tokens``. A tool's tokens
    count, as they do for the limit; a reply that ended at one call too many is punished by its length alone.
    """
    start = max_new_tokens - buffer
    over = [max(0.0, (r.num_positions - len(r.prompt_ids) - start) / buffer) for r in rollouts]
    return [replace(r, reward=r.reward - OVERLONG_PENALTY * o) for r, o in zip(rollouts, over, strict=True)]


def grade(rollouts: Sequence[Rollout], golds: Mapping[int, Gold], pool: GraderPool) -> list[Rollout]:
    """The rollouts with outcome and reward.

    Args:
        rollouts: ungraded.
        golds: by group id.
        pool: grades in processes that can be killed; a hang loses only its own rollout.
    """
    # Text that the engine failed to finish is not the policy's answer: it is treated like a failed grading.
    finished = [r for r in rollouts if r.finish_reason != "error"]
    grades = iter(pool.grade([(without_calls(r.text, r.tool_outputs), golds[r.group_id]) for r in finished]))
    outcomes = [Outcome.GRADER_ERROR if r.finish_reason == "error" else next(grades).outcome for r in rollouts]
    return [replace(r, outcome=o, reward=REWARDS[o]) for r, o in zip(rollouts, outcomes, strict=True)]
