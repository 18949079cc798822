"""Early stopping (``eval --until-width``, ``--until-decided``) in statistics on finished runs.

The samples of a run that stopped early decided how many there are, so an interval for a fixed number would miss too
often. Whatever compares such a run takes the interval that holds at every look (``sequential.anytime``), and says so.
"""

from collections.abc import Iterable, Sequence

from stapo_bench.runs import LoadedRun
from stapo_bench.statistics import Difference, anytime

WIDENED = "intervals and p-values are widened to hold at every look (anytime-valid)"


def aim_of(run: LoadedRun) -> float | None:
    """The half-width at which the run aimed to stop; None: its size was fixed beforehand."""
    stopping = run.manifest.about.stopping
    return float(stopping.aim) if stopping else None


def smallest(aims: Iterable[float | None]) -> float | None:
    """The aim for statistics on several runs; None where none of them stopped early."""
    return min((aim for aim in aims if aim is not None), default=None)


def at_every_look(difference: Difference, aims: Iterable[float | None]) -> Difference:
    """A difference of runs, its error widened where one of them stopped early."""
    aim = smallest(aims)
    return difference if aim is None else anytime(difference, aim)


def stopped_note(runs: Sequence[LoadedRun], consequence: str) -> list[str]:
    """One line that names the runs that stopped early and what follows from it; none where no run did."""
    rules = [f"{run.name} stopped under {stopping.rule}" for run in runs if (stopping := run.manifest.about.stopping)]
    return [f"{', '.join(rules)}: {consequence}"] if rules else []
