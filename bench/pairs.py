"""Populations of pairs of models, sparse and dense, and what the interval, the test and the tie of B - A do on them.

Measured by ``python -m bench.coverage --pairs 500``. A population draws the success rates of both models on n
problems; its mean difference is known. Every population is to be read both ways: exchanging A and B turns all signs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stapo_bench.analysis.compare import verdict_on
from stapo_bench.statistics import ERROR_NAMES, LEVEL, MARGIN, ErrorName, paired_difference

Rates = NDArray[np.float64]
PairRates = Callable[[np.random.Generator, int], tuple[Rates, Rates]]

AIME24 = np.array(
    [22, 1, 0, 0, 0, 0, 3, 28, 6, 29, 3, 12, 20, 0, 2, 13, 0, 2, 6, 6, 1, 0, 11, 12, 18, 2, 17, 0, 0, 0]
) / 31.0  # fmt: skip
"""Share of 31 published evaluations that are right on each problem of AIME24: models of 14B to 32B and checkpoints of
their trainings, one greedy sample each (github.com/NovaSky-AI/SkyThought, in its history)."""


def from_aime(rng: np.random.Generator, num: int) -> Rates:
    """Rates of problems drawn from AIME24's, [num]."""
    return AIME24[rng.integers(len(AIME24), size=num)]


def newly_solved(share: float, base: Callable[[np.random.Generator, int], Rates]) -> PairRates:
    """A share of problems, whatever their rate was, is always solved by B."""

    def draw(rng: np.random.Generator, num: int) -> tuple[Rates, Rates]:
        before = base(rng, num)
        return before, np.where(rng.random(num) < share, 1.0, before)

    return draw


def rare(up: float, gain: float, down: float = 0.0) -> PairRates:
    """Nothing is solved, but a share ``up`` of problems by B and ``down`` by A, with the rate ``gain``."""

    def draw(rng: np.random.Generator, num: int) -> tuple[Rates, Rates]:
        place = rng.random(num)
        return np.where((place >= up) & (place < up + down), gain, 0.0), np.where(place < up, gain, 0.0)

    return draw


def same(base: Callable[[np.random.Generator, int], Rates]) -> PairRates:
    """Two models that are alike."""

    def draw(rng: np.random.Generator, num: int) -> tuple[Rates, Rates]:
        rates = base(rng, num)
        return rates, rates

    return draw


def spread(gain: float) -> PairRates:
    """Difficulties in logits, normal(-0.5, 2); B is better on all by one shift of them, ``gain`` on the mean."""
    quantiles = np.sort(np.random.default_rng(0).normal(-0.5, 2.0, 100_001))
    shifts = np.linspace(0.0, 2.0, 401)
    gains = [float((_logistic(quantiles[::100] + s) - _logistic(quantiles[::100])).mean()) for s in shifts]
    shift = float(np.interp(gain, gains, shifts))

    def draw(rng: np.random.Generator, num: int) -> tuple[Rates, Rates]:
        logits = rng.normal(-0.5, 2.0, num)
        return _logistic(logits), _logistic(logits + shift)

    return draw


def u_shaped(rng: np.random.Generator, num: int) -> tuple[Rates, Rates]:
    """Two models of equal means, rates near 0 or 1, each model its own on a fifth of the problems."""
    before = rng.beta(0.5, 0.5, num)
    return before, np.where(rng.random(num) < 0.2, rng.beta(0.5, 0.5, num), before)


def two_points(rng: np.random.Generator, num: int) -> tuple[Rates, Rates]:
    """70 % of problems are out of reach, the others go from 0.40 to 0.65."""
    open_ = rng.random(num) < 0.3
    return np.where(open_, 0.4, 0.0), np.where(open_, 0.65, 0.0)


def _logistic(logits: Rates) -> Rates:
    return 1.0 / (1.0 + np.exp(-logits))


_ROOM = float((1.0 - AIME24).mean())

