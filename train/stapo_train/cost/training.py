"""What a training with this project's own trainer takes of each GPU, by its config and the shape of its model.

    print(described(config, read_shape(Path(config.model)), setup_of(config, "GPU", 80, ranks=1)))

as ``stapo-train cost CONFIG`` does. Weights, gradients, moments and copies are counted exactly for models of the Qwen3
kind, activations to some percent; what libraries keep besides is an assumption (``stapo_train.cost.memory``).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from stapo_bench.errors import StapoError, UsageError
from stapo_train.config import LoraConfig, TrainConfig
from stapo_train.cost.memory import DOUBT, FIXED_GIB, GIB, USABLE, VLLM_FIXED_GIB, Memory, fits, single_memory
from stapo_train.cost.shapes import Gpu, Setup, Shape, read_shape
from stapo_train.preflight import check_several_ranks


def setup_of(config: TrainConfig, name: str, gpu_gib: float, ranks: int) -> Setup:
    """So many GPUs of this memory in one machine, which a training by the config has to itself."""
    gpu = Gpu(name=name, memory_gib=gpu_gib, flops=math.nan, bandwidth=math.nan)
    return Setup(gpu=gpu, nodes=1, gpus_per_node=ranks, rollout_share=config.rollout.gpu_memory)


def training_memory(config: TrainConfig, shape: Shape, setup: Setup) -> Memory:
    """A GPU's memory, each rank's on as many ranks as the setup has GPUs.

    FSDP2 gives a rank its share of weights, gradients, moments and reference; at any time the float32 weights of two
    layers and of what belongs to none are whole besides, and gradients of one and the other. The transformers engine
    samples with all weights whole and fills what is free with keys and values: here one sequence's.
    """
    adapter = adapter_tensors(config, shape)
    alone = single_memory(
        shape,
        setup,
        most_tokens(config),
        checkpointing=config.gradient_checkpointing,
        offload=config.activation_offload,
        autocast=config.autocast,
        adapter=sum(adapter) if config.lora else None,
    )
    ranks, weights, ahead = setup.world, 4 * shape.parameters / GIB, config.rollout.ahead is not None
    moments = eight_bit_bytes(adapter or shape.tensors) / GIB if config.optim.states else alone.moments
    whole = 12 * shape.layer_parameters + 8 * shape.root_parameters if ranks > 1 else 0
    memory = replace(
        alone,
        weights=alone.weights / ranks,
        moments=moments / ranks,
        copies=weights * has_sampler(config) + weights / ranks * has_reference(config),
        gradients=alone.gradients / ranks,
        gathered=alone.gathered + whole / GIB,
        awake=ahead,
    )
    if config.rollout.engine == "transformers":
        cache = 2 * shape.kv_bytes * most_tokens(config, 1) / GIB  # float32
        return replace(memory, rollout_weights=weights * (ranks > 1 and not ahead), kv_cache=cache, engine=0.0)
    drawn_by = weights / 2 if config.autocast else weights
    share = setup.rollout_share * setup.gpu.memory_gib
    return replace(memory, rollout_weights=drawn_by, kv_cache=share - drawn_by - VLLM_FIXED_GIB)


def eight_bit_bytes(tensors: Sequence[int]) -> int:
    """Bytes of both moments in 8 bits (``stapo_train.optimizer``), of tensors of so many parameters each.

    A code a parameter, a float32 scale for 256 of them, a map of 256 float32 values; small or odd tensors in float32.

    >>> eight_bit_bytes([4096, 4095])
    43128
    """
    return sum(2 * (n + n // 64 + 1024 if n >= 4096 and not n % 256 else 4 * n) for n in tensors)


def adapter_tensors(config: TrainConfig, shape: Shape) -> tuple[int, ...]:
    """Parameters of each tensor of the adapter that is trained; none where all weights are."""
    return shape.adapter_tensors(config.lora.rank, config.lora.targets) if config.lora else ()


def has_reference(config: TrainConfig) -> bool:
    """Whether the model that the run began with stands beside the one that is trained; an adapter has it below."""
    from stapo_train.objectives import for_run  # its classes load torch

    limit = config.rollout.max_new_tokens
    return config.lora is None and for_run(config.objective, seed=0, max_new_tokens=limit).needs_reference


def has_sampler(config: TrainConfig) -> bool:
    """Whether a whole model of the transformers engine's own, which draws ahead, stands beside the one in training."""
    return config.rollout.ahead is not None and config.rollout.engine == "transformers"


