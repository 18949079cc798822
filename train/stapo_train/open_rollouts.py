"""Rollouts that no checkpoint covers yet, on disk: drawing them is most of a run's time, and a kill should not cost it.

    <run>/state/rollouts-000012.jsonl   a line of facts, then one graded rollout per line

They are kept from the moment an iteration has them all until a checkpoint covers the iteration.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.records import Outcome
from stapo_bench.runs import seal, unseal, write_atomically
from stapo_train.records import Rollout


def save(run: Path, iteration: int, rollouts: Sequence[Rollout], num_asked: int) -> None:
    """Write an iteration's graded rollouts, whole or not at all."""
    lines = [seal({"num_asked": num_asked, "num_rollouts": len(rollouts)})]
    lines += [seal(_to_json(rollout)) for rollout in rollouts]
    path = _path(run, iteration)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, b"".join(lines).decode("ascii"))


def load(run: Path, iteration: int) -> tuple[list[Rollout], int] | None:
    """An iteration's rollouts and how many prompts they took; None: it has to draw them."""
    path = _path(run, iteration)
    if not path.is_file():
        return None
    try:
        facts, *rows = (unseal(line) for line in path.read_bytes().split(b"\n")[:-1])
        if len(rows) != facts["num_rollouts"]:
            raise ValueError(f"expected {facts['num_rollouts']} rollouts, got {len(rows)}")
        return [_from_json(row) for row in rows], int(facts["num_asked"])
    except (ValueError, KeyError, TypeError) as error:
        raise StapoError(f"{path}: damaged ({error}); delete it, its rollouts are drawn again") from None


def drop(run: Path, until_iteration: float = math.inf) -> None:
    """Forget the rollouts of iterations that a checkpoint covers, or all."""
    for path in (run / "state").glob("rollouts-*.jsonl"):
        if int(path.stem.removeprefix("rollouts-")) <= until_iteration:
            path.unlink()


def _path(run: Path, iteration: int) -> Path:
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
