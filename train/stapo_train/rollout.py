"""Prompts to rollouts, through the evaluation's engines."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from stapo_bench.engines import Engine, ToolUse, declared_context, generate_with_tools
from stapo_bench.engines.transformers import TransformersEngine
from stapo_bench.engines.vllm import VllmEngine
from stapo_bench.errors import StapoError, tell
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams
from stapo_bench.seeds import derive_seed
from stapo_bench.tasks import get_tool
from stapo_train.config import RolloutConfig, TrainConfig
from stapo_train.lora import merged, policy_weights
from stapo_train.objective import ONE_PROCESS, Reduce
from stapo_train.policy import load_model
from stapo_train.sharding import free_weights, gather_weights
from stapo_train.stopping import launched
from stapo_train.train_records import Rollout


def open_engine(
    config: TrainConfig, checkpoint: Path, model: Any, tokenizer: Any, prompts: Sequence[Prompt] = ()
) -> Engine:
    """The engine that ``rollout.engine`` names, in this process.

    Args:
        config: the training's.
        checkpoint: holds the model's weights on disk; where an adapter is trained, the base's.
        model: the trainer's, which the transformers engine samples with; with ``rollout.ahead`` with one of its own.
        tokenizer: the model's.
        prompts: all that will be asked; vLLM's cache has to hold the longest, with its new tokens.
    """
    if config.rollout.engine == "transformers":
        if config.rollout.ahead:  # the trainer's changes while rollouts are drawn
            model = load_model(checkpoint, replace(config, lora=None))[0].requires_grad_(False)
        return TransformersEngine(model, tokenizer)
    dtype = "bfloat16" if config.autocast else "float32"  # the arithmetic of the updates
    positions = _most_positions(prompts, config)
    memory = config.rollout.gpu_memory
    sleeps = not config.rollout.ahead  # it draws while the updates run
    engine = VllmEngine(
        checkpoint, dtype=dtype, positions=positions, gpu_memory=memory, sleeps=sleeps, launched=launched()
    )
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


def load_weights(engine: Engine, model: Any, config: RolloutConfig) -> None:
    """Give the engine the model's present weights; where it samples with the model itself, that has to be whole."""
    if _has_weights(engine, config):
        assert isinstance(engine, VllmEngine | TransformersEngine)
        engine.load_weights(policy_weights(model))
    else:
        gather_weights(model)


def free_memory(engine: Engine, model: Any, config: RolloutConfig) -> None:
    """Give the engine's memory to the updates (vLLM sleeps), unless it draws while they run."""
    if isinstance(engine, VllmEngine):
        engine.sleep()
    elif not config.ahead:
        free_weights(model)


@contextmanager
def weights_of_checkpoint(engine: Engine, model: Any, config: RolloutConfig) -> Iterator[None]:
    """Within it the engine samples with what a checkpoint made now would be evaluated by: an adapter is merged."""
    load_weights(engine, model, config)
    with nullcontext() if _has_weights(engine, config) else merged(model):
        yield
    free_memory(engine, model, config)


def _has_weights(engine: Engine, config: RolloutConfig) -> bool:
    """Whether the engine samples with weights of its own, and not with the trainer's model."""
    return isinstance(engine, VllmEngine) or config.ahead is not None


def sample_rollouts(
    engine: Engine,
    prompts: Sequence[Prompt],
    config: RolloutConfig,
    *,
    seed: int,
    iteration: int,
    first_group: int = 0,
    prefix: str = "",
    tokenizer: Any = None,
    ranks: Reduce = ONE_PROCESS,
) -> list[Rollout]:
    """``config.group_size`` rollouts of each prompt, in order of prompts, whose group ids count from ``first_group``.

    A rollout's seed is a hash of (run seed, iteration, group, problem, index), so that sampling again gives the same,
    on whichever rank. Each rank draws every ``ranks.size``-th: a share of each group, so that no rank has the hard
    prompts, whose rollouts are long, to itself.

    ``prefix``: with which the prompts have begun the reply, which the grader gets whole; the tokens stay the policy's.
    ``tokenizer``: the model's, for the outputs of ``config.tool``.
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
    ][ranks.rank :: ranks.size]
    params = SamplingParams(temperature=config.temperature, top_p=config.top_p, max_new_tokens=config.max_new_tokens)
    use = None if config.tool is None else ToolUse(tool=get_tool(config.tool), tokenizer=tokenizer)
    calls = {} if use is None else {prompt.task: use for prompt in prompts}
    completions = {one.key: one for one in generate_with_tools(engine, requests, params, calls)}
    return [_rollout(request, completions[request.key], config.group_size, prefix) for request in requests]


def _rollout(request: Request, completion: Completion, group_size: int, prefix: str) -> Rollout:
    if completion.finish_reason == "error":  # no tokens to train on; its reward will be NaN
        completion = replace(completion, token_ids=(), log_probs=(), tool_outputs=())
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
        tool_outputs=completion.tool_outputs,
        text=prefix + completion.text,
        finish_reason=completion.finish_reason,
    )
