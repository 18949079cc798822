"""What an engine is, and which engines there are by name; what they can be asked for is in ``options``.

    engine = open_here(EngineOptions(name="vllm", tensor_parallel=2), Path("checkpoint"))

An engine is a class that is an ``EngineType``. One of ours is a file in this package and a line in ``BUILT_IN``;
another package's is an entry point, loaded when it is asked for:

    [project.entry-points."stapo_bench.engines"]
    mine = "my_package.engine:MyEngine"
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Protocol, cast, runtime_checkable

from stapo_bench.engines.devices import default_device, gpu_groups
from stapo_bench.engines.options import AUTO, SERVER_REFUSAL, EngineOptions, check_ray, check_urls
from stapo_bench.engines.params import check_applied, check_params
from stapo_bench.engines.spent import Spent, prices
from stapo_bench.errors import StapoError, UsageError, did_you_mean
from stapo_bench.plugins import load_offered, offered
from stapo_bench.records import Completion, Request, SamplingParams

BUILT_IN = {
    "transformers": "stapo_bench.engines.transformers:TransformersEngine",
    "vllm": "stapo_bench.engines.vllm:VllmEngine",
    "openai": "stapo_bench.engines.openai:OpenAIEngine",
    "scripted": "stapo_bench.engines.scripted:ScriptedEngine",
}
"""Our engines: name -> where its class stands."""

_LOADING = ("transformers", "vllm")  # ours that load weights themselves
_DTYPES = ("float32", "bfloat16", "float16")

WITH_TORCH = {"transformers": frozenset({"adapter", "dtype", "device", "ray", "replicas", "slots"})}
"""Those that import torch -> what they take: known here, so that an option is refused before torch is imported."""

EVERY_SETTING = frozenset({"greedy", "top_k", "min_p", "stop", "thinking_budget"})
"""What an engine may apply of ``SamplingParams`` beside temperature, top-p and the limit; greedy is temperature 0."""

TOOLS = "tools"
"""What an engine's ``applies`` holds as well where its replies may call tools: it goes on behind a prompt's token ids,
gives back those it drew, ends at a text, and keeps to a request's own limit."""

AS_DRAWN = "as drawn"
"""What an engine's identity says under ``log_probs`` whose completions have those that a ``Completion`` promises; those
of runs before it was said are at the temperature and before the cuts."""

_GROUP = "stapo_bench.engines"


class Engine(Protocol):
    """Generates completions for requests.

    Implementations: ``stapo_bench.engines.transformers`` (any machine), ``.vllm`` (GPUs), ``.openai`` (any compatible
    server), ``.scripted`` (known success rates, for tests).
    """

    continues_exactly: bool
    """Whether it continues behind a request's ``generated_ids`` with the very tokens that one longer generation would
    have had: token j of a sample depends on its seed and on j alone. Other engines refuse requests that have any."""

    def identity(self) -> dict[str, str]:
        """Name (``engine``), version, device, dtype: what could change a sample though the request stays the same."""
        ...

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """Yield one completion per request, as each ends and in any order.

        A request's completion depends on its prompt, its seed and ``params``, not on the requests beside it
        (up to floating-point rounding in engines that batch).
        """
        ...

    def close(self) -> None:
        """Release memory, processes and connections."""
        ...


@runtime_checkable
class Tells(Protocol):
    """An engine that has something to say to the person watching while it generates: whom it waits for."""

    tell: Callable[[str], None]
    """Takes a line; standard error's, until a caller that shows more gives its own."""


@runtime_checkable
class Charges(Protocol):
    """An engine whose answers are charged for."""

    @property
    def spent(self) -> Spent:
        """What all answers so far cost."""
        ...


class EngineType(Protocol):
    """What stands behind an engine's name: the class that opens it, and says what it can be asked for."""

    takes: frozenset[str]
    """The fields of ``EngineOptions``, beside ``name``, that it applies; any other one that is given is refused."""
    applies: frozenset[str]
    """What of ``EVERY_SETTING`` it applies exactly; what else is on is refused. Without this attribute: nothing."""

    def open(self, checkpoint: Path, options: EngineOptions) -> Engine:
        """An engine for a checkpoint: a Hugging Face folder, or whatever else this engine reads."""
        ...

    def declared_identity(self, checkpoint: Path, options: EngineOptions) -> dict[str, str]:
        """The part of ``Engine.identity`` that is known before a model is loaded, ``engine`` at least."""
        ...


def check_options(options: EngineOptions, checkpoint: Path) -> None:
    """Refuse what an engine of ours cannot do, as far as that is known without importing torch.

    Raises:
        UsageError: as for ``open_here``, or a file in place of the folder that the engine reads.
        StapoError: vLLM is asked for and not installed, or transformers cannot load what the folder holds.
    """
    name = "transformers" if options.name == AUTO and not has_vllm() else options.name
    if name in WITH_TORCH:
        _check_taken(name, WITH_TORCH[name], options)
    elif name in BUILT_IN:
        declared_identity(options, checkpoint)
    elif name == AUTO and (options.base_urls or options.model):
        raise UsageError(SERVER_REFUSAL.format(name=name))
    if options.dtype is not None and options.dtype not in _DTYPES:
        raise UsageError(f"--dtype: expected one of {', '.join(_DTYPES)}, got {options.dtype!r}")
    if options.ray is not None:
        check_ray(options)
    elif options.replicas is not None:
        gpu_groups(options.replicas, options.tensor_parallel or 1)
    if name == "vllm" and options.ray is None:  # where the replicas run is where it has to be
        require_vllm()
    if name == "openai":
        check_urls(options.base_urls)
        if options.price is not None:
            prices(options.price)
    if name in (AUTO, "transformers", "vllm") and checkpoint.is_file():
        raise UsageError(
            f"{checkpoint}: expected a Hugging Face folder (config.json and weights) for --engine {options.name}, "
            "got a file; a script is for --engine scripted"
        )
    if options.adapter is not None:
        from stapo_bench.engines.adapter import read_adapter  # slow to import

        read_adapter(options.adapter)
    if name == "transformers":
        from stapo_bench.engines.foreign_checkpoint import check_parts  # slow to import

        check_parts(checkpoint)


