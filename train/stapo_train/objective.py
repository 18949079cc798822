"""The two pure functions behind every objective, and the records they exchange. arXiv:2602.15620.

    stats of a whole mini-batch --select--> Selection: weights, keep mask, denominator, thresholds    no gradient
    stats of one micro-batch, its part of the selection --policy_loss--> numerator per token, metrics

    J = sum over tokens of weight_t * term_t / denominator,   loss = -J

The unit of ``select`` is the mini-batch behind one optimizer step, over all micro-batches and all ranks. The
denominator is counted there, once, before any backward pass, so no result depends on how the tokens were split.

Tokens are laid end to end in one dimension; ``sequence`` says which rollout a token belongs to. Padding, packing and
the order of rollouts therefore cannot enter. A rollout is never split over micro-batches or ranks.

An objective's author needs to import from this module only, which makes it long: records, the base class and the
functions that selections and terms are built from.

Legend: N response tokens of a mini-batch or of a part of it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from stapo_train.advantages import group_advantages
from stapo_train.origins import Origins
from stapo_train.parse import check_range
from stapo_train.torch_later import Tensor, torch

Metrics = dict[str, Tensor]
"""Sums over tokens, each a scalar without gradient: they add over micro-batches and ranks."""


@dataclass(frozen=True, kw_only=True)
class TokenStats:
    """What an objective may know of each response token. In ``policy_loss`` ``log_probs`` carries the gradient.

    From padded rows [B, T] they are made by ``stapo_train.rows.token_stats``. All are [N], on one device:

        log_probs         nats, ln pi_theta of the taken token under the current policy
        old_log_probs     nats, the same before this iteration's first update, from the trainer
        entropy           nats, of the current policy's full next-token distribution
        advantages        A_i, repeated over the tokens of rollout i
        sequence          int64 from 0, which rollout; equal numbers are one rollout
        key               int64, identifies the token for seeded random numbers, whatever its order or rank
        ref_log_probs     nats, of the reference policy, for a KL penalty
        proxy_log_probs   nats, of the old policy cut by ``min_p``, see token_distribution; -inf: the cut leaves it out
        batch_entropy     nats, the old policy's mean over the iteration's tokens, equal at all
        importance        truncated pi_old / pi_rollout; None: not corrected

    Raises:
        ValueError: fields that are not one value per token, which torch would stretch to a wrong loss.
    """

    log_probs: Tensor
    old_log_probs: Tensor
    entropy: Tensor
    advantages: Tensor
    sequence: Tensor
    key: Tensor
    ref_log_probs: Tensor | None = None
    proxy_log_probs: Tensor | None = None
    batch_entropy: Tensor | None = None
    importance: Tensor | None = None

    def __post_init__(self) -> None:
        if self.log_probs.ndim != 1:
            raise ValueError(
                f"log_probs: expected [N], response tokens end to end, got {list(self.log_probs.shape)}; "
                "stapo_train.rows.token_stats takes padded rows"
            )
        for f in fields(self):
            value: Tensor | None = getattr(self, f.name)
            if value is not None and value.shape != self.log_probs.shape:
                raise ValueError(
                    f"{f.name}: expected one value for each of the {len(self.log_probs)} tokens of log_probs, "
                    f"got {list(value.shape)}"
                )
        for name, ids in (("sequence", self.sequence), ("key", self.key)):
            if ids.dtype != torch.int64:
                raise ValueError(f"{name}: expected int64, got {ids.dtype}")

    def take(self, index: Tensor) -> "TokenStats":
        """The tokens at ``index`` [n]."""
        values: dict[str, Tensor | None] = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: v[index] for name, v in values.items() if v is not None})


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What ``select`` decided. Counts and thresholds are over the whole mini-batch and all ranks.

    weights             [N] multiplies the token's term; exactly 0 at silenced tokens
    keep_mask           [N] bool, False at silenced tokens
    candidate_mask      [N] bool, the tokens that could have been silenced
    marked_mask         [N] bool, the tokens that get the objective's other term
    denominator         [] float64; divide by ``divisor``, which is no 0
    candidate_entropy   nats, mean over the candidates; None: there are none, or it is not known
    thresholds          by name, e.g. tau_h in nats; NaN: undefined here
    """

    weights: Tensor
    keep_mask: Tensor
    candidate_mask: Tensor
    marked_mask: Tensor
    denominator: Tensor
    num_tokens: int
    num_candidates: int
    num_kept: int
    candidate_entropy: float | None
    thresholds: dict[str, float]

    @property
    def divisor(self) -> float:
        """What summed numerators are divided by: the denominator, and 1 where nothing was kept, so that 0 / 0 is 0."""
        return max(self.denominator.item(), 1.0)

    def take(self, index: Tensor) -> "Selection":
        """The same decisions for the tokens at ``index`` [n]; counts and denominator stay those of the mini-batch."""
        return replace(
            self,
            weights=self.weights[index],
            keep_mask=self.keep_mask[index],
            candidate_mask=self.candidate_mask[index],
            marked_mask=self.marked_mask[index],
        )


