"""vLLM in this process: every task and sample in one queue, prompts shared through its prefix cache.

    engine = VllmEngine(Path("checkpoint"), tensor_parallel=2)

A trainer keeps one engine beside its model and gives it the model's weights before it generates (``load_weights``); on
a GPU the engine's memory is the trainer's in between (``sleep``).

vLLM seeds each request by itself (the sample's seed), so a sample depends on the requests beside it only by rounding.
The sampling parameters that its core will use are read back before the first token and must be the ones asked for: a
checkpoint's ``generation_config.json`` decides nothing but where a sequence ends. Needs the extra ``vllm``; its CPU
build works too (``VLLM_CPU_KVCACHE_SPACE`` sets the memory for keys and values, in GiB).
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from stapo_bench.engines.engine import EngineOptions
from stapo_bench.engines.params import check_params, refuse_generated_ids, token_budget
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Request, SamplingParams

OFF: dict[str, Any] = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "min_tokens": 0,
    "logit_bias": None,
    "bad_words": [],
    "stop": [],
}
"""Values of vLLM's parameters that switch off what is not used."""

AHEAD = 2048  # requests handed over before they are needed: vLLM runs as many at once as its memory holds


class VllmEngine:
    """Generates completions with vLLM; see the module's docstring."""

    continues_exactly = False  # its generator starts with the request, not with the sample
    takes = frozenset({"dtype", "slots", "tensor_parallel"})

    def __init__(
        self,
        checkpoint: Path,
        *,
        dtype: str | None = None,
        slots: int | None = None,
        tensor_parallel: int = 1,
        max_model_len: int | None = None,
        shared_gpu: float | None = None,
    ) -> None:
        """Load a Hugging Face folder.

        dtype: default float32 on a CPU, the checkpoint's own elsewhere.
        slots: sequences at once; default vLLM's own choice.
        tensor_parallel: GPUs that share the model.
        max_model_len: positions of prompt and completion together; default what the model can take.
        shared_gpu: for an engine that sleeps while others use its GPU: the share of the memory that it takes when it
            is awake. Default: all that vLLM wants, and no sleep.
        """
        # The core in this process, whatever the environment says: its errors are then ours, and nothing outlives a
        # killed run. Where a core of its own is killed, vLLM 0.32 waits for it without end.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        try:
            vllm, platforms = import_module("vllm"), import_module("vllm.platforms")
        except ImportError as error:
            raise StapoError(f"engine vllm: {error}; install the extra: pip install 'stapo-bench[vllm]'") from error
        if not (checkpoint / "config.json").is_file():
            raise StapoError(f"{checkpoint}: expected a checkpoint folder with config.json, found none")
        on_cpu = platforms.current_platform.is_cpu()
        self._can_sleep, self._asleep = shared_gpu is not None and not on_cpu, False
        options: dict[str, Any] = {"max_num_seqs": slots, "max_model_len": max_model_len}
        if on_cpu:  # after half a prompt vLLM rewinds a seeded generator, which those of a CPU cannot
            options["enable_chunked_prefill"] = False
        if self._can_sleep:
            options |= {"gpu_memory_utilization": shared_gpu, "enable_sleep_mode": True}
        self._llm: Any = vllm.LLM(
            model=str(checkpoint),
            dtype=dtype or ("float32" if on_cpu else "auto"),
            tensor_parallel_size=tensor_parallel,
            trust_remote_code=False,
            enable_prefix_caching=True,
            enforce_eager=on_cpu,  # compiling takes longer than most runs on a CPU
            generation_config="vllm",  # the checkpoint's sampling defaults stay out; its end tokens stay in
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
        split = options.tensor_parallel or 1
        return cls(checkpoint, dtype=options.dtype, slots=options.slots, tensor_parallel=split)

    @classmethod
    def declared_identity(cls, checkpoint: Path, options: EngineOptions) -> dict[str, str]:
        """The engine, and over how many GPUs it splits the model."""
        return {"engine": "vllm", "tensor_parallel": str(options.tensor_parallel or 1)}

    @property
    def context_length(self) -> int:
        """Positions that the engine takes, prompt and completion together."""
        return int(self._llm.llm_engine.model_config.max_model_len)

    def identity(self) -> dict[str, str]:
        """What could change a sample besides its request; the end tokens are read back from the engine."""
        effective = self._effective(SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=1))
        config = self._llm.llm_engine.model_config
        return {
            "engine": "vllm",
            "vllm": self._version,
            "device": self._platform,
            "dtype": str(config.dtype).removeprefix("torch."),
            "context_length": str(self.context_length),
            "tensor_parallel": str(self._llm.llm_engine.vllm_config.parallel_config.tensor_parallel_size),
            "end_token_ids": ",".join(map(str, sorted(effective.all_stop_token_ids))),
            "sampler": "vLLM's, seeded by request; top-k, min-p and penalties off, read back",
        }

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """Yield one completion per request as each ends. What cannot be generated is refused before the first token."""
        check_params(params)
        budgets = [(request, self._budget(request, params)) for request in requests]
        self._check_effective(params)
        return self._run(budgets, params)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Put other weights in the place of the engine's, in memory, and drop what the old ones computed.

        Args:
            weights: a model's whole ``state_dict()``. ``named_parameters()`` will not do: it names tied embeddings
                once, and vLLM would go on with the old output embedding and not say so.
        """
        self._wake_up("weights")
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights.items())})
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

    def _budget(self, request: Request, params: SamplingParams) -> int:
        refuse_generated_ids(request)
        prompt = request.prompt
        if prompt.token_ids is None:
            raise StapoError(f"{prompt.task}, problem {prompt.problem_id}: expected token ids, got text alone")
        return token_budget(prompt, len(prompt.token_ids), params.max_new_tokens, self.context_length)

    def _run(self, budgets: list[tuple[Request, int]], params: SamplingParams) -> Iterator[Completion]:
        dead_error: type[Exception] = import_module("vllm.v1.engine.exceptions").EngineDeadError
        engine, pending = self._llm.llm_engine, iter(budgets)
        running: dict[str, Request] = {}
        number = 0
        try:
            while True:
                for request, budget in islice(pending, AHEAD - len(running)):
                    name = str(number)
                    engine.add_request(
                        name,
                        {"prompt_token_ids": list(request.prompt.token_ids or ())},
                        _vllm_params(params, request.seed, budget),
                    )
                    running[name] = request
                    number += 1
                if not running:
                    return
                ended = [output for output in engine.step() if output.finished]
                for output, text in zip(ended, self._texts(ended), strict=True):
                    yield _completion(running.pop(output.request_id), output, text)
        except dead_error as error:
            raise StapoError(f"vLLM died: {error}; run the same command again to go on") from error
        finally:
            if running:
                engine.abort_request(list(running))

    def _texts(self, ended: Sequence[Any]) -> list[str]:
        """One text per sequence, of all its tokens but the end token."""
        completions = [output.outputs[0] for output in ended]
        kept = [one.token_ids[:-1] if one.finish_reason == "stop" else one.token_ids for one in completions]
        return list(self._tokenizer.batch_decode(kept, skip_special_tokens=True)) if kept else []

    def _effective(self, params: SamplingParams) -> Any:
        """The parameters as vLLM hands them to its core, after everything that it adds or changes."""
        engine = self._llm.llm_engine
        request = engine.input_processor.process_inputs(
            "probe",
            {"prompt_token_ids": [0]},
            _vllm_params(params, seed=0, budget=1),
            supported_tasks=engine.get_supported_tasks(),
        )
        return request.sampling_params

    def _check_effective(self, params: SamplingParams) -> None:
        expected = {"temperature": params.temperature, "top_p": params.top_p, "seed": 0, **OFF}
        effective = self._effective(params)
        for name, value in expected.items():
            found = getattr(effective, name)
            if found != value and not (found in (None, []) and value in (None, [])):
                raise StapoError(f"vLLM would draw with {name} {found!r} where {value!r} was asked for")


def _vllm_params(params: SamplingParams, seed: int, budget: int) -> Any:
    parameters = import_module("vllm.sampling_params")
    return parameters.SamplingParams(
        temperature=params.temperature,
        top_p=params.top_p,
        max_tokens=budget,
        seed=seed,
        output_kind=parameters.RequestOutputKind.FINAL_ONLY,
        # vLLM's log-probs are those at temperature 1: at another they would not be what a Completion promises.
        logprobs=0 if params.temperature == 1 else None,
        flat_logprobs=True,  # a list of numbers instead of two objects a token
        detokenize=False,  # vLLM would make it at every token, and that of every log-prob's token
        **OFF,
    )


def _completion(request: Request, output: Any, text: str) -> Completion:
    (completion,) = output.outputs
    if completion.finish_reason not in ("stop", "length"):
        return Completion(key=request.key, text="", finish_reason="error", num_tokens=0)
    ids = tuple(completion.token_ids)
    return Completion(
        key=request.key,
        text=text,
        finish_reason=completion.finish_reason,
        num_tokens=len(ids),
        token_ids=ids,
        log_probs=_log_probs(completion.logprobs, ids) if completion.logprobs is not None else None,
    )


def _log_probs(told: Any, ids: tuple[int, ...]) -> tuple[float, ...]:
    """Log-probs of the sampled tokens; ``told`` is vLLM's FlatLogprobs, which holds more where more is asked for."""
    if tuple(told.token_ids) != ids:
        raise StapoError(
            f"vLLM: expected the log-probs of {len(ids)} sampled tokens and no others, got {len(told.token_ids)}"
        )
    return tuple(told.logprobs)
