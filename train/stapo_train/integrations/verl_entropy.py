"""Entropies of many rows of logits for verl, some rows at a time, compiled once.

verl compiles its loop over the chunks as a whole, so that every number of chunks is another program; after eight
(``torch._dynamo.config.recompile_limit``) it runs uncompiled. Here the loop stands outside of what is compiled.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

Entropies = Callable[[Tensor], Tensor]


def entropy_of_rows(logits: Tensor) -> Tensor:
    """[N] H = ln Z - sum_v pi_v l_v, in float32, of [N, V] logits.

    >>> entropy_of_rows(torch.zeros(1, 4)).exp()
    tensor([4.])
    """
    wide = logits.float()
    return wide.logsumexp(-1) - (wide.softmax(-1) * wide).sum(-1)


def in_chunks(of_rows: Entropies, logits: Tensor, chunk_size: int = 2048) -> Tensor:
    """[N] entropies, ``chunk_size`` rows at a time; the signature is that of verl's own function."""
    return torch.cat([of_rows(part) for part in torch.split(logits, chunk_size)])


def chunked_entropy(*, compiled: bool, backend: str | Callable[..., object] = "inductor") -> Callable[..., Tensor]:
    """The function for verl's engine, ``compute_entropy_from_logits``; ``compiled``: its ``use_torch_compile``."""
    of_rows = torch.compile(entropy_of_rows, dynamic=True, backend=backend) if compiled else entropy_of_rows
    return partial(in_chunks, of_rows)
