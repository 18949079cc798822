"""Where the files that travel with the project lie: in the checkout, or inside an installed wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def resource_dir(name: str) -> Path:
    """Folder of a resource: ``tasks`` (one YAML per benchmark) or ``published`` (the paper's numbers).

    A wheel carries them under ``stapo_bench/_resources``; a checkout has them at the top level.
    """
    wheel = _PACKAGE / "_resources" / name
    if wheel.is_dir():
        return wheel
    checkout = {"tasks": "tasks", "published": "results/published"}[name]
    return _PACKAGE.parent / checkout
