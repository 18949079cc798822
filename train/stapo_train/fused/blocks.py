"""The plain PyTorch backend, for any device: a block of logits is computed, summarised and discarded."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from stapo_train.fused.parts import Backend, Demand, Head, Parts

COLUMNS = 2048  # of a part
BLOCK_SIZE = 1 << 19  # logits of a block, so that it stays in a processor's cache
KEPT_BYTES = 900_000_000
"""Powers e^l up to this size are kept for the backward pass, which then need not recompute the logits."""

Kept = tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some rows of one part."""

    part: int
    rows: slice
    columns: slice
    weight: Tensor  # [columns, D] in the dtype of the sums

    def place(self, taken: Tensor) -> tuple[Tensor, Tensor]:
        """[rows] whether the taken token is in this block; [rows, 1] its column there, 0 where it is not."""
        column = taken[self.rows] - self.columns.start
        inside = (column >= 0) & (column < len(self.weight))
        return inside, column.where(inside, 0).unsqueeze(1)


def cut(num_rows: int, weight: Tensor, dtype: torch.dtype) -> Iterator[Block]:
    """All blocks; those of one part are consecutive and share its weight."""
    for part, first in enumerate(range(0, len(weight), COLUMNS)):
        columns = slice(first, min(first + COLUMNS, len(weight)))
        wide = weight[columns].to(dtype)
        num_block_rows = BLOCK_SIZE // len(wide)
        for row in range(0, num_rows, num_block_rows):
            rows = slice(row, min(row + num_block_rows, num_rows))
            yield Block(part=part, rows=rows, columns=columns, weight=wide)


class _Blocks:
    def measure(self, head: Head, keep: bool) -> Parts:
        """As ``Backend.measure``; powers are kept where they fit ``KEPT_BYTES``."""
        scaled, taken = _scaled(head.hidden, head.temperature), head.taken
        num_parts = -(-len(head.weight) // COLUMNS)
        log_sum, entropy, sum_squares = scaled.new_empty(3, num_parts, len(scaled))
        taken_log_prob = scaled.new_empty(len(scaled))
        keep = keep and len(scaled) * len(head.weight) * scaled.itemsize <= KEPT_BYTES
        kept: list[tuple[Tensor, Tensor]] = []
        for block in cut(len(scaled), head.weight, scaled.dtype):
            at = block.part, block.rows
            logits = scaled[block.rows] @ block.weight.T
            highest = logits.amax(1)
            logits.sub_(highest.unsqueeze(1))
            powers = logits.exp()
            total = powers.sum(1)
            log_total = total.log()
            log_sum[at] = highest + log_total
            entropy[at] = log_total - torch.linalg.vecdot(powers, logits) / total
            sum_squares[at] = torch.linalg.vecdot(powers, powers) / total**2
            inside, column = block.place(taken)
            log_prob = logits.gather(1, column).squeeze(1) - log_total
            taken_log_prob[block.rows] = log_prob.where(inside, taken_log_prob[block.rows])
            if keep:
                kept.append((powers, highest))
        return Parts(
            columns=COLUMNS,
            log_sum=log_sum,
            entropy=entropy,
            sum_squares=sum_squares,
            taken_log_prob=taken_log_prob,
            kept=tuple(kept),
        )

    def gradients(self, head: Head, demand: Demand, kept: Kept) -> tuple[Tensor, Tensor]:
        """As ``Backend.gradients``, block by block, from the kept powers where there are any."""
        scaled = _scaled(head.hidden, head.temperature)
        by_hidden, by_weight = torch.empty_like(scaled), torch.empty_like(head.weight)
        by_part = by_weight  # the gradient with respect to this part's weight, in the dtype of the sums
        stored = iter(kept)
        for block in cut(len(scaled), head.weight, scaled.dtype):
            rows = block.rows
            if kept:
                powers, log_unit = next(stored)
                share = (log_unit - demand.log_sum[rows]).exp()
            else:
                powers = (scaled[rows] @ block.weight.T).sub_(demand.log_sum[rows].unsqueeze(1)).exp_()
                share = torch.ones_like(demand.log_sum[rows])
            by_logits = _by_logits(block, powers, share, head.taken, demand)
            if rows.start == 0:
                by_part = by_logits.T @ scaled[rows]
            else:
                by_part.addmm_(by_logits.T, scaled[rows])
            if block.part == 0:
                torch.mm(by_logits, block.weight, out=by_hidden[rows])
            else:
                by_hidden[rows].addmm_(by_logits, block.weight)
            if rows.stop == len(scaled):
                by_weight[block.columns] = by_part
        return _scaled(by_hidden, head.temperature).to(head.hidden.dtype), by_weight


def _by_logits(block: Block, powers: Tensor, share: Tensor, taken: Tensor, demand: Demand) -> Tensor:
    """[rows, columns] d loss / d logits of the block; the probabilities are ``share * powers``."""
    rows, (inside, column) = block.rows, block.place(taken)
    by_log_prob = torch.zeros_like(share) if demand.by_log_prob is None else demand.by_log_prob[rows]
    by_logits = powers * (share * -by_log_prob).unsqueeze(1)
    by_logits.scatter_add_(1, column, by_log_prob.where(inside, 0).unsqueeze(1))
    if demand.by_entropy is not None:
        probs = powers * share.unsqueeze(1)
        surprise = torch.xlogy(probs, probs).addcmul_(probs, demand.entropy[rows].unsqueeze(1))  # pi (ln pi + H)
        by_logits.addcmul_(surprise, demand.by_entropy[rows].unsqueeze(1), value=-1)
    return by_logits


def _scaled(hidden: Tensor, temperature: float) -> Tensor:
    wide = hidden if hidden.dtype == torch.float64 else hidden.float()
    return wide if temperature == 1.0 else wide / temperature


BACKEND: Backend = _Blocks()
