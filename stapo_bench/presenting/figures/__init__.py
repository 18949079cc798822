"""Figures from runs and training logs, in the paper's kinds.

    sources = Sources(runs=[Path("results/stapo")], logs=[Path("runs/stapo")])
    for name in available(sources):
        page += render_svg(name, sources)

``stapo-bench plot`` writes them as PDF, SVG and PNG. matplotlib is loaded when something is drawn, not before.
"""

from stapo_bench.presenting.figures.compared import save_comparison
from stapo_bench.presenting.figures.registry import REGISTRY
from stapo_bench.presenting.figures.render import FORMATS, available, caption, format_of, render, render_svg, save
from stapo_bench.presenting.figures.sources import MissingDataError, Sources

__all__ = [
    "FORMATS",
    "TITLES",
    "MissingDataError",
    "Sources",
    "available",
    "caption",
    "format_of",
    "render",
    "render_svg",
    "save",
    "save_comparison",
]

TITLES: dict[str, str] = {name: plot.title for name, plot in REGISTRY.items()}
"""Name of a plot to its title, in the order of a report."""
