"""Rollouts on disk until a checkpoint covers them.

    <run>/state/rollouts-000012.jsonl   a line of facts, then one graded rollout per line

Sampling takes most of a run's time, which a kill should not waste: an iteration's rollouts are kept from the moment all
are sampled until a checkpoint covers the iteration.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.records import Outcome
from stapo_bench.runs import read_bounded, seal, unseal, write_atomically
from stapo_train.train_records import Rollout


def save_rollouts(run: Path, iteration: int, rollouts: Sequence[Rollout], num_asked: int) -> None:
    """Write an iteration's graded rollouts, whole or not at all."""
    lines = [seal({"num_asked": num_asked, "num_rollouts": len(rollouts)})]
    lines += [seal(_to_json(rollout)) for rollout in rollouts]
    path = _file(run, iteration)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, b"".join(lines).decode("ascii"))


def load_rollouts(run: Path, iteration: int) -> tuple[list[Rollout], int] | None:
    """An iteration's rollouts and how many prompts they took; None: they are not there."""
    path = _file(run, iteration)
    if not path.is_file():
        return None
    try:
        facts, *rows = (unseal(line) for line in read_bounded(path, 1 << 32).split(b"\n")[:-1])
        if len(rows) != facts["num_rollouts"]:
            raise ValueError(f"expected {facts['num_rollouts']} rollouts, got {len(rows)}")
        return [_from_json(row) for row in rows], int(facts["num_asked"])
    except (ValueError, KeyError, TypeError) as error:
        raise StapoError(f"{path}: damaged ({error}); delete it, its rollouts are sampled again") from None


def drop_rollouts(run: Path, until_iteration: float = math.inf) -> None:
    """Delete the rollouts of the iterations that a checkpoint covers, or all."""
    for path in (run / "state").glob("rollouts-*.jsonl"):
        if int(path.stem.removeprefix("rollouts-")) <= until_iteration:
            path.unlink()


def _file(run: Path, iteration: int) -> Path:
    return run / "state" / f"rollouts-{iteration:06d}.jsonl"


def _to_json(rollout: Rollout) -> dict[str, Any]:
    values = asdict(rollout)
    values["outcome"] = rollout.outcome.value if rollout.outcome else None
    values["reward"] = None if math.isnan(rollout.reward) else rollout.reward
    return values


def _from_json(values: dict[str, Any]) -> Rollout:
    values["outcome"] = Outcome(values["outcome"]) if values["outcome"] else None
    values["reward"] = math.nan if values["reward"] is None else values["reward"]
    for name in ("prompt_ids", "response_ids", "rollout_log_probs"):
        values[name] = None if values[name] is None else tuple(values[name])
    return Rollout(**values)
