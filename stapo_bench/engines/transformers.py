"""The embedded engine: any Hugging Face causal LM with full attention, on any machine.

    engine = TransformersEngine.open(Path("checkpoint"), EngineOptions(device="cpu"))
    for completion in engine.generate(requests, SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=512)):
        ...

Batching is continuous: a sequence that ends leaves its slot, and once a share of the slots is free they are filled
from the queue; no sequence waits for the longest. A prompt is run once for its samples. The last prompt token is fed by
the ordinary step, so that there is one place where tokens are sampled.

A sample's tokens depend on its prompt, seed and parameters alone, up to floating-point rounding: matrix kernels round
differently for other batch sizes, so a random number within rounding of the boundary between two tokens may fall on
either side (about one token in 1e6 in float32, many more in bfloat16).
"""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import transformers

from stapo_bench.engines.adapter import merge, read_adapter
from stapo_bench.engines.devices import default_device, default_dtype
from stapo_bench.engines.engine import AS_DRAWN, EVERY_SETTING, TOOLS, WITH_TORCH
from stapo_bench.engines.foreign_checkpoint import check_parts, load_config, load_tokenizer, loading
from stapo_bench.engines.kv_cache import SPAN_ATTENTION, Ids, PrefixStore, SlotCache, free_memory, slot_bytes
from stapo_bench.engines.model_facts import check_attention, end_ids, states_shape
from stapo_bench.engines.options import EngineOptions
from stapo_bench.engines.params import check_params, cut_at_stop, token_budget
from stapo_bench.engines.slots import RunningBatch, SequenceState
from stapo_bench.engines.token_sampling import sample_tokens
from stapo_bench.engines.weights import read_weights
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Completion, Request, SamplingParams

PREFILL_TOKENS = 4096  # in one forward pass over prompts, padding included
PREFIX_BYTES = 1 << 28  # of prompts' states kept for their next samples
REFILL_SHARE = 0.25  # of the slots that must be free: prompts are run several at a time
STOP_MARGIN = 16  # tokens beyond those of a stop text in which it is looked for: special ones leave no text
MEMORY_SHARE = 0.85  # of the free memory that slots are planned for; the rest is for forward passes and fragmentation
ROUNDS_BEFORE_MORE = 8  # sequences of a slot, after memory ran out, before more slots are tried again


