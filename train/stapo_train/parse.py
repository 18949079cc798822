"""Nested values, as YAML gives them, to a frozen record: every key known, every type right, every number in range."""

import dataclasses
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import yaml

from stapo_bench.errors import UsageError, did_you_mean

Record = TypeVar("Record")


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """One line for a ``UsageError``.

    >>> unknown_name("key", "objectiv", ["objective", "optim"])
    "unknown key 'objectiv': did you mean 'objective'? expected one of objective, optim"
    """
    names = list(known)
    hint = did_you_mean(name, names)
    return f"unknown {what} '{name}': {hint and hint + ' '}expected one of {', '.join(names)}"


def value_of(pair: str) -> Any:
    """The value of an override ``key=value``, which is YAML.

    >>> value_of("lora={rank: 16}")
    {'rank': 16}
    """
    try:
        return yaml.safe_load(pair.partition("=")[2])
    except (yaml.YAMLError, ValueError) as error:  # ValueError: of no such date
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise UsageError(
            f"override '{pair}': expected YAML, got an error: {problem}; a text with such signs wants "
            "quotes of its own, as in 'data.question=\"{{problem}}\"'"
        ) from None


def parse_record(record: type[Record], values: Mapping[str, Any], place: str) -> Record:
    """Build ``record``, a dataclass, from ``values``.

    Args:
        record: fields may be scalars, Literals, optional, tuples, mappings and other records.
        values: one entry per field; those with a default may be absent.
        place: names the source in errors.

    Raises:
        UsageError: unknown key (with the nearest), missing key, or a value of another type.
    """
    assert dataclasses.is_dataclass(record)
    hints = typing.get_type_hints(record)
    known = [f.name for f in dataclasses.fields(record)]
    for key in values:
        if key not in known:
            raise UsageError(f"{place}: {unknown_name('key', str(key), known)}")
    made: dict[str, Any] = {}
    for f in dataclasses.fields(record):
        if f.name in values:
            made[f.name] = _parse(hints[f.name], values[f.name], f"{place}: {f.name}")
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise UsageError(f"{place}: {f.name}: expected a value, got none")
    try:
        return record(**made)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def check_range(
    record: object, *names: str, at_least: float = -math.inf, above: float = -math.inf, at_most: float = math.inf
) -> None:
    """For a record's ``__post_init__``: these fields are None or in the range.

    Raises:
        UsageError: one is not; NaN is in no range.
    """
    bounds = {"at least": at_least, "above": above, "at most": at_most}
    expected = " and ".join(f"{name} {bound:g}" for name, bound in bounds.items() if math.isfinite(bound))
    for name in names:
        value = getattr(record, name)
        if value is not None and not (value >= at_least and value > above and value <= at_most):
            raise UsageError(f"{name}: expected {expected}, got {value}")


def _parse(kind: Any, value: Any, place: str, or_null: str = "") -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = [a for a in arguments if a is not type(None)]
        return _parse(inner, value, place, " or null" if type(None) in arguments else "")
    if origin is typing.Literal:
        if (type(value), value) not in [(type(known), known) for known in arguments]:  # True is no 1
            raise UsageError(f"{place}: expected one of {', '.join(map(str, arguments))}{or_null}, got {value}")
        return value
    if origin is tuple:
        any_number = arguments[-1] is Ellipsis
        if not isinstance(value, list) or (not any_number and len(value) != len(arguments)):
            number = "" if any_number else f" of {len(arguments)}"
            raise UsageError(f"{place}: expected a list{number}{or_null}, got {value}")
        kinds = arguments[:1] * len(value) if any_number else arguments
        return tuple(_parse(a, v, place) for a, v in zip(kinds, value, strict=True))
    if dataclasses.is_dataclass(kind) or origin is not None:
        if not isinstance(value, Mapping):
            raise UsageError(f"{place}: expected a section of keys and values{or_null}, got {value}")
        return parse_record(typing.cast(type[Any], kind), value, place) if origin is None else dict(value)
    return _scalar(kind, value, place, or_null)


def _scalar(kind: type[Any], value: Any, place: str, or_null: str) -> Any:
    if kind is float and isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 1e-6, without a dot, as text
        except (ValueError, OverflowError):  # no number, or an integer beyond 1.8e308
            pass
    if type(value) is not kind:
        raise UsageError(f"{place}: expected {kind.__name__}{or_null}, got {value!r}")
    return value
