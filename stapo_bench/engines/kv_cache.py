"""Keys and values of running sequences, and of prompts that several samples share.

Shapes: L layers, S slots, R sequences, H key/value heads, T positions, D head dimension.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AttentionInterface, Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward

Ids = tuple[int, ...]
SPAN_ATTENTION = "stapo_spans"  # the name under which transformers knows span_attention


class SlotCache(Cache):  # type: ignore[misc]  # transformers ships no types
    """A static cache whose rows stand at different positions: each sequence writes at its own, and none waits.

    Active sequences are the first rows, always: a forward pass sees views of them, cut to the longest. Positions are
    allocated by doubling, up to ``limit``, one tensor of keys or values after the other, so that at most one of them is
    there twice.
    """

    def __init__(self, shape: tuple[int, int, int], slots: int, limit: int, like: torch.Tensor) -> None:
        """``shape``: (L, H, D). ``limit``: positions of a sequence at most. ``like``: gives dtype and device."""
        super().__init__(layers=[])
        layers, heads, dim = shape
        self._limit = limit
        # Zeros, not uninitialised memory: a masked position still takes part as 0 * value, and 0 * NaN is NaN.
        one = (slots, heads, min(64, limit), dim)
        self._data = [_zeros(like, one) for _ in range(2 * layers)]  # keys even, values odd
        self._rows = torch.arange(slots, device=like.device)
        self._positions = self._rows  # set by begin_step
        self._length = 0

    def begin_step(self, positions: torch.Tensor, length: int) -> None:
        """The next forward pass writes row r at ``positions[r]`` and reads ``length`` positions."""
        self._reserve(length)
        self._positions, self._length = positions, length

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one position a row ([rows, H, 1, D]) and return all that is to be read ([rows, H, length, D])."""
        rows = key_states.shape[0]
        keys, values = self._data[2 * layer_idx], self._data[2 * layer_idx + 1]
        where = (self._rows[:rows], slice(None), self._positions)
        keys[where] = key_states.squeeze(2)
        values[where] = value_states.squeeze(2)
        return keys[:rows, :, : self._length], values[:rows, :, : self._length]

    def insert(self, first_row: int, prefixes: Sequence[torch.Tensor]) -> None:
        """Put prefixes ([T, 2L, H, D] each) into consecutive rows."""
        padded = torch.nn.utils.rnn.pad_sequence(list(prefixes), batch_first=True)  # [R, T, 2L, H, D]
        num, length = padded.shape[:2]
        self._reserve(length)
        for states, given in zip(self._data, padded.permute(2, 0, 3, 1, 4), strict=True):
            states[first_row : first_row + num, :, :length] = given

    def move(self, sources: torch.Tensor, targets: torch.Tensor, length: int) -> None:
        """Copy the first ``length`` positions of rows onto other rows, as if all at once."""
        for states in self._data:  # layer by layer: a copy of all rows at once would double the memory
            states[targets, :, :length] = states[sources, :, :length]

    def _reserve(self, length: int) -> None:
        slots, heads, capacity, dim = self._data[0].shape
        if length <= capacity:
            return
        shape = (slots, heads, min(self._limit, max(length, 2 * capacity)), dim)
        for i, states in enumerate(self._data):
            if states.shape[2] < shape[2]:  # memory may have run out half way, the time before
                self._data[i] = _zeros(states, shape)
                self._data[i][:, :, :capacity] = states


def slot_bytes(shape: tuple[int, int, int], limit: int, itemsize: int, vocabulary: int) -> int:
    """Bytes of one slot whose sequence reaches the limit: its states, one of 2L a second time while it grows, sampling.

    Sampling holds a row's logits, and in float32 their logarithms, probabilities and nucleus, in float64 their sums.
    """
    layers, heads, dim = shape
    return (2 * layers + 1) * heads * dim * limit * itemsize + vocabulary * (itemsize + 3 * 4 + 8)


def _zeros(like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Zeros, or an error where they do not fit: Linux would promise the memory and kill the process as it is used."""
    needed = math.prod(shape) * like.element_size()
    if like.device.type == "cpu" and needed > available_memory():
        raise torch.OutOfMemoryError(f"out of memory: {needed} bytes for keys and values")
    return like.new_zeros(shape)


def free_memory(device: torch.device) -> float:
    """Bytes that a device can still give, with what torch holds of it and does not use."""
    if device.type != "cuda":
        return available_memory()
    free, _ = torch.cuda.mem_get_info(device)
    return float(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def available_memory() -> float:
    """Bytes that the machine can still give; infinite where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return math.inf
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), math.inf)


Span = tuple[int, int, int]  # first row, last row + 1, positions to be read


def span_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    spans: Sequence[Span] | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' SDPA attention, in which every span of rows reads only as far as its own longest sequence.

    With rows ordered by length, one long sequence costs its span and not the batch. Without ``spans`` (prompts) it is
    SDPA as it stands. ``query`` is [B, heads, 1, D], ``key`` and ``value`` [B, H, T, D], the mask [B, 1, 1, T].
    """
    if spans is None:
        attended, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return attended, None
    assert attention_mask is not None
    parts = [
        sdpa_attention_forward(
            module,
            query[first:last],
            key[first:last, :, :length],
            value[first:last, :, :length],
            attention_mask[first:last, :, :, :length],
            **kwargs,
        )[0]
        for first, last, length in spans
    ]
    return torch.cat(parts), None


AttentionInterface.register(SPAN_ATTENTION, span_attention)


class PrefixStore:
    """Keys and values of prompts, computed once for all their samples; the least recently used leave first."""

    def __init__(self, compute: Callable[[list[Ids]], list[torch.Tensor]], budget_bytes: int) -> None:
        """``compute`` maps token ids to [T, 2L, H, D] tensors."""
        self._compute = compute
        self._budget = budget_bytes
        self._stored: OrderedDict[Ids, torch.Tensor] = OrderedDict()
        self._bytes = 0

    def get(self, prefixes: Sequence[Ids]) -> list[torch.Tensor]:
        """Prefixes in the order asked for."""
        missing = list(dict.fromkeys(ids for ids in prefixes if ids not in self._stored))
        for ids, states in zip(missing, self._compute(missing), strict=True):
            self._stored[ids] = states
            self._bytes += states.nbytes
        for ids in prefixes:
            self._stored.move_to_end(ids)
        found = [self._stored[ids] for ids in prefixes]
        while self._bytes > self._budget and self._stored:
            self._bytes -= self._stored.popitem(last=False)[1].nbytes
        return found
