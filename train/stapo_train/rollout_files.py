"""Rollouts on disk until a checkpoint covers them.

    <run>/state/rollouts-000012.jsonl   a line of facts, then one graded rollout per line

Sampling takes most of a run's time, which a kill should not waste: an iteration's rollouts are kept from the moment all
are sampled until a checkpoint covers the iteration.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.records import Outcome
from stapo_bench.runs import read_bounded, read_outputs, seal, unseal, write_atomically
from stapo_train.objective import Reduce
from stapo_train.torch_later import torch
from stapo_train.train_records import Rollout


def save_rollouts(run: Path, iteration: int, rollouts: Sequence[Rollout], num_asked: int) -> None:
    """Write an iteration's graded rollouts, whole or not at all."""
    lines = [seal({"num_asked": num_asked, "num_rollouts": len(rollouts)})]
    lines += [seal(_to_json(rollout)) for rollout in rollouts]
    path = _file(run, iteration)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, b"".join(lines).decode("ascii"))


def load_rollouts(
    run: Path, iteration: int, way_out: str = "delete it, its rollouts are sampled again"
) -> tuple[list[Rollout], int] | None:
    """An iteration's rollouts and how many prompts they took; None: they are not there.

    Raises:
        StapoError: the file is damaged; ``way_out`` says what to do.
    """
    path = _file(run, iteration)
    if not path.is_file():
        return None
    try:
        facts, *rows = (unseal(line) for line in read_bounded(path, 1 << 32).split(b"\n")[:-1])
        if len(rows) != facts["num_rollouts"]:
            raise ValueError(f"expected {facts['num_rollouts']} rollouts, got {len(rows)}")
        return [_from_json(row) for row in rows], int(facts["num_asked"])
    except (ValueError, KeyError, TypeError) as error:
        raise StapoError(f"{path}: damaged ({error}); {way_out}") from None


def drop_rollouts(run: Path, until_iteration: float = math.inf) -> None:
    """Delete the rollouts of the iterations that a checkpoint covers, or all."""
    for path in (run / "state").glob("rollouts-*.jsonl"):
        if int(path.stem.removeprefix("rollouts-")) <= until_iteration:
            path.unlink()


def from_all_ranks(rollouts: Sequence[Rollout], ranks: Reduce) -> list[Rollout]:
    """The rollouts of all ranks on every rank, in order of ranks; exchanged as the bytes that a file would hold."""
    if ranks.size == 1:
        return list(rollouts)
    mine = b"".join(seal(_to_json(rollout)) for rollout in rollouts)
    everyone = ranks.gather(torch.frombuffer(bytearray(mine), dtype=torch.uint8) if mine else torch.tensor([]).byte())
    return [_from_json(unseal(line)) for line in everyone.numpy().tobytes().split(b"\n")[:-1]]


def _file(run: Path, iteration: int) -> Path:
    return run / "state" / f"rollouts-{iteration:06d}.jsonl"


def _to_json(rollout: Rollout) -> dict[str, Any]:
    return {
        **vars(rollout),  # asdict would copy every token
        "outcome": rollout.outcome.value if rollout.outcome else None,
        "reward": None if math.isnan(rollout.reward) else rollout.reward,
    }


def _from_json(values: dict[str, Any]) -> Rollout:
    values["outcome"] = Outcome(values["outcome"]) if values["outcome"] else None
    values["reward"] = math.nan if values["reward"] is None else values["reward"]
    for name in ("prompt_ids", "response_ids", "rollout_log_probs"):
        values[name] = None if values[name] is None else tuple(values[name])
    outputs = read_outputs(values.pop("tool_outputs", []), len(values["response_ids"]))
    return Rollout(**values, tool_outputs=outputs)
