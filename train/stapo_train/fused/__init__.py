"""Log-probs, entropies and sums of squares straight from hidden states; the logits [N, V] never exist.

At |V| = 151,936 a thousand float32 rows of logits are 0.6 GB, and naive code holds four such arrays. Here the
vocabulary is cut into parts. Four numbers per token are kept of each part, and the chain rule combines them:

    Z_b = ln sum_{v in b} e^l_v          w_b = e^(Z_b - Z), Z = ln sum_b e^Z_b       the part's share of the probability
    H = sum_b w_b (H_b - ln w_b)         sum_v pi_v^2 = sum_b w_b^2 q_b              ln pi = ln pi_within_b + ln w_b

The backward pass recomputes the logits, part by part:

    d ln pi / dl_v = 1[v taken] - pi_v            dH / dl_v = -pi_v (ln pi_v + H)

``blocks`` does the work in plain PyTorch on any device, ``kernels`` in Triton on NVIDIA GPUs; both are behind one
``torch.autograd.Function``.

Legend: N tokens, D hidden size, V vocabulary, B parts of it, l = <h, W_v> / temperature.
"""

from typing import Any

import torch
from torch import Tensor

from stapo_train.fused import blocks
from stapo_train.fused.parts import Backend, Demand, Head, Parts
from stapo_train.token_statistics import TokenDistribution


def linear_token_distribution(
    hidden: Tensor, weight: Tensor, taken: Tensor, temperature: float, backend: Backend | None = None
) -> TokenDistribution:
    """``token_distribution(hidden @ weight.T, taken, temperature)`` without the logits; sums are float32 at least.

    Gradients flow to ``hidden`` and ``weight`` from ``log_probs`` and, where a loss uses it, from ``entropy``.

    Args:
        hidden: [N, D] any floating dtype.
        weight: [V, D] the output embedding, of the same dtype.
        taken: [N] int64 token ids.
        temperature: the one the tokens were sampled at.
        backend: None: Triton on an NVIDIA GPU that has it, else plain PyTorch.

    >>> hidden, weight = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 5.0], [0.0, 7.0], [0.0, 9.0]])
    >>> uniform = linear_token_distribution(hidden, weight, torch.tensor([2]), temperature=1.0)
    >>> uniform.entropy.exp(), uniform.log_probs.exp(), uniform.sum_squares
    (tensor([3.]), tensor([0.3333]), tensor([0.3333]))
    """
    backend = backend or backend_for(hidden)
    log_probs, entropy, sum_squares = _Linear.apply(hidden, weight, taken, temperature, backend)  # type: ignore[no-untyped-call]
    return TokenDistribution(log_probs=log_probs, entropy=entropy, sum_squares=sum_squares, proxy_log_probs=None)


def backend_for(hidden: Tensor) -> Backend:
    """Triton's kernels where the tensor's device can run them (float32 at most), else plain PyTorch."""
    if hidden.is_cuda and torch.version.cuda is not None and hidden.dtype != torch.float64:
        try:
            from stapo_train.fused import kernels
        except ImportError:
            return blocks.BACKEND
        return kernels.BACKEND
    return blocks.BACKEND


def _together(parts: Parts, taken: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """[N] Z, and the taken token's log-prob, entropy and sum of squares over the whole vocabulary."""
    if len(parts.log_sum) == 1:
        return parts.log_sum[0], parts.taken_log_prob, parts.entropy[0], parts.sum_squares[0]
    log_sum = parts.log_sum.logsumexp(0)
    log_share = parts.log_sum - log_sum  # ln w_b
    share = log_share.exp()
    entropy = (share * (parts.entropy - log_share)).sum(0)
    sum_squares = (share**2 * parts.sum_squares).sum(0)
    log_probs = parts.taken_log_prob + log_share.gather(0, taken.unsqueeze(0) // parts.columns).squeeze(0)
    return log_sum, log_probs, entropy, sum_squares


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any, hidden: Tensor, weight: Tensor, taken: Tensor, temperature: float, backend: Backend
    ) -> tuple[Tensor, Tensor, Tensor]:
        """[N] each: log-probs of the taken tokens, entropies, and sums of squared probabilities."""
        head = Head(hidden=hidden, weight=weight, taken=taken, temperature=temperature)
        parts = backend.measure(head, keep=any(ctx.needs_input_grad))
        log_sum, log_probs, entropy, sum_squares = _together(parts, taken)
        ctx.save_for_backward(hidden, weight, taken, log_sum, entropy)
        ctx.temperature, ctx.backend, ctx.kept = temperature, backend, parts.kept
        ctx.mark_non_differentiable(sum_squares)
        ctx.set_materialize_grads(False)  # an output that the loss does not use then has gradient None
        return log_probs, entropy, sum_squares

    @staticmethod
    def backward(
        ctx: Any, by_log_prob: Tensor | None, by_entropy: Tensor | None, by_sum_squares: None
    ) -> tuple[Tensor | None, ...]:
        """Gradients with respect to hidden states and weight; None for the other arguments."""
        hidden, weight, taken, log_sum, entropy = ctx.saved_tensors
        head = Head(hidden=hidden, weight=weight, taken=taken, temperature=ctx.temperature)
        demand = Demand(by_log_prob=by_log_prob, by_entropy=by_entropy, log_sum=log_sum, entropy=entropy)
        by_hidden, by_weight = ctx.backend.gradients(head, demand, ctx.kept)
        return by_hidden, by_weight, None, None, None
