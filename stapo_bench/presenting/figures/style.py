"""How figures look: sizes of a two-column paper, 8-point type, and one colour, marker and dash per method.

Colours are those of Okabe and Ito (2008), told apart by people with any kind of colour blindness, and a dark wine;
markers and dashes tell lines apart where there is no colour at all. Methods that are shown together have colours of
their own; those of one family share one and differ in marker and dash.
"""

import zlib
from dataclasses import dataclass, replace
from typing import Any

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

_DASHES: tuple[Dash, ...] = (
    "-", (0, (4, 1.4)), (0, (1.2, 1.2)), (0, (6, 1.4, 1.4, 1.4)), (0, (3, 1, 1, 1, 1, 1)),
)  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


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


def _method(label: str, colour: str, marker: int, dash: int) -> Method:
    return Method(label=label, look=Look(colour=colour, marker=_MARKERS[marker], dash=_DASHES[dash]))


METHODS: dict[str, Method] = {
    "base": _method("Base", GREY, 4, 2),
    "grpo": _method("GRPO", ORANGE, 1, 1),
    "20-entropy": _method("20-Entropy", PURPLE, 2, 3),
    "justrl": _method("JustRL", BLUE, 3, 4),
    "stapo": _method("STAPO", RED, 0, 0),
    "stapo-old": _method("STAPO (v1-v3)", RED, 5, 2),
    "random-mask": _method("Random mask", SKY, 6, 2),
    "high-entropy-mask": _method("High-entropy mask", GREEN, 5, 1),
    "full-mask": _method("Full mask", INK, 4, 3),
    "stapo-micro-batch": _method("STAPO per micro-batch", RED, 3, 4),
    "dapo": _method("DAPO", SKY, 4, 0),
    "ar": _method("AR", GREEN, 6, 4),
    "lopti": _method("Lopti", INK, 5, 1),
    "stare": _method("STARE", WINE, 1, 3),
    "lp-reg": _method("Lp-Reg", BLUE, 2, 0),
    "kl-cov": _method("KL-Cov", BLUE, 1, 1),
    "clip-cov": _method("Clip-Cov", BLUE, 4, 2),
    "dr-grpo": _method("Dr. GRPO", ORANGE, 5, 2),
    "gspo": _method("GSPO", GREEN, 1, 0),
    "cispo": _method("CISPO", GREEN, 2, 2),
    "sapo": _method("SAPO", GREEN, 3, 3),
}
"""By the name of the objective, in the order of legends."""

_BY_LABEL = {method.label.casefold(): (rank, method.look) for rank, method in enumerate(METHODS.values())}
_PALETTE = (SKY, GREEN, PURPLE, ORANGE, BLUE)
_APART = (ORANGE, BLUE, GREEN, RED, SKY, PURPLE, INK, WINE, GREY)


def look(label: str, variant: int = 0) -> Look:
    """The look of a method by its label, fixed for good; ``variant`` tells several lines of one method apart.

    >>> look("STAPO").colour == look("stapo", variant=1).colour, look("stapo").dash == look("stapo", variant=1).dash
    (True, False)
    """
    found = _BY_LABEL.get(label.casefold())
    if found is None:  # a method that is not ours: its name decides, not the company it is in
        number = zlib.crc32(label.encode())
        plain = Look(
            colour=_PALETTE[number % len(_PALETTE)],
            marker=_MARKERS[number // 8 % len(_MARKERS)],
            dash=_DASHES[number // 64 % len(_DASHES)],
        )
    else:
        plain = found[1]
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
