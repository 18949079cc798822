"""Estimates with both named intervals, one below the other: paired differences, and the masking-strategy ablation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stapo_bench.analysis import Comparison, RunScore, compare_loaded
from stapo_bench.presenting.figures.evaluation import ACCURACY
from stapo_bench.presenting.figures.groups import by_setting, in_order, is_base
from stapo_bench.presenting.figures.layout import Layout, figure_of, grid, percent_axis, rows_of_names
from stapo_bench.presenting.figures.sources import Sources
from stapo_bench.presenting.figures.style import DOUBLE, INK, METHODS, SINGLE, look
from stapo_bench.presenting.verdicts import table_rows
from stapo_bench.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STRATEGIES = {
    "justrl": "none (JustRL)",
    "stapo": "low entropy (STAPO)",
    "random-mask": "random",
    "high-entropy-mask": "high entropy",
    "full-mask": "all candidates",
}
"""Which of the candidates each objective masks, in the order of the figure."""


POINTS = "difference (points)"

_WIDTHS = {"95 %, problems like these": 0.9, "95 %, these problems": 3.4}
"""Widths of bars, in points: the wide interval's bar is thin, or it would hide the other."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """An estimate, a fraction."""

    label: str
    method: str
    value: float
    these_problems: Interval
    problems_like_these: Interval
    summary: bool = False  # set apart below the others

    @property
    def intervals(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The wide and the narrow interval."""
        return (
            (self.problems_like_these.low, self.problems_like_these.high),
            (self.these_problems.low, self.these_problems.high),
        )


@dataclass(frozen=True, kw_only=True)
class Forest:
    """Estimates in one pair of axes, from the top."""

    title: str
    bars: tuple[Bar, ...]
    x_label: str
    zero: bool = False  # a line where there is no difference


def layout_of(data: Sequence[Forest]) -> Layout:
    """Side by side where the rows have the same labels."""
    labels = {tuple(bar.label for bar in forest.bars) for forest in data}
    columns = grid(len(data)).columns if len(labels) == 1 else 1
    rows = -(-len(data) // columns)
    lines = max(len(forest.title.splitlines()) for forest in data)
    return Layout(
        panels=len(data),
        columns=columns,
        width=DOUBLE if columns > 1 else SINGLE,
        height=0.3 + rows * (0.6 + 0.14 * lines + 0.19 * max(len(forest.bars) for forest in data)),
        share_y=len(labels) == 1,
    )


def draw(axes: Sequence["Axes"], data: Sequence[Forest]) -> None:
    """A point, a thick bar for these problems, a thin one for problems like these."""
    from matplotlib.lines import Line2D

    for ax, forest in zip(axes, data, strict=True):
        if forest.zero:
            ax.axvline(0.0, color=INK, linewidth=0.6, zorder=1)
        places = [place + 0.4 * bar.summary for place, bar in enumerate(forest.bars)]
        for place, bar in zip(places, forest.bars, strict=True):
            style = look(bar.method)
            for ends, (name, width) in zip(bar.intervals, _WIDTHS.items(), strict=True):
                ax.plot(
                    ends, (place, place), color=style.colour, linewidth=width, label=name, solid_capstyle="butt",
                    zorder=2,
                )  # fmt: skip
            ax.plot(
                [bar.value], [place], marker=style.marker, markersize=3.4, color=style.colour, markeredgecolor="white",
                markeredgewidth=0.4, linestyle="", label=bar.label, zorder=3,
            )  # fmt: skip
        ax.set_yticks(places, [bar.label for bar in forest.bars])
        ax.set_xlim(_limits(data))
        ax.set_ylim(places[-1] + 0.6, -0.6)
        rows_of_names(ax)
        ax.set_title(forest.title)
        ax.set_xlabel(forest.x_label)
        percent_axis(ax.xaxis)
    figure = figure_of(axes)
    keys = [
        Line2D([], [], color=INK, linewidth=width, solid_capstyle="butt", label=name) for name, width in _WIDTHS.items()
    ]
    figure.legend(handles=keys, loc="outside upper center", ncols=2 if figure.get_figwidth() > SINGLE else 1)


def _limits(data: Sequence[Forest]) -> tuple[float, float]:
    """One range for all panels, with zero inside where there is a line for it."""
    ends = [end for forest in data for bar in forest.bars for interval in bar.intervals for end in interval]
    ends = [end for end in ends if not math.isnan(end)] + [0.0] * any(forest.zero for forest in data)
    if not ends:
        return -1.0, 1.0
    margin = 0.05 * (max(ends) - min(ends)) or 0.01
    return min(ends) - margin, max(ends) + margin


# --- paired differences ----------------------------------------------------------------------------------------------


def lacks_pairs(sources: Sources) -> str | None:
    """What is missing unless there are two runs that were evaluated alike."""
    if any(len(group) > 1 for group in by_setting(sources.scores).values()):
        return None
    expected = f"expected two runs of the same tasks, decoding and grader, got {len(sources.runs)} runs"
    graders = list(dict.fromkeys(score.grader for score in sources.scores))
    if len(graders) > 1:
        return f"{expected}, graded by {' and '.join(graders)}; 'stapo-bench grade' brings runs up to date"
    return f"{expected}{', no two alike' * (len(sources.runs) > 1)}; 'stapo-bench eval' makes one"


def differences(sources: Sources) -> list[Forest]:
    """Every run against the base model, or against the first run where there is no base: a panel each."""
    loaded = {id(score): run for score, run in zip(sources.scores, sources.loaded, strict=True)}
    forests = []
    for title, group in by_setting(sources.scores).items():
        named = in_order(group)
        wanted = next((score for score in group if is_base(score, group)), group[0])
        reference = next(run for run in named if run.score is wanted)
        forests += [
            of_comparison(
                f"{run.name}{_minus(run.name, reference.name)}{reference.name}\n{title}".strip(),
                run.score.method,
                compare_loaded(loaded[id(wanted)], loaded[id(run.score)]),
            )
            for run in named
            if run is not reference
        ]
    return forests


def _minus(one: str, other: str) -> str:
    """The sign between two names, on a new line where these are long."""
    return " − " if len(one + other) < 20 else "\n− "


def of_comparison(title: str, method: str, found: Comparison) -> Forest:
    """B - A by task, and their mean below."""
    return Forest(
        title=title,
        bars=tuple(
            Bar(
                label=task.title,
                method=method,
                value=task.effect("these problems").difference.value,
                these_problems=task.effect("these problems").difference.interval(),
                problems_like_these=task.effect("problems like these").difference.interval(),
                summary=task is found.average,
            )
            for task in table_rows(found)
        ),
        x_label=POINTS,
        zero=True,
    )


# --- ablation --------------------------------------------------------------------------------------------------------


def lacks_ablation(sources: Sources) -> str | None:
    """What is missing unless there are two masking strategies, one of which is not the method's own."""
    if ablation(sources):
        return None
    return (
        "expected runs of checkpoints trained with other masks (random-mask, high-entropy-mask, full-mask; stapo or "
        f"justrl), got {len(sources.runs)} runs; 'stapo-train CONFIG.yaml objective.name=random-mask' trains one"
    )


def ablation(sources: Sources) -> list[Forest]:
    """The last checkpoint of each masking strategy, a panel per way of decoding."""
    forests = []
    for title, group in by_setting(sources.scores).items():
        bars = [
            Bar(
                label=what if len(runs) == 1 else run,
                method=METHODS[name].label,
                value=score.macro.value,
                these_problems=score.macro.these_problems,
                problems_like_these=score.macro.problems_like_these,
            )
            for name, what in _STRATEGIES.items()
            for runs in [_last([score for score in group if score.method == METHODS[name].label])]
            for run, _, score in in_order(runs)
        ]
        masks = {bar.method for bar in bars}
        if len(masks) > 1 and not masks <= {METHODS["justrl"].label, METHODS["stapo"].label}:
            forests.append(Forest(title=title, bars=tuple(bars), x_label=ACCURACY))
    return forests


def _last(scores: Sequence[RunScore]) -> list[RunScore]:
    """The runs of the last training step."""
    steps = [score.step or 0 for score in scores]
    return [score for score, step in zip(scores, steps, strict=True) if step == max(steps)]
