"""Training logs made by hand, and what a drawn panel holds; for the tests of the figures."""

import json
from pathlib import Path

import numpy as np
import yaml

from stapo_bench.presenting.figures import Sources
from stapo_bench.presenting.figures.render import figure


def write_log(folder: Path, rows=None, *, name="stapo", seed=0, out=None, settings=None, **objective) -> Path:
    """A training log.

    rows: fields of its iterations that differ from plain ones. settings: further parts of its config.
    """
    folder.mkdir(parents=True)
    config = {"out": out or str(folder), "seed": seed, "objective": {"name": name, **objective}, "optim": {"lr": 1e-4}}
    config |= settings or {}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    plain = {"entropy": 0.5, "reward": 0.25, "response_length": 8.0, "masked_share": 0.0}
    lines = [json.dumps({"iteration": i, **plain, **row}) for i, row in enumerate(rows or [{}] * 12, start=1)]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def trained(make_run, name, tasks, *, training, step, **about):
    """A run of a checkpoint that ``training`` made."""
    return make_run(
        name,
        tasks,
        about={"checkpoint": f"{training}/checkpoints/step-{step}", "step": step, "method": "STAPO", **about},
    )


def axes_of(name: str, sources: Sources):
    """The panels of a figure, drawn."""
    return figure(name, sources).axes


def drawn(ax) -> dict[str, tuple[list[float], list[float]]]:
    """Label to (x, y) of the lines of a panel."""
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.get_lines()}


def drawn_line(line) -> tuple[str, list[float], list[float]]:
    return line.get_label(), list(line.get_xdata()), list(line.get_ydata())


def legend_of(ax, number=0) -> list[str]:
    """What stands in a legend of the whole figure."""
    return [text.get_text() for text in ax.figure.legends[number].get_texts()]


def band(ax, number=0) -> np.ndarray:
    """Corners of a band, [num_corners, 2]."""
    return ax.collections[number].get_paths()[0].vertices
