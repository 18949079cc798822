"""Slow references of the objectives that bound something else than a token's ratio: see ``reference``."""

import math
from collections.abc import Sequence
from typing import Any

from stapo_train.check.plain import Result, Token, clip, lengths, quantile


def dppo_tv(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """rho A ln pi while |pi - pi_old| is within its bound or shrinks; arXiv:2602.04879."""
    terms = []
    for t in tokens:
        up = t.prob - math.exp(t.old_log_prob)
        beyond = up > o.clip_high if t.advantage > 0 else -up > o.clip_low
        terms.append(0.0 if beyond else t.ratio * t.advantage * t.log_prob)
    return terms, len(lengths(tokens)) * o.max_length


def dppo_kl(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """rho A ln pi while the binary KL is within its bound or shrinks; arXiv:2602.04879."""
    terms = []
    for t in tokens:
        p, q = math.exp(t.old_log_prob), t.prob
        kl = p * math.log(p / q) + (1 - p) * math.log((1 - p + 1e-8) / (1 - q + 1e-8))
        beyond = (q > p and kl > o.clip_high) if t.advantage > 0 else (q < p and kl > o.clip_low)
        terms.append(0.0 if beyond else t.ratio * t.advantage * t.log_prob)
    return terms, len(lengths(tokens)) * o.max_length


def by_rollout(tokens: Sequence[Token]) -> dict[int, list[Token]]:
    """The tokens of each rollout."""
    found: dict[int, list[Token]] = {}
    for t in tokens:
        found.setdefault(t.sequence, []).append(t)
    return found


def gmpo(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """A times the geometric mean of a rollout's clipped ratios; arXiv:2507.20673, Eq. 4."""

    def clipped(t: Token) -> float:
        moved = math.log(t.ratio)
        return float(min(moved, o.clip_high) if t.advantage > 0 else max(moved, -o.clip_low))

    rollouts = by_rollout(tokens)
    mean = {s: math.exp(math.fsum(map(clipped, r)) / len(r)) for s, r in rollouts.items()}
    return [mean[t.sequence] * t.advantage / len(rollouts[t.sequence]) for t in tokens], len(rollouts)


def luspo(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """GSPO's term times the rollout's length; arXiv:2602.05261."""
    rollouts = by_rollout(tokens)
    s = {i: math.exp(math.fsum(math.log(t.ratio) for t in r) / len(r)) for i, r in rollouts.items()}
    return [clip(o, s[t.sequence], t.advantage) for t in tokens], len(rollouts)


def vespo(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """phi(w) A ln pi with w the product of a rollout's ratios; arXiv:2602.10693."""
    weight = {}
    for i, r in by_rollout(tokens).items():
        w = min(max(math.prod(t.ratio for t in r), 1e-8), math.exp(20))
        k, rate = (o.k_positive, o.lambda_positive) if r[0].advantage >= 0 else (o.k_negative, o.lambda_negative)
        weight[i] = math.exp(rate) * w**k * math.exp(-rate * w)
    return [weight[t.sequence] * t.advantage * t.log_prob for t in tokens], len(tokens)


def ce_gppo(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """The clipped bound times beta beyond the clip, rho A within; arXiv:2509.20712."""
    terms = []
    for t in tokens:
        weight = t.ratio
        if t.advantage < 0 and t.ratio < 1 - o.clip_low:
            weight = o.beta_low * (1 - o.clip_low)
        elif t.advantage > 0 and t.ratio > 1 + o.clip_high:
            weight = o.beta_high * (1 + o.clip_high)
        if t.advantage < 0 and o.dual_clip is not None:
            weight = min(weight, o.dual_clip)
        terms.append(weight * t.advantage)
    return terms, len(tokens)


def aspo(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """A / rho for A > 0 and A rho else, clipped, and 3 A ln pi where that weight is above 3; arXiv:2510.06062."""
    bound = {i: quantile([t.entropy for t in r], 1 - o.share) for i, r in by_rollout(tokens).items()}
    terms = []
    for t in tokens:
        wide = t.entropy > bound[t.sequence]
        if t.advantage > 0:
            weight = 1 / min(t.ratio, 1 + (o.clip_wide if wide else o.clip_high))
        else:
            weight = max(t.ratio, 1 - (o.clip_wide if wide else o.clip_low))
        terms.append(t.advantage * (o.max_weight * t.log_prob if weight > o.max_weight else weight))
    return terms, len(tokens)


def gpg(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """A ln pi; arXiv:2504.02546."""
    return [t.advantage * t.log_prob for t in tokens], len(tokens)


def dro(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """A ln pi - beta / 2 (ln rho)^2; arXiv:2405.19107."""
    return [t.advantage * t.log_prob - o.beta / 2 * math.log(t.ratio) ** 2 for t in tokens], len(tokens)
