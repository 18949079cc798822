"""Accuracy against what a training did: entropy stability (Pareto), and the settings tau_p and q (sensitivity)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stapo_bench.analysis import RunScore, load_facts
from stapo_bench.presenting.figures.evaluation import ACCURACY, Point, averages, seeded, spread_name
from stapo_bench.presenting.figures.groups import by_setting
from stapo_bench.presenting.figures.layout import Layout, grid, key_below, legend_above, percent_axis
from stapo_bench.presenting.figures.lines import Lines, Panel
from stapo_bench.presenting.figures.sources import Sources, TrainingLog
from stapo_bench.presenting.figures.style import DOUBLE, INK, METHODS, look
from stapo_bench.presenting.figures.training import SYMBOLS, SeedGroup, experiments

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_START = 5
"""Iterations whose mean is the initial entropy; the score needs as many again."""

Evaluated = tuple[TrainingLog, RunScore]


def entropy_stability(entropies: Sequence[float]) -> float:
    """exp(-mean of |ln(H_t / H_0)|) over the iterations after the first five, whose mean is H_0: 1 for a flat line.

    The score of ``stapo-train stability``; NaN for fewer than ten iterations.

    >>> entropy_stability([0.4] * 5 + [0.2] * 10)
    0.5
    """
    if len(entropies) < 2 * _START:
        return math.nan
    start, later = sum(entropies[:_START]) / _START, entropies[_START:]
    return 0.0 if min(later) <= 0 else math.exp(-sum(abs(math.log(h / start)) for h in later) / len(later))


# --- Pareto ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Place:
    """An experiment in the plane of stability and accuracy: means over its seeds."""

    label: str
    method: str
    variant: int
    num_seeds: int
    stability: float
    accuracy: float  # a fraction
    stability_ends: tuple[float, float]  # least and greatest over seeds
    accuracy_ends: tuple[float, float]  # likewise; of a figure without seeds: 95 % interval, problems like these


@dataclass(frozen=True, kw_only=True)
class Plane:
    """Places that may be compared."""

    title: str
    places: tuple[Place, ...]

    @property
    def front(self) -> list[tuple[float, float]]:
        """Places that no other beats in one respect without losing in the other, steadiest last."""
        front: list[tuple[float, float]] = []
        for place in sorted(self.places, key=lambda place: (-place.stability, -place.accuracy)):
            if not front or place.accuracy > front[0][1]:
                front.insert(0, (place.stability, place.accuracy))
        return front


def lacks_pareto(sources: Sources) -> str | None:
    """What is missing unless two experiments have a run of a checkpoint each."""
    trained = [training for training, _ in _measured(sources.evaluated)]
    count = len({training.settings() for training in trained})
    if count > 1:
        return None
    return (
        "expected two trainings that differ in more than the seed, of ten iterations or more (--train FOLDER), with a "
        f"run of a checkpoint of each, got {count}; 'stapo-bench eval --ckpt FOLDER/checkpoints/final ...' makes a run"
    )


def pareto(sources: Sources) -> list[Plane]:
    """A point per experiment, of the last evaluated checkpoint of each training; a panel per way of decoding."""
    pairs = _measured(sources.evaluated)
    found = {
        title: [
            (experiment, members)
            for experiment in experiments(sources.trainings)
            if (
                members := [
                    (training, score)
                    for training, score in pairs
                    if training in experiment.members and any(score is other for other in group)
                ]
            )
        ]
        for title, group in by_setting([score for _, score in pairs]).items()
    }
    has_seeds = any(len(members) > 1 for of_title in found.values() for _, members in of_title)
    return [
        Plane(title=title, places=tuple(_place(*item, has_seeds=has_seeds) for item in of_title))
        for title, of_title in found.items()
    ]


def _place(experiment: SeedGroup, members: Sequence[Evaluated], *, has_seeds: bool) -> Place:
    """An experiment's place. Bars are of one kind in a figure: the spread of seeds where any experiment has several."""
    stabilities = [entropy_stability(training.column("entropy").tolist()) for training, _ in members]
    accuracies = [score.macro.value for _, score in members]
    interval = members[0][1].macro.problems_like_these
    return Place(
        label=experiment.label,
        method=experiment.method,
        variant=experiment.variant,
        num_seeds=len(members),
        stability=float(np.mean(stabilities)),
        accuracy=float(np.mean(accuracies)),
        stability_ends=(min(stabilities), max(stabilities)),
        accuracy_ends=(min(accuracies), max(accuracies)) if has_seeds else (interval.low, interval.high),
    )


def pareto_note(data: Sequence[Plane]) -> str:
    """What points and bars are: it depends on the seeds that there are."""
    counts = {place.num_seeds for plane in data for place in plane.places}
    if counts == {1}:
        points = "Each training's last evaluated checkpoint; bars are 95 % intervals for problems like these."
    else:
        points = (
            "Each experiment's last evaluated checkpoints: the mean over training seeds; bars reach from the least to "
            "the greatest of the seeds" + (", a point without bars has one." if 1 in counts else ".")
        )
    return f"{points} Stability is exp(-mean |ln(H_t / H_0)|), 1 for constant entropy."


