"""The curve over the checkpoints of a training run, in words and as a table."""

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


def render_curve(found: Curve, format_: str = "md") -> str:
    """The curve as Markdown or JSON."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps(as_json({"sentence": curve_sentence(found), **asdict(found)}), indent=2)
    lines = [
        markdown_line(f"**{curve_sentence(found)}**"),
        "",
        markdown_line(
            f"Mean over {', '.join(found.tasks)}; percent. Bands hold for all steps together with 95 %, for problems "
            f"like these ({found.critical:.2f} standard errors)."
        ),
        "",
        "| Checkpoint | step | avg@k | over the first | simultaneous band |",
        "|---|---|---|---|---|",
    ]
    for point in found.points:
        step = "–" if point.step is None else str(point.step)
        band = "–" if point is found.points[0] else change_interval(point.band)
        lines.append(markdown_row([point.name, step, percent(point.value), points(point.gain), band]))
    if found.notes:
        lines += ["", *(markdown_line(f"- {note}") for note in found.notes)]
    return "\n".join(lines)


def curve_sentence(found: Curve) -> str:
    """First step clearly above the reference, and the best step, corrected for having been picked."""
    best = found.points[found.best]
    said = "No checkpoint is clearly above the first"
    if found.first_above is not None:
        first = found.points[found.first_above]
        gain = f"{points(first.gain)} points"
        said = f"The first checkpoint clearly above {found.points[0].name} is {first.name} ({gain})"
    corrected = "unknown" if math.isnan(found.best_corrected) else percent(found.best_corrected)
    return (
        f"{said}; the highest is {best.name} with {percent(found.best_value)}, "
        f"corrected for having been picked on its samples' luck {corrected} on these problems."
    )
