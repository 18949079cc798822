"""Lines from runs: accuracy over training steps, pass@k, and accuracy under smaller token limits."""

from collections.abc import Sequence

import numpy as np

from stapo_bench.figures.groups import by_setting, in_order, is_base
from stapo_bench.figures.lines import Line, Lines, Panel
from stapo_bench.figures.sources import Sources
from stapo_bench.figures.style import rank
from stapo_bench.scores import RunScore
from stapo_bench.truncation import truncation

ACCURACY = "mean avg@k (%)"
"""The macro average: every task has the same weight."""

Point = tuple[float, Sequence[RunScore]]
"""Where on the x axis, with the runs that are one point there: several where there are several training seeds."""


def trajectories(scores: Sequence[RunScore]) -> dict[str, list[Point]]:
    """Steps of each method, the base model at step 0; a method that is seen at one step only is left out."""
    of_method: dict[tuple[str | None, str], dict[int, list[RunScore]]] = {}
    for score in scores:
        if not is_base(score):
            of_method.setdefault((score.model, score.method), {}).setdefault(score.step or 0, []).append(score)
    for (model, _), steps in of_method.items():
        if base := [score for score in scores if is_base(score) and model in (score.model, score.method)]:
            steps[0] = base
    models = {model for model, _ in of_method}
    return {
        method if len(models) == 1 else f"{method}, {model}": [(float(step), steps[step]) for step in sorted(steps)]
        for (model, method), steps in sorted(of_method.items(), key=lambda item: rank(item[0][1]))
        if len(steps) > 1
    }


def lacks_steps(sources: Sources) -> str | None:
    """One method at two steps at least."""
    if any(trajectories(group) for group in by_setting(sources.scores).values()):
        return None
    return (
        f"expected runs of one method at two training steps, evaluated alike (the base model is step 0), got "
        f"{len(sources.runs)} runs; 'stapo-bench eval --ckpt RUN/checkpoints/step-000020 ...' makes one"
    )


def accuracy(sources: Sources) -> Lines:
    """Mean over tasks of avg@k over training steps; a panel per way of decoding."""
    found = {title: trajectories(group) for title, group in by_setting(sources.scores).items()}
    has_seeds = seeded([points for of_title in found.values() for points in of_title.values()])
    panels = [
        Panel(
            title=title,
            lines=tuple(averages(label, 0, points, has_seeds) for label, points in of_title.items()),
            x_label="training step",
        )
        for title, of_title in found.items()
        if of_title
    ]
    return Lines(panels=tuple(panels), y_label=ACCURACY, spread=spread_name(has_seeds), percent=True)


def seeded(lines: Sequence[Sequence[Point]]) -> bool:
    """Is a point the mean of several trained checkpoints?"""
    return any(sum(not is_base(run) for run in runs) > 1 for points in lines for _, runs in points)


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
        method=points[-1][1][0].method,
        variant=variant,
        x=tuple(x for x, _ in points),
        y=tuple(float(np.mean(at)) for at in values),
        low=tuple(low for low, _ in ends),
        high=tuple(high for _, high in ends),
    )


def lacks_passes(sources: Sources) -> str | None:
    """A task with two samples of every problem."""
    if any(len(task.pass_at) > 1 for score in sources.scores for task in score.tasks):
        return None
    return "expected a run with two samples or more of each problem, got none; 'stapo-bench eval --samples 4' makes one"


def pass_at_k(sources: Sources) -> Lines:
    """pass@k for k = 1, 2, 4, …: a panel per task and way of decoding, a line per run."""
    panels = []
    for words, group in by_setting(sources.scores).items():
        for task, title in {task.task: task.title for score in group for task in score.tasks}.items():
            lines = [
                Line(
                    label=name,
                    method=score.method,
                    variant=variant,
                    x=tuple(map(float, of_task.pass_at)),
                    y=tuple(of_task.pass_at.values()),
                )
                for name, variant, score in in_order(group)
                for of_task in score.tasks
                if of_task.task == task and len(of_task.pass_at) > 1
            ]
            if lines:
                panels.append(Panel(title=f"{title}\n{words}".strip(), lines=tuple(lines), x_label="k", log_x=2))
    return Lines(panels=tuple(panels), y_label="pass@k (%)", percent=True, share_y=False)


def budget(sources: Sources) -> Lines:
    """Mean over tasks of avg@k if the token limit had been smaller; longer samples count as wrong: a lower bound."""
    loaded = dict(zip((id(score) for score in sources.scores), sources.loaded, strict=True))
    panels = []
    for title, group in by_setting(sources.scores).items():
        lines = []
        for name, variant, score in in_order(group):
            curves = [dict(task.curve) for task in truncation(loaded[id(score)])]
            lines.append(
                Line(
                    label=name,
                    method=score.method,
                    variant=variant,
                    x=tuple(map(float, curves[0])),
                    y=tuple(float(np.mean([curve[limit] for curve in curves])) for limit in curves[0]),
                )
            )
        panels.append(Panel(title=title, lines=tuple(lines), x_label="token limit", log_x=2))
    return Lines(panels=tuple(panels), y_label=ACCURACY, percent=True)
