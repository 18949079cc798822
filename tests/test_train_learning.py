"""Every objective raises the reward of a tiny model, by more than chance could; one that cannot learn fails here."""

import pytest
import torch
from learning_setup import make_base, make_values, rewards

from stapo_train import objective, run
from stapo_train.advantages import group_advantages
from stapo_train.config import parse_config
from stapo_train.objectives import REGISTRY

# At the published settings these would do nothing on tokens as likely as the tiny model's.
ACTIVE = {
    **{name: {"tau_p": 0.05} for name in ("stapo", "stapo-old", "random-mask", "high-entropy-mask", "full-mask")},
    "stapo-micro-batch": {"tau_p": 0.05},
    "stare": {"max_entropy": 10.0},
    "lp-reg": {"share": 0.5},
    "clip-cov": {"share": 0.02, "low": 0.1, "high": 50.0},
}
# Only a group with exactly one right rollout has an advantage: small groups have one often.
SMALL_GROUPS = {"grpo-pass-k": {"rollout__prompts": 128, "rollout__group_size": 2}}
RISE = 0.15
"""Least gain of the last three iterations' mean reward over the first two's. 256 rollouts an iteration at a reward of
0.4 have a standard error of 0.03, the gain one of 0.03: 0.15 is five of them."""


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    torch.set_num_threads(1)
    return make_base(tmp_path_factory.mktemp("base") / "base")


def train(base, folder, name, **changes) -> list[float]:
    """Mean reward of each iteration of a run with this objective."""
    settings = {"objective": {"name": name, **ACTIVE.get(name, {})}, **changes}
    run.train(parse_config(make_values(base, folder, **settings), "test"))
    return rewards(folder / "run")


def check_rise(curve: list[float]) -> None:
    first, last = sum(curve[:2]) / 2, sum(curve[-3:]) / 3
    assert last - first > RISE, f"the reward went from {first:.3f} to {last:.3f}: {curve}"


@pytest.mark.slow(reason="a training for every objective")
@pytest.mark.parametrize("name", REGISTRY)
def test_the_reward_rises(name, base, tmp_path):
    curve = train(base, tmp_path, name, **SMALL_GROUPS.get(name, {}))
    assert 0.25 < curve[0] < 0.5  # the base model knows the answer and does not always give it
    check_rise(curve)


@pytest.mark.slow(reason="a whole training that shows what a rise is not")
def test_without_learning_rate_nothing_rises(base, tmp_path):
    curve = train(base, tmp_path, "stapo", optim__lr=0.0, iterations=5)  # those that a rise is told by
    assert max(curve) - min(curve) < RISE
    with pytest.raises(AssertionError, match="the reward went from"):
        check_rise(curve)


@pytest.mark.slow(reason="a whole training, against its rewards")
def test_with_the_advantages_turned_round_it_falls(base, tmp_path, monkeypatch):
    monkeypatch.setattr(objective, "group_advantages", lambda *args, **kw: -group_advantages(*args, **kw))
    curve = train(base, tmp_path, "stapo", iterations=6)
    assert curve[-1] < curve[0] - RISE
    with pytest.raises(AssertionError, match="the reward went from"):
        check_rise(curve)
