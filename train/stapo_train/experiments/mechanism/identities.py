"""How a softmax policy's entropy answers to one sampled token: exact, to first order, and in the mean to second order.

A token y with the loss's weight w (rho A over the denominator, 0 where the clip is active) moves its context's logits,
under plain gradient steps of rate eta, by dz = eta w (e_y - pi). ``docs/mechanism.md`` derives what follows.

Legend: V vocabulary; M_k = sum over v of pi_v^k (ln pi_v + H), S = sum of pi_v^2, Q = sum of pi_v^3.
"""

import math

from torch import Tensor


def entropy_of(log_pi: Tensor) -> Tensor:
    """[...] entropy in nats of log-probabilities [..., V]."""
    return -(log_pi.exp() * log_pi).sum(-1)


def surprise_moment(log_pi: Tensor, power: int) -> Tensor:
    """[...] M_k = sum over v of pi_v^k (ln pi_v + H), of log-probabilities [..., V]; M_1 is 0."""
    return ((power * log_pi).exp() * (log_pi + entropy_of(log_pi).unsqueeze(-1))).sum(-1)


def token_effect(log_pi: Tensor) -> Tensor:
    """[..., V] first-order dH per unit of eta w when that token is the sampled one: -(pi_y (ln pi_y + H) - M_2).

    Its mean under pi is 0. Of a rare token M_2 is left: what it takes from the likely tokens, not what it wins.

    >>> import torch
    >>> token_effect(torch.tensor([0.9, 0.1], dtype=torch.float64).log()).round(decimals=4)
    tensor([-0.0396,  0.3560], dtype=torch.float64)
    """
    above = log_pi.exp() * (log_pi + entropy_of(log_pi).unsqueeze(-1))
    return surprise_moment(log_pi, 2).unsqueeze(-1) - above


def effect_of_step(log_pi: Tensor, step: float) -> Tensor:
    """[V] exact dH over ``step`` = eta w, of log-probabilities [V], for each token that could be the sampled one.

    The logits are l_v = ln pi_v - step pi_v, and l_y + step at the sampled token y. With Z = sum of e^l and
    U = sum of e^l l the entropy is ln Z - U / Z; from one token to the next that token's own part of both differs.

    >>> import torch
    >>> effect_of_step(torch.tensor([0.9, 0.1], dtype=torch.float64).log(), 1e-6).round(decimals=4)
    tensor([-0.0396,  0.3560], dtype=torch.float64)
    """
    logits = log_pi - step * log_pi.exp()
    risen = logits + step
    total = logits.exp().sum() - logits.exp() + risen.exp()
    weighted = (logits.exp() * logits).sum() - logits.exp() * logits + risen.exp() * risen
    return (total.log() - weighted / total - entropy_of(log_pi)) / step


def drift(log_pi: Tensor) -> Tensor:
    """[...] mean dH per unit of eta^2 w^2 and sampled token, where w is independent of the token and of mean 0.

        -1/2 (S - 2 Q + S^2 + (1 + 2 S) M_2 - 3 M_3)

    One likely token of probability p among m equal others, q = 1 - p, L = ln(p m / q):
    p^2 q^2 ((2 p - 1) L - 1) / 2 up to terms of order 1 / m. Confident contexts gain entropy from mere noise, undecided
    ones lose it.

    >>> import torch
    >>> drift(torch.tensor([[0.5, 0.5], [0.96, 0.04]], dtype=torch.float64).log()).round(decimals=4)
    tensor([-0.1250,  0.0057], dtype=torch.float64)
    """
    pi = log_pi.exp()
    squares, cubes = (pi**2).sum(-1), (pi**3).sum(-1)
    second, third = surprise_moment(log_pi, 2), surprise_moment(log_pi, 3)
    return -0.5 * (squares - 2 * cubes + squares**2 + (1 + 2 * squares) * second - 3 * third)


def adam_spike(betas: tuple[float, float] = (0.9, 0.999)) -> float:
    """How far Adam moves a parameter, in units of its rate, for one gradient after a long time without any.

        (1 - b1) / sqrt(1 - b2) * sum over k of (b1 / sqrt(b2))^k

    The gradient's size has no part in it, only its sign.

    >>> round(adam_spike(), 2)
    31.77
    """
    first, second = betas
    return (1 - first) / math.sqrt(1 - second) / (1 - first / math.sqrt(second))
