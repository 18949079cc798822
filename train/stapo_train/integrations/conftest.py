"""Skips doctests of modules whose optional packages are not installed."""

from importlib.util import find_spec

collect_ignore = [f"{name}.py" for name in ("trl", "verl") if find_spec(name) is None]
