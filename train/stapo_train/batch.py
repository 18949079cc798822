"""Tensors from rollouts: response tokens laid end to end, and micro-batches of rows of similar length.

    [Rollout] --collate--> Batch --micro_batches--> MicroBatch ... (whole rows, padded right)

Padding stands to the right and attention is causal, so no response token ever sees a pad and no attention mask is
needed. Packed rows lie end to end without padding; position ids that restart at 0 tell transformers where each row
begins, so that no row attends to another. Logits are computed only at positions that predict a response token.

What a tool has written stands in a row between the response tokens and is seen like a prompt. It is none of the N: no
loss, mask, denominator, entropy or length can reach it.

Legend: R rows (rollouts), N response tokens of all rows, b rows and n response tokens of a micro-batch, T positions.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stapo_bench.records import ToolOutput
from stapo_train.objective import Reduce, TokenStats
from stapo_train.train_records import Rollout

KEY_STRIDE = 1 << 24
"""Factor of a token's key, seed * KEY_STRIDE + position; larger than any response is long, so that keys differ."""


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """Rows that run through the model together."""

    input_ids: Tensor  # [b, T] int64, padded right with 0; packed: [1, T]
    position_ids: Tensor | None  # [1, T] int64 where packed
    predictor: Tensor  # [n] int64, position in the flattened [b * T] whose hidden state predicts the token
    taken: Tensor  # [n] int64, the response tokens
    tokens: Tensor  # [n] int64, where they stand in the batch's [N]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rollouts with their advantages; a mini-batch is a Batch too."""

    rows: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # [R] of prompt ids, response ids
    starts: tuple[int, ...]  # [R] where a row's tokens begin in [N]
    row_advantages: Tensor  # [R]
    stats: TokenStats  # [N] of the old policy once measured, NaN before
    tool_outputs: tuple[tuple[ToolOutput, ...], ...] = ()  # [R] what tools wrote into each row; (): into none

    def outputs(self, row: int) -> tuple[ToolOutput, ...]:
        """What tools wrote into a row."""
        return self.tool_outputs[row] if self.tool_outputs else ()

    def laid_out(self, row: int) -> tuple[list[int], list[int]]:
        """All token ids of a row from its prompt on, and where among them its response tokens stand."""
        prompt, response = self.rows[row]
        ids, places, begin = list(prompt), list[int](), 0
        for end, told in (*self.outputs(row), ToolOutput(len(response), ())):
            places += range(len(ids), len(ids) + end - begin)
            ids += [*response[begin:end], *told]
            begin = end
        return ids, places

    def select_rows(self, rows: Sequence[int]) -> "Batch":
        """A batch of these rows, in this order; sequence numbers count from 0 again."""
        index = self.token_index(rows)
        lengths = torch.tensor([len(self.rows[r][1]) for r in rows], dtype=torch.int64, device=index.device)
        sequence = torch.arange(len(rows), device=index.device).repeat_interleave(lengths)
        stats = replace(self.stats.take(index), sequence=sequence)
        return Batch(
            rows=tuple(self.rows[r] for r in rows),
            starts=_starts(lengths.tolist()),
            row_advantages=self.row_advantages[list(rows)],
            stats=stats,
            tool_outputs=tuple(self.outputs(r) for r in rows),
        )

    def of_all_ranks(self, ranks: Reduce, rollouts: Sequence[Rollout]) -> "Batch":
        """The ranks' batches end to end; ``rollouts`` are the rows of all of them in that order."""
        lengths = [len(r.response_ids) for r in rollouts]
        values = {f.name: getattr(self.stats, f.name) for f in fields(self.stats)}
        found = {name: ranks.gather(value) for name, value in values.items() if value is not None}
        found["sequence"] = torch.arange(len(rollouts)).repeat_interleave(torch.tensor(lengths, dtype=torch.int64))
        return Batch(
            rows=tuple((r.prompt_ids, r.response_ids) for r in rollouts),
            starts=_starts(lengths),
            row_advantages=ranks.gather(self.row_advantages),
            stats=replace(self.stats, **found),
            tool_outputs=tuple(r.tool_outputs for r in rollouts),
        )

    def token_index(self, rows: Sequence[int]) -> Tensor:
        """[n] where the tokens of these rows stand in [N]."""
        spans = [torch.arange(self.starts[r], self.starts[r] + len(self.rows[r][1])) for r in rows]
        index = torch.cat(spans) if spans else torch.zeros(0, dtype=torch.int64)
        return index.to(self.stats.advantages.device)


