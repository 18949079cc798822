"""Who states a setting's value: a paper, somebody's published code where the papers are silent, or nobody but us."""

from collections.abc import Mapping
from typing import Literal

Origin = Literal["published", "code", "ours"]

Origins = Mapping[str, tuple[Origin, str]]
"""An objective's constants, by the names of their fields with spaces between: who states the values, and where."""

NO_PART: tuple[Origin, str] = ("ours", "no part of its term")
"""Of a field that the objective inherits and whose term does not read it."""


def origin_of(objective: type, name: str) -> tuple[Origin, str]:
    """Who states a field's default, and where: as the nearest class says that names the field in its ``origins``."""
    for each in objective.__mro__:
        own: Origins = each.__dict__.get("origins", {})
        for names, said in own.items():
            if name in names.split():
                return said
    return "ours", "its class does not say whose it is"