def require_vllm() -> None:
    """StapoError, with the extra that brings it, where vLLM is not installed."""
    if not has_vllm():
        raise StapoError(
            "engine vllm: the package is not installed; install the extra: pip install 'stapo-bench[vllm]'"
        )


def has_vllm() -> bool:
    """Whether the package is there; it is not imported."""
    return "vllm" in sys.modules or find_spec("vllm") is not None


def check_taken(options: EngineOptions) -> None:
    """Refuse what the engine does not take; UsageError as for ``open_here``."""
    _resolved(options)


def open_here(options: EngineOptions, checkpoint: Path) -> Engine:
    """Start an engine in this process.

    Raises:
        UsageError: no engine has that name, or the engine does not take one of the options.
    """
    engine_type, options = _resolved(options)
    return engine_type.open(checkpoint, options)


def declared_identity(options: EngineOptions, checkpoint: Path) -> dict[str, str]:
    """What an engine's ``identity()`` will say, as far as the options tell.

    Enough to refuse another engine or another script before a model is loaded. Raises as ``open_here`` does.
    """
    engine_type, options = _resolved(options)
    identity = engine_type.declared_identity(checkpoint, options)
    if identity.get("engine") != options.name:
        raise StapoError(
            f"engine {options.name}: expected engine {options.name!r} in its declared identity, got {identity}"
        )
    return identity


def check_sampling(options: EngineOptions, params: SamplingParams) -> None:
    """Refuse sampling that cannot be, or that the engine does not apply exactly, before a model is loaded.

    Raises:
        UsageError: as ``check_params`` and ``check_applied``.
    """
    check_params(params)
    check_applied(params, *_applied(options))


def check_tool(options: EngineOptions, tool: str) -> None:
    """Refuse a tool where the engine cannot go on behind its output: UsageError."""
    name, applies = _applied(options)
    if TOOLS not in applies:
        raise UsageError(
            f"tool {tool}: expected an engine that goes on behind the tool's tokens (transformers, vllm), got {name}, "
            "which does not"
        )


def _applied(options: EngineOptions) -> tuple[str, frozenset[str]]:
    """An engine's name, and what it applies."""
    name = "transformers" if options.name == AUTO else options.name  # which applies what vLLM does
    if name in WITH_TORCH:
        return name, EVERY_SETTING | {TOOLS}
    return name, getattr(_engine_type(name), "applies", frozenset())


def options_of(identity: Mapping[str, str]) -> EngineOptions:
    """The options behind a stored ``identity()``, as far as it states them."""
    split = identity.get("tensor_parallel")
    return EngineOptions(
        name=identity.get("engine", AUTO),
        model=identity.get("model"),
        tensor_parallel=int(split) if split is not None else None,
        chat=identity.get("api") == "chat",
        quantization=identity.get("quantization"),
        dtype=identity.get("dtype") if identity.get("engine") in _LOADING else None,
    )


def engine_names() -> list[str]:
    """Every name that ``EngineOptions`` may have: ours, then those of other packages."""
    return [AUTO, *BUILT_IN, *offered(_GROUP, (AUTO, *BUILT_IN))]


def has_engine(name: str) -> bool:
    """Whether an engine has this name."""
    return name in (AUTO, *BUILT_IN) or name in engine_names()


def _resolved(options: EngineOptions) -> tuple[EngineType, EngineOptions]:
    """The class behind the name, and the options that it gets: under its own name, and none that it does not take."""
    name = options.name
    if name == AUTO:
        name = "vllm" if _vllm_on_gpu() else "transformers"
    engine_type = _engine_type(name)
    _check_taken(name, engine_type.takes, options)
    return engine_type, replace(options, name=name, golds=options.golds if "golds" in engine_type.takes else None)


def _check_taken(name: str, takes: frozenset[str], options: EngineOptions) -> None:
    """Refuse an option that is given and not taken."""
    for option in fields(options):
        if option.name not in takes | {"name", "golds", "positions"} and getattr(options, option.name):
            refusal = option.metadata.get("refusal", "{name}: expected no option " + option.name)
            raise UsageError(refusal.format(name=name))


def _engine_type(name: str) -> EngineType:
    """The class behind a name; what it needs is imported here."""
    if name in BUILT_IN:
        return cast(EngineType, resolve_name(BUILT_IN[name]))
    places = offered(_GROUP, BUILT_IN)
    if name not in places:
        names = engine_names()
        hint = did_you_mean(name, names)
        raise UsageError(f"engine: expected one of {', '.join(names)}, got {name!r}" + (f"; {hint}" if hint else ""))
    loaded = load_offered(f"engine {name}", places[name])
    if not all(hasattr(loaded, part) for part in ("takes", "open", "declared_identity")):
        raise StapoError(f"engine {name}: expected a class with takes, open and declared_identity at {places[name]}")
    return cast(EngineType, loaded)


def _vllm_on_gpu() -> bool:
    """Whether ``auto`` means vLLM on this machine."""
    if not has_vllm():
        return False
    return default_device() == "cuda"
