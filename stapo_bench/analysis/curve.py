"""avg@k over the checkpoints of a training run, with simultaneous bands and a corrected value of the best checkpoint.

    curve_runs([Path("results/step-0"), Path("results/step-20"), Path("results/step-40")])

The bands are simultaneous: with probability 95 % the whole curve of differences to the first checkpoint lies inside.
Checkpoints share problems, so their errors are correlated and the critical value is found by simulation: the quantile
of the maximum over steps of |t|, under a multiplier bootstrap over problems (Hothorn, Bretz and Westfall 2008 on max-t;
Chernozhukov, Chetverikov and Kato 2013 on the multiplier bootstrap). A band is the interval of ``compare`` at the level
that belongs to this value: gains of few problems are as skewed, and as little seen, on a curve as between two runs.

The best of many steps looks better than it is, because it was picked for its luck. Its value is therefore estimated on
samples that did not pick it: the step that is best on one half of the samples is scored on the other half, both ways.
That removes the luck of samples. The luck of problems stays: a step whose change happens to suit these problems is best
on both halves, and its value holds for these problems, not for problems like these. The bands cover that luck, too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stapo_bench.analysis.common_problems import decided_by_all, missing_samples, shared_tasks
from stapo_bench.analysis.early_stopping import aim_of, at_every_look, stopped_note
from stapo_bench.analysis.parity_gate import parity
from stapo_bench.errors import StapoError, watched
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import LoadedRun, load_run
from stapo_bench.statistics import (
    Interval,
    Matrix,
    Vector,
    confidence_of,
    mean_difference,
    paired_difference,
    problem_means,
    t_quantile,
)

_BOOTSTRAPS = 4000

Steps = NDArray[np.float64]
"""[num_steps, num_problems]"""


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One run on the curve. ``gain`` is over the first, with its simultaneous band."""

    name: str
    step: int | None  # of this training, None of its base; on a curve over token budgets the budget
    value: float  # mean over tasks of avg@k
    gain: float
    band: Interval
    tokens: float | None = None  # of a curve over token budgets: mean over tasks of a sample's tokens


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The checkpoints of one training run under equal settings."""

    tasks: tuple[str, ...]
    points: tuple[CurvePoint, ...]  # in order of their steps; the first is the reference
    critical: float  # standard errors in half a band
    best: int  # index of the highest point
    best_value: float  # as picked: too high
    best_corrected: float  # estimated on samples that did not pick it
    first_above: int | None  # index of the first point whose band lies above 0
    notes: tuple[str, ...] = ()


def curve_runs(run_dirs: Sequence[Path], grader: str = DEFAULT_GRADER) -> Curve:
    """The curve of several run folders: the first is the base, the others follow in order of their training steps.

    Where a checkpoint does not state its step, the order is the one given, and a note says so. Where the first is a
    later checkpoint of the training itself, as a shell's order may have it, all stand by their steps; a note says so.

    Raises:
        StapoError: fewer than two runs, checkpoints of more than one training or model, no task or problem in common,
            or settings differ besides the weights.
    """
    return step_curve([load_run(path, grader) for path in watched(run_dirs, "reading", "runs", len(run_dirs))])


def step_curve(runs: Sequence[LoadedRun]) -> Curve:
    """``curve_runs`` for runs that were read before."""
    if len(runs) < 2:
        raise StapoError(f"expected at least two runs (checkpoints of one training run), got {len(runs)}")
    _refuse_other_trainings(runs)
    order = []
    unstated = [run.name for run in runs[1:] if run.manifest.about.step is None]
    if not unstated:
        named_first = runs[0]
        by_step = sorted(runs, key=_step)
        is_part = any(_training(run) == _training(named_first) is not None for run in by_step[:1])
        runs = by_step if is_part else [named_first, *(run for run in by_step if run is not named_first)]
        if runs[0] is not named_first:
            order.append(f"{named_first.name}, named first, is a later checkpoint of this training than {runs[0].name}")
    for run in runs[1:]:
        if confounders := [str(item) for item in parity(runs[0], run) if item.weight == "confounds"]:
            raise StapoError(f"{run.name} and {runs[0].name} differ besides the weights: {'; '.join(confounders)}")
    steps = [run.manifest.about.step for run in runs]
    if _training(runs[0]) not in map(_training, runs[1:]):
        steps[0] = None  # a base's own are of another training
    if unstated and len(runs) > 2:
        order.append(f"{', '.join(unstated)}: no training step is stated, so the runs stand in the order given")
    found = curve_in_order(runs, steps)
    return replace(found, notes=(*order, *found.notes))


def curve_in_order(runs: Sequence[LoadedRun], steps: Sequence[int | None]) -> Curve:
    """The curve of runs as they stand, over the tasks and problems that all have; notes say what is missing of these.

    Raises:
        StapoError: no task, or no two problems in common.
    """
    tasks = shared_tasks(runs)
    matrices = [decided_by_all([run.outcomes[task] for run in runs]) for task in tasks]
    if not matrices or any(len(of_task[0]) < 2 for of_task in matrices):
        raise StapoError("expected at least one task, and two problems of each, that all runs have sampled")
    found = curve(matrices, [run.name for run in runs], steps, tasks, [aim_of(run) for run in runs])
    widened = "bands that involve it are widened to hold at every look (anytime-valid); the corrected best is not"
    return replace(found, notes=(*missing_samples(runs, tasks), *stopped_note(runs, widened)))


def curve(
    matrices: Sequence[Sequence[Matrix]],
    names: Sequence[str],
    steps: Sequence[int | None],
    tasks: Sequence[str],
    aims: Sequence[float | None] = (),
) -> Curve:
    """The curve of outcome matrices.

    Args:
        matrices: by task, then by checkpoint: [num_problems, num_samples] over the same problems.
        names, steps: of the checkpoints, the reference first.
        tasks: names.
        aims: of the checkpoints whose samples decided when to stop, see ``sequential``; empty: none did.
    """
    means = [np.stack([problem_means(run) for run in of_task]) for of_task in matrices]  # [num_steps, num_problems]
    values: Vector = np.mean([m.mean(axis=1) for m in means], axis=0)
    gains = values - values[0]
    later = [
        mean_difference([paired_difference(of_task[0], of_task[step], "problems like these") for of_task in matrices])
        for step in range(1, len(names))
    ]
    critical = _simultaneous([m[1:] - m[0] for m in means])
    aims = aims or [None] * len(names)
    wider = [at_every_look(step, [aims[0], own]) for step, own in zip(later, aims[1:], strict=True)]
    bands = [
        Interval(low=0.0, high=0.0),
        *(step.interval(confidence_of(critical, step.degrees)) for step in wider),
    ]
    above = [i for i, band in enumerate(bands) if band.low > 0]
    best = int(np.argmax(values))
    return Curve(
        tasks=tuple(tasks),
        points=tuple(
            CurvePoint(name=names[i], step=steps[i], value=float(values[i]), gain=float(gains[i]), band=bands[i])
            for i in range(len(names))
        ),
        critical=critical,
        best=best,
        best_value=float(values[best]),
        best_corrected=_held_out_best(matrices),
        first_above=above[0] if above else None,
    )


def _refuse_other_trainings(runs: Sequence[LoadedRun]) -> None:
    """Raise StapoError unless the runs are a base and the checkpoints of one training, as far as they state it."""
    base, *rest = runs
    members: dict[str, list[str]] = {}
    for run in rest:
        if (training := _training(run)) is not None:
            members.setdefault(training, []).append(run.name)
    if len(members) > 1:
        found = " and ".join(f"{names[0]} ({len(names)})" for names in members.values())
        raise StapoError(
            f"expected the base and the checkpoints of one training, got those of {len(members)}, as of {found}; "
            "draw a curve for each with the same base, and compare two checkpoints with 'stapo-bench compare'"
        )
    for run in rest:
        model, first = run.manifest.about.model, base.manifest.about.model
        if run.manifest.about.step is None and None not in (model, first) and model != first:
            raise StapoError(
                f"expected the checkpoints of one training, got {base.name} of model {first} and {run.name} of model "
                f"{model}, which states no training step ('stapo-bench import --step N' would); "
                "'stapo-bench compare' compares two models"
            )


def _step(run: LoadedRun) -> int:
    return run.manifest.about.step or 0


def _training(run: LoadedRun) -> str | None:
    """The training a run's checkpoint belongs to: its own statement, else its method; None where no step is stated."""
    about = run.manifest.about
    return None if about.step is None else about.training or f"{about.method} on {about.model}"


