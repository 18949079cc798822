"""Which problems does which run solve? Success rates, problems × runs, easiest first."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stapo_bench.analysis import TaskScore
from stapo_bench.presenting.figures.groups import Named, by_setting, in_order
from stapo_bench.presenting.figures.layout import Layout, figure_of
from stapo_bench.presenting.figures.sources import Sources
from stapo_bench.presenting.figures.style import DOUBLE, SINGLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TALL, WIDE = 1200, 600
"""Approximate pixels of an image before it is fitted into the figure."""

Counts = Mapping[str, tuple[int, int]]
"""By problem: right and decided samples."""


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """One task under one way of decoding."""

    title: str
    decoding: str  # "" for the only one
    problems: tuple[str, ...]  # rows
    runs: tuple[str, ...]  # columns
    rates: NDArray[np.float64]  # [num_problems, num_runs] right / decided samples; NaN: none decided


def heat_maps(sources: Sources) -> list[HeatMap]:
    """A map per task and way of decoding; all maps of a task have its problems in the same order."""
    tasks = [task for score in sources.scores for task in score.tasks]
    orders = {name: easiest_first([t.counts for t in tasks if t.task == name]) for name in {t.task for t in tasks}}
    return [
        _heat_map(task, decoding, orders[task.task], in_order(group))
        for decoding, group in by_setting(sources.scores).items()
        for task in group[0].tasks  # runs of one group have the same tasks
    ]


def easiest_first(counts: Sequence[Counts]) -> tuple[str, ...]:
    """Problems by their mean success rate over the runs that have them; those that none has decided come last.

    >>> easiest_first([{"a": (0, 4), "b": (4, 4)}, {"a": (1, 4), "c": (2, 4), "d": (0, 0)}])
    ('b', 'c', 'a', 'd')
    """
    rates: dict[str, list[float]] = {}
    for of_run in counts:
        for problem, of_problem in of_run.items():
            rates.setdefault(problem, []).extend(rate for rate in [_rate(of_problem)] if not math.isnan(rate))
    mean = {problem: sum(found) / len(found) if found else -1.0 for problem, found in rates.items()}
    return tuple(sorted(mean, key=lambda problem: (-mean[problem], problem)))


def _heat_map(task: TaskScore, decoding: str, problems: tuple[str, ...], runs: Sequence[Named]) -> HeatMap:
    counts = [of_task.counts for run in runs for of_task in run.score.tasks if of_task.task == task.task]
    return HeatMap(
        title=task.title,
        decoding=decoding,
        problems=problems,
        runs=tuple(run.name for run in runs),
        rates=np.array([[_rate(of_run.get(problem, (0, 0))) for of_run in counts] for problem in problems]),
    )


def _rate(counts: tuple[int, int]) -> float:
    right, decided = counts
    return right / decided if decided else math.nan


def _enlarged(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """The image with every cell as a block: when scaled down it is averaged, not sampled, and keeps its edges."""
    num_problems, num_runs = rates.shape
    tall = np.repeat(rates, max(1, TALL // num_problems), axis=0)
    return np.repeat(tall, max(1, WIDE // num_runs), axis=1)


def layout_of(data: Sequence[HeatMap]) -> Layout:
    """A row of panels per way of decoding where all have the same tasks."""
    decodings = {heat_map.decoding for heat_map in data}
    columns = min(6, -(-len(data) // len(decodings)))
    rows = -(-len(data) // columns)
    letters = max(len(name) for heat_map in data for name in heat_map.runs)
    width = SINGLE if columns < 3 else DOUBLE
    return Layout(panels=len(data), columns=columns, width=width, height=rows * (1.9 + 0.055 * letters))


def draw(axes: Sequence["Axes"], data: Sequence[HeatMap]) -> None:
    """Draw all maps on one scale; a blank cell is not decided."""
    for ax, heat_map in zip(axes, data, strict=True):
        num_problems, num_runs = heat_map.rates.shape
        image = ax.imshow(
            _enlarged(heat_map.rates), vmin=0.0, vmax=1.0, cmap="cividis", aspect="auto",
            extent=(-0.5, num_runs - 0.5, num_problems + 0.5, 0.5),
        )  # fmt: skip
        ax.set_title(textwrap.fill(heat_map.title, 14), fontsize=7)
        ax.set_xticks(range(num_runs), heat_map.runs, rotation=90, fontsize=6.5)
        ax.set_yticks(sorted({1, num_problems}))
        ax.tick_params(length=0, pad=2)
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
        spec = ax.get_subplotspec()
        if spec is None or spec.is_first_col():
            ax.set_ylabel(f"{heat_map.decoding}\nproblems, easiest first".strip(), labelpad=1)
    bar = figure_of(axes).colorbar(image, ax=list(axes), location="top", shrink=0.4, fraction=0.03, pad=0.02, aspect=30)
    bar.set_ticks([0.0, 0.5, 1.0], labels=["0", "50", "100"])
    bar.set_label("right samples (%)")
    bar.outline.set_visible(False)
