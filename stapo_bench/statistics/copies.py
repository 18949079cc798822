"""Copies that look like samples: how much stronger the evidence for copies is than for independent samples.

Where k samples of a problem are independent, sample j repeats one of the texts before it with a probability of at most
Q_j, the sum of their probabilities. A server that ignores seeds, or a cache, repeats them far more often. Betting on
repeats at a rate r > Q_j multiplies the evidence E of a problem by

    r / Q_j  where sample j repeats a text,    (1 - r) / (1 - Q_j)  where it does not,

and E has mean at most 1 as long as the samples are independent: it is an e-value, and over samples and problems a test
supermartingale (Ramdas et al. 2023, arXiv:2210.01948). Ville's inequality: E ever reaches 1 / a in at most a share a of
honest runs, however often one looks. E is averaged over a few rates r, and over a few shares s of problems that have
copies at all: E = prod_i (1 - s + s E_i).

A text's probability is the engine's where it is known. Else it is bounded by what low-entropy models show: 0.005 nats
for every token beyond the first 64, at temperature 1. Qwen2.5-Math-Instruct, after reinforcement learning, at
temperature 0.7 and top-p 0.8, wrote texts of 220 tokens up to seven times in eight and of 650 tokens up to three times
in eight: that is no evidence here. Shorter texts never are, however often they come: a certain model repeats them.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

_CERTAIN_TOKENS = 64  # a text of so many tokens may come every time
_NATS_PER_TOKEN = 0.005  # of every further token at temperature 1; below it in proportion
_LIKELY = math.log(0.9)  # log-probability of a text whose repeats say nothing, by its length
_LIKELY_AS_TOLD = math.log(0.05)  # and by its log-probability: rounding weighs more in texts of a few tokens

_RATES = (0.5, 0.9, 0.999)  # of repeats
_SHARES = (0.02, 0.2, 0.9)  # of problems with copies


def most_log_probability(
    num_tokens: int, temperature: float, log_prob: float | None = None, top_p: float = 1.0
) -> float:
    """At most the log-probability with which a text is sampled, in nats; 0 where its repeats say nothing.

    Args:
        num_tokens: its length.
        temperature: of the sampling; at 0 every text is certain.
        log_prob: of the text at that temperature, before the top-p cut; None: not known, its length has to do.
        top_p: raises a token's probability to at most 1 / top_p times what it was.

    >>> most_log_probability(264, 1.0)  # 200 tokens beyond the first 64
    -1.0
    >>> most_log_probability(10, 1.0), most_log_probability(10, 1.0, log_prob=-30.0)
    (0.0, -30.0)
    """
    if temperature <= 0.0:
        return 0.0
    by_length = -_NATS_PER_TOKEN * min(temperature, 1.0) * max(0, num_tokens - _CERTAIN_TOKENS)
    if log_prob is None:
        return by_length if by_length <= _LIKELY else 0.0
    most = min(log_prob - num_tokens * math.log(top_p), max(log_prob, by_length))
    return most if most <= _LIKELY_AS_TOLD else 0.0


def problem_evidence(texts: Sequence[tuple[Hashable, float]], known: Mapping[Hashable, float] | None = None) -> float:
    """log E_i of one problem's samples, each a text and the most that its log-probability may be, in order.

    Texts of log-probability 0 are left out of the bets: their repeats are not seen. ``known``: texts of another run,
    repeats of which are bet on as well. -inf where no text is repeated: less than the true value, so that it
    costs nothing to say.

    >>> round(problem_evidence([("a", -3.0), ("a", -3.0), ("b", -3.0)]), 2)  # mean of r (1 - r) / (Q (1 - Q)), Q = e^-3
    0.88
    >>> problem_evidence([("a", -3.0), ("b", -3.0)])
    -inf
    """
    bets = np.zeros(len(_RATES))
    any_repeats = False
    for number, rate in enumerate(_RATES):
        seen = {text: math.exp(max(most, -700.0)) for text, most in (known or {}).items() if most < 0.0}
        total = math.fsum(seen.values())  # probability of repeating one of those seen
        for text, log_probability in texts:
            is_repeat = text in seen
            any_repeats |= is_repeat
            if 0.0 < total < rate:
                bets[number] += math.log(rate / total if is_repeat else (1.0 - rate) / (1.0 - total))
            if not is_repeat and log_probability < 0.0:
                seen[text] = math.exp(max(log_probability, -700.0))
                total += seen[text]
    return float(np.logaddexp.reduce(bets)) - math.log(len(_RATES)) if any_repeats else -math.inf


def copy_evidence(problems: Iterable[float], num_unrepeated: int = 0) -> tuple[float, float]:
    """log E of a run, and the share of problems with copies that it speaks for.

    Args:
        problems: log E_i of each problem.
        num_unrepeated: further problems, on which no text is repeated.

    >>> evidence, share = copy_evidence([20.0] * 6, num_unrepeated=24)
    >>> round(evidence, 1), share  # 6 (20 + log 0.2) + 24 log 0.8 - log 3
    (103.9, 0.2)
    """
    known = np.array(list(problems), dtype=np.float64)
    logs = [
        float(np.logaddexp(math.log1p(-share), math.log(share) + known).sum()) + num_unrepeated * math.log1p(-share)
        for share in _SHARES
    ]
    return float(np.logaddexp.reduce(logs)) - math.log(len(_SHARES)), _SHARES[int(np.argmax(logs))]


def is_copied(evidence: float, share: float) -> bool:
    """Whether copies on a problem are likelier than none, where so large a share of problems has them.

    >>> is_copied(2.0, share=0.2), is_copied(1.0, share=0.2)  # odds: 0.25 e^2, 0.25 e
    (True, False)
    """
    return math.log(share) + evidence > math.log1p(-share)
