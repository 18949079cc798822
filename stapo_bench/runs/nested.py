"""Nested settings under dotted names, as two of them are compared."""

from collections.abc import Mapping
from typing import Any


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values under dotted names; lists are values.

    >>> flatten({"optim": {"lr": 1e-5}, "seed": 0})
    {'optim.lr': 1e-05, 'seed': 0}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat
