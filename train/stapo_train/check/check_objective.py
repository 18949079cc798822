"""Is an objective computed exactly? The invariances as a suite: ``stapo-train check-objective NAME``.

All in float64 on a toy Qwen3 and random rollouts, to 1e-6 relative: loss and gradient must not depend on how the
mini-batch is split into micro-batches, on padding, on packing, on the order of rollouts or on the number of ranks; both
must agree with a slow reference, with finite differences and with the paper's gradient-norm identity and bounds; the
gradient at a silenced token must be exactly 0. And the trainer's own accumulation, which leaves out the passes that the
objective says it does not need, must give the same from statistics that have gone stale.
"""

import math
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.multiprocessing.spawn import spawn

from stapo_train.batch import Batch, MicroBatch
from stapo_train.check.reference import REFERENCES, Token, reference_loss
from stapo_train.check.toy import VOCABULARY, toy_batch, toy_objective, toy_policy
from stapo_train.distributed import ProcessGroup
from stapo_train.objective import ONE_PROCESS, Objective, Reduce, Selection, TokenStats, policy_loss, select
from stapo_train.policy import Policy
from stapo_train.token_statistics import logit_gradient_norm_bounds, logit_gradient_norm_squared, token_distribution
from stapo_train.update import Step, accumulate_gradient

TOLERANCE = 1e-6
QWEN3_VOCABULARY = 151_936


@dataclass(frozen=True, kw_only=True)
class Check:
    """One property of one objective. ``deviation`` is relative unless the name says exact."""

    name: str
    deviation: float  # NaN where not applicable, and there alone
    applicable: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        if self.applicable and math.isnan(self.deviation):  # what is no number is as far off as can be
            object.__setattr__(self, "deviation", math.inf)

    @property
    def passed(self) -> bool:
        return not self.applicable or self.deviation <= TOLERANCE


def check_objective(
    name: str, settings: dict[str, Any] | None = None, *, ranks: bool = True, large_vocabulary: bool = True
) -> Iterator[Check]:
    """Run the suite; yields each check as it is done. The two flags leave the slow parts out."""
    objective = toy_objective(name, settings)
    policy, batch = toy_policy(objective), toy_batch(objective)
    for phase in range(objective.num_phases):
        suffix = f" (phase {phase + 1})" if objective.num_phases > 1 else ""
        whole = loss_and_gradient(policy, batch, objective, phase=phase)
        for check in _invariances(policy, batch, objective, phase, whole):
            yield replace(check, name=check.name + suffix)
        for check in _stale_statistics(policy, batch, objective, phase, whole):
            yield replace(check, name=check.name + suffix)
        yield replace(
            _against_reference(name, objective, policy, batch, phase=phase, loss=whole.loss),
            name="slow reference" + suffix,
        )
        for vocabulary in (VOCABULARY, QWEN3_VOCABULARY) if large_vocabulary else (VOCABULARY,):
            for check in _token_checks(RandomTokens.make(vocabulary, batch.stats, objective, phase)):
                yield replace(check, name=f"{check.name}, V = {vocabulary}{suffix}")
    if ranks:
        whole = loss_and_gradient(policy, batch, objective)
        yield Check(name="two ranks", deviation=_distance(whole, two_ranks([(name, settings)])[0]))


# --- loss and gradient ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Computed:
    """Loss and gradient of a mini-batch, divided."""

    loss: float
    gradient: Tensor  # [num_parameters]


def loss_and_gradient(
    policy: Policy, batch: Batch, objective: Objective, *, phase: int = 0, reduce: Reduce = ONE_PROCESS, widen: int = 0
) -> Computed:
    """The straight way: one pass without gradient, select, one pass with. ``widen``: positions of extra padding."""
    selection = select(policy.measure(batch), objective, reduce, phase)
    policy.model.zero_grad()
    numerator = torch.zeros((), dtype=torch.float64)
    for micro in policy.split(batch, range(len(batch.rows))):
        out = policy_loss(policy.stats(batch, _widened(micro, widen)), selection.take(micro.tokens), objective)
        torch.autograd.backward(out.numerator.sum())
        numerator += out.numerator.detach().sum()
    return _computed(policy, selection, reduce.sum(numerator), reduce)


def _computed(policy: Policy, selection: Selection, numerator: Tensor, reduce: Reduce = ONE_PROCESS) -> Computed:
    gradient = torch.cat([p.grad.flatten() for p in policy.model.parameters()])
    return Computed(
        loss=float(numerator / selection.denominator), gradient=reduce.sum(gradient) / selection.denominator
    )


def _widened(micro: MicroBatch, extra: int) -> MicroBatch:
    rows, width = micro.input_ids.shape
    row, position = micro.predictor // width, micro.predictor % width
    padded = F.pad(micro.input_ids, (0, extra), value=VOCABULARY - 1)
    assert padded.shape == (rows, width + extra)
    return replace(micro, input_ids=padded, predictor=row * (width + extra) + position)


