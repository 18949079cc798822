"""One optimizer step on a mini-batch: select, back-propagate micro-batch by micro-batch, divide once, step.

The selection needs the current policy's statistics of the whole mini-batch, which are complete only when its last
micro-batch has run. There are three exact ways, cheapest first:

* ``known``: the selection does not depend on the current policy, or this is the iteration's first step, where the
  current policy is the old one and has been measured already.
* ``correct``: where the current policy changes few decisions. Gradients are linear in the token weights, so all
  micro-batches run with the selection by the old statistics. Once the current statistics are known, the selection is
  made again, and only the rows on which the two differ run once more, with the difference of weights.
* ``probe``: otherwise; one pass without gradient comes before the others.

``old-policy`` uses the old statistics in place of the current ones and reports how many tokens that decided wrongly: an
approximation, never a default. Rows with advantage 0 have no gradient and are run only where something else needs them.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from stapo_train.batch import Batch
from stapo_train.objective import Metrics, Objective, Reduce, Selection, policy_loss, select
from stapo_train.policy import Policy, Recorder
from stapo_train.sharding import whole
from stapo_train.train_records import UpdateRecord

Method = Literal["exact", "probe", "old-policy"]
"""How statistics reach the selection. ``exact``: the cheapest exact way."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Settings of an optimizer step besides its policy and its batch."""

    objective: Objective
    clip_norm: float
    method: Method = "exact"
    first: bool  # of its iteration: the current policy is the old one
    phase: int = 0  # of objective.num_phases


@dataclass(frozen=True, kw_only=True)
class GradientSum:
    """Results of a mini-batch's backward passes beside the undivided gradient, which is in the parameters."""

    selection: Selection
    numerator: float
    metrics: Metrics
    num_decisions_changed: int = 0
    num_rows_rerun: int = 0


def optimizer_step(policy: Policy, optimizer: torch.optim.Optimizer, batch: Batch, step: Step) -> UpdateRecord:
    """Take a step on ``batch``, whose statistics are the old policy's; skip it if loss or gradient is not finite.

    No gradient is left behind: its memory, four bytes a parameter, belongs to the rollouts that come next.
    """
    optimizer.zero_grad()
    total = _over_ranks(accumulate_gradient(policy, batch, step), policy.ranks)
    denominator = total.selection.divisor
    parameters = [p for p in policy.model.parameters() if p.requires_grad]
    gradients = [_gradient(p).div_(denominator) for p in parameters]
    grad_norm = float(whole(torch.nn.utils.clip_grad_norm_(parameters, step.clip_norm))) if gradients else 0.0
    loss = total.numerator / denominator
    if math.isfinite(loss) and math.isfinite(grad_norm):
        optimizer.step()
        skipped = None
    else:
        skipped = f"loss {loss}, gradient norm {grad_norm}"
    del gradients
    optimizer.zero_grad()
    return _record(total, loss, grad_norm, skipped=skipped)


def accumulate_gradient(policy: Policy, batch: Batch, step: Step) -> GradientSum:
    """Add the gradient of the summed numerators to the parameters; the division is left to the caller."""
    objective, way = step.objective, _way(step)
    rows = _rows_with_gradient(batch, objective)
    others = sorted(set(range(len(batch.rows))) - set(rows)) if objective.needs.zero_advantage_statistics else []
    before = policy.measure(batch, sorted(rows + others)) if way == "probe" else batch.stats
    used = select(before, objective, policy.ranks, phase=step.phase)

    seen = Recorder(batch)
    numerator, metrics = 0.0, Metrics()
    for micro in policy.split(batch, rows):
        now = policy.stats(batch, micro)
        seen.write(micro, now)
        out = policy_loss(now, used.take(micro.tokens), objective)
        loss = out.numerator.sum()
        torch.autograd.backward(loss)
        numerator += loss.item()
        metrics = _add(metrics, out.metrics)
    total = GradientSum(selection=used, numerator=numerator, metrics=metrics)
    if way in ("known", "probe"):
        return total

    with torch.no_grad():
        for micro in policy.split(batch, others):
            seen.write(micro, policy.stats(batch, micro))
    exact = select(seen.stats, objective, policy.ranks, phase=step.phase)
    if way == "old-policy":
        return replace(total, num_decisions_changed=int(_changed(used, exact).sum()))
    return _correct(policy, batch, objective, total, exact)


