"""Checks that an objective is computed exactly: the suite behind ``stapo-train check-objective NAME``.

All in float64 on a toy Qwen3 and random rollouts, to 1e-6 relative: loss and gradient must not depend on how the
mini-batch is split into micro-batches, on padding, on packing, on the order of rollouts or on the number of ranks; both
must agree with a slow reference, with finite differences and with the paper's gradient-norm identity and bounds; the
gradient at a silenced token must be exactly 0. The trainer's own accumulation, which skips the passes that the
objective declares unnecessary (``needs``), must give the same from an older policy's statistics.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from stapo_train.batch import Batch
from stapo_train.check.computed import Check, Computed, computed, distance, loss_and_gradient, packed
from stapo_train.check.plain import Token
from stapo_train.check.ranks import two_ranks
from stapo_train.check.reference import REFERENCES, reference_loss
from stapo_train.check.token_checks import RandomTokens, token_checks
from stapo_train.check.toy import VOCABULARY, toy_batch, toy_objective, toy_policy
from stapo_train.objective import Objective, TokenStats, select
from stapo_train.policy import Policy
from stapo_train.update import Step, accumulate_gradient

QWEN3_VOCABULARY = 151_936


def check_objective(
    name: str, settings: Mapping[str, Any] | None = None, *, ranks: bool = True, large_vocabulary: bool = True
) -> Iterator[Check]:
    """Run the suite, yielding each check as it finishes. The two flags skip the slow parts."""
    objective = toy_objective(name, settings)
    policy, batch = toy_policy(objective), toy_batch(objective)
    for phase in range(objective.num_phases):
        suffix = f" (phase {phase + 1})" if objective.num_phases > 1 else ""
        whole = loss_and_gradient(policy, batch, objective, phase=phase)
        yield replace(_says_what_it_does(policy, batch, objective, phase), name="says what it silences" + suffix)
        for check in _invariances(policy, batch, objective, phase, whole):
            yield replace(check, name=check.name + suffix)
        for check in _stale_statistics(policy, batch, objective, phase, whole):
            yield replace(check, name=check.name + suffix)
        yield replace(
            _against_reference(name, objective, policy, batch, phase=phase, loss=whole.loss),
            name="slow reference" + suffix,
        )
        for vocabulary in (VOCABULARY, QWEN3_VOCABULARY) if large_vocabulary else (VOCABULARY,):
            for check in token_checks(RandomTokens.make(vocabulary, batch.stats, objective, phase)):
                yield replace(check, name=f"{check.name}, V = {vocabulary}{suffix}")
    if ranks:
        whole = loss_and_gradient(policy, batch, objective)
        yield Check(name="two ranks", deviation=distance(whole, two_ranks([(name, settings)])[0]))


# --- the checks ------------------------------------------------------------------------------------------------------


def _invariances(policy: Policy, batch: Batch, objective: Objective, phase: int, whole: Computed) -> Iterator[Check]:
    def deviation(policy: Policy, batch: Batch, widen: int = 0) -> float:
        return distance(whole, loss_and_gradient(policy, batch, objective, phase=phase, widen=widen))

    for tokens in (1, 64):
        yield Check(
            name="micro-batches" if tokens > 1 else "one rollout per micro-batch",
            deviation=deviation(replace(policy, micro_batch_tokens=tokens), batch),
        )
    yield Check(name="padding", deviation=deviation(policy, batch, widen=7))
    yield Check(name="packing", deviation=distance(whole, packed(policy, batch, objective, phase)))
    order = np.random.default_rng(5).permutation(len(batch.rows)).tolist()
    yield Check(name="order of rollouts", deviation=deviation(policy, batch.select_rows(order)))


def _says_what_it_does(policy: Policy, batch: Batch, objective: Objective, phase: int) -> Check:
    """What the class says of its selection, for the run header, against the selection."""
    silences, divides_by = objective.describe_selection()
    found = select(policy.measure(batch), objective, phase=phase)
    expected = {"all response tokens": found.num_tokens, "kept tokens": found.num_kept}
    denominator = next((number for words, number in expected.items() if divides_by.startswith(words)), None)
    wrong = float(found.num_tokens - found.num_kept) if silences == "nothing" else 0.0
    wrong += abs(found.denominator.item() - denominator) if denominator is not None else 0.0
    return Check(name="", deviation=wrong, note=f"silences {silences}; divides by {divides_by}" if wrong else "")


def _stale_statistics(
    policy: Policy, batch: Batch, objective: Objective, phase: int, whole: Computed
) -> Iterator[Check]:
    """The trainer's own gradient, computed as the objective's ``needs`` allow, from an older policy's statistics."""
    for nats in (0.3, 3.0):
        generator = torch.Generator().manual_seed(4)
        off = nats * torch.randn(len(batch.stats.key), 2, generator=generator, dtype=torch.float64)
        stale = replace(
            batch.stats, log_probs=batch.stats.log_probs + off[:, 0], entropy=batch.stats.entropy + off[:, 1]
        )
        policy.model.zero_grad()
        step = Step(objective=objective, clip_norm=1.0, first=False, phase=phase)
        split = replace(policy, micro_batch_tokens=64)
        total = accumulate_gradient(split, replace(batch, stats=stale), step)
        yield Check(
            name=f"the trainer's passes, statistics off by {nats:g}",
            deviation=distance(whole, computed(policy, total.selection, torch.tensor(total.numerator))),
            note=f"by its needs: {objective.needs.current_policy} of the current policy",
        )


def _against_reference(
    name: str, objective: Objective, policy: Policy, batch: Batch, *, phase: int, loss: float
) -> Check:
    if name not in REFERENCES:
        return Check(
            name="", deviation=math.nan, applicable=False, note="none written in stapo_train/check/reference.py"
        )
    tokens = tokens_of(policy.measure(batch), policy, batch)
    slow = reference_loss(name, objective, tokens, phase)
    return Check(name="", deviation=abs(slow - loss) / max(abs(loss), 1e-12))


def tokens_of(stats: TokenStats, policy: Policy, batch: Batch) -> list[Token]:
    """The mini-batch in plain numbers, for the slow reference, with the whole distributions of the policy."""
    distributions: list[tuple[float, ...]] = [()] * len(stats.log_probs)
    taken: list[int] = [0] * len(distributions)
    with torch.no_grad():
        for micro in policy.split(batch, range(len(batch.rows))):
            probs = torch.softmax(policy.logits(micro) / policy.temperature, dim=-1)
            for place, row, token in zip(micro.tokens.tolist(), probs.tolist(), micro.taken.tolist(), strict=True):
                distributions[place], taken[place] = tuple(row), token
    overall = stats.entropy if stats.batch_entropy is None else stats.batch_entropy
    columns = {
        "log_prob": stats.log_probs,
        "old_log_prob": stats.old_log_probs,
        "entropy": stats.entropy,
        "advantage": stats.advantages,
        "sequence": stats.sequence,
        "key": stats.key,
        "batch_entropy": overall,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [
        Token(**dict(zip(columns, row, strict=True)), distribution=probs, taken=token)
        for row, probs, token in zip(rows, distributions, taken, strict=True)
    ]
