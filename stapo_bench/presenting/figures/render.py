"""A figure as bytes: PDF, SVG and PNG, the same bytes for the same input, with the command that made it inside."""

import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from stapo_bench import __version__
from stapo_bench.errors import UsageError, safe_text
from stapo_bench.presenting.figures import lines
from stapo_bench.presenting.figures.registry import REGISTRY, Plot
from stapo_bench.presenting.figures.sources import MissingDataError, Sources
from stapo_bench.presenting.figures.style import INK, RC
from stapo_bench.runs import write_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")

_SETTINGS = threading.Lock()  # matplotlib's are the process's; a page may be served by several threads


def plot_named(name: str) -> Plot[Any]:
    """A plot of the registry; an unknown name is answered with all names."""
    if name not in REGISTRY:
        raise UsageError(f"unknown plot '{name}': expected one of {', '.join(REGISTRY)}")
    return REGISTRY[name]


def available(sources: Sources) -> list[str]:
    """Names of the plots for which the sources hold data."""
    return [name for name, plot in REGISTRY.items() if plot.lacks(sources) is None]


def render(name: str, sources: Sources, format_: str, command: str = "") -> bytes:
    """Draw a plot.

    Args:
        name: of the plot.
        sources: runs and logs.
        format_: pdf, svg or png.
        command: what made it; goes into the metadata with the caption.

    Raises:
        UsageError: an unknown name or format.
        MissingDataError: the sources lack what it shows.
    """
    _check_format(format_)
    return _rendered(*_read(name, sources), format_, command)


def format_of(path: Path) -> str:
    """The format that a file's ending says; UsageError where it is none of a figure."""
    format_ = path.suffix.removeprefix(".").lower()
    _check_format(format_)
    return format_


def _check_format(format_: str) -> None:
    if format_ not in FORMATS:
        raise UsageError(f"unknown format '{format_}' of a figure: expected {', '.join(FORMATS)}")


def _rendered(plot: Plot[Any], data: Any, format_: str, command: str) -> bytes:
    file = io.BytesIO()
    with _settings():
        _draw(plot, data).savefig(
            file, format=format_, transparent=format_ != "png", metadata=_metadata(format_, plot, command)
        )
    return file.getvalue()


def figure(name: str, sources: Sources) -> "Figure":
    """A plot as matplotlib's own object, to look into or to change."""
    plot, data = _read(name, sources)
    with _settings():
        return _draw(plot, data)


def save(name: str, sources: Sources, path: Path, command: str) -> None:
    """Draw a plot into a file, whose ending says the format."""
    content = render(name, sources, format_of(path), command)
    write_result(path, content)


def save_data(plot: Plot[Any], data: Any, path: Path, command: str) -> None:
    """Draw what comes from neither runs nor logs into a file, whose ending says the format."""
    write_result(path, _rendered(plot, data, format_of(path), command))


def save_lines(title: str, data: lines.Lines, path: Path, command: str) -> None:
    """``save_data`` for panels of lines that are no plot of the registry."""
    plot = Plot(
        title=title, lacks=lambda _: None, read=lambda _: data, layout=lines.layout_of, draw=lines.draw, note=""
    )
    save_data(plot, data, path, command)


def render_svg(name: str, sources: Sources) -> str:
    """A plot as an ``<svg>`` element to stand in a web page.

    Its text and axes take the page's text colour, its ids begin with the plot's name (several plots may stand in one
    page), its background is the page's, and its text is drawn as shapes: it looks the same everywhere.
    """
    text = render(name, sources, "svg").decode("utf-8")
    text = text[text.index("<svg") :]  # without the prolog of a file
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(rf"{INK}\b", "currentColor", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{plot_named(name).title}" ', 1)


def caption(name: str, sources: Sources) -> str:
    """What a paper would print below the plot."""
    plot = plot_named(name)
    return f"{plot.title}. {plot.note if isinstance(plot.note, str) else plot.note(_read(name, sources)[1])}"


def _read(name: str, sources: Sources) -> tuple[Plot[Any], Any]:
    plot = plot_named(name)
    if (missing := plot.lacks(sources)) is not None:
        raise MissingDataError(f"{name}: {missing}")
    return plot, plot.read(sources)


def _draw(plot: Plot[Any], data: Any) -> "Figure":
    from matplotlib.figure import Figure

    layout = plot.layout(data)
    figure = Figure(figsize=(layout.width, layout.height), layout="constrained")
    axes = figure.subplots(layout.rows, layout.columns, squeeze=False, sharey="row" if layout.share_y else False)
    for ax in axes.flat[layout.panels :]:
        ax.remove()
    plot.draw(list(axes.flat[: layout.panels]), data)
    _make_texts_safe(figure)
    return figure


def _make_texts_safe(figure: "Figure") -> None:
    """Show what cannot be seen in texts and labels of ticks, and dollar signs where they begin no formula."""
    from matplotlib.text import Text

    for artist in figure.findobj(Text):
        if isinstance(artist, Text):  # for the type checker: findobj says Artist
            artist.set_text(_drawable(artist.get_text()))
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            labels = [label.get_text() for label in axis.get_majorticklabels()]
            if labels != (drawable := [_drawable(label) for label in labels]):
                axis.set_ticks(axis.get_majorticklocs(), drawable)


def _drawable(text: str) -> str:
    from matplotlib.mathtext import MathTextParser

    text = safe_text(text, "terminal", lines=True)
    for line in text.split("\n") if "$" in text else ():
        try:
            MathTextParser("agg").parse(line)
        except ValueError:
            return text.replace("$", "\\$")
    return text


@contextmanager
def _settings() -> Iterator[None]:
    """matplotlib's own defaults and ours, whatever the user's matplotlibrc says; the process's come back afterwards."""
    import matplotlib as mpl

    with _SETTINGS, mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, RC))
        yield


def _metadata(format_: str, plot: Plot[Any], command: str) -> dict[str, Any]:
    """The file's metadata, without a date: the same input gives the same bytes."""
    maker, command = f"stapo-bench {__version__}", safe_text(command, "terminal")
    if format_ == "pdf":
        return {"Title": plot.title, "Subject": command, "Creator": maker, "CreationDate": None}
    if format_ == "svg":
        return {"Title": plot.title, "Description": command, "Creator": maker, "Date": None}
    return {"Title": plot.title, "Description": command, "Software": maker}
