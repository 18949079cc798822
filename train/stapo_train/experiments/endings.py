"""Where entropy ends: one figure and one sentence for a page that has trainings and no evaluations."""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from stapo_bench.runs import write_result
from stapo_bench.statistics import LEVEL, Difference, holm, over_seeds
from stapo_train.experiments.findings import Findings
from stapo_train.experiments.section import Section, in_numbers
from stapo_train.inspect.stability import FACTOR, read_entropies, stability

BAND = 1.25
"""Last over first above which entropy has left its band: the criterion of stability-search's predictions."""


def verdict(findings: Findings, folder: Path) -> Section:
    """The page's one sentence; of a search, whose settings have a seed each, a figure too."""
    ends: dict[str, list[float]] = {}
    for training in findings.trainings:
        found = stability(read_entropies(training.folder))
        ends.setdefault(training.variant, []).append(found.end / found.start)
    if len(findings.seeds) > 1:
        return Section(answers=[_over_seeds(findings, ends)], text="")
    draw(ends, folder / "endings.svg")
    lines = [
        "![Where entropy ends](endings.svg)",
        "",
        "Where entropy ends: its last over its first value, as in the table below, one training each. Lines: collapse, "
        f"no change, {BAND:g} and explosion.",
    ]
    return Section(answers=[_of_a_search(ends)], text="\n".join(lines))


def _of_a_search(ends: Mapping[str, Sequence[float]]) -> str:
    """Which settings collapse, explode or leave the band, of one seed each."""
    last = {variant: values[0] for variant, values in ends.items()}
    parts = [
        f"{words} in {len(found)} of {len(last)} settings" + (f" ({'; '.join(found)})" if found else "")
        for words, found in (
            ("Entropy collapses", [v for v, end in last.items() if end < 1 / FACTOR]),
            ("explodes", [v for v, end in last.items() if end > FACTOR]),
            (f"ends above {BAND:g} of its start", [f"{v}: {end:.2f}" for v, end in last.items() if end > BAND]),
        )
    ]
    return f"{', '.join(parts[:-1])} and {parts[-1]}; one seed each, so that there are no intervals."


def _over_seeds(findings: Findings, ends: Mapping[str, Sequence[float]]) -> str:
    """Whether the reference's entropy grows, and which variants are told apart from it, by Holm over the variants."""
    reference = findings.experiment.reference
    growth = {variant: [math.log(end) for end in values] for variant, values in ends.items()}
    own = over_seeds([np.array(growth[reference])[:, None]], "seeds like these")
    grows = "grows" if own.interval().low > 0 else "falls" if own.interval().high < 0 else "is not seen to grow or fall"
    others = len(growth) - 1
    parts = [f"{reference}'s entropy {grows} (ln(last / first) {in_numbers(own)}, {len(growth[reference])} seeds)"]
    for name, values, more in (
        ("that growth", growth, ("above", "below")),
        ("entropy stability", findings.stabilities(), ("higher", "lower")),
        ("late reward", findings.late_rewards(), ("higher", "lower")),
    ):
        differences = {v: _paired(values[v], values[reference]) for v in values if v != reference}
        adjusted = holm([difference.p_value for difference in differences.values()])
        apart = [
            f"{variant} ({more[difference.value < 0]})"
            for (variant, difference), p in zip(differences.items(), adjusted, strict=True)
            if p < LEVEL
        ]
        parts.append(f"in {name} {', '.join(apart) or f'none of {others}'} is told apart from it")
    beside = {v: _paired(values, growth[reference]) for v, values in growth.items() if v != reference}
    alone = [f"{v} {in_numbers(d)}" for v, d in beside.items() if d.interval().low > 0 or d.interval().high < 0]
    by_itself = f" By itself, without Holm, growth differs for {', '.join(alone)}." if alone else ""
    return f"{'; '.join(parts)}.{by_itself}"


def _paired(values: Sequence[float], reference: Sequence[float]) -> Difference:
    return over_seeds([(np.array(values) - np.array(reference))[:, None]], "seeds like these")


def draw(ends: Mapping[str, Sequence[float]], path: Path) -> None:
    """A row for each setting, in the experiment's order from the top, on a logarithmic axis."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from stapo_bench.presenting.figures.style import DOUBLE, INK, RC

    names = list(ends)
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, RC))
        figure = Figure(figsize=(DOUBLE, 0.7 + 0.16 * len(names)), layout="constrained")
        ax = figure.subplots()
        for bound, style in ((1 / FACTOR, "--"), (1.0, "-"), (BAND, ":"), (FACTOR, "--")):
            ax.axvline(bound, color=INK, linewidth=0.6, linestyle=style, zorder=1)
        for place, name in enumerate(names):
            ax.plot(ends[name], [place] * len(ends[name]), marker="o", markersize=4, linestyle="none", color=INK)
        ax.set_xscale("log")
        ticks = (0.1, 1 / FACTOR, 0.5, 1.0, BAND, 2.0, FACTOR)
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.set_xlabel("entropy, last over first")
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.4, -0.6)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Title": "Where entropy ends", "Date": None})
        write_result(path, drawn.getvalue())
