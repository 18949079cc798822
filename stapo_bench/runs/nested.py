"""Nested settings as JSON holds them: read field by field, compared under dotted names, digested.

``JsonFields`` reads each field with the type that it ought to have. Unknown fields are kept: ``beyond`` finds them,
``merged`` puts them back.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

Kind = TypeVar("Kind")

_NAMES = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


class JsonFields:
    """The fields of a JSON object; every method raises ValueError for a field that is missing or of another type.

    >>> fields = JsonFields({"seed": 1, "engine": {"name": 3}}, "identity")
    >>> fields.integer("seed")
    1
    >>> fields.texts("engine")
    Traceback (most recent call last):
    ValueError: identity.engine.name is 3, expected a text
    """

    def __init__(self, raw: object, name: str) -> None:
        """``name`` says where the object stands, for errors."""
        self._name = name
        self._values: dict[str, Any] = _of_type(raw, dict, name)

    def states(self, key: str) -> bool:
        """Whether a field is there and not null."""
        return self._values.get(key) is not None

    def any(self, key: str) -> Any:
        """A field of whatever type."""
        if key not in self._values:
            raise ValueError(f"{self._name} has no {key}")
        return self._values[key]

    def text(self, key: str) -> str:
        """A text."""
        return self._get(key, str)

    def text_or_none(self, key: str) -> str | None:
        """A text; None where the field is null or missing."""
        return self._get(key, str) if self.states(key) else None

    def integer(self, key: str) -> int:
        """A whole number."""
        return self._get(key, int)

    def count(self, key: str, most: int = 1_000_000_000) -> int:
        """A whole number from 0 up, at most ``most``."""
        if not 0 <= (value := self._get(key, int)) <= most:
            raise ValueError(f"{self._name}.{key} is {_shown(value)}, expected 0 to {most}")
        return value

    def number(self, key: str) -> float:
        """A finite number; an integer stays an integer, since its digest differs."""
        value = self.any(key)
        if type(value) is not int and not (type(value) is float and math.isfinite(value)):
            raise ValueError(f"{self._name}.{key} is {_shown(value)}, expected a number")
        return value

    def text_list(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        values: list[Any] = self._get(key, list)
        return tuple(_of_type(value, str, f"{self._name}.{key}[{i}]") for i, value in enumerate(values))

    def text_pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """A list of lists of two texts."""
        found: list[Any] = self._get(key, list)
        pairs = [
            tuple(_of_type(text, str, f"{self._name}.{key}[{i}]") for text in _of_type(pair, list, f"{key}[{i}]"))
            for i, pair in enumerate(found)
        ]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError(f"{self._name}.{key}: expected pairs of texts")
        return tuple((pair[0], pair[1]) for pair in pairs)

    def object(self, key: str) -> dict[str, Any]:
        """An object of whatever content."""
        return self._get(key, dict)

    def texts(self, key: str) -> dict[str, str]:
        """An object whose fields are texts."""
        inner = self.inner(key)
        return {name: inner.text(name) for name in inner._values}

    def inner(self, key: str) -> "JsonFields":
        """An object within the object."""
        return JsonFields(self.any(key), f"{self._name}.{key}")

    def inner_list(self, key: str) -> list["JsonFields"]:
        """The objects in a list."""
        values: list[Any] = self._get(key, list)
        return [JsonFields(value, f"{self._name}.{key}[{i}]") for i, value in enumerate(values)]

    def members(self, key: str) -> dict[str, "JsonFields"]:
        """The objects in an object, by their names."""
        inner = self.inner(key)
        return {name: inner.inner(name) for name in inner._values}

    def _get(self, key: str, kind: type[Kind]) -> Kind:
        return _of_type(self.any(key), kind, f"{self._name}.{key}")


def _of_type(value: object, kind: type[Kind], name: str) -> Kind:
    if type(value) is not kind:  # not isinstance: a bool is an int
        raise ValueError(f"{name} is {_shown(value)}, expected {_NAMES[kind]}")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def beyond(raw: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """What an object holds that a known one does not, at any depth.

    >>> beyond({"a": 1, "b": {"c": 2, "d": 3}, "e": 4}, {"a": 1, "b": {"c": 2}})
    {'b': {'d': 3}, 'e': 4}
    """
    rest: dict[str, Any] = {}
    for name, value in raw.items():
        if name not in known:
            rest[name] = value
        elif isinstance(value, dict) and isinstance(known[name], dict) and (inner := beyond(value, known[name])):
            rest[name] = inner
    return rest


def merged(known: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse of ``beyond``.

    >>> merged({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}, "e": 4})
    {'a': 1, 'b': {'c': 2, 'd': 3}, 'e': 4}
    """
    whole = dict(known)
    for name, value in extra.items():
        before = whole.get(name)
        whole[name] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return whole


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values under dotted names; lists are values.

    >>> flatten({"optim": {"lr": 1e-5}, "seed": 0})
    {'optim.lr': 1e-05, 'seed': 0}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def canonical_digest(value: Any) -> str:
    """sha256 of a value's canonical JSON (sorted keys, no blanks).

    >>> canonical_digest({"a": 1, "b": 2}) == canonical_digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
