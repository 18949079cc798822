"""vLLM in this process: every task and sample in one queue, prompts shared through its prefix cache.

    engine = VllmEngine(Path("checkpoint"), tensor_parallel=2)

A trainer keeps one engine beside its model and gives it the model's weights before it generates (``load_weights``); on
a GPU the engine's memory is the trainer's in between (``sleep``).

vLLM seeds each request by itself (the sample's seed), so a sample depends on the requests beside it only by rounding.
The sampling parameters that its core will use are read back before the first token and must be the ones asked for: a
checkpoint's ``generation_config.json`` decides nothing but where a sequence ends. Needs the extra ``vllm``; its CPU
build works too (``VLLM_CPU_KVCACHE_SPACE`` sets the memory for keys and values, in GiB). What of this a GPU has run
stands in docs/gpu.md.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from stapo_bench.engines.adapter import read_adapter
from stapo_bench.engines.engine import AS_DRAWN, EVERY_SETTING, TOOLS
from stapo_bench.engines.feed import arrived
from stapo_bench.engines.foreign_checkpoint import check_folder, cleaned, offline
from stapo_bench.engines.options import EngineOptions
from stapo_bench.engines.params import check_params, cut_at_stop, refuse_generated_ids, token_budget
from stapo_bench.engines.vllm_requests import asked_of, completion_of, lora_rank, vllm_params
from stapo_bench.engines.weights import read_weights
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Request, SamplingParams

AHEAD = 2048  # requests handed over before they are needed: vLLM runs as many at once as its memory holds

ENVIRONMENT = {
    # The core in this process: its errors are then ours, and nothing outlives a killed run. Where a core of its own is
    # killed, vLLM 0.32 waits for it without end.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Ranks start anew. Forked from a process in which anything asked torch for GPUs they would die of "Cannot
    # re-initialize CUDA in forked subprocess", and vLLM does not notice such a question (torch.cuda.is_initialized).
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    # FlashInfer's sampler is compiled at every start, and requests with a seed never use it.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
}
"""What vLLM is told, whatever the environment says."""

_SHARE = "--gpu-memory (of a training: rollout.gpu_memory)"
WAYS_OUT = (
    (
        "less than desired GPU memory",
        f"others use this GPU (nvidia-smi shows them): end them, or take a smaller share: {_SHARE}",
    ),
    ("larger than the available KV cache", f"fewer new tokens, or more memory: {_SHARE}, --tensor-parallel"),
    ("No available memory for the cache", f"the model fills the memory: {_SHARE} up to 0.95, or --tensor-parallel"),
    ("out of memory", f"a smaller share for the cache: {_SHARE}, fewer --slots, or more GPUs: --tensor-parallel"),
)
"""Words of vLLM's refusals (``request_memory``, ``_check_enough_kv_cache_memory``), and what a person can do."""


