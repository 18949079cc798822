"""The parity gate: before two runs are compared, everything that differs besides the weights is listed.

A difference ``confounds`` when it can move a score by itself (prompt, decoding, token limit, grader, other problems):
then a gap between the runs is no evidence about the weights. It asks for ``caution`` when it should not move a score
but may (engine, precision, package versions). Another seed is what two runs ought to have, and is only noted. What is
not known of an imported run is ``unknown``: it may differ, in whichever way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stapo_bench.runs import Identity, LoadedRun

Weight = Literal["confounds", "unknown", "caution", "note"]

UNKNOWN = "unknown"
_SCRIPT = "script_sha256"  # in the engine's identity

_WEIGHTS: tuple[tuple[str, Weight], ...] = (
    ("sampling.", "confounds"),
    ("tasks.", "confounds"),
    ("grader", "confounds"),
    ("engine", "caution"),
    ("versions", "caution"),
    ("seed", "note"),
)


@dataclass(frozen=True, kw_only=True)
class ParityDifference:
    """A field in which two runs differ."""

    field: str
    a: str
    b: str
    weight: Weight
    task: str | None = None  # whose field it is, where it is a task's

    def __str__(self) -> str:
        return f"{self.field}: {self.a} in A, {self.b} in B"


def parity(a: LoadedRun, b: LoadedRun) -> list[ParityDifference]:
    """All differences besides the weights, the confounding ones first, then what is not known of an imported run."""
    fields_a, fields_b = _both(a, b)
    tasks = a.manifest.identity.tasks.keys() & b.manifest.identity.tasks.keys()
    found = [
        ParityDifference(
            field=field,
            a=_short(fields_a.get(field)),
            b=_short(fields_b.get(field)),
            weight=_weight(field, fields_a.get(field), fields_b.get(field)),
            task=max((task for task in tasks if field.startswith(f"tasks.{task}.")), key=len, default=None),
        )
        for field in sorted({*fields_a, *fields_b})
        if fields_a.get(field) != fields_b.get(field) or fields_a.get(field) == UNKNOWN
    ]
    order: Sequence[Weight] = ("confounds", "unknown", "caution", "note")
    return sorted(found, key=lambda item: order.index(item.weight))


def tasks_together(found: Sequence[ParityDifference], titles: Mapping[str, str]) -> list[ParityDifference]:
    """The same with several tasks' as one: of each field that differs, and of all fields that are not known.

    ``titles``: what tasks are called; a task without one keeps its name.
    """
    groups: dict[tuple[str, ...], list[ParityDifference]] = {}
    for item in found:
        groups.setdefault((item.weight, _group(item)), []).append(item)
    return [one for items in groups.values() for one in _as_one(items, titles)]


def _group(item: ParityDifference) -> str:
    """What is said once for several tasks; all else is a group of its own."""
    if item.task is None:
        return item.field
    return "tasks.*" if item.weight == "unknown" else f"tasks.*.{_within_task(item)}"


def _within_task(item: ParityDifference) -> str:
    return item.field.removeprefix(f"tasks.{item.task}.")


def _as_one(items: Sequence[ParityDifference], titles: Mapping[str, str]) -> Sequence[ParityDifference]:
    tasks = list(dict.fromkeys(item.task for item in items if item.task is not None))
    if len(tasks) < 2:
        return items
    fields, named = dict.fromkeys(map(_within_task, items)), (titles.get(task, task) for task in tasks)
    return [
        ParityDifference(
            field=f"{', '.join(fields)} of {', '.join(named)}",
            a=_common(item.a for item in items),
            b=_common(item.b for item in items),
            weight=items[0].weight,
        )
    ]


def _common(values: Iterable[str]) -> str:
    """The value that all have, or that they have several."""
    found = set(values)
    return found.pop() if len(found) == 1 else "one for each"


def _both(a: LoadedRun, b: LoadedRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of both runs; where one was imported, engine and versions are one field each: nobody knows them."""
    identities = a.manifest.identity, b.manifest.identity
    left = {**_fields(*identities), "grader": a.grader}
    right = {**_fields(*reversed(identities)), "grader": b.grader}
    if all(identity.imported is None for identity in identities):
        return left, right
    for fields, identity in ((left, identities[0]), (right, identities[1])):
        for part, whole in (("engine", identity.engine), ("versions", identity.versions)):
            for name in [name for name in fields if name.startswith(f"{part}.")]:
                del fields[name]
            fields[part] = ", ".join(f"{key} {value}" for key, value in (whole or {}).items()) or UNKNOWN
        fields.update({name: UNKNOWN for name, value in fields.items() if value is None})
        for task in _without_style(*identities):  # nor are its prompts, which says it
            for name in [name for name in fields if name.startswith(f"tasks.{task}.style.")]:
                del fields[name]
    return left, right


def _without_style(*identities: Identity) -> set[str]:
    """The tasks of which not all runs know what stood around the questions."""
    return {name for identity in identities for name, task in identity.tasks.items() if task.style is None}


_NEVER_SAID = ("engine", "grader", "prompts", "sampling.max_new_tokens", "sampling.temperature", "sampling.top_p")
"""What a table of outcomes does not say and a score depends on, by the fields' names of a run."""


def unknown_parity(a: LoadedRun | None, b: LoadedRun | None) -> list[ParityDifference]:
    """What cannot be looked at where one side, or both (None), is a table of outcomes: all of it."""
    said = [_said(run) for run in (a, b)]
    return [
        ParityDifference(field=field, a=said[0].get(field, UNKNOWN), b=said[1].get(field, UNKNOWN), weight="unknown")
        for field in _NEVER_SAID
    ]


def _said(run: LoadedRun | None) -> dict[str, str]:
    if run is None:
        return {}
    identity = run.manifest.identity
    sampling = {name: value for name, value in identity.fields().items() if name.startswith("sampling.")}
    engine = ", ".join(f"{key} {value}" for key, value in identity.engine.items())
    found = {**sampling, "engine": engine or None, "grader": run.grader, "prompts": "those of its manifest"}
    return {name: _short(value) for name, value in found.items() if value is not None}


def _weight(field: str, a: Any, b: Any) -> Weight:
    if UNKNOWN in (a, b):
        return "note" if field == "seed" else "unknown"
    return next((weight for prefix, weight in _WEIGHTS if field.startswith(prefix)), "caution")


def same_weights(a: LoadedRun, b: LoadedRun) -> bool:
    """Both runs sampled the same checkpoint, as far as it is known: unknown weights are not taken for the same."""
    return weights_of(a) == weights_of(b) and weights_of(a)[0] is not None


def weights_of(run: LoadedRun) -> tuple[str | None, str | None]:
    """What stands for the weights: the checkpoint (None: not known of an imported run), and the script of a scripted
    engine, which has no checkpoint.
    """
    identity = run.manifest.identity
    return identity.checkpoint_digest, identity.engine.get(_SCRIPT)


def _fields(identity: Identity, other: Identity) -> dict[str, Any]:
    """Flat fields without the weights; tasks that only one run has are not compared at all."""
    fields = identity.with_tasks(identity.tasks.keys() & other.tasks.keys()).fields()
    return {
        name: value
        for name, value in fields.items()
        if not name.startswith(("checkpoint.", "imported.")) and name != f"engine.{_SCRIPT}"
    }


def _short(value: Any) -> str:
    """A value for a reader: digests are cut, absence is said."""
    text = "nothing" if value is None else str(value)
    return text[:12] if len(text) == 64 else text