@dataclass(frozen=True, kw_only=True)
class LossOutput:
    """``loss = numerator.sum() / selection.divisor`` summed over micro-batches and ranks.

    numerator   [N] weight * -term, with gradient
    metrics     sums over the tokens, without gradient; ``metrics["ratio"] / metrics["tokens"]`` is the mean ratio
    """

    numerator: Tensor
    metrics: Metrics


class Reduce(Protocol):
    """How ranks agree. One process: ``ONE_PROCESS``; several: ``stapo_train.distributed.ProcessGroup``."""

    rank: int  # this process, from 0
    size: int  # how many there are

    def sum(self, x: Tensor) -> Tensor:
        """Elementwise sum over ranks, the same on each."""
        ...

    def gather(self, x: Tensor) -> Tensor:
        """1-d tensors of any lengths, laid end to end in rank order, the same on each rank."""
        ...


class _OneProcess:
    rank = 0
    size = 1

    def sum(self, x: Tensor) -> Tensor:
        """The one process's values."""
        return x

    def gather(self, x: Tensor) -> Tensor:
        """The one process's values."""
        return x


ONE_PROCESS: Reduce = _OneProcess()


def wait_for_all(ranks: Reduce) -> None:
    """Until every rank has come here."""
    if ranks.size > 1:
        ranks.sum(torch.zeros(1)).tolist()


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The passes and statistics that an objective needs. The default is everything: exact for any objective, and slow.

    Where an objective declares that it needs less, the trainer saves passes. ``stapo-train check-objective`` runs the
    trainer's own accumulation on an older policy's statistics and fails where the declaration is wrong.
    """

    current_policy: Literal["none", "few", "all"] = "all"
    """How much the selection depends on the current policy's statistics. ``none``: the old policy's give the same.
    ``few``: the old policy's give the same but for few tokens. ``all``: any decision may change."""
    zero_advantage_statistics: bool = True  # ``select`` reads the current statistics of tokens with advantage 0 too
    zero_advantage_gradient: bool = True  # tokens with advantage 0 have a gradient, that of a KL penalty aside


