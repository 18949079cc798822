"""A slow second implementation of the objectives: plain Python, token by token, sharing nothing with the fast code.

``stapo-train check-objective`` and the tests compare the two. Written from the papers' formulas; where the fast code
and this file differ, one of them is wrong.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from stapo_train.check.plain import Result, Token, clip, largest, lengths, quantile, uniform
from stapo_train.check.reference_ratios import aspo, ce_gppo, dppo_kl, dppo_tv, dro, gmpo, gpg, luspo, vespo


def reference_loss(name: str, objective: Any, tokens: Sequence[Token], phase: int = 0) -> float:
    """The loss of a mini-batch; KeyError where no reference is written for ``name``."""
    terms, denominator = REFERENCES[name](objective, tokens, phase)
    return -math.fsum(terms) / denominator if denominator else 0.0


def grpo(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """Mean over rollouts of each one's token mean; arXiv:2402.03300, Eq. 3."""
    length = lengths(tokens)
    return [clip(o, t.ratio, t.advantage) / length[t.sequence] for t in tokens], len(length)


def token_mean(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """Mean over all tokens: DAPO, arXiv:2503.14476, Eq. 8; JustRL."""
    return [clip(o, t.ratio, t.advantage) for t in tokens], len(tokens)


def entropy20(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """Tokens at or above the entropy quantile, over their number or over all; arXiv:2506.01939, Eq. 6."""
    tau = quantile([t.entropy for t in tokens], 1 - o.share)
    kept = [t.entropy >= tau for t in tokens]
    terms = [clip(o, t.ratio, t.advantage) if k else 0.0 for t, k in zip(tokens, kept, strict=True)]
    return terms, len(tokens) if o.denominator == "all" else sum(kept)


def silence(o: Any, tokens: Sequence[Token], score: Callable[[Token], float], over_all: bool = False) -> Result:
    """S2T of arXiv:2602.15620: candidates (A > 0, pi < tau_p) below the q quantile of a score are left out."""
    candidates = [t.advantage > 0 and t.prob < o.tau_p for t in tokens]
    population = [score(t) for t, c in zip(tokens, candidates, strict=True) if c or over_all]
    tau = quantile(population, o.q) if population else -math.inf
    kept = [not (c and score(t) < tau) for t, c in zip(tokens, candidates, strict=True)]
    return [clip(o, t.ratio, t.advantage) if k else 0.0 for t, k in zip(tokens, kept, strict=True)], sum(kept)


def full_mask(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """Every candidate is left out; ablation of arXiv:2602.15620v5."""
    kept = [not (t.advantage > 0 and t.prob < o.tau_p) for t in tokens]
    return [clip(o, t.ratio, t.advantage) if k else 0.0 for t, k in zip(tokens, kept, strict=True)], sum(kept)


def silence_per_micro_batch(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """``silence`` by entropy, applied separately to each ``micro_batch_rollouts`` consecutive rollouts."""
    parts: dict[int, list[Token]] = {}
    for t in tokens:
        parts.setdefault(t.sequence // o.micro_batch_rollouts, []).append(t)
    found = [silence(o, part, lambda t: t.entropy) for part in parts.values()]
    return [term for terms, _ in found for term in terms], sum(kept for _, kept in found)


def reweighted(o: Any, t: Token) -> float:
    """The surrogate with A <- (alpha pi_old + 1 - alpha) A; arXiv:2505.12929, Eq. 8."""
    return clip(o, t.ratio, (o.alpha * math.exp(t.old_log_prob) + 1 - o.alpha) * t.advantage)


def ar(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """Mean of the reweighted surrogate; arXiv:2505.12929, Eq. 8."""
    return [reweighted(o, t) for t in tokens], len(tokens)


def lopti(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """Phase 0: tokens with pi_old < eta; phase 1: the others; each over all tokens. arXiv:2505.12929, Alg. 1."""
    turn = [(math.exp(t.old_log_prob) < o.eta) == (phase == 0) for t in tokens]
    return [reweighted(o, t) if now else 0.0 for t, now in zip(tokens, turn, strict=True)], len(tokens)


def stare(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """More weight on the most surprising tokens of each sign of A while entropy is low; arXiv:2606.19236."""
    weights = [1.0] * len(tokens)
    entropies = [t.batch_entropy if o.gate == "iteration" else t.entropy for t in tokens]
    if sum(entropies) / len(entropies) < o.max_entropy:
        for sign, weight in ((1, o.weight_positive), (-1, o.weight_negative)):
            surprise = [(-t.log_prob, i) for i, t in enumerate(tokens) if sign * t.advantage > 0]
            for i in largest(surprise, math.ceil(o.share * len(surprise))):
                weights[i] = weight
    return [w * clip(o, t.ratio, t.advantage) for t, w in zip(tokens, weights, strict=True)], len(tokens)


def taco(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """A good rollout's token rarer than alpha exp(-H) loses up to lambda of its credit; arXiv:2607.07976."""
    terms = []
    for t in tokens:
        usual = o.alpha * math.exp(-t.entropy)  # the probability below which a token is risky: exp(-r) = pi / usual
        share = t.prob / usual if t.advantage > 0 and t.prob < usual else 1.0
        terms.append((1 - o.strength + o.strength * share) * clip(o, t.ratio, t.advantage))
    return terms, len(tokens)


def lp_reg(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """The least likely tokens with A < 0 are held to the proxy where that is above the policy; arXiv:2510.03222."""
    failed = [(-t.log_prob, i) for i, t in enumerate(tokens) if t.advantage < 0]
    lowest = largest(failed, int(o.share * len(failed)))
    terms = []
    for i, t in enumerate(tokens):
        proxy = min_p_probability(t.distribution, t.taken, o.min_p) if i in lowest else 0.0
        if proxy > t.prob:
            odds = proxy / t.prob
            terms.append(t.ratio * t.advantage - o.beta * min(odds - math.log(odds) - 1, 10.0))
        else:
            terms.append(clip(o, t.ratio, t.advantage))
    return terms, len(tokens)


def min_p_probability(distribution: Sequence[float], taken: int, kappa: float) -> float:
    """The taken token's probability once those below kappa times the largest are removed; arXiv:2510.03222."""
    kept = [p if p >= kappa * max(distribution) else 0.0 for p in distribution]
    return kept[taken] / math.fsum(kept)


def covariances(tokens: Sequence[Token]) -> list[float]:
    """(A - mean A)(ln pi - mean ln pi) of each token; arXiv:2505.22617."""
    mean_a = sum(t.advantage for t in tokens) / len(tokens)
    mean_l = sum(t.log_prob for t in tokens) / len(tokens)
    return [(t.advantage - mean_a) * (t.log_prob - mean_l) for t in tokens]


def kl_cov(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """rho A, less beta |ln rho| at the tokens with the largest covariance; arXiv:2505.22617, Eq. 11."""
    cov = [(c, i) for i, c in enumerate(covariances(tokens))]
    they_differ = max(cov)[0] - min(cov)[0] > 1e-12
    paying = largest(cov, max(1, int(o.share * len(tokens)))) if they_differ else set()
    moved = [abs(t.log_prob - t.old_log_prob) for t in tokens]
    pay = [o.beta * m if i in paying and m > 1e-5 else 0.0 for i, m in enumerate(moved)]
    return [t.ratio * t.advantage - p for t, p in zip(tokens, pay, strict=True)], len(tokens)


def clip_cov(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """Random tokens with a covariance in (low, high) are left out; arXiv:2505.22617, Eq. 9-10."""

    def is_clipped(t: Token) -> bool:
        return (t.advantage > 0 and t.ratio > 1 + o.clip_high) or (t.advantage < 0 and t.ratio < 1 - o.clip_low)

    cov = covariances(tokens)
    eligible = [
        (uniform(t.key, o.seed), i) for i, t in enumerate(tokens) if o.low < cov[i] < o.high and not is_clipped(t)
    ]
    silenced = largest(eligible, max(1, int(o.share * len(tokens))))
    return [0.0 if i in silenced else clip(o, t.ratio, t.advantage) for i, t in enumerate(tokens)], len(tokens)


def dr_grpo(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """Sum over tokens / (rollouts x maximum length); arXiv:2503.20783, Sec. 3.2."""
    return [clip(o, t.ratio, t.advantage) for t in tokens], len(lengths(tokens)) * o.max_length


def gspo(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """One ratio per rollout, the geometric mean of its tokens'; arXiv:2507.18071, Eq. 5-7."""
    length = lengths(tokens)
    total = dict.fromkeys(length, 0.0)
    for t in tokens:
        total[t.sequence] += t.log_prob - t.old_log_prob
    ratio = {s: math.exp(total[s] / length[s]) for s in length}
    return [clip(o, ratio[t.sequence], t.advantage) / length[t.sequence] for t in tokens], len(length)


def cispo(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """The clipped ratio as a weight on A ln pi; arXiv:2506.13585, Eq. 4-5."""
    weight = [min(max(t.ratio, 1 - o.clip_low), 1 + o.clip_high) for t in tokens]
    return [w * t.advantage * t.log_prob for t, w in zip(tokens, weight, strict=True)], len(tokens)


def sapo(o: Any, tokens: Sequence[Token], phase: int) -> Result:
    """A sigmoid gate in place of the clip; arXiv:2511.20347."""
    length = lengths(tokens)
    terms = []
    for t in tokens:
        tau = o.tau_positive if t.advantage > 0 else o.tau_negative
        gate = 4 / tau / (1 + math.exp(-tau * (t.ratio - 1)))
        terms.append(gate * t.advantage / length[t.sequence])
    return terms, len(length)


REFERENCES: dict[str, Callable[[Any, Sequence[Token], int], Result]] = {
    "grpo": grpo,
    "dapo": token_mean,
    "justrl": token_mean,
    "20-entropy": entropy20,
    "stapo": lambda o, tokens, phase: silence(o, tokens, lambda t: t.entropy),
    "stapo-old": lambda o, tokens, phase: silence(o, tokens, lambda t: t.entropy, over_all=True),
    "random-mask": lambda o, tokens, phase: silence(o, tokens, lambda t: uniform(t.key, o.seed)),
    "high-entropy-mask": lambda o, tokens, phase: silence(o, tokens, lambda t: -t.entropy),
    "full-mask": full_mask,
    "stapo-micro-batch": silence_per_micro_batch,
    "ar": ar,
    "lopti": lopti,
    "stare": stare,
    "taco": taco,
    "lp-reg": lp_reg,
    "kl-cov": kl_cov,
    "clip-cov": clip_cov,
    "dr-grpo": dr_grpo,
    "gspo": gspo,
    "cispo": cispo,
    "sapo": sapo,
    "dppo-tv": dppo_tv,
    "dppo-kl": dppo_kl,
    "gmpo": gmpo,
    "luspo": luspo,
    "vespo": vespo,
    "ce-gppo": ce_gppo,
    "aspo": aspo,
    **dict.fromkeys(("maxrl", "rloo", "reinforce++", "reinforce++-baseline", "opo", "grpo-pass-k"), token_mean),
    "gpg": gpg,
    "dro": dro,
}