def _distance(a: Computed, b: Computed) -> float:
    scale = max(float(a.gradient.abs().max()), 1e-12)
    by_gradient = float((a.gradient - b.gradient).abs().max()) / scale
    return _worst(by_gradient, abs(a.loss - b.loss) / max(abs(a.loss), 1e-12))


def _worst(*deviations: float) -> float:
    """The largest; NaN if one is, which Python's ``max`` drops or keeps by its place."""
    return float(np.max(deviations))


# --- the checks ------------------------------------------------------------------------------------------------------


def _invariances(policy: Policy, batch: Batch, objective: Objective, phase: int, whole: Computed) -> Iterator[Check]:
    def deviation(policy: Policy, batch: Batch, widen: int = 0) -> float:
        return _distance(whole, loss_and_gradient(policy, batch, objective, phase=phase, widen=widen))

    for tokens in (1, 64):
        yield Check(
            name="micro-batches" if tokens > 1 else "one rollout per micro-batch",
            deviation=deviation(replace(policy, micro_batch_tokens=tokens), batch),
        )
    yield Check(name="padding", deviation=deviation(policy, batch, widen=7))
    yield Check(name="packing", deviation=_distance(whole, packed(policy, batch, objective, phase)))
    order = np.random.default_rng(5).permutation(len(batch.rows)).tolist()
    yield Check(name="order of rollouts", deviation=deviation(policy, batch.select_rows(order)))


def _stale_statistics(
    policy: Policy, batch: Batch, objective: Objective, phase: int, whole: Computed
) -> Iterator[Check]:
    """The trainer's way to the gradient, as the objective's ``needs`` allow, where the old policy was another one."""
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
            deviation=_distance(whole, _computed(policy, total.selection, torch.tensor(total.numerator))),
            note=f"by its needs: {objective.needs.current_policy} of the current policy",
        )


def packed(policy: Policy, batch: Batch, objective: Objective, phase: int = 0) -> Computed:
    """All rollouts in one row, each seeing only itself."""
    rows = [prompt + response for prompt, response in batch.rows]
    owner = torch.cat([torch.full((len(row),), i) for i, row in enumerate(rows)])
    position = torch.cat([torch.arange(len(row)) for row in rows])
    causal = torch.ones(len(owner), len(owner), dtype=torch.bool).tril()
    starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
    predictor = torch.cat(
        [
            torch.arange(start + len(prompt) - 1, start + len(prompt) + len(response) - 1)
            for start, (prompt, response) in zip(starts.tolist(), batch.rows, strict=True)
        ]
    )
    input_ids = torch.tensor([token for row in rows for token in row])
    hidden = policy.model.base_model(
        input_ids=input_ids.unsqueeze(0),
        position_ids=position.unsqueeze(0),
        attention_mask=((owner[:, None] == owner[None, :]) & causal)[None, None],
        use_cache=False,
    ).last_hidden_state[0]
    logits = policy.model.get_output_embeddings()(hidden[predictor])
    now = token_distribution(logits, input_ids[predictor + 1], policy.temperature, policy.min_p)
    stats = replace(batch.stats, log_probs=now.log_probs, entropy=now.entropy, proxy_kl=now.proxy_kl)
    selection = select(replace(stats, log_probs=now.log_probs.detach()), objective, phase=phase)
    policy.model.zero_grad()
    numerator = policy_loss(stats, selection, objective).numerator.sum()
    torch.autograd.backward(numerator)
    return _computed(policy, selection, numerator.detach())


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
    """The mini-batch in plain numbers, for the slow reference."""
    proxy = torch.zeros_like(stats.entropy)
    with torch.no_grad():
        for micro in policy.split(batch, range(len(batch.rows))):
            found = policy.stats(batch, micro).proxy_kl
            if found is not None:
                proxy[micro.tokens] = found
    columns = (stats.log_probs, stats.old_log_probs, stats.entropy, stats.advantages, stats.sequence, stats.key, proxy)
    names = ("log_prob", "old_log_prob", "entropy", "advantage", "sequence", "key", "proxy_kl")
    return [Token(**dict(zip(names, row, strict=True))) for row in zip(*(c.tolist() for c in columns), strict=True)]


