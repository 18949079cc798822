"""Phase diagrams: whole runs over two settings at a time, and what is predicted of them.

A map's panels share its axes; a cell is one run per seed. The predictions are about means over cells, or the
difference of two such means with the same seeds.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np

from stapo_train.experiments.design import SEEDS
from stapo_train.experiments.mechanism.policy import Setting
from stapo_train.experiments.mechanism.study import BASE, SETTINGS, Case, Record, growth

MAP_SEEDS = (201, 202, 203, 204, 205)
"""Used here alone: what had been seen before the predictions was seen with others."""
UPDATES = 160
"""Of every run, however many of them an iteration has."""


@dataclass(frozen=True, kw_only=True)
class Map:
    """Panels over the same two axes."""

    code: str
    number: Literal["entropy", "tail"]  # what is shown, end over start
    x: str  # the axis in words
    xs: Sequence[float]
    y: str
    ys: Sequence[float]
    panels: Mapping[str, Setting]  # without what the axes set
    place: Callable[[Setting, float, float], Setting]  # a panel's setting at (x, y)

    def cell(self, panel: str, x: float, y: float) -> str:
        """The run's name."""
        return f"map {self.code}, {panel}: {self.x} {x:g}, {self.y} {y:g}"

    def cells(self) -> Iterator[tuple[str, Setting]]:
        """Every run."""
        for (panel, setting), y, x in product(self.panels.items(), self.ys, self.xs):
            yield self.cell(panel, x, y), self.place(setting, x, y)


