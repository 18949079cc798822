"""Cost of a run, estimated before it starts from the model's shape: GPU memory per rank, hours, disk.

    setup = Setup(gpu=GPUS["h20"], nodes=8, gpus_per_node=8)
    memory = sharded_memory(SHAPES["8b"], setup, PUBLISHED_RECIPE)
    seconds = iteration_seconds(SHAPES["8b"], setup, PUBLISHED_RECIPE, forward_passes=passes("stapo"))

Two phases share a GPU. During sampling vLLM has a fixed share of the memory beside the trainer's weights and optimizer;
during updates it has given its share back and gradients, activations and logits take its place.

Memory follows ZeRO (arXiv:1910.02054, Sec. 3) and the activation count of arXiv:2205.05198, Sec. 4, for full
recomputation; operations follow PaLM (arXiv:2204.02311, App. B). Three numbers are not derived: the share of a GPU's
peak that training reaches (MFU), the part of a decoding step's time that memory bandwidth does not explain, and the
mean response length. ``stapo_train.reproduce.cost_table`` compares the result with published durations.
"""

from dataclasses import dataclass

from stapo_bench.errors import UsageError
from stapo_train.cost.shapes import Gpu, Shape

GIB = 2**30

MFU = 0.4
"""Share of the peak that forward and backward passes reach: Llama 3 reports 38 to 43 % (arXiv:2407.21783, Table 4)."""

DECODE_STEP_S = 0.010
"""Seconds of one decoding step beyond reading weights and keys: launches, sampling, scheduling. A compromise between
JustRL's published duration, which asks for less, and STAPO's, for more (``stapo_train.reproduce.cost_table``)."""

FIXED_GIB = 3.0
"""CUDA context, NCCL buffers and what a sleeping vLLM keeps. An assumption."""

VLLM_FIXED_GIB = 4.0
"""vLLM's activations and CUDA graphs beside weights and cache. An assumption."""

USABLE = 0.9
"""Share of a GPU's memory that a plan may fill; the rest goes to fragmentation."""

DOUBT = 1.05
"""What the estimate is multiplied with before it is compared: two of its parts are assumptions."""


EVAL_SAMPLES = (30 + 30 + 40) * 32 + (500 + 272 + 674) * 4
"""Samples of one evaluation: the paper's six tasks."""
EVAL_MAX_TOKENS = 20_480


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How much an iteration samples and trains on. Lengths in tokens."""

    prompts: int = 256
    group_size: int = 8
    mini_batches: int = 4
    max_prompt: int = 1024
    max_response: int = 15_360
    # DAPO-Math-17K's prompts have about a hundred tokens; JustRL's responses settle at 4,000 to 5,000
    # (arXiv:2512.16649, Fig. 2c). The paper does not print its own.
    mean_prompt: int = 100
    mean_response: int = 4500

    @property
    def rollouts(self) -> int:
        """Rollouts of an iteration."""
        return self.prompts * self.group_size

    @property
    def max_length(self) -> int:
        """Most tokens of a sequence, prompt and response."""
        return self.max_prompt + self.max_response

    @property
    def mean_length(self) -> int:
        """Mean tokens of a sequence, prompt and response."""
        return self.mean_prompt + self.mean_response


PUBLISHED_RECIPE = Recipe()
"""arXiv:2602.15620, training setup; the mean lengths are assumptions."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """GPUs, and how a model is distributed over them."""

    gpu: Gpu
    nodes: int
    gpus_per_node: int
    tensor_parallel: int = 1  # GPUs that share a vLLM engine's weights
    sequence_parallel: int = 1  # GPUs that share a sequence while it is trained on (Ulysses)
    rollout_share: float = 0.6  # of the memory, vLLM's while it samples

    @property
    def world(self) -> int:
        """GPUs in all."""
        return self.nodes * self.gpus_per_node


# --- memory -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One GPU's memory in GiB, by what takes it."""

    state: float  # float32 weights and Adam's two moments, this rank's shard
    gradients: float  # float32, this rank's shard; gone while vLLM samples
    step: float  # what the optimizer makes for a moment: a square root of every second moment, this rank's shard
    gathered: float  # bfloat16 weights, and gradients not yet reduced, of the layers being computed
    activations: float
    logits: float
    rollout_weights: float  # vLLM's, bfloat16
    kv_cache: float  # what vLLM's share leaves for keys and values

    @property
    def while_updating(self) -> float:
        """GiB while weights are updated; vLLM sleeps. Activations are gone when the optimizer steps."""
        passes = self.gathered + self.activations + self.logits
        return self.state + self.gradients + max(passes, self.step) + FIXED_GIB

    @property
    def while_sampling(self) -> float:
        """GiB while vLLM samples."""
        return self.state + self.rollout_weights + VLLM_FIXED_GIB + max(self.kv_cache, 0.0) + FIXED_GIB

    @property
    def most(self) -> float:
        """GiB of the larger phase."""
        return max(self.while_updating, self.while_sampling)


