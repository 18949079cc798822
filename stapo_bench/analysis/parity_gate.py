"""The parity gate: before two runs are compared, everything that differs besides the weights is listed.

A difference ``confounds`` when it can move a score by itself (prompt, decoding, token limit, grader, other problems):
then a gap between the runs is no evidence about the weights. It asks for ``caution`` when it should not move a score
but may (engine, precision, package versions). Another seed is what two runs ought to have, and is only noted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stapo_bench.runs import Identity, LoadedRun

Weight = Literal["confounds", "caution", "note"]

_SCRIPT = "script_sha256"  # in the engine's identity

_WEIGHTS: tuple[tuple[str, Weight], ...] = (
    ("sampling.", "confounds"),
    ("tasks.", "confounds"),
    ("grader", "confounds"),
    ("engine.", "caution"),
    ("versions.", "caution"),
    ("seed", "note"),
)


@dataclass(frozen=True, kw_only=True)
class ParityDifference:
    """A field in which two runs differ."""

    field: str
    a: str
    b: str
    weight: Weight

    def __str__(self) -> str:
        return f"{self.field}: {self.a} in A, {self.b} in B"


def parity(a: LoadedRun, b: LoadedRun) -> list[ParityDifference]:
    """All differences besides the weights, the confounding ones first."""
    fields_a = {**_fields(a.manifest.identity, b.manifest.identity), "grader": a.grader}
    fields_b = {**_fields(b.manifest.identity, a.manifest.identity), "grader": b.grader}
    found = [
        ParityDifference(
            field=field,
            a=_short(fields_a.get(field)),
            b=_short(fields_b.get(field)),
            weight=next((weight for prefix, weight in _WEIGHTS if field.startswith(prefix)), "caution"),
        )
        for field in sorted({*fields_a, *fields_b})
        if fields_a.get(field) != fields_b.get(field)
    ]
    order: Sequence[Weight] = ("confounds", "caution", "note")
    return sorted(found, key=lambda item: order.index(item.weight))


def same_weights(a: LoadedRun, b: LoadedRun) -> bool:
    """Both runs sampled the same checkpoint."""
    return weights_of(a) == weights_of(b)


def weights_of(run: LoadedRun) -> tuple[str, str | None]:
    """What stands for the weights: the checkpoint, and the script of a scripted engine, which has no checkpoint."""
    identity = run.manifest.identity
    return identity.checkpoint_digest, identity.engine.get(_SCRIPT)


def _fields(identity: Identity, other: Identity) -> dict[str, Any]:
    """Flat fields without the weights; tasks that only one run has are not compared at all."""
    fields = identity.with_tasks(identity.tasks.keys() & other.tasks.keys()).fields()
    return {
        name: value
        for name, value in fields.items()
        if not name.startswith("checkpoint.") and name != f"engine.{_SCRIPT}"
    }


def _short(value: Any) -> str:
    """A value for a reader: digests are cut, absence is said."""
    text = "nothing" if value is None else str(value)
    return text[:12] if len(text) == 64 else text
