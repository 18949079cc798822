"""GPUs by their data sheets and models by their shapes, from which costs are computed.

>>> round(SHAPES["8b"].parameters / 1e9, 2)
8.19
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stapo_bench.errors import StapoError
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
    def layer_parameters(self) -> int:
        """Parameters of one layer: attention, MLP, two norms, and those on queries and keys."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden + 2 * self.head_dim

    @property
    def root_parameters(self) -> int:
        """Parameters outside the layers: embedding, output matrix, last norm."""
        return self.vocab * self.hidden * (1 if self.tied else 2) + self.hidden

    @property
    def parameters(self) -> int:
        """Parameters of the whole model."""
        return self.layers * self.layer_parameters + self.root_parameters

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
    """The shape of a Hugging Face checkpoint folder."""
    path = checkpoint / "config.json"
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
