"""Causal attention over rows that lie end to end, with PyTorch alone, through transformers' attention interface.

    varlen.register()
    model.set_attn_implementation(varlen.NAME)  # forward passes now take packed rows: position_ids restart at 0

In half precision on an NVIDIA GPU it is PyTorch's built-in flash attention; elsewhere one SDPA call per row, which is
slower and as exact as padded rows are.

Legend: T positions of all rows, R rows, H heads, K heads of keys and values, D head dimension.
"""

import functools
import inspect
import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

NAME = "torch_varlen"


def register() -> None:
    """Make ``NAME`` known to transformers; it needs no mask."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attention_forward)
    AttentionMaskInterface.register(NAME, lambda *_, **__: None)


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    position_ids: Tensor,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention with transformers' signature: [1, H, T, D] and twice [1, K, T, D] to [1, T, H, D]."""
    groups, device = query.shape[1] // key.shape[1], query.device.type
    # Under autocast the rotary embedding returns float32 queries and keys; SDPA itself casts by this rule.
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else value.dtype
    q, k, v = (x[0].transpose(0, 1).to(dtype) for x in (query, key, value))  # [T, heads, D]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    ends = row_ends(position_ids)
    attend = _flash if q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) else _row_by_row
    return attend(q, k, v, ends, scaling).unsqueeze(0), None


@functools.lru_cache(maxsize=1)  # every layer asks the same, and reading waits for the GPU
def row_ends(position_ids: Tensor) -> list[int]:
    """Where each row begins, and where the last ends.

    >>> row_ends(torch.tensor([[0, 1, 2, 0, 0, 1]]))
    [0, 3, 4, 6]
    """
    return [*torch.nonzero(position_ids[0] == 0).flatten().tolist(), position_ids.shape[1]]


def _flash(q: Tensor, k: Tensor, v: Tensor, ends: list[int], scaling: float) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    # PyTorch 2.10 has a flag for causality, later versions a window.
    named = "is_causal" in inspect.signature(varlen_attn).parameters
    causal: dict[str, Any] = {"is_causal": True} if named else {"window_size": (-1, 0)}
    cumulative = torch.tensor(ends, dtype=torch.int32, device=q.device)
    longest = max(_lengths(ends))
    out = varlen_attn(q.contiguous(), k, v, cumulative, cumulative, longest, longest, scale=scaling, **causal)
    assert isinstance(out, Tensor)  # a tuple only where more outputs are requested
    return out


def _row_by_row(q: Tensor, k: Tensor, v: Tensor, ends: list[int], scaling: float) -> Tensor:
    rows = (torch.split(x.transpose(0, 1), _lengths(ends), dim=1) for x in (q, k, v))
    done = [
        F.scaled_dot_product_attention(q_row, k_row, v_row, is_causal=True, scale=scaling)
        for q_row, k_row, v_row in zip(*rows, strict=True)
    ]
    return torch.cat(done, dim=1).transpose(0, 1)


def _lengths(ends: list[int]) -> list[int]:
    return [end - start for start, end in itertools.pairwise(ends)]
