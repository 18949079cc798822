"""The model as the trainer uses it: micro-batch in, statistics of its response tokens out."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import save_on_cpu

from stapo_bench.engines import default_device
from stapo_bench.engines.transformers import load_checkpoint
from stapo_bench.errors import StapoError
from stapo_bench.runs import is_adapter
from stapo_train.batch import Batch, MicroBatch, micro_batches, nothing_to_run
from stapo_train.config import TrainConfig
from stapo_train.fused import blocks, linear_token_distribution, varlen
from stapo_train.lora import adapter_off, add_adapter, load_adapter
from stapo_train.objective import ONE_PROCESS, Reduce, TokenStats
from stapo_train.sharding import run_whole, shard
from stapo_train.token_statistics import TokenDistribution, token_distribution


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A causal language model at a sampling temperature. Only ``model`` changes, by updates."""

    model: Any  # transformers' PreTrainedModel with full causal attention
    temperature: float
    micro_batch_tokens: int  # padded positions in one forward pass
    autocast: bool = False  # bfloat16 arithmetic over float32 weights
    base_alone: bool = False  # the model with its adapter off
    offload: bool = False  # what layers keep for the backward pass waits in main memory
    packed: bool = False  # rows end to end without padding, for attention that takes rows of various lengths
    ranks: Reduce = ONE_PROCESS  # those that make their passes together, each over its own rows

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = self.model.device
        return device

    def split(self, batch: Batch, rows: Sequence[int]) -> Iterator[MicroBatch]:
        """The micro-batches of these rows; on several ranks, empty ones until each has as many passes as any."""
        own = micro_batches(batch, rows, self.micro_batch_tokens, self.device, self.packed)
        if self.ranks.size == 1:
            return own
        made = list(own)
        most = int(self.ranks.gather(torch.tensor([len(made)])).max())
        return iter(made + [nothing_to_run(self.device, self.packed)] * (most - len(made)))

    def logits(self, micro: MicroBatch) -> Tensor:
        """[n, V] of the next-token distributions at the micro-batch's response tokens."""
        with self._arithmetic():
            logits: Tensor = self.model.get_output_embeddings()(self._hidden(micro))
        return logits

    def stats(self, batch: Batch, micro: MicroBatch) -> TokenStats:
        """[n] the micro-batch's tokens under the current policy, with gradient where it is enabled."""
        log_probs, entropy = run_whole(self.model, partial(self._measured, micro))
        return replace(batch.stats.take(micro.tokens), log_probs=log_probs, entropy=entropy.detach())

    def _measured(self, micro: MicroBatch) -> tuple[Tensor, Tensor]:
        now = self._distribution(micro)
        return now.log_probs, now.entropy

    def _distribution(self, micro: MicroBatch) -> TokenDistribution:
        head = self.model.get_output_embeddings()
        # A vocabulary that fits one part is not cut.
        if len(head.weight) <= blocks.COLUMNS or head.bias is not None:
            return token_distribution(self.logits(micro), micro.taken, self.temperature)
        with self._arithmetic():
            hidden = self._hidden(micro)
        dtype = torch.bfloat16 if self.autocast else hidden.dtype
        return linear_token_distribution(hidden.to(dtype), head.weight.to(dtype), micro.taken, self.temperature)

    def _hidden(self, micro: MicroBatch) -> Tensor:
        """[n, D] last hidden states of the positions that predict a response token."""
        kept = save_on_cpu(pin_memory=self.device.type == "cuda") if self.offload else nullcontext()
        with kept, adapter_off(self.model) if self.base_alone else nullcontext():
            out = self.model.base_model(input_ids=micro.input_ids, position_ids=micro.position_ids, use_cache=False)
        hidden: Tensor = out.last_hidden_state.flatten(0, 1)[micro.predictor]  # of [b, T, D]
        return hidden

    def _arithmetic(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if self.autocast else nullcontext()

    @torch.no_grad()
    def measure(self, batch: Batch, rows: Sequence[int] | None = None) -> TokenStats:
        """[N] the batch's tokens, those of ``rows`` (default: all) under the current policy."""
        seen = Recorder(batch)
        for micro in self.split(batch, range(len(batch.rows)) if rows is None else rows):
            seen.write(micro, self.stats(batch, micro))
        return seen.stats

    @torch.no_grad()
    def proxy_log_probs(self, batch: Batch, min_p: float) -> Tensor:
        """[N] the taken tokens' log-probs under this policy cut by ``min_p``: needs all logits at once."""
        found = torch.empty_like(batch.stats.advantages)
        for micro in self.split(batch, range(len(batch.rows))):
            (log_probs,) = run_whole(self.model, partial(self._proxy, micro, min_p))
            found[micro.tokens] = log_probs.to(found.dtype)
        return found

    def _proxy(self, micro: MicroBatch, min_p: float) -> tuple[Tensor]:
        now = token_distribution(self.logits(micro), micro.taken, self.temperature, min_p)
        assert now.proxy_log_probs is not None
        return (now.proxy_log_probs,)


class Recorder:
    """Collects the current policy's statistics of a batch, micro-batch by micro-batch."""

    def __init__(self, batch: Batch) -> None:
        old = batch.stats
        self.stats = replace(old, log_probs=old.log_probs.clone(), entropy=old.entropy.clone())

    def write(self, micro: MicroBatch, now: TokenStats) -> None:
        """Write the micro-batch's values at its tokens' positions."""
        self.stats.log_probs[micro.tokens] = now.log_probs.detach()
        self.stats.entropy[micro.tokens] = now.entropy


def load_model(path: Path, config: TrainConfig, ranks: Reduce = ONE_PROCESS) -> tuple[Any, Any]:
    """Model, in float32 with gradients, and tokenizer from a checkpoint folder; its weights sharded over ``ranks``.

    With ``config.lora`` the model is the run's base with an adapter, new or, where the folder is one, that one.
    """
    device = default_device() if config.device == "auto" else config.device
    model, tokenizer = load_checkpoint(Path(config.model) if config.lora else path, dtype="float32", device=device)
    check_head(model)
    if config.lora:
        base = str(Path(config.model).absolute())  # found from any folder
        add_adapter(model, config.lora, base=base, seed=config.seed)
        if is_adapter(path):
            load_adapter(model, path)
    if config.attention != "sdpa":
        set_attention(model, config.attention)
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable()
        model.train()  # without it transformers ignores the line above; nothing here has dropout
    if ranks.size > 1:
        shard(model)
    return model, tokenizer


def check_head(model: Any) -> None:
    """Refuse a model whose logits are not simply its output embedding applied to its last hidden state.

    ``Policy.stats`` computes logits at the needed positions itself and would silently omit any further operation.
    """
    ids = torch.arange(8, device=model.device).unsqueeze(0) % model.config.vocab_size
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits
        ours = model.get_output_embeddings()(model.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    if not torch.allclose(logits, ours, rtol=1e-3, atol=1e-3):
        raise StapoError(
            f"{type(model).__name__}: expected logits = output embedding of the last hidden state, got others "
            "(a soft cap or a scale?); the trainer does not support this architecture"
        )


def set_attention(model: Any, name: str) -> None:
    """Have the model use another of transformers' attention implementations, or ``varlen.NAME``."""
    varlen.register()
    try:
        model.set_attn_implementation(name)
    except (ImportError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise StapoError(f"attention: {name} cannot be used here: {reason}; attention=sdpa always can") from error
