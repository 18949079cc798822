"""Sampling of tokens: a sample's tokens are a function of its seed, whatever shares its batch.

Token j of a sample is decided by number j of the Philox stream keyed by the sample's seed: it is the inverse CDF of
the next-token distribution at that number, in the order of token ids:

    p_v = softmax(logits / temperature)_v       float32
    token = min { v : sum_{w <= v} p_w > u * sum_w p_w }        sums in float64

What the parameters do not ask for does not happen: no checkpoint's ``generation_config.json`` is read for sampling.

Shapes: B rows (sequences), V vocabulary.
"""

import numpy as np
import torch

from stapo_bench.records import SamplingParams


def uniform_draws(seed: int, count: int) -> np.ndarray:
    """The first ``count`` random numbers of a sample: float64 in [0, 1), from Philox 4x64 keyed by ``seed``.

    >>> uniform_draws(7, 2) == uniform_draws(7, 5)[:2]
    array([ True,  True])
    """
    return np.random.Generator(np.random.Philox(key=seed)).random(count)


def top_p_mask(probs: torch.Tensor, top_p: float) -> torch.Tensor:
    """True on the nucleus: the smallest set of most probable tokens whose probability reaches ``top_p``.

    A token is in it iff the tokens before it, sorted by falling probability and ties by rising id, sum to less
    than ``top_p``. Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", Eq. 2.

    Args:
        probs: [B, V] probabilities.
        top_p: in (0, 1].

    >>> top_p_mask(torch.tensor([[0.1, 0.5, 0.2, 0.2]]), 0.7)
    tensor([[False,  True,  True, False]])
    """
    num_ranked, vocabulary = min(64, probs.shape[-1]), probs.shape[-1]
    while True:  # a nucleus is small as a rule: sorting the whole vocabulary would cost more than the model
        ranked = probs.topk(num_ranked).values
        cumulative = ranked.cumsum(-1, dtype=torch.float64)
        if num_ranked == vocabulary or bool((cumulative[:, -1] >= top_p).all()):
            break
        num_ranked = min(16 * num_ranked, vocabulary)
    last = (cumulative < top_p).sum(-1, keepdim=True).clamp(max=num_ranked - 1)  # rank of the last token inside
    edge = ranked.gather(-1, last)
    num_tied_inside = last + 1 - (ranked > edge).sum(-1, keepdim=True)
    tied = probs == edge
    return (probs > edge) | (tied & (tied.cumsum(-1) <= num_tied_inside))


def inverse_cdf(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The first token whose cumulative weight exceeds the given fraction of the total.

    Args:
        weights: [B, V], >= 0, not all 0 in a row; they need not sum to 1.
        uniforms: [B] float64 in [0, 1).

    Returns:
        [B] token ids; never one of weight 0.

    >>> inverse_cdf(torch.tensor([[1.0, 0.0, 3.0]] * 2), torch.tensor([0.24, 0.25], dtype=torch.float64))
    tensor([0, 2])
    """
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    targets = (uniforms * cumulative[:, -1]).unsqueeze(-1)
    found = torch.searchsorted(cumulative, targets, right=True).squeeze(-1)
    return found.clamp(max=weights.shape[-1] - 1)  # of weights that are NaN: no index at all


def sample_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor, params: SamplingParams
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample one token a row.

    Args:
        logits: [B, V], any float type.
        uniforms: [B] float64 in [0, 1), one a row; not used where decoding is greedy.
        params: temperature, top-p, top-k and min-p, in the order that ``SamplingParams`` states.

    Returns:
        [B] token ids, and [B] float32 natural logs of the probabilities with which they were drawn, of what the cuts
        leave; of greedy decoding those at temperature 1. Ties of greedy decoding go to the lowest id.
    """
    log_probs = torch.log_softmax(logits.float() / (params.temperature or 1.0), dim=-1)
    whole = probs = log_probs.exp()
    if params.is_greedy:
        tokens = (probs == probs.max(dim=-1, keepdim=True).values).byte().argmax(dim=-1)
    else:
        kept = probs
        if params.min_p is not None:
            kept = kept.masked_fill(kept < params.min_p * kept.max(dim=-1, keepdim=True).values, 0.0)
        if params.top_k is not None and params.top_k < kept.shape[-1]:
            kept = kept.masked_fill(~top_k_mask(kept, params.top_k), 0.0)
        if kept is not probs:  # only then: a sum that is 1 up to rounding would move other samples' boundaries
            probs = kept / kept.sum(dim=-1, keepdim=True)
        if params.top_p < 1:
            probs = _cut_to_nucleus(probs, params.top_p)
        tokens = inverse_cdf(probs, uniforms)
    drawn = log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    if probs is not whole:  # then only a part was left, whose probabilities sum to 1
        drawn = drawn - whole.masked_fill(probs == 0, 0.0).sum(dim=-1, dtype=torch.float64).log().float()
    return tokens, drawn


def top_k_mask(probs: torch.Tensor, top_k: int) -> torch.Tensor:
    """True on the k most probable tokens of each row, [B, V]; ties at the edge go to the lowest ids.

    >>> top_k_mask(torch.tensor([[0.2, 0.4, 0.2, 0.2]]), 2)
    tensor([[ True,  True, False, False]])
    """
    edge = probs.topk(top_k).values[:, -1:]
    num_tied_inside = top_k - (probs > edge).sum(-1, keepdim=True)
    tied = probs == edge
    return (probs > edge) | (tied & (tied.cumsum(-1) <= num_tied_inside))


def _cut_to_nucleus(probs: torch.Tensor, top_p: float) -> torch.Tensor:
    """Zero what is outside the nucleus, sorting only the rows where more than one token is in it."""
    peak, top = probs.max(dim=-1)
    cut = torch.zeros_like(probs).scatter_(-1, top.unsqueeze(-1), peak.unsqueeze(-1))
    open_rows = (peak < top_p).nonzero().squeeze(-1)
    if open_rows.numel():
        rows = probs[open_rows]
        cut[open_rows] = rows.masked_fill(~top_p_mask(rows, top_p), 0.0)
    return cut
