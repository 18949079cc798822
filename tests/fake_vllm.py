"""A stand-in for the package vLLM that refuses what vLLM 0.32 refuses on a GPU, with its words.

The places in vLLM's source: ranks that are forked after a question for GPUs (``utils/system_utils.py``,
``_maybe_force_spawn``), memory that others use (``v1/worker/utils.py``, ``request_memory``), a cache that holds no
sequence of full length (``v1/core/kv_cache_utils.py``, ``_check_enough_kv_cache_memory``), and a length beyond the
model's (``config/model.py``, ``_get_and_verify_max_len``).
"""

import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

FORKED = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, use the 'spawn' start method"
)


@dataclass
class FakeVllm:
    """The GPU and the model that vLLM meets; ``asked`` is what reached its constructor."""

    context: int = 32_768  # positions that the model has
    cached: int = 1 << 40  # positions that the memory holds
    free_share: float = 1.0  # of the GPU's memory
    gpus: int = 4
    asked: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)  # of collective_rpc
    runner: bool = True
    asynchronous: bool = True

    def construct(self, **options: Any) -> SimpleNamespace:
        """``vllm.LLM(...)``."""
        self.asked.clear()
        self.asked.update(options)
        length, share = options["max_model_len"], options.get("gpu_memory_utilization", 0.92)
        if length > self.context:
            raise ValueError(f"User-specified max_model_len ({length}) is greater than the derived max_model_len")
        if options["tensor_parallel_size"] > 1 and os.environ.get("VLLM_WORKER_MULTIPROC_METHOD") != "spawn":
            raise RuntimeError(FORKED)
        if share > self.free_share:
            raise ValueError(
                f"Free memory on device cuda:0 ({80 * self.free_share:.2f}/80.0 GiB) on startup is less than desired "
                f"GPU memory utilization ({share}, {80 * share:.2f} GiB). Decrease GPU memory utilization or reduce "
                "GPU memory used by other processes."
            )
        if length > self.cached:
            raise ValueError(
                f"To serve at least one request with the model's max seq len ({length}), (9.9 GiB KV cache is needed, "
                "which is larger than the available KV cache memory (1.0 GiB). Try increasing `gpu_memory_utilization` "
                "or decreasing `max_model_len` when initializing the engine."
            )
        config = SimpleNamespace(
            parallel_config=SimpleNamespace(tensor_parallel_size=min(options["tensor_parallel_size"], self.gpus)),
            model_config=SimpleNamespace(
                max_model_len=length, dtype="torch.bfloat16", quantization=options.get("quantization")
            ),
            scheduler_config=SimpleNamespace(async_scheduling=self.asynchronous),
            use_v2_model_runner=self.runner,
        )
        return SimpleNamespace(
            llm_engine=SimpleNamespace(vllm_config=config),
            get_tokenizer=lambda: None,
            collective_rpc=lambda how, kwargs: self.calls.append((how, kwargs)),
            reset_prefix_cache=lambda: True,
        )

    def modules(self) -> dict[str, Any]:
        """The modules that the engine imports, by name."""
        configured = SimpleNamespace(max_model_len=self.context)
        arguments = SimpleNamespace(EngineArgs=lambda **_: SimpleNamespace(create_model_config=lambda: configured))
        platform = SimpleNamespace(is_cpu=lambda: False, device_type="cuda")
        return {
            "vllm": SimpleNamespace(LLM=self.construct, __version__="0"),
            "vllm.engine.arg_utils": arguments,
            "vllm.lora.request": SimpleNamespace(LoRARequest=lambda *which: which),
            "vllm.platforms": SimpleNamespace(current_platform=platform),
        }


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeVllm) -> FakeVllm:
    """Put the stand-in in the place of vLLM for one test."""
    modules = fake.modules()
    monkeypatch.setattr("stapo_bench.engines.vllm.import_module", modules.__getitem__)
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_WORKER_MULTIPROC_METHOD", "VLLM_USE_FLASHINFER_SAMPLER"):
        monkeypatch.delenv(name, raising=False)  # and put back what the engine sets
    return fake
