"""Reads verl's objective from the environment variable ``STAPO_OBJECTIVE`` of the driver and every worker.

    export STAPO_OBJECTIVE=stapo                        # its default settings
    export STAPO_OBJECTIVE='{name: stapo, q: 0.5}'      # the ``objective:`` section of a config, in YAML or JSON

verl's own settings cannot hold it: its records refuse unknown keys, and its workers see nothing else. Values that our
own trainer fills in must be given here where an objective needs them: ``seed``, and Dr. GRPO's ``max_length``.
"""

import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

import yaml

from stapo_bench.errors import UsageError
from stapo_train.integrations.limits import check_supported
from stapo_train.objective import Objective
from stapo_train.objectives import REGISTRY, build

VARIABLE = "STAPO_OBJECTIVE"
NAME = "stapo_train"
"""What our loss and our advantages are called in verl's configuration."""


def objective_from_environment() -> Objective:
    """The objective that ``STAPO_OBJECTIVE`` names, refused where verl's trainer cannot compute it."""
    if VARIABLE not in os.environ:
        raise UsageError(f"{VARIABLE}: expected the objective's name or settings in the environment, got nothing")
    objective = parse_objective(os.environ[VARIABLE])
    check_supported(objective, "verl")
    return objective


def parse_objective(text: str) -> Objective:
    """The objective of a value of ``STAPO_OBJECTIVE``.

    >>> parse_objective("{name: stapo, q: 0.5}").label
    'STAPO'
    """
    settings = stated_settings(text)
    missing = [name for name in _needed(settings["name"]) if name not in settings]
    if missing:
        example = {**settings, **dict.fromkeys(missing, 0)}
        raise UsageError(f"{VARIABLE}: {settings['name']} needs {' and '.join(missing)}; write '{example}' with yours")
    return build(**settings)


def all_settings(text: str) -> dict[str, Any]:
    """The objective's name and all of its settings, the defaults too, so that a log says what ran.

    >>> [all_settings("stapo")[name] for name in ("name", "tau_p", "q")]
    ['stapo', 0.002, 0.75]
    """
    return {"name": stated_settings(text)["name"], **asdict(parse_objective(text))}


def stated_settings(text: str) -> Mapping[str, Any]:
    """The settings that a value of ``STAPO_OBJECTIVE`` states, its name among them."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = None
    settings = {"name": value} if isinstance(value, str) else value
    if not isinstance(settings, dict) or not isinstance(settings.get("name"), str):
        raise UsageError(f"{VARIABLE}: expected a name or a mapping like '{{name: stapo, q: 0.5}}', got {text!r}")
    return settings


def _needed(name: str) -> list[str]:
    """Settings of that objective that have no default."""
    return [f.name for f in fields(REGISTRY[name]) if f.default is MISSING] if name in REGISTRY else []
