"""The page of what no test notices: docs/mutation.md, from the record of a session."""

from collections.abc import Mapping
from typing import Any

HEAD = """# Mutations that no test notices

A line that some test runs is not yet a line that some test checks. Here single operators, comparisons, constants,
conditions and decorators of the code were changed, one at a time, and the tests that run the line were run: did one
fail? Below is every change that none noticed, with its reason; what changes nothing at all is called equivalent, and
left out of the shares. Types are left out altogether: a changed annotation breaks the import and says nothing of the
tests.

Of a sample, `--sample 120` draws so many random places of the modules and makes one mutation at each; another `--seed`
draws a fresh one, and names like `grading` stand for the parts in `bench/mutation/parts.yaml`. "At first" is the share
that was noticed by the tests as they were when the sample was drawn. Where tests were written for what they missed, the
same places were tried again: those tests are counted apart, since a sample that tests were written for no longer says
how much the others would miss.

A command goes on where it was stopped, also after the modules changed: the record keeps the places of its sample, each
by the text of its line, and says how many of these lines are gone. Reasons are written into the record, where what no
test noticed has an empty one; the same command then makes this page again, and tries nothing twice. Of the first five
samples no places were kept: their records stay as they are.
"""
KINDS = ("noticed", "noticed since", "unnoticed", "equivalent", "not run")
TABLE = [
    "| room | mutations | noticed | by tests written since | not | equivalent | no test runs it | at first | now |",
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
]


def page(found: Mapping[str, Any]) -> str:
    """docs/mutation.md: of every sample counts by room and what was not noticed, by module; counts of former ones."""
    lines = [line for number, sample in enumerate(found["samples"], start=1) for line in _sample(number, sample)]
    lines += ["", "## Former samples", "", "Noticed, of those that are not equivalent:", ""] if found["earlier"] else []
    for earlier in found["earlier"]:
        rooms = ("{} {} of {}".format(room, *shares(counts)) for room, counts in earlier["rooms"].items())
        lines.append(f"* `{earlier['sample']}` at {earlier['commit'][:7]}: {', '.join(rooms)}")
    return HEAD + "\n".join(lines) + "\n"


def _sample(number: int, sample: Mapping[str, Any]) -> list[str]:
    left = f"; {sample['left']} more were not tried" if sample["left"] else ""
    gone = [place for place in sample.get("places", ()) if place.get("gone")]
    left += f"; the line of {len(gone)} is gone since" if gone else ""
    lines = ["", f"## Sample {number}: {', '.join(sample['rooms'])}", ""]
    lines += [f"Made by `{sample['command']}` at {sample['commit'][:7]}{left}.", "", *TABLE]
    together = {kind: sum(counts[kind] for counts in sample["rooms"].values()) for kind in KINDS}
    for room, counts in [*sample["rooms"].items(), ("together", together)]:
        noticed, tried = shares(counts)
        now = noticed + counts["noticed since"]
        kinds = " | ".join(str(counts[kind]) for kind in KINDS)
        at_first, today = _percent(noticed, tried), _percent(now, tried)
        lines.append(f"| {room} | {sum(counts.values())} | {kinds} | {at_first} | {today} |")
    path = ""
    for row in sample["unnoticed"]:
        if row["tests"] == "noticed since":
            continue
        if row["path"] != path:
            path = row["path"]
            lines += ["", f"### {path}", ""]
        became = f" → {_code(row['became'])}" if row["became"] else ", dropped"
        became = ", by no test" if row["tests"] == "not run" else became
        reason = f": {row['reason']}" if row["reason"] else ""
        lines.append(f"* line {row['line']}: {_code(row['was'])}{became}{reason}")
    return lines


def shares(counts: Mapping[str, int]) -> tuple[int, int]:
    """How many mutations were noticed at first, and of how many that change something."""
    return counts["noticed"], sum(counts.values()) - counts["equivalent"]


def _percent(noticed: int, tried: int) -> str:
    return f"{100 * noticed / tried:.0f} %" if tried else "–"


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"
