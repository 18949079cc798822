"""Point estimates from repeated samples: pure functions of a [num_problems, num_samples] matrix.

``correct[i, j]`` is 1.0 (right), 0.0 (wrong) or NaN (sample j of problem i is missing, or no grader could decide).
Every estimate is a mean over problems, so a problem weighs the same however many samples it has; a problem without any
decided sample is left out (``scores`` counts and declares it). Scores are fractions in [0, 1].

    >>> correct = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, np.nan, np.nan]])
    >>> avg_at_k(correct)  # (1/4 + 2/2) / 2
    0.625
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
"""[num_problems, num_samples]: 1.0, 0.0 or NaN."""

Vector = NDArray[np.float64]


def success_counts(correct: Matrix) -> tuple[Vector, Vector]:
    """Successes c and decided samples n of each problem that has at least one: two [num_seen] arrays.

    >>> success_counts(np.array([[1.0, 0.0, np.nan], [np.nan, np.nan, np.nan]]))
    (array([1.]), array([2.]))
    """
    if correct.ndim != 2:
        raise ValueError(f"expected a [num_problems, num_samples] matrix, got shape {correct.shape}")
    decided = ~np.isnan(correct)
    if not np.isin(correct[decided], (0.0, 1.0)).all():
        raise ValueError("expected only 1.0, 0.0 and NaN in the matrix; a score between them is not an outcome")
    samples = decided.sum(axis=1).astype(np.float64)
    successes = np.where(decided, correct, 0.0).sum(axis=1)
    seen = samples > 0
    return successes[seen], samples[seen]


def is_binary(scores: Matrix) -> bool:
    """Whether all that is decided is right or wrong, 1 or 0."""
    return bool((np.isnan(scores) | (scores == 0.0) | (scores == 1.0)).all())


def problem_means(correct: Matrix) -> Vector:
    """Success rate of each problem, [num_problems]; NaN where nothing is decided."""
    decided = ~np.isnan(correct)
    samples = decided.sum(axis=1)
    successes = np.where(decided, correct, 0.0).sum(axis=1)
    means: Vector = np.full(len(correct), np.nan)
    np.divide(successes, samples, out=means, where=samples > 0)
    return means


def avg_at_k(correct: Matrix) -> float:
    """avg@k = (1/n) sum_i (1/k_i) sum_j correct_ij; NaN when nothing is decided."""
    successes, samples = success_counts(correct)
    return _mean(successes / samples)


def score_bounds(correct: Matrix, ungraded: NDArray[np.bool_]) -> tuple[float, float]:
    """avg@k if every stored but ungraded sample were wrong, and if every one were right.

    Args:
        correct: [num_problems, num_samples]; NaN at ungraded and at missing samples.
        ungraded: same shape; True where a completion exists that no grader could decide. Missing samples are not
        ungraded: the estimate and both bounds leave them out.

    >>> score_bounds(np.array([[1.0, np.nan, 0.0, np.nan]]), np.array([[False, True, False, False]]))
    (0.3333333333333333, 0.6666666666666666)
    """
    return avg_at_k(np.where(ungraded, 0.0, correct)), avg_at_k(np.where(ungraded, 1.0, correct))


def pass_at_k(correct: Matrix, k: int) -> float:
    """Unbiased pass@k = mean_i [1 - C(n_i - c_i, k) / C(n_i, k)]: at least one of k samples is right.

    Chen et al. 2021, arXiv:2107.03374, Eq. 1. Needs n_i >= k for every problem: no estimate is unbiased otherwise.

    >>> pass_at_k(np.array([[1.0, 0.0, 0.0, 0.0]]), 2)  # 1 - C(3, 2) / C(4, 2) = 1 - 3/6
    0.5
    """
    successes, samples = _counts_for(correct, k)
    return _mean(1.0 - _choose(samples - successes, k) / _choose(samples, k))


def pass_hat_k(correct: Matrix, k: int) -> float:
    """pass^k = mean_i C(c_i, k) / C(n_i, k): all of k samples are right. Yao et al. 2024, arXiv:2406.12045.

    >>> pass_hat_k(np.array([[1.0, 1.0, 1.0, 0.0]]), 2)  # C(3, 2) / C(4, 2) = 3/6
    0.5
    """
    successes, samples = _counts_for(correct, k)
    return _mean(_choose(successes, k) / _choose(samples, k))


def g_pass_at_k(correct: Matrix, k: int, tau: float) -> float:
    """G-Pass@k_tau: at least ceil(tau k) of k samples are right.

    mean_i sum_{j = ceil(tau k)}^{c_i} C(c_i, j) C(n_i - c_i, k - j) / C(n_i, k), Liu et al. 2024, arXiv:2412.13147.
    A tau so small that ceil(tau k) would be 0 counts as 1, which makes it pass@k.

    >>> g_pass_at_k(np.array([[1.0, 1.0, 0.0, 0.0]]), 2, 1.0)  # C(2, 2) / C(4, 2) = 1/6
    0.16666666666666666
    """
    if not 0.0 <= tau <= 1.0:
        raise ValueError(f"expected 0 <= tau <= 1, got {tau}")
    successes, samples = _counts_for(correct, k)
    needed = max(1, math.ceil(tau * k - 1e-9))  # 0.28 * 25 is 7.000000000000001
    ways = sum(_choose(successes, j) * _choose(samples - successes, k - j) for j in range(needed, k + 1))
    return _mean(ways / _choose(samples, k))


def mg_pass_at_k(correct: Matrix, k: int) -> float:
    """mG-Pass@k = (2/k) sum_{i = ceil(k/2) + 1}^{k} G-Pass@k_{i/k}: stability over the upper half of tau.

    Liu et al. 2024, arXiv:2412.13147; for odd k the mean runs over the floor(k/2) terms that there are.
    """
    steps = range(math.ceil(k / 2) + 1, k + 1)
    if not steps:
        raise ValueError(f"expected k >= 2 for mG-Pass@k, got {k}")
    return float(np.mean([g_pass_at_k(correct, k, step / k) for step in steps]))


def answer_classes(answers: Sequence[str | None], same: Callable[[str, str], bool] | None = None) -> list[int]:
    """Group equal answers: the same number for the same class, -1 for no answer.

    ``same`` must be an equivalence up to the first member of each class (each answer is compared with one
    representative per class); None compares the text.

    >>> answer_classes(["1/2", None, "0.5", "3"], same=lambda a, b: {a, b} <= {"1/2", "0.5"})
    [0, -1, 0, 1]
    """
    representatives: list[str] = []
    numbers: dict[str, int] = {}
    classes = []
    for answer in answers:
        if answer is None:
            classes.append(-1)
            continue
        if answer not in numbers:
            match = (i for i, other in enumerate(representatives) if same is not None and same(answer, other))
            numbers[answer] = next(match, len(representatives))
            if numbers[answer] == len(representatives):
                representatives.append(answer)
        classes.append(numbers[answer])
    return classes


def maj_at_k(correct: Matrix, classes: NDArray[np.int64], k: int) -> float:
    """maj@k: the most frequent of k answers is right; the exact mean over all k-subsets of the samples.

    Votes are counted over equivalence classes of answers (Wang et al. 2022, arXiv:2203.11171). All right answers are
    one class, since each equals the gold. A sample without an answer does not vote. Tie rule: a tie is broken evenly
    at random, so a right class that shares the lead with t others scores 1 / (1 + t). No votes at all score 0.

    Args:
        correct: [num_problems, num_samples] as above.
        classes: same shape; equal numbers in a row are equal answers, -1 is no answer. Ignored where correct is NaN.
        k: subset size, at most the fewest decided samples of a problem.

    >>> maj_at_k(np.array([[1.0, 0.0, 0.0]]), np.array([[0, 1, 2]]), 3)  # three classes, one vote each
    0.3333333333333333
    """
    if correct.shape != classes.shape:
        raise ValueError(f"expected classes of shape {correct.shape}, got {classes.shape}")
    _counts_for(correct, k)
    shares = []
    for row, numbers in zip(correct, classes, strict=True):
        if np.isnan(row).all():
            continue
        wrong = numbers[(row == 0.0) & (numbers >= 0)]
        rivals = np.unique(wrong, return_counts=True)[1]
        silent = int(((row == 0.0) & (numbers < 0)).sum())
        shares.append(_majority_share(int((row == 1.0).sum()), [int(r) for r in rivals], silent, k))
    return _mean(np.array(shares))


def _majority_share(right: int, rivals: list[int], silent: int, k: int) -> float:
    """Chance that the right class wins the vote of k samples drawn without replacement.

    For each number of right votes v, ``ways[t][m]`` counts the ways to draw m samples from the other classes such that
    t rival classes have exactly v votes and none has more.
    """
    everyone = right + sum(rivals) + silent
    if k == everyone:  # one subset: count the votes
        lead = max([right, *rivals])
        return 1.0 / (1 + rivals.count(lead)) if right == lead > 0 else 0.0
    total = math.comb(everyone, k)
    share = 0.0
    for votes in range(1, min(right, k) + 1):
        room = k - votes
        ways = [[math.comb(silent, m) for m in range(room + 1)]]
        for size in rivals:
            longer = [[0] * (room + 1) for _ in range(len(ways) + 1)]
            for tied, row in enumerate(ways):
                for drawn, count in enumerate(row):
                    for take in range(min(size, votes, room - drawn) + 1):
                        longer[tied + (take == votes)][drawn + take] += count * math.comb(size, take)
            ways = [row for row in longer if any(row)] if any(map(any, longer)) else [[0] * (room + 1)]
        share += sum(math.comb(right, votes) * row[room] / (1 + tied) for tied, row in enumerate(ways)) / total
    return share


def _counts_for(correct: Matrix, k: int) -> tuple[Vector, Vector]:
    successes, samples = success_counts(correct)
    fewest = int(samples.min()) if len(samples) else 0
    if not 1 <= k <= fewest:
        raise ValueError(f"expected 1 <= k <= {fewest}, the fewest decided samples of a problem, got k = {k}")
    return successes, samples


def _choose(n: Vector, k: int) -> NDArray[np.object_]:
    """C(n, k) as Python integers, elementwise: exact however large, and exact quotients of them round once."""
    return np.array([math.comb(int(number), k) for number in n], dtype=object)


def _mean(values: NDArray[Any]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


TAUS = (0.5, 0.75, 1.0)
"""Shares of right samples at which arXiv:2412.13147 reports G-Pass@k, with k = 16."""

_G_PASS_K = 16


def stability(correct: Matrix, fewest: int) -> dict[str, float]:
    """G-Pass@k at each of ``TAUS`` and mG-Pass@k, k the largest power of two up to 16 and to the fewest samples."""
    k = min(_G_PASS_K, 1 << (fewest.bit_length() - 1)) if fewest else 0
    if k < 2:
        return {}
    return {f"G-Pass@{k}_{tau:g}": g_pass_at_k(correct, k, tau) for tau in TAUS} | {
        f"mG-Pass@{k}": mg_pass_at_k(correct, k)
    }
