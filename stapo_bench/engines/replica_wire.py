"""What a replica is told and what it says, as JSON: options, requests and completions, each read back as it was."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from stapo_bench.engines.options import EngineOptions
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams

Message = dict[str, Any]


class Replica(Protocol):
    """Where a replica runs: messages go in by ``send``; those that come out are put into the queue it was given."""

    name: str

    def send(self, message: Message | None) -> None:
        """Hand over a message; None: close. One that is dead loses it."""
        ...

    def end(self, patience_s: float = 1.0) -> str:
        """End it, after so many seconds by force, and say how it ended."""
        ...


Outbox = SimpleQueue[tuple[Replica, Message | None]]
"""What replicas say, in the order of each; None: it has ended."""


def opening(options: EngineOptions, checkpoint: Path) -> Message:
    """What a replica has to open."""
    values = {field.name: getattr(options, field.name) for field in fields(options) if field.name != "golds"}
    return {
        "checkpoint": str(checkpoint),
        "options": {**values, "adapter": None if options.adapter is None else str(options.adapter)},
        "golds": None if options.golds is None else [[*key, answer] for key, answer in options.golds.items()],
    }


def opened_by(message: Mapping[str, Any]) -> tuple[EngineOptions, Path]:
    """The reverse of ``opening``."""
    values, golds = dict(message["options"]), message["golds"]
    values["base_urls"] = tuple(values["base_urls"])
    values["adapter"] = None if values["adapter"] is None else Path(values["adapter"])
    values["golds"] = None if golds is None else {(task, problem): answer for task, problem, answer in golds}
    return EngineOptions(**values), Path(message["checkpoint"])


def params_of(raw: Mapping[str, Any]) -> SamplingParams:
    """The reverse of ``asdict``."""
    return SamplingParams(**{**raw, "stop": tuple(raw["stop"])})


def request_of(raw: Mapping[str, Any]) -> Request:
    """The reverse of ``asdict``."""
    prompt = {**raw["prompt"], "token_ids": _ids(raw["prompt"]["token_ids"])}
    return Request(
        key=SampleKey(*raw["key"]),
        prompt=Prompt(**prompt),
        seed=raw["seed"],
        generated_ids=tuple(raw["generated_ids"]),
        max_new_tokens=raw["max_new_tokens"],
    )


def completion_of(raw: Mapping[str, Any]) -> Completion:
    """The reverse of ``asdict``."""
    known = {name: _ids(raw[name]) for name in ("token_ids", "log_probs")}
    return Completion(**{**raw, **known, "key": SampleKey(*raw["key"]), "tool_outputs": ()})  # calls are made outside


def as_json(record: Request | Completion | SamplingParams) -> Message:
    """A record as a JSON value."""
    return asdict(record)


def _ids(values: Any) -> Any:
    return None if values is None else tuple(values)
