"""The rows of a running batch: what each active sequence has generated and what it is to be fed next.

Active sequences are rows 0 to B - 1 of every forward pass. When some end, the last active rows move into the gaps, so
a pass never computes a row that has nothing to do; a move costs about one step's reading of that row. Whenever rows
are filled, all are put in the order of their lengths, so that attention can read each span of rows only as far as it
must. Rows that move in between are shorter than those they replace, or the span grows; the result is the same either
way.

Memory may run out at any call. Only keys and values move from row to row; all else that is known of a sequence stays
in one slot while it is active. So ``unfinished`` is right whatever was left half done.

Shapes: S slots, B active rows, P positions to be read.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from stapo_bench.engines.kv_cache import Ids, SlotCache, Span
from stapo_bench.engines.token_sampling import uniform_draws
from stapo_bench.records import Request

SPAN_ROWS = 64  # small spans follow the lengths closely, large ones make fewer calls


@dataclass(frozen=True, kw_only=True)
class SequenceState:
    """A request and how far it has come."""

    request: Request
    prompt_ids: Ids
    budget: int  # new tokens at most
    new_ids: Ids = ()
    log_probs: tuple[float, ...] = ()
    started: float | None = None  # time.perf_counter() when it first got a slot

    @property
    def fed_ids(self) -> Ids:
        """What the model has to see before the next token."""
        return self.prompt_ids + self.new_ids


class RunningBatch:
    """Active sequences over a ``SlotCache``. ``close_gaps``, ``fill`` if any are free, ``inputs``, ``advance`` in turn.

    Whatever raises leaves every sequence as it was before the call, and the batch good for ``unfinished`` alone.
    """

    def __init__(self, cache: SlotCache, *, slots: int, width: int, end_ids: torch.Tensor) -> None:
        self.cache = cache
        self.slots = slots
        self.sequences: dict[int, SequenceState] = {}  # by slot: what is active
        self._end_ids = end_ids
        device = end_ids.device
        self._next_ids = torch.zeros(slots, dtype=torch.long, device=device)
        self._positions = torch.zeros(slots, dtype=torch.long, device=device)  # of the next input
        self._num_new = torch.zeros(slots, dtype=torch.long, device=device)
        self._budgets = torch.zeros(slots, dtype=torch.long, device=device)
        self._new_ids = torch.zeros((slots, width), dtype=torch.long, device=device)
        self._log_probs = torch.zeros((slots, width), dtype=torch.float32, device=device)
        self._uniforms = torch.zeros((slots, width), dtype=torch.float64, device=device)
        self._order: list[int] = []  # the slot of each row of the cache
        self._rows = torch.zeros(0, dtype=torch.long, device=device)  # [B] the same
        self._longest: list[int] = []  # of _positions in each span; kept here so that a step need not ask the device

    @property
    def num_free(self) -> int:
        """Slots without a sequence."""
        return self.slots - len(self.sequences)

    def fill(self, sequences: Sequence[SequenceState], prefixes: Sequence[torch.Tensor]) -> None:
        """Start sequences in the next free rows.

        ``prefixes`` are the cached states of all their fed ids but the last.
        """
        self.cache.insert(len(self._order), prefixes)
        slots = [slot for slot in range(self.slots) if slot not in self.sequences][: len(sequences)]
        for slot, sequence in zip(slots, sequences, strict=True):
            self._uniforms[slot, : sequence.budget] = torch.from_numpy(
                uniform_draws(sequence.request.seed, sequence.budget)
            )
            if sequence.new_ids:
                self._new_ids[slot, : len(sequence.new_ids)] = torch.tensor(sequence.new_ids)
                self._log_probs[slot, : len(sequence.new_ids)] = torch.tensor(sequence.log_probs)
            self._next_ids[slot] = sequence.fed_ids[-1]
            self._positions[slot] = len(sequence.fed_ids) - 1
            self._num_new[slot] = len(sequence.new_ids)
            self._budgets[slot] = sequence.budget
        self._order = self._order + slots
        lengths: list[int] = self._positions.tolist()
        self._arrange(sorted(self._order, key=lambda slot: -lengths[slot]))
        now = time.perf_counter()
        started = [replace(sequence, started=now) if sequence.started is None else sequence for sequence in sequences]
        self.sequences.update(zip(slots, started, strict=True))  # last: until here only the caller holds them

    def inputs(self, dtype: torch.dtype) -> dict[str, object]:
        """Arguments of the next forward pass: each row's next id at its own position, masked beyond it."""
        length = max(self._longest) + 1
        positions = self._positions[self._rows]
        self.cache.begin_step(positions, length)
        beyond = torch.arange(length, device=positions.device) > positions[:, None]  # [B, P]
        # Additive, in the model's dtype: a boolean mask would be converted again by every layer.
        mask = torch.zeros(beyond.shape, dtype=dtype, device=positions.device).masked_fill_(beyond, float("-inf"))
        return {
            "input_ids": self._next_ids[self._rows, None],
            "position_ids": positions[:, None],
            "attention_mask": mask[:, None, None],
            "past_key_values": self.cache,
        }

    def spans(self) -> list[Span]:
        """Spans of rows and how far attention has to read in each."""
        rows = len(self._order)
        return [
            (start, min(start + SPAN_ROWS, rows), longest + 1)
            for start, longest in zip(range(0, rows, SPAN_ROWS), self._longest, strict=True)
        ]

    def uniforms(self) -> torch.Tensor:
        """[B] the number in [0, 1) that decides each row's next token."""
        return self._uniforms[self._rows, self._num_new[self._rows]]

    def advance(
        self, tokens: torch.Tensor, log_probs: torch.Tensor, stops: Callable[[Sequence[int]], bool] | None = None
    ) -> list[SequenceState]:
        """Append a token to every row; return the sequences that ended, whose slots are free again.

        ``stops`` is asked of a sequence's new ids whether they end it, where the end token and the budget do not.
        """
        num_new = self._num_new[self._rows]
        self._new_ids[self._rows, num_new] = tokens
        self._log_probs[self._rows, num_new] = log_probs
        self._next_ids[self._rows] = tokens
        self._positions[self._rows] += 1
        self._longest = [longest + 1 for longest in self._longest]
        num_new = num_new + 1
        over = torch.isin(tokens, self._end_ids) | (num_new >= self._budgets[self._rows])
        ended = {row: self._order[row] for row in over.nonzero().squeeze(-1).tolist()}
        for row, slot in enumerate(self._order if stops else ()):
            if row not in ended and stops and stops(self._new_ids[slot, : int(num_new[row])].tolist()):
                ended[row] = slot
        finished = [self._progress(slot, int(num_new[row])) for row, slot in ended.items()]
        # The tokens count from here on. Were it earlier, memory might run out with ended sequences still active, and
        # they would go on past their end.
        self._num_new[self._rows] = num_new
        for slot in ended.values():
            del self.sequences[slot]
        return finished

    def unfinished(self) -> list[SequenceState]:
        """Everything active, as far as it has come."""
        counts: list[int] = self._num_new.tolist()
        return [self._progress(slot, counts[slot]) for slot in self.sequences]

    def _progress(self, slot: int, num_new: int) -> SequenceState:
        """A sequence with what it has generated.

        Nothing is allocated on the device, where there may be no memory left.
        """
        ids, log_probs = self._new_ids[slot, :num_new].tolist(), self._log_probs[slot, :num_new].tolist()
        return replace(self.sequences[slot], new_ids=tuple(ids), log_probs=tuple(log_probs))

    @torch.inference_mode()  # the cache may have grown in this mode, and is then closed to changes outside it
    def close_gaps(self) -> None:
        """Move the last active rows into the gaps that ended sequences have left."""
        left = len(self.sequences)
        if left < len(self._order):
            movers = (slot for slot in self._order[left:] if slot in self.sequences)
            self._arrange([slot if slot in self.sequences else next(movers) for slot in self._order[:left]])

    def _arrange(self, order: list[int]) -> None:
        """Bring the keys and values of slots into this order, from row 0 on."""
        lengths: list[int] = self._positions.tolist()
        row_of = {slot: row for row, slot in enumerate(self._order)}
        moves = [(row_of[slot], row) for row, slot in enumerate(order) if row_of[slot] != row]
        if moves:
            sources, targets = torch.tensor(moves, device=self._rows.device).unbind(1)
            self.cache.move(sources, targets, max(lengths[slot] for slot in order))
        self._order = order
        self._rows = torch.tensor(order, dtype=torch.long, device=self._rows.device)
        spans = (order[start : start + SPAN_ROWS] for start in range(0, len(order), SPAN_ROWS))
        self._longest = [max(lengths[slot] for slot in span) for span in spans]
