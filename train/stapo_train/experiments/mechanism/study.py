"""The runs of the mechanism's page, and the predictions that they test: results/experiments/mechanism/predictions.md.

A case is a prediction about one number over seeds: a run's, or that of one run against another's with the same seed.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stapo_bench.statistics import UNDECIDED, Difference, over_seeds
from stapo_train.experiments.mechanism.policy import Setting

Record = Mapping[str, float]
Runs = Mapping[tuple[str, int], Sequence[Record]]
"""By the setting's name and the seed."""

BASE = Setting(contexts=16, vocabulary=400, iterations=40, lr=30.0)
TEMPERATURES, LONGER = (0.8, 1.0, 1.25), (0.5, 1.0, 2.0)
CLIPS = (0.2, 0.28, 0.6)
METHODS = ("justrl", "stapo")


def _settings() -> Iterator[tuple[str, Setting]]:
    for top in (0.4, 0.97):
        yield f"noise top {top}", replace(BASE, top=top, mini_batches=1, iterations=160)
    for method in METHODS:
        own = replace(BASE, objective=method)
        for temperature in TEMPERATURES:
            for longer in LONGER:
                yield (
                    f"{method} T {temperature} longer {longer}",
                    replace(own, temperature=temperature, longer=longer),
                )
        for success in (0.1, 0.9):
            yield f"{method} adam p {success}", replace(own, optimizer="adam", lr=0.01, success=success)
        yield f"{method} engine noise", replace(own, noise=1.0, longer=2.0)
        yield f"{method} useful", replace(own, useful=0.5, effect=2.0)
        yield f"{method} harmful", replace(own, harmful=0.5, effect=2.0)
        for clip in CLIPS:
            spilled = replace(own, lr=100.0, top=0.95, spill=0.5, mini_batches=16, iterations=10, prompts=8)
            yield f"{method} clip {clip}", replace(spilled, constants={"clip_high": clip})
        yield (
            f"{method} 151,936 tokens",
            replace(own, vocabulary=151_936, contexts=4, iterations=10, temperature=1.25, longer=2.0, prompts=8),
        )
    for success in (0.1, 0.9):
        yield f"justrl sgd p {success}", replace(BASE, lr=10.0, success=success)


SETTINGS: Mapping[str, Setting] = dict(_settings())


def growth(name: str) -> Callable[[list[Sequence[Record]]], float]:
    """ln of a number at a run's end over that at its start; of two runs, the second's less the first's."""

    def of(runs: list[Sequence[Record]]) -> float:
        changes = [math.log(run[-1][name] / run[0][name]) for run in runs]
        return changes[-1] - (changes[0] if len(changes) > 1 else 0.0)

    return of


def late_reward(runs: list[Sequence[Record]]) -> float:
    """The second run's reward less the first's, mean of the last ten iterations."""
    late = [float(np.mean([record["reward"] for record in run[-10:]])) for run in runs]
    return late[1] - late[0]


def selective(runs: list[Sequence[Record]]) -> float:
    """ln(harmful mass / tail mass), the second run's change less the first's: above 0, the harmful were spared."""
    one, two = (growth("harmful")([run]) - growth("tail")([run]) for run in runs)
    return two - one


@dataclass(frozen=True)
class Case:
    """A prediction."""

    code: str
    says: str
    runs: Sequence[str]  # names in SETTINGS
    number: Callable[[list[Sequence[Record]]], float]
    sign: Literal[-1, 0, 1]  # 0: not told from 0
    seen: bool  # explored on other seeds, or at settings near by, before it was written down


