"""How each tool is asked whether B is better than A: by its own public API, as its documentation says.

A function per tool, from two matrices to an ``Answer``; and one per tool that judges six models together. They run in
the tool's own environment, which has numpy, the tool and what that needs; nothing of ours but this file.
"""

import math
from collections.abc import Callable
from importlib import import_module
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
"""[num_items, num_samples] scores from 0 to 1; NaN: not drawn, and a row of them: an item that is not there."""

LEVEL, MARGIN = 0.05, 0.02


class Answer(NamedTuple):
    """What a tool says of B - A. Fractions; NaN where it gives no interval."""

    low: float
    high: float
    claim: bool  # that the two differ
    tied: bool = False  # that they differ by less than the margin; False also where it makes no such claim


Judge = Callable[[Matrix, Matrix, NDArray[np.int64] | None], Answer]


def _ours(error: str) -> Judge:
    def judge(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
        sides: list[Any] = [a, b]
        if clusters is not None:
            sides = [
                [{"item": i, "sample": j, "score": x, "cluster": f"c{c}"} for i, j, x, c in _long(s, clusters)]
                for s in sides
            ]
        found = import_module("stapo_bench").compare(*sides)
        effect = found.average.effect(error)
        interval = effect.difference.interval()
        claim, tied = effect.verdict in ("better", "worse"), effect.verdict == "tied"
        return Answer(interval.low, interval.high, claim, tied)

    return judge


def errorbars(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
    """errorbars.compare.paired_compare on items' means, B first since it takes A - B."""
    left, right, labels = _means(a, b, clusters)
    found = import_module("errorbars.compare").paired_compare(right, left, clusters=labels)
    if labels is None:
        return Answer(found.ci_low, found.ci_high, found.p_value < LEVEL)
    return Answer(found.ci_low_clustered, found.ci_high_clustered, found.p_value_clustered < LEVEL)


def evalconfidence(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
    """evalconfidence.compare on rows of items and epochs."""
    tool = import_module("evalconfidence")
    sides = [
        [
            tool.ItemResult(item_id=i, model_id=name, score=x, epoch=j, cluster_id=None if clusters is None else str(c))
            for i, j, x, c in _long(side, clusters)
        ]
        for name, side in (("B", b), ("A", a))
    ]
    found = tool.compare(*sides)
    low, high = found.ci_diff
    return Answer(low, high, found.p_value < LEVEL)


def deltagate(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
    """deltagate.paired_delta on items' means that deltagate.align_paired pairs."""
    tool = import_module("deltagate")
    sides = [{i: float(np.nanmean(x)) for i, x in enumerate(side) if not np.isnan(x).all()} for side in (b, a)]
    right, left = tool.align_paired(*sides)
    order = sorted(sides[0], key=str)  # the order in which it pairs them
    labels = None if clusters is None else [int(clusters[i]) for i in order]
    found = tool.paired_delta(right, left, clusters=labels)
    return Answer(found["lower"], found["upper"], found["p_value"] < LEVEL)


def evalci(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
    """evalci.multi_compare on a frame of items and samples; it takes no clusters here."""
    row = import_module("evalci").multi_compare(_frame([a, b], "item_id", "sample_idx"), random_state=0).iloc[0]
    return Answer(-row["ci_high"], -row["ci_low"], bool(row["p_value"] < LEVEL))


def evalstats(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
    """evalstats.compare on a frame of items and runs; it knows no clusters."""
    tool = import_module("evalstats")
    loaded = tool.load_from(_frame([a, b], "item", "run"))
    found = tool.compare(loaded, factors="model").pairwise.results["m0", "m1"]
    return Answer(-found.ci_high, -found.ci_low, found.p_value < LEVEL)


def claimeval(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
    """claimeval.evaluate_claims: pairwise claims and equivalence; the interval by its bootstrap."""
    tool = import_module("claimeval")
    runs = _rollouts([a, b], clusters)
    claims = [tool.Claim("pairwise", "m0", ["m1"]), tool.Claim("pairwise", "m1", ["m0"])]
    claims.append(tool.Claim("equivalent", "m1", ["m0"], margin=MARGIN))
    worse, better, tied = (bool(found["supported"]) for found in tool.evaluate_claims(runs, claims))
    drawn = tool.hierarchical_bootstrap(runs, mode=tool.auto_mode(runs), rng=np.random.default_rng(0)).acc
    low, high = np.quantile(drawn[:, 1] - drawn[:, 0], [0.025, 0.975])
    return Answer(float(low), float(high), worse or better, tied and not (worse or better))


def scorio(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
    """scorio.eval.avg of each, for the problems as they are; the difference's error is the root of the squares' sum."""
    if not all(np.isin(side, (0.0, 1.0)).all() for side in (a, b)):
        raise ValueError("scorio: whole matrices of 0 and 1 alone")
    (mean_a, sigma_a), (mean_b, sigma_b) = (import_module("scorio").eval.avg(side.astype(int)) for side in (a, b))
    half = 1.959964 * math.hypot(sigma_a, sigma_b)
    return Answer(mean_b - mean_a - half, mean_b - mean_a + half, abs(mean_b - mean_a) > half)


def paired_t(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
    """Student's t of the items' differences."""
    from scipy.special import stdtrit

    left, right, _ = _means(a, b, None)
    return _normal(right - left, float(stdtrit(len(left) - 1, 0.975)))


def miller_z(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
    """Miller 2024 (arXiv:2411.00640): normal, paired differences, summed by cluster where there are some."""
    left, right, labels = _means(a, b, clusters)
    return _normal(right - left, 1.959964, labels)


def mcnemar(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> Answer:
    """McNemar's exact test of single samples; no interval."""
    from scipy.stats import binom

    if a.shape[1] > 1 or not all(np.isin(side[~np.isnan(side)], (0.0, 1.0)).all() for side in (a, b)):
        raise ValueError("McNemar: one sample of each item, 0 or 1, alone")
    left, right, _ = _means(a, b, None)
    wins, losses = int((right > left).sum()), int((right < left).sum())
    p = min(1.0, 2.0 * float(binom.cdf(min(wins, losses), wins + losses, 0.5)))
    return Answer(math.nan, math.nan, p < LEVEL)


JUDGES: dict[str, Judge] = {
    "stapo-bench, problems like these": _ours("problems like these"),
    "stapo-bench, these problems": _ours("these problems"),
    "errorbars": errorbars,
    "evalconfidence": evalconfidence,
    "deltagate": deltagate,
    "evalci": evalci,
    "evalstats": evalstats,
    "claimeval": claimeval,
    "scorio": scorio,
    "paired t": paired_t,
    "Miller's z": miller_z,
    "McNemar": mcnemar,
}


def _ours_together(error: str) -> Callable[[list[Matrix]], bool]:
    def together(runs: list[Matrix]) -> bool:
        tool = import_module("stapo_bench.analysis")
        standing = tool.compare_several(tool.read_sides(runs)).standings[error]
        return any(pair.joint.p_adjusted < LEVEL for pair in standing.pairs)

    return together


def _errorbars_together(runs: list[Matrix]) -> bool:
    rows = [(f"m{m}", i, j, x) for m, run in enumerate(runs) for i, j, x, _ in _long(run, None)]
    models, items, samples, scores = (list(column) for column in zip(*rows, strict=True))
    data = import_module("errorbars.io").EvalData(items, models, scores, sample=[str(j) for j in samples])
    board = import_module("errorbars.leaderboard").build_leaderboard(data)
    return any(pair.p_holm < LEVEL for pair in board.pairwise)


def _evalstats_together(runs: list[Matrix]) -> bool:
    tool = import_module("evalstats")
    found = tool.compare(tool.load_from(_frame(runs, "item", "run")), factors="model").pairwise.results
    return any(pair.p_value < LEVEL for pair in found.values())


def _deltagate_together(runs: list[Matrix]) -> bool:
    tool = import_module("deltagate")
    means = [run.mean(axis=1) for run in runs]
    p = [tool.paired_delta(y, x)["p_value"] for x, y in combinations(means, 2)]
    return bool(tool.holm_bonferroni(p).num_rejected)


def _evalci_together(runs: list[Matrix]) -> bool:
    found = import_module("evalci").multi_compare(_frame(runs, "item_id", "sample_idx"), random_state=0)
    return bool(found["significant"].any())


def _claimeval_together(runs: list[Matrix]) -> bool:
    tool, names = import_module("claimeval"), [f"m{m}" for m in range(len(runs))]
    claims = [tool.Claim("pairwise", x, [y]) for x in names for y in names if x != y]
    return any(found["supported"] for found in tool.evaluate_claims(_rollouts(runs, None), claims))


def _student_together(runs: list[Matrix]) -> bool:
    return any(paired_t(x, y, None).claim for x, y in combinations(runs, 2))


THESE = ("stapo-bench, these problems", "scorio")
"""Tools that speak of the items as they are: what they have to cover is the difference of the items that were drawn."""

TOGETHER: dict[str, Callable[[list[Matrix]], bool]] = {
    "stapo-bench, problems like these": _ours_together("problems like these"),
    "stapo-bench, these problems": _ours_together("these problems"),
    "errorbars": _errorbars_together,
    "evalstats": _evalstats_together,
    "deltagate": _deltagate_together,
    "evalci": _evalci_together,
    "claimeval": _claimeval_together,
    "paired t": _student_together,
}
"""Whether any two of several models are called different, by what each tool offers for several."""


def _long(side: Matrix, clusters: NDArray[np.int64] | None) -> list[tuple[str, int, float, int]]:
    """(item, sample, score, cluster) of everything that was drawn."""
    labels = np.arange(len(side)) if clusters is None else clusters
    return [
        (f"i{i:06d}", j, float(x), int(labels[i]))
        for i, row in enumerate(side)
        for j, x in enumerate(row)
        if not math.isnan(x)
    ]


def _frame(runs: list[Matrix], item: str, sample: str) -> Any:
    rows = [(f"m{m}", *row[:3]) for m, run in enumerate(runs) for row in _long(run, None)]
    return import_module("pandas").DataFrame(rows, columns=["model", item, sample, "score"])


def _rollouts(runs: list[Matrix], clusters: NDArray[np.int64] | None) -> Any:
    tool = import_module("claimeval")
    return tool.RolloutSet(
        tool.Rollout(f"m{m}", i, str(j), x, 1.0, "" if clusters is None else f"c{c}")
        for m, run in enumerate(runs)
        for i, j, x, c in _long(run, clusters)
    )


def _means(a: Matrix, b: Matrix, clusters: NDArray[np.int64] | None) -> tuple[Any, Any, Any]:
    """Items' means where both have some, and their clusters: what a tool that takes vectors has to be given."""
    both = ~(np.isnan(a).all(axis=1) | np.isnan(b).all(axis=1))
    return np.nanmean(a[both], axis=1), np.nanmean(b[both], axis=1), None if clusters is None else clusters[both]


def _normal(changes: Matrix, quantile: float, clusters: NDArray[np.int64] | None = None) -> Answer:
    residuals, num = changes - changes.mean(), len(changes)
    sums = residuals if clusters is None else np.bincount(clusters, weights=residuals)
    squares = float((sums**2).sum()) * (num / (num - 1) if clusters is None else 1.0)
    half, value = quantile * math.sqrt(squares) / num, float(changes.mean())
    return Answer(value - half, value + half, abs(value) > half)
