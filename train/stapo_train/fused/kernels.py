"""The Triton backend: each program keeps a tile of float32 logits in registers and stores only sums.

Logits are in units of ln 2, x = l / ln 2, so that e^l = 2^x is one instruction. Forward, one program reduces some rows
over one part, tile by tile against a running maximum:

    m = max x     s = sum 2^(x - m)     t = sum (x - m) 2^(x - m)     q = sum 2^2(x - m)
    Z_b = (m + log2 s) ln 2     H_b = (log2 s - t / s) ln 2     q_b = q / s^2

Backward, one program writes a tile of the gradient with respect to the logits, which two matrix products then use:

    dL/dl_v = g 1[v taken] - pi_v (g + h (ln pi_v + H)),   g = dL/d ln pi, h = dL/dH
"""

# ruff: noqa: PLR0917 (a kernel takes its pointers and sizes by position)

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from stapo_train.fused.parts import Backend, Demand, Head, Parts

MIN_PARTS, MIN_PROGRAMS = 8, 512  # few rows are cut into more parts, so that all of a GPU has work
GROUP = 16  # row tiles whose programs run side by side: what they read fits a GPU's cache
EXTRA_BYTES = 900_000_000  # of the backward pass: float32 sums with respect to hidden states, and logits' gradients
LEAST_BYTES = 1 << 28  # minimum for the logits' gradients

LN_2 = tl.constexpr(math.log(2))
NONE = tl.constexpr(-1e30)  # a missing logit: e^NONE = 0 and 0 * NONE = 0, unlike with -inf


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """How one program cuts its work."""

    rows: int  # of a tile
    columns: int
    depth: int  # of the slices of D that a tile is summed over
    num_warps: int
    num_stages: int  # slices loaded ahead (pipeline stages)

    def shared_bytes(self, itemsize: int) -> int:
        """Bytes of shared memory that the slices take."""
        return self.num_stages * self.depth * (self.rows + self.columns) * itemsize


TILINGS = {
    2: (  # bytes of a number: widest first, the first that fits is taken
        Tiling(rows=128, columns=256, depth=64, num_warps=8, num_stages=3),
        Tiling(rows=128, columns=128, depth=64, num_warps=8, num_stages=2),
        Tiling(rows=64, columns=64, depth=32, num_warps=4, num_stages=2),
    ),
    4: (Tiling(rows=64, columns=64, depth=32, num_warps=8, num_stages=2),),
}


def tiling_for(itemsize: int, shared_bytes: int) -> Tiling:
    """The widest tiling whose slices fit into a program's shared memory.

    >>> tiling_for(2, 232_448).columns, tiling_for(2, 101_376).columns  # an H200, a GeForce 4090
    (256, 128)
    """
    tilings = TILINGS[itemsize]
    return next((tiling for tiling in tilings if tiling.shared_bytes(itemsize) <= shared_bytes), tilings[-1])


