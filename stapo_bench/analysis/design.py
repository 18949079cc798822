"""What an evaluation of a given size can find, before anything is drawn.

    found = plan_size(num_problems=30, num_samples=32, baseline=0.4)
    found.sizes[0].like_these.smallest  # the smallest true difference that is found with power 80 %

Without pilot runs the variances of ``plan`` are not known, and a model stands in for them: the rates at which problems
are solved follow Beta(m, 1 - m) with the baseline m as their mean, most of them near 0 or 1 as on benchmarks, and those
of A and B have the correlation rho. Then, with n problems and N samples of each (w and tau^2 as in ``plan``),

    w = m (1 - m)        tau^2 = (1 - rho) m (1 - m)

    these problems:        w / (n N)
    problems like these:   tau^2 / n + w / (n N)

are the variances of B - A, and the smallest difference is (q + z_power) standard errors, q being the 97.5 % quantile of
the test: Student's with n - 1 degrees for problems like these, else the normal one. rho is the assumption that counts:
0.9 is what checkpoints of one training have; the range is that of 0.95 to 0.8. Two pilot runs (``plan A B``) replace
it.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

from stapo_bench.errors import UsageError
from stapo_bench.statistics import LEVEL, POWER, normal_quantile, t_quantile

ASSUMED_CORRELATION = 0.9
ASSUMED_CORRELATIONS = (0.95, 0.8)
"""Of the rates at which A and B solve problems: assumed, and the range that is shown."""


@dataclass(frozen=True, kw_only=True)
class Findable:
    """The smallest true difference that is found with the power asked for, a fraction; inf: none that can be."""

    smallest: float
    least: float  # where the correlation is at its highest
    most: float  # where it is at its lowest


@dataclass(frozen=True, kw_only=True)
class Size:
    """An evaluation's size, and what it finds under both errors."""

    num_problems: int
    num_samples: int | None  # per problem and run; None: as many as one likes
    these_problems: Findable
    like_these: Findable


@dataclass(frozen=True, kw_only=True)
class SizePlan:
    """What a size finds, and what more samples and more problems bring."""

    baseline: float
    power: float
    sizes: tuple[Size, ...]  # the one asked for; more samples; more problems


def plan_size(num_problems: int, num_samples: int, baseline: float, power: float = POWER) -> SizePlan:
    """Plan for a size without pilot runs.

    Args:
        num_problems: of the benchmark.
        num_samples: per problem and run.
        baseline: the score of A, a fraction.
        power: the probability with which a difference is to be found.
    """
    if num_problems < 2:
        raise UsageError(f"--problems: expected at least 2, got {num_problems}")
    asked = [(num_problems, num_samples)]
    more_samples = [(num_problems, factor * num_samples) for factor in (2, 4)]
    more_problems = [(factor * num_problems, num_samples) for factor in (2, 4)]
    shapes = [*asked, *more_samples, (num_problems, None), *more_problems]
    sizes = tuple(size_of(problems, samples, baseline, power) for problems, samples in shapes)
    return SizePlan(baseline=baseline, power=power, sizes=sizes)


def size_of(num_problems: int, num_samples: int | None, baseline: float, power: float = POWER) -> Size:
    """What one size finds. One sample of each problem tells nothing of its noise: then both errors are that of the
    claim.

    >>> size = size_of(30, 32, 0.4)
    >>> round(size.these_problems.smallest, 3), round(size.like_these.smallest, 3)
    (0.044, 0.094)
    """
    like = _findable(num_problems, num_samples, baseline, power)
    these = like if num_samples == 1 else _findable(num_problems, num_samples, baseline, power, these=True)
    return Size(num_problems=num_problems, num_samples=num_samples, these_problems=these, like_these=like)


def _findable(
    num_problems: int, num_samples: int | None, baseline: float, power: float, *, these: bool = False
) -> Findable:
    confidence = 1.0 - LEVEL
    quantile = normal_quantile(confidence) if these else t_quantile(confidence, num_problems - 1)

    def smallest(correlation: float) -> float:
        between = 0.0 if these else 1.0 - correlation
        within = 0.0 if num_samples is None else 1.0 / num_samples
        error = math.sqrt(baseline * (1.0 - baseline) * (between + within) / num_problems)
        found = (quantile + NormalDist().inv_cdf(power)) * error
        return found if found <= max(baseline, 1.0 - baseline) else math.inf

    least, most = map(smallest, ASSUMED_CORRELATIONS)
    return Findable(smallest=smallest(ASSUMED_CORRELATION), least=least, most=most)
