"""Plugins: engines, graders, tasks, commands and objectives that other installed packages offer by entry points.

    [project.entry-points."stapo_bench.engines"]
    mine = "my_package.engine:MyEngine"

A plugin is imported only when it is asked for by name, and cannot take the name of a built-in.
"""

from collections.abc import Collection
from pkgutil import resolve_name
from typing import Any

from stapo_bench.errors import StapoError


def offered(group: str, ours: Collection[str] = ()) -> dict[str, str]:
    """The entry points of a group: ``package.module:attribute`` by name, without names of built-ins.

    Raises:
        StapoError: two packages offer different things under one name.
    """
    from importlib.metadata import entry_points  # slow to import; built-ins do not need it

    found: dict[str, str] = {}
    for point in sorted(entry_points(group=group)):
        if point.name not in ours and found.setdefault(point.name, point.value) != point.value:
            raise StapoError(
                f"{group} {point.name}: offered as {found[point.name]} and as {point.value}; "
                "uninstall one of the packages"
            )
    return found


def load_offered(what: str, place: str) -> Any:
    """The object, or the module, that stands at ``package.module:attribute``.

    Raises:
        StapoError: it cannot be imported; ``what`` names it.
    """
    try:
        return resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise StapoError(f"{what}: cannot load {place}: {reason}; repair its package") from error
