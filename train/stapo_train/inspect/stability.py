"""Entropy stability of a run: a score and a verdict, defined alike for every run.

    x_t = ln(H_t / H_0),  H_0 the mean entropy of the first five iterations
    score = exp(-mean of |x_t| over all later iterations): 1 for a flat line, 1/2 where entropy is typically off by 2x

The verdict depends only on the median of the last tenth of iterations (at least five): ``collapse`` below a quarter of
H_0, ``explosion`` above four times H_0, else ``stable``. The definition is this project's own; the paper
(arXiv:2602.15620) shows curves and gives no number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from stapo_bench.errors import StapoError
from stapo_bench.runs import complete_lines, unseal

START = 5
"""Iterations whose mean entropy is the starting value H_0."""
FACTOR = 4.0
"""Below 1 / FACTOR of the start is a collapse, above FACTOR an explosion."""

Ending = Literal["stable", "collapse", "explosion"]


@dataclass(frozen=True, kw_only=True)
class Stability:
    """Score and verdict of a run. Entropies in nats."""

    score: float  # in (0, 1]
    verdict: Ending
    start: float
    end: float
    lowest: float
    highest: float
    num_iterations: int

    @property
    def growth(self) -> float:
        """ln(end / start); NaN where one of them is 0, which has no logarithm."""
        return math.log(self.end) - math.log(self.start) if min(self.start, self.end) > 0 else math.nan


def stability(entropies: Sequence[float]) -> Stability:
    """Score a run by its mean entropy per iteration.

    >>> stability([0.4] * 5 + [0.2] * 10).score
    0.5
    >>> stability([0.4] * 5 + [0.09] * 10).verdict
    'collapse'
    """
    if len(entropies) < 2 * START:
        raise StapoError(f"stability: expected at least {2 * START} iterations, got {len(entropies)}")
    start = sum(entropies[:START]) / START
    later = entropies[START:]
    score = 0.0 if min(later) <= 0 else math.exp(-sum(abs(math.log(h / start)) for h in later) / len(later))
    end = median(entropies[-max(START, len(entropies) // 10) :])
    verdict: Ending = "collapse" if end < start / FACTOR else "explosion" if end > start * FACTOR else "stable"
    return Stability(
        score=score,
        verdict=verdict,
        start=start,
        end=end,
        lowest=min(entropies),
        highest=max(entropies),
        num_iterations=len(entropies),
    )


def read_entropies(run: Path) -> list[float]:
    """Mean entropy of each iteration from a run folder."""
    path = run / "metrics.jsonl"
    if not path.is_file():
        raise StapoError(f"{run}: expected a training run with metrics.jsonl, found none")
    entropies = []
    for number, line in complete_lines(path):
        try:
            entropies.append(float(unseal(line)["entropy"]))
        except (ValueError, KeyError, TypeError) as error:
            raise StapoError(f"{path}:{number}: expected an iteration with its entropy, got {error!r}") from None
    return entropies
