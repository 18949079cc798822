"""An estimated difference with its error: its interval, its p-value, and the margin within which it is a tie.

The interval is Student's (or the normal) one, turned by Hall's transformation where the differences are skewed:

    value - T(q) se  to  value - T(-q) se,    g(T(q)) = q,    g(T) = T + s T^2 / 3 + s^2 T^3 / 27 + s / 6

(Hall 1992, J. R. Statist. Soc. B 54:221; s the skewness of the mean difference).

**Problems that were not drawn may change although none of the drawn ones did.** A bound that lies beyond 0 speaks of
a true difference mu that would have to come from somewhere. As in Wilson's (1927) interval the variance is therefore
that under mu, and it grows with mu: by gamma / n for each unit of mu beyond the estimate (beyond 0 where the estimate
has the other sign), gamma being the size of a change. With v >= 0 the estimate and l Hall's length on this side,

    upper bound = v + y,    y^2 = l^2 + (1 - (alpha / 2)^(1 / n)) gamma y

Where nothing varied, l = 0 and y = gamma times the largest share of problems of which none is drawn that rarely, close
to the rule of three (Hanley and Lippman-Hand 1983, JAMA 249:1743). Where few changed, and all alike, the bound comes
within 1 % of Poisson's exact limit (Garwood 1936). A bound between 0 and the estimate is left alone, so that the
interval leaves out 0 just where the test rejects.

**One sample per problem and run.** Then a problem is won, lost or neither, and with few that are won or lost the test
is McNemar's with the mid-p-value (Fagerland, Lydersen and Laake 2013, BMC Med. Res. Methodol. 13:91).
"""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from stapo_bench.statistics.conventions import LEVEL
from stapo_bench.statistics.intervals import UNKNOWN, Interval, normal_quantile, t_quantile

FEW_PAIRS = 25
"""Below so many problems that are won or lost the test of single samples is exact; above both agree."""


