"""A plan without pilot runs in words, as a table, and as a figure: what a size of evaluation can find."""

import json
import math
from dataclasses import asdict
from pathlib import Path

from stapo_bench.analysis import ASSUMED_CORRELATION, ASSUMED_CORRELATIONS, Findable, Size, SizePlan, as_json, size_of
from stapo_bench.presenting.words import markdown_row, percent, require_md_or_json


def render_size_plan(plan: SizePlan, format_: str = "md") -> str:
    """The plan as Markdown or JSON; in JSON null is a difference that cannot be found."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps(as_json(asdict(plan)), indent=2)
    asked, (high, low) = plan.sizes[0], ASSUMED_CORRELATIONS
    return "\n".join(
        [
            f"**{_shape(asked)} samples at a baseline of {percent(plan.baseline, 0)} %: the smallest difference found "
            f"with {percent(plan.power, 0)} % power: {_points(asked.like_these)} on problems like these, "
            f"{_points(asked.these_problems)} on these problems.** {_more(plan)}",
            "",
            f"Assumed, as no run tells: most problems are nearly always or never solved (Beta), and A's and B's rates "
            f"have a correlation of {ASSUMED_CORRELATION:g}; the range is that of {high:g} to {low:g}. "
            "Two pilot runs replace the assumption: stapo-bench plan A B --detect 0.02",
            "",
            "| problems × samples | smallest difference, these problems | problems like these | range |",
            "|---|---|---|---|",
            *(markdown_row(_cells(size)) for size in plan.sizes),
        ]
    )


def _more(plan: SizePlan) -> str:
    """What more samples alone cannot reach, and problems can."""
    without_end = next(size for size in plan.sizes if size.num_samples is None)
    most = plan.sizes[-1]
    return (
        f"More samples alone reach {_points(without_end.like_these)} on problems like these at best; "
        f"{most.num_problems} problems reach {_points(most.like_these)}."
    )


def _cells(size: Size) -> list[str]:
    like = size.like_these
    return [
        _shape(size),
        _points(size.these_problems) if size.num_samples is not None else "any",
        _points(like),
        f"{_number(like.least)} to {_number(like.most)}",
    ]


def _shape(size: Size) -> str:
    return f"{size.num_problems} × {'any number' if size.num_samples is None else size.num_samples}"


def _points(found: Findable) -> str:
    return "none can be found" if math.isinf(found.smallest) else f"{_number(found.smallest)} points"


def _number(difference: float) -> str:
    return "none" if math.isinf(difference) else percent(difference, 1)


def save_size_figure(plan: SizePlan, path: Path, command: str) -> None:
    """Draw the smallest differences over the number of samples, a line per number of problems, as PDF, SVG or PNG."""
    from stapo_bench.presenting.figures.lines import Line, Lines, Panel
    from stapo_bench.presenting.figures.render import save_lines

    asked = plan.sizes[0]
    most = 4 * (asked.num_samples or 1)
    samples = [2**power for power in range(most.bit_length())]

    def line(problems: int, i: int, *, these: bool) -> Line:
        sizes = [size_of(problems, number, plan.baseline, plan.power) for number in samples]
        found = [size.these_problems if these else size.like_these for size in sizes]
        bounds = ((), ()) if these else (_seen([f.least for f in found]), _seen([f.most for f in found]))
        return Line(
            label=f"{problems} problems",
            method=f"{problems} problems",
            variant=i,
            x=tuple(map(float, samples)),
            y=_seen([f.smallest for f in found]),
            low=bounds[0],
            high=bounds[1],
        )

    problems = [size.num_problems for size in (asked, *plan.sizes[-2:])]
    panels = tuple(
        Panel(
            title="these problems" if these else "problems like these",
            lines=tuple(line(number, i, these=these) for i, number in enumerate(problems)),
            x_label="samples per problem",
            log_x=2,
        )
        for these in (False, True)
    )
    data = Lines(panels=panels, y_label="smallest difference (points)", spread="correlation 0.95 to 0.8", percent=True)
    title = f"What can be found with {percent(plan.power, 0)} % power at {percent(plan.baseline, 0)} %"
    save_lines(title, data, path, command)


def _seen(values: list[float]) -> tuple[float, ...]:
    """The values with a gap where none can be found."""
    return tuple(math.nan if math.isinf(value) else value for value in values)
