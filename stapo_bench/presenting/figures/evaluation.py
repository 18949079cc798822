"""Lines from runs: accuracy over training steps, pass@k, and accuracy under smaller token limits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stapo_bench.analysis import RunScore
from stapo_bench.presenting.figures.groups import by_setting, in_order, is_base, lacks_runs, names
from stapo_bench.presenting.figures.lines import Line, Lines, Panel, by_method, mean_and_ends
from stapo_bench.presenting.figures.sources import Sources, TrainingLog, trained_in
from stapo_bench.presenting.figures.style import rank
from stapo_bench.presenting.figures.training import SeedGroup, experiments

ACCURACY = "mean avg@k (%)"
"""The macro average: every task has the same weight."""

Point = tuple[float, Sequence[RunScore]]
"""A position on the x axis with its runs, averaged to one point: several where there are several training seeds."""


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """The evaluated checkpoints of one training, or of the seeds of one experiment."""

    label: str
    variant: int  # among those of its method
    points: tuple[Point, ...]  # in order of training steps; the base model is at 0


def trajectories(scores: Sequence[RunScore], trainings: Sequence[TrainingLog] = ()) -> list[Trajectory]:
    """Runs by training; those that are seen at one step only are left out.

    Checkpoints belong together when they lie in one training's folder. Logs say more: which trainings differ in nothing
    but the seed, and in which settings others differ.
    """
    known = experiments(trainings)
    bases = [score for score in scores if is_base(score, scores)]
    found: dict[_Key, dict[int, dict[str, RunScore]]] = {}
    for score in scores:
        if score.step is not None and not is_base(score, scores):
            path = Path(score.checkpoint)
            experiment = _made_by(known, score)
            key = _Key(
                label=experiment.label if experiment else score.method,
                model=score.model or "",
                folder=None if experiment else trained_in(path),
            )
            found.setdefault(key, {}).setdefault(score.step, {}).setdefault(score.checkpoint, score)
    trained: list[Trajectory] = []
    for key, steps in sorted(found.items(), key=lambda item: _order(item[1])):
        for base in bases:
            if key.model in (base.model, base.method):
                steps[0] = {base.checkpoint: base}
        points = tuple((float(step), tuple(steps[step].values())) for step in sorted(steps))
        if len(points) > 1:
            variant = sum(_method(other.points) == _method(points) for other in trained)
            trained.append(Trajectory(label=key.apart_from(found), variant=variant, points=points))
    return trained


def _made_by(known: Sequence[SeedGroup], score: RunScore) -> SeedGroup | None:
    """The experiment that trained a run's checkpoint, where its log is there."""
    return next((e for e in known if any(t.has_made(Path(score.checkpoint)) for t in e.members)), None)


class _Key(NamedTuple):
    """The key that joins checkpoints to one line; with the folder only where no log names their experiment."""

    label: str
    model: str
    folder: Path | None

    def apart_from(self, others: Iterable["_Key"]) -> str:
        """The label, with as much of the rest as distinguishes it from others of that label."""
        twins = [other for other in others if other.label == self.label]
        folders = {other.folder for other in twins}
        parts = [self.label]
        if len({other.model for other in twins}) > 1:
            parts.append(self.model)
        if self.folder is not None and len(folders) > 1:
            names = [folder.name for folder in folders if folder is not None]
            parts.append(self.folder.name if names.count(self.folder.name) == 1 else str(self.folder))
        return ", ".join(parts)


def _method(points: Sequence[Point]) -> str:
    return points[-1][1][0].method


def _order(steps: Mapping[int, Mapping[str, RunScore]]) -> tuple[int, str]:
    return rank(next(iter(steps[max(steps)].values())).method)


def lacks_steps(sources: Sources) -> str | None:
    """What is missing unless there is a training evaluated at two steps."""
    if any(trajectories(group, sources.trainings) for group in by_setting(sources.scores).values()):
        return None
    return (
        f"expected runs of one training at two of its steps, evaluated alike (the base model is step 0), got "
        f"{len(sources.runs)} runs; 'stapo-bench eval --ckpt RUN/checkpoints/step-000020 ...' makes one"
    )


def accuracy(sources: Sources) -> Lines:
    """Mean over tasks of avg@k over training steps; a panel per way of decoding."""
    found = {
        title: of_title
        for title, group in by_setting(sources.scores).items()
        if (of_title := trajectories(group, sources.trainings))
    }
    has_seeds = seeded([trajectory.points for of_title in found.values() for trajectory in of_title])
    panels = [
        Panel(
            title=title,
            lines=tuple(averages(t.label, t.variant, t.points, has_seeds) for t in of_title),
            x_label="training step",
        )
        for title, of_title in found.items()
    ]
    return by_method(Lines(panels=tuple(panels), y_label=ACCURACY, spread=spread_name(has_seeds), percent=True))


def seeded(lines: Sequence[Sequence[Point]]) -> bool:
    """Whether a point is the mean of several trained checkpoints."""
    return any(len(runs) > 1 for points in lines for _, runs in points)


def spread_name(has_seeds: bool) -> str:
    """What bands and error bars of ``averages`` are."""
    return "min–max over training seeds" if has_seeds else "95 % interval, these problems"


def averages(label: str, variant: int, points: Sequence[Point], has_seeds: bool) -> Line:
    """Mean over tasks of avg@k. With several training seeds their spread is shown, else the noise of sampling."""
    values = [[run.macro.value for run in runs] for _, runs in points]
    if has_seeds:
        ends = [(min(at), max(at)) for at in values]
    else:
        ends = [(runs[0].macro.these_problems.low, runs[0].macro.these_problems.high) for _, runs in points]
    return Line(
        label=label,
        method=_method(points),
        variant=variant,
        x=tuple(x for x, _ in points),
        y=tuple(float(np.mean(at)) for at in values),
        low=tuple(low for low, _ in ends),
        high=tuple(high for _, high in ends),
    )


def lacks_passes(sources: Sources) -> str | None:
    """What is missing unless there is a task with two samples of every problem."""
    if any(len(task.pass_at) > 1 for score in sources.scores for task in score.tasks):
        return None
    return "expected a run with two samples or more of each problem, got none; 'stapo-bench eval --samples 4' makes one"


class Joined(NamedTuple):
    """Runs that are one line: they differ in nothing but seeds."""

    name: str
    variant: int  # among the lines of its method
    scores: tuple[RunScore, ...]


class _Origin(NamedTuple):
    """The key that joins runs to one line; sorts in the order of tables."""

    rank: tuple[int, str]
    experiment: int  # its place among those known; behind the last: no log says which
    step: int
    model: str
    checkpoint: str  # "" of a known experiment


def joined(scores: Sequence[RunScore], trainings: Sequence[TrainingLog]) -> list[Joined]:
    """Runs by experiment and training step, or by checkpoint where no log is there, in the order of tables.

    A checkpoint that was run twice with the same sampling seed was run in two ways: such runs stay apart.
    """
    known = experiments(trainings)
    groups: dict[_Origin, list[RunScore]] = {}
    for number, score in enumerate(scores):
        maker = _made_by(known, score)
        origin = _Origin(
            rank=rank(score.method),
            experiment=known.index(maker) if maker else len(known),
            step=score.step or 0,
            model=score.model or "",
            checkpoint="" if maker else score.checkpoint or f"unknown {number}",
        )
        groups.setdefault(origin, []).append(score)
    parts = [
        (origin, part)
        for origin, group in sorted(groups.items(), key=lambda item: item[0][:3])
        for part in ([group] if _differ_in_seeds(group) else [[score] for score in group])
    ]
    firsts = [part[0] for _, part in parts]
    labels = [
        known[origin.experiment].label if origin.experiment < len(known) else first.method
        for (origin, _), first in zip(parts, firsts, strict=True)
    ]
    methods = [first.method for first in firsts]
    return [
        Joined(name, methods[:place].count(methods[place]), tuple(part))
        for place, (name, (_, part)) in enumerate(zip(names(firsts, labels), parts, strict=True))
    ]


