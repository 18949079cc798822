"""A comparison as a figure, whatever was compared: run folders, tables, logs.

save_comparison(compare_outcomes("a.csv", "b.csv"), Path("fig.svg"), "stapo-bench compare a.csv b.csv -o fig.svg")
"""

from pathlib import Path
from typing import Any

from stapo_bench.analysis import Comparison, SeveralComparison
from stapo_bench.presenting.figures import forest, ranking
from stapo_bench.presenting.figures.registry import REGISTRY, Plot
from stapo_bench.presenting.figures.render import save_data
from stapo_bench.statistics import ErrorName, Interval


def save_comparison(found: Comparison | SeveralComparison, path: Path, command: str) -> None:
    """Draw it into a file, whose ending says the format.

    Two runs: B - A by task. Several with one: their differences from it. Several: who is not told apart, who is tied.
    """
    data: list[Any]
    if isinstance(found, Comparison):
        kind, data = "differences", [forest.of_comparison(f"{found.name_b} − {found.name_a}", "", found)]
    elif found.against is not None:
        kind, data = "differences", [_against(found, found.against)]
    else:
        kind, data = "ranking", [ranking.Ranking(title="", found=found)]
    plot: Plot[Any] = REGISTRY[kind]
    save_data(plot, data, path, command)


def _against(found: SeveralComparison, reference: int) -> forest.Forest:
    """The others' differences from one, with intervals that hold together; the highest on top."""

    def difference(run: int, error: ErrorName) -> tuple[float, Interval]:
        pair = next(pair for pair in found.standings[error].pairs if {pair.a, pair.b} == {run, reference})
        value, interval = pair.joint.difference.value, pair.joint.interval
        return (value, interval) if pair.b == run else (-value, Interval(low=-interval.high, high=-interval.low))

    return forest.Forest(
        title=f"against {found.runs[reference].name}",
        bars=tuple(
            forest.Bar(
                label=run.name,
                method="",
                value=difference(i, "these problems")[0],
                these_problems=difference(i, "these problems")[1],
                problems_like_these=difference(i, "problems like these")[1],
            )
            for i, run in enumerate(found.runs)
            if i != reference
        ),
        x_label=forest.POINTS,
        zero=True,
    )
