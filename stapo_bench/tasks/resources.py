"""Where task files and published numbers lie: in the checkout, in an installed wheel, in other packages."""

from pathlib import Path

from stapo_bench.plugins import load_offered, offered

_PACKAGE = Path(__file__).resolve().parent.parent
GROUP = "stapo_bench.tasks"


def resource_dir(name: str) -> Path:
    """Folder of a resource: ``tasks`` (a YAML each), ``published`` (the paper's numbers) or ``launch`` (for clusters).

    A wheel carries them under ``stapo_bench/_resources``; a checkout has them at the top level.
    """
    wheel = _PACKAGE / "_resources" / name
    if wheel.is_dir():
        return wheel
    checkout = {"tasks": "tasks", "published": "results/published", "launch": "scripts/launch"}[name]
    return _PACKAGE.parent / checkout


def offered_task_folders() -> list[Path]:
    """Folders of task files that installed packages offer, in the order of their names.

    A package offers one by an entry point of the group ``stapo_bench.tasks`` that names the package it lies in::

        [project.entry-points."stapo_bench.tasks"]
        geometry = "geometry_bench.tasks"       # the folder geometry_bench/tasks with geometry.yaml, ...
    """
    folders = []
    for name, place in offered(GROUP).items():
        package = load_offered(f"tasks of '{name}'", place)
        folders += [Path(folder) for folder in getattr(package, "__path__", ())]
    return folders
