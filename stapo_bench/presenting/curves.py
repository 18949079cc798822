"""The curve over a training's checkpoints, or over one checkpoint's token budgets, in words and as a table."""

import json
import math
from dataclasses import asdict

from stapo_bench.analysis import Curve, as_json
from stapo_bench.presenting.words import (
    change_interval,
    markdown_line,
    markdown_row,
    percent,
    points,
    require_md_or_json,
)

_HEADERS = {
    "step": ("| Checkpoint | step | avg@k | over the first | simultaneous band |", "|---|---|---|---|---|"),
    "budget": (
        "| Run | budget | tokens a sample | avg@k | over the first | simultaneous band |",
        "|---|---|---|---|---|---|",
    ),
}


def _what(found: Curve) -> str:
    """What the curve is over."""
    return "step" if found.points[0].tokens is None else "budget"


def render_curve(found: Curve, format_: str = "md") -> str:
    """The curve as Markdown or JSON."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps(as_json({"sentence": curve_sentence(found), **asdict(found)}), indent=2)
    lines = [
        markdown_line(f"**{curve_sentence(found)}**"),
        "",
        markdown_line(
            f"Mean over {', '.join(found.tasks)}; percent. Bands hold for all {_what(found)}s together with 95 %, for "
            f"problems like these ({found.critical:.2f} standard errors)."
        ),
        "",
        *_HEADERS[_what(found)],
    ]
    for point in found.points:
        where = ["–" if point.step is None else str(point.step)]
        if point.tokens is not None:
            where.append(f"{point.tokens:,.0f}")
        band = "–" if point is found.points[0] else change_interval(point.band)
        lines.append(markdown_row([point.name, *where, percent(point.value), points(point.gain), band]))
    if found.notes:
        lines += ["", *(markdown_line(f"- {note}") for note in found.notes)]
    return "\n".join(lines)


def curve_sentence(found: Curve) -> str:
    """First step clearly above the reference, and the best step, corrected for having been picked."""
    best = found.points[found.best]
    kind = "checkpoint" if _what(found) == "step" else "budget"
    said = f"No {kind} is clearly above the first"
    if found.first_above is not None:
        first = found.points[found.first_above]
        gain = f"{points(first.gain)} points"
        said = f"The first {kind} clearly above {found.points[0].name} is {first.name} ({gain})"
    said += f"; the highest is {best.name} with {percent(found.best_value)}"
    if math.isnan(found.best_corrected):
        return f"{said}; how much of that is the luck of the samples that it was picked by is not known."
    corrected = percent(found.best_corrected)
    return f"{said}, corrected for having been picked on its samples' luck {corrected} on these problems."
