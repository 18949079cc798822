"""Methods over training seeds: differences with both intervals, and where they come from, seeds × problems."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stapo_bench.analysis import (
    Method,
    SeedComparison,
    compare_methods,
    means_by_task,
    methods_among,
)
from stapo_bench.engines import sampling_in_words
from stapo_bench.presenting.figures.layout import Layout, figure_of, grid, rows_of_names
from stapo_bench.presenting.figures.sources import Sources
from stapo_bench.presenting.figures.style import DOUBLE, INK, look, rank
from stapo_bench.statistics import SEED_ERRORS, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS: dict[str, dict[str, Any]] = dict(
    zip(SEED_ERRORS, ({"linewidth": 3.4, "alpha": 0.5}, {"linewidth": 0.9, "marker": "|"}), strict=True)
)
"""The two kinds of interval; with few seeds either may be the wider, so both are shown."""


def lacks_seeds(sources: Sources) -> str | None:
    """What is missing unless two methods have several trainings each."""
    if methods_among(sources.loaded):
        return None
    return (
        "expected runs of at least two trainings of each of two methods, of one model and evaluated alike, got "
        f"{len(sources.runs)} runs; 'stapo-bench eval' makes one of each training's last checkpoint"
    )


def _groups(sources: Sources) -> list[tuple[str, list[Method]]]:
    """Methods that are compared, in the order of legends, with a title where there are several groups."""
    groups = methods_among(sources.loaded)
    titles = [""] * len(groups)
    if len(groups) > 1:
        firsts = [group[0].runs[0].manifest for group in groups]
        params = [manifest.identity.sampling for manifest in firsts]
        titles = [
            f"{manifest.about.model or 'model not stated'}\n{sampling_in_words(p)}"
            for manifest, p in zip(firsts, params, strict=True)
        ]
    return [(title, sorted(group, key=lambda m: rank(m.label))) for title, group in zip(titles, groups, strict=True)]


# --- differences -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SeedForest:
    """Every two methods of one panel."""

    title: str
    pairs: tuple[SeedComparison, ...]


def forests(sources: Sources) -> list[SeedForest]:
    """A panel per model and way of evaluating."""
    return [SeedForest(title=title, pairs=compare_methods(group).pairs) for title, group in _groups(sources)]


def forest_layout(data: Sequence[SeedForest]) -> Layout:
    """One below the other: their rows have names of their own."""
    height = 0.5 + sum(0.75 + 0.19 * len(forest.pairs) for forest in data)
    return Layout(panels=len(data), columns=1, height=height)


def draw_forest(axes: Sequence["Axes"], data: Sequence[SeedForest]) -> None:
    """Pairs from the top, in points."""
    from matplotlib.lines import Line2D

    for ax, forest in zip(axes, data, strict=True):
        draw_panel(ax, forest.pairs, [pair.name_b for pair in forest.pairs])
        ax.set_yticks(range(len(forest.pairs)), [f"{pair.name_b} − {pair.name_a}" for pair in forest.pairs])
        ax.set_ylim(len(forest.pairs) - 0.4, -0.6)
        ax.set_title(forest.title)
    keys = [Line2D([], [], color=INK, label=f"95 %, {name}", **bar) for name, bar in BARS.items()]
    figure_of(axes).legend(handles=keys, loc="outside upper center", ncols=1)


def draw_panel(ax: "Axes", comparisons: Sequence[SeedComparison], labels: Sequence[str]) -> None:
    """Draw one difference below the other, in points; a method's label decides its look."""
    ax.axvline(0.0, color=INK, linewidth=0.6, zorder=1)
    for place, (comparison, label) in enumerate(zip(comparisons, labels, strict=True)):
        style = look(label)
        for effect in comparison.effects:
            interval = effect.difference.interval()
            ends = 100 * np.array([interval.low, interval.high])
            ax.plot(ends, (place, place), color=style.colour, solid_capstyle="butt", zorder=2, **BARS[effect.error])
        value = 100 * comparison.effects[0].difference.value
        ax.plot(
            [value], [place], marker=style.marker, markersize=6, color=style.colour, markeredgecolor="white",
            markeredgewidth=0.7, zorder=3,
        )  # fmt: skip
    ax.set_xlabel("difference (points)")
    rows_of_names(ax)


# --- seeds × problems ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SeedMap:
    """What every seed of a method gains over the reference, problem by problem."""

    title: str
    seeds: tuple[str, ...]  # rows
    changes: Matrix  # [num_seeds, num_problems], problems by their mean change; NaN where one is not decided


def seed_maps(sources: Sources) -> list[SeedMap]:
    """The first method of each group against each other one: equal seeds where both have them, else A's mean."""
    maps = []
    for title, group in _groups(sources):
        reference, *others = group
        pairs = compare_methods(group).pairs[: len(others)]
        for method, pair in zip(others, pairs, strict=True):
            changes = _changes(reference, method, paired=pair.paired)
            order = np.argsort(-np.nan_to_num(changes).mean(axis=0), kind="stable")
            maps.append(
                SeedMap(
                    title="\n".join(filter(None, (title, f"{method.label} − {reference.label}"))),
                    seeds=tuple(map(str, sorted(method.seeds))),
                    changes=changes[:, order],
                )
            )
    return maps


def _changes(reference: Method, method: Method, *, paired: bool) -> Matrix:
    """[num_seeds, num_problems of all tasks] of B - A."""
    of_a, of_b = (
        [run.outcomes for run in sorted(m.runs, key=lambda run: run.manifest.known_seed)] for m in (reference, method)
    )
    a, b = (np.concatenate(means_by_task(runs, of_a[0]), axis=1) for runs in (of_a, of_b))
    changes: Matrix = b - (a if paired else a.mean(axis=0))
    return changes


def maps_layout(data: Sequence[SeedMap]) -> Layout:
    """Side by side in the width of the page, or one column for a single one."""
    found = grid(len(data), columns=2)
    rows = max(len(seed_map.seeds) for seed_map in data)
    height = found.rows * (0.9 + 0.16 * rows)
    return Layout(panels=len(data), columns=found.columns, width=DOUBLE, height=height + 0.4)


def draw_maps(axes: Sequence["Axes"], data: Sequence[SeedMap]) -> None:
    """One scale for all: blue where the method gains, red where it loses."""
    for ax, seed_map in zip(axes, data, strict=True):
        num_seeds, num_problems = seed_map.changes.shape
        image = ax.imshow(
            seed_map.changes, vmin=-1.0, vmax=1.0, cmap="RdBu", aspect="auto", interpolation="nearest",
            extent=(0.5, num_problems + 0.5, num_seeds - 0.5, -0.5),
        )  # fmt: skip
        ax.set_title(seed_map.title)
        ax.set_yticks(range(num_seeds), seed_map.seeds)
        ax.set_ylabel("seed")
        ax.set_xlabel("problems, by mean change")
        ax.set_xticks(sorted({1, num_problems}))
        ax.tick_params(length=0, pad=2)
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
    bar = figure_of(axes).colorbar(image, ax=list(axes), location="top", shrink=0.4, fraction=0.05, pad=0.04, aspect=30)
    bar.set_ticks([-1.0, 0.0, 1.0], labels=["−100", "0", "+100"])
    bar.set_label("change of right samples (points)")
    bar.outline.set_visible(False)
