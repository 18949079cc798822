"""Prompts to rollouts, through the evaluation's engines."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stapo_bench.engines import Engine, declared_context
from stapo_bench.engines.transformers import TransformersEngine
from stapo_bench.engines.vllm import VllmEngine
from stapo_bench.errors import StapoError, tell
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams
from stapo_bench.seeds import derive_seed
from stapo_train.config import RolloutConfig, TrainConfig
from stapo_train.train_records import Rollout


def open_engine(
    config: TrainConfig, checkpoint: Path, model: Any, tokenizer: Any, prompts: Sequence[Prompt] = ()
) -> Engine:
    """The engine that ``rollout.engine`` names, in this process.

    Args:
        config: the training's.
        checkpoint: holds the model's weights on disk.
        model: the trainer's, which the transformers engine samples with.
        tokenizer: the model's.
        prompts: all that will be asked; vLLM's cache has to hold the longest, with its new tokens.
    """
    if config.rollout.engine == "transformers":
        return TransformersEngine(model, tokenizer)
    dtype = "bfloat16" if config.autocast else "float32"  # the arithmetic of the updates
    positions = _most_positions(prompts, config)
    engine = VllmEngine(checkpoint, dtype=dtype, positions=positions, gpu_memory=config.rollout.gpu_memory, sleeps=True)
    engine.sleep()
    return engine


def _most_positions(prompts: Sequence[Prompt], config: TrainConfig) -> int:
    """Tokens of the longest prompt and its new tokens; where the model has fewer, that is told."""
    longest, limit = max((len(prompt.token_ids or ()) for prompt in prompts), default=0), config.rollout.max_new_tokens
    context = declared_context(Path(config.model))
    if context is not None and longest + limit > context:
        tell(
            sys.stderr,
            f"{config.model}: its context of {context:,} tokens is less than the longest prompt ({longest:,}) and "
            f"rollout.max_new_tokens={limit}: rollouts of such prompts are cut off earlier",
        )
    return longest + limit


def load_weights(engine: Engine, model: Any) -> None:
    """Give the engine the model's present weights; the transformers engine holds the model itself and needs nothing."""
    if isinstance(engine, VllmEngine):
        engine.load_weights(model.state_dict())


def free_memory(engine: Engine) -> None:
    """Give the engine's memory to the updates (vLLM sleeps)."""
    if isinstance(engine, VllmEngine):
        engine.sleep()


def sample_rollouts(
    engine: Engine,
    prompts: Sequence[Prompt],
    config: RolloutConfig,
    *,
    seed: int,
    iteration: int,
    first_group: int = 0,
) -> list[Rollout]:
    """``config.group_size`` rollouts of each prompt, in order of prompts, whose group ids count from ``first_group``.

    A rollout's seed is a hash of (run seed, iteration, group, problem, index), so that sampling again gives the same.
    """
    requests = [
        Request(
            # At the end of an epoch an iteration may ask a problem twice; the index makes the keys differ.
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
