"""Does the decoding regime decide who wins? Checkpoints A and B, each evaluated under two regimes.

    compare_regimes(a1, b1, a2, b2)

The effect B - A under each regime, the effect of the regime on each checkpoint, and the interaction: how much B - A
changes from the first regime to the second, per problem,  (x_B2 - x_A2) - (x_B1 - x_A1).

A ranking is claimed where it is shown. It ``flips`` when B - A is told apart from 0 under each regime, with opposite
signs; it is ``the same`` when it is told apart under each, with one sign. Both tests have to reject, so that a false
claim is made in at most 5 of 100 cases without a correction (intersection-union test; Berger 1982). Anything else is
``open``: that the interaction is told apart shows that the regime matters, not that the ranking flips.

The parity gate comes first: what differs besides the weights (within a regime) or temperature and top-p (across) is
listed, and weakens the sentence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stapo_bench.analysis.common_problems import missing_samples, shared_problems, shared_tasks
from stapo_bench.analysis.early_stopping import WIDENED, aim_of, at_every_look, stopped_note
from stapo_bench.analysis.parity_gate import Weight, parity, tasks_together, weights_of
from stapo_bench.engines import sampling_in_words
from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import LoadedRun, load_run
from stapo_bench.statistics import ERROR_NAMES, LEVEL, Difference, ErrorName, contrast, mean_difference

Ranking = Literal["flips", "the same", "open"]

_CONTRASTS = {
    # weights of A1, B1, A2, B2
    "effect under 1": (-1.0, 1.0, 0.0, 0.0),
    "effect under 2": (0.0, 0.0, -1.0, 1.0),
    "regime on A": (-1.0, 0.0, 1.0, 0.0),
    "regime on B": (0.0, -1.0, 0.0, 1.0),
    "interaction": (1.0, -1.0, -1.0, 1.0),
}
_DECODING = ("temperature", "top_p", "top_k", "min_p", "stop", "thinking_budget", "thinking_end")  # what a regime is
_EDGES = ((0, 1), (2, 3), (0, 2), (1, 3))  # of A1, B1, A2, B2: pairs that differ in one thing alone


@dataclass(frozen=True, kw_only=True)
class OtherField:
    """A field outside the comparison in which two of the runs differ."""

    field: str
    weight: Weight
    note: str


@dataclass(frozen=True, kw_only=True)
class RegimeComparison:
    """Contrasts of four runs, each the mean over the common tasks."""

    names: tuple[str, str, str, str]  # A1, B1, A2, B2
    regimes: tuple[str, str]  # in words
    num_tasks: int
    contrasts: dict[str, dict[ErrorName, Difference]]
    others: tuple[OtherField, ...]
    notes: tuple[str, ...]

    def differing(self, weight: Weight) -> str:
        """Names of the fields that differ with this weight; "" where none does."""
        return ", ".join(dict.fromkeys(other.field for other in self.others if other.weight == weight))

    def ranking(self, error: ErrorName) -> Ranking:
        """What is shown about the order of A and B, under this error."""
        effects = [self.contrasts[f"effect under {i}"][error] for i in (1, 2)]
        if not all(effect.p_value < LEVEL for effect in effects):
            return "open"
        return "flips" if effects[0].value * effects[1].value < 0 else "the same"


def compare_regimes(a1: Path, b1: Path, a2: Path, b2: Path, grader: str = DEFAULT_GRADER) -> RegimeComparison:
    """Compare checkpoints A and B under regime 1 (runs a1, b1) and regime 2 (a2, b2).

    Raises:
        StapoError: the runs are not two checkpoints under two regimes, or share no task.
    """
    runs = [load_run(path, grader) for path in (a1, b1, a2, b2)]
    checkpoints = [weights_of(run) for run in runs]
    if unknown := [run.name for run, (digest, _) in zip(runs, checkpoints, strict=True) if digest is None]:
        raise StapoError(
            f"expected two checkpoints, each under both regimes; the weights of {unknown[0]} are not known"
        )
    sampling = [tuple(getattr(run.manifest.identity.sampling, name) for name in _DECODING) for run in runs]
    if checkpoints[:2] != checkpoints[2:] or sampling[0] != sampling[1] or sampling[2] != sampling[3]:
        raise StapoError(
            "expected A and B under one regime, then the same A and B under the other; got "
            + ", ".join(f"{run.name} ({_words(run)})" for run in runs)
        )
    if sampling[0] == sampling[2]:
        raise StapoError(f"expected two decoding regimes, got {_words(runs[0])} twice: {runs[0].name}, {runs[2].name}")
    tasks = shared_tasks(runs)
    if not tasks:
        raise StapoError("the four runs have no task in common")
    others = tuple(other for i, j in _EDGES for other in _others(runs[i], runs[j], tasks))
    return RegimeComparison(
        names=(runs[0].name, runs[1].name, runs[2].name, runs[3].name),
        regimes=(_words(runs[0]), _words(runs[2])),
        num_tasks=len(tasks),
        contrasts={
            name: {
                error: at_every_look(
                    mean_difference([_contrast(runs, task, weights, error) for task in tasks]),
                    [aim_of(run) for run, weight in zip(runs, weights, strict=True) if weight],
                )
                for error in ERROR_NAMES
            }
            for name, weights in _CONTRASTS.items()
        },
        others=others,
        notes=(
            *(other.note for other in others),
            *missing_samples(runs, tasks),
            *stopped_note(runs, WIDENED),
        ),
    )


def _others(a: LoadedRun, b: LoadedRun, tasks: Sequence[str]) -> Iterator[OtherField]:
    """What differs besides the weights, decoding and seeds; tasks that are not compared are left out."""
    ignored = {f"sampling.{name}" for name in _DECODING}
    found = [
        item
        for item in parity(a, b)
        if item.weight != "note" and item.field not in ignored and (item.task is None or item.task in tasks)
    ]
    for item in tasks_together(found, {task: a.title(task) for task in tasks}):
        note = f"{item.weight}: {item.field}: {item.a} in {a.name}, {item.b} in {b.name}"
        yield OtherField(field=item.field, weight=item.weight, note=note)


def _contrast(runs: Sequence[LoadedRun], task: str, weights: Sequence[float], error: ErrorName) -> Difference:
    """The weighted sum of the runs' averages, over the problems that all four were asked."""
    ids = shared_problems(runs, task)
    used = [(run, weight) for run, weight in zip(runs, weights, strict=True) if weight]
    same_seeds = all(run.manifest.shares_seed(used[0][0].manifest) for run, _ in used)
    matrices = [run.outcomes[task].of(ids).scores for run, _ in used]
    return contrast(matrices, [weight for _, weight in used], error, same_seeds=same_seeds)


def _words(run: LoadedRun) -> str:
    return sampling_in_words(run.manifest.identity.sampling)
