#!/usr/bin/env python3
"""Coverage of the 95 % intervals, and size and power of the paired tests: by simulation, or through the whole pipeline.

    python -m bench.coverage --repetitions 4000                           # a few minutes on one core
    python -m bench.coverage --pairs 500 --json results/bench/coverage.json    # pairs of models: sparse, dense gains
    python -m bench.coverage --pipeline --json results/bench/coverage.json     # long runs; likewise

``--pairs``: differences, tests and ties on the populations of ``bench.pairs``, where few problems change or all do.
With ``--pipeline`` a scripted engine with known success rates generates long runs that are stored, graded and read back
like any run and then cut into thousands of evaluations. Their intervals come from the functions whose results ``score``
and ``compare`` print, and are compared with the truth, which depends on the error:

* these problems: the mean rate of exactly the chosen problems; every evaluation is a benchmark of its own.
* problems like these: the problems of the run *are* the population, sampled with replacement, so its mean is known.
  A problem chosen twice gets separate samples, as another problem of the same rate would.

Within an evaluation no sample is used twice. Two evaluations may share samples, which causes no bias but correlates
all shares of one run: see ``shared_luck``.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pairs import all_pairs, print_pairs
from stapo_bench.analysis.compare import verdict_on
from stapo_bench.engines import EngineOptions
from stapo_bench.runs import grade_run, load_run, measured_with
from stapo_bench.sampling import EvalOptions, evaluate
from stapo_bench.statistics import ERROR_NAMES, ErrorName, Interval, holm, interval, paired_difference
from stapo_bench.tasks import load_problems, load_task

Rates = NDArray[np.float64]
Population = Callable[[np.random.Generator, int], Rates]
Shares = dict[ErrorName, float]

POPULATIONS: dict[str, Population] = {
    "uniform": lambda rng, n: rng.random(n),
    "beta(0.5, 0.5)": lambda rng, n: rng.beta(0.5, 0.5, n),
    "beta(0.3, 3), mean 0.09": lambda rng, n: rng.beta(0.3, 3.0, n),
    "beta(3, 0.3), mean 0.91": lambda rng, n: rng.beta(3.0, 0.3, n),
    "beta(0.2, 6), mean 0.03": lambda rng, n: rng.beta(0.2, 6.0, n),
    "beta(0.1, 0.1), mostly 0 or 1": lambda rng, n: rng.beta(0.1, 0.1, n),
    "70 % unsolved, rest uniform": lambda rng, n: rng.random(n) * (rng.random(n) < 0.3),
    "all 0.5": lambda _rng, n: np.full(n, 0.5, dtype=np.float64),
    "all 0.02": lambda _rng, n: np.full(n, 0.02, dtype=np.float64),
    "5 % at 0.9, rest 0": lambda rng, n: np.where(rng.random(n) < 0.05, 0.9, 0.0),
}
DESIGNS = [(30, 32), (30, 4), (40, 32), (272, 4), (500, 4)]

PIPELINE_POPULATIONS: dict[str, Population] = {
    "logits normal(-0.5, 2)": lambda rng, n: logistic(rng.normal(-0.5, 2.0, n)),
    "beta(0.3, 3), mean 0.09": POPULATIONS["beta(0.3, 3), mean 0.09"],
    "70 % unsolved, rest uniform": POPULATIONS["70 % unsolved, rest uniform"],
}
PIPELINE_DESIGNS = [(30, 32), (30, 4), (500, 4)]
GAIN = 0.07  # of run B over run A, on the mean


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A long run as ``score`` and ``compare`` read it, and the success rates of its engine."""

    rates: Rates  # [num_problems]
    outcomes: Rates  # [num_problems, num_samples]
    run: Path


def logistic(logits: Rates) -> Rates:
    """1 / (1 + e^-x)."""
    return 1.0 / (1.0 + np.exp(-logits))


def sample(rng: np.random.Generator, rates: Rates, num_samples: int) -> Rates:
    """[num_problems, num_samples] outcomes."""
    return (rng.random((len(rates), num_samples)) < rates[:, None]).astype(np.float64)


