"""Token statistics from logits: the only place where log-probs and entropies are computed from whole logits.

Everything is at the sampling temperature and in float32 at least, whatever the model's dtype: in bfloat16 a
probability near 1 has a log-prob of exactly 0, and a threshold of 0.002 means little.

    logits [N, V] --token_distribution--> log_probs, entropy, sum_squares [N]

Legend: N response tokens laid end to end, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class TokenDistribution:
    """What is kept of the next-token distribution at each response token, [N] each; only log_probs carry the gradient.

    log_probs         nats, ln pi of the taken token
    entropy           nats, over the full vocabulary
    sum_squares       sum over v of pi_v squared
    proxy_log_probs   nats, of the taken token under the min-p proxy; None: not asked for
    """

    log_probs: Tensor
    entropy: Tensor
    sum_squares: Tensor
    proxy_log_probs: Tensor | None


def token_distribution(
    logits: Tensor, taken: Tensor, temperature: float, min_p: float | None = None
) -> TokenDistribution:
    """Log-prob of the taken token, full-vocabulary Shannon entropy H = -sum_v pi_v ln pi_v, and sum_v pi_v^2.

    Args:
        logits: [N, V] any floating dtype; float64 stays float64. Padded rows [B, T, V] give [B, T] likewise. Those
            that predict a token stand one position before it: ``model(ids).logits[:, :-1]`` for ``ids[:, 1:]``.
        taken: [N] token ids.
        temperature: the one the tokens were sampled at; pi = softmax(logits / temperature).
        min_p: kappa; also give the taken token's log-prob under the proxy, which is pi cut to
            S = {v : pi_v >= kappa max pi} and rescaled: ln pi - ln pi(S); -inf where the token is not in S.

    Raises:
        ValueError: not one taken token for each distribution, or a temperature that is not above 0.

    >>> uniform = token_distribution(torch.zeros(1, 4), torch.tensor([2]), temperature=1.0)
    >>> uniform.entropy.exp(), uniform.log_probs.exp(), uniform.sum_squares
    (tensor([4.]), tensor([0.2500]), tensor([0.2500]))
    """
    if taken.shape != logits.shape[:-1]:  # gather would silently take the first ones
        raise ValueError(
            f"taken: expected one token id for each of the logits {list(logits.shape)}, got {list(taken.shape)}"
        )
    if not temperature > 0:
        raise ValueError(f"temperature: expected above 0, as the tokens were sampled at, got {temperature}")
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    log_pi = torch.log_softmax(logits if temperature == 1.0 else logits / temperature, dim=-1)  # [N, V]
    log_probs = log_pi.gather(-1, taken.unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        pi = log_pi.exp()
        # A logit of -inf has probability 0 and adds nothing to H; 0 * -inf would be NaN.
        entropy = -(pi * log_pi.clamp(min=torch.finfo(log_pi.dtype).min)).sum(-1)
        sum_squares = (pi * pi).sum(-1)
        proxy = None if min_p is None else _proxy_log_probs(log_pi, pi, taken, min_p)
    return TokenDistribution(log_probs=log_probs, entropy=entropy, sum_squares=sum_squares, proxy_log_probs=proxy)


def _proxy_log_probs(log_pi: Tensor, pi: Tensor, taken: Tensor, min_p: float) -> Tensor:
    inside = log_pi.masked_fill(pi < min_p * pi.amax(-1, keepdim=True), -torch.inf)
    return inside.gather(-1, taken.unsqueeze(-1)).squeeze(-1) - inside.logsumexp(-1)


def logit_gradient_norm_squared(weight: Tensor, probs: Tensor, sum_squares: Tensor) -> Tensor:
    """Exact squared norm of a token's gradient by its logits: w^2 (1 - 2 pi + sum_v pi_v^2).

    w = 0 where the clip is active, else rho A. arXiv:2602.15620v5, Sec. 3.

    >>> logit_gradient_norm_squared(torch.tensor(2.0), torch.tensor(0.25), torch.tensor(0.25))
    tensor(3.)
    """
    return weight**2 * (1 - 2 * probs + sum_squares)


def logit_gradient_norm_bounds(
    weight: Tensor, probs: Tensor, entropy: Tensor, vocabulary: int
) -> tuple[Tensor, Tensor]:
    """w^2 (1 - 2 pi + e^-H) <= squared norm <= w^2 (2 - 2 pi - C_V H^2), C_V = (V - 1) / (V (ln V)^2).

    arXiv:2602.15620v5, Sec. 3. At V = 151,936 C_V is 0.00702.
    """
    v = torch.tensor(vocabulary, dtype=torch.float64)
    c_v = float((v - 1) / (v * v.log() ** 2))
    return weight**2 * (1 - 2 * probs + torch.exp(-entropy)), weight**2 * (2 - 2 * probs - c_v * entropy**2)
