"""What other installed packages offer by name: engines, graders, tasks, commands, objectives, each by an entry point.

    [project.entry-points."stapo_bench.engines"]
    mine = "my_package.engine:MyEngine"

Nothing of theirs is imported before it is asked for by its name, and a name of ours cannot be taken.
"""

from collections.abc import Collection
from pkgutil import resolve_name
from typing import Any

from stapo_bench.errors import StapoError


def offered(group: str, ours: Collection[str] = ()) -> dict[str, str]:
    """Where the things of an entry-point group stand: ``package.module:attribute`` by name, names of ours left out.

    Raises:
        StapoError: two packages offer different things under one name.
    """
    from importlib.metadata import entry_points  # takes time, which what is ours should not

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
