"""Panels of lines with bands or error bars: the kind of most figures over steps, limits and numbers of samples."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stapo_bench.presenting.figures.layout import (
    Layout,
    entry_width,
    grid,
    key_below,
    legend_above,
    legend_of_each,
    percent_axis,
)
from stapo_bench.presenting.figures.style import DOUBLE, INK, SINGLE, Look, look, look_apart, rank

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


_ALPHA = 0.18
"""Opacity of a band; less where many lie over each other."""

_VARIANTS = 4
"""Most variants of one method that dashes and markers in its colour can distinguish in a panel."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line; NaN is a gap. ``low`` and ``high`` are empty where its spread is not known."""

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
    x_label: str
    log_x: int = 0  # base of a logarithmic axis, with a tick per point; 0: linear


@dataclass(frozen=True, kw_only=True)
class Lines:
    """A figure of line panels. Scores stay fractions and are shown in percent."""

    panels: tuple[Panel, ...]
    y_label: str
    spread: str = ""  # what bands and bars are; "": there are none
    bars: bool = False  # error bars, for points that no path leads between
    log_from: float = 0.0  # lower end of a logarithmic y axis; 0: the axis is linear
    percent: bool = False
    share_y: bool = True  # within a row
    of_methods: bool = False  # each panel shows one method, its variants in colours and in a legend of their own


def by_method(data: Lines) -> Lines:
    """A panel per method where one comes in more variants than dashes and markers tell apart; else unchanged.

    Its title says the method, so a label says the rest alone.
    """
    found = [Counter(line.method for line in panel.lines) for panel in data.panels]
    if max((count for counts in found for count in counts.values()), default=0) <= _VARIANTS:
        return data
    panels = [
        replace(
            panel,
            title=f"{method}\n{panel.title}".strip(),
            lines=tuple(replace(line, label=_rest(line)) for line in panel.lines if line.method == method),
        )
        for method in sorted({method for counts in found for method in counts}, key=rank)
        for panel, counts in zip(data.panels, found, strict=True)
        if method in counts
    ]
    return replace(data, panels=tuple(panels), of_methods=True)


def _rest(line: Line) -> str:
    """What a label says besides the method; the method where it says nothing else."""
    rest = line.label.removeprefix(line.method).strip(" ,")
    return (rest[1:-1] if rest.startswith("(") and rest.endswith(")") else rest) or line.method


def layout_of(data: Lines) -> Layout:
    """One column for a single panel, unless its legend is long; else both."""
    if data.of_methods:
        return _layout_of_methods(data)
    layout = grid(len(data.panels), share_y=data.share_y)
    return replace(layout, width=DOUBLE) if max(len(panel.lines) for panel in data.panels) > 8 else layout


def _layout_of_methods(data: Lines) -> Layout:
    """A row per method where it has several panels, which then stand in columns; as wide as the legends need."""
    widest = max(entry_width(line.label) for panel in data.panels for line in panel.lines)
    num_panels = len(data.panels)
    per_method = max(Counter(panel.lines[0].method for panel in data.panels).values())
    columns = max(1, min(num_panels, int(DOUBLE / widest), per_method if per_method > 1 else 3))
    return Layout(
        panels=num_panels,
        columns=columns,
        width=SINGLE if num_panels == 1 and widest < SINGLE else DOUBLE,
        height=0.2 + 1.6 * math.ceil(num_panels / columns),
        share_y=data.share_y,
    )


def draw(axes: Sequence["Axes"], data: Lines) -> None:
    """Draw every panel, with one legend above all or one above each."""
    for ax, panel in zip(axes, data.panels, strict=True):
        for place, line in enumerate(panel.lines):
            style = look_apart(line.method, line.variant) if data.of_methods else look(line.method, line.variant)
            _draw_line(ax, line, place, style, bars=data.bars, alpha=min(_ALPHA, 0.7 / len(panel.lines)))
        ax.set_xlabel(panel.x_label)
        if panel.log_x:
            ax.set_xscale("log", base=panel.log_x)
            ticks = sorted({x for line in panel.lines for x in line.x})
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
        if data.log_from:
            ax.set_yscale("log")
            ax.set_ylim(bottom=data.log_from)
        if data.percent:
            percent_axis(ax.yaxis)
        spec = ax.get_subplotspec()
        if spec is None or spec.is_first_col():
            ax.set_ylabel(data.y_label)
    if data.of_methods:
        legend_of_each(axes, [panel.title for panel in data.panels])
    else:
        for ax, panel in zip(axes, data.panels, strict=True):
            ax.set_title(panel.title)
        legend_above(axes)
    if (key := _key_of_spread(data)) is not None:
        key_below(axes, key)


def _draw_line(ax: "Axes", line: Line, place: int, style: Look, *, bars: bool, alpha: float) -> None:
    ax.plot(
        line.x, line.y, label=line.label, color=style.colour, linestyle=style.dash, marker=style.marker,
        markevery=marked(line.y, place), clip_on=False, zorder=3,
    )  # fmt: skip
    if line.low and bars:
        away = np.abs(np.array([line.low, line.high]) - np.array(line.y))
        ax.errorbar(line.x, line.y, yerr=away, fmt="none", ecolor=style.colour, elinewidth=0.8, capsize=1.5, zorder=2)
    elif line.low:
        ax.fill_between(line.x, line.low, line.high, color=style.colour, alpha=alpha, linewidth=0, zorder=2)


def marked(y: Sequence[float], place: int) -> list[int]:
    """Points with a marker: some eight, to tell lines apart and hide none, and every point without a neighbour.

    >>> nan = float("nan")
    >>> marked([1.0] * 16 + [nan, 1.0, nan], place=0)
    [0, 3, 6, 9, 12, 15, 17, 18]
    """
    often = max(1, math.ceil(len(y) / 8))
    finite = [False, *(math.isfinite(value) for value in y), False]
    alone = {i - 1 for i in range(1, len(finite) - 1) if finite[i] and not (finite[i - 1] or finite[i + 1])}
    return sorted({*range(place * often // 4 % often, len(y), often), *alone})


def _key_of_spread(data: Lines) -> "Artist | None":
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if not data.spread:
        return None
    if data.bars:
        return Line2D([], [], color=INK, linewidth=0.8, label=f"bar: {data.spread}")
    return Patch(facecolor=INK, alpha=_ALPHA, linewidth=0, label=f"band: {data.spread}")


def mean_and_ends(
    values: Sequence[Sequence[float]],
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Mean, least and greatest over the rows [num_rows, n], NaN left out; the last two are empty for a single row.

    >>> mean_and_ends([[1.0, 2.0], [3.0, float("nan")]])
    ((2.0, 2.0), (1.0, 2.0), (3.0, 2.0))
    """
    table = np.ma.masked_invalid(np.array(values, dtype=np.float64))
    mean, least, most = (tuple(f(axis=0).filled(np.nan).tolist()) for f in (table.mean, table.min, table.max))
    return (mean, least, most) if len(values) > 1 else (mean, (), ())
