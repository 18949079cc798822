"""A model with random weights and rollouts of random tokens, large enough to measure the cost of an update."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from stapo_train.batch import Batch, collate
from stapo_train.train_records import Rollout

GROUP_SIZE = 8
SILENT_SHARE = 0.25  # of the groups, whose rollouts have all the same reward and no gradient


@dataclass(frozen=True, kw_only=True)
class Size:
    """A Qwen3 and an iteration's rollouts."""

    hidden: int
    layers: int
    heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    rollouts: int
    prompt_tokens: int
    max_new_tokens: int
    micro_batch_tokens: int


SIZES = {
    "toy": Size(
        hidden=32, layers=2, heads=4, head_dim=32, intermediate=64, vocabulary=3000, rollouts=32, prompt_tokens=6,
        max_new_tokens=24, micro_batch_tokens=128,
    ),
    "0.6b": Size(
        hidden=1024, layers=28, heads=16, head_dim=128, intermediate=3072, vocabulary=151_936, rollouts=128,
        prompt_tokens=150, max_new_tokens=4096, micro_batch_tokens=16_384,
    ),
    "1.7b": Size(
        hidden=2048, layers=28, heads=16, head_dim=128, intermediate=6144, vocabulary=151_936, rollouts=128,
        prompt_tokens=150, max_new_tokens=4096, micro_batch_tokens=8192,
    ),
}  # fmt: skip


def add_options(parser: Any) -> None:
    """Add the options that all measurements on a GPU share."""
    parser.add_argument("--size", choices=SIZES, help="a model of random weights, and rollouts of random tokens")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")


def random_model(size: Size, device: str, dtype: torch.dtype = torch.float32) -> Any:
    """A Qwen3 with gradients; the same weights each time on one device."""
    import transformers

    config = transformers.Qwen3Config(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads // 2,
        head_dim=size.head_dim,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    torch.manual_seed(0)
    with torch.device(device):
        return transformers.Qwen3ForCausalLM(config).to(dtype).eval()


def random_batch(size: Size, device: str, dtype: torch.dtype = torch.float32) -> tuple[Batch, list[int]]:
    """Rollouts whose lengths scatter as those of a model that reasons, some cut at the limit; and their groups."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(size.max_new_tokens / 3), 0.7, size.rollouts), 1, size.max_new_tokens)
    groups = np.arange(size.rollouts) // GROUP_SIZE
    rollouts = [
        Rollout(
            group_id=int(group),
            problem_id=str(group),
            index=number % GROUP_SIZE,
            seed=number,
            prompt_ids=tuple(rng.integers(size.vocabulary, size=size.prompt_tokens).tolist()),
            response_ids=tuple(rng.integers(size.vocabulary, size=int(length)).tolist()),
            rollout_log_probs=None,
            text="",
            finish_reason="stop" if length < size.max_new_tokens else "length",
        )
        for number, (group, length) in enumerate(zip(groups, lengths, strict=True))
    ]
    silent = groups < SILENT_SHARE * (groups[-1] + 1)
    advantages = np.where(silent, 0.0, rng.normal(size=size.rollouts))
    return collate(rollouts, advantages, dtype, torch.device(device)), groups.tolist()


def synchronized(device: str) -> None:
    """Wait until the GPU has finished, so that CPU clocks are right."""
    if device == "cuda":
        torch.cuda.synchronize()


def peak_bytes(device: str) -> int | None:
    """Peak tensor memory since ``torch.cuda.reset_peak_memory_stats``; None without a GPU."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else None


def megabytes(count: int | None) -> str:
    """A number of bytes as text for a table."""
    return "not counted" if count is None else f"{count / 1e6:.0f}"
