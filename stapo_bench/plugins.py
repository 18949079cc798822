"""What is imported only when it is asked for by name: what other packages offer, and what a room's door hands out.

    [project.entry-points."stapo_bench.engines"]
    mine = "my_package.engine:MyEngine"

Plugins are engines, graders, tasks, commands and objectives that other installed packages offer by entry points; none
can take the name of a built-in.
"""

import ast
import sys
from collections.abc import Callable, Collection
from pathlib import Path
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


def lazy_names(room: str, file: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a room's door: a name is imported, from where the door states it, when first asked for.

    So a command waits only for the modules that it uses, and each name stands once, where type checkers read it, too.

    Args:
        room: the door's ``__name__``.
        file: the door's ``__file__``; its imports under ``if TYPE_CHECKING:`` are what it hands out.
    """
    places = {
        alias.name: f"{line.module}:{alias.name}"
        for block in ast.parse(Path(file).read_text(encoding="utf-8")).body
        if isinstance(block, ast.If)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }

    def found(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = resolve_name(places[name])
        setattr(sys.modules[room], name, value)  # found at once from now on
        return value

    return found