def _measured(pairs: Sequence[Evaluated]) -> list[Evaluated]:
    return [
        (training, score)
        for training, score in pairs
        if math.isfinite(entropy_stability(training.column("entropy").tolist()) + score.macro.value)
    ]


def planes_layout(data: Sequence[Plane]) -> Layout:
    """A panel per plane; both columns of the page where the legend is long."""
    layout = grid(len(data), share_y=True)
    return replace(layout, width=DOUBLE) if max(len(plane.places) for plane in data) > 8 else layout


_FRONT: dict[str, Any] = {"color": INK, "linewidth": 0.8, "linestyle": ":"}


def draw_pareto(axes: Sequence["Axes"], data: Sequence[Plane]) -> None:
    """Points with their intervals, and the front."""
    from matplotlib.lines import Line2D

    for ax, plane in zip(axes, data, strict=True):
        for place in plane.places:
            style = look(place.method, place.variant)
            ax.errorbar(
                [place.stability], [place.accuracy], xerr=_away(place.stability, place.stability_ends),
                yerr=_away(place.accuracy, place.accuracy_ends), label=place.label, color=style.colour, linestyle="",
                marker=style.marker, markersize=5, elinewidth=0.8, capsize=1.5, zorder=3,
            )  # fmt: skip
        ax.plot([x for x, _ in plane.front], [y for _, y in plane.front], zorder=2, **_FRONT)
        ax.set_title(plane.title)
        ax.set_xlabel("entropy stability (1: flat)")
        ax.margins(x=0.12)
        percent_axis(ax.yaxis)
    axes[0].set_ylabel(ACCURACY)
    legend_above(axes)
    key_below(axes, Line2D([], [], label="Pareto front", **_FRONT))


def _away(value: float, ends: tuple[float, float]) -> list[list[float]] | None:
    """A bar as matplotlib wants it; none where it has no length."""
    low, high = ends
    return None if low == high else [[value - low], [high - value]]


# --- sensitivity -----------------------------------------------------------------------------------------------------


def lacks_sensitivity(sources: Sources) -> str | None:
    """What is missing unless STAPO was trained with two values of a setting, and each has a run."""
    if any(_panels(_stapo(sources.evaluated))):
        return None
    return (
        "expected STAPO trainings with different objective.tau_p or objective.q (--train FOLDER) and a run of a "
        "checkpoint of each, got too few; 'stapo-train CONFIG.yaml objective.q=0.5 out=FOLDER', then 'stapo-bench eval'"
    )


def sensitivity(sources: Sources) -> Lines:
    """Accuracy over tau_p, a line per q; and over q, a line per tau_p."""
    found = _panels(_stapo(sources.evaluated))
    has_seeds = seeded([points for _, _, lines in found for _, points in lines])
    labels = list(dict.fromkeys(label for _, _, lines in found for label, _ in lines))
    panels = [
        Panel(
            title=title,
            lines=tuple(averages(label, labels.index(label), points, has_seeds) for label, points in lines),
            x_label=SYMBOLS[name],
            log_x=10 if name == "tau_p" else 0,
        )
        for title, name, lines in found
    ]
    return Lines(panels=tuple(panels), y_label=ACCURACY, spread=spread_name(has_seeds), bars=True, percent=True)


def _stapo(pairs: Sequence[Evaluated]) -> list[Evaluated]:
    return [(training, score) for training, score in pairs if training.method == METHODS["stapo"].label]


def _panels(pairs: Sequence[Evaluated]) -> list[tuple[str, str, list[tuple[str, list[Point]]]]]:
    """Title, what varies, and the lines: a label by what stays the same, and its points."""
    panels = []
    for title, group in by_setting([score for _, score in pairs]).items():
        members = [(t, s) for t, s in pairs if any(s is other for other in group)]
        for varied, fixed in (("tau_p", "q"), ("q", "tau_p")):
            experiments_of: dict[tuple[str, float], list[Evaluated]] = {}
            for training, score in members:
                key = training.settings(but=("tau_p", "q")), threshold(training, fixed)
                experiments_of.setdefault(key, []).append((training, score))
            kept = [
                (value, of[0][0].folder.name, points)
                for (_, value), of in sorted(experiments_of.items(), key=lambda item: item[0])
                if len(points := _points(of, varied)) > 1
            ]
            values = [value for value, _, _ in kept]
            lines = [
                # Experiments that differ in more than these settings are labelled by a folder of each.
                (f"{SYMBOLS[fixed]}={value:g}" + f", {folder}" * (values.count(value) > 1), points)
                for value, folder, points in kept
            ]
            if lines:
                panels.append((title, varied, lines))
    return panels


def _points(pairs: Sequence[Evaluated], name: str) -> list[Point]:
    found: dict[float, list[RunScore]] = {}
    for training, score in pairs:
        found.setdefault(threshold(training, name), []).append(score)
    return [(x, found[x]) for x in sorted(found)]


def threshold(training: TrainingLog, name: str) -> float:
    """tau_p or q of a STAPO training; the paper's, which is the trainer's default, where the config states none."""
    version = "v1-v3" if training.objective["name"] == "stapo-old" else "v4-v5"
    return float(training.objective.get(name, load_facts("stapo_facts")["rule"][version][name]))
