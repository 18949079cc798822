"""What other objectives would have done with a dumped mini-batch, without training and without changing the dump.

stapo-train replay runs/x/dumps/iteration-000010 --objectives grpo,justrl,stapo
stapo-train sweep  runs/x/dumps/iteration-000010 --tau-p 0.001,0.002,0.005 --q 0.5,0.75,1.0
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from stapo_bench.errors import StapoError, UsageError, watched
from stapo_train.batch import Batch
from stapo_train.inspect.dump import Dump
from stapo_train.objective import ONE_PROCESS, Objective, Selection, mean, policy_loss, select
from stapo_train.objectives import for_run
from stapo_train.token_statistics import logit_gradient_norm_squared, token_distribution


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """One objective on the mini-batch (its first phase, where it has several)."""

    name: str
    loss: float
    selection: Selection
    gradient: Tensor  # [num_parameters], divided by the denominator
    logit_norm_share: float  # of sum over tokens ||d loss / d logits||^2, the part of the silenced tokens if kept
    parameter_norm_share: float  # ||gradient of the silenced tokens alone|| / ||gradient with nothing silenced||


def objective_for(dump: Dump, name: str, **settings: float) -> Objective:
    """The objective of that name with the dumped run's seed and lengths, and its settings if it is the run's own."""
    own = dump.about.objective
    values = {**(own if own["name"] == name else {}), **settings, "name": name}
    return for_run(values, seed=dump.about.seed, max_new_tokens=dump.about.max_new_tokens)


def batch_for(dump: Dump, objective: Objective) -> Batch:
    """The mini-batch with the advantages that a run of this objective would have given it.

    What the dump's own run had no use for is filled in from what is there: the dumped policy stands in for the old one
    (its min-p proxy), and its mini-batch for the iteration (the mean entropy).
    """
    batch, own = _completed(dump, objective), dump.about.objective["name"]
    theirs = objective_for(dump, own)
    if objective.describe_advantages() == theirs.describe_advantages():
        return batch
    if dump.rewards is None or dump.group_ids is None:
        raise StapoError(
            f"{objective.label}: expected rewards in the dump to make its advantages {objective.describe_advantages()} "
            f"from, got an older dump with {own}'s {theirs.describe_advantages()} alone; dump the iteration again"
        )
    lengths = np.array([len(response) for _, response in batch.rows])
    found = objective.advantages(dump.rewards.numpy(), dump.group_ids.numpy(), lengths)
    advantages = torch.from_numpy(found).to(batch.row_advantages)
    return replace(
        batch, row_advantages=advantages, stats=replace(batch.stats, advantages=advantages[batch.stats.sequence])
    )


def _completed(dump: Dump, objective: Objective) -> Batch:
    batch, stats = dump.batch, dump.batch.stats
    if objective.min_p is not None and stats.proxy_log_probs is None:
        stats = replace(stats, proxy_log_probs=dump.policy.proxy_log_probs(batch, objective.min_p))
    if objective.needs_batch_entropy and stats.batch_entropy is None:
        stats = replace(stats, batch_entropy=torch.full_like(stats.entropy, mean(stats.entropy, ONE_PROCESS)))
    return replace(batch, stats=stats)


def replay(dump: Dump, names: Sequence[str]) -> list[Replayed]:
    """Loss, mask and gradient of each objective."""
    return [_replay(dump, name, objective_for(dump, name)) for name in names]


def _replay(dump: Dump, name: str, objective: Objective) -> Replayed:
    dump = replace(dump, batch=batch_for(dump, objective))
    selection = select(dump.batch.stats, objective)
    unmasked = _nothing_silenced(selection)
    loss, kept, _ = _gradient(dump, objective, selection)
    _, everything, by_logit = _gradient(dump, objective, unmasked)
    silenced = ~selection.keep_mask
    total = float(by_logit.sum())
    return Replayed(
        name=name,
        loss=loss / selection.divisor,
        selection=selection,
        gradient=kept / selection.divisor,
        logit_norm_share=float(by_logit[silenced].sum()) / total if total else 0.0,
        parameter_norm_share=float((everything - kept).norm() / everything.norm()) if everything.norm() else 0.0,
    )


def _nothing_silenced(selection: Selection) -> Selection:
    everything = torch.ones_like(selection.keep_mask)
    weights = torch.where(selection.keep_mask, selection.weights, torch.ones_like(selection.weights))
    return replace(selection, keep_mask=everything, weights=weights)


def _gradient(dump: Dump, objective: Objective, selection: Selection) -> tuple[float, Tensor, Tensor]:
    """Summed numerator, its gradient by the parameters, and [N] squared norms of tokens' gradients by their logits."""
    policy, batch = dump.policy, dump.batch
    policy.model.zero_grad()
    total, by_logit = 0.0, torch.zeros_like(batch.stats.log_probs)
    parts = policy.split(batch, range(len(batch.rows)))
    doing = f"replaying {objective.label}"
    for micro in watched(parts, doing, "tokens", len(by_logit), lambda part: len(part.tokens)):
        now = token_distribution(policy.logits(micro), micro.taken, policy.temperature)
        leaf = now.log_probs.detach().requires_grad_()
        part, chosen = batch.stats.take(micro.tokens), selection.take(micro.tokens)
        alone = policy_loss(replace(part, log_probs=leaf), chosen, objective).numerator.sum()
        (weight,) = torch.autograd.grad(alone, leaf, retain_graph=True)
        by_logit[micro.tokens] = logit_gradient_norm_squared(weight, leaf.detach().exp(), now.sum_squares)
        out = policy_loss(replace(part, log_probs=now.log_probs), chosen, objective)
        torch.autograd.backward(out.numerator.sum())
        total += float(out.numerator.detach().sum())
    gradient = torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])
    return total, gradient.clone(), by_logit