def most_tokens(config: TrainConfig, budget: int | None = None) -> int:
    """Tokens of the largest micro-batch: those asked for, or one longest row, which is never cut."""
    longest = config.rollout.max_new_tokens + (config.data.max_prompt_tokens or 0)
    return max(config.update.micro_batch_tokens if budget is None else budget, longest)


# --- what would make it fit -------------------------------------------------------------------------------------------

Change = Callable[[TrainConfig, Setup], tuple[TrainConfig, Setup]]


def changes(config: TrainConfig, setup: Setup) -> dict[str, Change]:
    """Settings that may take less memory, as the command line has them."""
    half, share = config.update.micro_batch_tokens // 2, config.rollout.gpu_memory / 2
    adapter = LoraConfig(rank=16, alpha=32.0)
    return {
        "rollout.ahead=null": lambda c, s: (replace(c, rollout=replace(c.rollout, ahead=None)), s),
        "gradient_checkpointing=true": lambda c, s: (replace(c, gradient_checkpointing=True), s),
        "activation_offload=true": lambda c, s: (replace(c, activation_offload=True), s),
        "autocast=true": lambda c, s: (replace(c, autocast=True), s),
        "optim.states=8bit": lambda c, s: (replace(c, optim=replace(c.optim, states="8bit")), s),
        f"update.micro_batch_tokens={half}": lambda c, s: (
            replace(c, update=replace(c.update, micro_batch_tokens=half)), s,
        ),
        f"rollout.gpu_memory={share:g}": lambda c, s: (
            replace(c, rollout=replace(c.rollout, gpu_memory=share)), replace(s, rollout_share=share),
        ),
        "'lora={rank: 16, alpha: 32}'": lambda c, s: (replace(c, lora=c.lora or adapter), s),
        f"--ranks {2 * setup.world}": lambda c, s: (c, replace(s, gpus_per_node=2 * setup.world)),
    }  # fmt: skip


def remedies(config: TrainConfig, shape: Shape, setup: Setup) -> list[tuple[str, Memory]]:
    """Single changes that take less than now, the least first; where none is enough, also the fewest together that are.

    Of changes together at most five, and at most three at a time.
    """
    alone = _helping(config, shape, setup, 1)
    for count in (1, 2, 3):
        enough = [one for one in _helping(config, shape, setup, count) if fits(one[1], setup.gpu.memory_gib)]
        if enough:
            return alone if count == 1 else alone + enough[:5]
    return alone


def _helping(config: TrainConfig, shape: Shape, setup: Setup, count: int) -> list[tuple[str, Memory]]:
    now, found = training_memory(config, shape, setup), []
    for chosen in combinations(changes(config, setup).items(), count):
        then, gpus = config, setup
        try:
            for _, change in chosen:
                then, gpus = change(then, gpus)
            if gpus.world > 1:
                check_several_ranks(then)
        except UsageError:  # not together with the other settings
            continue
        memory = training_memory(then, shape, gpus)
        if memory.most < 0.99 * now.most or memory.kv_cache > 0 >= now.kv_cache:
            found.append((" ".join(text for text, _ in chosen), memory))
    return sorted(found, key=lambda one: one[1].most)


# --- in words ---------------------------------------------------------------------------------------------------------