def _updates(setting: Setting, lr: float, updates: float) -> Setting:
    return replace(setting, lr=lr, mini_batches=int(updates), iterations=UPDATES // int(updates))


def _clips(setting: Setting, high: float, low: float) -> Setting:
    return replace(setting, constants={"clip_high": high, "clip_low": low})


def _tail(setting: Setting, spurious: float, tail: float) -> Setting:
    return replace(setting, useful=1 - spurious, tail=tail)


def _groups(setting: Setting, success: float, group: float) -> Setting:
    return replace(setting, success=success, group=int(group), prompts=128 // int(group))


LABELS = {"grpo": "GRPO", "justrl": "JustRL", "stapo": "STAPO"}
_SHARED = replace(BASE, top=0.95, spill=0.5, prompts=8)
_CLIPPED = replace(_SHARED, lr=100.0, mini_batches=16, iterations=UPDATES // 16)
_ADAM = replace(BASE, optimizer="adam", lr=0.01)

MAPS: Sequence[Map] = (
    Map(
        code="L",
        number="entropy",
        x="learning rate",
        xs=(30, 100, 300),
        y="updates per iteration",
        ys=(1, 4, 16),
        panels={label: replace(_SHARED, objective=name) for name, label in LABELS.items()},
        place=_updates,
    ),
    Map(
        code="K",
        number="entropy",
        x="upper clip",
        xs=(0.1, 0.28, 0.6, 1.2),
        y="lower clip",
        ys=(0.1, 0.2, 0.4),
        panels={
            "JustRL": _CLIPPED,
            "STAPO": replace(_CLIPPED, objective="stapo"),
            "JustRL, nothing shared": replace(_CLIPPED, spill=0.0),
        },
        place=_clips,
    ),
    Map(
        code="R",
        number="entropy",
        x="spurious share of the tail",
        xs=(0, 0.33, 0.67, 1),
        y="tail mass",
        ys=(0.005, 0.02, 0.08),
        panels={label: replace(BASE, objective=name, effect=3.0) for name, label in LABELS.items()},
        place=_tail,
    ),
    Map(
        code="G",
        number="tail",
        x="success rate",
        xs=(0.1, 0.5, 0.9),
        y="group size",
        ys=(2, 4, 16),
        panels={
            "JustRL, Adam": _ADAM,
            "STAPO, Adam": replace(_ADAM, objective="stapo"),
            "JustRL, SGD": replace(BASE, lr=10.0),
        },
        place=_groups,
    ),
)
CELLS: Mapping[str, Setting] = {name: setting for each in MAPS for name, setting in each.cells()}
PLAN: Sequence[tuple[Sequence[int], Mapping[str, Setting]]] = ((SEEDS["fresh"], SETTINGS), (MAP_SEEDS, CELLS))
"""All runs: seeds, and the settings that each of them runs."""


def _mean(name: str, split: int) -> Callable[[list[Sequence[Record]]], float]:
    """Mean ln(end / start) over the runs from ``split`` on, less that over the runs before it, if any."""

    def of(runs: list[Sequence[Record]]) -> float:
        changes = [growth(name)([run]) for run in runs]
        return math.fsum(changes[split:]) / len(changes[split:]) - (float(np.mean(changes[:split])) if split else 0.0)

    return of


SEEN = frozenset({"L6", "K1", "K3", "K5", "K6", "R1", "R5", "G4"})
"""Cases whose question a case of ``study`` had, at one of the cells or near them."""
Places = Sequence[tuple[float, float]]


def _case(
    says: str,
    sign: Literal[-1, 0, 1],
    code: str,
    of: tuple[str, Places],
    against: tuple[str, Places] = ("", ()),
    *,
    number: str = "",
) -> Case:
    """A prediction about cells ``of`` (panel, places) of a map, or about them less those ``against``."""
    found = next(each for each in MAPS if each.code == code[0])
    first, second = ([found.cell(panel, x, y) for x, y in places] for panel, places in (against, of))
    return Case(code, says, [*first, *second], _mean(number or found.number, len(first)), sign, code in SEEN)


def _cases() -> Iterator[Case]:
    yield _case("one update per iteration, rate 100: JustRL's entropy grows", 1, "L1", ("JustRL", [(100, 1)]))
    yield _case("and more than at 30", 1, "L2", ("JustRL", [(100, 1)]), ("JustRL", [(30, 1)]))
    yield _case("GRPO's falls where steps reach the clip: 300 at 4 and 16", -1, "L3", ("GRPO", [(300, 4), (300, 16)]))
    yield _case("GRPO's, at 100: lower at 16 updates than at 1", -1, "L4", ("GRPO", [(100, 16)]), ("GRPO", [(100, 1)]))
    reached = [(300, 4), (300, 16)]
    yield _case("JustRL's is above GRPO's where steps reach the clip", 1, "L5", ("JustRL", reached), ("GRPO", reached))
    everywhere = list(product((30, 100, 300), (1, 4, 16)))
    yield _case("STAPO's is below JustRL's, mean of the map", -1, "L6", ("STAPO", everywhere), ("JustRL", everywhere))

    lows, highs = (0.1, 0.2, 0.4), (0.1, 0.28, 0.6, 1.2)
    wide, narrow = [(1.2, low) for low in lows], [(0.1, low) for low in lows]
    yield _case("entropy rises with the upper clip: 1.2 over 0.1", 1, "K1", ("JustRL", wide), ("JustRL", narrow))
    loose, tight = [(high, 0.4) for high in highs], [(high, 0.1) for high in highs]
    yield _case("and falls with the lower: 0.4 over 0.1", -1, "K2", ("JustRL", loose), ("JustRL", tight))
    inside = [(high, low) for high, low in product(highs, lows) if (1 + high) * (1 - low) < 0.97]
    outside = [(0.6, 0.1), (1.2, 0.1), (1.2, 0.2)]
    yield _case("JustRL's falls where (1 + high)(1 - low) is below 1", -1, "K3", ("JustRL", inside))
    yield _case("it grows where that is above 1.4", 1, "K4", ("JustRL", outside))
    yield _case("S2T takes from that growth", -1, "K5", ("STAPO", outside), ("JustRL", outside))
    yield _case("and all of it: STAPO's falls there", -1, "K6", ("STAPO", outside))
    yield _case(
        "nothing shared: at 1.2 the upper clip lets less grow",
        -1,
        "K7",
        ("JustRL, nothing shared", wide),
        ("JustRL", wide),
    )

    tails = (0.005, 0.02, 0.08)
    helps = list(product((0, 0.33, 0.67), tails))
    none, most, useless = ([(share, tail) for tail in tails] for share in (0, 0.67, 1))
    yield _case("GRPO's grows where some of the tail helps", 1, "R1", ("GRPO", helps))
    yield _case("less where more of it is spurious: 0.67 over 0", -1, "R2", ("JustRL", most), ("JustRL", none))
    yield _case("all helps: under STAPO the tail gains mass", 1, "R3", ("STAPO", none), number="tail")
    yield _case("0.67 is spurious: under STAPO it loses mass", -1, "R4", ("STAPO", most), number="tail")
    yield _case("all is spurious: STAPO's entropy falls", -1, "R5", ("STAPO", useless))
    yield _case("and more with more tail: 0.08 over 0.005", -1, "R6", ("STAPO", [(1, 0.08)]), ("STAPO", [(1, 0.005)]))

    rare, often = "JustRL, Adam", "JustRL, SGD"
    yield _case(
        "Adam, 0.9 succeed: groups of 16 gain more tail than of 2", 1, "G1", (rare, [(0.9, 16)]), (rare, [(0.9, 2)])
    )
    yield _case("0.1 succeed: they lose more", -1, "G2", (rare, [(0.1, 16)]), (rare, [(0.1, 2)]))
    yield _case("under SGD the group does not matter at 0.9", 0, "G3", (often, [(0.9, 16)]), (often, [(0.9, 2)]))
    yield _case(
        "STAPO's tail gains less there than JustRL's", -1, "G4", ("STAPO, Adam", [(0.9, 16)]), (rare, [(0.9, 16)])
    )
    yield _case("but gains, where positive signs are still 1.8 to 1", 1, "G5", ("STAPO, Adam", [(0.9, 16)]))


MAP_CASES: Sequence[Case] = list(_cases())
