"""With which run a report compares the others: in each decoding regime the base model, or the run that was named."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from stapo_bench.presenting.tables.rows import Row


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The run that others are compared with. Runs are numbers in the report's list."""

    run: int
    others: tuple[int, ...]
    why: str  # it is the baseline


def baselines(rows: Sequence[Row], weights: Sequence[Hashable], named: int | None = None) -> list[Baseline]:
    """The baseline of each decoding regime; of all regimes together only where no regime has two runs.

    It is the named run, or the one of the same weights; else the base model, which others say that they started from
    or whose method is ``Base``; else the first run.

    Args:
        rows: of the runs.
        weights: what stands for each run's weights.
        named: number of the run that is to be the baseline; None: none was named.
    """
    regimes: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        regimes.setdefault(row.sampling, []).append(number)
    groups = [list(range(len(rows)))] if len(regimes) == len(rows) else list(regimes.values())
    models = {row.model for row in rows}
    found = []
    for members in groups:
        candidates = [
            *((number, "as asked") for number in members if number == named),
            *((number, "as asked") for number in members if named is not None and weights[number] == weights[named]),
            *((number, "the base model") for number in members if rows[number].method.casefold() == "base"),
            *((number, "the base model") for number in members if rows[number].method in models),
            (members[0], "the first of the runs; --baseline names another"),
        ]
        run, why = candidates[0]
        if others := tuple(number for number in members if number != run):
            found.append(Baseline(run=run, others=others, why=why))
    return found


def pairs(found: Sequence[Baseline]) -> Iterator[tuple[int, int]]:
    """Baseline and other, for every comparison."""
    for baseline in found:
        yield from ((baseline.run, other) for other in baseline.others)
