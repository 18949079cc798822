"""Engines draw completions. The interface is one method; everything that decides a sample is in its arguments or in
``identity()``, which goes into the run's manifest.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from stapo_bench.errors import UsageError
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
    """
    if name not in ENGINES:
        near = get_close_matches(name, ENGINES, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"engine: expected one of {', '.join(ENGINES)}, got {name!r}{hint}")
    if name == "auto":
        name = "vllm" if _vllm_on_gpu() else "transformers"
    if name == "scripted":
        from stapo_bench.engines.scripted import ScriptedEngine, load_script

        return ScriptedEngine(load_script(checkpoint), golds or {})
    if name == "openai":
        from stapo_bench.engines.openai import OpenAIEngine

        return OpenAIEngine(base_urls, model=model, api_key=os.environ.get("OPENAI_API_KEY"), concurrency=slots)
    if name == "vllm":
        from stapo_bench.engines.vllm import VllmEngine

        return VllmEngine(checkpoint, dtype=dtype, slots=slots)
    from stapo_bench.engines.transformers import TransformersEngine

    return TransformersEngine.from_checkpoint(checkpoint, dtype=dtype, device=device, slots=slots)


def _vllm_on_gpu() -> bool:
    if find_spec("vllm") is None:
        return False
    import torch

    return torch.cuda.is_available()
