"""Logs of a run: a header when it begins; per iteration a record, a line of ``metrics.jsonl`` and a progress line."""

import math
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from torch import Tensor

from stapo_bench.errors import StapoError, duration
from stapo_bench.runs import append as append_bytes
from stapo_bench.runs import complete_lines, open_own, seal, unseal, write_atomically, writing
from stapo_train.config import TrainConfig
from stapo_train.correction import BOUNDS, MAX_LOG, engine_log_probs
from stapo_train.objective import Objective, quantile
from stapo_train.recipe import describe_deviations
from stapo_train.train_records import Rollout, StepRecord, UpdateRecord

ENTROPY_QUANTILES = (0.1, 0.5, 0.9, 0.99)
_FIELDS = {field.name for field in fields(StepRecord)}


# --- header -----------------------------------------------------------------------------------------------------------


def describe(config: TrainConfig, objective: Objective) -> str:
    """The run header: the objective's choices, and where the run leaves the recipe, by who states it."""
    name = config.objective["name"]
    silences, divides_by = objective.describe_selection()
    settings = ", ".join(f"{field.name} {getattr(objective, field.name)}" for field in fields(objective))
    return "\n".join(
        [
            f"{objective.label} ({name}): {objective.source}",
            f"  settings: {settings}",
            f"  silences: {silences}",
            f"  divides by: {divides_by}; advantages {objective.describe_advantages()}",
            *(f"  {line}" for line in describe_deviations(config, objective)),
        ]
    )


# --- an iteration's record --------------------------------------------------------------------------------------------


class Stopwatch:
    """Seconds and peak memory by stage.

    >>> watch = Stopwatch()
    >>> with watch("rollout"):
    ...     pass
    >>> list(watch.seconds)
    ['rollout']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.memory: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
        self.memory[stage] = round(peak_mib(), 1)


def peak_mib() -> float:
    """Peak memory: on a GPU since the stage began, else the process's peak resident set so far."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def step_record(
    iteration: int,
    rollouts: Sequence[Rollout],
    log_probs: Tensor,
    entropy: Tensor,
    updates: Sequence[UpdateRecord],
    *,
    learning_rate: float,
    watch: Stopwatch,
) -> StepRecord:
    """Sum an iteration up.

    Args:
        iteration: counted from 1.
        rollouts: graded.
        log_probs: [N] of the taken tokens by the policy before the first update, in the order of the rollouts.
        entropy: [N] of the same policy.
        updates: one per optimizer step.
        learning_rate: of all the updates.
        watch: has measured the stages.
    """
    rewards = np.array([r.reward for r in rollouts])
    graded = rewards[~np.isnan(rewards)]
    num_tokens, num_candidates, num_kept, num_silenced = (
        sum(getattr(u, name) for u in updates) for name in ("num_tokens", "num_candidates", "num_kept", "num_silenced")
    )
    means: dict[str, Any] = {
        name: float(np.mean([getattr(u, name) for u in updates]))
        for name in ("loss", "grad_norm", "ratio_mean", "clip_high_share", "clip_low_share", "kl_to_old")
    }
    return StepRecord(
        iteration=iteration,
        reward=float(graded.mean()) if len(graded) else math.nan,
        num_rollouts=len(rollouts),
        num_ungraded=len(rewards) - len(graded),
        informative_groups=_informative(rollouts),
        response_length=float(np.mean([len(r.response_ids) for r in rollouts])),
        truncated=float(np.mean([r.finish_reason == "length" for r in rollouts])),
        entropy=float(entropy.double().mean()) if len(entropy) else math.nan,
        entropy_quantiles={f"{q:g}": quantile(entropy, q) for q in ENTROPY_QUANTILES},
        masked_share=num_silenced / max(num_tokens, 1),
        masked_share_of_candidates=num_silenced / num_candidates if num_candidates else None,
        num_tokens=num_tokens,
        num_candidates=num_candidates,
        num_kept=num_kept,
        candidate_entropy=_candidate_entropy(updates),
        thresholds={name: [u.thresholds[name] for u in updates] for name in updates[0].thresholds},
        num_decisions_changed=sum(u.num_decisions_changed for u in updates),
        num_rows_rerun=sum(u.num_rows_rerun for u in updates),
        skipped_updates=[u.skipped for u in updates if u.skipped is not None],
        rollout_mismatch=rollout_mismatch(rollouts, log_probs),
        rollout_ratio=rollout_ratio(rollouts, log_probs),
        learning_rate=learning_rate,
        seconds=watch.seconds,
        memory=watch.memory,
        **means,
    )


