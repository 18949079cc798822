"""Memory of a training per GPU, estimated before it starts from the model's shape.

    memory = sharded_memory(SHAPES["8b"], Setup(gpu=GPUS["h20"], nodes=8, gpus_per_node=8), PUBLISHED_RECIPE)

Two phases share a GPU. During sampling vLLM has a fixed share of the memory beside the trainer's weights and optimizer;
during updates it has given its share back and gradients, activations and logits take its place.

Memory follows ZeRO (arXiv:1910.02054, Sec. 3) and the activation count of arXiv:2205.05198, Sec. 4, for full
recomputation.
"""

from dataclasses import dataclass, replace

from stapo_bench.errors import UsageError
from stapo_train.cost.shapes import Recipe, Setup, Shape

GIB = 2**30

FIXED_GIB = 3.0
"""CUDA context, NCCL buffers and what a sleeping vLLM keeps. An assumption."""

VLLM_FIXED_GIB = 4.0
"""vLLM's activations and CUDA graphs beside weights and cache. An assumption."""

USABLE = 0.9
"""Share of a GPU's memory that a plan may fill; the rest goes to fragmentation."""

DOUBT = 1.05
"""What the estimate is multiplied with before it is compared: two of its parts are assumptions."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One GPU's memory in GiB, by what takes it."""

    weights: float  # float32, this rank's shard
    moments: float  # Adam's two, this rank's shard
    copies: float = 0.0  # float32 weights of other models: a reference, and the one that draws ahead
    gradients: float  # float32, this rank's shard; gone while vLLM samples
    step: float  # what the optimizer makes for a moment: a square root of every second moment, this rank's shard
    gathered: float  # bfloat16 weights, and gradients not yet reduced, of the layers being computed
    activations: float
    logits: float
    rollout_weights: float  # vLLM's, bfloat16
    kv_cache: float  # what vLLM's share leaves for keys and values
    engine: float = VLLM_FIXED_GIB  # what it takes besides
    awake: bool = False  # it samples while weights are updated, too

    @property
    def state(self) -> float:
        """GiB that stay whatever is done."""
        return self.weights + self.moments + self.copies

    @property
    def sampling(self) -> float:
        """GiB of the engine alone."""
        return self.rollout_weights + self.engine + max(self.kv_cache, 0.0)

    @property
    def while_updating(self) -> float:
        """GiB while weights are updated; vLLM sleeps, as a rule. Activations are gone when the optimizer steps."""
        passes = self.gathered + self.activations + self.logits
        return self.state + self.gradients + max(passes, self.step) + self.awake * self.sampling + FIXED_GIB

    @property
    def while_sampling(self) -> float:
        """GiB while vLLM samples."""
        return self.state + self.sampling + FIXED_GIB

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


def single_memory(
    shape: Shape,
    setup: Setup,
    micro_batch_tokens: int,
    *,
    checkpointing: bool = True,
    offload: bool = False,
    autocast: bool = True,
    adapter: int | None = None,
) -> Memory:
    """This project's own trainer on one GPU: nothing is sharded, and autocast keeps a bfloat16 copy of the weights.

    Logits are made in blocks; at most 0.9 GB of probabilities are kept (``stapo_train.fused``), and of a small
    vocabulary or batch three float32 numbers a logit. AdamW is fused there.

    ``checkpointing``: layers are computed again in the backward pass, and only their inputs are kept.
    ``offload``: of these all but one layer's are in main memory.
    ``autocast``: layers compute in bfloat16; weights stay float32, and so does what layers hand on.
    ``adapter``: parameters of the adapter that alone is trained, beside frozen float32 weights; None: all are trained.
    """
    inner = layer_bytes(shape, 4, autocast=autocast)
    inputs = 4 * shape.hidden * (1 if offload else shape.layers)
    each = inputs + inner if checkpointing else inner * shape.layers
    copies = 2.0 * shape.parameters * autocast
    logits = min(0.9e9, 12.0 * micro_batch_tokens * shape.vocab)
    memory = _memory(
        shape, setup, gathered=copies, activations=float(micro_batch_tokens * each), logits=logits, step=0.0
    )
    whole, trained = shape.parameters + (adapter or 0), shape.parameters if adapter is None else adapter
    return replace(
        memory,
        weights=4 * whole / GIB,
        moments=8 * trained / GIB,
        gradients=4 * trained / GIB,
    )


def layer_bytes(shape: Shape, residual_bytes: int, *, autocast: bool = True) -> int:
    """Bytes a token that the backward pass of one layer keeps, by what layers hand on: 2 bfloat16, 4 float32.

    As autograd keeps them for a Qwen3 layer, under autocast or all in float32 (``tests/test_cost.py`` counts them): of
    the hidden size, inputs and normalized values, under autocast in both precisions; of queries, keys and values,
    before and after norm and rotation; gate, up, activation and their product.
    """
    hidden = 24 if not autocast else 26 if residual_bytes == 4 else 16
    attention, mlp = (10, 8) if autocast else (16, 16)
    heads = shape.head_dim * (shape.heads + shape.kv_heads)
    return hidden * shape.hidden + attention * heads + mlp * shape.intermediate


def _memory(shape: Shape, setup: Setup, *, gathered: float, activations: float, logits: float, step: float) -> Memory:
    sharded = shape.parameters / setup.world / GIB
    return Memory(
        weights=4 * sharded,
        moments=8 * sharded,
        gradients=4 * sharded,
        step=step / GIB,
        gathered=gathered / GIB,
        activations=activations / GIB,
        logits=logits / GIB,
        rollout_weights=_rollout_weights(shape, setup),
        kv_cache=_kv_cache(shape, setup),
    )


def _rollout_weights(shape: Shape, setup: Setup) -> float:
    return 2 * shape.parameters / setup.tensor_parallel / GIB


def _kv_cache(shape: Shape, setup: Setup) -> float:
    return setup.rollout_share * setup.gpu.memory_gib - _rollout_weights(shape, setup) - VLLM_FIXED_GIB


def fits(memory: Memory, gpu_gib: float) -> bool:
    """Whether a GPU of this memory has room, with ``DOUBT`` to spare."""
    return DOUBT * memory.most <= USABLE * gpu_gib and memory.kv_cache > 0


def cached_sequences(shape: Shape, setup: Setup, length: float) -> float:
    """How many sequences of ``length`` tokens one vLLM engine, on all its GPUs, holds at once."""
    return max(_kv_cache(shape, setup), 0.0) * GIB * setup.tensor_parallel / (shape.kv_bytes * length)


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
    if cached_sequences(shape, setup, recipe.max_length) < 1:
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