def collate(
    rollouts: Sequence[Rollout], advantages: NDArray[np.float64], dtype: torch.dtype, device: torch.device
) -> Batch:
    """Lay the rollouts' response tokens end to end.

    Args:
        rollouts: [R].
        advantages: [R] one per rollout.
        dtype: of the statistics; float32, or float64 in tests of exactness.
        device: of the statistics.
    """
    lengths = [len(r.response_ids) for r in rollouts]
    row_advantages = torch.tensor(advantages, dtype=dtype)
    sequence = torch.arange(len(rollouts)).repeat_interleave(torch.tensor(lengths, dtype=torch.int64))
    starts = _starts(lengths)
    position = torch.arange(len(sequence)) - torch.tensor(starts, dtype=torch.int64)[sequence]
    seeds = torch.tensor([r.seed for r in rollouts], dtype=torch.int64)
    unknown = torch.full((len(sequence),), float("nan"), dtype=dtype, device=device)
    return Batch(
        rows=tuple((r.prompt_ids, r.response_ids) for r in rollouts),
        starts=starts,
        row_advantages=row_advantages,
        tool_outputs=tuple(r.tool_outputs for r in rollouts),
        stats=TokenStats(
            log_probs=unknown,
            old_log_probs=unknown,
            entropy=unknown,
            advantages=row_advantages[sequence].to(device),
            sequence=sequence.to(device),
            key=(seeds[sequence] * KEY_STRIDE + position).to(device),  # may wrap at 64 bits: it stays an identifier
        ),
    )


def micro_batches(
    batch: Batch, rows: Sequence[int], max_tokens: int, device: torch.device, packed: bool = False
) -> Iterator[MicroBatch]:
    """Split rows into micro-batches of at most ``max_tokens`` positions, padding included (a longer row goes alone).

    Rows of similar length go together. Rows without a response token are left out: nothing is predicted there.
    """
    by_length = sorted((r for r in rows if batch.rows[r][1]), key=lambda r: (-_length(batch, r), r))
    while by_length:
        count = _count_fitting(batch, by_length, max_tokens, packed)
        yield _lay_out(batch, by_length[:count], device, packed)
        by_length = by_length[count:]


def nothing_to_run(device: torch.device, packed: bool) -> MicroBatch:
    """A micro-batch without a response token, for a rank that has none left while another has: it takes part."""
    none, one = torch.zeros(0, dtype=torch.int64, device=device), torch.zeros((1, 1), dtype=torch.int64, device=device)
    return MicroBatch(input_ids=one, position_ids=one if packed else None, predictor=none, taken=none, tokens=none)


def spread(lengths: Sequence[int], parts: Sequence[Hashable], size: int) -> list[int]:
    """The rank of each row: every part by itself over all ranks, so that they have about as many tokens each.

    The longest first, each to the rank with the fewest tokens of that part so far (Graham 1969: at most 4/3 of the
    least possible maximum), and among those to the one with the fewest in all.

    Args:
        lengths: [R] tokens of each row.
        parts: [R] equal for rows that run together, such as those of one mini-batch.
        size: number of ranks.

    >>> spread([9, 5, 4, 4, 1, 1], ["a"] * 4 + ["b"] * 2, 2)
    [0, 1, 1, 0, 1, 0]
    """
    in_all = [0] * size
    of_part: dict[Hashable, list[int]] = {}
    owners = [0] * len(lengths)
    for row in sorted(range(len(lengths)), key=lambda r: (-lengths[r], r)):
        held = of_part.setdefault(parts[row], [0] * size)
        rank = min(range(size), key=lambda k: (held[k], in_all[k], k))
        owners[row] = rank
        held[rank] += lengths[row]
        in_all[rank] += lengths[row]
    return owners


def _count_fitting(batch: Batch, by_length: Sequence[int], max_tokens: int, packed: bool) -> int:
    if not packed:
        return max(1, max_tokens // _length(batch, by_length[0]))
    ends = np.cumsum([_length(batch, r) for r in by_length])
    return max(1, int(np.searchsorted(ends, max_tokens, side="right")))


def _lay_out(batch: Batch, rows: Sequence[int], device: torch.device, packed: bool) -> MicroBatch:
    lengths = [_length(batch, r) for r in rows]
    firsts = _starts(lengths) if packed else [i * max(lengths) for i in range(len(rows))]
    input_ids = np.zeros(sum(lengths) if packed else len(rows) * max(lengths), dtype=np.int64)
    predictor: list[NDArray[np.int64]] = []
    for first, r in zip(firsts, rows, strict=True):
        ids, drawn = batch.laid_out(r)
        input_ids[first : first + len(ids)] = ids
        # token t is predicted by the hidden state of position t - 1
        predictor.append(first - 1 + np.array(drawn, dtype=np.int64))
    places = np.concatenate(predictor)
    positions = np.concatenate([np.arange(length) for length in lengths]) if packed else None
    return MicroBatch(
        input_ids=torch.from_numpy(input_ids.reshape(1 if packed else len(rows), -1)).to(device),
        position_ids=None if positions is None else torch.from_numpy(positions[None]).to(device),
        predictor=torch.from_numpy(places).to(device),
        taken=torch.from_numpy(input_ids[places + 1]).to(device),
        tokens=batch.token_index(rows),
    )


def _length(batch: Batch, row: int) -> int:
    prompt, response = batch.rows[row]
    return len(prompt) + len(response) + sum(len(told) for _, told in batch.outputs(row))


def _starts(lengths: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(s) for s in np.cumsum([0, *lengths[:-1]])) if lengths else ()
