"""How figures look: sizes of a two-column paper, 8-point type, and one colour, marker and dash per method.

Which ones a method has stands with the method: in the trainer, whose list is read where the trainer is installed.

Colours are those of Okabe and Ito (2008), distinct for people with any kind of colour blindness, and a dark wine;
markers and dashes distinguish lines where there is no colour at all. Methods that are shown together have colours of
their own; those of one family share one and differ in marker and dash.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.plugins import load_offered, offered

SINGLE = 3.25
"""Inches: one column of a two-column page."""
DOUBLE = 6.75
"""Inches: both columns."""

INK = "#1b1b1b"
"""Text, axes and everything that is neither a method nor data; on a web page it takes the page's own text colour."""

ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY, WINE = (
    "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#8A8A8A", "#882255",
)  # fmt: skip

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same bytes on every machine
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "mathtext.fontset": "dejavusans",
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "patch.linewidth": 0.6,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.18,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.columnspacing": 1.2,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,  # TrueType: what conferences ask for; type 3 is refused by some
    "svg.fonttype": "path",
    "svg.hashsalt": "stapo-bench",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "axes.formatter.limits": (-5, 6),
}

Dash = str | tuple[int, tuple[float, ...]]

_COLOURS = {
    "orange": ORANGE, "sky": SKY, "green": GREEN, "blue": BLUE, "red": RED, "purple": PURPLE, "grey": GREY,
    "wine": WINE, "ink": INK,
}  # fmt: skip
_DASH_OF: dict[str, Dash] = {
    "solid": "-", "dashed": (0, (4, 1.4)), "dotted": (0, (1.2, 1.2)), "dash-dot": (0, (6, 1.4, 1.4, 1.4)),
    "dash-dot-dot": (0, (3, 1, 1, 1, 1, 1)),
}  # fmt: skip
_MARKER_OF = {
    "circle": "o", "square": "s", "triangle": "^", "diamond": "D", "triangle-down": "v", "plus": "P", "cross": "X",
}  # fmt: skip
_DASHES, _MARKERS = tuple(_DASH_OF.values()), tuple(_MARKER_OF.values())
_PALETTE = (SKY, GREEN, PURPLE, ORANGE, BLUE)
"""Colours of methods that state no look."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a line or a point is drawn."""

    colour: str
    marker: str
    dash: Dash


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method's label in tables (the trainer's own) and its look."""

    label: str
    look: Look


def read_look(label: str, text: str) -> Look:
    """``text`` names colour, marker and dash; empty: the label decides, whatever other methods are shown.

    >>> read_look("STAPO", "red circle solid")
    Look(colour='#D55E00', marker='o', dash='-')
    """
    if text:
        try:
            colour, marker, dash = text.split()
            return Look(colour=_COLOURS[colour], marker=_MARKER_OF[marker], dash=_DASH_OF[dash])
        except (ValueError, KeyError):
            words = ", ".join(" or ".join(known) for known in (_COLOURS, _MARKER_OF, _DASH_OF))
            raise StapoError(f"look of {label}: expected colour, marker and dash ({words}), got '{text}'") from None
    number = zlib.crc32(label.encode())
    return Look(
        colour=_PALETTE[number % len(_PALETTE)],
        marker=_MARKERS[number // 8 % len(_MARKERS)],
        dash=_DASHES[number // 64 % len(_DASHES)],
    )


GROUP = "stapo_bench.methods"
"""The entry points of functions that give methods' labels and looks by name; the trainer has one. The trainer depends
on the harness, never the reverse, so its methods come as any other package's do.
"""


def read_methods() -> Mapping[str, Method]:
    """The base model and the methods that packages offer, by name of the objective, in the order of legends."""
    known = {"base": ("Base", "grey triangle-down dotted")}
    for name, place in offered(GROUP).items():
        known |= load_offered(f"methods of {name}", place)()
    return {name: Method(label=label, look=read_look(label, text)) for name, (label, text) in known.items()}


METHODS = read_methods()

_BY_LABEL = {method.label.casefold(): (rank, method.look) for rank, method in enumerate(METHODS.values())}
_APART = (ORANGE, BLUE, GREEN, RED, SKY, PURPLE, INK, WINE, GREY)


def look(label: str, variant: int = 0) -> Look:
    """The look of a method by its label, fixed for good; ``variant`` distinguishes several lines of one method.

    >>> look("STAPO").colour == look("stapo", variant=1).colour, look("stapo").dash == look("stapo", variant=1).dash
    (True, False)
    """
    _, plain = _BY_LABEL.get(label.casefold()) or (None, read_look(label, ""))
    if variant == 0:
        return plain
    return Look(
        colour=plain.colour,
        marker=_MARKERS[(_MARKERS.index(plain.marker) + variant) % len(_MARKERS)],
        dash=_DASHES[(_DASHES.index(plain.dash) + variant) % len(_DASHES)],
    )


def look_apart(label: str, variant: int) -> Look:
    """The look of a variant where its method has a panel to itself: there colours are free to tell variants apart.

    The plain one keeps the method's look.

    >>> [look_apart("GRPO", variant).colour == look("GRPO").colour for variant in range(9)].count(True)
    1
    """
    first = _APART.index(look(label).colour)
    return replace(look(label, variant), colour=_APART[(first + variant) % len(_APART)])


def rank(label: str) -> tuple[int, str]:
    """Sorts methods as legends list them: the paper's first, others by name."""
    found = _BY_LABEL.get(label.casefold())
    return (len(METHODS), label) if found is None else (found[0], label)