def described(config: TrainConfig, shape: Shape, setup: Setup) -> str:
    """The table of ``stapo-train cost``: GiB by what takes it, in both phases, and whether it fits."""
    memory, adapter = training_memory(config, shape, setup), adapter_tensors(config, shape)
    trained = f"{sum(adapter):,} more of an adapter are trained" if adapter else "all are trained"
    gpus = f"{setup.world} x {setup.gpu.name}" if setup.world > 1 else setup.gpu.name
    lines = [
        f"{shape.parameters:,} parameters, {trained}; {gpus}, {setup.gpu.memory_gib:g} GiB",
        f"{'GiB' + ' of each GPU' * (setup.world > 1):<56}{'updates':>10}{'rollouts':>10}",
        *(f"{what:<56}{_gib(updates)}{_gib(rollouts)}" for what, updates, rollouts in rows(config, memory)),
        f"{'in all':<56}{_gib(memory.while_updating)}{_gib(memory.while_sampling)}",
    ]
    most, room = DOUBT * memory.most, USABLE * setup.gpu.memory_gib
    if fits(memory, setup.gpu.memory_gib):
        return "\n".join(
            [*lines, f"fits: {most:.1f} GiB with {DOUBT - 1:.0%} for doubt, of {room:.1f} to be planned with"]
        )
    lines.append(f"does not fit: {most:.1f} GiB with {DOUBT - 1:.0%} for doubt, of {room:.1f} to be planned with")
    if memory.kv_cache <= 0:
        lines.append(f"vLLM's share, rollout.gpu_memory={setup.rollout_share:g}, has no room for keys and values")
    for text, then in remedies(config, shape, setup):
        verdict = "fits" if fits(then, setup.gpu.memory_gib) else "not enough"
        lines.append(f"{verdict:>56}{_gib(then.while_updating)}{_gib(then.while_sampling)}  {text}")
    return "\n".join(lines)


def rows(config: TrainConfig, memory: Memory) -> Iterator[tuple[str, float, float]]:
    """What takes memory, and GiB of it in updates and in rollouts."""
    offloaded = ", layer inputs in main memory" * config.activation_offload
    yield "weights, float32", memory.weights, memory.weights
    yield f"moments, {'8 bits' if config.optim.states else 'float32'}", memory.moments, memory.moments
    copies = ["reference"] * has_reference(config) + ["the model that draws ahead"] * has_sampler(config)
    if copies:
        yield " and ".join(copies), memory.copies, memory.copies
    yield "gradients, float32", memory.gradients, 0.0
    if memory.gathered:
        yield "weights that layers compute with", memory.gathered, 0.0
    yield f"activations of {most_tokens(config):,} tokens{offloaded}", memory.activations, 0.0
    yield "logits", memory.logits, 0.0
    if config.rollout.engine == "vllm":
        share = memory.rollout_weights + memory.engine + memory.kv_cache
        yield "vLLM's share", share * memory.awake, share
    else:
        kept = memory.kv_cache
        yield "keys and values of one sequence (more if there is room)", kept * memory.awake, kept
        if memory.rollout_weights:
            yield "whole weights", 0.0, memory.rollout_weights
    yield "CUDA, NCCL, a sleeping vLLM (assumed)", FIXED_GIB, FIXED_GIB


def said_at_the_start(config: TrainConfig, ranks: int) -> str | None:
    """A line for the head of a training; None where there is no GPU, or a model of another shape."""
    if config.device == "cpu" or (gpu := gpu_here()) is None:
        return None
    setup = setup_of(config, *gpu, ranks)
    try:
        memory = training_memory(config, read_shape(Path(config.model)), setup)
    except StapoError:
        return None
    verdict = "" if fits(memory, setup.gpu.memory_gib) else ", which may not fit: 'stapo-train cost' says what would"
    return (
        f"memory: about {memory.while_updating:.1f} GiB in updates and {memory.while_sampling:.1f} in rollouts, of "
        f"{setup.gpu.memory_gib:.1f} ({setup.gpu.name}){verdict}"
    )


def gpu_here() -> tuple[str, float] | None:
    """Name and GiB of this machine's first GPU."""
    import torch

    if not torch.cuda.is_available():
        return None
    found = torch.cuda.get_device_properties(0)
    return found.name, found.total_memory / GIB


def _gib(value: float) -> str:
    return f"{value:>10.2f}" if value else f"{'–':>10}"
