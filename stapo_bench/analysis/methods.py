"""Methods over training seeds: a pattern of run folders is a method, every run of it a training with its own seed.

compare_methods([read_method(p) for p in ("runs/justrl-*", "runs/stapo-*")])
"""

import glob
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from stapo_bench.analysis.common_problems import missing_samples, shared_problems
from stapo_bench.analysis.early_stopping import stopped_note
from stapo_bench.analysis.parity_gate import parity, same_weights
from stapo_bench.analysis.seed_comparison import SeedComparison, compare_over_seeds, means_by_task
from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import LoadedRun, load_run
from stapo_bench.statistics import (
    MARGIN,
    SEED_ERRORS,
    Difference,
    Interval,
    SeedError,
    SeedsNeeded,
    over_seeds,
    seeds_needed,
)

_STEP = re.compile(r"final|(checkpoint|global_step|step|iter)[-_]?\d+")
"""Names of checkpoints of one training, in its folder."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """Runs of one method, a training seed each."""

    name: str
    label: str  # as the runs state it; it decides the colour in figures
    runs: tuple[LoadedRun, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each run."""
        return tuple(run.manifest.known_seed for run in self.runs)


@dataclass(frozen=True, kw_only=True)
class MethodScore:
    """A method's avg@k over its seeds, fractions."""

    name: str
    label: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    tasks: dict[str, float]  # mean over seeds
    value: float  # mean over tasks and seeds
    deviation: float  # of the runs' averages over seeds
    intervals: dict[SeedError, Interval]
    rank: tuple[int, int]  # best and worst place that is not refuted on seeds and problems like these


@dataclass(frozen=True, kw_only=True)
class MethodComparison:
    """Methods against methods over training seeds."""

    methods: tuple[MethodScore, ...]
    pairs: tuple[SeedComparison, ...]  # every two methods, in the order given; the effect is the later one's
    needed: tuple[dict[SeedError, SeedsNeeded], ...]  # by pair: seeds of each that show ``detect``
    detect: float
    margin: float
    titles: dict[str, str]  # of the tasks
    notes: tuple[str, ...]


def read_method(pattern: str, grader: str = DEFAULT_GRADER) -> Method:
    """The runs that a pattern of folder names matches, such as ``runs/stapo-*``, as one method.

    Raises:
        StapoError: fewer than two run folders, or runs that are not trainings of one method.
    """
    found_at = glob.iglob(pattern)  # noqa: PTH207 - Path.glob takes no absolute pattern
    folders = sorted(folder for folder in map(Path, found_at) if folder.is_dir())
    if len(folders) < 2:
        found = f"one: {folders[0]}" if folders else "none"
        raise StapoError(
            f"'{pattern}': expected a pattern that matches the run folders of at least two trainings of a method, got "
            f"{found}; quote the pattern, or the shell replaces it by what it matches"
        )
    runs = tuple(load_run(folder, grader) for folder in folders)
    check_trainings(runs)
    named = {run.manifest.about.method for run in runs}
    stem = re.sub(r"[^\w)]+$", "", re.split(r"[*?\[]", Path(pattern).name)[0]) or pattern
    label = named.pop() if len(named) == 1 else None
    return Method(name=stem, label=label or stem, runs=runs)


def methods_among(runs: Sequence[LoadedRun]) -> list[tuple[Method, ...]]:
    """Methods with at least two trainings, for each model and way of evaluating that has two such methods.

    The runs say which method they are of; of each, the last training step counts.
    """
    alike: dict[tuple[Any, ...], dict[str, list[LoadedRun]]] = {}
    for run in runs:
        if (label := run.manifest.about.method) is not None:
            key = (run.manifest.about.model, run.manifest.identity.sampling, run.grader, tuple(run.tasks))
            alike.setdefault(key, {}).setdefault(label, []).append(run)
    groups = []
    for by_label in alike.values():
        methods = []
        for label, found in by_label.items():
            last = max(run.manifest.about.step or 0 for run in found)
            trained = tuple(run for run in found if (run.manifest.about.step or 0) == last)
            if _are_trainings(trained):
                methods.append(Method(name=label, label=label, runs=trained))
        if len(methods) > 1:
            groups.append(tuple(methods))
    return groups


def _are_trainings(runs: Sequence[LoadedRun]) -> bool:
    """Whether there are several, all of different weights."""
    try:
        check_trainings(runs)
    except StapoError:
        return False
    return len(runs) > 1 and not same_weights(runs[0], runs[1])


def check_trainings(runs: Sequence[LoadedRun]) -> None:
    """Raise StapoError unless the runs can be trainings of one method, each with its own seed."""
    models = {run.name: run.manifest.about.model for run in runs if run.manifest.about.model is not None}
    if len(set(models.values())) > 1:
        listed = ", ".join(f"{model} in {name}" for name, model in models.items())
        raise StapoError(f"expected one base model within a method, got {listed}; give each a pattern of its own")
    sampled_once = all(same_weights(runs[0], run) for run in runs)
    for a, b in combinations(runs, 2):
        if a.manifest.digest == b.manifest.digest:
            raise StapoError(f"{a.name} and {b.name}: expected two runs, got one twice; leave the copy out")
        if same_weights(a, b) and not sampled_once:
            raise StapoError(
                f"{a.name} and {b.name}: expected a training each, got the same weights twice; leave one out, or it "
                "counts as a seed that was never trained"
            )
        paths = [Path(run.manifest.about.checkpoint or "") for run in (a, b)]
        steps = [path for path in paths if _STEP.fullmatch(path.name)]
        if not sampled_once and len(steps) == 2 and steps[0].parent == steps[1].parent:
            raise StapoError(
                f"{a.name} and {b.name}: expected a training each, got two checkpoints of one ({steps[0]}, "
                f"{steps[1]}); leave one out, 'stapo-bench curve' compares checkpoints"
            )


