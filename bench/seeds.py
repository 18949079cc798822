#!/usr/bin/env python3
"""Methods over training seeds: how often both intervals hold the truth, and what is claimed of equal methods.

    python -m bench.seeds --trials 1000 --json results/bench/seeds.json     # two minutes of one core

Success rates are logistic: a problem's difficulty (sd 2), the training's own level (sd ``spread``), a gain that varies
between problems (sd 0.5) and between problem and seed (sd 0.3). The gain of the population is set on the logits; the
truth that an interval must hold is its mean effect on rates, over seeds on the drawn problems, or over both. ``told``
is the share of pairs of equal methods called better or worse; ``falsely_tied`` that of pairs whose gain is 2 points in
the population, and that are called tied within 2 points although the truth is not below that.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stapo_bench.analysis.compare import verdict_on
from stapo_bench.runs import measured_with
from stapo_bench.statistics import MARGIN, SEED_ERRORS, Difference, over_seeds

Rates = NDArray[np.float64]
BETWEEN_PROBLEMS, BETWEEN_CELLS = 0.5, 0.3
CELLS = np.random.default_rng(2).normal(0.0, 1.0, (100, 1))
"""Trainings over which the truth on drawn problems is averaged."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is compared."""

    seeds: tuple[int, int]  # of A and B
    paired: bool
    problems: int
    samples: int
    spread: float  # of trainings, on the logits


DESIGNS = [
    Design(seeds=seeds, paired=paired, problems=problems, samples=samples, spread=spread)
    for seeds, paired in (((3, 3), True), ((5, 5), True), ((5, 5), False), ((3, 8), False))
    for problems, samples in ((30, 32), (500, 4))
    for spread in (0.0, 0.2)
]


def rates_of(rng: np.random.Generator, base: Rates, gain: Rates, spread: float, num_seeds: int) -> Rates:
    """[num_seeds, num_problems] success rates of trainings."""
    level = rng.normal(0.0, spread, (num_seeds, 1))
    own = rng.normal(0.0, BETWEEN_CELLS * (spread > 0.0), (num_seeds, len(base)))
    rates: Rates = 1.0 / (1.0 + np.exp(-(base + gain + level + own)))
    return rates


def shift_for(points: float, spread: float) -> float:
    """The mean gain on the logits that is worth so much on rates."""
    rng = np.random.default_rng(1)
    base, noise = rng.normal(0.0, 2.0, 200_000), rng.normal(0.0, 1.0, (2, 200_000))
    low, high = 0.0, 3.0
    for _ in range(40):
        middle = (low + high) / 2.0
        found = mean_effect(base, middle + BETWEEN_PROBLEMS * noise[0] * (points != 0.0), spread, noise[1])
        low, high = (middle, high) if found < points else (low, middle)
    return (low + high) / 2.0 if points else 0.0


def mean_effect(base: Rates, gain: Rates, spread: float, noise: Rates) -> float:
    """Mean over problems and trainings of the difference of rates; both methods spread alike."""
    own = math.hypot(spread, BETWEEN_CELLS * (spread > 0.0)) * noise
    return float((1.0 / (1.0 + np.exp(-(base + gain + own))) - 1.0 / (1.0 + np.exp(-(base + own)))).mean())


def trial(rng: np.random.Generator, design: Design, shift: float, sd_gain: float) -> tuple[list[Difference], float]:
    """B - A under both errors, and the truth on the drawn problems."""
    base = rng.normal(0.0, 2.0, design.problems)
    gain = shift + rng.normal(0.0, sd_gain, design.problems)
    a, b = (
        rng.binomial(design.samples, rates_of(rng, base, of_method, design.spread, num)) / design.samples
        for of_method, num in zip((np.zeros_like(gain), gain), design.seeds, strict=True)
    )
    changes, minus = ([b - a], None) if design.paired else ([b], [a])
    truth = mean_effect(np.tile(base, (len(CELLS), 1)), np.tile(gain, (len(CELLS), 1)), design.spread, CELLS)
    return [over_seeds(changes, error, minus) for error in SEED_ERRORS], truth


def verdicts(found: Sequence[Difference]) -> list[str]:
    """As ``compare_over_seeds`` gives them: p of the broader error is never below that of the narrower one."""
    p_values = np.maximum.accumulate([difference.p_value for difference in found])
    return [verdict_on(difference, float(p), MARGIN) for difference, p in zip(found, p_values, strict=True)]


def measure(design: Design, trials: int) -> dict[str, Any]:
    """Coverage of both errors at 5 points, and claims about equal methods and about methods 2 points apart."""
    rng = np.random.default_rng([design.problems, *design.seeds, int(10 * design.spread), design.paired])
    shift, small = shift_for(0.05, design.spread), shift_for(0.02, design.spread)
    held, widths, told, tied = np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2)
    for _ in range(trials):
        found, truth = trial(rng, design, shift, BETWEEN_PROBLEMS)
        for place, (difference, target) in enumerate(zip(found, (truth, 0.05), strict=True)):
            interval = difference.interval()
            held[place] += interval.low <= target <= interval.high
            widths[place] += interval.width
        equal, _ = trial(rng, design, 0.0, 0.0)
        told += [verdict in ("better", "worse") for verdict in verdicts(equal)]
        near, there = trial(rng, design, small, BETWEEN_PROBLEMS)
        apart = (abs(there) >= MARGIN, True)  # on the drawn problems, and in the population, where it is the margin
        tied += [verdict == "tied" and far for verdict, far in zip(verdicts(near), apart, strict=True)]
    shares = {"coverage": held, "told": told, "falsely_tied": tied}
    return {
        **{
            name: dict(zip(SEED_ERRORS, (values / trials).round(4).tolist(), strict=True))
            for name, values in shares.items()
        },
        "width": dict(zip(SEED_ERRORS, (100 * widths / trials).round(2).tolist(), strict=True)),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The record as Markdown: shares in percent, widths in points."""
    lines = [
        "| seeds | paired | problems × samples | spread | error | coverage | width | told | falsely tied |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        design = row["design"]
        for error in SEED_ERRORS:
            shares = [f"{100 * row[name][error]:.1f}" for name in ("coverage", "told", "falsely_tied")]
            cells = [
                " and ".join(map(str, dict.fromkeys(design["seeds"]))), "by seed" if design["paired"] else "no",
                f"{design['problems']} × {design['samples']}", str(design["spread"]), error,
                shares[0], f"{row['width'][error]:.1f}", shares[1], shares[2],
            ]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [{"design": vars(design), **measure(design, arguments.trials)} for design in DESIGNS]
    print(table(rows))
    if arguments.json:
        record = {"command": f"python -m bench.seeds --trials {arguments.trials}", "rows": rows}
        arguments.json.write_text(
            json.dumps(record | measured_with(["numpy", "scipy"]), indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    sys.exit(main())
