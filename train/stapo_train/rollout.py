"""Prompts to rollouts, through the evaluation's engines."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stapo_bench.engines import Engine
from stapo_bench.engines.transformers import TransformersEngine
from stapo_bench.engines.vllm import VllmEngine
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams
from stapo_bench.seeds import derive_seed
from stapo_train.config import RolloutConfig, TrainConfig
from stapo_train.records import Rollout


def open_engine(config: TrainConfig, checkpoint: Path, model: Any, tokenizer: Any) -> Engine:
    """The engine that ``rollout.engine`` names, in this process. ``checkpoint`` holds the model's weights on disk."""
    if config.rollout.engine == "transformers":
        return TransformersEngine(model, tokenizer)
    dtype = "bfloat16" if config.autocast else "float32"  # the arithmetic of the updates
    engine = VllmEngine(checkpoint, dtype=dtype, shared_gpu=config.rollout.gpu_memory)
    engine.sleep()
    return engine


def wake(engine: Engine, model: Any) -> None:
    """Let the engine draw with the model's present weights. The transformers engine always does: it holds the model."""
    if isinstance(engine, VllmEngine):
        engine.load_weights(model.state_dict())


def rest(engine: Engine) -> None:
    """Let the updates have the engine's memory."""
    if isinstance(engine, VllmEngine):
        engine.sleep()


def draw(
    engine: Engine,
    prompts: Sequence[Prompt],
    config: RolloutConfig,
    *,
    seed: int,
    iteration: int,
    first_group: int = 0,
) -> list[Rollout]:
    """``config.group_size`` rollouts of each prompt, in order of prompts, whose group ids count from ``first_group``.

    A rollout's seed is a hash of (run seed, iteration, group, problem, index), so that drawing again gives the same.
    """
    requests = [
        Request(
            # One iteration may ask a problem twice, at the end of an epoch; the index keeps the keys apart.
            key=SampleKey(prompt.task, prompt.problem_id, group * config.group_size + index),
            prompt=prompt,
            seed=derive_seed(seed, "rollout", iteration, group, prompt.problem_id, index),
        )
        for group, prompt in enumerate(prompts, start=first_group)
        for index in range(config.group_size)
    ]
    params = SamplingParams(temperature=config.temperature, top_p=config.top_p, max_new_tokens=config.max_new_tokens)
    completions = {completion.key: completion for completion in engine.generate(requests, params)}
    return [_rollout(request, completions[request.key], config.group_size) for request in requests]


def _rollout(request: Request, completion: Completion, group_size: int) -> Rollout:
    if completion.finish_reason == "error":  # no tokens to train on; its reward will be NaN
        completion = replace(completion, token_ids=(), log_probs=())
    if completion.token_ids is None or request.prompt.token_ids is None:
        raise StapoError("training: expected an engine that returns token ids, got one that does not")
    group, index = divmod(request.key.sample_index, group_size)
    return Rollout(
        group_id=group,
        problem_id=request.key.problem_id,
        index=index,
        seed=request.seed,
        prompt_ids=request.prompt.token_ids,
        response_ids=completion.token_ids,
        rollout_log_probs=completion.log_probs,
        text=completion.text,
        finish_reason=completion.finish_reason,
    )


def importance(rollouts: Sequence[Rollout], log_probs: Tensor, cap: float) -> Tensor:
    """[N] min(pi_trainer / pi_engine, cap): what the engine's rounding did to each token's chance, truncated."""
    if any(r.rollout_log_probs is None for r in rollouts):
        raise StapoError("update.importance_cap: expected an engine that returns log-probs, got one that does not")
    engine = [p for r in rollouts for p in r.rollout_log_probs or ()]
    return (log_probs - torch.tensor(engine, dtype=log_probs.dtype, device=log_probs.device)).exp().clamp(max=cap)
