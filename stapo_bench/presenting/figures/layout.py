"""Sizes of figures and the parts that every kind shares: panels, legends, axes in percent."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stapo_bench.presenting.figures.style import DOUBLE, SINGLE

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Panels in rows and columns; inches. Legends come on top of the height."""

    panels: int = 1
    columns: int = 1
    width: float = SINGLE
    height: float = 1.9
    share_y: bool = False  # within a row

    @property
    def rows(self) -> int:
        """Rows that the panels fill."""
        return math.ceil(self.panels / self.columns)


def grid(panels: int, *, share_y: bool = False, columns: int = 4) -> Layout:
    """One column of the page for one panel, else both; three panels in a row, or as many columns as are allowed.

    >>> grid(6).columns, grid(6).rows, grid(1).width
    (3, 2, 3.25)
    """
    if panels == 1:
        return Layout()
    columns = panels if panels <= columns else 3 if panels % 3 == 0 else columns
    rows = math.ceil(panels / columns)
    return Layout(panels=panels, columns=columns, width=DOUBLE, height=0.2 + 1.6 * rows, share_y=share_y)


def figure_of(axes: Sequence["Axes"]) -> "Figure":
    """The figure of its panels."""
    from matplotlib.figure import Figure

    figure = axes[0].figure
    assert isinstance(figure, Figure)
    return figure


def legend_above(axes: Sequence["Axes"]) -> None:
    """One legend for all panels, above them: it hides nothing."""
    handles: dict[str, Artist] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure = figure_of(axes)
    if handles:
        widest = max(handles, key=entry_width)
        columns = max(1, min(len(handles), int(figure.get_figwidth() / entry_width(widest))))
        rows = math.ceil(len(handles) / columns)
        columns = math.ceil(len(handles) / rows)  # rows of even length
        _grow(figure, rows)
        figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=columns)


def legend_of_each(axes: Sequence["Axes"], titles: Sequence[str]) -> None:
    """A legend above each panel, of its own lines and under its own title; labels may mean other lines elsewhere."""
    rows: dict[int, int] = {}
    for ax, title in zip(axes, titles, strict=True):
        found = ax.legend(
            title=title, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0, alignment="left",
            title_fontproperties={"weight": "bold", "size": 8},
        )  # fmt: skip
        spec = ax.get_subplotspec()
        row = 0 if spec is None else spec.rowspan.start
        rows[row] = max(rows.get(row, 0), len([*title.splitlines(), *found.get_texts()]))
    _grow(figure_of(axes), sum(rows.values()))


def key_below(axes: Sequence["Axes"], key: "Artist") -> None:
    """What a mark in all panels means, under them."""
    figure = figure_of(axes)
    _grow(figure, 1)
    figure.legend([key], [str(key.get_label())], loc="outside lower center")


def _grow(figure: "Figure", rows: int) -> None:
    """Rows of a legend are added to the height that the panels have."""
    figure.set_figheight(figure.get_figheight() + 0.05 + 0.155 * rows)


def entry_width(label: str) -> float:
    """Inches of a legend's entry: its handle, and letters as they are shown; of mathematics, the letters alone."""
    return 0.42 + 0.062 * len(label.replace("\\tau", "t").translate({ord(sign): None for sign in "$_{}\\"}))


def rows_of_names(ax: "Axes") -> None:
    """A y axis that names rows: neither a line, nor ticks, nor a grid."""
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")


def percent_axis(axis: "Axis") -> None:
    """Fractions, written as percent."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda fraction, _: f"{round(100 * fraction, 6):g}"))