def _differ_in_seeds(scores: Sequence[RunScore]) -> bool:
    """Whether each is another training, or the same with another sampling seed."""
    return len({(trained_in(Path(score.checkpoint)), score.seed) for score in scores}) == len(scores)


def pass_at_k_lines(sources: Sources) -> Lines:
    """pass@k for k = 1, 2, 4, …: a panel per task and way of decoding, a line per experiment or run."""
    panels = []
    spreads: set[str] = set()
    for words, group in by_setting(sources.scores).items():
        found = joined(group, sources.trainings)
        spreads |= {_spread_of(runs) for runs in found if len(runs.scores) > 1}
        for task, title in {task.task: task.title for score in group for task in score.tasks}.items():
            lines = [_passes(runs, task) for runs in found]
            if kept := tuple(line for line in lines if len(line.x) > 1):
                panels.append(Panel(title=f"{title}\n{words}".strip(), lines=kept, x_label="k", log_x=2))
    return Lines(
        panels=tuple(panels),
        y_label="pass@k (%)",
        spread=max(spreads, default=""),  # "training" sorts behind "sampling"; the caption explains both
        percent=True,
        share_y=False,
    )


def _spread_of(runs: Joined) -> str:
    several = len({score.checkpoint for score in runs.scores}) > 1
    return spread_name(has_seeds=True) if several else "min–max over sampling seeds"


def _passes(runs: Joined, task: str) -> Line:
    """pass@k of one task, the mean over the runs, for every k that all of them have."""
    tables = [of_task.pass_at for score in runs.scores for of_task in score.tasks if of_task.task == task]
    ks = sorted(set.intersection(*map(set, tables)))
    mean, low, high = mean_and_ends([[table[k] for k in ks] for table in tables])
    return Line(
        label=runs.name,
        method=runs.scores[0].method,
        variant=runs.variant,
        x=tuple(map(float, ks)),
        y=mean,
        low=low,
        high=high,
    )


def passes_note(data: Lines) -> str:
    """What a line of pass@k is: it depends on the seeds that there are."""
    over = " Lines are means over training seeds; of a checkpoint that was sampled with several seeds, over those."
    return "Unbiased estimate (Chen et al. 2021)." + over * bool(data.spread)


def lacks_lengths(sources: Sources) -> str | None:
    """What is missing unless there is a run whose samples' lengths are known."""
    if not sources.runs:
        return lacks_runs(sources)
    if any(sources.at_token_limits):
        return None
    return "expected a run that knows how many tokens its samples have; the lengths are unknown in all of these"


def budget(sources: Sources) -> Lines:
    """Mean over tasks of avg@k if the token limit had been smaller; longer samples count as wrong: a lower bound."""
    curves_of = dict(zip((id(score) for score in sources.scores), sources.at_token_limits, strict=True))
    panels = []
    for title, group in by_setting(sources.scores).items():
        lines = []
        for name, variant, score in in_order(group):
            curves = curves_of[id(score)]
            limits = tuple(curves[0]) if curves else ()
            lines.append(
                Line(
                    label=name if curves else f"{name} (lengths unknown)",
                    method=score.method,
                    variant=variant,
                    x=tuple(map(float, limits)),
                    y=tuple(float(np.mean([curve[limit] for curve in curves])) for limit in limits),
                )
            )
        if any(line.x for line in lines):
            panels.append(Panel(title=title, lines=tuple(lines), x_label="token limit", log_x=2))
    return Lines(panels=tuple(panels), y_label=ACCURACY, percent=True)