class TransformersEngine:
    """Generates completions with a model in this process; see the module's docstring."""

    continues_exactly = True
    takes = WITH_TORCH["transformers"]
    applies = EVERY_SETTING | {TOOLS}

    def __init__(self, model: Any, tokenizer: Any, *, slots: int | None = None) -> None:
        """The model stays the caller's: its weights may change between calls of ``generate``, not during one.

        slots: sequences at once, at most; 256 unless told otherwise. Never more than the free memory holds at their
            full length; halved where it does not suffice after all, and doubled again later.
        """
        if slots is not None and slots < 1:
            raise UsageError(f"slots: expected at least 1, got {slots}")
        check_attention(model.config)
        if len(tokenizer) > model.config.vocab_size:
            raise StapoError(
                f"the tokenizer has {len(tokenizer)} tokens, the model {model.config.vocab_size}: "
                "expected the tokenizer that the model was trained with"
            )
        self._model = model
        self._tokenizer = tokenizer
        self._slots = slots or 256
        self._end_ids = end_ids(model, tokenizer)

    @classmethod
    def open(cls, checkpoint: Path, options: EngineOptions) -> "TransformersEngine":
        """Load a Hugging Face folder and merge the adapter, if there is one; see ``load_checkpoint``."""
        model, tokenizer = load_checkpoint(checkpoint, dtype=options.dtype, device=options.device)
        if options.adapter is not None:
            merge(model, read_adapter(options.adapter))
        return cls(model, tokenizer, slots=options.slots)

    @classmethod
    def declared_identity(cls, checkpoint: Path, options: EngineOptions) -> dict[str, str]:
        """The engine alone: everything else comes from the model."""
        return {"engine": "transformers"}

    @property
    def context_length(self) -> int:
        """Positions that the model can take, prompt and completion together."""
        return int(self._model.config.max_position_embeddings)

    def identity(self) -> dict[str, str]:
        """What could change a sample besides its request. The number of slots is left out: it changes rounding only."""
        return {
            "engine": "transformers",
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "device": str(self._model.device.type),
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "architecture": type(self._model).__name__,
            "attention": str(self._model.config._attn_implementation),
            "context_length": str(self.context_length),
            "end_token_ids": ",".join(map(str, self._end_ids)),
            "log_probs": AS_DRAWN,
            "sampler": "inverse CDF of Philox draws; top-k, min-p and penalties off",
        }

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """Yield one completion per request as each ends. What cannot be generated is refused before the first token."""
        check_params(params)
        return self._run(deque(self._sequence(request, params.max_new_tokens) for request in requests), params)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Put other weights in the place of the model's: its whole ``state_dict()``, in any precision."""
        self._model.load_state_dict(weights)

    def load_folder(self, checkpoint: Path) -> None:
        """Put the weights of a folder in the place of the model's."""
        self.load_weights(dict(read_weights(checkpoint)))

    def close(self) -> None:
        """Let go of the model."""
        self._model = None

    def _sequence(self, request: Request, max_new_tokens: int) -> SequenceState:
        ids = request.prompt.token_ids
        if ids is None:
            ids = tuple(self._tokenizer.encode(request.prompt.text, add_special_tokens=False))
        limit = min(max_new_tokens, request.max_new_tokens or max_new_tokens)
        budget = token_budget(request.prompt, len(ids), limit, self.context_length)
        if len(request.generated_ids) >= budget:
            raise StapoError(
                f"{request.key}: expected fewer than {budget} generated ids, got {len(request.generated_ids)}"
            )
        known = (math.nan,) * len(request.generated_ids)
        return SequenceState(
            request=request, prompt_ids=ids, budget=budget, new_ids=request.generated_ids, log_probs=known
        )

    def _run(self, queue: deque[SequenceState], params: SamplingParams) -> Iterator[Completion]:
        if not queue:
            return
        was_training, attention = self._model.training, self._model.config._attn_implementation
        self._model.eval()
        if attention == "sdpa":
            self._model.set_attn_implementation(SPAN_ATTENTION)
        most = self._most_slots(queue)
        slots, prefix_bytes, rounds = most, PREFIX_BYTES, None
        try:
            while queue:
                whole = yield from self._drain(queue, slots, prefix_bytes, params, rounds=rounds)
                if queue:
                    slots, prefix_bytes = (min(2 * slots, most), prefix_bytes) if whole else (slots // 2, 0)
                    rounds = ROUNDS_BEFORE_MORE if slots < most else None
                    torch.cuda.empty_cache()
        finally:
            self._model.set_attn_implementation(attention)
            self._model.train(was_training)

    def _most_slots(self, queue: Sequence[SequenceState]) -> int:
        """Slots to begin with: as many as were asked for, are needed, and fit if every sequence reaches its limit."""
        weight, limit = next(self._model.parameters()), _longest(queue)
        each = slot_bytes(states_shape(self._model.config), limit, weight.element_size(), self._model.config.vocab_size)
        room = MEMORY_SHARE * free_memory(weight.device) / each
        return max(1, min(self._slots, len(queue), int(min(room, self._slots))))

    def _drain(
        self, queue: deque[SequenceState], slots: int, prefix_bytes: int, params: SamplingParams, rounds: int | None
    ) -> Generator[Completion, None, bool]:
        """Run the queue until it is empty, or ``rounds`` sequences a slot (None: all); false: memory ran out.

        Where memory runs out, active sequences return to the queue.
        """
        batch: RunningBatch | None = None
        left = len(queue) if rounds is None else rounds * slots
        try:
            prefixes = PrefixStore(self._prefill, prefix_bytes)
            batch = self._new_batch(queue, slots)
            while (queue and left > 0) or batch.sequences:
                batch.close_gaps()  # after finished sequences were handed over: it may run out of memory
                if queue and left > 0 and batch.num_free >= REFILL_SHARE * slots:
                    left -= self._refill(batch, queue, prefixes)
                yield from self._completions(self._step(batch, params), params.stop)
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            if slots == 1:
                raise StapoError(
                    f"out of memory with a single sequence on {self._model.device}: allow fewer new tokens"
                ) from error
            queue.extendleft(reversed(batch.unfinished() if batch else []))
            return False
        return True

    def _new_batch(self, queue: deque[SequenceState], slots: int) -> RunningBatch:
        weight = next(self._model.parameters())
        cache = SlotCache(states_shape(self._model.config), slots, _longest(queue), like=weight)
        end_ids = torch.tensor(self._end_ids, device=weight.device)
        return RunningBatch(cache, slots=slots, width=max(sequence.budget for sequence in queue), end_ids=end_ids)

    @torch.inference_mode()
    def _refill(self, batch: RunningBatch, queue: deque[SequenceState], prefixes: PrefixStore) -> int:
        """Start sequences in the free slots; how many."""
        sequences = list(islice(queue, batch.num_free))
        batch.fill(sequences, prefixes.get([sequence.fed_ids[:-1] for sequence in sequences]))
        for _ in sequences:  # only now: had memory run out above, they would still be in the queue
            queue.popleft()
        return len(sequences)

    @torch.inference_mode()
    def _step(self, batch: RunningBatch, params: SamplingParams) -> list[SequenceState]:
        """Sample one token for every active sequence; return those that ended."""
        spans = {"spans": batch.spans()} if self._model.config._attn_implementation == SPAN_ATTENTION else {}
        logits = self._model(**batch.inputs(self._model.dtype), **spans, use_cache=True).logits[:, -1]
        return batch.advance(*sample_tokens(logits, batch.uniforms(), params), self._stops(params.stop))

    def _stops(self, stop: Sequence[str]) -> Callable[[Sequence[int]], bool] | None:
        """Whether new tokens end with, or hold, one of the stop texts; None: there are none."""
        if not stop:
            return None
        most = 2 * max(len(text.encode()) for text in stop) + STOP_MARGIN  # tokens that one could be spread over

        def found(new_ids: Sequence[int]) -> bool:
            tail = self._tokenizer.decode(new_ids[-most:], skip_special_tokens=True)
            return any(text in tail for text in stop)

        return found

    def _prefill(self, prefixes: list[Ids]) -> list[torch.Tensor]:
        """Keys and values of each prefix, [T, 2L, H, D], in order; the shorter ones are run together."""
        order = sorted(range(len(prefixes)), key=lambda i: len(prefixes[i]))
        states: dict[int, torch.Tensor] = {}
        while order:
            length = len(prefixes[order[-1]])
            count = max(1, PREFILL_TOKENS // max(1, length))
            chunk, order = order[-count:], order[:-count]
            states.update(zip(chunk, self._prefill_together([prefixes[i] for i in chunk]), strict=True))
        return [states[i] for i in range(len(prefixes))]

    def _prefill_together(self, prefixes: list[Ids]) -> list[torch.Tensor]:
        """One forward pass, padded on the right: causal attention never looks there."""
        length = max(map(len, prefixes))
        if length == 0:
            layers, heads, dim = states_shape(self._model.config)
            return [next(self._model.parameters()).new_zeros((0, 2 * layers, heads, dim)) for _ in prefixes]
        ids = torch.zeros((len(prefixes), length), dtype=torch.long)
        for row, prefix in enumerate(prefixes):
            ids[row, : len(prefix)] = torch.tensor(prefix)
        cache = transformers.DynamicCache()
        # The base model: no logits are needed, and over a prompt they would be the largest tensor of all.
        self._model.base_model(input_ids=ids.to(self._model.device), past_key_values=cache, use_cache=True)
        states = [state for layer in cache.layers for state in (layer.keys, layer.values)]  # [R, H, T, D] each
        together = torch.stack(states, dim=1).permute(0, 3, 1, 2, 4)  # [R, T, 2L, H, D]
        return [together[row, : len(prefix)].clone() for row, prefix in enumerate(prefixes)]

    def _completions(self, sequences: Sequence[SequenceState], stop: Sequence[str]) -> Iterator[Completion]:
        if not sequences:
            return
        texts = self._tokenizer.batch_decode([sequence.new_ids for sequence in sequences], skip_special_tokens=True)
        now = time.perf_counter()
        for sequence, text in zip(sequences, texts, strict=True):
            if any(map(math.isnan, sequence.log_probs[len(sequence.request.generated_ids) :])):
                raise StapoError(
                    f"{sequence.request.key}: expected probabilities from the model, got NaN: its weights or its "
                    "config are damaged, or the numbers of its dtype overflow"
                )
            shown = cut_at_stop(text, stop)
            ended = sequence.new_ids[-1] in self._end_ids or shown != text
            yield Completion(
                key=sequence.request.key,
                text=shown,
                finish_reason="stop" if ended else "length",
                num_tokens=len(sequence.new_ids),
                token_ids=sequence.new_ids,
                log_probs=sequence.log_probs[len(sequence.request.generated_ids) :],
                seconds=now - (sequence.started or now),
            )


def load_checkpoint(path: Path, *, dtype: str | None = None, device: str | None = None) -> tuple[Any, Any]:
    """Load model and tokenizer from a Hugging Face folder: safetensors only, and no code from the folder is run.

    Args:
        path: a folder with ``config.json``, ``*.safetensors`` and a tokenizer.
        dtype: ``float32``, ``bfloat16`` or ``float16``; default that of the device (``devices.default_dtype``).
        device: as torch names it; default the GPU where there is one (``devices.default_device``).
    """
    path = Path(path)
    check_parts(path)
    device = device or default_device()
    dtype = dtype or default_dtype(device)
    tokenizer = load_tokenizer(path)
    transformers.utils.logging.disable_progress_bar()  # a bar per file, beside our own lines
    with loading(path):
        model, loaded = transformers.AutoModelForCausalLM.from_pretrained(
            path,
            config=load_config(path),
            dtype=dtype,
            use_safetensors=True,
            attn_implementation="sdpa",
            output_loading_info=True,
            local_files_only=True,
            trust_remote_code=False,
        )
    if missing := sorted(loaded["missing_keys"]):
        # transformers would fill them with random numbers and a warning.
        raise StapoError(f"{path}: {len(missing)} weights are missing, {missing[0]} among them: save the whole model")
    return model.to(device).eval(), tokenizer


def _longest(queue: Sequence[SequenceState]) -> int:
    """Positions of the longest sequence, should it reach its limit."""
    return max(len(sequence.prompt_ids) + sequence.budget for sequence in queue)


def _out_of_memory(error: RuntimeError) -> bool:
    """Whether memory ran out: CUDA has a type for it, its libraries and the CPU allocator only a message."""
    words = ("out of memory", "can't allocate memory", "not enough memory", "status_alloc_failed")
    return isinstance(error, torch.OutOfMemoryError) or any(word in str(error).lower() for word in words)