def _candidate_entropy(updates: Sequence[UpdateRecord]) -> float | None:
    """Mean over the candidates of all updates, nats."""
    known = [(u.candidate_entropy, u.num_candidates) for u in updates if u.candidate_entropy is not None]
    return sum(mean * count for mean, count in known) / sum(count for _, count in known) if known else None


def rollout_mismatch(rollouts: Sequence[Rollout], log_probs: Tensor) -> float | None:
    """Mean |ln pi_trainer - ln pi_engine| per response token, nats; None where the engine reports no log-probs.

    Args:
        rollouts: [R].
        log_probs: [N] the trainer's, of the rollouts' response tokens laid end to end.
    """
    log_ratio = _log_ratio(rollouts, log_probs)
    return None if log_ratio is None else float(log_ratio.abs().mean())


def rollout_ratio(rollouts: Sequence[Rollout], log_probs: Tensor) -> dict[str, float]:
    """Of r = pi_trainer / pi_engine: k1 = mean(-ln r), k3 = mean(r - 1 - ln r), and the share outside icepop's bounds.

    Both estimate KL(engine || trainer) per token, nats, from what the engine drew (Schulman 2020); k3 is at least 0.
    Arguments as of ``rollout_mismatch``; {} where that is None.
    """
    log_ratio = _log_ratio(rollouts, log_probs)
    if log_ratio is None:
        return {}
    ratio, (low, high) = log_ratio.clamp(-MAX_LOG, MAX_LOG).exp(), BOUNDS["icepop"]
    return {
        "k1": float(-log_ratio.mean()),
        "k3": float((ratio - 1 - log_ratio).mean()),
        "outside": float(((ratio < low) | (ratio > high)).double().mean()),
    }


def _log_ratio(rollouts: Sequence[Rollout], log_probs: Tensor) -> Tensor | None:
    """[N] ln pi_trainer - ln pi_engine in float64; None where the engine reports no log-probs, or there is no token."""
    if any(r.rollout_log_probs is None for r in rollouts) or not len(log_probs):
        return None
    ours = log_probs.double().cpu()
    return ours - engine_log_probs(rollouts, ours)


def _informative(rollouts: Sequence[Rollout]) -> float:
    rewards: dict[int, set[float]] = {}
    for r in rollouts:
        rewards.setdefault(r.group_id, set()).update(set() if math.isnan(r.reward) else {r.reward})
    return float(np.mean([len(values) > 1 for values in rewards.values()]))


# --- metrics.jsonl ----------------------------------------------------------------------------------------------------


def append(path: Path, record: StepRecord) -> None:
    """Add a sealed line and wait until it is on disk. NaN and infinity become null: JSON has neither."""
    line = seal(_finite(asdict(record)))
    with writing(path), open_own(path.parent, path.name) as file:
        append_bytes(file, line)
        os.fsync(file.fileno())


def add_evaluation(path: Path, iteration: int, evaluation: Mapping[str, float], watch: Stopwatch) -> None:
    """Put the scores of the weights after the last iteration of the log, and what ``watch`` has measured of them, into
    its line, which is replaced as a whole."""
    *before, last = [line for _, line in complete_lines(path)]
    row = unseal(last)
    _check(row, iteration)
    measured = {"seconds": {**row["seconds"], **watch.seconds}, "memory": {**row["memory"], **watch.memory}}
    written = seal(_finite({**row, "evaluation": dict(evaluation), **measured}))
    write_atomically(path, b"".join([*before, written]).decode("ascii"))