def _simultaneous(gains: Sequence[Steps]) -> float:
    """The 95 % quantile of max |t| over steps.

    ``gains``: by task, [num_steps, num_problems]. The bootstrap multiplies each problem's residual by an independent
    standard normal, the same for all steps; dividing by the root of a chi-square over its degrees makes it Student's.
    """
    rng = np.random.default_rng(0)
    num_steps = gains[0].shape[0]
    variance, shifts = np.zeros(num_steps), np.zeros((_BOOTSTRAPS, num_steps))
    for of_task in gains:
        num = of_task.shape[1]
        residuals = of_task - of_task.mean(axis=1, keepdims=True)
        scale = 1.0 / (len(gains) * math.sqrt(num * (num - 1)))
        shifts += rng.standard_normal((_BOOTSTRAPS, num)) @ residuals.T * scale
        variance += (residuals**2).sum(axis=1) * scale**2
    errors = np.where(variance > 0, np.sqrt(variance), math.inf)  # a step without any variation is never the largest
    degrees = min(of_task.shape[1] for of_task in gains) - 1
    student = np.sqrt(rng.chisquare(degrees, _BOOTSTRAPS) / degrees)
    critical = float(np.quantile(np.abs(shifts / errors).max(axis=1) / student, 0.95))
    return max(critical, t_quantile(0.95, degrees))


def _held_out_best(matrices: Sequence[Sequence[Matrix]]) -> float:
    """Pick the best step on one half of the samples, score it on the other; mean of both ways; NaN without halves."""
    if any(run.shape[1] < 2 for of_task in matrices for run in of_task):
        return math.nan
    halves: list[Vector] = [
        np.mean([[np.nanmean(problem_means(run[:, first::2])) for run in of_task] for of_task in matrices], axis=0)
        for first in (0, 1)
    ]
    picked = [int(np.argmax(half)) for half in halves]
    return (float(halves[1][picked[0]]) + float(halves[0][picked[1]])) / 2
