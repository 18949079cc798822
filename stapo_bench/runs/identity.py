"""The identity of a run: all that decides its samples, as records and as the JSON of which its digest is taken.

    identity.digest, identity.sampling.temperature, identity.tasks["aime24"].prompts

What is off leaves no trace in the JSON: a run keeps the digest that it had before there was a choice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stapo_bench.records import PromptStyle, SamplingParams, StatedSampling
from stapo_bench.runs.nested import JsonFields, beyond, canonical_digest, flatten, merged


@dataclass(frozen=True, kw_only=True)
class TaskIdentity:
    """The parts of a task that decide its samples."""

    data: str  # digest of its problems, see ``data_digest``
    prompts: str | None  # digest of the texts or token ids that the engine gets, see ``prompts_digest``
    prompt_format: str | None  # chat, base or plain
    style: PromptStyle | None = field(default_factory=PromptStyle)  # what else stands around a question
    tool: str | None = None  # name and version of the one that replies may call; None: none

    def to_json(self) -> dict[str, Any]:
        """The JSON value in the file; what no prompt has leaves no trace."""
        known: dict[str, Any] = {"data": self.data, "prompts": self.prompts, "prompt_format": self.prompt_format}
        if self.tool is not None:
            known["tool"] = self.tool
        style = None if self.style is None else self.style.to_json()
        is_said = style is not None and (style or self.prompts is None)  # where prompts are not known, nothing is said
        return {**known, "style": style} if is_said else known


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Everything that decides a sample: a run folder takes samples of one identity.

    In a run whose samples were imported, what their files do not say is None, here and in ``TaskIdentity``.
    """

    checkpoint_digest: str | None  # sha256 of names and contents of its files; of an adapter "<base>+<adapter>"
    tasks: Mapping[str, TaskIdentity]  # by name
    sampling: StatedSampling
    seed: int | None
    engine: Mapping[str, str]  # what the engine says of itself
    versions: Mapping[str, str] | None = None  # of what else takes part; None: not stated
    imported: Mapping[str, str] | None = None  # where the samples come from if another tool drew them: format, files
    extra: Mapping[str, Any] = field(default_factory=dict)  # what this version does not know, nested as in the file

    @property
    def digest(self) -> str:
        """sha256 of its canonical JSON."""
        return canonical_digest(self.to_json())

    @property
    def log_probs_as_drawn(self) -> bool:
        """Whether its engine says that log-probs are those with which tokens were drawn, not those before the cuts."""
        return self.engine.get("log_probs") == "as drawn"

    def fields(self) -> dict[str, Any]:
        """Every field under its dotted name: ``sampling.top_p``, ``tasks.aime24.data``."""
        return flatten(self.to_json())

    def with_tasks(self, names: Iterable[str]) -> "Identity":
        """The identity with only these of its tasks."""
        wanted = set(names)
        tasks = {name: task for name, task in self.tasks.items() if name in wanted}
        others = {name: task for name, task in self.extra.get("tasks", {}).items() if name in wanted}
        extra = {name: value for name, value in self.extra.items() if name != "tasks"}
        return replace(self, tasks=tasks, extra={**extra, "tasks": others} if others else extra)

    def to_json(self) -> dict[str, Any]:
        """The JSON value in the file, of which the digest is taken."""
        known = {
            "checkpoint": {"digest": self.checkpoint_digest},
            "tasks": {name: task.to_json() for name, task in self.tasks.items()},
            "sampling": _sampling_json(self.sampling),
            "seed": self.seed,
            "engine": dict(self.engine),
            **({} if self.versions is None else {"versions": dict(self.versions)}),
            **({} if self.imported is None else {"imported": dict(self.imported)}),
        }
        return merged(known, self.extra)

    @staticmethod
    def from_json(raw: Any) -> "Identity":
        """The reverse of ``to_json``; ValueError says which field is not as expected."""
        fields = JsonFields(raw, "identity")
        imported = fields.texts("imported") if fields.states("imported") else None
        unknown = imported is not None  # only then may something be null
        found = Identity(
            checkpoint_digest=_known(unknown, fields.inner("checkpoint"), "text", "digest"),
            tasks={
                name: TaskIdentity(
                    data=task.text("data"),
                    prompts=_known(unknown, task, "text", "prompts"),
                    prompt_format=_known(unknown, task, "text", "prompt_format"),
                    style=_style(task, unknown),
                    tool=task.text("tool") if task.states("tool") else None,
                )
                for name, task in fields.members("tasks").items()
            },
            sampling=_sampling(fields.inner("sampling"), unknown),
            seed=_known(unknown, fields, "integer", "seed"),
            engine=fields.texts("engine"),
            versions=fields.texts("versions") if fields.states("versions") else None,
            imported=imported,
        )
        return replace(found, extra=beyond(raw, found.to_json()))


def _known(unknown: bool, fields: JsonFields, kind: str, name: str) -> Any:
    """A field of that kind (a reader's name); None where it is null and may be unknown."""
    return None if unknown and not fields.states(name) else getattr(fields, kind)(name)


def _style(task: JsonFields, unknown: bool) -> PromptStyle | None:
    """What a task says of it; where it says nothing there is nothing, or of an imported run it is not known."""
    if task.states("style"):
        return read_style(task.inner("style"))
    return None if unknown else PromptStyle()


def read_style(fields: JsonFields) -> PromptStyle:
    """What stands around a question; an example is a pair of texts."""
    return PromptStyle(
        system=fields.text_or_none("system") or "",
        examples=fields.text_pairs("examples") if fields.states("examples") else (),
        chat_template_kwargs=fields.object("chat_template_kwargs") if fields.states("chat_template_kwargs") else {},
        assistant_prefix=fields.text_or_none("assistant_prefix") or "",
    )


def _sampling(fields: JsonFields, unknown: bool) -> StatedSampling:
    """How tokens were sampled: all of it, or what is known of it."""
    values = {
        name: _known(unknown, fields, kind, name)
        for name, kind in (("temperature", "number"), ("top_p", "number"), ("max_new_tokens", "count"))
    }
    values |= optional_sampling(fields)
    return StatedSampling(**values) if None in values.values() else SamplingParams(**values)


def optional_sampling(fields: JsonFields) -> dict[str, Any]:
    """The settings that stand in a file where they are on, by their names."""
    return {name: getattr(fields, kind)(name) for name, kind in _OPTIONAL_SAMPLING.items() if fields.states(name)}


def optional_settings(sampling: StatedSampling) -> dict[str, Any]:
    """The reverse of ``optional_sampling``: those that are on, as JSON holds them."""
    return {name: value for name, value in _sampling_json(sampling).items() if name in _OPTIONAL_SAMPLING}


_OPTIONAL_SAMPLING = {
    "top_k": "count", "min_p": "number", "stop": "text_list", "thinking_budget": "count", "thinking_end": "text",
}  # fmt: skip
"""Settings that stand in the file where they are on, by the reader of their kind."""


def _sampling_json(sampling: StatedSampling) -> dict[str, Any]:
    """How tokens were sampled, without what is off: a run without top-k has the digest that it always had."""
    values = asdict(sampling)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if name not in _OPTIONAL_SAMPLING or value not in (None, ())
    }