def evaluation_seconds(path: Path, iteration: int) -> float | None:
    """What the last iteration's line says that the evaluation after it took; None: it has none yet."""
    *_, last = [line for _, line in complete_lines(path)]
    row = unseal(last)
    _check(row, iteration)
    return float(row["seconds"]["evaluation"]) if row.get("evaluation") else None


def keep_until(path: Path, iteration: int) -> None:
    """Drop the lines after ``iteration``, a torn last one among them: a resumed run writes them again."""
    kept = []
    for number, line in complete_lines(path) if path.exists() else ():
        if number > iteration:
            break
        try:
            _check(unseal(line), number)
            kept.append(line.decode("ascii"))
        except ValueError as error:
            raise StapoError(f"{path}:{number}: {error}; restore the file, or train anew with out=OTHER") from None
    if len(kept) < iteration:
        raise StapoError(
            f"{path}: expected at least {iteration} lines, as many as the checkpoint's iterations, got {len(kept)}"
        )
    write_atomically(path, "".join(kept))


def _check(row: dict[str, Any], iteration: int) -> None:
    """ValueError unless this is an iteration's line."""
    if row.get("iteration") != iteration:
        raise ValueError(f"expected the record of iteration {iteration}, got one of {row.get('iteration')!r}")
    if unknown := sorted(row.keys() - _FIELDS):  # a damaged seal may survive as an unknown field
        raise ValueError(f"it has {unknown[0]!r}, which no record has")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- for the person watching ------------------------------------------------------------------------------------------


class ZeroGradientNotice:
    """Says when no optimizer step has had a gradient for several iterations, and why; again after twice as many."""

    def __init__(self, stream: TextIO, after: int = 3) -> None:
        self._stream, self._next = stream, after
        self._after = after
        self._in_row = 0

    def see(self, record: StepRecord) -> None:
        """Count an iteration, and print a line where it is time."""
        self._in_row = self._in_row + 1 if record.grad_norm == 0.0 else 0  # a mean of norms: 0 if each is
        if not self._in_row:
            self._next = self._after
        if self._in_row < self._next:
            return
        self._next *= 2
        why = "the objective leaves out, or clips, every token that has an advantage"
        if not record.informative_groups:
            why = (
                f"in every group all rollouts have the same reward ({record.reward:.3f} on average), so that no token "
                "has an advantage: expected problems that this model solves sometimes, or more rollouts of each"
            )
        print(
            f"the gradient has been exactly 0 for {self._in_row} iterations in a row, and nothing is learned: {why}",
            file=self._stream,
            flush=True,
        )


class ProgressLine:
    """One line per iteration; where the stream is not a terminal, at most one every ``quiet_s`` seconds.

    ``evaluated``: iterations whose checkpoints are evaluated, which takes as long as the longest so far.
    """

    def __init__(
        self, done: int, total: int, *, stream: TextIO, evaluated: Sequence[int] = (), quiet_s: float = 5.0
    ) -> None:
        self._first, self._total, self._stream, self._evaluated = done, total, stream, evaluated
        self._evaluations = [0.0]  # seconds
        self._quiet_s = 0.0 if stream.isatty() else quiet_s
        self._start = time.monotonic()
        self._last = -math.inf

    def evaluation(self, seconds: float) -> None:
        """An evaluation took so long, which is no iteration's."""
        self._evaluations.append(seconds)

    def show(self, record: StepRecord) -> None:
        """Print the iteration, with the time the rest will take at the pace so far."""
        now = time.monotonic()
        if now - self._last < self._quiet_s and record.iteration != self._total:
            return
        self._last = now
        pace = (now - self._start - sum(self._evaluations)) / (record.iteration - self._first)
        evaluations = sum(iteration >= record.iteration for iteration in self._evaluated)
        left = (self._total - record.iteration) * pace + evaluations * max(self._evaluations)
        masked = f" · masked {record.masked_share:.1e}" if record.num_kept < record.num_tokens else ""
        print(
            f"iteration {record.iteration}/{self._total} · reward {record.reward:.3f} · entropy {record.entropy:.3f} · "
            f"length {record.response_length:.0f}{masked} · {pace:.2f} s each · "
            f"ETA {duration(left)}",
            file=self._stream,
            flush=True,
        )
