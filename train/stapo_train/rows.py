"""Token statistics from padded rows, as most training loops hold them: [B, T] in, [N] response tokens end to end out.

    stats = token_stats(response_mask, log_probs=..., old_log_probs=..., entropy=..., advantages=...)
    selection = select(stats, objective)                     # the whole mini-batch behind one optimizer step
    loss = policy_loss(stats, selection, objective).numerator.sum() / selection.divisor

Legend: B rows (rollouts), T positions, N response tokens of all rows, in the order of ``tensor[response_mask]``.
"""

import torch
from torch import Tensor

from stapo_train.batch import KEY_STRIDE
from stapo_train.objective import TokenStats


def token_stats(
    response_mask: Tensor,
    *,
    log_probs: Tensor,
    old_log_probs: Tensor,
    entropy: Tensor,
    advantages: Tensor,
    first_row: int = 0,
    **others: Tensor,
) -> TokenStats:
    """The response tokens of padded rows, checked: what is not a number would enter a mask without a word.

    Args:
        response_mask: [B, T] bool or 0 and 1, True on tokens that the policy produced, not on prompt, padding or tools.
        log_probs: [B, T] nats, as ``token_distribution`` gives them; with gradient for ``policy_loss``.
        old_log_probs: [B, T] nats, the same before the iteration's first update, from the trainer and not the engine.
        entropy: [B, T] nats, of the full next-token distribution.
        advantages: [B] one for each rollout.
        first_row: number of the first row among all rollouts of a training, so that seeded choices differ from one
            mini-batch to the next. What is not seeded does not depend on it.
        others: [B, T] each: ``TokenStats``'s optional fields.

    Raises:
        ValueError: a tensor of another shape, or a value at a response token that is not finite, with its place.

    >>> two = torch.tensor([[-1.0, -2.0], [-3.0, float("nan")]])
    >>> given = {"log_probs": two, "old_log_probs": two, "entropy": -two, "advantages": torch.tensor([1.0, -1.0])}
    >>> stats = token_stats(torch.tensor([[1, 1], [1, 0]]), **given)
    >>> stats.log_probs, stats.advantages, stats.sequence
    (tensor([-1., -2., -3.]), tensor([ 1.,  1., -1.]), tensor([0, 0, 1]))
    """
    if response_mask.ndim != 2:
        raise ValueError(f"response_mask: expected rows [B, T], got {list(response_mask.shape)}")
    mask = response_mask.bool()
    if not torch.equal(mask.to(response_mask.dtype), response_mask):
        raise ValueError("response_mask: expected True and False, or 1 and 0, got other numbers")
    if advantages.shape != mask.shape[:1]:
        raise ValueError(f"advantages: expected one for each of {len(mask)} rows, got {list(advantages.shape)}")
    per_token = {
        "log_probs": log_probs,
        "old_log_probs": old_log_probs,
        "entropy": entropy,
        "advantages": advantages.unsqueeze(1).expand(mask.shape),
        **others,
    }
    for name, value in per_token.items():
        if value.shape != mask.shape:
            raise ValueError(f"{name}: expected {list(mask.shape)} as response_mask, got {list(value.shape)}")
        unknown = (value.isnan() if name == "proxy_log_probs" else ~value.isfinite()) & mask
        if unknown.any():
            row, column = unknown.nonzero()[0].tolist()
            raise ValueError(
                f"{name}: expected a number at each response token, got {float(value[row, column])} "
                f"at row {row}, position {column}"
            )
    rows, columns = mask.nonzero(as_tuple=True)
    return TokenStats(
        **{name: value[mask] for name, value in per_token.items()},
        sequence=rows,
        key=(rows + first_row) * KEY_STRIDE + columns,
    )