@triton.jit
def _tile(  # type: ignore[no-untyped-def]
    hidden,
    weight,
    rows,
    columns,
    num_rows,
    end,
    depth,
    DEPTH: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """[ROWS, COLUMNS] of <h, W_v>, float32; NONE to the right of the part."""
    # Indices beyond the last row or column read the last one, so that no load needs a mask for them.
    d = tl.arange(0, DEPTH)
    hidden += tl.minimum(rows, num_rows - 1).to(tl.int64)[:, None] * depth + d[None, :]
    weight += tl.minimum(columns, end - 1).to(tl.int64)[:, None] * depth + d[None, :]
    sums = tl.zeros((rows.shape[0], columns.shape[0]), dtype=tl.float32)
    for first in range(0, depth, DEPTH):
        if WHOLE:
            h = tl.load(hidden)
            w = tl.load(weight)
        else:
            inside = (first + d < depth)[None, :]
            h = tl.load(hidden, mask=inside, other=0.0)
            w = tl.load(weight, mask=inside, other=0.0)
        sums = tl.dot(h, tl.trans(w), sums, input_precision=PRECISION)
        hidden += DEPTH
        weight += DEPTH
    return tl.where((columns < end)[None, :], sums, NONE)


@triton.jit
def _measure(  # type: ignore[no-untyped-def]
    hidden,
    weight,
    taken,
    log_sum,
    entropy,
    sum_squares,
    taken_log_prob,
    num_rows,
    num_columns,
    depth,
    part_columns,
    scale,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    # All parts of a few row tiles run concurrently: hidden states, read again for every tile, stay in the cache.
    part = tl.program_id(0)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    there = rows < num_rows
    begin = part * part_columns
    end = tl.minimum(begin + part_columns, num_columns)
    target = tl.load(taken + rows, mask=there, other=-1).to(tl.int32)
    m = tl.full((ROWS,), NONE, dtype=tl.float32)
    s = tl.zeros((ROWS,), dtype=tl.float32)
    t = tl.zeros((ROWS,), dtype=tl.float32)
    q = tl.zeros((ROWS,), dtype=tl.float32)
    x_taken = tl.zeros((ROWS,), dtype=tl.float32)
    for first in range(begin, end, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        x = _tile(hidden, weight, rows, columns, num_rows, end, depth, DEPTH, WHOLE, PRECISION)
        x_taken += tl.sum(tl.where(columns[None, :] == target[:, None], x, 0.0), axis=1)
        highest = tl.maximum(m, tl.max(x, axis=1) * scale)
        down = m - highest
        shrink = tl.exp2(down)
        x = x * scale - highest[:, None]
        powers = tl.exp2(x)
        t = shrink * (t + down * s) + tl.sum(powers * x, axis=1)
        s = shrink * s + tl.sum(powers, axis=1)
        q = shrink * shrink * q + tl.sum(powers * powers, axis=1)
        m = highest
    at = part * num_rows + rows
    log_s = tl.log2(s)
    tl.store(log_sum + at, (m + log_s) * LN_2, mask=there)
    tl.store(entropy + at, (log_s - t / s) * LN_2, mask=there)
    tl.store(sum_squares + at, q / (s * s), mask=there)
    here = (target >= begin) & (target < end)
    tl.store(taken_log_prob + rows, (x_taken * scale - m - log_s) * LN_2, mask=here)


@triton.jit
def _differentiate(  # type: ignore[no-untyped-def]
    hidden,
    weight,
    taken,
    log_sum,
    entropy,
    by_log_prob,
    by_entropy,
    by_logits,
    num_rows,
    begin,
    end,
    depth,
    scale,
    by_scale,
    HAS_ENTROPY: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    rows = (tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)) * ROWS + tl.arange(0, ROWS)
    there = rows < num_rows
    columns = begin + tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    x = _tile(hidden, weight, rows, columns, num_rows, end, depth, DEPTH, WHOLE, PRECISION)
    target = tl.load(taken + rows, mask=there, other=-1).to(tl.int32)
    log_z = tl.load(log_sum + rows, mask=there, other=0.0) / LN_2
    g = tl.load(by_log_prob + rows, mask=there, other=0.0) * by_scale
    x = x * scale - log_z[:, None]  # log2 pi
    if HAS_ENTROPY:
        h = tl.load(by_entropy + rows, mask=there, other=0.0) * by_scale
        pull = g + h * tl.load(entropy + rows, mask=there, other=0.0)
        gradient = -tl.exp2(x) * (x * (h * LN_2)[:, None] + pull[:, None])
    else:
        gradient = -tl.exp2(x) * g[:, None]
    gradient += tl.where(columns[None, :] == target[:, None], g[:, None], 0.0)
    at = rows.to(tl.int64)[:, None] * (end - begin) + (columns - begin)[None, :]
    tl.store(by_logits + at, gradient.to(by_logits.dtype.element_ty), mask=there[:, None] & (columns < end)[None, :])


class _Kernels:
    def measure(self, head: Head, keep: bool) -> Parts:
        """As ``Backend.measure``; nothing is kept, whatever ``keep`` says."""
        hidden, weight = head.hidden.contiguous(), head.weight.contiguous()
        num_rows, num_columns, tiling = len(hidden), len(weight), _tiling(hidden)
        row_tiles = triton.cdiv(num_rows, tiling.rows)
        columns = -(-num_columns // max(MIN_PARTS, triton.cdiv(MIN_PROGRAMS, row_tiles)))
        columns = triton.cdiv(columns, tiling.columns) * tiling.columns
        num_parts = triton.cdiv(num_columns, columns)
        log_sum, entropy, sum_squares = torch.empty((3, num_parts, num_rows), device=hidden.device)
        taken_log_prob = torch.full((num_rows,), torch.nan, device=hidden.device)
        _measure[num_parts, row_tiles](
            hidden, weight, head.taken, log_sum, entropy, sum_squares, taken_log_prob, num_rows, num_columns,
            hidden.shape[1], columns, math.log2(math.e) / head.temperature, **_constants(tiling, hidden),
        )  # fmt: skip
        return Parts(
            columns=columns,
            log_sum=log_sum,
            entropy=entropy,
            sum_squares=sum_squares,
            taken_log_prob=taken_log_prob,
        )

    def gradients(self, head: Head, demand: Demand, kept: tuple[tuple[Tensor, Tensor], ...]) -> tuple[Tensor, Tensor]:
        """As ``Backend.gradients``, some columns of the vocabulary at a time."""
        hidden, weight = head.hidden.contiguous(), head.weight.contiguous()
        (num_rows, depth), tiling = hidden.shape, _tiling(hidden)
        by_hidden = torch.zeros((num_rows, depth), device=hidden.device)  # float32: it is added to part by part
        by_weight = torch.empty_like(weight)
        by_log_prob = torch.zeros_like(demand.log_sum) if demand.by_log_prob is None else demand.by_log_prob
        columns = columns_at_a_time(num_rows, depth, hidden.itemsize, tiling.columns)
        row_tiles = triton.cdiv(num_rows, tiling.rows)
        groups = triton.cdiv(row_tiles, GROUP)
        for begin in range(0, len(weight), columns):
            end = min(begin + columns, len(weight))
            by_logits = hidden.new_empty((num_rows, end - begin))
            _differentiate[triton.cdiv(row_tiles, groups), triton.cdiv(end - begin, tiling.columns), groups](
                hidden,
                weight,
                head.taken,
                demand.log_sum,
                demand.entropy,
                by_log_prob.contiguous(),
                demand.log_sum if demand.by_entropy is None else demand.by_entropy.contiguous(),
                by_logits,
                num_rows,
                begin,
                end,
                depth,
                math.log2(math.e) / head.temperature,
                1 / head.temperature,
                HAS_ENTROPY=demand.by_entropy is not None,
                **_constants(tiling, hidden),
            )
            _add_product(by_hidden, by_logits, weight[begin:end])
            torch.mm(by_logits.T, hidden, out=by_weight[begin:end])
            del by_logits  # before the next is made
        return by_hidden.to(hidden.dtype), by_weight


def columns_at_a_time(num_rows: int, depth: int, itemsize: int, tile_columns: int) -> int:
    """Columns of logit gradients, in whole tiles, that the backward pass can hold beside its float32 sums."""
    room = max(EXTRA_BYTES - num_rows * depth * 4, LEAST_BYTES)
    return max(1, room // (num_rows * itemsize * tile_columns)) * tile_columns


def _add_product(sums: Tensor, a: Tensor, b: Tensor) -> None:
    """sums += a @ b, accumulated in float32 although a and b are narrower."""
    if a.dtype == sums.dtype:
        sums.addmm_(a, b)
    elif a.is_cuda:
        torch.addmm(sums, a, b, out_dtype=sums.dtype, out=sums)
    else:  # interpreted
        sums += a @ b


def _tiling(hidden: Tensor) -> Tiling:
    if not hidden.is_cuda:  # interpreted
        return TILINGS[hidden.itemsize][0]
    limits = triton.runtime.driver.active.utils.get_device_properties(hidden.device.index)
    return tiling_for(hidden.itemsize, limits["max_shared_mem"])


def _constants(tiling: Tiling, hidden: Tensor) -> dict[str, object]:
    return {
        "ROWS": tiling.rows,
        "COLUMNS": tiling.columns,
        "DEPTH": tiling.depth,
        "WHOLE": hidden.shape[1] % tiling.depth == 0,
        # float32 stays float32: TF32 has 10 bits of fraction.
        "PRECISION": "ieee" if hidden.dtype == torch.float32 else "tf32",
        "num_warps": tiling.num_warps,
        "num_stages": tiling.num_stages,
    }


BACKEND: Backend = _Kernels()