def typical(rng: np.random.Generator, population: Population, num_problems: int) -> Rates:
    """A fixed benchmark: equally spaced quantiles of the population."""
    return np.sort(population(rng, num_problems * 101))[50::101]


def coverage(
    rng: np.random.Generator, population: Population, design: tuple[int, int], repetitions: int
) -> list[float]:
    """Share of intervals that contain the truth, for both errors."""
    num_problems, num_samples = design
    fixed = typical(rng, population, num_problems)
    truths = (fixed.mean(), population(rng, 1_000_000).mean())
    shares = []
    for error, truth in zip(ERROR_NAMES, truths, strict=True):
        held = 0
        for _ in range(repetitions):
            rates = fixed if error == "these problems" else population(rng, num_problems)
            found = interval(sample(rng, rates, num_samples), error)
            held += found.low <= truth <= found.high
        shares.append(held / repetitions)
    return shares


def size(rng: np.random.Generator, population: Population, design: tuple[int, int], repetitions: int) -> list[float]:
    """Size of the test for both errors: the share of pairs with equal rates whose difference is called significant."""
    rates = typical(rng, population, design[0])
    alarms = np.zeros(2)
    for _ in range(repetitions):
        a, b = sample(rng, rates, design[1]), sample(rng, rates, design[1])
        alarms += [paired_difference(a, b, error).p_value < 0.05 for error in ERROR_NAMES]
    return [float(share) for share in alarms / repetitions]


def better(rates: Rates, gain: float = GAIN) -> Rates:
    """Rates higher by ``gain`` on average, by one shift of all logits; rates of 0 and 1 do not change."""
    with np.errstate(divide="ignore"):
        logits = np.log(rates / (1.0 - rates))
    low, high = 0.0, 20.0
    while high - low > 1e-9:
        middle = (low + high) / 2.0
        low, high = (middle, high) if logistic(logits + middle).mean() - rates.mean() < gain else (low, middle)
    return logistic(logits + low)


def draw_pool(folder: Path, rates: Rates, num_samples: int, seed: int) -> Pool:
    """Generate a run with these rates by the whole pipeline: task file, scripted engine, store, grader, reader."""
    folder.mkdir(parents=True)
    num = len(rates)
    rows = [{"id": f"p{i}", "problem": f"{i} + {i}?", "answer": str(2 * i)} for i in range(num)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"task": "sums", "repeats": num_samples, "doc_to_text": "{{problem}}", "metadata": {"num_problems": num}}
    (folder / "sums.yaml").write_text(json.dumps(task))
    problems = load_problems(load_task(str(folder / "sums.yaml")), folder)
    success = {problem.problem_id: float(rate) for problem, rate in zip(problems, rates, strict=True)}
    (folder / "script.yaml").write_text(json.dumps({"success": success, "median_tokens": 20}))
    options = EvalOptions(
        checkpoint=folder / "script.yaml",
        decoding="training",
        tasks=(str(folder / "sums.yaml"),),
        out=folder / "run",
        engine=EngineOptions(name="scripted"),
        data_dir=folder,
        seed=seed,
    )
    with (folder / "log").open("w") as log:
        evaluate(options, watch=log)
    grade_run(options.out, data_dir=folder, workers=1)
    outcomes = load_run(options.out).outcomes["sums"].scores
    assert not np.isnan(outcomes).any()
    return Pool(rates=rates, outcomes=outcomes, run=options.out)


def choose(rng: np.random.Generator, pool: Pool, num_problems: int, error: ErrorName) -> NDArray[np.int64]:
    """Problems of one evaluation, sorted: a benchmark of the pool's problems, or a sample of them as a population."""
    again = error == "problems like these" or num_problems > len(pool.rates)
    return np.sort(rng.choice(len(pool.rates), num_problems, replace=again))


