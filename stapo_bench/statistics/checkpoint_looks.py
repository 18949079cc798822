"""Is a checkpoint better than the base? Asked of one checkpoint of a training after another, every few rounds.

    look_at([correct], [base], num_samples=[32], number=3)   # of the third checkpoint that was begun

**False alarms.** With probability 95 % no checkpoint of the whole training, however many there will be, is ever called
better or worse than a base that it equals. The n-th checkpoint spends

    alpha_n = 0.05 / (n (n + 1)),    sum_n alpha_n = 0.05

and all its looks together stay within that. Its error is a Brownian motion that runs backwards in the variance V of the
difference (``sequential``), and all that a checkpoint may have is known beforehand: V_end. With time t = V_end / V the
reflection principle bounds the process as O'Brien and Fleming (1979, Biometrics 35:549) do, strictly at first and
hardly wider than a single look in the end:

    |estimate - truth| <= c V / sqrt(V_end) at every look with probability 1 - alpha_n,    c = Phi^-1(1 - alpha_n / 4)

The base's error, which all checkpoints share, is part of every V.

**Stopping.** A checkpoint that is better, worse or tied needs no more samples. Nor does one that will hardly be decided
by all that it may have: seen from now, the difference in the end is normal around the one of now with the variance
V - V_end. It decides where it is beyond c sqrt(V_end), on the side where it is now, and where it is so near to 0 that
its interval, c sqrt(V_end) to either side, ends within the margin: a tie. Below a probability of 1 in 10 for both
together the checkpoint stays open. To stop so can only make fewer alarms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from stapo_bench.statistics.conventions import LEVEL, MARGIN
from stapo_bench.statistics.estimators import Matrix
from stapo_bench.statistics.intervals import UNKNOWN, Interval, sampling_variance
from stapo_bench.statistics.paired import mean_difference, paired_difference
from stapo_bench.statistics.sequential import MIN_ROUNDS, in_rounds

LookState = Literal["better", "worse", "tied", "open"]

_HARDLY = 0.1
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True)
class CheckpointLook:
    """A checkpoint beside its base; fractions, for these problems."""

    state: LookState
    stop: bool  # decided, or hardly to be decided
    rounds: int  # complete rounds of the task that has most of them
    value: float  # the score's difference to the base
    interval: Interval  # with those of all looks at all checkpoints it holds at 95 %


def level_of(number: int) -> float:
    """alpha_n of the n-th checkpoint, counted from 1.

    >>> level_of(1), round(sum(level_of(n) for n in range(1, 1000)), 4)
    (0.025, 0.05)
    """
    return LEVEL / (number * (number + 1))


def quantile_of(number: int) -> float:
    """c of the n-th checkpoint: half the width of its interval in the end, in standard errors.

    >>> round(quantile_of(1), 2), round(quantile_of(20), 2)
    (2.5, 4.01)
    """
    return -_NORMAL.inv_cdf(level_of(number) / 4.0)


def planned_aim(num_problems: Sequence[int], num_samples: Sequence[int]) -> float:
    """The half-width that a checkpoint may hope for, by no data: three standard errors, with rates of 1/2 on average.

    The variances are those of the model of ``analysis.design``. It is how ``sequential`` widens the intervals of all
    that is said beside of a checkpoint that stopped.

    >>> round(planned_aim([30], [32]), 4)  # 3 sqrt(0.25 / (30 * 32))
    0.0484
    """
    variances = [0.25 / (n * k) for n, k in zip(num_problems, num_samples, strict=True)]
    return 3.0 * math.sqrt(sum(variances)) / len(variances)


def look_at(
    tasks: Sequence[Matrix],
    base: Sequence[Matrix],
    num_samples: Sequence[int],
    number: int,
    margin: float = MARGIN,
) -> CheckpointLook:
    """A look at a checkpoint.

    Args:
        tasks: the checkpoint so far, a matrix per task.
        base: the finished base on the same problems, row by row.
        num_samples: per problem of each task, all that the checkpoint may have.
        number: which checkpoint of the training it is, counted from 1.
        margin: a difference below it is of no interest, a fraction.
    """
    drawn, finished = [in_rounds(task) for task in tasks], [in_rounds(other) for other in base]
    rounds = [task.shape[1] for task in drawn]
    pairs = list(zip(finished, drawn, strict=True))
    difference = mean_difference([paired_difference(a, b, "these problems") for a, b in pairs])
    if min(rounds) < min(MIN_ROUNDS, *num_samples) or math.isnan(difference.value):
        return CheckpointLook(state="open", stop=False, rounds=max(rounds), value=difference.value, interval=UNKNOWN)
    now = difference.standard_error**2
    unseen = [
        sampling_variance(task) * max(0.0, 1.0 - done / most)
        for task, done, most in zip(drawn, rounds, num_samples, strict=True)
    ]
    end = max(now - sum(unseen) / len(tasks) ** 2, 1e-12)
    least, quantile = math.sqrt(end), quantile_of(number)
    half = quantile * now / least
    interval = Interval(low=max(-1.0, difference.value - half), high=min(1.0, difference.value + half))
    state = _state(interval, margin)
    still = math.sqrt(max(now - end, 0.0))
    hardly = still == 0.0 or _decided(abs(difference.value), still, quantile * least, margin) < _HARDLY
    return CheckpointLook(
        state=state, stop=state != "open" or hardly, rounds=max(rounds), value=difference.value, interval=interval
    )


def _decided(value: float, still: float, half: float, margin: float) -> float:
    """The probability that a difference, now ``value`` >= 0, ends beyond ``half``, or as a tie.

    D ~ N(value, still^2):    P(D > half) + P(|D| <= margin - half)
    """
    end, room = NormalDist(value, still), max(0.0, margin - half)
    return min(1.0, 1.0 - end.cdf(half) + end.cdf(room) - end.cdf(-room))


def _state(interval: Interval, margin: float) -> LookState:
    if interval.low > 0:
        return "better"
    if interval.high < 0:
        return "worse"
    return "tied" if max(-interval.low, interval.high) <= margin else "open"
