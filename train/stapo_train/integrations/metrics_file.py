"""What verl's and TRL's trainers log, as ``metrics.jsonl`` beside their checkpoints: ``plot`` and ``report`` read it.

    log = MetricsFile(Path("runs/verl"), seed=1, objective={"name": "stapo"}, iterations=500, trainer="verl")
    log.add(1, record_of(VERL, {"actor/entropy": 0.41, "actor/objective/num_tokens": 8123.0, ...}))

The names are those of ``StepRecord``, as far as the trainer measures the same in the same unit; what it does not is
absent, never 0. Counts of tokens are means over the iteration's optimizer steps. A resumed training drops the lines of
the steps that it repeats.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from stapo_bench.errors import StapoError
from stapo_bench.runs import append, complete_lines, open_own, own_file, seal, unseal, write_atomically, writing
from stapo_train.objective import Objective
from stapo_train.objectives import REGISTRY

_OBJECTIVE = {
    **{name: f"objective/{name}" for name in ("num_tokens", "num_candidates", "num_kept", "num_silenced", "kl_to_old")},
    "candidate_entropy": "objective/candidate_entropy",
    "ratio_mean": "objective/ratio",
    "clip_high_share": "objective/clipped_high",
    "clip_low_share": "objective/clipped_low",
    "rollout_mismatch": "objective/rollout_mismatch",
}

VERL: Mapping[str, str] = {
    "entropy": "actor/entropy",
    "reward": "critic/score/mean",
    "response_length": "response_length/mean",
    "truncated": "response_length/clip_ratio",
    "loss": "actor/pg_loss",
    "grad_norm": "actor/grad_norm",
    "learning_rate": "actor/lr",
    **{ours: f"actor/{theirs}" for ours, theirs in _OBJECTIVE.items()},
}
"""Our name to verl's."""

TRL: Mapping[str, str] = {
    **_OBJECTIVE,
    "entropy": "objective/entropy",  # before the optimizer step
    "reward": "reward",
    "response_length": "completions/mean_length",
    "truncated": "completions/clipped_ratio",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "rollout_mismatch": "sampling/sampling_logp_difference/mean",
}
"""Our name to TRL's."""


def record_of(names: Mapping[str, str], logged: Mapping[str, Any]) -> dict[str, float] | None:
    """Fields of ``StepRecord`` from what a trainer logs; None where it logs no selection, as of an evaluation.

    >>> logged = {"actor/entropy": 0.5, "actor/objective/num_tokens": 200.0, "actor/objective/num_silenced": 1.0}
    >>> record_of(VERL, logged)
    {'entropy': 0.5, 'num_tokens': 200.0, 'masked_share': 0.005}
    """
    found = {ours: float(logged[theirs]) for ours, theirs in names.items() if logged.get(theirs) is not None}
    silenced, tokens = found.pop("num_silenced", None), found.get("num_tokens")
    if silenced is None or tokens is None:
        return None
    found["masked_share"] = silenced / max(tokens, 1.0)
    if candidates := found.get("num_candidates"):
        found["masked_share_of_candidates"] = silenced / candidates
    return {name: value for name, value in found.items() if math.isfinite(value)}


def stated(objective: Objective | Mapping[str, Any]) -> dict[str, Any]:
    """An objective's name and the settings that were stated: of one that is built, those that are no defaults."""
    if not isinstance(objective, Objective):
        return dict(objective)
    name = next((name for name, kind in REGISTRY.items() if kind is type(objective)), objective.label)
    own = {field.name: getattr(objective, field.name) for field in fields(objective) if field.init}
    defaults = {field.name: field.default for field in fields(objective)}
    return {"name": name, **{key: value for key, value in own.items() if value != defaults[key]}}


class MetricsFile:
    """``metrics.jsonl`` and ``config.yaml`` in a folder of another trainer's."""

    def __init__(self, folder: Path, *, seed: int, objective: Mapping[str, Any], iterations: int, trainer: str) -> None:
        self._path = folder / "metrics.jsonl"
        self._config = {
            "out": str(folder),
            "seed": seed,
            "iterations": iterations,
            "trainer": trainer,
            "objective": dict(objective),
        }
        self._is_begun = False

    def add(self, iteration: int, record: Mapping[str, float]) -> None:
        """Add a sealed line and wait until it is on disk; before the first one, drop what this training repeats."""
        if not self._is_begun:
            self._begin(iteration)
            self._is_begun = True
        with writing(self._path), open_own(self._path.parent, self._path.name) as file:
            append(file, seal({"iteration": iteration, **record}))
            os.fsync(file.fileno())

    def _begin(self, iteration: int) -> None:
        """Write the config, and keep the lines before ``iteration``."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(own_file(self._path.parent, "config.yaml"), yaml.safe_dump(self._config, sort_keys=False))
        kept = []
        for number, line in complete_lines(self._path) if self._path.exists() else ():
            try:
                before = int(unseal(line)["iteration"])
            except (ValueError, KeyError, TypeError) as error:
                raise StapoError(
                    f"{self._path}:{number}: expected an iteration's record, got {error!r}; move the file away, or "
                    "restore it"
                ) from None
            if before < iteration:
                kept.append(line)
        write_atomically(own_file(self._path.parent, self._path.name), b"".join(kept))
