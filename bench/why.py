#!/usr/bin/env python3
"""Does ``why`` find what was planted? Pairs of runs of one simulated model that differ in one cause, or in nothing.

    python -m bench.why --pairs 100 --json results/bench/why.json     # two minutes of one core

Every pair is two run folders of 30 problems × 16 samples, written as an evaluation leaves them. A cause is found where
it is the largest part that is told apart from 0; with nothing planted, where the rest is sampling noise and nothing
else is told. ``size`` is the mean gap that a cause makes, in points.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stapo_bench.analysis import score_run, why_runs
from stapo_bench.records import Grade, Outcome, Sample, SampleKey, SamplingParams
from stapo_bench.runs import (
    About,
    AskedTask,
    Identity,
    Manifest,
    SegmentWriter,
    TaskIdentity,
    append_grades,
    measured_with,
    write_manifest,
)
from stapo_bench.seeds import derive_seed

PROBLEMS, SAMPLES = 30, 16


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How one run of the model is made."""

    seed: int
    limit: int = 8192
    temperature: float = 0.7
    prompts: str = "p"
    shift: float = 0.0  # of the model's logits, under this prompt and decoding
    hardest: int = 0  # problems left out, hardest first
    wrong_golds: int = 0  # problems whose gold is another answer
    graders: tuple[str, ...] = ("math",)  # that graded it; the number rests on the last


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One sample of the model."""

    key: SampleKey
    answer: str | None  # None: cut off before
    is_right: bool
    tokens: int


def draw(rng: np.random.Generator, rates: NDArray[np.float64], lengths: NDArray[np.float64], how: Setup) -> list[Draw]:
    """Right answers in two forms (a fifth as ``r.0``), wrong ones out of eight; longer ones are right less often."""
    draws = []
    for i in range(how.hardest, len(rates)):
        rate = 1.0 / (1.0 + np.exp(-(np.log(rates[i] / (1.0 - rates[i])) + how.shift)))
        for j in range(SAMPLES):
            is_right = bool(rng.random() < rate)
            tokens = int(lengths[i] * np.exp(rng.normal(0.0 if is_right else 0.2, 0.5)))
            answer = f"r{i}" + ".0" * bool(rng.random() < 0.2) if is_right else f"w{i}-{int(rng.geometric(0.4)) % 8}"
            cut = tokens > how.limit
            key = SampleKey("t", f"p{i}", j)
            draws.append(
                Draw(key=key, answer=None if cut else answer, is_right=is_right, tokens=min(tokens, how.limit))
            )
    return draws


def grade(sample: Draw, grader: str, how: Setup) -> Grade:
    """``strict`` takes the short form alone; a wrong gold takes the most frequent wrong answer."""
    if sample.answer is None:
        return Grade(outcome=Outcome.NO_ANSWER, extracted=None)
    number = int(sample.key.problem_id[1:])
    gold = f"w{number}-1" if number >= PROBLEMS - how.wrong_golds else f"r{number}"
    accepted = {gold} if grader == "strict" else {gold, f"{gold}.0"}
    outcome = Outcome.CORRECT if sample.answer in accepted else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=sample.answer)


def write(folder: Path, samples: Iterable[Draw], how: Setup) -> Path:
    """A run folder as an evaluation and its graders leave it."""
    samples = list(samples)
    ids = tuple(f"p{i}" for i in range(how.hardest, PROBLEMS))
    identity = Identity(
        checkpoint_digest="model",
        tasks={"t": TaskIdentity(data=f"d{how.wrong_golds}", prompts=how.prompts, prompt_format="chat")},
        sampling=SamplingParams(temperature=how.temperature, top_p=0.9, max_new_tokens=how.limit),
        seed=how.seed,
        engine={"engine": "simulated"},
    )
    about = About(tasks={"t": AskedTask(title="T", problem_ids=ids, num_samples=SAMPLES)}, model="model")
    folder.mkdir(parents=True)
    write_manifest(Manifest(run_dir=folder, identity=identity, about=about))
    with SegmentWriter(folder, "all") as writer:
        for sample in samples:
            writer.append(
                Sample(
                    **sample.key._asdict(),
                    seed=derive_seed(how.seed, *sample.key),
                    completion=f"{sample.answer} {sample.tokens}",
                    num_tokens=sample.tokens,
                    finish_reason="length" if sample.answer is None else "stop",
                )
            )
    for grader in how.graders:
        append_grades(folder, grader, f"{grader}-1", ((sample.key, grade(sample, grader, how)) for sample in samples))
    score_run(folder, how.graders[-1])
    return folder


Plant = Callable[[np.random.Generator, Setup], Setup]

CAUSES: dict[str, Plant] = {
    "sampling noise": lambda _rng, how: how,
    "grader": lambda rng, how: replace(how, graders=("math", "strict") if rng.random() < 0.5 else ("strict",)),
    "golds": lambda rng, how: replace(how, wrong_golds=int(rng.integers(4, 8))),
    "truncation": lambda rng, how: replace(how, limit=int(rng.integers(1500, 2500))),
    "prompt": lambda rng, how: replace(how, prompts="q", shift=float(rng.choice([-0.9, 0.9]))),
    "decoding": lambda rng, how: replace(how, temperature=1.0, shift=float(rng.choice([-0.9, 0.9]))),
    "problems": lambda rng, how: replace(how, hardest=int(rng.integers(5, 9))),
}
"""What makes the second run of a pair another one."""


def pair(rng: np.random.Generator, cause: str, folder: Path) -> tuple[Path, Path]:
    """Two runs of one model, the second with the cause."""
    rates = np.sort(np.clip(rng.beta(0.8, 0.8, PROBLEMS), 0.02, 0.98))
    lengths = np.exp(rng.normal(7.2, 0.5, PROBLEMS))
    first, second = Setup(seed=0), CAUSES[cause](rng, Setup(seed=1))
    runs = [write(folder / name, draw(rng, rates, lengths, how), how) for name, how in (("a", first), ("b", second))]
    return runs[0], runs[1]


def found(runs: tuple[Path, Path]) -> tuple[str, float, float]:
    """The main cause, the gap, and by how much the parts miss it."""
    gap = why_runs(*runs).average
    return gap.main.cause, gap.gap, abs(sum(part.value for part in gap.parts) - gap.gap)


def measure(num_pairs: int) -> dict[str, Any]:
    """By cause: pairs, how many were found, what was said instead, and the mean size of the gap."""
    rng, rows = np.random.default_rng(0), {cause: {"pairs": 0, "found": 0, "size": 0.0} for cause in CAUSES}
    instead: dict[str, list[str]] = {}
    largest_error = 0.0
    for number in range(num_pairs):
        cause = list(CAUSES)[number % len(CAUSES)]
        with tempfile.TemporaryDirectory() as folder:
            said, gap, error = found(pair(rng, cause, Path(folder)))
        row = rows[cause]
        row["pairs"] += 1
        row["found"] += said == cause
        row["size"] += 100 * abs(gap)
        largest_error = max(largest_error, error)
        if said != cause:
            instead.setdefault(cause, []).append(said)
    for row in rows.values():
        row["size"] = round(row["size"] / max(1, row["pairs"]), 1)
    total = sum(int(row["found"]) for row in rows.values())
    return {"pairs": num_pairs, "found": total, "causes": rows, "instead": instead, "largest_error": largest_error}


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = measure(arguments.pairs)
    for cause, row in result["causes"].items():
        print(f"{cause:15} {row['found']:3} of {row['pairs']:3} found, {row['size']:5.1f} points on average")
    print(f"{result['found']} of {result['pairs']} found; otherwise: {result['instead'] or 'nothing'}")
    if arguments.json:
        record = {"command": f"python -m bench.why --pairs {arguments.pairs}", **result, **measured_with(["numpy"])}
        arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
