"""Damage to files derived from the samples, and to a training's log: it is named, or has no effect.

``scores.json`` can always be made again: ``score`` rewrites it whatever it contains.
"""

import shutil
from functools import partial
from pathlib import Path
from random import Random

from tests.faults.bench import Bench
from tests.faults.damage import Damage, cut, flip, zero
from tests.faults.kills import check_whole
from tests.faults.process import start
from tests.faults.trial import Fault, Trial, check, same


def scores(bench: Bench, rng: Random, folder: Path, *, damage: Damage) -> Trial:
    """Print a table from damaged scores: the file is named, or the table is the same."""
    run = bench.copy(folder)
    file = run / "scores.json"
    file.write_bytes(changed(file.read_bytes(), rng, damage))
    table = start(["stapo-bench", "table", run], folder)
    if table.wait() == 0:
        same(table.out.strip(), (bench.whole / "table.md").read_text().strip(), "tables")
    else:
        check(file.name in (line := table.fail(1)), f"the damaged file is not named: {line}")
    start(["stapo-bench", "score", run, "--data-dir", bench.root], folder).succeed()
    check_whole(bench, run)
    return Trial()


def log(bench: Bench, rng: Random, folder: Path, *, damage: Damage) -> Trial:
    """Plot a finished training's damaged log: the file is named, or the figure is the same."""
    whole = bench.trained
    damaged = Path(shutil.copytree(whole, folder / whole.name))
    file = damaged / "metrics.jsonl"
    file.write_bytes(changed(file.read_bytes(), rng, damage))
    start(plot(whole, folder / "whole.svg"), folder).succeed()
    drawn = start(plot(damaged, folder / "damaged.svg"), folder)
    if drawn.wait() == 0:
        same((folder / "damaged.svg").read_bytes(), (folder / "whole.svg").read_bytes(), "figures")
    else:
        check(file.name in (line := drawn.fail(1)), f"the damaged file is not named: {line}")
    return Trial()


def plot(training: Path, figure: Path) -> list[object]:
    """The command line that plots a training's entropy."""
    return ["stapo-bench", "plot", "entropy", "--train", training, "-o", figure]


def changed(whole: bytes, rng: Random, damage: Damage) -> bytes:
    """The content after damage that changes something."""
    while (found := damage(whole, rng)) == whole:
        pass
    return found


FAULTS = tuple(
    Fault(
        name=f"{damage.__name__} {what}",
        unit=unit,
        trials=trials,
        quick=quick,
        inject=partial(inject, damage=damage),
    )
    for what, unit, inject, damage, trials, quick in (
        ("scores.json", "scores", scores, flip, 40, 1),
        ("scores.json", "scores", scores, cut, 5, 0),
        ("scores.json", "scores", scores, zero, 5, 0),
        ("a finished training's metrics.jsonl", "iterations", log, flip, 40, 0),
        ("a finished training's metrics.jsonl", "iterations", log, cut, 5, 0),
        ("a finished training's metrics.jsonl", "iterations", log, zero, 5, 0),
    )
)
