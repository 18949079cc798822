"""Loss and gradient computed in the simplest way, and the distance between two such results, for the checks."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from stapo_train.batch import Batch, MicroBatch
from stapo_train.check.toy import VOCABULARY
from stapo_train.objective import ONE_PROCESS, Objective, Reduce, Selection, policy_loss, select
from stapo_train.policy import Policy
from stapo_train.token_statistics import token_distribution

TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Check:
    """One property of one objective. ``deviation`` is relative unless the name says exact."""

    name: str
    deviation: float  # NaN exactly where not applicable
    applicable: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        if self.applicable and math.isnan(self.deviation):  # a NaN counts as the largest deviation
            object.__setattr__(self, "deviation", math.inf)

    @property
    def passed(self) -> bool:
        """Whether the property holds, or does not apply to this objective."""
        return not self.applicable or self.deviation <= TOLERANCE


@dataclass(frozen=True, kw_only=True)
class Computed:
    """Loss and gradient of a mini-batch, divided by the denominator."""

    loss: float
    gradient: Tensor  # [num_parameters]


def loss_and_gradient(
    policy: Policy, batch: Batch, objective: Objective, *, phase: int = 0, reduce: Reduce = ONE_PROCESS, widen: int = 0
) -> Computed:
    """One pass without gradient, ``select``, one pass with gradient. ``widen``: positions of extra padding."""
    selection = select(policy.measure(batch), objective, reduce, phase)
    policy.model.zero_grad()
    numerator = torch.zeros((), dtype=torch.float64)
    for micro in policy.split(batch, range(len(batch.rows))):
        out = policy_loss(policy.stats(batch, _widened(micro, widen)), selection.take(micro.tokens), objective)
        torch.autograd.backward(out.numerator.sum())
        numerator += out.numerator.detach().sum()
    return computed(policy, selection, reduce.sum(numerator), reduce)


def computed(policy: Policy, selection: Selection, numerator: Tensor, reduce: Reduce = ONE_PROCESS) -> Computed:
    """The parameters' gradients and the summed numerator of all ranks, divided by the selection's denominator."""
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


def distance(a: Computed, b: Computed) -> float:
    """The larger of two differences: of the losses, and of gradient elements relative to ``a``'s largest element."""
    scale = max(float(a.gradient.abs().max()), 1e-12)
    by_gradient = float((a.gradient - b.gradient).abs().max()) / scale
    return worst_of(by_gradient, abs(a.loss - b.loss) / max(abs(a.loss), 1e-12))


def worst_of(*deviations: float) -> float:
    """The largest; NaN if any is NaN (Python's ``max`` would depend on the order)."""
    return float(np.max(deviations))


def packed(policy: Policy, batch: Batch, objective: Objective, phase: int = 0) -> Computed:
    """All rollouts in one row, each seeing only itself."""
    rows, places = zip(*map(batch.laid_out, range(len(batch.rows))), strict=True)
    owner = torch.cat([torch.full((len(row),), i) for i, row in enumerate(rows)])
    position = torch.cat([torch.arange(len(row)) for row in rows])
    causal = torch.ones(len(owner), len(owner), dtype=torch.bool).tril()
    starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
    predictor = torch.cat(
        [start - 1 + torch.tensor(drawn) for start, drawn in zip(starts.tolist(), places, strict=True)]
    )
    input_ids = torch.tensor([token for row in rows for token in row])
    hidden = policy.model.base_model(
        input_ids=input_ids.unsqueeze(0),
        position_ids=position.unsqueeze(0),
        attention_mask=((owner[:, None] == owner[None, :]) & causal)[None, None],
        use_cache=False,
    ).last_hidden_state[0]
    logits = policy.model.get_output_embeddings()(hidden[predictor])
    now = token_distribution(logits, input_ids[predictor + 1], policy.temperature)
    stats = replace(batch.stats, log_probs=now.log_probs, entropy=now.entropy)
    selection = select(replace(stats, log_probs=now.log_probs.detach()), objective, phase=phase)
    policy.model.zero_grad()
    numerator = policy_loss(stats, selection, objective).numerator.sum()
    torch.autograd.backward(numerator)
    return computed(policy, selection, numerator.detach())