def compare_methods(methods: Sequence[Method], margin: float = MARGIN, detect: float = MARGIN) -> MethodComparison:
    """Compare every two methods; p-values and ties are corrected for all pairs together.

    Args:
        methods: at least two.
        margin: methods are "tied" when their difference is shown to lie within it, a fraction.
        detect: the true difference for which seeds are counted.

    Raises:
        StapoError: runs that cannot be compared: a run in two methods, other tasks, decoding or grader.
    """
    if len(methods) < 2:
        raise StapoError(f"expected at least two methods, got {len(methods)}; give a pattern for each")
    methods = _named_apart(methods)
    notes = list(_check_parity(methods))
    runs = [run for method in methods for run in method.runs]
    tasks = {task: shared_problems(runs, task) for task in runs[0].tasks}
    if apart := [task for task, ids in tasks.items() if not ids]:
        raise StapoError(f"{apart[0]}: the runs have no problem in common; compare runs of the same data")
    outcomes = {
        method.name: [{task: run.outcomes[task].of(ids) for task, ids in tasks.items()} for run in method.runs]
        for method in methods
    }
    notes += missing_samples(runs, tasks)
    notes += stopped_note(runs, "its number of samples depends on them; the spread over seeds counts as it is")
    pairs = compare_over_seeds(
        outcomes,
        list(combinations(outcomes, 2)),
        margin,
        seeds={method.name: method.seeds for method in methods},
    )
    found = [(method, means_by_task(outcomes[method.name])) for method in methods]
    return MethodComparison(
        methods=tuple(
            MethodScore(
                name=method.name,
                label=method.label,
                runs=tuple(run.name for run in method.runs),
                seeds=method.seeds,
                tasks={task: float(np.nanmean(of_task)) for task, of_task in zip(tasks, means, strict=True)},
                value=over_seeds(means, SEED_ERRORS[0]).value,
                deviation=over_seeds(means, SEED_ERRORS[0]).standard_error * len(method.runs) ** 0.5,
                intervals={error: _of_score(over_seeds(means, error)) for error in SEED_ERRORS},
                rank=_rank(method.name, pairs),
            )
            for method, means in found
        ),
        pairs=tuple(pairs),
        needed=tuple({error: seeds_needed(pair.spread, detect, error) for error in SEED_ERRORS} for pair in pairs),
        detect=detect,
        margin=margin,
        titles={task: runs[0].title(task) for task in tasks},
        notes=tuple(dict.fromkeys(notes)),
    )


def _of_score(found: Difference) -> Interval:
    """The interval of a score: a problem that was not drawn is not one that did not change."""
    interval = replace(found, unseen=(0.0, 0.0)).interval()
    if math.isnan(interval.low):
        return interval
    return Interval(low=max(interval.low, 0.0), high=min(interval.high, 1.0))


def _named_apart(methods: Sequence[Method]) -> list[Method]:
    """Methods under their labels where these tell them apart, else under their patterns' names, else numbered."""
    for names in ([m.label for m in methods], [m.name for m in methods]):
        if len(set(names)) == len(methods):
            return [replace(method, name=name) for method, name in zip(methods, names, strict=True)]
    return [replace(method, name=f"{method.name} ({number})") for number, method in enumerate(methods, start=1)]


def _check_parity(methods: Sequence[Method]) -> Iterator[str]:
    """Raise StapoError for what cannot be compared; yields what asks for caution."""
    runs = [run for method in methods for run in method.runs]
    places: dict[Path, str] = {}
    for method in methods:
        for run in method.runs:
            place = run.manifest.run_dir.resolve()
            if place in places:
                raise StapoError(
                    f"{run.name}: expected each run in one method, got it in {places[place]} and {method.name}; make "
                    "the patterns match different folders"
                )
            places[place] = method.name
    first, *others = runs
    for run in others:
        if set(run.tasks) != set(first.tasks):
            raise StapoError(
                f"expected the same tasks in all runs, got {', '.join(first.tasks)} in {first.name} and "
                f"{', '.join(run.tasks)} in {run.name}; leave one out or evaluate what is missing"
            )
        for item in parity(first, run):
            if item.weight == "confounds":
                raise StapoError(
                    f"expected runs that differ in their weights and seeds alone, got {item.field}: {item.a} in "
                    f"{first.name}, {item.b} in {run.name}; compare runs that were evaluated alike"
                )
            if item.weight == "caution":
                yield f"with caution: {item.field}: {item.a} in {first.name}, {item.b} in {run.name}"
    if len(models := {run.manifest.about.model for run in runs}) > 1:
        yield f"with caution: the base models differ: {', '.join(sorted(map(str, models)))}"
    for method in methods:
        if all(same_weights(method.runs[0], run) for run in method.runs):
            yield (
                f"{method.name} is one checkpoint, sampled {len(method.runs)} times: its spread is that of samples, "
                "not of trainings"
            )
        elif len(set(method.seeds)) < len(method.runs):
            yield (
                f"runs of {method.name} share a sampling seed: where their models are alike so is their noise, which "
                "the spread over seeds cannot show; sample each with a --seed of its own"
            )


def _rank(name: str, pairs: Sequence[SeedComparison]) -> tuple[int, int]:
    """1 + the number of methods shown to be better, and the number of methods less those shown to be worse."""
    verdicts = [(pair.name_b == name, pair.effects[1].verdict) for pair in pairs if name in (pair.name_a, pair.name_b)]
    above = sum(verdict == ("worse" if is_b else "better") for is_b, verdict in verdicts)
    below = sum(verdict == ("better" if is_b else "worse") for is_b, verdict in verdicts)
    return 1 + above, len(verdicts) + 1 - below
