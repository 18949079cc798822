#!/usr/bin/env python3
"""Scores between 0 and 1, items that belong together, several runs at once: how often what is said of them holds.

    python -m bench.outcomes --repetitions 1000 --json results/bench/outcomes.json   # a quarter of an hour on one core
    python -m bench.outcomes --parts scores clusters --repetitions 200
    python -m bench.outcomes --parts clusters --cell "20 clusters of 5, 0.5, 4" --repetitions 10000   # one row

Each part gives the same simulated data sets to ours and to what is usual: Student's t interval of the items' mean
differences, items as if they were independent, pairs as if each were the only one.
"""

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pairs import from_aime, spread
from stapo_bench.runs import measured_with
from stapo_bench.statistics import (
    ERROR_NAMES,
    LEVEL,
    all_differences,
    holm,
    interval,
    judge_together,
    paired_difference,
    t_quantile,
)

Vector = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Items:
    """Items of one model: a score is 1 or 0 with these chances, and else Beta's with this mean."""

    ones: Vector  # [num_items]
    zeros: Vector
    means: Vector  # of what lies between
    size: float = 8.0  # the two parameters of Beta add up to it

    @property
    def expected(self) -> Vector:
        """The expected score of each item."""
        return self.ones + (1.0 - self.ones - self.zeros) * self.means

    def draw(self, rng: Generator, num_samples: int) -> Vector:
        """[num_items, num_samples] scores."""
        place = rng.random((len(self.means), num_samples))
        means = np.clip(self.means, 1e-6, 1.0 - 1e-6)[:, None]
        between = rng.beta(self.size * means, self.size * (1.0 - means), place.shape)
        ones, zeros = self.ones[:, None], self.zeros[:, None]
        return np.where(place < ones, 1.0, np.where(place < ones + zeros, 0.0, between))


Models = Callable[[Generator, int], tuple[Items, Items]]


def between(rng: Generator, means: Vector, size: float = 8.0) -> Items:
    """Items without a share at the ends."""
    none = np.zeros(len(means))
    return Items(ones=none, zeros=none, means=means, size=size)


def another_third(draw: Callable[[Generator, int], Items]) -> Models:
    """Two models that are alike on two thirds of the items, each its own on the others: no difference on the mean."""

    def models(rng: Generator, num: int) -> tuple[Items, Items]:
        a, other = draw(rng, num), draw(rng, num)
        own = rng.random(num) < 1.0 / 3.0
        fields = {name: np.where(own, getattr(other, name), getattr(a, name)) for name in ("ones", "zeros", "means")}
        return a, replace(a, **fields)

    return models


def mostly_ends(rng: Generator, num: int) -> Items:
    """Four fifths of the scores are 0 or 1."""
    right = rng.beta(0.5, 0.5, num)
    return Items(ones=0.8 * right, zeros=0.8 * (1.0 - right), means=np.full(num, 0.5), size=2.0)


def often_one(rng: Generator, num: int) -> Items:
    """Near 1, and 1 itself more often than not."""
    return Items(ones=rng.beta(6.0, 4.0, num), zeros=np.zeros(num), means=np.full(num, 0.92), size=13.0)


def rare_gain(share: float) -> Models:
    """Two models that are alike, but for a share of the items on which B always scores 1."""

    def models(rng: Generator, num: int) -> tuple[Items, Items]:
        a = between(rng, rng.beta(2.0, 2.0, num), 100.0)
        gained = rng.random(num) < share
        return a, replace(a, ones=np.where(gained, 1.0, 0.0))

    return models


SCORES: dict[str, Models] = {
    "spread evenly": another_third(lambda rng, num: between(rng, rng.random(num))),
    "near the middle": another_third(lambda rng, num: between(rng, rng.beta(12.0, 12.0, num), 40.0)),
    "near 1": another_third(lambda rng, num: between(rng, rng.beta(20.0, 1.0, num), 30.0)),
    "near 1, mostly 1 itself": another_third(often_one),
    "near 0, skewed": another_third(lambda rng, num: between(rng, rng.beta(0.5, 4.0, num), 5.0)),
    "mostly 0 or 1, a fifth between": another_third(mostly_ends),
    "a tenth of items gains in full": rare_gain(0.1),
    "a twentieth of items gains in full": rare_gain(0.05),
}
"""Models' scores by what they look like."""

SCORE_DESIGNS = [(num, k) for num in (30, 100, 500) for k in (1, 4)]


