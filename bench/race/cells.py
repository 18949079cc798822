"""The data sets of the race: drawn once from a seed, the same for every tool."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.outcomes import SCORES
from bench.pairs import PAIRS, from_aime

Array = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Data sets of one kind. ``draw`` gives [num_models, num_items, num_samples] scores and B - A of these items."""

    name: str
    draw: Callable[[Generator], tuple[Array, float]]
    truth: float = 0.0  # B - A over items like these
    clusters: NDArray[np.int64] | None = None
    num_sets: int | None = None  # None: as many as asked for

    def data(self, num_sets: int) -> dict[str, Any]:
        """``runs`` [num_sets, num_models, num_items, num_samples], ``truths`` [num_sets] and ``clusters``, if any."""
        rng = np.random.default_rng([2026, *self.name.encode()])
        drawn = [self.draw(rng) for _ in range(self.num_sets or num_sets)]
        found = {"runs": np.stack([runs for runs, _ in drawn]), "truths": np.array([truth for _, truth in drawn])}
        return found if self.clusters is None else {**found, "clusters": self.clusters}


def _sample(rng: Generator, rates: Array, num_samples: int) -> Array:
    return (rng.random((*rates.shape, num_samples)) < rates[..., None]).astype(np.float64)


def _pair(population: str, num: int, k: int) -> Callable[[Generator], tuple[Array, float]]:
    def draw(rng: Generator) -> tuple[Array, float]:
        a, b = PAIRS[population][0](rng, num)
        return _sample(rng, np.stack([a, b]), k), float((b - a).mean())

    return draw


def _scores(population: str, num: int, k: int) -> Callable[[Generator], tuple[Array, float]]:
    def draw(rng: Generator) -> tuple[Array, float]:
        a, b = SCORES[population](rng, num)
        return np.stack([a.draw(rng, k), b.draw(rng, k)]), float((b.expected - a.expected).mean())

    return draw


CLUSTERS = np.repeat(np.arange(20), 5)


def _clustered(rng: Generator) -> tuple[Array, float]:
    """20 texts with 5 questions; an item is as its text with a chance that gives a correlation of one half."""
    own, shared = (0.1 + 0.8 * (rng.random((2, num)) < 0.6) for num in (len(CLUSTERS), 20))
    rates = np.where(rng.random((2, len(CLUSTERS))) < 0.5**0.5, shared[:, CLUSTERS], own)
    return _sample(rng, rates, 1), float((rates[1] - rates[0]).mean())


def _six(rng: Generator) -> tuple[Array, float]:
    return _sample(rng, np.tile(from_aime(rng, 100), (6, 1)), 4), 0.0


def _lacking(rng: Generator, found: tuple[Array, float], share: float, least: int) -> tuple[Array, float]:
    """B lacks the last samples of each item, down to ``least``, and a share of its items."""
    runs, truth = found
    num, k = runs.shape[1:]
    runs[1][np.arange(k) >= rng.integers(least, k + 1, num)[:, None]] = np.nan
    runs[1][rng.random(num) < share] = np.nan
    return runs, truth


def cells() -> Iterator[Cell]:
    """All of them; the name says what is drawn."""
    for points, name in ((0, "spread, no gain"), *((p, f"spread, {p} points") for p in (2, 4, 7))):
        yield Cell(name=f"30 × 32, {points} points", draw=_pair(name, 30, 32), truth=points / 100)
    rare = {"rare, nothing else": "nothing solved, but 4 % by B", "rare, AIME24": "AIME24's rates, 10 % newly solved"}
    for short, name in rare.items():
        yield Cell(name=f"30 × 32, {short}", draw=_pair(name, 30, 32), truth=PAIRS[name][1])
    for points, name in ((0, "spread, no gain"), (4, "spread, 4 points"), (7, "spread, 7 points")):
        yield Cell(name=f"500 × 1, {points} points", draw=_pair(name, 500, 1), truth=points / 100)
    yield Cell(name="20 clusters of 5", draw=_clustered, clusters=CLUSTERS)
    yield Cell(name="scores near 1", draw=_scores("near 1, mostly 1 itself", 30, 4))
    yield Cell(name="scores, a tenth gains in full", draw=_scores("a tenth of items gains in full", 30, 4), truth=0.05)
    yield Cell(name="six equal models, 100 × 4", draw=_six)
    even = _pair("spread, no gain", 30, 32)
    yield Cell(name="unequal k, 30 × 8 to 32", draw=lambda rng: _lacking(rng, even(rng), 0.0, 8))
    yield Cell(name="missing items, 30 × 32", draw=lambda rng: _lacking(rng, even(rng), 0.2, 32))
    yield Cell(name="speed, 1,000 × 8", draw=_pair("spread, no gain", 1000, 8), num_sets=3)
    yield Cell(name="speed, 100,000 × 1", draw=_pair("spread, no gain", 100_000, 1), num_sets=2)