def _correct(policy: Policy, batch: Batch, objective: Objective, total: GradientSum, exact: Selection) -> GradientSum:
    """Run the rows with changed decisions again and add the exact selection's gradient minus the one used."""
    changed = _changed(total.selection, exact)
    rows = sorted(set(batch.stats.sequence[changed].tolist()))
    numerator, metrics = total.numerator, total.metrics
    for micro in policy.split(batch, rows):
        now = policy.stats(batch, micro)
        right = policy_loss(now, exact.take(micro.tokens), objective)
        wrong = policy_loss(now, total.selection.take(micro.tokens), objective)
        difference = (right.numerator - wrong.numerator)[changed[micro.tokens]].sum()
        torch.autograd.backward(difference)
        numerator += difference.item()
        metrics = _add(metrics, {name: right.metrics[name] - wrong.metrics[name] for name in right.metrics})
    return GradientSum(
        selection=exact,
        numerator=numerator,
        metrics=metrics,
        num_decisions_changed=int(changed.sum()),
        num_rows_rerun=len(rows),
    )


def _over_ranks(total: GradientSum, ranks: Reduce) -> GradientSum:
    """The sums of all ranks; gradients are summed where they are made."""
    local = [total.numerator, total.num_decisions_changed, total.num_rows_rerun, *map(float, total.metrics.values())]
    numerator, changed, rerun, *sums = ranks.sum(torch.tensor(local, dtype=torch.float64)).tolist()
    return replace(
        total,
        numerator=numerator,
        metrics={
            name: torch.tensor(value, dtype=torch.float64) for name, value in zip(total.metrics, sums, strict=True)
        },
        num_decisions_changed=int(changed),
        num_rows_rerun=int(rerun),
    )


def _changed(a: Selection, b: Selection) -> Tensor:
    return (a.weights != b.weights) | (a.marked_mask != b.marked_mask)


def _way(step: Step) -> Literal["known", "correct", "probe", "old-policy"]:
    if step.objective.needs.current_policy == "none" or (step.first and step.phase == 0):
        return "known"
    if step.method == "exact":
        return "correct" if step.objective.needs.current_policy == "few" else "probe"
    return step.method


def _rows_with_gradient(batch: Batch, objective: Objective) -> list[int]:
    if objective.needs_reference or objective.needs.zero_advantage_gradient:  # a KL term pulls on every token
        return list(range(len(batch.rows)))
    return torch.nonzero(batch.row_advantages).flatten().tolist()


def _gradient(parameter: Tensor) -> Tensor:
    # No row ran (all advantages 0): the gradient is 0, and the optimizer's moments decay as after any other step.
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _add(a: Metrics, b: Metrics) -> Metrics:
    return {name: a[name] + value for name, value in b.items()} if a else b


def _record(total: GradientSum, loss: float, grad_norm: float, skipped: str | None) -> UpdateRecord:
    selection = total.selection
    sums = {name: float(value) for name, value in total.metrics.items()}
    run = max(sums.get("tokens", 0.0), 1.0)
    all_tokens = max(selection.num_tokens, 1)
    return UpdateRecord(
        num_tokens=selection.num_tokens,
        num_candidates=selection.num_candidates,
        num_silenced=selection.num_tokens - selection.num_kept,
        num_kept=selection.num_kept,
        candidate_entropy=selection.candidate_entropy,
        thresholds=selection.thresholds,
        loss=loss,
        grad_norm=grad_norm,
        ratio_mean=sums.get("ratio", run) / run,
        clip_high_share=sums.get("clipped_high", 0.0) / all_tokens,
        clip_low_share=sums.get("clipped_low", 0.0) / all_tokens,
        kl_to_old=sums.get("kl_to_old", 0.0) / run,
        num_decisions_changed=total.num_decisions_changed,
        num_rows_rerun=total.num_rows_rerun,
        skipped=skipped,
    )
