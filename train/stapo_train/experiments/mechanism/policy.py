"""A policy without a network, trained by the real objectives, in a world where it is known what every token does.

A rollout is ``length`` tokens, each drawn in a context. A context's distribution is a few likely tokens and a Zipf tail
that all contexts share. Some tail tokens harm, some help, the rest does nothing, and neither do the likely ones: they
are style. A rollout succeeds with probability sigmoid(logit(success) + effect * (useful - harmful tokens in it)).

    z_c = z_c(0) + sqrt(1 - spill) own_c + sqrt(spill) shared        [V] logits of context c

An update of token v in one context moves v's logit in every other by ``spill`` of it, as parameters that contexts
share do; spill 0 is a table.

Legend: C contexts, V vocabulary, N tokens, R rollouts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stapo_train.experiments.mechanism.identities import drift, entropy_of
from stapo_train.objective import TokenStats, policy_loss, select
from stapo_train.objectives import build

HEAD = 8
"""Likely tokens of a context."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One run, but for its seed."""

    objective: str = "justrl"
    constants: Mapping[str, Any] = field(default_factory=dict)  # of the objective, where others than its own
    optimizer: str = "sgd"  # or adam
    lr: float = 1.0
    iterations: int = 100
    mini_batches: int = 4  # updates per iteration
    prompts: int = 16  # per mini-batch
    group: int = 8
    length: int = 16  # tokens of a rollout
    longer: float = 1.0  # tokens of a successful rollout over those of a failed one
    contexts: int = 32
    vocabulary: int = 1000
    top: float = 0.8  # probability of a context's likeliest token, among its likely ones
    tail: float = 0.02  # mass of the tail
    spill: float = 0.0
    success: float = 0.5
    harmful: float = 0.0  # share of the tail's tokens
    useful: float = 0.0
    effect: float = 0.0  # of one such token, in log-odds
    temperature: float = 1.0  # of the rollouts; the loss is at 1
    noise: float = 0.0  # standard deviation of the sampling engine's log-probs from the trainer's


@dataclass(frozen=True, kw_only=True)
class World:
    """What does not change in a run."""

    start: Tensor  # [C, V] log-probabilities before the first update
    is_tail: Tensor  # [C, V] bool
    worth: Tensor  # [V] 1 useful, -1 harmful, 0 neither


def make_world(setting: Setting, generator: torch.Generator) -> World:
    """Draw the contexts' likely tokens and what the others are worth."""
    shape = (setting.contexts, setting.vocabulary)
    zipf = 1 / (torch.arange(setting.vocabulary, dtype=torch.float64) + 2.7)
    pi = (setting.tail * zipf / zipf.sum()).expand(shape).clone()
    likely = torch.rand(shape, generator=generator).topk(HEAD).indices  # [C, HEAD]
    others = (1 - setting.top) * 0.5 ** torch.arange(HEAD - 1) / (0.5 ** torch.arange(HEAD - 1)).sum()
    mass = (1 - setting.tail) * torch.cat([torch.tensor([setting.top]), others]).double()
    pi.scatter_add_(1, likely, mass.expand(setting.contexts, HEAD))
    is_tail = torch.ones(shape, dtype=torch.bool).scatter_(1, likely, False)
    lot = torch.rand(setting.vocabulary, generator=generator)
    worth = (lot < setting.useful).long() - (lot > 1 - setting.harmful).long()
    return World(start=pi.log(), is_tail=is_tail, worth=worth)


@dataclass(frozen=True, kw_only=True)
class Rollouts:
    """An iteration's tokens, rollout by rollout; rollouts of one prompt stand together."""

    context: Tensor  # [N]
    taken: Tensor  # [N]
    rollout: Tensor  # [N]
    rewards: Tensor  # [R]


