"""Figures: checkpoints with simultaneous bands, and the paper's leads beside what they have to exceed."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bench.reanalysis.paper import METHOD, TABLE
from stapo_bench.analysis import load_published, table_leads
from stapo_bench.statistics import ERROR_NAMES, half_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write(summary: Mapping[str, Any], out: Path) -> None:
    """``paper.svg``, and one figure of each data set with curves."""
    import matplotlib

    matplotlib.use("svg")
    settings = {"svg.hashsalt": "reanalysis", "svg.fonttype": "none", "font.size": 9}
    with matplotlib.rc_context(cast(Any, settings)):  # its stubs list every setting's name
        _save(_leads(), out / "paper.svg")
        for facts in summary["data_sets"]:
            if facts["curves"]:
                _save(_curves(facts["curves"]), out / f"{facts['name']}.svg")


def _save(figure: "Figure", path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})


def _leads() -> "Figure":
    """Every lead as a dot; grey: likely half-width, light grey: the worst case."""
    from matplotlib.figure import Figure

    leads = table_leads(load_published(TABLE), METHOD)
    figure = Figure(figsize=(10, 8.5), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, error in zip(axes, ERROR_NAMES, strict=True):
        for row, lead in enumerate(leads):
            found = lead.claims[error]
            for size, colour in ((found.worst, "#e4e4e4"), (found.largest, "#c0c0c0"), (found.smallest, "#8a8a8a")):
                width = 100 * half_width(size)
                axis.barh(row, 2 * width, left=-width, height=0.8, color=colour)
            weight = {"marker": "D", "s": 26} if lead.task == "average" else {"marker": "o", "s": 16}
            axis.scatter(100 * lead.value, row, color="#b3261e", zorder=3, **weight)
        axis.axvline(0.0, color="black", linewidth=0.8)
        axis.set(title=error, xlabel="points", xlim=(-12, 12))
        axis.spines[["top", "right"]].set_visible(False)
    names = [
        f"{lead.model.removeprefix('Qwen3-').removesuffix('-Base')} {lead.regime} {lead.task}, {lead.other}"
        for lead in leads
    ]
    axes[0].set_yticks(range(len(leads)), names, fontsize=7)
    axes[0].invert_yaxis()
    axes[0].margins(y=0.01)
    return figure


def _curves(curves: list[dict[str, Any]]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(curves), 3), layout="constrained")
    axes = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axis, curve in zip(axes, curves, strict=True):
        steps = [point["step"] for point in curve["points"]]
        low, high = ([100 * point["band"][end] for point in curve["points"]] for end in (0, 1))
        axis.fill_between(steps, low, high, color="#d9d9d9", label="95 % of all steps together")
        axis.plot(steps, [100 * point["gain"] for point in curve["points"]], color="#b3261e", marker="o", markersize=3)
        axis.axhline(0.0, color="black", linewidth=0.8)
        axis.set(title=curve["title"], xlabel="step")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("points over the first checkpoint")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside lower right")
    return figure