class Pairs(NamedTuple):
    """Problems of which each run has one sample: right in B alone (wins), right in A alone (losses)."""

    wins: int
    losses: int

    @property
    def p_value(self) -> float:
        """McNemar's mid-p-value, two-sided: of fair coins, less extreme ones count in full and equal ones by half.

            2 (P(X < x) + P(X = x) / 2),    X ~ Binomial(wins + losses, 1/2), x the smaller of the two

        >>> Pairs(4, 0).p_value  # 2 * (1/16) / 2
        0.0625
        """
        from scipy.special import bdtr

        few, total = min(self), sum(self)
        below = float(bdtr(few - 1, total, 0.5)) if few else 0.0
        return below + float(bdtr(few, total, 0.5))  # 2 (P(X < x) + P(X <= x)) / 2

    @property
    def smallest_p(self) -> float:
        """The p-value if all of them had been won: no smaller one could have come out."""
        return Pairs(sum(self), 0).p_value

    def least_gain(self, level: float) -> float:
        """wins - losses that cannot be excluded: Binomial's mid-p limit of the share of wins, given their number.

        Above 0 where the p-value is below ``level`` and there are more wins than losses.

        >>> round(Pairs(6, 0).least_gain(0.05), 2)  # theta^6 / 2 = 0.025 at theta = 0.607; 6 (2 theta - 1)
        1.28
        """
        from scipy.special import bdtrc

        total = sum(self)
        low, high = 0.0, 1.0
        for _ in range(50):
            share = (low + high) / 2.0
            at_least = float(bdtrc(self.wins - 1, total, share)) if self.wins else 1.0
            low, high = (share, high) if at_least + float(bdtrc(self.wins, total, share)) < level else (low, share)
        return total * (2.0 * low - 1.0)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """An estimated difference with its error. Fractions; NaN where the data cannot tell."""

    value: float
    standard_error: float
    degrees: float  # of freedom; inf: normal
    num_problems: int
    num_clusters: int | None = None  # of problems that belong together; None: every problem is by itself
    skewness: float = 0.0  # of the error: its third moment over that of the second, shrunk
    unseen: tuple[float, float] = (0.0, 0.0)  # gamma / n of losses and of gains that the problems may not have shown
    unseen_by_ties: tuple[float, float] | None = None  # likewise, for changes as far as can be; None: the same
    pairs: Pairs | None = None  # where both runs have one sample of every problem
    farthest: float = math.inf  # from 0 that the true difference can be: 1 for two shares

    def interval(self, confidence: float = 0.95) -> Interval:
        """Where the true difference lies with this probability; the module says how. Cut off at ±``farthest``."""
        found = self.unclipped(confidence)
        if math.isnan(found.low):
            return found
        return Interval(low=max(found.low, -self.farthest), high=min(found.high, self.farthest))

    def unclipped(self, confidence: float = 0.95) -> Interval:
        """The interval before it is cut off at what can be: its width shows how much is known."""
        if math.isnan(self.standard_error):
            return UNKNOWN
        quantile = self._quantile(confidence)
        below, above = self._skewed(quantile) * self.standard_error, -self._skewed(-quantile) * self.standard_error
        num = self.num_units
        zeros = num * (1.0 - ((1.0 - confidence) / 2.0) ** (1.0 / num))  # the mean of a Binomial count, 0 this rarely
        low = -_bound(-self.value, below, zeros * self.unseen[0])
        high = _bound(self.value, above, zeros * self.unseen[1])
        return self._as_tested(low, high, 1.0 - confidence) if self._exact else Interval(low=low, high=high)

    @property
    def p_value(self) -> float:
        """Two-sided: how often a difference at least this large would be seen if there were none."""
        if math.isnan(self.standard_error):
            return math.nan
        if self.pairs is not None and self._exact:
            return self.pairs.p_value
        t, s = self.value / self.standard_error, self.skewness
        statistic = abs(t + s * t**2 / 3.0 + s**2 * t**3 / 27.0 + s / 6.0)
        if math.isinf(self.degrees):
            return 2.0 * NormalDist().cdf(-statistic)
        from scipy.special import stdtr

        return float(2.0 * stdtr(self.degrees, -statistic))

    def tied_within(self, num_claims: int = 1) -> float:
        """Smallest x for which |difference| >= x is refuted: two one-sided tests (Schuirmann 1987).

        Of ``num_claims`` such bounds, all hold together in 95 of 100 cases (Bonferroni).
        """
        return self.tied_at(1.0 - 2.0 * LEVEL / num_claims)

    def tied_at(self, confidence: float) -> float:
        """The farther end of the interval from 0, which for a tie allows for changes as far as any problem can have."""
        allowing = self if self.unseen_by_ties is None else replace(self, unseen=self.unseen_by_ties)
        interval = allowing.interval(confidence)
        return max(-interval.low, interval.high)

    @property
    def num_units(self) -> int:
        """How many vary freely: clusters where problems belong together, else problems."""
        return self.num_clusters or self.num_problems

    @property
    def _exact(self) -> bool:
        return self.pairs is not None and sum(self.pairs) < FEW_PAIRS

    def _as_tested(self, low: float, high: float, level: float) -> Interval:
        """The bounds, the one nearer to 0 by the exact test: it leaves out 0 just where that rejects."""
        assert self.pairs is not None
        if self.pairs.p_value >= level:
            return Interval(low=min(low, 0.0), high=max(high, 0.0))
        if self.pairs.wins > self.pairs.losses:
            return Interval(low=_nearer(low, self.pairs.least_gain(level) / self.num_problems), high=high)
        least = Pairs(self.pairs.losses, self.pairs.wins).least_gain(level) / self.num_problems
        return Interval(low=low, high=-_nearer(-high, least))

    def _skewed(self, quantile: float) -> float:
        """T where g(T) is this quantile: 3 / s ((1 + s (q - s / 6))^(1/3) - 1)."""
        s = self.skewness
        return quantile if abs(s) < 1e-6 else 3.0 / s * float(np.cbrt(1.0 + s * (quantile - s / 6.0)) - 1.0)

    def _quantile(self, confidence: float) -> float:
        return normal_quantile(confidence) if math.isinf(self.degrees) else t_quantile(confidence, self.degrees)


UNDECIDED = Difference(value=math.nan, standard_error=math.nan, degrees=math.inf, num_problems=0)


def _nearer(plain: float, exact: float) -> float:
    """The lower bound nearer to 0: the exact one takes the number of pairs for certain. It alone where the other is not
    above 0."""
    return min(plain, exact) if plain > 0 else exact


def _bound(value: float, length: float, unseen: float) -> float:
    """Upper bound, ``length`` above the value as far as 0 and further beyond it, see the module.

    (gap + y)^2 = length^2 + unseen y, with y counted from the estimate, or from 0 if that lies above it by the gap.

    >>> round(_bound(0.0, 0.0, 3.0 / 30), 4), round(_bound(-0.05, 0.04, 0.1), 4)
    (0.1, -0.01)
    """
    gap = max(0.0, -value)
    if length < gap:
        return value + length
    half = gap - unseen / 2.0
    return max(0.0, value) + math.sqrt(half**2 + length**2 - gap**2) - half