def draw(setting: Setting, world: World, log_pi: Tensor, generator: torch.Generator) -> Rollouts:
    """Rollouts by the engine, whose distribution may differ from ``log_pi`` [C, V]."""
    count = setting.mini_batches * setting.prompts * setting.group
    seen = log_pi / setting.temperature
    if setting.noise:
        seen = seen + setting.noise * torch.randn(seen.shape, generator=generator, dtype=seen.dtype)
    drawn = torch.arange(count).repeat_interleave(setting.length)
    context = torch.randint(setting.contexts, drawn.shape, generator=generator)
    taken = sample(seen.softmax(-1), context, generator)
    logit = np.log(setting.success / (1 - setting.success))
    worth = torch.where(world.is_tail[context, taken], world.worth[taken], 0).double()
    chance = torch.sigmoid(logit + setting.effect * torch.zeros(count).double().index_add(0, drawn, worth))
    rewards = (torch.rand(count, generator=generator) < chance).double()
    # A token at a place beyond its rollout's length is left out.
    longest = setting.length * torch.where(rewards == 1, min(setting.longer, 1), min(1 / setting.longer, 1))
    inside = torch.arange(len(drawn)) % setting.length < longest[drawn]
    return Rollouts(context=context[inside], taken=taken[inside], rollout=drawn[inside], rewards=rewards)


def sample(pi: Tensor, context: Tensor, generator: torch.Generator) -> Tensor:
    """[N] a token for each context, by ``pi`` [C, V]; the rows' distribution functions are searched as one."""
    rows, vocabulary = pi.shape
    reached = pi.double().cumsum(-1)
    reached = (reached / reached[:, -1:] + torch.arange(rows).unsqueeze(-1)).flatten()
    place = torch.searchsorted(reached, context + torch.rand(context.shape, generator=generator, dtype=torch.float64))
    return (place - context * vocabulary).clamp(0, vocabulary - 1)


def train(setting: Setting, seed: int) -> list[dict[str, float]]:
    """One run: a record per iteration, and first the one before any update.

    Each record: ``entropy`` (nats) and ``drift`` (see identities), means over contexts; ``tail``, the mass of tokens
    that were tail at the start, and of it ``useful`` and ``harmful``; ``reward``; and as shares of tokens ``masked``,
    ``clipped_high`` and ``clipped_low``.
    """
    generator = torch.Generator().manual_seed(seed)
    world = make_world(setting, generator)
    objective = build(setting.objective, **setting.constants)
    own = torch.zeros(world.start.shape, dtype=torch.float64, requires_grad=True)
    shared = torch.zeros(setting.vocabulary, dtype=torch.float64, requires_grad=True)
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[setting.optimizer]
    optimizer = make([own, shared], lr=setting.lr)

    def log_policy() -> Tensor:
        return torch.log_softmax(world.start + (1 - setting.spill) ** 0.5 * own + setting.spill**0.5 * shared, -1)

    records = [_state(world, log_policy().detach())]
    for _ in range(setting.iterations):
        with torch.no_grad():
            old = log_policy()
        rollouts = draw(setting, world, old, generator)
        groups = np.arange(len(rollouts.rewards)) // setting.group
        lengths = torch.bincount(rollouts.rollout, minlength=len(groups)).numpy()
        advantages = torch.from_numpy(objective.advantages(rollouts.rewards.numpy(), groups, lengths))
        shares = dict.fromkeys(("masked", "clipped_high", "clipped_low"), 0.0)
        per_batch = setting.prompts * setting.group
        for number in range(setting.mini_batches):
            part = (rollouts.rollout // per_batch == number).nonzero().squeeze(-1)
            context, taken, rollout = rollouts.context[part], rollouts.taken[part], rollouts.rollout[part]
            log_pi = log_policy()
            stats = TokenStats(
                log_probs=log_pi[context, taken],
                old_log_probs=old[context, taken],
                entropy=entropy_of(log_pi.detach())[context],
                advantages=advantages[rollout],
                sequence=rollout - number * per_batch,
                key=part,
            )
            selection = select(stats, objective)
            output = policy_loss(stats, selection, objective)
            optimizer.zero_grad()
            (output.numerator.sum() / selection.denominator).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            shares["masked"] += 1 - selection.num_kept / selection.num_tokens
            for name in ("clipped_high", "clipped_low"):
                shares[name] += float(output.metrics[name]) / selection.num_tokens
        told = {name: value / setting.mini_batches for name, value in shares.items()}
        with torch.no_grad():
            records.append({**_state(world, log_policy()), "reward": float(rollouts.rewards.mean()), **told})
    return records


def _state(world: World, log_pi: Tensor) -> dict[str, float]:
    tail = log_pi.exp() * world.is_tail
    return {
        "entropy": float(entropy_of(log_pi).mean()),
        "drift": float(drift(log_pi).mean()),
        "tail": float(tail.sum(-1).mean()),
        "useful": float((tail * (world.worth == 1)).sum(-1).mean()),
        "harmful": float((tail * (world.worth == -1)).sum(-1).mean()),
    }