LEAST = Needs(current_policy="none", zero_advantage_statistics=False, zero_advantage_gradient=False)
"""Needs of an objective whose selection the old policy decides and whose term is proportional to the advantage."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """An objective: its settings as fields, what it optimises as two methods. This base is DAPO's loss.

    ``select`` keeps all tokens and divides by their number; ``term`` is the clipped surrogate. A new objective is a
    subclass in a file of its own and a line in ``stapo_train.objectives.BUILT_IN``; what tables, figures, cost
    estimates and the trainer need to know of it are attributes of its class.
    """

    label: ClassVar[str]  # in tables and figures; written out, so that it can be read without importing the class
    look: ClassVar[str] = ""  # in figures: colour, marker and dash, as "red circle solid"; empty: one made of the label
    source: ClassVar[str]  # paper, version, equation
    origins: ClassVar[Origins] = {}  # of its constants; what a class does not name is as its parent says
    # Counted up where a run of the former definition is no run of this objective; ``former`` says what that one did.
    definition: ClassVar[int] = 1
    former: ClassVar[str] = ""
    # For the run header; empty: the base's where ``select`` is the base's, and else not stated.
    silences: ClassVar[str] = ""
    divides_by: ClassVar[str] = ""
    divide_by_std: ClassVar[bool] = True  # of the group's rewards, see group_advantages
    advantage_rule: ClassVar[str] = ""  # in words, where ``advantages`` is another than the base's
    needs: ClassVar[Needs] = Needs()  # each class states its own: a subclass does not inherit its parent's
    detaches_ratio: ClassVar[bool] = False  # the gradient is not that of ``term``'s value, by definition
    num_phases: ClassVar[int] = 1  # optimizer steps per mini-batch, each on its own selection
    min_p: ClassVar[float | None] = None  # asks the old policy's pass for proxy_log_probs
    check_with: ClassVar[Mapping[str, float]] = {}  # settings that do something on check-objective's 64 token ids

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # A subclass with another selection or term may need statistics that its parent does not.
        if "needs" not in cls.__dict__:
            cls.needs = Needs()

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float | None = None  # c > 1: for A < 0 the term is at least c * A; None: off

    def __post_init__(self) -> None:
        check_range(self, "clip_low", "clip_high", at_least=0)
        check_range(self, "dual_clip", above=1)

    def advantages(
        self, rewards: NDArray[np.float64], group_ids: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """[R] of an iteration's rollouts, from their rewards (NaN: not graded), groups and numbers of tokens."""
        return group_advantages(rewards, group_ids, divide_by_std=self.divide_by_std)

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        """Decide weights and mask, without gradient; ``stats`` are this rank's share of the mini-batch."""
        return keep_all(stats, reduce)

    def ratio(self, stats: TokenStats) -> Tensor:
        """[N] the ratio that is clipped."""
        return log_ratio(stats).exp()

    def term(self, stats: TokenStats, selection: Selection) -> Tensor:
        """[N] what is maximised at each token, before its weight."""
        return clipped_surrogate(self.ratio(stats), stats.advantages, self.clip_low, self.clip_high, self.dual_clip)

    def clipped(self, stats: TokenStats) -> tuple[Tensor, Tensor]:
        """[N] bool each, for the metrics: tokens that the upper bound holds back, and those that the lower one does."""
        rho = self.ratio(stats)
        high = (stats.advantages > 0) & (rho > 1 + self.clip_high)
        return high, (stats.advantages < 0) & (rho < 1 - self.clip_low)

    def describe_selection(self) -> tuple[str, str]:
        """What ``select`` silences and what it divides by, for the run header: as the class says, or as the base does.

        >>> Objective().describe_selection()
        ('nothing', 'all response tokens of the mini-batch')
        """
        if type(self).select is Objective.select:
            return self.silences or "nothing", self.divides_by or "all response tokens of the mini-batch"
        return (
            self.silences or "what its select leaves out: the share that each iteration's line calls masked",
            self.divides_by or "the denominator that its select gives",
        )

    def schedule(self, num_mini_batches: int) -> list[tuple[int, int]]:
        """(mini-batch, phase) of an iteration's optimizer steps, in order: all phases of one mini-batch, then the next.

        >>> Objective().schedule(2)
        [(0, 0), (1, 0)]
        """
        return [(number, phase) for number in range(num_mini_batches) for phase in range(self.num_phases)]

    def describe_advantages(self) -> str:
        """How rewards become advantages, for the run header.

        >>> Objective().describe_advantages()
        '(R - mean) / (sample std + 1e-6)'
        """
        return self.advantage_rule or ("(R - mean) / (sample std + 1e-6)" if self.divide_by_std else "R - mean")

    @property
    def needs_reference(self) -> bool:
        """True where ``term`` reads ``ref_log_probs``."""
        return False

    @property
    def needs_batch_entropy(self) -> bool:
        """True where ``select`` reads ``batch_entropy``, for which all rollouts of an iteration have to be known."""
        return False


def select(stats: TokenStats, objective: Objective, reduce: Reduce = ONE_PROCESS, phase: int = 0) -> Selection:
    """Thresholds, keep mask and denominator of a mini-batch; no gradient.

    Args:
        stats: [N] this rank's tokens of the mini-batch, all micro-batches together.
        objective: from ``stapo_train.objectives.build``.
        reduce: how ranks agree on thresholds and counts.
        phase: which of ``objective.num_phases`` optimizer steps.
    """
    with torch.no_grad():
        return objective.select(stats, reduce, phase)


def policy_loss(stats: TokenStats, selection: Selection, objective: Objective) -> LossOutput:
    """The loss numerator of each token of a micro-batch: -weight_t * term_t.

    Args:
        stats: [n] the micro-batch's tokens; ``log_probs`` with gradient.
        selection: ``selection.take(index)`` of the mini-batch's selection.
        objective: the one that made the selection.

    Raises:
        ValueError: a selection of other tokens, such as the whole mini-batch's.
    """
    if selection.keep_mask.shape != stats.log_probs.shape:
        raise ValueError(
            f"selection: expected that of these {len(stats.log_probs)} tokens, got {len(selection.keep_mask)}; "
            "cut the mini-batch's with selection.take(index)"
        )
    # Mask before and after the term, so that a silenced token's gradient is 0 even where its term is not finite.
    log_probs = torch.where(selection.keep_mask, stats.log_probs, stats.log_probs.detach())
    term = objective.term(replace(stats, log_probs=log_probs), selection)
    if stats.importance is not None:
        term = term * stats.importance
    numerator = torch.where(selection.keep_mask, -term * selection.weights, torch.zeros_like(term))
    return LossOutput(numerator=numerator, metrics=_metrics(stats, selection, objective))


