"""The mechanism's figures: maps of how entropy ends, and curves of two ways in which it grows."""

import io
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from stapo_bench.presenting.figures.style import RC, read_look
from stapo_train.experiments.mechanism.maps import MAPS
from stapo_train.experiments.mechanism.study import LONGER, METHODS, TEMPERATURES, Runs, growth, of_seeds
from stapo_train.objectives import methods

CURVES = {"T 1.25 longer 2.0": "-", "useful": ":"}
"""Runs on the right, and their lines."""


def draw(runs: Runs) -> bytes:
    """SVG; the same runs give the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, RC))
        figure = Figure(figsize=(9.5, 3.0), layout="constrained")
        maps = figure.subplots(1, 3)
        for axis, method in zip(maps, METHODS, strict=False):
            names = [[f"{method} T {t} longer {longer}" for t in TEMPERATURES] for longer in LONGER]
            image = _heat(axis, runs, names, "entropy", 2)
            axis.set_xticks(range(len(TEMPERATURES)), [f"{t:g}" for t in TEMPERATURES])
            axis.set_yticks(range(len(LONGER)), [f"{longer:g}" for longer in LONGER])
            axis.set(
                title=methods()[method][0], xlabel="temperature of the rollouts", ylabel="successes' length, times"
            )
        figure.colorbar(image, ax=maps[:2], label="ln(entropy at end / at start)", shrink=0.9)
        for method in METHODS:
            label, look = methods()[method]
            for name, dash in CURVES.items():
                found = [run for (run,) in of_seeds(runs, [f"{method} {name}"])]
                if found:
                    curves = np.array([[record["entropy"] / run[0]["entropy"] for record in run] for run in found])
                    colour = read_look(label, look).colour
                    maps[2].plot(curves.mean(0), dash, color=colour, label=f"{label}, {name}")
                    maps[2].fill_between(
                        range(curves.shape[1]), curves.min(0), curves.max(0), color=colour, alpha=0.15, linewidth=0
                    )
        maps[2].set(xlabel="iteration", ylabel="entropy over that at the start", yscale="log")
        maps[2].set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
        maps[2].set_ylim(0.5, 7)
        if maps[2].lines:
            maps[2].legend(ncols=2, loc="upper left", handlelength=1.5)
        return _svg(figure)


def draw_maps(runs: Runs) -> bytes:
    """SVG of every phase diagram, a map in a row; black lines part what grows from what falls."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, RC))
        figure = Figure(figsize=(9.5, 2.5 * len(MAPS)), layout="constrained")
        for axes, each in zip(figure.subplots(len(MAPS), 3, squeeze=False), MAPS, strict=True):
            names = {panel: [[each.cell(panel, x, y) for x in each.xs] for y in each.ys] for panel in each.panels}
            ends = (_end(runs, name, each.number) for rows in names.values() for row in rows for name in row)
            most = min(2.0, max((abs(math.log(end)) for end in ends if end > 0), default=2.0))
            for axis, (panel, rows) in zip(axes, names.items(), strict=True):
                image = _heat(axis, runs, rows, each.number, most)
                axis.set_xticks(range(len(each.xs)), [f"{x:g}" for x in each.xs])
                axis.set_yticks(range(len(each.ys)), [f"{y:g}" for y in each.ys])
                axis.set(title=f"{each.code}: {panel}", xlabel=each.x, ylabel=each.y if axis is axes[0] else "")
            figure.colorbar(image, ax=axes, label=f"ln({each.number} at end / at start)", shrink=0.9)
        return _svg(figure)


def _heat(axis: Any, runs: Runs, names: Sequence[Sequence[str]], number: str, most: float) -> Any:
    """Cells coloured by ln(end / start), up to ``most``, with end / start in them, and lines where its sign changes."""
    cells = np.array([[_end(runs, name, number) for name in row] for row in names])
    image = axis.imshow(np.log(cells), cmap="RdBu_r", vmin=-most, vmax=most, origin="lower", aspect="auto")
    for row, column in np.ndindex(*cells.shape):
        ink = "white" if abs(math.log(cells[row, column])) > 0.6 * most else "black"
        told = "–" if math.isnan(cells[row, column]) else f"{cells[row, column]:.2f}"
        axis.text(column, row, told, ha="center", va="center", color=ink)
    signs = np.sign(np.log(cells))
    for row, column in zip(*np.nonzero(signs[1:] * signs[:-1] < 0), strict=True):
        axis.plot([column - 0.5, column + 0.5], [row + 0.5] * 2, color="black", linewidth=2)
    for row, column in zip(*np.nonzero(signs[:, 1:] * signs[:, :-1] < 0), strict=True):
        axis.plot([column + 0.5] * 2, [row - 0.5, row + 0.5], color="black", linewidth=2)
    axis.grid(False)
    return image


def _svg(figure: Any) -> bytes:
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()


def _end(runs: Runs, name: str, number: str) -> float:
    """Geometric mean over seeds of a number at the end over that at the start; NaN: no run."""
    found = of_seeds(runs, [name])
    return math.exp(np.mean([growth(number)(each) for each in found])) if found else math.nan