def cut(rng: np.random.Generator, pool: Pool, problems: NDArray[np.int64], num_samples: int) -> Rates:
    """One evaluation out of a pool, [num_problems, num_samples]; no sample is used twice.

    Samples of a problem are exchangeable, so a block of neighbours from a random place on is used (cyclically). A
    problem that occurs m times in the sorted ``problems`` gets m consecutive blocks.
    """
    available = pool.outcomes.shape[1]
    block = np.arange(len(problems)) - np.searchsorted(problems, problems)
    if (block.max() + 1) * num_samples > available:
        raise ValueError(f"expected at least {(block.max() + 1) * num_samples} samples per problem, got {available}")
    starts = rng.integers(available, size=len(pool.rates))[problems] + num_samples * block
    return pool.outcomes[problems[:, None], (starts[:, None] + np.arange(num_samples)) % available]


def score_coverage(rng: np.random.Generator, pool: Pool, design: tuple[int, int], repetitions: int) -> Shares:
    """Share of evaluations whose interval of avg@k contains the truth."""

    def held(error: ErrorName) -> bool:
        problems = choose(rng, pool, design[0], error)
        truth = pool.rates[problems].mean() if error == "these problems" else pool.rates.mean()
        return _holds(interval(cut(rng, pool, problems, design[1]), error), truth)

    return {error: float(np.mean([held(error) for _ in range(repetitions)])) for error in ERROR_NAMES}


def difference_coverage(
    rng: np.random.Generator, pools: tuple[Pool, Pool], design: tuple[int, int], repetitions: int
) -> Shares:
    """Share of pairs of evaluations whose interval of B - A contains the truth."""
    gains = pools[1].rates - pools[0].rates

    def held(error: ErrorName) -> bool:
        problems = choose(rng, pools[0], design[0], error)
        truth = gains[problems].mean() if error == "these problems" else gains.mean()
        a, b = (cut(rng, pool, problems, design[1]) for pool in pools)
        return _holds(paired_difference(a, b, error).interval(), truth)

    return {error: float(np.mean([held(error) for _ in range(repetitions)])) for error in ERROR_NAMES}


def found_apart(
    rng: np.random.Generator, pools: tuple[Pool, Pool], design: tuple[int, int], repetitions: int
) -> Shares:
    """Share of pairs of evaluations of the same problems whose verdict is "better" or "worse".

    This is the power for two pools that differ, and the size for a pool and itself, where A and B share no sample.
    """
    (first, second), (num_problems, k) = pools, design
    apart = dict.fromkeys(ERROR_NAMES, 0)
    for _ in range(repetitions):
        problems = choose(rng, first, num_problems, "these problems")
        if first is second:
            a, b = np.split(cut(rng, first, problems, 2 * k), 2, axis=1)
        else:
            a, b = cut(rng, first, problems, k), cut(rng, second, problems, k)
        for error in ERROR_NAMES:
            difference = paired_difference(a, b, error)
            (adjusted,) = holm([difference.p_value])
            apart[error] += verdict_on(difference, adjusted, margin=0.0) in ("better", "worse")
    return {error: count / repetitions for error, count in apart.items()}


def shared_luck(pool: Pool, design: tuple[int, int]) -> float:
    """Standard deviation that a share of covered evaluations gets from the samples that evaluations share.

    The errors of two evaluations are correlated by at most r = n k / (samples of the pool). Their being within ± q
    standard errors is then correlated through r^2 alone (the function is even; Mehler's expansion), with covariance
    r^2 (q phi(q))^2 * 2: r times 0.162 for q = 1.96. This holds where both tails miss equally often. Where one misses
    more, as with rare gains, a run whose overall mean deviates a little from its rates moves the share by a point.
    """
    q = 1.96
    phi = math.exp(-q * q / 2.0) / math.sqrt(2.0 * math.pi)
    return math.sqrt(2.0) * q * phi * design[0] * design[1] / pool.outcomes.size


