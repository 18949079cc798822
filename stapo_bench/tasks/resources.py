"""Where task files and published numbers lie: in the checkout, in an installed wheel, in other packages."""

from importlib import import_module
from pathlib import Path

from stapo_bench.errors import StapoError

_PACKAGE = Path(__file__).resolve().parent.parent
GROUP = "stapo_bench.tasks"


def resource_dir(name: str) -> Path:
    """Folder of a resource: ``tasks`` (one YAML per benchmark) or ``published`` (the paper's numbers).

    A wheel carries them under ``stapo_bench/_resources``; a checkout has them at the top level.
    """
    wheel = _PACKAGE / "_resources" / name
    if wheel.is_dir():
        return wheel
    checkout = {"tasks": "tasks", "published": "results/published"}[name]
    return _PACKAGE.parent / checkout


def offered_task_folders() -> list[Path]:
    """Folders of task files that installed packages offer, in the order of their names.

    A package offers one by an entry point of the group ``stapo_bench.tasks`` that names the package it lies in::

        [project.entry-points."stapo_bench.tasks"]
        geometry = "geometry_bench.tasks"       # the folder geometry_bench/tasks with geometry.yaml, ...
    """
    from importlib.metadata import entry_points  # takes time, which our own tasks should not

    folders = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            folders += [Path(place) for place in import_module(point.value).__path__]
        except (ImportError, AttributeError) as error:
            raise StapoError(
                f"tasks of '{point.name}': expected a package {point.value} with task files, got {error}; "
                "reinstall or remove what offers them"
            ) from None
    return folders
