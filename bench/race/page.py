"""The tables of docs/race.md from the record: python -m bench.race.page; a test holds them equal."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.race.__main__ import ABOUT
from bench.race.adapters import JUDGES, THESE

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE, RECORD = ROOT / "docs" / "race.md", ROOT / "docs" / "race.json"

Row = dict[str, Any]
Column = tuple[str, str, str]
"""Its heading, the kind of data, and what is shown of the row."""

POINTS = [f"30 × 32, {points} points" for points in (0, 2, 4, 7)]
TABLES: dict[str, list[Column]] = {
    "gains": [
        *((f"coverage at {cell.split(', ')[1]}", cell, "coverage") for cell in (POINTS[0], POINTS[3])),
        *((f"width at {cell.split(', ')[1]}", cell, "width") for cell in (POINTS[0], POINTS[3])),
        *((f"called different at {cell.split(', ')[1]}", cell, "claims") for cell in POINTS),
        ("data sets", POINTS[0], "sets"),
    ],
    "rare": [
        ("4 % solved by B alone: coverage", "30 × 32, rare, nothing else", "coverage"),
        ("width", "30 × 32, rare, nothing else", "width"),
        ("false ties", "30 × 32, rare, nothing else", "false_ties"),
        ("AIME24, 10 % newly solved: coverage", "30 × 32, rare, AIME24", "coverage"),
        ("width", "30 × 32, rare, AIME24", "width"),
        ("called different", "30 × 32, rare, AIME24", "claims"),
    ],
    "single": [
        ("coverage at 0 points", "500 × 1, 0 points", "coverage"),
        ("width", "500 × 1, 0 points", "width"),
        *((f"called different at {points} points", f"500 × 1, {points} points", "claims") for points in (0, 4, 7)),
        ("data sets", "500 × 1, 0 points", "sets"),
    ],
    "groups": [
        ("20 clusters of 5: coverage", "20 clusters of 5", "coverage"),
        ("width", "20 clusters of 5", "width"),
        ("false claims", "20 clusters of 5", "false_claims"),
        ("six equal models: any called different", "six equal models, 100 × 4", "claims"),
        ("data sets", "six equal models, 100 × 4", "sets"),
    ],
    "scores": [
        ("near 1: coverage", "scores near 1", "coverage"),
        ("width", "scores near 1", "width"),
        ("a tenth gains in full: coverage", "scores, a tenth gains in full", "coverage"),
        ("width", "scores, a tenth gains in full", "width"),
    ],
    "gaps": [
        ("8 to 32 samples: coverage", "unequal k, 30 × 8 to 32", "coverage"),
        ("width", "unequal k, 30 × 8 to 32", "width"),
        ("false claims", "unequal k, 30 × 8 to 32", "false_claims"),
        ("a fifth of B's items missing: coverage", "missing items, 30 × 32", "coverage"),
        ("width", "missing items, 30 × 32", "width"),
        ("false claims", "missing items, 30 × 32", "false_claims"),
    ],
    "cost": [
        ("30 × 32: ms", POINTS[0], "each_ms"),
        ("1,000 × 8: ms", "speed, 1,000 × 8", "each_ms"),
        ("MB", "speed, 1,000 × 8", "peak_mb"),
        ("100,000 × 1: ms", "speed, 100,000 × 1", "each_ms"),
        ("MB", "speed, 100,000 × 1", "peak_mb"),
    ],
}

SHOWN: dict[str, Callable[[Any], str]] = {
    "sets": str,
    "each_ms": lambda ms: f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}",
    "peak_mb": "{:,}".format,
}
"""What is no share; shares are shown in percent."""


def table(record: dict[str, Any], columns: list[Column]) -> str:
    """A row for each tool that says anything of these data; a dash where it refuses or makes no such statement."""
    rows: dict[tuple[str, str], Row] = {(row["tool"], row["cell"]): row for row in record["rows"]}
    lines = ["| | " + " | ".join(heading for heading, _, _ in columns) + " |", "|---|" + "---:|" * len(columns)]
    for tool in JUDGES:
        values = [_value(rows.get((tool, cell), {}), shown) for _, cell, shown in columns]
        if any(value is not None for value in values):
            cells = (
                "–" if x is None else SHOWN.get(column[2], _percent)(x)
                for x, column in zip(values, columns, strict=True)
            )
            version = record["tools"].get(tool, "")
            lines.append(f"| {tool} {version}".rstrip() + " | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _value(row: Row, shown: str) -> Any:
    """What is shown of a row; without a count of false claims, claims are false where the true difference is 0: not for
    the items as they are, which differ.
    """
    if shown == "false_claims" and shown not in row and row.get("tool") not in THESE:
        return row.get("claims")
    return row.get(shown)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def refusals(record: dict[str, Any]) -> str:
    """What was refused and in which words, and what could not be installed."""
    said: dict[tuple[str, str], list[str]] = {}
    for row in record["rows"]:
        if "refused" in row:
            said.setdefault((row["tool"], row["refused"]), []).append(row["cell"])
    lines = [f"* {tool}: {'; '.join(cells)}: `{why}`" for (tool, why), cells in said.items()]
    return "\n".join(
        lines + [f"* {tool} could not be installed: `{why}`" for tool, why in record["not_installed"].items()]
    )


def filled(page: str, record: dict[str, Any]) -> str:
    """The page with its tables as the record has them."""
    versions = ", ".join(f"{tool} {version}" for tool, version in record["tools"].items())
    made = (
        f"`{record['command']}`, commit {record['commit'][:12]}, seed {record['seed']}, {record['device']}. {versions}."
    )
    others: dict[str, list[str]] = {}
    for row in record["rows"]:
        if row.keys() & set(ABOUT):
            how = f"`{row.get('command', record['command'])}`, commit {row.get('commit', record['commit'])[:12]}"
            others.setdefault(f"{row['tool']} by {how}", []).append(row["cell"])
    made += "".join(f" {how}: {'; '.join(of_cells)}." for how, of_cells in others.items())
    parts = {name: table(record, columns) for name, columns in TABLES.items()}
    for name, text in {**parts, "refusals": refusals(record), "made": made}.items():
        marked = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        page = re.sub(marked, _between(text), page, flags=re.DOTALL)
    return page


def _between(text: str) -> Callable[[re.Match[str]], str]:
    return lambda found: found[1] + text + found[2]


def main() -> None:
    """Write the tables into the page."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")


if __name__ == "__main__":
    main()
