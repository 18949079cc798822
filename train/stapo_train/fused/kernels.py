"""Parts of the vocabulary in Triton: each program keeps a tile of logits in registers, in float32, and stores sums.

Forward, one program measures some rows over one part, tile by tile against a running maximum:

    m = max l     s = sum e^(l - m)     t = sum (l - m) e^(l - m)     q = sum e^2(l - m)
    Z_b = m + ln s     H_b = ln s - t / s     q_b = q / s^2

Backward, one program writes a tile of the gradient by the logits, which two ordinary matrix products then take up.
"""

# ruff: noqa: PLR0917 (a kernel takes its pointers and sizes by position)

import torch
import triton
import triton.language as tl
from torch import Tensor

from stapo_train.fused.parts import Backend, Demand, Head, Parts

NUM_PARTS = 8  # enough programs for a GPU whatever the number of rows
ROWS, COLUMNS, DEPTH = 128, 128, 64  # of a tile, and of the slices of D that it is summed over
GRADIENT_BYTES = 1 << 28  # of the logits' gradient that exist at a time


@triton.jit
def _tile(hidden, weight, rows, columns, num_rows, end, depth, scale, DEPTH: tl.constexpr, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]
    """[ROWS, COLUMNS] scaled logits, float32; -inf to the right of the part."""
    sums = tl.zeros((rows.shape[0], columns.shape[0]), dtype=tl.float32)
    for first in range(0, depth, DEPTH):
        d = first + tl.arange(0, DEPTH)
        h = tl.load(
            hidden + rows.to(tl.int64)[:, None] * depth + d[None, :],
            mask=(rows < num_rows)[:, None] & (d < depth)[None, :],
            other=0.0,
        )
        w = tl.load(
            weight + columns.to(tl.int64)[:, None] * depth + d[None, :],
            mask=(columns < end)[:, None] & (d < depth)[None, :],
            other=0.0,
        )
        sums = tl.dot(h, tl.trans(w), sums, input_precision=PRECISION)
    return tl.where((columns < end)[None, :], sums * scale, float("-inf"))


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
    PRECISION: tl.constexpr,
):
    # Programs of the same part run side by side and read the same weights.
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(1)
    begin = part * part_columns
    end = tl.minimum(begin + part_columns, num_columns)
    target = tl.load(taken + rows, mask=rows < num_rows, other=-1)
    m = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    s = tl.zeros((ROWS,), dtype=tl.float32)
    t = tl.zeros((ROWS,), dtype=tl.float32)
    q = tl.zeros((ROWS,), dtype=tl.float32)
    taken_logit = tl.zeros((ROWS,), dtype=tl.float32)
    for first in range(begin, end, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        logits = _tile(hidden, weight, rows, columns, num_rows, end, depth, scale, DEPTH, PRECISION)
        highest = tl.maximum(m, tl.max(logits, axis=1))
        down = m - highest
        shrink = tl.exp(down)
        relative = logits - highest[:, None]
        exponentials = tl.exp(relative)
        # Outside the part relative is -inf and before the first tile down is: 0 * -inf would be NaN.
        t = shrink * (t + tl.where(s > 0, down * s, 0.0))
        t += tl.sum(tl.where(exponentials > 0, exponentials * relative, 0.0), axis=1)
        s = shrink * s + tl.sum(exponentials, axis=1)
        q = shrink * shrink * q + tl.sum(exponentials * exponentials, axis=1)
        taken_logit += tl.sum(tl.where(columns[None, :] == target[:, None], logits, 0.0), axis=1)
        m = highest
    at = part * num_rows + rows
    log_s = tl.log(s)
    tl.store(log_sum + at, m + log_s, mask=rows < num_rows)
    tl.store(entropy + at, log_s - t / s, mask=rows < num_rows)
    tl.store(sum_squares + at, q / (s * s), mask=rows < num_rows)
    here = (target >= begin) & (target < end)
    tl.store(taken_log_prob + rows, taken_logit - m - log_s, mask=(rows < num_rows) & here)


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
    HAS_ENTROPY: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = begin + tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = rows < num_rows
    logits = _tile(hidden, weight, rows, columns, num_rows, end, depth, scale, DEPTH, PRECISION)
    log_pi = logits - tl.load(log_sum + rows, mask=there, other=0.0)[:, None]
    pi = tl.exp(log_pi)
    chosen = columns[None, :] == tl.load(taken + rows, mask=there, other=-1)[:, None]
    gradient = tl.load(by_log_prob + rows, mask=there, other=0.0)[:, None] * (tl.where(chosen, 1.0, 0.0) - pi)
    if HAS_ENTROPY:
        surprise = tl.where(pi > 0, pi * (log_pi + tl.load(entropy + rows, mask=there, other=0.0)[:, None]), 0.0)
        gradient -= tl.load(by_entropy + rows, mask=there, other=0.0)[:, None] * surprise
    at = rows.to(tl.int64)[:, None] * (end - begin) + (columns - begin)[None, :]
    value = (gradient * scale).to(by_logits.dtype.element_ty)
    tl.store(by_logits + at, value, mask=there[:, None] & (columns < end)[None, :])


class _Kernels:
    def measure(self, head: Head, keep: bool) -> Parts:
        hidden, weight = head.hidden.contiguous(), head.weight.contiguous()
        num_rows, num_columns = len(hidden), len(weight)
        columns = _round_up(-(-num_columns // NUM_PARTS), COLUMNS)
        num_parts = -(-num_columns // columns)
        log_sum, entropy, sum_squares = torch.empty((3, num_parts, num_rows), device=hidden.device)
        taken_log_prob = torch.empty(num_rows, device=hidden.device)
        _measure[(triton.cdiv(num_rows, ROWS), num_parts)](
            hidden,
            weight,
            head.taken,
            log_sum,
            entropy,
            sum_squares,
            taken_log_prob,
            num_rows,
            num_columns,
            hidden.shape[1],
            columns,
            1 / head.temperature,
            **_tiling(hidden),
        )
        return Parts(
            columns=columns,
            log_sum=log_sum,
            entropy=entropy,
            sum_squares=sum_squares,
            taken_log_prob=taken_log_prob,
        )

    def gradients(self, head: Head, demand: Demand, kept: tuple[tuple[Tensor, Tensor], ...]) -> tuple[Tensor, Tensor]:
        hidden, weight = head.hidden.contiguous(), head.weight.contiguous()
        num_rows, depth = hidden.shape
        by_hidden = torch.zeros((num_rows, depth), device=hidden.device)  # float32: it is added to part by part
        by_weight = torch.empty_like(weight)
        by_log_prob = torch.zeros_like(demand.log_sum) if demand.by_log_prob is None else demand.by_log_prob
        columns = _round_up(max(1, GRADIENT_BYTES // (num_rows * hidden.itemsize)), COLUMNS)
        for begin in range(0, len(weight), columns):
            end = min(begin + columns, len(weight))
            by_logits = hidden.new_empty((num_rows, end - begin))
            _differentiate[(triton.cdiv(num_rows, ROWS), triton.cdiv(end - begin, COLUMNS))](
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
                1 / head.temperature,
                HAS_ENTROPY=demand.by_entropy is not None,
                **_tiling(hidden),
            )
            by_hidden += by_logits @ weight[begin:end]
            torch.mm(by_logits.T, hidden, out=by_weight[begin:end])
        return by_hidden.to(hidden.dtype), by_weight


def _tiling(hidden: Tensor) -> dict[str, object]:
    # float32 stays float32: TF32 has 10 bits of fraction.
    precision = "ieee" if hidden.dtype == torch.float32 else "tf32"
    return {"ROWS": ROWS, "COLUMNS": COLUMNS, "DEPTH": DEPTH, "PRECISION": precision, "num_warps": 8, "num_stages": 3}


def _round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


BACKEND: Backend = _Kernels()
