"""What costs are computed from: GPUs by their data sheets, models by their shapes, runs by what they sample and split.

>>> round(SHAPES["8b"].parameters / 1e9, 2)
8.19
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.tasks import read_foreign_object


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A kind of GPU: its data sheet, dense bfloat16 without sparsity."""

    name: str
    memory_gib: float  # as the driver reports it
    flops: float  # peak, per second
    bandwidth: float  # bytes per second


GPUS: Mapping[str, Gpu] = {
    "h20": Gpu(name="H20 96 GB", memory_gib=95, flops=148e12, bandwidth=4.0e12),
    "a100": Gpu(name="A100/A800 80 GB", memory_gib=79, flops=312e12, bandwidth=2.0e12),
    "h100": Gpu(name="H100/H800 80 GB", memory_gib=79, flops=989e12, bandwidth=3.35e12),
    "h200": Gpu(name="H200 141 GB", memory_gib=139, flops=989e12, bandwidth=4.8e12),
}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A decoder of the Qwen3 kind: grouped queries, gated MLP, norms on queries and keys."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool  # the output matrix is the embedding

    @property
    def layer_tensors(self) -> tuple[int, ...]:
        """Parameters of each tensor of a layer: attention, MLP, two norms, and those on queries and keys."""
        queries, keys = self.heads * self.head_dim * self.hidden, self.kv_heads * self.head_dim * self.hidden
        mlp = self.hidden * self.intermediate
        return (queries, keys, keys, queries, mlp, mlp, mlp, self.hidden, self.hidden, self.head_dim, self.head_dim)

    @property
    def root_tensors(self) -> tuple[int, ...]:
        """Parameters of each tensor outside the layers: embedding, output matrix, last norm."""
        return (*[self.vocab * self.hidden] * (1 if self.tied else 2), self.hidden)

    @property
    def tensors(self) -> tuple[int, ...]:
        """Parameters of each tensor of the model."""
        return self.layer_tensors * self.layers + self.root_tensors

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer."""
        return sum(self.layer_tensors)

    @property
    def root_parameters(self) -> int:
        """Parameters outside the layers."""
        return sum(self.root_tensors)

    @property
    def parameters(self) -> int:
        """Parameters of the whole model."""
        return self.layers * self.layer_parameters + self.root_parameters

    def adapter_tensors(self, rank: int, targets: Sequence[str]) -> tuple[int, ...]:
        """Parameters of each tensor of a LoRA adapter: rank x in and rank x out for each matrix that has one.

        Args:
            rank: r.
            targets: names of matrices or their ends, as peft takes them: ``q_proj`` is that of every layer.

        Raises:
            UsageError: a matrix that such a model does not have.
        """
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        ends = {
            **dict.fromkeys(("self_attn.q_proj", "self_attn.o_proj"), (self.hidden, queries)),
            **dict.fromkeys(("self_attn.k_proj", "self_attn.v_proj"), (self.hidden, keys)),
            **dict.fromkeys(("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"), (self.hidden, self.intermediate)),
        }
        matrices = {f".model.layers.{n}.{name}": both for n in range(self.layers) for name, both in ends.items()}
        if unknown := [target for target in targets if not any(name.endswith(f".{target}") for name in matrices)]:
            known = ", ".join(name.rpartition(".")[2] for name in ends)
            raise UsageError(f"lora.targets: expected some of {known}, got {', '.join(unknown)}")
        adapted = tuple(f".{target}" for target in targets)
        return tuple(rank * end for name, both in matrices.items() if name.endswith(adapted) for end in both)

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values per token, bfloat16."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim

    def forward_flops(self, length: float) -> float:
        """Operations of a token's forward pass in a causal sequence of ``length`` tokens.

        Two per matrix parameter, and 4 L H Q for each of the on average length / 2 tokens that it attends to
        (arXiv:2204.02311, App. B). The embedding is looked up, not multiplied.
        """
        matrices = self.layers * self.layer_parameters + self.vocab * self.hidden
        return 2.0 * matrices + 2.0 * self.layers * self.heads * self.head_dim * length


SHAPES: Mapping[str, Shape] = {
    "1.7b": Shape(
        layers=28, hidden=2048, intermediate=6144, heads=16, kv_heads=8, head_dim=128, vocab=151936, tied=True
    ),
    "8b": Shape(
        layers=36, hidden=4096, intermediate=12288, heads=32, kv_heads=8, head_dim=128, vocab=151936, tied=False
    ),
    "14b": Shape(
        layers=40, hidden=5120, intermediate=17408, heads=40, kv_heads=8, head_dim=128, vocab=151936, tied=False
    ),
}
"""Qwen3-*-Base, from their ``config.json`` (arXiv:2505.09388, Table 1)."""


def read_shape(checkpoint: Path) -> Shape:
    """The shape of a Hugging Face checkpoint folder, of which ``config.json`` is enough.

    Raises:
        StapoError: there is none, or not a decoder's.
    """
    path = checkpoint / "config.json"
    if not path.exists():
        raise StapoError(
            f"model {checkpoint}: expected a Hugging Face folder, of which config.json is enough, got "
            f"{'none there' if checkpoint.is_dir() else 'no such folder'}; name one with model=FOLDER"
        )
    raw = read_foreign_object(path)
    try:
        return Shape(
            layers=raw["num_hidden_layers"],
            hidden=raw["hidden_size"],
            intermediate=raw["intermediate_size"],
            heads=raw["num_attention_heads"],
            kv_heads=raw.get("num_key_value_heads", raw["num_attention_heads"]),
            head_dim=raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
            vocab=raw["vocab_size"],
            tied=bool(raw.get("tie_word_embeddings", False)),
        )
    except (KeyError, TypeError, ArithmeticError) as error:
        raise StapoError(f"{path}: expected a decoder's config.json, got {type(error).__name__}: {error}") from None


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
