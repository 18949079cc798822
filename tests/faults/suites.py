"""kill -9 of evaluations of the whole tiny suite, and of the six benchmarks' real problems where they can be had."""

import os
from functools import partial
from pathlib import Path
from random import Random

from tests.faults.bench import Bench, key_of, results, stored
from tests.faults.kills import KILLS, strike
from tests.faults.process import start
from tests.faults.trial import Fault, Trial, check, same

DATA = "STAPO_BENCH_DATA"
"""Environment variable of the commands too; the campaign keeps it from them."""
kept_data = os.environ.get(DATA)


def kill_suite(bench: Bench, rng: Random, folder: Path, *, suite: str) -> Trial:
    """Kill sampling, grading or scoring several times; the results then equal an uninterrupted evaluation's."""
    if suite == "paper" and not kept_data:
        return Trial(injected=0, note=f"not run: {DATA} names no folder with the problems")
    data = ("--data-dir", kept_data) if suite == "paper" else ()
    script = ("--engine", "scripted", "--ckpt", bench.script(), "--decoding", "justrl", "--max-new-tokens", 64)

    def evaluation(run: Path) -> list[object]:
        """The command line of an evaluation of two tasks."""
        return ["stapo-bench", "eval", *script, "--suite", suite, *data, "--out", run]

    whole, run, injected, lost = bench.root / suite / "run", folder / "run", 0, 0
    start(evaluation(whole), bench.outputs).succeed()
    for _ in range(KILLS):
        before = stored(run)
        injected += strike([start(evaluation(run), folder)], rng, 4.0)
        after = {key_of(row) for row in stored(run)}
        lost += sum(key_of(row) not in after for row in before)
    start(evaluation(run), folder).succeed()
    keys = [key_of(row) for row in stored(run)]
    check(len(keys) == len(set(keys)), f"{len(keys) - len(set(keys))} samples stand there twice")
    same(results(run), results(whole), "samples, grades, scores or table")
    return Trial(injected=injected, lost=lost, note=f"{len(keys)} samples")


FAULTS = tuple(
    Fault(name=f"kill -9 eval, {what}", unit="samples", trials=3, quick=0, inject=partial(kill_suite, suite=suite))
    for what, suite in (("the tiny suite", "tiny"), ("the real data", "paper"))
)
