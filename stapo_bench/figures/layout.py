"""Sizes of figures and the parts that every kind shares: panels, legends, axes in percent."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stapo_bench.figures.style import DOUBLE, SINGLE

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


def legend_above(axes: Sequence["Axes"], below: "Artist | None" = None) -> None:
    """One legend for all panels, above them: it hides nothing. ``below``: a key of its own, under the panels."""
    handles: dict[str, Artist] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure = figure_of(axes)
    if handles:
        widest = max(_length(label) for label in handles)
        room = figure.get_figwidth() / (0.42 + 0.062 * widest)  # inches of a handle and of a letter
        columns = max(1, min(len(handles), int(room)))
        rows = math.ceil(len(handles) / columns)
        columns = math.ceil(len(handles) / rows)  # rows of even length
        _grow(figure, rows)
        figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=columns)
    if below is not None:
        _grow(figure, 1)
        figure.legend([below], [str(below.get_label())], loc="outside lower center")


def _grow(figure: "Figure", rows: int) -> None:
    """Rows of a legend are added to the height that the panels have."""
    figure.set_figheight(figure.get_figheight() + 0.05 + 0.155 * rows)


def _length(label: str) -> int:
    """Letters as they are shown: of mathematics, the letters alone."""
    return len(label.replace("\\tau", "t").translate({ord(sign): None for sign in "$_{}\\"}))


def percent_axis(axis: "Axis") -> None:
    """Fractions, written as percent."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda fraction, _: f"{round(100 * fraction, 6):g}"))
