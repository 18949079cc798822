"""Several runs in their order; bars join those that are not told apart, and those that are shown to be tied."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stapo_bench.analysis import SeveralComparison, compare_several, runs_alike
from stapo_bench.engines import sampling_in_words
from stapo_bench.presenting.figures.evaluation import ACCURACY
from stapo_bench.presenting.figures.layout import Layout, figure_of, percent_axis, rows_of_names
from stapo_bench.presenting.figures.sources import Sources
from stapo_bench.presenting.figures.style import BLUE, GREY, INK
from stapo_bench.statistics import ERROR_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BARS: dict[str, dict[str, Any]] = {
    "not told apart": {"color": INK, "linewidth": 1.0},
    "shown to be tied": {"color": BLUE, "linewidth": 3.0},
}


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The runs of one panel, judged together."""

    title: str
    found: SeveralComparison


def lacks_several(sources: Sources) -> str | None:
    """What is missing unless three runs were evaluated alike."""
    if any(len(group) > 2 for group in runs_alike(sources.loaded)):
        return None
    expected = f"expected three runs of the same tasks, decoding and grader, got {len(sources.runs)} runs"
    return f"{expected}; 'stapo-bench eval' makes one"


def rankings(sources: Sources) -> list[Ranking]:
    """A panel per way of evaluating, titled by the decoding where there are several."""
    groups = [group for group in runs_alike(sources.loaded) if len(group) > 2]
    titles = [sampling_in_words(group[0].manifest.identity.sampling) if len(groups) > 1 else "" for group in groups]
    return [Ranking(title=title, found=compare_several(group)) for title, group in zip(titles, groups, strict=True)]


def layout_of(data: Sequence[Ranking]) -> Layout:
    """One below the other: their rows have names of their own."""
    height = 0.5 + sum(0.6 + 0.19 * len(ranking.found.runs) for ranking in data)
    return Layout(panels=len(data), columns=1, height=height)


def draw(axes: Sequence["Axes"], data: Sequence[Ranking]) -> None:
    """The best on top; on the right a bar for each largest set on problems like these."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    for ax, ranking in zip(axes, data, strict=True):
        values = [run.value for run in ranking.found.runs]
        low, high = min(values), max(values)
        step = 0.06 * (high - low or 0.1)
        standing = ranking.found.standings[ERROR_NAMES[1]]
        sets = [("not told apart", group) for group in standing.groups if len(group) > 1]
        sets += [("shown to be tied", group) for group in standing.tied]
        ax.plot(values, range(len(values)), marker="o", color=GREY, markeredgecolor=INK, linestyle="", label="avg@k")
        for number, (what, group) in enumerate(sets, start=1):
            place = high + step * (number + 0.5)
            ax.plot([place, place], [group[0] - 0.2, group[-1] + 0.2], solid_capstyle="butt", label=what, **_BARS[what])
            for absent in set(range(group[0], group[-1])) - set(group):  # a run between them that is told apart
                ax.plot([place], [absent], marker="x", color=INK, markersize=3.0, linestyle="", label="")
        ax.set_yticks(range(len(values)), [run.name for run in ranking.found.runs])
        ax.set_ylim(len(values) - 0.4, -0.6)
        ax.set_xticks([t for t in MaxNLocator(5).tick_values(low, high) if low - step <= t <= high + step])
        ax.set_xlim(low - step, high + step * (len(sets) + 1.5))
        ax.set_title(ranking.title)
        ax.set_xlabel(ACCURACY)
        rows_of_names(ax)
        percent_axis(ax.xaxis)
    keys = [Line2D([], [], label=name, **look) for name, look in _BARS.items()]
    figure_of(axes).legend(handles=keys, loc="outside upper center", ncols=2)
