"""What each optimizer step of an iteration is given: mini-batch and phase in the objective's order, and what the policy
that sampled says of the tokens, whatever the steps before have made of the weights."""

import pytest
import torch
from train_setup import make_config

from stapo_train import run

pytestmark = pytest.mark.usefixtures("graded_by_hash")


@pytest.fixture
def steps(folder, monkeypatch):
    """Train one iteration of four mini-batches with an objective; of each step: its batch, its phase, and what
    Lp-Reg's proxy would be by the weights that it meets."""
    seen, step_of = [], run.optimizer_step

    def watched(policy, optimizer, batch, step):
        now = policy.proxy_log_probs(batch, 0.02)
        seen.append((batch, step.phase, now))
        return step_of(policy, optimizer, batch, step)

    monkeypatch.setattr(run, "optimizer_step", watched)

    def train(objective):
        changes = {"optim": {"lr": 0.1}, "update": {"mini_batches": 4, "micro_batch_tokens": 128}}
        run.train(make_config(folder, iterations=1, objective={"name": objective}, **changes))
        return seen

    return train


def test_lopti_takes_all_unlikely_tokens_before_any_likely_one(steps):
    seen = steps("lopti")
    assert [phase for _, phase, _ in seen] == [0, 0, 0, 0, 1, 1, 1, 1]
    keys = [batch.stats.key.tolist() for batch, _, _ in seen]
    assert keys[:4] == keys[4:] and len(set(map(tuple, keys))) == 4


def test_lp_regs_proxy_is_that_of_the_policy_that_sampled(steps):
    seen = steps("lp-reg")
    apart = [(batch.stats.proxy_log_probs.exp() - now.exp()).abs().max().item() for batch, _, now in seen]
    assert apart[0] < 1e-6  # no step has been made
    assert all(distance > 1e-3 for distance in apart[1:])  # the weights have moved on, and the proxy has not
    for batch, _, _ in seen:
        inside = batch.stats.proxy_log_probs.isfinite()
        # what the cut leaves is rescaled: no less likely than under the policy itself
        assert (batch.stats.proxy_log_probs >= batch.stats.old_log_probs - 1e-6)[inside].all()


def test_stares_gate_is_asked_the_mean_entropy_of_all_rollouts_before_the_first_step(steps):
    seen = steps("stare")
    entropies = torch.cat([batch.stats.entropy for batch, _, _ in seen])
    asked = torch.cat([batch.stats.batch_entropy for batch, _, _ in seen])
    assert asked.tolist() == pytest.approx([entropies.mean().item()] * len(asked), rel=1e-6)
    for batch, _, _ in seen:  # a mini-batch's own is another one
        assert batch.stats.entropy.mean().item() != pytest.approx(asked[0].item(), rel=1e-6)
