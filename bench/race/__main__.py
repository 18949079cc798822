"""Ours beside others' on the same simulated data sets.

    python -m bench.race --json docs/race.json   # about five minutes of processor time
    python -m bench.race --quick --tools 'paired t'       # a few data sets, no page
    python -m bench.race.page                             # the tables of docs/race.md from the record

Each tool is installed in an environment of its own under ``--cache`` (newest release) and asked by its public API; see
``adapters``. A tool that needs longer than ``--seconds`` of processor time for a kind of data judges fewer of them.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.race.adapters import JUDGES, MARGIN, THESE
from bench.race.cells import Cell, cells
from bench.race.environments import CACHE, judge, python_of
from stapo_bench.runs import measured_with

ABOUT = ("command", "commit", "device", "versions")
"""How a row was made."""


def row(tool: str, cell: str, truth: float, truths: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Shares of data sets; ``refused`` where there are none."""
    about: dict[str, Any] = {"tool": tool, "cell": cell}
    if "refused" in found:
        return {**about, "refused": found["refused"]}
    cost = {"each_ms": round(1000 * found["each_s"], 2), "peak_mb": round(found["peak_kb"] / 1024)}
    about |= {"sets": len(found["answers"]), **cost}
    if isinstance(found["answers"][0], bool):  # of several models: whether any two were called different
        return {**about, "claims": round(float(np.mean(found["answers"])), 4)}
    low, high, claim, tied = (np.array(column, dtype=float) for column in zip(*found["answers"], strict=True))
    aim = truths[: len(low)] if tool in THESE else np.full(len(low), truth)
    shares = {
        "coverage": (low - 1e-12 <= aim) & (aim <= high + 1e-12),
        "width": high - low,
        "claims": claim,
        "false_claims": (claim > 0) & ((low > 0.0) & (aim <= 0.0) | (high < 0.0) & (aim >= 0.0)),
        "false_ties": (tied > 0) & (np.abs(aim) >= MARGIN),
    }
    intervals = not np.isnan(low).any()  # of a claim without one nothing says which of both is better
    return {
        **about,
        **{name: round(float(np.mean(x)), 4) for name, x in shares.items() if intervals or name == "claims"},
    }


def race(tools: list[str], num_sets: int, seconds: float, cache: Path, only: list[str]) -> dict[str, Any]:
    """Versions, what could not be installed and why, and a row per tool and cell, or for those that are named."""
    pythons, versions, missing = {}, {}, {}
    for tool in tools:
        try:
            pythons[tool], versions[tool] = python_of(tool, cache)
        except RuntimeError as error:
            missing[tool] = str(error)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        of_cell: dict[Path, tuple[Cell, Any]] = {}
        together: list[Path] = []
        alone: list[Path] = []
        for number, cell in enumerate(cell for cell in cells() if not only or cell.name in only):
            data, path = cell.data(num_sets), Path(folder) / f"{number}.npz"
            np.savez_compressed(path, **data)
            of_cell[path] = cell, data["truths"]
            (together if cell.num_sets is None else alone).append(path)
        for tool, python in pythons.items():
            # Where memory is asked for, each in a process of its own.
            for files in [together, *([path] for path in alone)]:
                for path, found in zip(files, judge(python, tool, files, seconds), strict=True):
                    cell, truths = of_cell[path]
                    rows.append(row(tool, cell.name, cell.truth, truths, found))
                    print(json.dumps(rows[-1], ensure_ascii=False), file=sys.stderr, flush=True)
    return {"tools": {t: v for t, v in versions.items() if v}, "not_installed": missing, "rows": rows}


def joined(before: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """What was measured before, with the rows that were measured now in place of theirs.

    A row that was made otherwise than the record says keeps how: its command, commit, device and versions.
    """
    about = {name: facts[name] for name in ABOUT if facts[name] != before[name]}
    tools = {**before["tools"], **facts["tools"]}
    now = {(row["tool"], row["cell"]): {**row, **about} for row in facts["rows"]}
    rows = [row for row in before["rows"] if (row["tool"], row["cell"]) not in now] + list(now.values())
    missing = {tool: why for tool, why in before["not_installed"].items() if tool not in facts["tools"]}
    places = [cell.name for cell in cells()]
    rows.sort(key=lambda row: (list(JUDGES).index(row["tool"]), places.index(row["cell"])))
    return {**before, "tools": tools, "not_installed": {**missing, **facts["not_installed"]}, "rows": rows}


def main() -> None:
    """Race, and write what was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.race", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sets", type=int, default=400, help="data sets of a kind (default 400)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of processor time for a kind (default 4)")
    parser.add_argument("--quick", action="store_true", help="5 data sets and one second for each kind")
    parser.add_argument("--tools", nargs="+", choices=list(JUDGES), default=list(JUDGES), help="else all")
    parser.add_argument("--cells", nargs="+", choices=[cell.name for cell in cells()], default=[], help="else all")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where environments are made (default {CACHE})")
    parser.add_argument("--json", type=Path, help="write the record here; rows of other tools stay")
    arguments = parser.parse_args()
    num_sets, seconds = (5, 1.0) if arguments.quick else (arguments.sets, arguments.seconds)
    about = measured_with(("numpy", "scipy"))
    found = race(arguments.tools, num_sets, seconds, arguments.cache, arguments.cells)
    facts = {"command": f"python -m bench.race --sets {num_sets} --seconds {seconds:g}", "seed": 2026, **about, **found}
    if arguments.json is not None:
        if arguments.json.exists():
            facts = joined(json.loads(arguments.json.read_text(encoding="utf-8")), facts)
        arguments.json.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