def pipeline(
    folder: Path, repetitions: int, num_problems: int, num_samples: int, designs: list[tuple[int, int]]
) -> list[dict[str, Any]]:
    """All shares for every population and design."""
    rows = []
    for number, (name, population) in enumerate(PIPELINE_POPULATIONS.items()):
        rng = np.random.default_rng(2411 + number)
        rates = population(rng, num_problems)
        pools = (
            draw_pool(folder / f"{number}-a", rates, num_samples, seed=0),
            draw_pool(folder / f"{number}-b", better(rates), num_samples, seed=1),
        )
        for design in designs:
            found = {
                "coverage of avg@k": score_coverage(rng, pools[0], design, repetitions),
                "coverage of B - A": difference_coverage(rng, pools, design, repetitions),
                "size": found_apart(rng, (pools[0], pools[0]), design, repetitions),
                f"power for {100 * GAIN:g} points": found_apart(rng, pools, design, repetitions),
            }
            luck = shared_luck(pools[0], design)
            rows.append({"population": name, "design": design, "shared_luck": luck, **found})
            print(f"{name}, {design[0]} × {design[1]}: done", file=sys.stderr, flush=True)
    return rows


def _holds(found: Interval, truth: float) -> bool:
    return bool(found.low <= truth <= found.high)


def print_simulated(repetitions: int) -> None:
    """Print the table of the simulated populations."""
    rng = np.random.default_rng(2411)
    print(_header(["coverage: these", "like these", "size: these", "like these"]))
    for design in DESIGNS:
        for name, population in POPULATIONS.items():
            found = [*coverage(rng, population, design, repetitions), *size(rng, population, design, repetitions)]
            print(_line(design, name, found), flush=True)


def print_pipeline(rows: list[dict[str, Any]]) -> None:
    """Print the table of the whole pipeline's results."""
    measures = [(name, found) for name, found in rows[0].items() if isinstance(found, dict)]
    print(_header([f"{name}: {error}" for name, found in measures for error in found]))
    for row in rows:
        print(_line(row["design"], row["population"], [share for name, _ in measures for share in row[name].values()]))


def _header(names: list[str]) -> str:
    return "| problems × samples | population | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names)


def _line(design: tuple[int, int], population: str, shares: list[float]) -> str:
    return f"| {design[0]} × {design[1]} | {population} | " + " | ".join(f"{100 * x:.1f}" for x in shares) + " |"


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description="Coverage, size and power in percent.")
    parser.add_argument("--repetitions", type=int, default=1000, help="per population and design (default 1000)")
    parser.add_argument("--pipeline", action="store_true", help="draw, store, grade and read back what is evaluated")
    parser.add_argument("--problems", type=int, default=500, help="of each long run (default 500)")
    parser.add_argument("--samples", type=int, default=256, help="per problem of each long run (default 256)")
    parser.add_argument("--pairs", type=int, default=0, metavar="N", help="pairs of models, N data sets of each kind")
    parser.add_argument("--json", type=Path, help="also write what was measured here; the rest of the file stays")
    arguments = parser.parse_args()
    about = measured_with(("numpy", "scipy"))  # read first, because the checkout may change meanwhile
    facts: dict[str, Any] = {}
    if arguments.json is not None and arguments.json.exists():
        facts = json.loads(arguments.json.read_text(encoding="utf-8"))  # the part that is not measured now stays
    if arguments.pairs:
        pairs = all_pairs(arguments.pairs)
        print_pairs(pairs)
        facts["pairs"] = {"repetitions": arguments.pairs, "rows": pairs, **about}
    if arguments.pipeline:
        with tempfile.TemporaryDirectory() as folder:
            rows = pipeline(
                Path(folder), arguments.repetitions, arguments.problems, arguments.samples, PIPELINE_DESIGNS
            )
        print_pipeline(rows)
        pool = [arguments.problems, arguments.samples]
        facts |= {"repetitions": arguments.repetitions, "pool": pool, "rows": rows, **about}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    elif not facts:
        print_simulated(arguments.repetitions)


if __name__ == "__main__":
    main()
