"""Lines from runs: accuracy over training steps, pass@k, and accuracy under smaller token limits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stapo_bench.figures.lines import Line, Lines, Panel
from stapo_bench.figures.sources import Sources, setting
from stapo_bench.figures.style import rank
from stapo_bench.rows import sampling_in_words
from stapo_bench.scores import RunScore
from stapo_bench.truncation import truncation

_SAMPLING_NOISE = "95 % interval, these problems"
_SEEDS = "min–max over training seeds"

Step = tuple[int, list[RunScore]]
"""A training step with the runs of its checkpoints: several where there are several seeds."""


def in_words(score: RunScore) -> str:
    """How a run decoded."""
    return sampling_in_words(score.temperature, score.top_p)


def by_setting(scores: Sequence[RunScore]) -> dict[str, list[RunScore]]:
    """Runs whose averages may be compared, by a name for what they share."""
    groups: dict[tuple[Any, ...], list[RunScore]] = {}
    for score in scores:
        groups.setdefault(setting(score), []).append(score)
    words = [in_words(group[0]) for group in groups.values()]
    return {
        word
        if words.count(word) == 1
        else f"{word}, at most {group[0].max_new_tokens} tokens, "
        + ", ".join(f"{task.title} @{task.samples_per_problem}" for task in group[0].tasks): group
        for word, group in zip(words, groups.values(), strict=True)
    }


def is_base(score: RunScore) -> bool:
    """A model that no objective has trained; the tiny base counts the steps that made it."""
    return not score.step or score.method.casefold() == "base"


def trajectories(scores: Sequence[RunScore]) -> dict[str, list[Step]]:
    """Steps of each method, the base model at step 0; a method that is seen at one step only is left out."""
    of_method: dict[tuple[str | None, str], dict[int, list[RunScore]]] = {}
    for score in scores:
        if not is_base(score):
            of_method.setdefault((score.model, score.method), {}).setdefault(score.step or 0, []).append(score)
    for (model, _), steps in of_method.items():
        if base := [s for s in scores if is_base(s) and model in (s.model, s.method)]:
            steps[0] = base
    models = {model for model, _ in of_method}
    return {
        method if len(models) == 1 else f"{method}, {model}": sorted(steps.items())
        for (model, method), steps in sorted(of_method.items(), key=lambda item: rank(item[0][1]))
        if len(steps) > 1
    }


def lacks_steps(sources: Sources) -> str | None:
    """One method at two steps at least."""
    if any(trajectories(group) for group in by_setting(sources.scores).values()):
        return None
    return (
        f"expected runs of one method at two training steps at least, evaluated alike (the base model is step 0), got "
        f"{len(sources.runs)} runs; 'stapo-bench eval --ckpt RUN/checkpoints/step-000020 ...' makes one"
    )


def accuracy(sources: Sources) -> Lines:
    """Mean over tasks of avg@k over training steps; a panel per way of decoding."""
    found = {words: trajectories(group) for words, group in by_setting(sources.scores).items()}
    seeded = any(
        len(runs) > 1 for steps_of in found.values() for steps in steps_of.values() for step, runs in steps if step
    )
    panels = [
        Panel(
            title=words if len(found) > 1 else "",
            lines=tuple(_trajectory(label, steps, seeded=seeded) for label, steps in steps_of.items()),
        )
        for words, steps_of in found.items()
        if steps_of
    ]
    return Lines(
        panels=tuple(panels),
        x_label="training step",
        y_label="avg@k, mean over tasks (%)",
        band=_SEEDS if seeded else _SAMPLING_NOISE,
        percent=True,
    )


def _trajectory(label: str, steps: Sequence[Step], *, seeded: bool) -> Line:
    """With several seeds their spread is the band, else sampling noise."""
    values = [[run.macro.value for run in runs] for _, runs in steps]
    if seeded:
        ends = [(min(of_step), max(of_step)) for of_step in values]
    else:
        ends = [(runs[0].macro.these_problems.low, runs[0].macro.these_problems.high) for _, runs in steps]
    return Line(
        label=label,
        method=steps[-1][1][0].method,
        x=tuple(float(step) for step, _ in steps),
        y=tuple(float(np.mean(of_step)) for of_step in values),
        low=tuple(low for low, _ in ends),
        high=tuple(high for _, high in ends),
    )


def lacks_runs(sources: Sources) -> str | None:
    """One run at least."""
    return None if sources.runs else "expected a run folder, got none; 'stapo-bench eval' makes one"


def names(scores: Sequence[RunScore]) -> list[str]:
    """A name per run that tells it from the others: method, then step, model and folder as needed."""
    found = [score.method for score in scores]
    for extras in (
        [f" @{score.step}" if score.step else "" for score in scores],
        [f", {score.model}" if score.model else "" for score in scores],
        [f", {score.run}" for score in scores],
    ):
        found = [name + extra * (found.count(name) > 1) for name, extra in zip(found, extras, strict=True)]
    return found


def _in_order(scores: Sequence[RunScore]) -> list[tuple[str, RunScore]]:
    """Runs with their names, as legends list them."""
    return sorted(zip(names(scores), scores, strict=True), key=lambda item: rank(item[1].method))


def pass_at_k(sources: Sources) -> Lines:
    """pass@k for k = 1, 2, 4, …: a panel per task and way of decoding, a line per run."""
    panels = []
    groups = by_setting(sources.scores)
    for words, group in groups.items():
        for task, title in {task.task: task.title for score in group for task in score.tasks}.items():
            found = [
                (name, score.method, of_task.pass_at)
                for name, score in _in_order(group)
                for of_task in score.tasks
                if of_task.task == task and len(of_task.pass_at) > 1
            ]
            lines = tuple(
                Line(label=name, method=method, x=tuple(map(float, passes)), y=tuple(passes.values()))
                for name, method, passes in found
            )
            if lines:
                panels.append(Panel(title=title if len(groups) == 1 else f"{title}\n{words}", lines=lines))
    return Lines(panels=tuple(panels), x_label="k", y_label="pass@k (%)", log_x=True, percent=True, share_y=False)


def lacks_passes(sources: Sources) -> str | None:
    """A task with two samples of every problem."""
    if any(len(task.pass_at) > 1 for score in sources.scores for task in score.tasks):
        return None
    return "expected a run with two samples or more of each problem, got none; 'stapo-bench eval --samples 4' makes one"


def budget(sources: Sources) -> Lines:
    """Mean over tasks of avg@k if the token limit had been smaller; longer samples count as wrong: a lower bound."""
    loaded = dict(zip((id(score) for score in sources.scores), sources.loaded, strict=True))
    groups = by_setting(sources.scores)
    panels = []
    for words, group in groups.items():
        lines = []
        for name, score in _in_order(group):
            curves = [dict(task.curve) for task in truncation(loaded[id(score)])]
            lines.append(
                Line(
                    label=name,
                    method=score.method,
                    x=tuple(map(float, curves[0])),
                    y=tuple(float(np.mean([curve[limit] for curve in curves])) for limit in curves[0]),
                )
            )
        panels.append(Panel(title=words if len(groups) > 1 else "", lines=tuple(lines)))
    return Lines(
        panels=tuple(panels),
        x_label="token limit",
        y_label="avg@k, mean over tasks (%)",
        log_x=True,
        percent=True,
    )
