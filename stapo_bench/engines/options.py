"""What an engine can be asked for: every option once, with its flag, its help and what is said where it is refused.

    EngineOptions(name="vllm", tensor_parallel=2)

Which of them an engine takes it says itself, see ``engine``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stapo_bench.engines.devices import check_number
from stapo_bench.errors import StapoError, UsageError, missing_package

AUTO = "auto"
"""The name for ``vllm`` where it and a GPU are there, else ``transformers``."""

SERVER_REFUSAL = "--base-url and --model name a server: expected --engine openai, got {name}"


def _option(flag: str, help_text: str, *, refusal: str, default: Any = None) -> Any:
    """An option of the command line; ``refusal``: what is said where the engine ``{name}`` does not take it."""
    return field(default=default, metadata={"flag": flag, "help": help_text, "refusal": refusal})


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Which engine is asked for, and how it is to run; None leaves a setting to the engine.

    A new option is one line here; the engines that can apply it name it in their ``takes``. Those made with ``_option``
    stand on the command line.
    """

    name: str = AUTO
    base_urls: tuple[str, ...] = _option(
        "--base-url",
        "Server of --engine openai: http://host:8000/v1; may be repeated.",
        refusal=SERVER_REFUSAL,
        default=(),
    )
    model: str | None = _option(
        "--model", "Served name, for --engine openai; default: the one model that is served.", refusal=SERVER_REFUSAL
    )
    chat: bool = _option(
        "--chat",
        "Send --engine openai's questions to /chat/completions: the server's template goes around them.",
        refusal="--chat: expected --engine openai, got {name}",
        default=False,
    )
    price: str | None = _option(
        "--price",
        "Of a million prompt and completion tokens, for --engine openai: 0.15/0.60; what was spent is said at the end.",
        refusal="--price: expected --engine openai, got {name}, which nobody charges for",
    )
    slots: int | None = _option(
        "--slots",
        "Sequences (requests) at once; default: the engine's choice.",
        refusal="--slots: expected an engine that runs several sequences at once, got {name}",
    )
    tensor_parallel: int | None = _option(
        "--tensor-parallel",
        "GPUs that share the model, for --engine vllm.",
        refusal="--tensor-parallel: expected engine vllm, got {name}, which cannot split a model over GPUs",
    )
    replicas: str | None = _option(
        "--replicas",
        "Processes with an engine each, that share the work and the GPUs: a number, or auto for one per GPU (group).",
        refusal="--replicas: expected engine vllm, transformers or scripted, got {name}",
    )
    ray: str | None = _option(
        "--ray",
        "Ray cluster whose machines the replicas run on: auto for the one that this machine is part of, or HOST:PORT.",
        refusal="--ray: expected engine vllm, transformers or scripted, got {name}",
    )
    gpu_memory: float | None = _option(
        "--gpu-memory",
        "Share of a GPU's memory that engine vllm takes; default: vLLM's own choice.",
        refusal="--gpu-memory: expected engine vllm, got {name}, which takes what it needs",
    )
    dtype: str | None = _option(
        "--dtype",
        "Of the weights: float32, bfloat16 or float16; default: float32 on a CPU, bfloat16 on a GPU.",
        refusal="--dtype: expected an engine that loads the weights, got {name}",
    )
    quantization: str | None = _option(
        "--quantization",
        "Of the weights as engine vllm computes: fp8, bitsandbytes, awq, …; default: as the checkpoint says.",
        refusal="--quantization: expected engine vllm, got {name}, which computes with the weights as they are",
    )
    adapter: Path | None = field(
        default=None,
        metadata={"refusal": "--ckpt: expected an engine that applies adapters (transformers, vllm), got {name}"},
    )
    """Folder of a LoRA adapter on the checkpoint, which is its base."""
    device: str | None = None  # as torch names it
    positions: int | None = field(default=None, compare=False)
    """Longest prompt and its new tokens together, where the caller knows: an engine need not be ready for more."""
    golds: Mapping[tuple[str, str], str] | None = field(default=None, compare=False, repr=False)
    """(task, problem_id) -> answer. Only an engine that takes them, to answer at a known rate, sees them."""


def check_ray(options: EngineOptions) -> None:
    """Refuse what no Ray cluster can be asked for, before one is asked.

    Raises:
        UsageError: what cannot be asked for.
        StapoError: Ray is not installed.
    """
    assert options.ray is not None
    if options.name == AUTO:
        raise UsageError("--ray: expected --engine vllm or transformers: auto goes by this machine alone")
    check_number(options.replicas or AUTO)
    if options.ray != AUTO and not re.fullmatch(r"[\w.-]+:\d+|\[[\da-fA-F:]+\]:\d+", options.ray):
        raise UsageError(f"--ray: expected auto or the head's HOST:PORT, such as 10.0.0.1:6379, got {options.ray!r}")
    if find_spec("ray") is None:
        raise StapoError(f"--ray: {missing_package('ray')}")


def check_urls(base_urls: Sequence[str]) -> None:
    """Refuse anything but one or more servers' addresses; one that may hold a password is not shown."""
    if not base_urls:
        raise UsageError("engine openai: expected at least one --base-url, such as http://localhost:8000/v1")
    for url in base_urls:
        if "@" in url:  # wherever it stands, as a password may hold what ends an address
            raise UsageError(
                "--base-url: expected an address without user and password, such as http://localhost:8000/v1; "
                "the key is read from OPENAI_API_KEY"
            )
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is no number, brackets around what is no address
            is_address = False
        if not is_address:
            raise UsageError(
                "--base-url: expected http:// or https://, a host and, where it has one, a port of 1 to 65535, "
                f"got {url.partition('?')[0]!r}"
            )