# --- building blocks -------------------------------------------------------------------------------------------------

MAX_LOG_RATIO = 20.0
"""ln rho is clamped to +-20, with gradient 0 beyond: exp(89) overflows float32, and a ratio of 5e8 is not a policy
update but a fault that the metrics show."""


def log_ratio(stats: TokenStats) -> Tensor:
    """ln rho = ln pi_theta - ln pi_old, [N]."""
    return (stats.log_probs - stats.old_log_probs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float, dual_clip: float | None
) -> Tensor:
    """min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A), and at least c A where A < 0 and a dual clip c is set.

    PPO's clip (arXiv:1707.06347, Eq. 7) with DAPO's two sides (arXiv:2503.14476, Eq. 10); dual clip: arXiv:1912.09729.

    >>> ratio, advantages = torch.tensor([2.0, 0.5, 20.0]), torch.tensor([1.0, -1.0, -1.0])
    >>> clipped_surrogate(ratio, advantages, 0.2, 0.28, dual_clip=10.0)
    tensor([  1.2800,  -0.8000, -10.0000])
    """
    term = torch.minimum(ratio * advantages, ratio.clamp(1 - clip_low, 1 + clip_high) * advantages)
    if dual_clip is not None:
        term = torch.where(advantages < 0, torch.maximum(term, dual_clip * advantages), term)
    return term


def keep_all(stats: TokenStats, reduce: Reduce) -> Selection:
    """Every token with weight 1 over the number of tokens."""
    return keep(stats, torch.ones_like(stats.advantages, dtype=torch.bool), reduce)


def keep(
    stats: TokenStats,
    keep_mask: Tensor,
    reduce: Reduce,
    *,
    candidate_mask: Tensor | None = None,
    marked_mask: Tensor | None = None,
    weights: Tensor | None = None,
    denominator: Tensor | None = None,
    thresholds: dict[str, float] | None = None,
) -> Selection:
    """A selection from its keep mask, counted over ranks. Default weights: 1; default denominator: the kept tokens."""
    if keep_mask.shape != stats.log_probs.shape or keep_mask.dtype != torch.bool:
        raise ValueError(
            f"keep_mask: expected a bool for each of the {len(stats.log_probs)} tokens, "
            f"got {keep_mask.dtype} {list(keep_mask.shape)}"
        )
    nowhere = torch.zeros_like(keep_mask)
    could_be_silenced = candidate_mask is not None  # by the objective, and so on every rank
    candidate_mask = nowhere if candidate_mask is None else candidate_mask
    weights = torch.ones_like(stats.advantages) if weights is None else weights
    local = torch.stack([torch.ones_like(keep_mask).sum(), candidate_mask.sum(), keep_mask.sum()])
    num_tokens, num_candidates, num_kept = reduce.sum(local).tolist()
    nats = float(reduce.sum(stats.entropy[candidate_mask].double().sum())) if could_be_silenced else math.nan
    return Selection(
        weights=torch.where(keep_mask, weights, torch.zeros_like(weights)),
        keep_mask=keep_mask,
        candidate_mask=candidate_mask,
        marked_mask=nowhere if marked_mask is None else marked_mask,
        denominator=torch.tensor(num_kept, dtype=torch.float64) if denominator is None else denominator,
        num_tokens=num_tokens,
        num_candidates=num_candidates,
        num_kept=num_kept,
        candidate_entropy=nats / num_candidates if num_candidates and math.isfinite(nats) else None,
        thresholds=thresholds or {},
    )


def keep_all_by_rollout(stats: TokenStats, reduce: Reduce) -> Selection:
    """Every token with weight 1 / |y_i| over the number of rollouts, see ``sequence_mean``."""
    weights, num_rollouts = sequence_mean(stats, reduce)
    return keep(stats, torch.ones_like(weights, dtype=torch.bool), reduce, weights=weights, denominator=num_rollouts)


def sequence_mean(stats: TokenStats, reduce: Reduce) -> tuple[Tensor, Tensor]:
    """Weights 1 / |y_i| and denominator the number of rollouts: the mean over rollouts of each one's token mean."""
    if not len(stats.sequence):
        return torch.ones_like(stats.advantages), reduce.sum(torch.zeros((), dtype=torch.float64))
    lengths = torch.bincount(stats.sequence)
    weights = 1 / lengths[stats.sequence].to(stats.advantages.dtype)
    return weights, reduce.sum((lengths > 0).sum().double().cpu())


