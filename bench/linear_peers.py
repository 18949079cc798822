"""The contestants of ``bench.linear``: ours, naive code, and the packages that people would use instead.

Peers are called as their own trainers call them, at the signatures of TRL 1.16, Liger 0.8, verl 0.9 and
cut-cross-entropy 25.1.
"""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from stapo_train.fused import blocks, linear_token_distribution
from stapo_train.token_statistics import token_distribution


@dataclass(frozen=True, kw_only=True)
class Example:
    """What every contestant gets. The loss to differentiate is sum_n by_n ln pi_n."""

    hidden: Tensor  # [N, D], a leaf with gradient
    weight: Tensor  # [V, D], likewise
    taken: Tensor  # [N] int64
    by: Tensor  # [N] float32, the same number in each of ``rows`` equal stretches, as an advantage is
    rows: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a contestant makes of it."""

    loss: Tensor  # scalar with gradient
    log_probs: Tensor | None  # [N]; None: it gives the loss alone
    entropy: Tensor | None  # [N]; None: it has none


Contestant = Callable[[Example], Found]


def _weighted(example: Example, log_probs: Tensor, entropy: Tensor | None) -> Found:
    # A product, not a sum: verl's kernel refuses the expanded gradient that a sum sends back.
    return Found(loss=(log_probs * example.by).sum(), log_probs=log_probs, entropy=entropy)


def ours(example: Example) -> Found:
    """The backend that the trainer takes on this device."""
    out = linear_token_distribution(example.hidden, example.weight, example.taken, 1.0)
    return _weighted(example, out.log_probs, out.entropy)


def ours_in_blocks(example: Example) -> Found:
    """Plain PyTorch blocks, on a GPU too."""
    out = linear_token_distribution(example.hidden, example.weight, example.taken, 1.0, blocks.BACKEND)
    return _weighted(example, out.log_probs, out.entropy)


def naive(example: Example) -> Found:
    """All logits, in float32 where they were less."""
    out = token_distribution(example.hidden @ example.weight.T, example.taken, 1.0)
    return _weighted(example, out.log_probs, out.entropy)


_compiled = torch.compile(
    lambda hidden, weight, taken: token_distribution(hidden @ weight.T, taken, 1.0), dynamic=False
)


def naive_compiled(example: Example) -> Found:
    """The same through ``torch.compile``."""
    out = _compiled(example.hidden, example.weight, example.taken)
    return _weighted(example, out.log_probs, out.entropy)


def trl(example: Example) -> Found:
    """TRL's function of logits, which are of the model's dtype as in its trainer; on a GPU it is a Triton kernel."""
    logits = example.hidden @ example.weight.T
    if logits.is_cuda:
        from trl.kernels import selective_log_softmax_and_entropy as fused

        return _weighted(example, *fused(logits, example.taken))
    from trl.trainer.utils import selective_log_softmax_and_entropy as plain  # wants all of TRL's requirements

    return _weighted(example, *plain(logits, example.taken, entropy_requires_grad=False))


def trl_chunked(example: Example) -> Found:
    """TRL's function of hidden states."""
    from trl.kernels import ChunkedLogProbFunction

    columns = 32_768  # its trainer's setting
    log_probs, entropy, *_ = ChunkedLogProbFunction.apply(
        example.hidden, example.weight, None, example.taken, 1.0, columns, None, 1.0, ("entropy",)
    )
    return _weighted(example, log_probs, entropy.detach())


def liger(example: Example) -> Found:
    """Liger's fused linear cross-entropy: no entropy."""
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    out = LigerFusedLinearCrossEntropyFunction.apply(
        example.hidden, example.weight, example.taken, None, None, -100, 0.0, 0.0, "none"
    )
    return _weighted(example, -(out[0] if isinstance(out, tuple) else out), None)


def liger_grpo(example: Example) -> Found:
    """Liger's fused linear GRPO loss, a row at a time: the loss alone."""
    from liger_kernel.chunked_loss import LigerFusedLinearGRPOLoss

    rows, count = example.rows, len(example.taken)
    loss, _ = LigerFusedLinearGRPOLoss(beta=0.0, use_ref_model=False, loss_type="bnpo")(
        example.hidden.view(rows, count // rows, -1),
        example.weight,
        example.taken.view(rows, -1),
        torch.ones(rows, count // rows, device=example.taken.device),
        example.by.view(rows, -1)[:, 0],
    )
    return Found(loss=loss * -count, log_probs=None, entropy=None)  # it is minus the mean; the ratio is 1


def cut_cross_entropy(example: Example) -> Found:
    """Apple's kernel: no entropy. By default it leaves small gradients out."""
    from cut_cross_entropy import linear_cross_entropy

    return _weighted(
        example, -linear_cross_entropy(example.hidden, example.weight, example.taken, reduction="none"), None
    )


def cut_cross_entropy_whole(example: Example) -> Found:
    """Apple's kernel with all gradients."""
    from cut_cross_entropy import linear_cross_entropy

    negative = linear_cross_entropy(example.hidden, example.weight, example.taken, reduction="none", filter_eps=None)
    return _weighted(example, -negative, None)


def verl(example: Example) -> Found:
    """verl's kernel."""
    log_probs, entropy = verl_kernel().linear_cross_entropy(example.hidden, example.weight, example.taken, 1.0, "none")
    return _weighted(example, log_probs, entropy)


@functools.cache
def verl_kernel() -> ModuleType:
    """Its module without the packages around it, which would import Ray and much else."""
    place = importlib.util.find_spec("verl")
    if place is None or not place.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'verl'")
    for name in ("verl", "verl.utils", "verl.plugin"):
        package = sys.modules.setdefault(name, ModuleType(name))
        package.__path__ = [str(Path(place.submodule_search_locations[0]).joinpath(*name.split(".")[1:]))]
    return importlib.import_module("verl.utils.kernel.linear_cross_entropy")


CONTESTANTS: dict[str, Contestant] = {
    "ours": ours,
    "ours, plain PyTorch": ours_in_blocks,
    "naive": naive,
    "naive, torch.compile": naive_compiled,
    "TRL, of logits": trl,
    "TRL, chunked": trl_chunked,
    "Liger": liger,
    "Liger, GRPO loss": liger_grpo,
    "cut-cross-entropy": cut_cross_entropy,
    "cut-cross-entropy, all": cut_cross_entropy_whole,
    "verl": verl,
}