def of_scores(population: str, design: tuple[int, int], repetitions: int) -> dict[str, Any]:
    """Coverage and width beside Student's t, false ties within two points; coverage of one model's score."""
    num, k = design
    rng = np.random.default_rng([num, k, *population.encode()])
    a, b = SCORES[population](np.random.default_rng(0), 1_000_000)
    truth = float((b.expected - a.expected).mean()) if population.endswith("gains in full") else 0.0
    score = float(b.expected.mean())
    counted = ("covered_these", "covered_like", "covered_t", "width_like", "width_t", "tied_like")
    found = dict.fromkeys((*counted, "score_these", "score_like"), 0.0)
    for _ in range(repetitions):
        models = SCORES[population](rng, num)
        left, right = (items.draw(rng, k) for items in models)
        fixed = float((models[1].expected - models[0].expected).mean())
        these, like = (paired_difference(left, right, error) for error in ERROR_NAMES)
        changes = right.mean(axis=1) - left.mean(axis=1)
        half = t_quantile(0.95, num - 1) * float(changes.std(ddof=1)) / math.sqrt(num)
        wide, narrow = like.interval(), these.interval()
        found["covered_these"] += narrow.low <= fixed <= narrow.high
        found["covered_like"] += wide.low <= truth <= wide.high
        found["covered_t"] += abs(float(changes.mean()) - truth) <= half
        found["width_like"] += wide.width
        found["width_t"] += 2.0 * half
        found["tied_like"] += like.tied_within() <= 0.02
        for name, aim in (("these", float(models[1].expected.mean())), ("like", score)):
            of_score = interval(right, ERROR_NAMES[name == "like"])
            found[f"score_{name}"] += of_score.low <= aim <= of_score.high
    return {"population": population, "design": design, "truth": round(truth, 4), **_shares(found, repetitions)}


CLUSTERS: dict[str, Callable[[Generator], NDArray[np.int64]]] = {
    "20 clusters of 5": lambda _rng: np.repeat(np.arange(20), 5),
    "8 clusters of 10": lambda _rng: np.repeat(np.arange(8), 10),
    "100 clusters of 5": lambda _rng: np.repeat(np.arange(100), 5),
    "20 clusters of 1 to 9": lambda rng: np.repeat(np.arange(20), rng.integers(1, 10, 20)),
}
CORRELATIONS = (0.0, 0.5, 0.9)


def of_clusters(name: str, correlation: float, num_samples: int, repetitions: int) -> dict[str, Any]:
    """Coverage of both errors, and of items taken for independent; the two models do not differ on the mean."""
    rng = np.random.default_rng([round(100 * correlation), num_samples, *name.encode()])
    found = dict.fromkeys(("covered_these", "covered_like", "covered_independent", "width_like"), 0.0)
    for _ in range(repetitions):
        labels = CLUSTERS[name](rng)
        rates = []
        for _model in range(2):  # an item is as its cluster, or its own; two of one cluster correlate as said
            own, shared = (0.1 + 0.8 * (rng.random(n) < 0.6) for n in (len(labels), labels.max() + 1))
            rates.append(np.where(rng.random(len(labels)) < math.sqrt(correlation), shared[labels], own))
        left, right = ((rng.random((len(labels), num_samples)) < r[:, None]).astype(float) for r in rates)
        these, like = (paired_difference(left, right, error, clusters=labels).interval() for error in ERROR_NAMES)
        independent = paired_difference(left, right, "problems like these").interval()
        found["covered_these"] += these.low <= float((rates[1] - rates[0]).mean()) <= these.high
        found["covered_like"] += like.low <= 0.0 <= like.high
        found["covered_independent"] += independent.low <= 0.0 <= independent.high
        found["width_like"] += like.width
    shares = _shares(found, repetitions)
    return {"clusters": name, "correlation": correlation, "num_samples": num_samples, **shares}


SEVERAL: dict[str, Callable[[Generator, int], Vector]] = {
    "spread difficulties": lambda rng, num: spread(0.0)(rng, num)[0],
    "AIME24's rates": from_aime,
}
SEVERAL_DESIGNS = [(30, 32), (30, 1), (500, 4)]


