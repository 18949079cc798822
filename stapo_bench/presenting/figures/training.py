"""Lines over iterations of training: reward, response length, masked share, entropy of all tokens and of candidates."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from stapo_bench.presenting.figures.lines import Line, Lines, Panel, by_method, mean_and_ends
from stapo_bench.presenting.figures.sources import Sources, TrainingLog
from stapo_bench.presenting.figures.style import rank

_SEEDS = "min–max over seeds"
SYMBOLS = {"tau_p": r"$\tau_p$", "q": "$q$"}


@dataclass(frozen=True, kw_only=True)
class SeedGroup:
    """The seeds of one setting."""

    label: str
    method: str
    variant: int  # among the experiments of its method
    members: tuple[TrainingLog, ...]


def experiments(trainings: Sequence[TrainingLog]) -> list[SeedGroup]:
    """Trainings that differ in nothing but the seed are one experiment; the label says what sets it apart.

    The label names the settings that the objective states, and those in which the trainings of its method differ,
    unless the value is the most common of all experiments. So the plain one keeps the method's name, and with it the
    method's look: it is the first of its method.
    """
    groups: dict[str, list[TrainingLog]] = {}
    for training in trainings:
        groups.setdefault(training.settings(), []).append(training)
    firsts = [members[0] for members in groups.values()]
    named = [_stated(first) + _unusual(first, firsts) for first in firsts]
    found: list[SeedGroup] = []
    for members, settings in sorted(
        zip(groups.values(), named, strict=True),
        key=lambda item: (rank(item[0][0].method), len(item[1]), [setting.order for setting in item[1]]),
    ):
        method = members[0].method
        found.append(
            SeedGroup(
                label=f"{method} ({', '.join(map(str, settings))})" if settings else method,
                method=method,
                variant=sum(other.method == method for other in found),
                members=tuple(members),
            )
        )
    labels = [experiment.label for experiment in found]
    return [
        replace(e, label=f"{e.label}, {e.members[0].folder.name}") if labels.count(e.label) > 1 else e for e in found
    ]


class _Setting(NamedTuple):
    """One setting of a training, as a label names it."""

    name: str
    value: Any

    @property
    def order(self) -> tuple[str, float, str]:
        """Sorts by name, numbers by size."""
        number = float(self.value) if isinstance(self.value, float | int) else math.inf
        return self.name, number, str(self.value)

    def __str__(self) -> str:
        if isinstance(self.value, float | int) and not isinstance(self.value, bool):
            return f"{SYMBOLS.get(self.name, self.name)}={self.value:g}"
        return f"{self.name}={self.value}"


def _stated(training: TrainingLog) -> list[_Setting]:
    """The settings of the objective that the config states."""
    return [_Setting(name, value) for name, value in sorted(training.objective.items()) if name != "name"]


def _unusual(training: TrainingLog, company: Sequence[TrainingLog]) -> list[_Setting]:
    """The other settings in which its method's trainings differ, where its value is not the most common.

    Where two values are equally common none is usual. A setting is called by the last part of its dotted name where
    that is enough. What the config does not state has no value to name.
    """
    table = [other.leaves() for other in company]
    siblings = [leaves for other, leaves in zip(company, table, strict=True) if other.method == training.method]
    own = training.leaves()
    differing = [name for name in sorted(own) if len({_text(leaves, name) for leaves in siblings}) > 1]
    last = Counter([*training.objective, *map(_last_part, differing)])
    return [
        _Setting(_last_part(name) if last[_last_part(name)] == 1 else name, own[name])
        for name in differing
        if _usual([_text(leaves, name) for leaves in table]) != _text(own, name)
    ]


def _last_part(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _text(leaves: Mapping[str, Any], name: str) -> str:
    """A value to count and compare, lists included; empty where the config does not state it."""
    return repr(leaves[name]) if name in leaves else ""


def _usual(values: Sequence[str]) -> str | None:
    """The most common value; None where two are equally common."""
    (most, count), *others = Counter(values).most_common(2)
    return None if any(count == other for _, other in others) else most


def column_lines(found: Sequence[SeedGroup], *names: str) -> tuple[Line, ...]:
    """A line per experiment: the mean over its seeds, over the iterations that all of them have."""
    lines = []
    for experiment in found:
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
    return _over_iterations(experiments(sources.trainings), column, y_label)


def _over_iterations(found: Sequence[SeedGroup], column: str, y_label: str) -> Lines:
    lines = column_lines(found, column)
    return by_method(
        Lines(
            panels=(Panel(lines=lines, x_label="iteration"),),
            y_label=y_label,
            spread=_SEEDS if any(line.low for line in lines) else "",
        )
    )


def lacks_quantiles(sources: Sources) -> str | None:
    """What is missing unless a log has quantiles of token entropy."""
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
            lines=column_lines(experiments(sources.trainings), "entropy_quantiles", q),
            x_label="iteration",
        )
        for q in names
    )
    return by_method(
        Lines(
            panels=panels,
            y_label="token entropy (nats)",
            spread=_SEEDS if any(line.low for panel in panels for line in panel.lines) else "",
            share_y=False,
        )
    )


def lacks_candidates(sources: Sources) -> str | None:
    """What is missing unless a log has the entropy of candidates."""
    if any(map(_has_candidates, sources.trainings)):
        return None
    if any(r.get("num_candidates") and "candidate_entropy" not in r for t in sources.trainings for r in t.records):
        return (
            "expected the log of a training with the entropy of its candidates (--train FOLDER), got logs of an "
            "earlier version, which only count them; train again to have it"
        )
    return (
        "expected the log of a training with candidates to silence (--train FOLDER), got none; "
        "'stapo-train CONFIG.yaml objective.name=stapo' writes one"
    )


def candidate_entropy(sources: Sources) -> Lines:
    """Entropy of the candidates, of the experiments that have any; an iteration without one is a gap."""
    found = [e for e in experiments(sources.trainings) if any(map(_has_candidates, e.members))]
    return _over_iterations(found, "candidate_entropy", "entropy of candidates (nats)")


def _has_candidates(training: TrainingLog) -> bool:
    return not np.isnan(training.column("candidate_entropy")).all()


def lacks_masked(sources: Sources) -> str | None:
    """What is missing unless some training has silenced a token."""
    if any(map(_has_masked, sources.trainings)):
        return None
    return (
        "expected the log of a training that silenced tokens (--train FOLDER), got none; "
        "'stapo-train CONFIG.yaml objective.name=stapo' writes one"
    )


def masked(sources: Sources) -> Lines:
    """Masked-token ratio. An iteration without a silenced token has no place on a logarithmic axis: a gap.

    An experiment is shown with all its seeds, those that silenced nothing included.
    """
    lines = column_lines(
        [e for e in experiments(sources.trainings) if any(map(_has_masked, e.members))], "masked_share"
    )
    floor = _power_of_ten(min((v for line in lines for v in (*line.y, *line.low) if v > 0), default=1.0) / 2)
    return by_method(
        Lines(
            panels=(Panel(lines=tuple(_positive(line, floor) for line in lines), x_label="iteration"),),
            y_label="masked-token ratio",
            spread=_SEEDS if any(line.low for line in lines) else "",
            log_from=floor,
        )
    )


def _has_masked(training: TrainingLog) -> bool:
    return bool(np.nan_to_num(training.column("masked_share")).any())


def _power_of_ten(value: float) -> float:
    """The greatest that is not above it: figures begin at the same few values and so compare.

    >>> _power_of_ten(2e-4 / 2), _power_of_ten(1.9e-4 / 2), _power_of_ten(7.0)
    (0.0001, 1e-05, 1.0)
    """
    return float(f"1e{math.floor(math.log10(value))}")


def _positive(line: Line, floor: float) -> Line:
    """The line without zeros: no point there, and a band down to the axis' lower end, which no other value reaches."""
    return replace(
        line,
        y=tuple(value if value > 0 else math.nan for value in line.y),
        low=tuple(max(value, floor) for value in line.low),
        high=tuple(max(value, floor) for value in line.high),
    )
