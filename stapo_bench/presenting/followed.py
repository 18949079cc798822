"""A training that is followed, in words: a line for each checkpoint, and the curve so far as text, JSON and a figure.

OUT/curve.md, OUT/curve.json        as of ``stapo-bench curve``
OUT/curve.svg                       where matplotlib is installed
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from stapo_bench.analysis import Curve, curve_runs
from stapo_bench.presenting.curves import render_curve
from stapo_bench.presenting.words import change_interval, counted, points
from stapo_bench.runs import write_result
from stapo_bench.sampling import Entry
from stapo_bench.statistics import Interval

_SAID = {
    "better": "better than the base",
    "worse": "worse than the base",
    "tied": "tied with the base",
    "open": "not told from the base",
}


def followed_line(entry: Entry) -> str:
    """What is known of a checkpoint, in one line."""
    if entry.state == "base":
        return f"base: {entry.checkpoint}"
    if entry.state == "vanished":
        return f"step {entry.step}: deleted before its evaluation ended; it is no part of the curve"
    if entry.value is None or entry.low is None or entry.high is None:
        return f"step {entry.step}: no decision, for lack of complete rounds of graded samples"
    interval = change_interval(Interval(low=entry.low, high=entry.high))
    return (
        f"step {entry.step}: {_SAID[entry.state]}, {points(entry.value)} points {interval} on these problems after "
        f"{counted(entry.rounds, 'sample')} of each"
    )


def first_shown(entries: Sequence[Entry]) -> str:
    """When the gain over the base was shown, in one line."""
    better = next((entry for entry in entries if entry.state == "better"), None)
    if better is None:
        return "no checkpoint is shown to be better than the base yet"
    return (
        f"the gain over the base is shown from step {better.step} on; of trainings that change nothing "
        "at most 5 in 100 show one, however many checkpoints they have"
    )


def write_curve(out: Path, entries: Sequence[Entry], grader: str, command: str) -> Curve | None:
    """Write the curve over all checkpoints that have ended; None: there is no checkpoint beside the base yet.

    Args:
        out: the folder of the runs.
        entries: those that have ended.
        grader: whose grades count.
        command: what made the figure; goes into its metadata.
    """
    runs = [out / entry.run for entry in entries if entry.state != "vanished"]
    if len(runs) < 2:
        return None
    found = curve_runs(runs, grader)
    write_result(out / "curve.md", render_curve(found) + "\n")
    write_result(out / "curve.json", render_curve(found, "json") + "\n")
    if find_spec("matplotlib"):
        _save_figure(found, out / "curve.svg", command)
    return found


def _save_figure(found: Curve, path: Path, command: str) -> None:
    """The scores over the steps; a band is that of the gain over the base, around the score."""
    from stapo_bench.presenting.figures.lines import Line, Lines, Panel
    from stapo_bench.presenting.figures.render import save_lines

    base = found.points[0].value
    line = Line(
        label="checkpoints",
        method="checkpoints",
        x=tuple(float(point.step or 0) for point in found.points),
        y=tuple(point.value for point in found.points),
        low=tuple(base + point.band.low for point in found.points),
        high=tuple(base + point.band.high for point in found.points),
    )
    data = Lines(
        panels=(Panel(lines=(line,), x_label="training step"),),
        y_label="avg@k (%)",
        spread="simultaneous band of the gain, problems like these",
        percent=True,
    )
    save_lines("Accuracy over training steps", data, path, command)