class VllmEngine:
    """Generates completions with vLLM; see the module's docstring."""

    continues_exactly = False  # its generator starts with the request, not with the sample
    takes = frozenset({"adapter", "dtype", "gpu_memory", "quantization", "ray", "replicas", "slots", "tensor_parallel"})
    applies = EVERY_SETTING | {TOOLS}

    def __init__(
        self,
        checkpoint: Path,
        *,
        adapter: Path | None = None,
        dtype: str | None = None,
        quantization: str | None = None,
        slots: int | None = None,
        tensor_parallel: int = 1,
        positions: int | None = None,
        gpu_memory: float | None = None,
        sleeps: bool = False,
        launched: bool = False,
    ) -> None:
        """Load a Hugging Face folder.

        adapter: LoRA on it, computed beside its weights; they stay as they are.
        dtype: default float32 on a CPU; elsewhere vLLM's ``auto``, which makes bfloat16 of float32.
        quantization: of the weights, by vLLM's name for it; default what the checkpoint says of itself.
        slots: sequences at once; default vLLM's own choice.
        tensor_parallel: GPUs that share the model.
        positions: of the longest prompt and its new tokens together, so that vLLM asks for no larger cache; default
            what the model can take.
        gpu_memory: share of a GPU's memory; default vLLM's own choice.
        sleeps: others use the GPU between calls of ``generate``: all memory is given back in ``sleep``.
        launched: this process is one of several with an engine each; its rank and its GPU are their launcher's.
        """
        os.environ.update(ENVIRONMENT)
        try:
            vllm, platforms = import_module("vllm"), import_module("vllm.platforms")
            arguments = import_module("vllm.engine.arg_utils").EngineArgs
        except ImportError as error:
            raise StapoError(f"engine vllm: {error}; install the extra: pip install 'stapo-bench[vllm]'") from error
        if not (checkpoint / "config.json").is_file():
            raise StapoError(f"{checkpoint}: expected a checkpoint folder with config.json, found none")
        on_cpu = platforms.current_platform.is_cpu()
        self._can_sleep, self._asleep = sleeps and not on_cpu, False
        model: dict[str, Any] = {
            "model": str(checkpoint),
            "dtype": dtype or ("float32" if on_cpu else "auto"),
            "trust_remote_code": False,
            "logprobs_mode": "processed_logprobs",  # as drawn; raw ones are at temperature 1, uncut
            "generation_config": "vllm",  # the checkpoint's sampling defaults stay out; its end tokens stay in
        }
        options: dict[str, Any] = {
            "quantization": quantization,
            "max_num_seqs": slots,
            "gpu_memory_utilization": gpu_memory,
        }
        if on_cpu:  # after half a prompt vLLM rewinds a seeded generator, which those of a CPU cannot
            options["enable_chunked_prefill"] = False
        if self._can_sleep:
            options["enable_sleep_mode"] = True
        if launched:
            options["distributed_executor_backend"] = "external_launcher"
        self._lora: Any = None
        if adapter is not None:
            options |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": lora_rank(read_adapter(adapter).rank)}
            self._lora = import_module("vllm.lora.request").LoRARequest("adapter", 1, str(adapter))
        self._files = ExitStack()
        clean = self._files.enter_context(cleaned(checkpoint))
        if clean != checkpoint:  # ranks of their own may read it at any time
            model |= {"hf_config_path": str(clean), "tokenizer": str(clean)}
        with _refusals(checkpoint), offline():
            self._context_length = int(arguments(**model).create_model_config().max_model_len)
            self._llm: Any = vllm.LLM(
                **model,
                max_model_len=min(positions or self._context_length, self._context_length),
                tensor_parallel_size=tensor_parallel,
                enable_prefix_caching=True,
                enforce_eager=on_cpu,  # compiling takes longer than most runs on a CPU
                **{name: value for name, value in options.items() if value is not None},
            )
        split = self._llm.llm_engine.vllm_config.parallel_config.tensor_parallel_size
        if split != tensor_parallel:
            raise StapoError(f"vLLM split the model over {split} GPUs where {tensor_parallel} were asked for")
        self._tokenizer = self._llm.get_tokenizer()
        self._version = str(vllm.__version__)
        self._platform = str(platforms.current_platform.device_type)

    @classmethod
    def open(cls, checkpoint: Path, options: EngineOptions) -> "VllmEngine":
        """Load a Hugging Face folder for this process alone."""
        check_folder(checkpoint)
        return cls(
            checkpoint,
            adapter=options.adapter,
            dtype=options.dtype,
            quantization=options.quantization,
            slots=options.slots,
            tensor_parallel=options.tensor_parallel or 1,
            positions=options.positions,
            gpu_memory=options.gpu_memory,
        )

    @classmethod
    def declared_identity(cls, checkpoint: Path, options: EngineOptions) -> dict[str, str]:
        """The engine, and over how many GPUs it splits the model."""
        return {"engine": "vllm", "tensor_parallel": str(options.tensor_parallel or 1)}

    @property
    def at_once(self) -> int:
        """Sequences that run at once, at most."""
        return int(self._llm.llm_engine.vllm_config.scheduler_config.max_num_seqs)

    @property
    def context_length(self) -> int:
        """Positions that the model can take, prompt and completion together."""
        return self._context_length

    def identity(self) -> dict[str, str]:
        """What could change a sample besides its request; the end tokens are read back from the engine."""
        effective = self._effective(SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=1))
        config = self._llm.llm_engine.vllm_config
        quantization = config.model_config.quantization  # the kernels' own name: awq may become awq_marlin
        return {
            "engine": "vllm",
            "vllm": self._version,
            "device": self._platform,
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            **({} if quantization is None else {"quantization": str(quantization)}),
            "context_length": str(self.context_length),
            "tensor_parallel": str(config.parallel_config.tensor_parallel_size),
            # A GPU is served by another runner, scheduled otherwise, than the CPU: other kernels draw the tokens.
            "runner": "V2" if config.use_v2_model_runner else "V1",
            "scheduling": "asynchronous" if config.scheduler_config.async_scheduling else "synchronous",
            "end_token_ids": ",".join(map(str, sorted(effective.all_stop_token_ids))),
            "log_probs": AS_DRAWN,
            "sampler": "vLLM's, seeded by request; top-k, min-p and penalties off, read back",
        }

    def generate(self, requests: Iterable[Request | None], params: SamplingParams) -> Iterator[Completion]:
        """Yield one completion per request as each ends. What cannot be generated is refused before the first token."""
        check_params(params)
        arriving = iter(requests)
        queue = deque((request, self._budget(request, params)) for request in arrived(arriving))
        self._check_effective(params)
        return self._run(queue, arriving, params)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Put other weights in the place of the engine's, in memory, and drop what the old ones computed.

        Args:
            weights: a model's whole ``state_dict()``. ``named_parameters()`` will not do: it names tied embeddings
                once, and vLLM would go on with the old output embedding and not say so.
        """
        self._exchange("reload_weights", weights_iterator=iter(weights.items()))

    def load_folder(self, checkpoint: Path) -> None:
        """Put the weights of a folder in the place of the engine's: every rank reads it by itself."""
        self._exchange(reload_folder, checkpoint=str(checkpoint))

    def _exchange(self, how: Any, **arguments: Any) -> None:
        self._wake_up("weights")
        self._llm.collective_rpc(how, kwargs=arguments)
        self._wake_up("kv_cache")
        self._asleep = False
        if not self._llm.reset_prefix_cache():
            raise StapoError("vLLM kept what the old weights computed: expected no sequence to be running")

    def sleep(self) -> None:
        """Release weights and memory until ``load_weights``. An engine that does not share a GPU stays awake."""
        if self._can_sleep and not self._asleep:
            self._llm.sleep(level=2)  # nothing is kept: other weights come before the next token
            self._asleep = True

    def _wake_up(self, part: str) -> None:
        if self._asleep:
            self._llm.wake_up(tags=[part])

    def close(self) -> None:
        """Stop the engine's workers and give back its memory."""
        if self._llm is not None:
            self._llm.llm_engine.engine_core.shutdown()
            self._llm = None
            self._files.close()

    def _budget(self, request: Request, params: SamplingParams) -> int:
        refuse_generated_ids(request)
        prompt = request.prompt
        if prompt.token_ids is None:
            raise StapoError(f"{prompt.task}, problem {prompt.problem_id}: expected token ids, got text alone")
        num_prompt = len(prompt.token_ids)
        limit = min(params.max_new_tokens, request.max_new_tokens or params.max_new_tokens)
        budget = token_budget(prompt, num_prompt, limit, self.context_length)
        ready = int(self._llm.llm_engine.vllm_config.model_config.max_model_len)
        if num_prompt + budget > ready:
            raise StapoError(
                f"{prompt.task}, problem {prompt.problem_id}: expected at most {ready} positions, for which vLLM was "
                f"started, got {num_prompt} of the prompt and {budget} new ones"
            )
        return budget

    def _run(
        self, queue: deque[tuple[Request, int]], arriving: Iterator[Request | None], params: SamplingParams
    ) -> Iterator[Completion]:
        dead_error: type[Exception] = import_module("vllm.v1.engine.exceptions").EngineDeadError
        engine = self._llm.llm_engine
        running: dict[str, Request] = {}
        number = 0
        try:
            while True:
                queue.extend((request, self._budget(request, params)) for request in arrived(arriving))
                while queue and len(running) < AHEAD:
                    request, budget = queue.popleft()
                    name = str(number)
                    engine.add_request(
                        name,
                        {"prompt_token_ids": list(request.prompt.token_ids or ())},
                        vllm_params(params, request.seed, budget),
                        lora_request=self._lora,
                    )
                    running[name] = request
                    number += 1
                if not running:
                    return
                ended = [output for output in engine.step() if output.finished]
                for output, text in zip(ended, self._texts(ended, params.stop), strict=True):
                    yield completion_of(running.pop(output.request_id), output, text)
        except dead_error as error:
            raise StapoError(f"vLLM died: {error}; run the same command again to go on") from error
        finally:
            if running:
                engine.abort_request(list(running))

    def _texts(self, ended: Sequence[Any], stop: Sequence[str]) -> list[str]:
        """One text per sequence, of all its tokens but the end token, up to the stop text that ended it."""
        completions = [output.outputs[0] for output in ended]
        kept = [
            one.token_ids[:-1]
            if one.finish_reason == "stop" and not isinstance(one.stop_reason, str)
            else one.token_ids
            for one in completions
        ]
        texts = self._tokenizer.batch_decode(kept, skip_special_tokens=True) if kept else []
        return [cut_at_stop(text, stop) for text in texts]

    def _effective(self, params: SamplingParams) -> Any:
        """The parameters as vLLM hands them to its core, after everything that it adds or changes."""
        engine = self._llm.llm_engine
        request = engine.input_processor.process_inputs(
            "probe",
            {"prompt_token_ids": [0]},
            vllm_params(params, seed=0, budget=1),
            supported_tasks=engine.get_supported_tasks(),
        )
        return request.sampling_params

    def _check_effective(self, params: SamplingParams) -> None:
        expected = asked_of(params, seed=0)
        effective = self._effective(params)
        for name, value in expected.items():
            found = getattr(effective, name)
            if found != value and not (found in (None, []) and value in (None, [])):
                raise StapoError(f"vLLM would draw with {name} {found!r} where {value!r} was asked for")


def reload_folder(worker: Any, checkpoint: str) -> None:
    """Read a folder's weights into a rank's model; vLLM runs this in every rank."""
    worker.reload_weights(weights_iterator=read_weights(Path(checkpoint)))


@contextmanager
def _refusals(checkpoint: Path) -> Iterator[None]:
    """What vLLM refuses as it starts, as one line with what to do."""
    try:
        yield
    except (ValueError, RuntimeError) as error:  # an error of CUDA is a RuntimeError
        said = " ".join(str(error).split())
        ways_out = (way for words, way in WAYS_OUT if words in said)
        way = next(ways_out, "the lines above say more")
        raise StapoError(f"{checkpoint}: vLLM does not start: {said[:400]}: {way}") from error