def _cases() -> Iterator[Case]:
    entropy, tail = growth("entropy"), growth("tail")
    grows = {-1: "falls", 1: "grows"}

    yield Case("N1", "noise alone: entropy falls where no token is likely", ["noise top 0.4"], entropy, -1, True)
    yield Case("N2", "noise alone: entropy grows where one token is likely", ["noise top 0.97"], entropy, 1, True)
    for number, (t, longer, seen) in enumerate(
        [(1.25, 2.0, True), (1.25, 0.5, True), (0.8, 2.0, False), (0.8, 0.5, False)], start=1
    ):
        sign: Literal[-1, 1] = 1 if (t > 1) == (longer > 1) else -1
        words = f"rollouts at T {t}, successes {longer:g} times as long: entropy {grows[sign]}"
        yield Case(f"T{number}", words, [f"justrl T {t} longer {longer}"], entropy, sign, seen)
    noisy = [f"{method} engine noise" for method in METHODS]
    yield Case("M1", "an engine off by 1 nat, successes 2 times as long: entropy grows", noisy[:1], entropy, 1, True)
    yield Case("M2", "and STAPO's less", noisy, entropy, -1, True)
    one, other = "justrl T 1.25 longer 2.0", "stapo T 1.25 longer 2.0"
    yield Case("S1", "S2T holds part of T1's growth: STAPO's is less", [one, other], entropy, -1, True)
    yield Case("S2", "and only part: STAPO's entropy grows too", [other], entropy, 1, True)
    on, off = "justrl T 1.0 longer 1.0", "stapo T 1.0 longer 1.0"
    yield Case("S3", "where nothing makes entropy grow S2T lowers it further", [on, off], entropy, -1, True)
    yield Case("A1", "Adam, 1 in 10 succeeds: the tail loses mass", ["justrl adam p 0.1"], tail, -1, True)
    yield Case("A2", "Adam, 9 in 10 succeed: the tail gains mass", ["justrl adam p 0.9"], tail, 1, True)
    yield Case("A3", "STAPO's tail loses mass there", ["stapo adam p 0.9"], tail, -1, True)
    yield Case("A4", "under SGD it does not matter", ["justrl sgd p 0.1", "justrl sgd p 0.9"], tail, 0, False)
    pair = ["justrl useful", "stapo useful"]
    yield Case("U1", "rare tokens that help: JustRL's entropy grows", pair[:1], entropy, 1, True)
    yield Case("U2", "S2T stops them: STAPO's useful mass grows less", pair, growth("useful"), -1, True)
    yield Case("U3", "and its reward stays lower", pair, late_reward, -1, True)
    bad = ["justrl harmful", "stapo harmful"]
    yield Case("H1", "rare tokens that harm: JustRL's entropy falls", bad[:1], entropy, -1, True)
    yield Case("H2", "S2T spares them: in successes they are rarer than the harmless", bad, selective, 1, True)
    steps = [f"justrl clip {clip}" for clip in CLIPS]
    yield Case("C1", "a higher upper clip means more entropy: 0.28 over 0.2", steps[:2], entropy, 1, True)
    yield Case("C2", "0.6 over 0.28", steps[1:], entropy, 1, True)
    yield Case("C3", "at 0.2 entropy falls", steps[:1], entropy, -1, True)
    yield Case("C4", "at 0.6 it grows", steps[2:], entropy, 1, True)
    yield Case("C5", "S2T holds what the clip of 0.6 lets grow", [steps[2], "stapo clip 0.6"], entropy, -1, False)
    wide = [f"{method} 151,936 tokens" for method in METHODS]
    yield Case("V1", "T 1.25, twice as long, at 151,936 tokens: entropy grows", wide[:1], entropy, 1, False)
    yield Case("V2", "and STAPO's less", wide, entropy, -1, False)


CASES: Sequence[Case] = list(_cases())


def judge(case: Case, runs: Runs) -> tuple[Difference, str]:
    """The case's number over the seeds whose runs are there, and what became of the prediction.

    Refuted: the 95 % interval lies on the other side of 0 or, where no difference was predicted, on either.
    """
    values = np.array([case.number(found) for found in of_seeds(runs, case.runs)])
    if len(values) < 2:
        return UNDECIDED, "not run"
    found = over_seeds([values[:, None]], "seeds like these")
    ends = found.interval()
    seen = 1 if ends.low > 0 else -1 if ends.high < 0 else 0
    if seen == case.sign:
        return found, "as predicted" if case.sign else "not told from 0, as predicted"
    return found, "**refuted**" if seen else "not told from 0"


def of_seeds(runs: Runs, names: Sequence[str]) -> list[list[Sequence[Record]]]:
    """The runs of these names, seed by seed, of the seeds that have all of them."""
    seeds = sorted(seed for name, seed in runs if name == names[0])
    return [[runs[name, seed] for name in names] for seed in seeds if all((name, seed) in runs for name in names)]