def of_several(population: str, design: tuple[int, int], repetitions: int) -> dict[str, Any]:
    """Six equal models: how often any two are told apart, by pair, by Holm's correction, together.

    The intervals hold together where none of the pairs is told apart. A seventh, better by seven points on the mean,
    shows the power: how often it is told apart from the first of the six.
    """
    num, k = design
    rng = np.random.default_rng([num, k, *population.encode()])
    names = ("by_pair", "holm", "together", "power_holm", "power_together")
    found = {f"{name}: {error}": 0.0 for name in names for error in ERROR_NAMES}
    for _ in range(repetitions):
        rates = SEVERAL[population](rng, num)
        better = rates + 0.07 * rates * (1.0 - rates) / max(1e-9, float((rates * (1.0 - rates)).mean()))
        runs = [[(rng.random((num, k)) < rates[:, None]).astype(float)] for _ in range(6)]
        others = [*runs[:5], [(rng.random((num, k)) < better[:, None]).astype(float)]]
        for error in ERROR_NAMES:
            for suffix, models in (("", runs), ("power_", others)):
                differences = all_differences(models, error)
                pairs = list(combinations(range(6), 2)) if not suffix else [(0, 5)]
                adjusted = dict(zip(differences, holm([d.p_value for d in differences.values()]), strict=True))
                joint = judge_together(differences)
                found[f"{suffix}holm: {error}"] += any(adjusted[pair] < LEVEL for pair in pairs)
                found[f"{suffix}together: {error}"] += any(joint[pair].p_adjusted < LEVEL for pair in pairs)
                if not suffix:
                    found[f"by_pair: {error}"] += any(d.p_value < LEVEL for d in differences.values())
    return {"population": population, "design": design, **_shares(found, repetitions)}


def _shares(found: dict[str, float], repetitions: int) -> dict[str, float]:
    return {name: round(float(total) / repetitions, 5) for name, total in found.items()}


def cells(part: str) -> dict[str, Callable[[int], dict[str, Any]]]:
    """The rows of a part by name, each a function of the number of data sets: scores, clusters or several."""
    if part == "scores":
        designs = product(SCORES, SCORE_DESIGNS)
        return {f"{name}, {num} × {k}": partial(of_scores, name, (num, k)) for name, (num, k) in designs}
    if part == "clusters":
        return {
            f"{n}, {c:g}, {k}": partial(of_clusters, n, c, k) for n, c, k in product(CLUSTERS, CORRELATIONS, (1, 4))
        }
    designs = product(SEVERAL, SEVERAL_DESIGNS)
    return {f"{name}, {num} × {k}": partial(of_several, name, (num, k)) for name, (num, k) in designs}


def measure(part: str, repetitions: int, only: str = "") -> dict[str, dict[str, Any]]:
    """The rows of a part by name, or the one of them that is named."""
    return {name: row(repetitions) for name, row in cells(part).items() if only in ("", name)}


PARTS = ("scores", "clusters", "several")


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown: shares and widths in percent and points."""
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(name, row[name]) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def _cell(name: str, value: Any) -> str:
    if isinstance(value, tuple):
        return " × ".join(map(str, value))
    return f"{100 * value:.1f}" if isinstance(value, float) and name != "correlation" else str(value)


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description="Coverage, widths and false claims beyond pairs of 0/1 matrices.")
    parser.add_argument("--repetitions", type=int, default=1000, help="data sets a cell (default 1000)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="else all")
    parser.add_argument("--cell", default="", help="one row of a part alone, by name; the others stay as they are")
    parser.add_argument("--json", type=Path, help="also write what was measured here; other parts stay")
    arguments = parser.parse_args()
    if arguments.cell and not any(arguments.cell in cells(part) for part in arguments.parts):
        parser.error(f"--cell: expected one of {'; '.join(chain.from_iterable(map(cells, arguments.parts)))}")
    about = measured_with(("numpy", "scipy"))
    facts: dict[str, Any] = {}
    if arguments.json is not None and arguments.json.exists():
        facts = json.loads(arguments.json.read_text(encoding="utf-8"))
    for part in arguments.parts:
        measured = measure(part, arguments.repetitions, arguments.cell)
        print(f"{table(list(measured.values()))}\n", flush=True)
        if arguments.cell:
            names, rows = list(cells(part)), facts.get(part, {"rows": []})["rows"]
            for name, row in measured.items():
                place = names.index(name)
                rows[place : place + 1] = [{**row, "repetitions": arguments.repetitions, **about}]
        else:
            facts[part] = {"repetitions": arguments.repetitions, "rows": list(measured.values()), **about}
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
