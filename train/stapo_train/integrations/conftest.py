"""Modules here import what an environment may lack; doctests are looked for in those that it can import."""

from importlib.util import find_spec

collect_ignore = [f"{name}.py" for name in ("trl", "verl") if find_spec(name) is None]
