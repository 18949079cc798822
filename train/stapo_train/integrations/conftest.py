"""Skips doctests of modules whose optional packages are not installed."""

from importlib.util import find_spec

NEEDS = {"trl": ("trl.py",), "verl": ("verl.py", "verl_launch.py", "verl_log.py")}
collect_ignore = [module for package, modules in NEEDS.items() if find_spec(package) is None for module in modules]