def sharded_memory(shape: Shape, setup: Setup, recipe: Recipe) -> Memory:
    """A rank of verl's FSDP2 engine with vLLM beside it: 16 bytes a parameter over all ranks (ZeRO stage 3).

    At any time the bfloat16 weights of two layers and of the embedding and output matrices are gathered, and the whole
    float32 gradient of those matrices exists before it is reduced. A micro-batch is one sequence of maximum length.
    """
    tokens = recipe.max_length // setup.sequence_parallel
    gathered = 2 * (2 * shape.layer_parameters + shape.root_parameters) + 4 * shape.root_parameters
    # FSDP casts the weights, so that layers hand on bfloat16.
    activations = tokens * (2 * shape.hidden * shape.layers + layer_bytes(shape, 2))
    # bfloat16 logits, their float32 copy and its gradient.
    logits = 10.0 * tokens * shape.vocab
    step = 4.0 * shape.parameters / setup.world  # AdamW over lists of tensors (``foreach``), torch's default on GPUs
    return _memory(shape, setup, gathered=gathered, activations=activations, logits=logits, step=step)


def single_memory(shape: Shape, setup: Setup, micro_batch_tokens: int, *, checkpointing: bool = True) -> Memory:
    """This project's own trainer on one GPU: nothing is sharded, and autocast keeps a bfloat16 copy of the weights.

    Logits are made in blocks; at most 0.9 GB of probabilities are kept (``stapo_train.fused``). AdamW is fused there.

    ``checkpointing``: layers are computed again in the backward pass, and only their inputs are kept.
    """
    # Under autocast the weights stay float32, and so does what layers hand on.
    inner = layer_bytes(shape, 4)
    each = 4 * shape.hidden * shape.layers + inner if checkpointing else inner * shape.layers
    copies = 2.0 * shape.parameters
    return _memory(shape, setup, gathered=copies, activations=float(micro_batch_tokens * each), logits=0.9e9, step=0.0)


def layer_bytes(shape: Shape, residual_bytes: int) -> int:
    """Bytes a token that the backward pass of one layer keeps, by what layers hand on: 2 bfloat16, 4 float32.

    As autograd keeps them for a Qwen3 layer under autocast (``tests/test_cost.py`` counts them): of the hidden size,
    inputs and normalized values in both precisions; of queries, keys and values, before and after norm and rotation;
    gate, up, activation and their product.
    """
    hidden = 26 if residual_bytes == 4 else 16
    return hidden * shape.hidden + 10 * shape.head_dim * (shape.heads + shape.kv_heads) + 8 * shape.intermediate


def _memory(shape: Shape, setup: Setup, *, gathered: float, activations: float, logits: float, step: float) -> Memory:
    sharded = shape.parameters / setup.world / GIB
    rollout_weights = 2 * shape.parameters / setup.tensor_parallel / GIB
    return Memory(
        state=12 * sharded,
        gradients=4 * sharded,
        step=step / GIB,
        gathered=gathered / GIB,
        activations=activations / GIB,
        logits=logits / GIB,
        rollout_weights=rollout_weights,
        kv_cache=setup.rollout_share * setup.gpu.memory_gib - rollout_weights - VLLM_FIXED_GIB,
    )


def cached_sequences(memory: Memory, shape: Shape, setup: Setup, length: float) -> float:
    """How many sequences of ``length`` tokens one vLLM engine, on all its GPUs, holds at once."""
    return max(memory.kv_cache, 0.0) * GIB * setup.tensor_parallel / (shape.kv_bytes * length)


