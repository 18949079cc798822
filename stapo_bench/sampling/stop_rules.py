"""Early stopping: an evaluation samples only as much as a decision needs (``--until-width``, ``--until-decided``, and
every checkpoint that ``follow`` evaluates).

A running evaluation asks these rules between rounds. Their decisions, made by ``statistics.sequential`` and
``statistics.checkpoint_looks``, stay valid however often they are asked for. ``analysis.early_stopping`` says how a run
that stopped early is read afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from stapo_bench.analysis import look_at_checkpoint, parity, same_weights
from stapo_bench.errors import StapoError, UsageError, tell
from stapo_bench.runs import LoadedRun, Stopping, grade_run, load_run, state_stopping
from stapo_bench.statistics import MARGIN, StopDecision, planned_aim, stop_at_width, stop_when_decided


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """When to stop. A run's manifest names the rule it is under, for its intervals must hold whenever it is asked."""

    words: str
    aim: float  # half-width at which it hopes to stop, see ``sequential.boundary``
    decide: Callable[[LoadedRun], StopDecision]


def stop_rule(width: float | None, other_dir: Path | None) -> StopRule | None:
    """The rule that a command was given: a width, or a run to be decided against; None where it was given neither."""
    if width is not None and other_dir is not None:
        raise UsageError("expected --until-width or --until-decided, got both")
    if width is not None:
        return width_below(width)
    return None if other_dir is None else decided_against(other_dir)


def width_below(width: float) -> StopRule:
    """Stop when the interval of the mean over tasks is no wider than ``width``, a fraction."""
    return StopRule(
        words=f"--until-width {width:g}",
        aim=width / 2.0,
        decide=lambda run: stop_at_width([outcomes.scores for outcomes in run.outcomes.values()], width),
    )


def decided_against(other_dir: Path) -> StopRule:
    """Stop when the run is shown to differ from a finished one, or to be tied with it.

    What differs besides the weights is said with each decision, as ``compare`` says it.
    """
    other = load_run(other_dir)

    def decide(run: LoadedRun) -> StopDecision:
        """The run against the other one, on the problems that both have."""
        if lacking := sorted(set(run.tasks) - set(other.tasks)):
            raise StapoError(f"{other_dir}: expected the tasks of {run.name}, got none of {', '.join(lacking)}")
        decision = stop_when_decided(
            [outcomes.scores for outcomes in run.outcomes.values()],
            [other.outcomes[task].of(outcomes.problem_ids).scores for task, outcomes in run.outcomes.items()],
        )
        confounders = [str(item) for item in parity(other, run) if item.weight == "confounds"]
        if not confounders or same_weights(other, run):  # the same weights are compared for what else differs
            return decision
        unfair = f"no evidence about the weights: A = {other.name}, B = {run.name}, {', '.join(confounders)}"
        return replace(decision, reason=f"{decision.reason}; {unfair}")

    return StopRule(words=f"--until-decided {other.name}", aim=MARGIN, decide=decide)


def against_base(base_dir: Path, number: int) -> StopRule:
    """Stop when the ``number``-th checkpoint of a training is told from its base, tied with it, or hardly will be."""
    base = load_run(base_dir)
    tasks = base.tasks.values()

    def decide(run: LoadedRun) -> StopDecision:
        look = look_at_checkpoint(run, base, number)
        now = f"{100 * look.value:+.1f} points over {base.name} after {look.rounds} rounds"
        said = f"{look.state}: {now}" if look.state != "open" else now
        if look.stop and look.state == "open":
            said += ", which all rounds will hardly decide"
        return StopDecision(stop=look.stop, reason=said, rounds=look.rounds, value=look.value, interval=look.interval)

    aim = planned_aim([len(task.problem_ids) for task in tasks], [task.num_samples for task in tasks])
    return StopRule(words=f"follow: checkpoint {number} against {base.name}", aim=aim, decide=decide)


def is_settled(rule: StopRule, run_dir: Path, data_dir: Path | None, watch: TextIO) -> bool:
    """Grade a run as far as it is, say what is known, and whether the rule is met; the manifest names the rule."""
    state_stopping(run_dir, Stopping(rule=rule.words, aim=rule.aim))
    grade_run(run_dir, data_dir=data_dir)
    decision = rule.decide(load_run(run_dir))
    tell(watch, f"{'enough' if decision.stop else 'going on'}: {decision.reason}")
    return decision.stop