def cosine(a: Replayed, b: Replayed) -> float:
    """Cosine of the two gradients; 0 where one is 0."""
    one, other = a.gradient.double(), b.gradient.double()
    norm = float(one.norm() * other.norm())
    return float(one @ other) / norm if norm else 0.0


def overlap(a: Selection, b: Selection) -> float | None:
    """Jaccard index: tokens that both silence / tokens that either silences; None where neither silences any."""
    either = int((~a.keep_mask | ~b.keep_mask).sum())
    return int((~a.keep_mask & ~b.keep_mask).sum()) / either if either else None


@dataclass(frozen=True, kw_only=True)
class SweepRow:
    """STAPO at one pair of thresholds, compared with the first row."""

    tau_p: float
    q: float
    tau_h: float
    num_candidates: int
    num_silenced: int
    masked_share: float
    enters: tuple[int, ...]  # tokens silenced here and not in the first row
    leaves: tuple[int, ...]


def sweep(dump: Dump, tau_ps: Sequence[float], qs: Sequence[float], name: str = "stapo") -> list[SweepRow]:
    """Every pair of thresholds; the first row is the objective's default.

    Raises:
        UsageError: an objective that has not both of them.
    """
    default = asdict(objective_for(dump, name))
    if not default.keys() >= {"tau_p", "q"}:
        raise UsageError(f"{name}: expected an objective with the thresholds tau_p and q, such as stapo")
    pairs = [(default["tau_p"], default["q"])]
    pairs += [(tau_p, q) for tau_p in tau_ps for q in qs if (tau_p, q) != pairs[0]]
    rows: list[SweepRow] = []
    first: set[int] | None = None
    for tau_p, q in watched(pairs, "sweeping", "pairs of thresholds", len(pairs)):
        objective = objective_for(dump, name, tau_p=tau_p, q=q)
        found = select(batch_for(dump, objective).stats, objective)
        silenced = set(torch.nonzero(~found.keep_mask).flatten().tolist())
        first = silenced if first is None else first
        rows.append(
            SweepRow(
                tau_p=tau_p,
                q=q,
                tau_h=found.thresholds["tau_h"],
                num_candidates=found.num_candidates,
                num_silenced=len(silenced),
                masked_share=len(silenced) / max(found.num_tokens, 1),
                enters=tuple(sorted(silenced - first)),
                leaves=tuple(sorted(first - silenced)),
            )
        )
    return rows


@dataclass(frozen=True, kw_only=True)
class AuditedToken:
    """A candidate token with its context, probabilities and alternatives."""

    token: int  # its place in the mini-batch
    silenced: bool
    before: str  # decoded context
    text: str
    after: str
    prob: float
    entropy: float  # nats
    advantage: float
    alternatives: tuple[tuple[str, float], ...]  # the five most likely tokens


def audit(dump: Dump, name: str, context: int = 24, tokens: Sequence[int] | None = None) -> list[AuditedToken]:
    """The objective's candidates (or the tokens given), least likely first, with ``context`` tokens on both sides."""
    objective = objective_for(dump, name)
    batch = batch_for(dump, objective)
    dump, selection = replace(dump, batch=batch), select(batch.stats, objective)
    wanted = set(torch.nonzero(selection.candidate_mask).flatten().tolist() if tokens is None else tokens)
    rows = sorted({int(batch.stats.sequence[token]) for token in wanted})
    found = []
    with torch.no_grad():
        parts = dump.policy.split(batch, rows)
        for micro in watched(parts, "reading", "tokens", size=lambda part: len(part.tokens)):
            probs = torch.softmax(dump.policy.logits(micro).float() / dump.policy.temperature, dim=-1)
            for place, token in enumerate(micro.tokens.tolist()):
                if token in wanted:
                    found.append(_audited(dump, selection, token, probs[place], context))
    return sorted(found, key=lambda t: t.prob)


def _audited(dump: Dump, selection: Selection, token: int, probs: Tensor, context: int) -> AuditedToken:
    batch, decode = dump.batch, dump.tokenizer.decode
    row = int(batch.stats.sequence[token])
    ids, drawn = batch.laid_out(row)
    place = drawn[token - batch.starts[row]]
    top = probs.topk(min(5, len(probs)))
    return AuditedToken(
        token=token,
        silenced=not selection.keep_mask[token],
        before=decode(ids[max(0, place - context) : place]),
        text=decode([ids[place]]),
        after=decode(ids[place + 1 : place + 1 + context]),
        prob=float(batch.stats.log_probs[token].exp()),
        entropy=float(batch.stats.entropy[token]),
        advantage=float(batch.stats.advantages[token]),
        alternatives=tuple((decode([i]), p) for i, p in zip(top.indices.tolist(), top.values.tolist(), strict=True)),
    )