@dataclass(frozen=True, kw_only=True)
class RandomTokens:
    """Tokens with random next-token distributions, from flat to peaked, and what an objective makes of them."""

    objective: Objective
    logits: Tensor  # [N, V]
    taken: Tensor  # [N]
    stats: TokenStats
    selection: Selection

    @staticmethod
    def make(vocabulary: int, like: TokenStats, objective: Objective, phase: int) -> "RandomTokens":
        """Advantages, rollouts and ratios as in ``like``; fewer tokens where the vocabulary is large."""
        like = like.take(torch.arange(min(len(like.key), 2_000_000 // vocabulary)))
        generator = torch.Generator().manual_seed(2)
        count = len(like.key)
        scale = torch.linspace(0.1, 8.0, count, dtype=torch.float64).unsqueeze(1)
        logits = scale * torch.randn(count, vocabulary, generator=generator, dtype=torch.float64)
        taken = torch.randint(vocabulary, (count,), generator=generator)
        now = token_distribution(logits, taken, 1.0, objective.min_p)
        shift = like.log_probs - like.old_log_probs
        stats = replace(
            like,
            log_probs=now.log_probs,
            entropy=now.entropy,
            proxy_kl=now.proxy_kl,
            old_log_probs=now.log_probs - shift,
            ref_log_probs=now.log_probs + shift,
        )
        selection = select(stats, objective, phase=phase)
        return RandomTokens(objective=objective, logits=logits, taken=taken, stats=stats, selection=selection)

    def numerator(self, logits: Tensor) -> Tensor:
        """[N] loss numerators at other logits, the selection held fixed."""
        now = token_distribution(logits, self.taken, 1.0, self.objective.min_p)
        stats = replace(self.stats, log_probs=now.log_probs, proxy_kl=now.proxy_kl)
        return policy_loss(stats, self.selection, self.objective).numerator

    def gradient(self) -> Tensor:
        """[N, V] by the logits."""
        leaf = self.logits.clone().requires_grad_()
        torch.autograd.backward(self.numerator(leaf).sum())
        assert leaf.grad is not None
        return leaf.grad

    def gradient_by_log_prob(self) -> Tensor:
        """[N] by the taken tokens' log-probs, all else held fixed."""
        leaf = self.stats.log_probs.clone().requires_grad_()
        stats = replace(self.stats, log_probs=leaf)
        torch.autograd.backward(policy_loss(stats, self.selection, self.objective).numerator.sum())
        assert leaf.grad is not None
        return leaf.grad


def _token_checks(tokens: RandomTokens) -> Iterator[Check]:
    gradient, selection = tokens.gradient(), tokens.selection
    silenced = gradient[~selection.keep_mask]
    worst = float(silenced.abs().max()) if len(silenced) else math.nan
    yield Check(
        name="0 at silenced tokens",
        deviation=math.inf if worst > 0 else worst,  # exactly, or not at all
        applicable=len(silenced) > 0,
        note=f"{len(silenced)} of {len(gradient)} silenced",
    )
    has_slope = not tokens.objective.detaches_ratio  # else the gradient is by definition not that of the value
    slope = _finite_differences(tokens, gradient) if has_slope else math.nan
    yield Check(name="finite differences", deviation=slope, applicable=has_slope)

    # ||gradient by logits||^2 = w^2 (1 - 2 pi + sum pi_v^2), where the loss sees the logits through pi alone
    plain = ~selection.marked_mask
    now = token_distribution(tokens.logits, tokens.taken, 1.0)
    weight, probs = tokens.gradient_by_log_prob(), now.log_probs.exp()
    measured = (gradient**2).sum(-1)
    identity = logit_gradient_norm_squared(weight, probs, now.sum_squares)
    low, high = logit_gradient_norm_bounds(weight, probs, now.entropy, tokens.logits.shape[1])
    scale = float(identity.max().clamp(min=1e-12))
    yield Check(name="gradient norm", deviation=float((measured - identity)[plain].abs().max()) / scale)
    outside = torch.maximum(low - measured, measured - high)[plain].clamp(min=0)
    yield Check(name="its bounds", deviation=float(outside.max()) / scale)


def _finite_differences(tokens: RandomTokens, gradient: Tensor, step: float = 1e-6) -> float:
    """Along random directions."""
    worst, generator = 0.0, torch.Generator().manual_seed(9)
    for _ in range(3):
        direction = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            above, below = (float(tokens.numerator(tokens.logits + s * direction).sum()) for s in (step, -step))
        expected = float((gradient * direction).sum())
        worst = _worst(worst, abs((above - below) / (2 * step) - expected) / max(abs(expected), 1.0))
    return worst


# --- two ranks -------------------------------------------------------------------------------------------------------


def two_ranks(objectives: list[tuple[str, dict[str, Any] | None]]) -> list[Computed]:
    """Loss and gradient of each objective (phase 1), its rollouts shared out over two gloo processes."""
    with TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        results = Path(folder) / "results"
        spawn(_rank, args=(port, objectives, str(results)), nprocs=2)  # type: ignore[no-untyped-call]
        found = load_file(results)
    losses = found.pop("losses").tolist()
    return [Computed(loss=loss, gradient=found[str(number)]) for number, loss in enumerate(losses)]


def _rank(rank: int, port: int, objectives: list[tuple[str, dict[str, Any] | None]], results: str) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    try:
        found = []
        for name, settings in objectives:
            objective = toy_objective(name, settings)
            batch = toy_batch(objective)
            share = batch.select_rows(
                [r for r in range(len(batch.rows)) if r % 3 == 0]
                if rank == 0
                else [r for r in range(len(batch.rows)) if r % 3]
            )  # unequal shares
            computed = loss_and_gradient(
                toy_policy(objective), share, objective, reduce=ProcessGroup(torch.device("cpu"))
            )
            found.append(computed)
        if rank == 0:
            losses = torch.tensor([computed.loss for computed in found], dtype=torch.float64)
            gradients = {str(number): computed.gradient for number, computed in enumerate(found)}
            save_file({"losses": losses, **gradients}, results)
    finally:
        dist.destroy_process_group()
