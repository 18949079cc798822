"""Panels of lines with bands: the kind of most figures over steps, limits and numbers of samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stapo_bench.figures.layout import Layout, grid, legend_above, percent_axis
from stapo_bench.figures.style import INK, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line; NaN is a gap. Without a band ``low`` and ``high`` are empty."""

    label: str
    method: str  # decides the look
    variant: int = 0
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Lines in one pair of axes; an empty title for the only panel."""

    title: str = ""
    lines: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """A figure of line panels. Scores stay fractions and are shown in percent."""

    panels: tuple[Panel, ...]
    x_label: str
    y_label: str
    band: str = ""  # what the bands are; "": there are none
    log_x: bool = False  # base 2
    log_y: bool = False
    percent: bool = False
    share_y: bool = True  # panels show the same quantity


def layout_of(data: Lines) -> Layout:
    """One column for a single panel, else both."""
    return grid(len(data.panels), share_y=data.share_y)


def draw(axes: Sequence["Axes"], data: Lines) -> None:
    """Every panel, one legend above all."""
    for ax, panel in zip(axes, data.panels, strict=True):
        for place, line in enumerate(panel.lines):
            _draw_line(ax, line, place)
        ax.set_title(panel.title)
        if data.log_x:
            ax.set_xscale("log", base=2)
            ticks = sorted({x for line in panel.lines for x in line.x})
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
        if data.log_y:
            ax.set_yscale("log")
        if data.percent:
            percent_axis(ax.yaxis)
        ax.set_xlabel(data.x_label)
        spec = ax.get_subplotspec()
        if spec is None or spec.is_first_col():
            ax.set_ylabel(data.y_label)
    legend_above(axes, _band_handle(data.band))


def _draw_line(ax: "Axes", line: Line, place: int) -> None:
    style = look(line.method, line.variant)
    often = max(1, math.ceil(len(line.x) / 8))  # enough markers to tell lines apart, none to hide them
    ax.plot(
        line.x, line.y, label=line.label, color=style.colour, linestyle=style.dash, marker=style.marker,
        markevery=(place * often // 4 % often, often), clip_on=False, zorder=3,
    )  # fmt: skip
    if line.low:
        ax.fill_between(line.x, line.low, line.high, color=style.colour, alpha=0.18, linewidth=0, zorder=2)


def _band_handle(band: str) -> "Patch | None":
    from matplotlib.patches import Patch

    return Patch(facecolor=INK, alpha=0.18, linewidth=0, label=f"band: {band}") if band else None


def spread(values: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Mean, least and greatest over the rows [num_rows, n], NaN left out; the last two are empty for a single row.

    >>> spread([[1.0, 2.0], [3.0, float("nan")]])
    ((2.0, 2.0), (1.0, 2.0), (3.0, 2.0))
    """
    table = np.ma.masked_invalid(np.array(values, dtype=np.float64))
    mean, least, most = (tuple(f(axis=0).filled(np.nan).tolist()) for f in (table.mean, table.min, table.max))
    return (mean, least, most) if len(values) > 1 else (mean, (), ())
