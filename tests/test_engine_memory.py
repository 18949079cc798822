"""The embedded engine short of memory: fewer slots, and the same samples."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import transformers
from engine_setup import PARAMS, make_requests, tokens_of
from torch.utils._python_dispatch import TorchDispatchMode

from stapo_bench.engines.kv_cache import PrefixStore, SlotCache, available_memory, slot_bytes
from stapo_bench.engines.slots import RunningBatch
from stapo_bench.engines.transformers import TransformersEngine
from stapo_bench.errors import StapoError


@pytest.mark.parametrize(
    "message",
    [
        None,
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",  # no room for cuBLAS's workspace
    ],
)
def test_out_of_memory_halves_the_slots_and_loses_nothing(model, tokenizer, message, monkeypatch):
    requests = make_requests(12)
    expected = tokens_of(TransformersEngine(model, tokenizer).generate(requests, PARAMS))
    widest, given_back = [], []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append(widest[-1]))

    def forward_in_little_memory(module, arguments, keywords):
        rows, width = keywords["input_ids"].shape
        if width > 1:
            return
        widest.append(rows)
        if rows > 9 and len(widest) > 5:  # some tokens are drawn before memory runs out
            raise torch.OutOfMemoryError("CUDA out of memory") if message is None else RuntimeError(message)

    hook = model.register_forward_pre_hook(forward_in_little_memory, with_kwargs=True)
    try:
        assert tokens_of(TransformersEngine(model, tokenizer, slots=32).generate(requests, PARAMS)) == expected
    finally:
        hook.remove()
    after = widest[next(i for i, rows in enumerate(widest) if i > 5 and rows <= 9) :]
    assert max(after) == 8  # 32 -> 16 -> 8
    assert given_back[0] > 9  # what the allocator holds of the batch that failed, before a narrower one is tried


class MemoryRunsOut(TorchDispatchMode):
    """Counts the places that it watches, and raises at number ``nth`` of them, from 0."""

    def __init__(self, nth: int | None = None) -> None:
        super().__init__()
        self.nth = nth
        self.count = 0

    def place(self) -> None:
        self.count += 1
        if self.count - 1 == self.nth:
            raise torch.OutOfMemoryError("CUDA out of memory")

    def calls(self, function: Callable) -> Callable:
        """Watch the calls of a function."""
        return lambda *arguments, **keywords: (self.place(), function(*arguments, **keywords))[1]

    def operations(self, function: Callable) -> Callable:
        """Watch every operation of torch within a function."""

        def watched(*arguments, **keywords):
            with self:
                return function(*arguments, **keywords)

        return watched

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.place()
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "watch, place",
    [
        (MemoryRunsOut.calls, (SlotCache, "insert")),
        *(
            pytest.param(
                watch,
                place,
                marks=pytest.mark.slow(reason="thirty evaluations, each short of memory at another place"),
            )
            for watch, place in (
                (MemoryRunsOut.calls, (transformers.Qwen3ForCausalLM, "forward")),
                (MemoryRunsOut.calls, (TransformersEngine, "_prefill_together")),
                (MemoryRunsOut.calls, (SlotCache, "_reserve")),
                (MemoryRunsOut.calls, (SlotCache, "move")),
                *((MemoryRunsOut.operations, (RunningBatch, name)) for name in ("fill", "advance", "close_gaps")),
            )
        ),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else value.__name__,
)
def test_wherever_memory_runs_out_the_samples_stay_the_same(model, tokenizer, watch, place):
    """Nine sequences in four slots: they end by token and by limit while others run and others wait."""
    requests, params = make_requests(9, samples=1), replace(PARAMS, max_new_tokens=8)
    requests[0] = replace(requests[0], generated_ids=(1, 2, 3))
    long = replace(requests[4].prompt, token_ids=tuple(range(60, 120)))  # outgrows the 64 positions of a new cache
    requests[4] = replace(requests[4], prompt=long)
    owner, name = place

    def drawn(memory: MemoryRunsOut) -> tuple[list[tuple], list[float]]:
        engine = TransformersEngine(model, tokenizer, slots=4)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, watch(memory, getattr(owner, name)))
            found = sorted(engine.generate(requests, params), key=lambda completion: completion.key)
        return [(c.key, c.token_ids, c.finish_reason) for c in found], [x for c in found for x in c.log_probs]

    undisturbed = MemoryRunsOut()
    samples, log_probs = drawn(undisturbed)
    assert [key for key, _, _ in samples] == sorted(request.key for request in requests)
    assert {reason for _, _, reason in samples} == {"stop", "length"}
    places = range(undisturbed.count)
    assert len(places) >= 5
    for nth in places if len(places) < 30 else random.Random(0).sample(places, 30):
        found, found_log_probs = drawn(MemoryRunsOut(nth))
        assert found == samples, f"out of memory at {nth} of {len(places)}"
        assert found_log_probs == pytest.approx(log_probs, abs=1e-4)


def test_a_cache_larger_than_the_memory_left_is_not_begun(model, tokenizer, monkeypatch):
    """2 x 2 layers x 2 heads x 32 dimensions x 4 bytes: 1 KiB a position, and a quarter more while a tensor grows; with
    24 bytes for each of 300 tokens a slot of 59 positions takes 82,720. Of 512 KiB 85 % are planned with: 5 slots."""
    requests = make_requests(12)
    expected = tokens_of(TransformersEngine(model, tokenizer).generate(requests, PARAMS))
    rows = []
    original = RunningBatch.inputs
    monkeypatch.setattr(
        RunningBatch, "inputs", lambda self, dtype: rows.append(len(self.sequences)) or original(self, dtype)
    )
    monkeypatch.setattr("stapo_bench.engines.kv_cache.available_memory", lambda: 512 * 1024.0)
    assert tokens_of(TransformersEngine(model, tokenizer, slots=32).generate(requests, PARAMS)) == expected
    assert max(rows) == 5
    assert available_memory() > 2**20


def test_out_of_memory_with_one_slot_is_an_error_and_other_errors_pass(model, tokenizer):
    def fail_with(error):
        def hook(*_):
            raise error

        return model.register_forward_pre_hook(hook)

    for error, expected in [
        (torch.OutOfMemoryError("CUDA out of memory"), "out of memory with a single sequence"),
        (RuntimeError("shapes cannot be multiplied"), "shapes cannot be multiplied"),
    ]:
        hook = fail_with(error)
        try:
            with pytest.raises((StapoError, RuntimeError), match=expected):
                list(TransformersEngine(model, tokenizer, slots=4).generate(make_requests(2), PARAMS))
        finally:
            hook.remove()


def test_memory_for_a_single_sequence_is_enough(model, tokenizer, monkeypatch):
    requests = make_requests(3)
    expected = tokens_of(TransformersEngine(model, tokenizer).generate(requests, PARAMS))
    given_back = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append(1))

    def forward_of_one_row(module, arguments, keywords):
        if len(keywords["input_ids"]) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")

    hook = model.register_forward_pre_hook(forward_of_one_row, with_kwargs=True)
    try:
        assert tokens_of(TransformersEngine(model, tokenizer, slots=4).generate(requests, PARAMS)) == expected
    finally:
        hook.remove()
    assert len(given_back) == 3  # 4 slots, 2, 1; and 2 again after eight sequences, of which one was left


def test_slots_come_back_after_memory_was_short_for_a_while(model, tokenizer):
    requests = make_requests(12, samples=8)
    expected = tokens_of(TransformersEngine(model, tokenizer).generate(requests, PARAMS))
    rows = []

    def short_at_first(module, arguments, keywords):
        if keywords["input_ids"].shape[1] == 1:
            rows.append(len(keywords["input_ids"]))
            if rows[-1] > 4 and len(rows) < 30:
                raise torch.OutOfMemoryError("CUDA out of memory")

    hook = model.register_forward_pre_hook(short_at_first, with_kwargs=True)
    try:
        assert tokens_of(TransformersEngine(model, tokenizer, slots=8).generate(requests, PARAMS)) == expected
    finally:
        hook.remove()
    short = rows.index(4)
    assert rows[0] == 8 and max(rows[short:30]) == 4 and max(rows[30:]) == 8


def test_a_cache_grows_where_one_of_its_tensors_fits_a_second_time(monkeypatch):
    """8 tensors of 4 slots x 2 heads x 8 dimensions x 4 bytes: 32 KiB each at 128 positions, 256 KiB at once."""
    cache = SlotCache((4, 2, 8), 4, 128, like=torch.zeros(0))
    cache.begin_step(torch.zeros(4, dtype=torch.long), 64)
    cache.update(torch.ones(4, 2, 1, 8), torch.ones(4, 2, 1, 8), 3)
    monkeypatch.setattr("stapo_bench.engines.kv_cache.available_memory", lambda: 33 * 1024.0)
    cache.begin_step(torch.zeros(4, dtype=torch.long), 65)
    keys, _ = cache.update(torch.ones(4, 2, 1, 8), torch.ones(4, 2, 1, 8), 3)
    assert keys.shape == (4, 2, 65, 8) and keys[:, :, 0].eq(1).all()


def test_the_bytes_of_a_slot_by_hand():
    # 3 layers, 2 heads, 8 dimensions: keys and values, and one of the six tensors twice, are 7 x 16 numbers a position,
    # 2 bytes each; of 100 tokens a logit of 2 bytes, three float32 numbers and a float64 sum.
    assert slot_bytes((3, 2, 8), limit=10, itemsize=2, vocabulary=100) == 7 * 16 * 10 * 2 + 100 * (2 + 12 + 8)


def test_prompts_are_computed_once_and_the_least_recently_used_leave():
    computed = []

    def compute(missing):
        computed.append(missing)
        return [torch.full((len(ids),), float(ids[0])) for ids in missing]  # 4 bytes a token

    store = PrefixStore(compute, budget_bytes=16)
    a, b, c = (1, 1), (2, 2), (3, 3)
    assert [found[0].item() for found in store.get([a, b, a])] == [1.0, 2.0, 1.0] and computed == [[a, b]]
    store.get([a])  # b is now the one that was not used for longest
    store.get([c])
    store.get([a])
    assert computed == [[a, b], [], [c], []]
    store.get([b])
    assert computed[4:] == [[b]]  # it had to leave; 16 bytes are two of them
    long = tuple([4] * 9)
    assert len(store.get([long])[0]) == 9  # more than fits is computed, and not kept
    store.get([a])
    assert computed[5:] == [[long], [a]]