PAIRS: dict[str, tuple[PairRates, float]] = {
    "spread, no gain": (spread(0.0), 0.0),
    "spread, 2 points": (spread(0.02), 0.02),
    "spread, 4 points": (spread(0.04), 0.04),
    "spread, 7 points": (spread(0.07), 0.07),
    "U-shaped, a fifth differ": (u_shaped, 0.0),
    "two points: 30 % gain 25": (two_points, 0.075),
    "nothing solved": (rare(0.0, 0.0), 0.0),
    "nothing solved, but 2 % by B": (rare(0.02, 1.0), 0.02),
    "nothing solved, but 4 % by B": (rare(0.04, 1.0), 0.04),
    "nothing solved, but 4 % half by B": (rare(0.04, 0.5), 0.02),
    "nothing solved, but 8 % half by B": (rare(0.08, 0.5), 0.04),
    "nothing solved, but 5 % half by each": (rare(0.05, 0.5, 0.05), 0.0),
    "AIME24's rates, alike": (same(from_aime), 0.0),
    "AIME24's rates, 4 % newly solved": (newly_solved(0.04, from_aime), 0.04 * _ROOM),
    "AIME24's rates, 10 % newly solved": (newly_solved(0.10, from_aime), 0.10 * _ROOM),
}
"""Population of pairs and its mean difference B - A."""

PAIR_DESIGNS = [(n, k) for n in (30, 100, 500) for k in (1, 2, 4, 32)]


def measure(population: str, design: tuple[int, int], repetitions: int, seed: int = 0) -> dict[ErrorName, Any]:
    """Shares of data sets, by error; under ``these problems`` the truth is the mean difference of the drawn problems.

    Returns:
        covered, shown (better or worse), tied (within ``MARGIN``), false_tie (tied although the truth is not below
        ``MARGIN``), width (mean, a fraction).
    """
    (draw, mean), (num, k) = PAIRS[population], design
    rng = np.random.default_rng([seed, num, k, *population.encode()])
    found: dict[ErrorName, Any] = {e: dict.fromkeys(MEASURES, 0.0) for e in ERROR_NAMES}
    for _ in range(repetitions):
        rates = draw(rng, num)
        a, b = ((rng.random((num, k)) < of_run[:, None]).astype(np.float64) for of_run in rates)
        truths = {"these problems": float((rates[1] - rates[0]).mean()), "problems like these": mean}
        for error in ERROR_NAMES:
            difference, truth = paired_difference(a, b, error), truths[error]
            interval, verdict = difference.interval(), verdict_on(difference, difference.p_value, MARGIN)
            tied = verdict == "tied"
            values = (
                interval.low - 1e-12 <= truth <= interval.high + 1e-12,
                difference.p_value < LEVEL,
                tied,
                tied and abs(truth) >= MARGIN - 1e-12,
                interval.width,
            )
            for name, value in zip(MEASURES, values, strict=True):
                found[error][name] += float(value)
    return {e: {name: round(total / repetitions, 6) for name, total in of.items()} for e, of in found.items()}


MEASURES = ("covered", "shown", "tied", "false_tie", "width")


def all_pairs(repetitions: int, designs: list[tuple[int, int]] | None = None) -> list[dict[str, Any]]:
    """Every population on every design."""
    return [
        {"population": name, "truth": mean, "design": design, **measure(name, design, repetitions)}
        for design in designs or PAIR_DESIGNS
        for name, (_, mean) in PAIRS.items()
    ]


def print_pairs(rows: list[dict[str, Any]]) -> None:
    """Print the table, in percent and points; nothing without rows."""
    if not rows:
        return
    print("| problems × samples | population | truth | " + " | ".join(f"{m}: these, like" for m in MEASURES) + " |")
    print("|---|---|---|" + "---|" * len(MEASURES))
    for row in rows:
        cells = (" ".join(f"{100 * row[error][name]:.1f}" for error in ERROR_NAMES) for name in MEASURES)
        n, k = row["design"]
        print(f"| {n} × {k} | {row['population']} | {100 * row['truth']:.1f} | " + " | ".join(cells) + " |")
