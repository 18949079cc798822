"""Lines over the iterations of training: reward, entropy and its quantiles, response length, masked-token ratio."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stapo_bench.figures.lines import Line, Lines, Panel, mean_and_ends
from stapo_bench.figures.sources import Sources, Training
from stapo_bench.figures.style import rank

_SEEDS = "min–max over seeds"
SYMBOLS = {"tau_p": r"$\tau_p$", "q": "$q$"}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """The seeds of one setting."""

    label: str
    method: str
    variant: int  # among the experiments of its method
    members: tuple[Training, ...]


def experiments(trainings: Sequence[Training]) -> list[Experiment]:
    """Trainings that differ in nothing but the seed are one experiment; the label says what sets it apart."""
    groups: dict[str, list[Training]] = {}
    for training in trainings:
        groups.setdefault(training.settings(), []).append(training)
    found: list[Experiment] = []
    for members in sorted(groups.values(), key=lambda group: rank(group[0].method)):
        first = members[0]
        settings = ", ".join(
            f"{SYMBOLS.get(k, k)}={v:g}" if isinstance(v, float | int) else f"{k}={v}"
            for k, v in sorted(first.objective.items())
            if k != "name"
        )
        found.append(
            Experiment(
                label=f"{first.method} ({settings})" if settings else first.method,
                method=first.method,
                variant=sum(other.method == first.method for other in found),
                members=tuple(members),
            )
        )
    labels = [experiment.label for experiment in found]
    return [
        replace(e, label=f"{e.label}, {e.members[0].folder.name}") if labels.count(e.label) > 1 else e for e in found
    ]


def column_lines(trainings: Sequence[Training], *names: str) -> tuple[Line, ...]:
    """A line per experiment: the mean over its seeds, over the iterations that all of them have."""
    lines = []
    for experiment in experiments(trainings):
        tables = [dict(zip(t.iterations, t.column(*names), strict=True)) for t in experiment.members]
        steps = sorted(set.intersection(*(set(table) for table in tables)))
        mean, low, high = mean_and_ends([[table[step] for step in steps] for table in tables])
        lines.append(
            Line(
                label=experiment.label,
                method=experiment.method,
                variant=experiment.variant,
                x=tuple(map(float, steps)),
                y=mean,
                low=low,
                high=high,
            )
        )
    return tuple(lines)


def lacks_logs(sources: Sources) -> str | None:
    """What is missing of a figure that shows training logs."""
    if any(training.records for training in sources.trainings):
        return None
    return "expected a training log (--train FOLDER with metrics.jsonl), got none; 'stapo-train CONFIG.yaml' writes one"


def over_iterations(sources: Sources, column: str, y_label: str) -> Lines:
    """One field of metrics.jsonl."""
    lines = column_lines(sources.trainings, column)
    return Lines(
        panels=(Panel(lines=lines, x_label="iteration"),),
        y_label=y_label,
        spread=_SEEDS if any(line.low for line in lines) else "",
    )


def lacks_quantiles(sources: Sources) -> str | None:
    """A log with quantiles of token entropy."""
    if any(record.get("entropy_quantiles") for t in sources.trainings for record in t.records):
        return None
    return (
        "expected a training log that has entropy_quantiles (--train FOLDER), got none; "
        "'stapo-train CONFIG.yaml' writes one"
    )


def entropy_quantiles(sources: Sources) -> Lines:
    """A panel per quantile that the logs have."""
    names = sorted(
        {name for t in sources.trainings for record in t.records for name in record.get("entropy_quantiles") or {}},
        key=float,
    )
    panels = tuple(
        Panel(
            title=f"{100 * float(q):g} % quantile",
            lines=column_lines(sources.trainings, "entropy_quantiles", q),
            x_label="iteration",
        )
        for q in names
    )
    return Lines(
        panels=panels,
        y_label="token entropy (nats)",
        spread=_SEEDS if any(line.low for panel in panels for line in panel.lines) else "",
        share_y=False,
    )


def lacks_masked(sources: Sources) -> str | None:
    """Some training has to have silenced a token."""
    if _maskers(sources.trainings):
        return None
    return (
        "expected the log of a training that silenced tokens (--train FOLDER), got none; "
        "'stapo-train CONFIG.yaml objective.name=stapo' writes one"
    )


def masked(sources: Sources) -> Lines:
    """Masked-token ratio. An iteration without a silenced token has no place on a logarithmic axis: a gap."""
    lines = column_lines(_maskers(sources.trainings), "masked_share")
    floor = min((value for line in lines for value in line.y if value > 0), default=1.0) / 2
    return Lines(
        panels=(Panel(lines=tuple(_positive(line, floor) for line in lines), x_label="iteration"),),
        y_label="masked-token ratio",
        spread=_SEEDS if any(line.low for line in lines) else "",
        log_y=True,
    )


def _maskers(trainings: Sequence[Training]) -> list[Training]:
    return [t for t in trainings if np.nan_to_num(t.column("masked_share")).any()]


def _positive(line: Line, floor: float) -> Line:
    """Without zeros: no point, and a band down to the lower end of the axis."""
    return replace(
        line,
        y=tuple(value if value > 0 else math.nan for value in line.y),
        low=tuple(max(value, floor) for value in line.low),
        high=tuple(max(value, floor) for value in line.high),
    )