def rollout_sums(x: Tensor, stats: TokenStats) -> tuple[Tensor, Tensor]:
    """[N] each: the sum of ``x`` over a token's rollout, and that rollout's number of tokens.

    A micro-batch holds whole rollouts, so both are complete there.

    >>> two = TokenStats(**dict.fromkeys(("log_probs", "old_log_probs", "entropy", "advantages"), torch.ones(3)),
    ...                  sequence=torch.tensor([0, 1, 1]), key=torch.arange(3))
    >>> rollout_sums(torch.tensor([1.0, 2.0, 3.0]), two)[0]
    tensor([1., 5., 5.])
    """
    lengths = torch.bincount(stats.sequence)
    total = torch.zeros(len(lengths), dtype=x.dtype, device=x.device).index_add(0, stats.sequence, x)
    return total[stats.sequence], lengths[stats.sequence]


def quantile(x: Tensor, q: float) -> float:
    """Linear interpolation between order statistics, in float64; NaN of nothing.

    torch.quantile refuses more than 2^24 values, which one mini-batch of long responses exceeds.

    >>> quantile(torch.tensor([4.0, 1.0, 2.0]), 0.75)
    3.0
    """
    if not len(x):
        return float("nan")
    position = q * (len(x) - 1)
    below = int(position)
    ordered = x.double().sort().values
    low, high = ordered[below].item(), ordered[min(below + 1, len(x) - 1)].item()
    return low + (high - low) * (position - below)


def top_mask(x: Tensor, eligible: Tensor, count: int, reduce: Reduce, key: Tensor | None = None) -> Tensor:
    """[N] bool, the ``count`` eligible tokens of all ranks with the largest ``x``.

    Tokens equal to the last one are in too; or, given the tokens' ``key``, as many of them at random as make ``count``.
    """
    if count < 1:
        return torch.zeros_like(eligible)
    mine = x[eligible].double()
    # At most ``count`` of them are on one rank, so no rank needs to send more.
    candidates = reduce.gather(mine.topk(min(count, len(mine))).values)
    if not len(candidates):
        return torch.zeros_like(eligible)
    last = candidates.topk(min(count, len(candidates))).values[-1]
    if key is None:
        return eligible & (x.double() >= last)
    above, tied = eligible & (x.double() > last), eligible & (x.double() == last)
    return above | top_mask(uniform(key, 0), tied, count - count_true(above, reduce), reduce)


def mean(x: Tensor, reduce: Reduce) -> float:
    """Mean over the tokens of all ranks, in float64; NaN of nothing."""
    total, count = reduce.sum(torch.stack([x.double().sum(), torch.ones_like(x, dtype=torch.float64).sum()])).tolist()
    return total / count if count else float("nan")


def count_true(mask: Tensor, reduce: Reduce) -> int:
    """True values over all ranks."""
    return int(reduce.sum(mask.sum()))


def uniform(key: Tensor, seed: int) -> Tensor:
    """A random number in [0, 1) for each key, float64; a hash, not a generator, so that order and ranks cannot matter.

    The finaliser of SplitMix64 (Steele et al. 2014), in wrapping 64-bit arithmetic.
    """

    def shifted(x: Tensor, bits: int) -> Tensor:
        return (x >> bits) & ((1 << (64 - bits)) - 1)  # int64 shifts keep the sign; a hash wants zeros

    x = key + torch.tensor(seed, dtype=torch.int64) * -7046029254386353131
    x = (x ^ shifted(x, 30)) * -4658895280553007687
    x = (x ^ shifted(x, 27)) * -7723592293110705685
    return shifted(x ^ shifted(x, 31), 11).double() / 2**53


def _metrics(stats: TokenStats, selection: Selection, objective: Objective) -> Metrics:
    with torch.no_grad():
        log_rho = log_ratio(stats)
        rho = objective.ratio(stats)
        high, low = objective.clipped(stats)
        return {
            "tokens": torch.ones_like(rho).sum(),
            "ratio": rho.sum(),
            "clipped_high": (high & selection.keep_mask).sum(),
            "clipped_low": (low & selection.keep_mask).sum(),
            # k3 of Schulman's note: an unbiased, non-negative estimate of KL(pi_old || pi_theta) per token
            "kl_to_old": (log_rho.exp() - 1 - log_rho).sum(),
        }
