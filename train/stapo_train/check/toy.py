"""A toy policy and a toy mini-batch in float64, on which exactness can be checked in a second."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from stapo_train.batch import Batch, collate
from stapo_train.objective import Objective
from stapo_train.objectives import REGISTRY, for_run
from stapo_train.policy import Policy
from stapo_train.train_records import Rollout

VOCABULARY = 64
NUM_GROUPS, GROUP_SIZE = 3, 5


def toy_objective(name: str, settings: Mapping[str, Any] | None = None) -> Objective:
    """The objective with its settings for a toy vocabulary, or with ``settings`` where they are given."""
    own = REGISTRY[name].check_with if name in REGISTRY else {}
    return for_run({"name": name, **own, **(settings or {})}, seed=3, max_new_tokens=20)


def toy_policy(objective: Objective, seed: int = 0, micro_batch_tokens: int = 10_000) -> Policy:
    """A two-layer Qwen3 with random weights in float64."""
    return _policy(seed, micro_batch_tokens)


def _policy(seed: int = 0, micro_batch_tokens: int = 10_000) -> Policy:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=256, tie_word_embeddings=True,
        initializer_range=0.3, attn_implementation="sdpa",
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).double().eval()
    return Policy(model=model, temperature=0.9, micro_batch_tokens=micro_batch_tokens)


_OLD = cache(_policy)  # made once, as it only measures and is never updated


def toy_batch(objective: Objective, seed: int = 1) -> Batch:
    """Random rollouts of unequal lengths, with the statistics of an old policy that is near the current one."""
    rng = np.random.default_rng(seed)
    rollouts = [
        Rollout(
            group_id=group,
            problem_id=str(group),
            index=index,
            seed=int(rng.integers(2**62)),
            prompt_ids=tuple(rng.integers(VOCABULARY, size=3 + group).tolist()),
            response_ids=tuple(rng.integers(VOCABULARY, size=rng.integers(1, 20)).tolist()),
            rollout_log_probs=None,
            text="",
            finish_reason="stop",
        )
        for group in range(NUM_GROUPS)
        for index in range(GROUP_SIZE)
    ]
    advantages = rng.normal(size=len(rollouts)) + 0.3
    advantages[::GROUP_SIZE] = 0.0  # a rollout in each group without a learning signal
    batch = collate(rollouts, advantages, torch.float64, torch.device("cpu"))
    policy = _OLD()
    now = policy.measure(batch)
    if objective.min_p is not None:
        now = replace(now, proxy_log_probs=policy.proxy_log_probs(batch, objective.min_p))
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(now.log_probs), generator=generator, dtype=torch.float64)
    old = now.log_probs + 0.25 * noise
    overall = torch.full_like(old, 1.5)  # nats; another number than the mini-batch's mean
    stats = replace(now, old_log_probs=old, ref_log_probs=old - 0.1 * noise, batch_entropy=overall)
    return replace(batch, stats=stats)
