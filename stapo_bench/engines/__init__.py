"""Engines draw completions. The interface is one method; everything that decides a sample is in its arguments or in
``identity()``, which goes into the run's manifest.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from stapo_bench.engines.decoding import PRESETS, preset, sampling_in_words
from stapo_bench.errors import UsageError, did_you_mean
from stapo_bench.records import Completion, Request, SamplingParams

ENGINES = ("auto", "transformers", "vllm", "openai", "scripted")
"""Names that ``open_engine`` takes."""


class Engine(Protocol):
    """Draws completions for requests.

    Implementations: ``stapo_bench.engines.transformers`` (any machine), ``.vllm`` (GPUs), ``.openai`` (any compatible
    server), ``.scripted`` (known success rates, for tests).
    """

    goes_on: bool
    """Whether it goes on behind a request's ``drawn_ids`` with the very tokens that one longer draw would have had:
    draw j of a sample depends on its seed and on j alone. Other engines refuse requests that have any."""

    def identity(self) -> dict[str, str]:
        """Name, version, device, dtype: what could change a sample though the request stays the same."""
        ...

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """Yield one completion per request, as each ends and in any order.

        A request's completion depends on its prompt, its seed and ``params``, not on the requests beside it
        (up to floating-point rounding in engines that batch).
        """
        ...

    def close(self) -> None:
        """Give back memory, processes and connections."""
        ...


def open_engine(
    name: str,
    checkpoint: Path,
    *,
    golds: Mapping[tuple[str, str], str] | None = None,
    dtype: str | None = None,
    device: str | None = None,
    slots: int | None = None,
    base_urls: Sequence[str] = (),
    model: str | None = None,
    tensor_parallel: int | None = None,
) -> Engine:
    """Start an engine by name; ``auto`` is ``vllm`` where it and a GPU are there, else ``transformers``.

    Args:
        name: one of ``ENGINES``.
        checkpoint: a Hugging Face folder; for ``scripted`` the script's YAML file; ``openai`` does not read it.
        golds: (task, problem_id) -> answer, for ``scripted`` alone: it has to know what is right.
        dtype: of the weights; default the engine's own choice.
        device: default the GPU where there is one.
        slots: sequences at once, or requests in flight; default the engine's own choice.
        base_urls: servers of ``openai``, with ``/v1``; the key is read from ``OPENAI_API_KEY``.
        model: the name that the servers serve it under; default the one they have.
        tensor_parallel: GPUs that share the model, for ``vllm`` alone; default 1.
    """
    name = _resolved(name, tensor_parallel)
    if name == "scripted":
        from stapo_bench.engines.scripted import ScriptedEngine, load_script

        return ScriptedEngine(load_script(checkpoint), golds or {})
    if name == "openai":
        from stapo_bench.engines.openai import OpenAIEngine

        return OpenAIEngine(base_urls, model=model, api_key=os.environ.get("OPENAI_API_KEY"), concurrency=slots)
    if name == "vllm":
        from stapo_bench.engines.vllm import VllmEngine

        return VllmEngine(checkpoint, dtype=dtype, slots=slots, tensor_parallel=tensor_parallel or 1)
    from stapo_bench.engines.transformers import TransformersEngine

    return TransformersEngine.from_checkpoint(checkpoint, dtype=dtype, device=device, slots=slots)


def declared_identity(
    name: str, checkpoint: Path, *, model: str | None = None, tensor_parallel: int | None = None
) -> dict[str, str]:
    """What an engine's ``identity()`` will say, as far as the arguments, those of ``open_engine``, tell.

    Enough to refuse another engine or another script before a model is loaded.
    """
    name = _resolved(name, tensor_parallel)
    if name == "scripted":
        return open_engine(name, checkpoint).identity()
    more = {"vllm": {"tensor_parallel": str(tensor_parallel or 1)}, "openai": {"model": model} if model else {}}
    return {"engine": name, **more.get(name, {})}


def _resolved(name: str, tensor_parallel: int | None) -> str:
    """The engine's own name for ``auto``; what no engine can do is refused."""
    if name not in ENGINES:
        hint = did_you_mean(name, ENGINES)
        raise UsageError(f"engine: expected one of {', '.join(ENGINES)}, got {name!r}" + (f"; {hint}" if hint else ""))
    if name == "auto":
        name = "vllm" if _vllm_on_gpu() else "transformers"
    if tensor_parallel is not None and name != "vllm":
        raise UsageError(f"--tensor-parallel: expected engine vllm, got {name}, which cannot split a model over GPUs")
    return name


def _vllm_on_gpu() -> bool:
    if find_spec("vllm") is None:
        return False
    import torch

    return torch.cuda.is_available()
