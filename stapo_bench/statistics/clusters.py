"""Problems that belong together: what they change is correlated within a cluster, and clusters are what varies freely.

With N problems in G clusters of n_g, e_i = d_i - mean the residuals and p_g = n_g / N, the variance of the mean is

    Var = sum_g (sum_{i in g} e_i)^2 / (1 - p_g) / N^2

(CR2 of Bell and McCaffrey 2002 for a mean), with Satterthwaite's degrees of freedom for clusters that are correlated as
these are: 2 E[Var]^2 / Var[Var] where a cluster's sum varies as n_g (1 + (n_g - 1) rho). Clusters of equal sizes give
the t interval of their means, and clusters of one problem that of the problems.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stapo_bench.statistics.estimators import Vector

Labels = NDArray[np.int64]
"""[num_problems]: the cluster of each, as a number."""


@dataclass(frozen=True, kw_only=True)
class Units:
    """What varies freely: problems, or clusters in the unit of their mean's part in the mean over problems."""

    value: float  # mean over problems
    totals: Vector  # [num_units], their mean is the value
    centered: Vector  # [num_units], sum_u centered_u^2 / (num - 1) / num is the variance of the mean
    degrees: float  # of freedom of this variance
    number: float  # of units of equal sizes that would tell as much, were all problems of one alike: 1 / sum_u p_u^2


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """How far problems of one cluster hang together."""

    num_clusters: int
    largest: int  # problems in the largest cluster
    correlation: float  # of two problems' differences in one cluster; NaN where no cluster holds two
    design_effect: float  # variance of the mean over that of independent problems


def units_of(changes: Vector, clusters: Labels | None = None) -> Units:
    """Problems, or where clusters are named, these; see the module.

    >>> units_of(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1])).totals  # two clusters of equal sizes: means
    array([1., 0.])
    """
    num, value = len(changes), float(changes.mean()) if len(changes) else float("nan")
    if clusters is None or not num:
        return Units(value=value, totals=changes, centered=changes - value, degrees=num - 1, number=num)
    _, numbers, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    groups, shares = len(sizes), sizes / num
    if groups < 2:
        return Units(value=value, totals=np.array([value]), centered=np.zeros(1), degrees=0, number=1.0)
    scale = groups / num
    totals: Vector = np.bincount(numbers, weights=scale * changes).astype(np.float64)
    centered: Vector = np.bincount(numbers, weights=scale * (changes - value)).astype(np.float64)
    rho = max(0.0, correlation(changes, clusters))
    return Units(
        value=value,
        totals=totals,
        centered=centered * np.sqrt((1.0 - 1.0 / groups) / (1.0 - shares)),
        degrees=_degrees(shares, sizes * (1.0 + (sizes - 1.0) * rho)),
        number=1.0 / float((shares**2).sum()),
    )


def clustering(changes: Vector, clusters: Labels) -> Clustering:
    """How far problems of one cluster hang together, and what it costs.

    >>> clustering(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1])).correlation
    1.0
    """
    found, plain = units_of(changes, clusters), units_of(changes)
    groups = len(found.totals)
    variances = [
        float((units.centered**2).sum()) / max(1, len(units.centered) - 1) / len(units.centered)
        for units in (found, plain)
    ]
    return Clustering(
        num_clusters=groups,
        largest=int(np.unique(clusters, return_counts=True)[1].max()),
        correlation=correlation(changes, clusters),
        design_effect=variances[0] / variances[1] if groups > 1 and variances[1] > 0 else float("nan"),
    )


def correlation(changes: Vector, clusters: Labels) -> float:
    """The intraclass correlation by analysis of variance (Donner 1986); NaN where no cluster holds two, or none varies.

    (MSB - MSW) / (MSB + (n0 - 1) MSW),    n0 = (N - sum_g n_g^2 / N) / (G - 1)
    """
    _, numbers, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    num, groups = len(changes), len(sizes)
    if not 1 < groups < num:
        return float("nan")
    means = np.bincount(numbers, weights=changes) / sizes
    within = float(((changes - means[numbers]) ** 2).sum()) / (num - groups)
    between = float((sizes * (means - changes.mean()) ** 2).sum()) / (groups - 1)
    typical = (num - float((sizes**2).sum()) / num) / (groups - 1)
    whole = between + (typical - 1.0) * within
    return (between - within) / whole if whole > 0 else float("nan")


def _degrees(shares: Vector, variances: Vector) -> float:
    """(tr M)^2 / tr M^2, M the covariances of the clusters' weighted residual sums.

    The residual sum of cluster g is T_g - p_g sum_h T_h with T_g's variance v_g, and its weight is (1 - p_g)^(-1/2).
    """
    p, v, whole = shares, variances, float(variances.sum())
    weights = 1.0 / (1.0 - p)

    def inner(a: Vector, b: Vector) -> float:
        return float((weights * a * b).sum())

    off = whole * p * p - 2.0 * p * v  # on the diagonal, of -p v' - v p' + (sum v) p p'
    trace = float((weights * (v + off)).sum())
    squares = float((weights**2 * v * (v + 2.0 * off)).sum())
    squares += 2.0 * inner(p, p) * inner(v, v) + 2.0 * inner(p, v) ** 2
    squares += whole**2 * inner(p, p) ** 2 - 4.0 * whole * inner(p, p) * inner(p, v)
    return trace**2 / squares
