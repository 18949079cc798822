"""Forest plot of every variant's difference from the reference: a point and two intervals, a panel per regime."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from stapo_bench.analysis import SeedComparison
from stapo_bench.presenting import signed
from stapo_bench.runs import write_result
from stapo_bench.statistics import SEED_ERRORS
from stapo_train.experiments.design import in_words
from stapo_train.experiments.findings import Findings
from stapo_train.experiments.section import Section


def differences(findings: Findings, folder: Path) -> Section:
    """The forest plot as a section, without the untrained model, whose distance would hide all other differences, and
    without variants identical to the reference."""
    reference = findings.experiment.reference
    untrained = findings.experiment.untrained
    left_out = {*untrained, *findings.same}
    shown = {
        decoding: [comparison for comparison in found if comparison.name_b not in left_out]
        for decoding, found in findings.comparisons.items()
    }
    if not any(shown.values()):
        return Section(text="")
    draw(shown, _labels(findings.experiment.variants), folder / "differences.svg")
    levels = [
        f"{found.name_b} ({in_words(decoding)}: {signed(found.effects[0].difference.value)})"
        for decoding, comparisons in findings.comparisons.items()
        for found in comparisons
        if found.name_b in untrained
    ]
    lines = [
        f"## Differences from {reference} in one figure",
        "",
        f"![Differences from {reference}](differences.svg)",
        "",
        f"Differences from {reference} in points of the average over tasks, 95 %, {len(findings.seeds)} seeds. "
        f"Thick: {SEED_ERRORS[0]}; thin: {SEED_ERRORS[1]}." + (f" Not shown: {', '.join(levels)}." if levels else ""),
    ]
    return Section(text="\n".join(lines))


def _labels(variants: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Variant -> the name of its objective in figures, which decides its colour."""
    from stapo_bench.presenting.figures.style import METHODS

    objectives = {
        variant: setting.removeprefix("objective.name=")
        for variant, own in variants.items()
        for setting in own
        if setting.startswith("objective.name=")
    }
    return {variant: METHODS[name].label for variant, name in objectives.items() if name in METHODS}


def draw(shown: Mapping[str, Sequence[SeedComparison]], labels: Mapping[str, str], path: Path) -> None:
    """Draw a panel per decoding regime, variants from the top in the experiment's order."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from stapo_bench.presenting.figures.seeds import BARS, draw_panel
    from stapo_bench.presenting.figures.style import DOUBLE, INK, RC

    names = [comparison.name_b for comparison in next(iter(shown.values()))]
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, RC))
        figure = Figure(figsize=(DOUBLE, 0.9 + 0.19 * len(names)), layout="constrained")
        axes = figure.subplots(1, len(shown), sharex=True, sharey=True, squeeze=False)[0]
        for ax, (decoding, comparisons) in zip(axes, shown.items(), strict=True):
            draw_panel(ax, comparisons, [labels.get(found.name_b, found.name_b) for found in comparisons])
            ax.set_title(in_words(decoding))
            ax.set_yticks(range(len(names)), names)
            ax.set_ylim(len(names) - 0.4, -0.6)
        keys = [Line2D([], [], color=INK, label=f"95 %, {name}", **bar) for name, bar in BARS.items()]
        figure.legend(handles=keys, loc="outside upper center", ncols=2)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Title": "Differences from the reference", "Date": None})
        write_result(path, drawn.getvalue())