def check_setup(shape: Shape, setup: Setup, recipe: Recipe) -> Memory:
    """The memory of a rank, if everything fits and divides.

    Raises:
        UsageError: one line with what is too large and what to change.
    """
    counts = {
        "--nodes": setup.nodes,
        "--gpus-per-node": setup.gpus_per_node,
        "--tensor-parallel": setup.tensor_parallel,
        "--sequence-parallel": setup.sequence_parallel,
    }
    for name, count in counts.items():
        if count < 1:
            raise UsageError(f"{name} {count}: expected 1 or more")
    for name in ("--tensor-parallel", "--sequence-parallel"):
        parts = counts[name]
        if setup.gpus_per_node % parts or shape.heads % parts:
            raise UsageError(
                f"{name} {parts}: expected a divisor of {setup.gpus_per_node} GPUs a node and of {shape.heads} "
                "attention heads"
            )
    ranks = setup.world // setup.sequence_parallel
    sequences = recipe.rollouts // recipe.mini_batches
    if sequences % ranks:
        raise UsageError(
            f"{setup.nodes} x {setup.gpus_per_node} GPUs: expected {sequences} rollouts of a mini-batch to divide "
            f"evenly over {ranks} data-parallel ranks; choose a power of two, at most {sequences}"
        )
    memory = sharded_memory(shape, setup, recipe)
    usable = USABLE * setup.gpu.memory_gib
    if cached_sequences(memory, shape, setup, recipe.max_length) < 1:
        raise UsageError(
            f"{setup.gpu.name}: expected room for one sequence of {recipe.max_length:,} tokens in vLLM's share, got "
            f"{memory.kv_cache:.1f} GiB; " + _more("--tensor-parallel", setup.tensor_parallel, shape, setup)
        )
    for phase, needed, remedy in (
        ("updates", memory.while_updating, _more("--sequence-parallel", setup.sequence_parallel, shape, setup)),
        ("rollouts", memory.while_sampling, f"lower rollout.gpu_memory={setup.rollout_share:g} or use more GPUs"),
    ):
        if DOUBT * needed > usable:
            raise UsageError(
                f"{setup.gpu.name}: expected at most {usable:.0f} GiB per GPU ({USABLE:.0%} of {setup.gpu.memory_gib:g}"
                f"), got {DOUBT * needed:.0f} GiB ({needed:.1f} by the estimate and {DOUBT - 1:.0%} for its doubt) "
                f"during {phase} on {setup.world} GPUs; {remedy}"
            )
    return memory


def _more(option: str, now: int, shape: Shape, setup: Setup) -> str:
    """What would give a sequence more memory: a larger split, where the GPUs of a node and the heads allow one."""
    larger = [n for n in range(now + 1, setup.gpus_per_node + 1) if not setup.gpus_per_node % n and not shape.heads % n]
    split = f"use {option} {larger[0]}, " if larger else "use "
    return split + ("more GPUs or a kind with more memory" if larger else "more GPUs a node or a kind with more memory")


# --- time -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """One iteration on the wall, by stage."""

    generation: float
    passes: float  # forward and backward passes: old log-probs, selection, update

    @property
    def total(self) -> float:
        """Seconds of an iteration."""
        return self.generation + self.passes


def passes(objective: str) -> int:
    """Cost of a rollout's tokens in forward passes, from the objective's declared ``needs``.

    One for the old log-probs; for each optimizer step on them, four for the update with recomputation and one without
    gradient where the selection depends on the current policy.

    >>> passes("justrl"), passes("stapo"), passes("lopti")
    (5, 6, 9)
    """
    from stapo_train.objectives import REGISTRY  # its classes load torch

    asked = REGISTRY[objective]
    return 1 + asked.num_phases * (4 + (asked.needs.current_policy != "none"))


def iteration_seconds(shape: Shape, setup: Setup, recipe: Recipe, forward_passes: int) -> Seconds:
    """An iteration without overlap: all rollouts, then all passes over them, at ``MFU`` of the peak."""
    flops = recipe.rollouts * recipe.mean_length * shape.forward_flops(recipe.mean_length)
    return Seconds(
        generation=generation_seconds(shape, setup, recipe, recipe.rollouts, recipe.max_response),
        passes=forward_passes * flops / (setup.world * setup.gpu.flops * MFU),
    )


def generation_seconds(shape: Shape, setup: Setup, recipe: Recipe, samples: int, max_tokens: int) -> float:
    """Seconds to generate ``samples`` on all GPUs; the longest runs to the limit, one decoding step per token.

    A step costs ``DECODE_STEP_S`` and reads the weights and the cache of every unfinished sequence; every token is
    computed. Where a GPU's cache cannot hold its sequences at once, they are generated in waves.
    """
    engines = setup.world / setup.tensor_parallel
    memory = _memory(shape, setup, gathered=0.0, activations=0.0, logits=0.0, step=0.0)
    held = max(cached_sequences(memory, shape, setup, recipe.mean_length), 1.0)
    waves = max(1.0, samples / engines / held)
    step = DECODE_STEP_S + 2 * shape.parameters / setup.tensor_parallel / setup.gpu.bandwidth
    tokens = samples * recipe.mean_response / setup.world  # per GPU
    read = tokens * (recipe.mean_prompt + recipe.mean_response / 2) * shape.kv_bytes / setup.gpu.bandwidth
    computed = tokens * shape.forward_flops(recipe.mean_length) / (setup.gpu.flops * MFU)
    return waves * max_tokens * step + read + computed


# --- disk -------------------------------------------------------------------------------------------------------------


def checkpoint_bytes(shape: Shape) -> int:
    """A checkpoint that training resumes from: float32 weights and Adam's two moments."""
    return 12 * shape.parameters


def folder_bytes(shape: Shape) -> int:
    """A checkpoint that is evaluated: a Hugging Face folder in bfloat16."""
    return 2 * shape.parameters


def samples_bytes(samples: int, mean_tokens: float) -> float:
    """Samples on disk: about four bytes of text a token and half a kilobyte around it."""
    return samples * (4.0 * mean_tokens + 500)
