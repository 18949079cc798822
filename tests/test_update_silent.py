"""An update in which nothing has an advantage: the gradient is zero, but for a pull that needs none."""

from dataclasses import replace

import pytest
import torch

from stapo_train.check.toy import toy_batch, toy_objective, toy_policy
from stapo_train.objectives import REGISTRY
from stapo_train.update import Step, optimizer_step


def silent_batch(objective):
    """A batch in which nothing has an advantage."""
    batch, zero = toy_batch(objective), torch.zeros_like
    return replace(
        batch,
        row_advantages=zero(batch.row_advantages),
        stats=replace(batch.stats, advantages=zero(batch.stats.advantages)),
    )


def test_dro_pulls_to_the_old_policy_without_any_advantage():
    objective = toy_objective("dro")
    policy = toy_policy(objective)
    optimizer = torch.optim.AdamW(policy.model.parameters())
    step = Step(objective=objective, clip_norm=1.0, first=False, phase=0)
    assert optimizer_step(policy, optimizer, silent_batch(objective), step).grad_norm > 0.01


@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "dro"])
def test_no_advantage_anywhere_is_a_step_with_gradient_zero(name):
    objective = toy_objective(name)  # grpo's without its KL penalty, which would pull all the same
    policy, silent = toy_policy(objective), silent_batch(objective)
    optimizer = torch.optim.AdamW(policy.model.parameters())
    for phase in range(objective.num_phases):
        for first in (True, False):
            step = Step(objective=objective, clip_norm=1.0, first=first, phase=phase)
            record = optimizer_step(policy, optimizer, silent, step)
            assert (record.loss, record.grad_norm, record.skipped) == (0.0, 0.0, None)
