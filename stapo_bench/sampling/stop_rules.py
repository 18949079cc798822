"""Draw only as much as a decision needs: ``eval --until-width``, ``eval --until-decided``.

The decisions of ``stapo_bench.statistics`` stay valid however often one looks: looking between rounds costs nothing.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from stapo_bench.analysis import parity, same_weights
from stapo_bench.errors import StapoError
from stapo_bench.runs import LoadedRun, Stopping, grade_run, load_run, state_stopping
from stapo_bench.statistics import MARGIN, Decision, until_decided, until_width


@dataclass(frozen=True, kw_only=True)
class Rule:
    """When to stop. A run that was drawn under a rule says so, for its intervals must hold at every look."""

    words: str
    aim: float  # half-width at which it hopes to stop, see ``sequential.boundary``
    decide: Callable[[LoadedRun], Decision]


def width_below(width: float) -> Rule:
    """Enough when the interval of the mean over tasks is no wider than ``width``, a fraction."""
    return Rule(
        words=f"--until-width {width:g}",
        aim=width / 2.0,
        decide=lambda run: until_width([outcomes.scores for outcomes in run.outcomes.values()], width),
    )


def decided_against(other_dir: Path) -> Rule:
    """Enough when the run is told apart from a finished one, or shown to be tied with it.

    What differs besides the weights is said with each decision, as ``compare`` says it.
    """
    other = load_run(other_dir)

    def decide(run: LoadedRun) -> Decision:
        if lacking := sorted(set(run.tasks) - set(other.tasks)):
            raise StapoError(f"{other_dir}: expected the tasks of {run.name}, got none of {', '.join(lacking)}")
        decision = until_decided(
            [outcomes.scores for outcomes in run.outcomes.values()],
            [other.outcomes[task].of(outcomes.problem_ids).scores for task, outcomes in run.outcomes.items()],
        )
        confounders = [str(item) for item in parity(other, run) if item.weight == "confounds"]
        if not confounders or same_weights(other, run):  # the same weights are compared for what else differs
            return decision
        unfair = f"no evidence about the weights: A = {other.name}, B = {run.name}, {', '.join(confounders)}"
        return replace(decision, reason=f"{decision.reason}; {unfair}")

    return Rule(words=f"--until-decided {other.name}", aim=MARGIN, decide=decide)


def looking(rule: Rule, data_dir: Path | None, watch: TextIO | None = None) -> Callable[[Path], bool]:
    """Grades a run as far as it is, says what is known, and whether that is enough."""

    def enough(run_dir: Path) -> bool:
        state_stopping(run_dir, Stopping(rule=rule.words, aim=rule.aim))
        grade_run(run_dir, data_dir=data_dir)
        decision = rule.decide(load_run(run_dir))
        print(f"{'enough' if decision.stop else 'going on'}: {decision.reason}", file=watch or sys.stderr)
        return decision.stop

    return enough
