"""Which runs belong together in a figure, and what each is called there."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from stapo_bench.analysis import RunScore
from stapo_bench.engines import sampling_in_words
from stapo_bench.presenting.figures.sources import Sources, setting
from stapo_bench.presenting.figures.style import rank


class Named(NamedTuple):
    """A run in a legend."""

    name: str
    variant: int  # among the runs of its method
    score: RunScore


def by_setting(scores: Sequence[RunScore]) -> dict[str, list[RunScore]]:
    """Runs whose averages may be compared, by a title for what they share; a single group needs none.

    Several groups are titled by their decoding, and where that is the same by token limit, tasks and grader too.
    """
    groups: dict[tuple[Any, ...], list[RunScore]] = {}
    for score in scores:
        groups.setdefault(setting(score), []).append(score)
    if len(groups) == 1:
        return {"": list(scores)}
    firsts = [group[0] for group in groups.values()]
    words = [sampling_in_words(score.sampling) for score in firsts]
    titles = [
        f"{word}\n{'token limit unknown' if score.max_new_tokens is None else f'{score.max_new_tokens} tokens'}; "
        + ", ".join(task.title + (f" @{task.samples_per_problem}" if task.is_drawn else "") for task in score.tasks)
        + (f"; {score.grader}" if len({first.grader for first in firsts}) > 1 else "")
        if words.count(word) > 1
        else word
        for word, score in zip(words, firsts, strict=True)
    ]
    return dict(zip(titles, groups.values(), strict=True))


def in_order(scores: Sequence[RunScore]) -> list[Named]:
    """Runs with their names, in the order of tables."""
    order = sorted(zip(names(scores), scores, strict=True), key=lambda item: (rank(item[1].method), item[1].step or 0))
    return [
        Named(name, sum(other.method == score.method for _, other in order[:place]), score)
        for place, (name, score) in enumerate(order)
    ]


def names(scores: Sequence[RunScore], labels: Sequence[str] = ()) -> list[str]:
    """A name per run that no other has: its label, and what distinguishes it from others of that label.

    That is the training step, the model, or failing both the folder. The label is the method where none is given;
    an imported run is marked as such.
    """
    marks = [" (imported)" if score.imported else "" for score in scores]
    found = [label + mark for label, mark in zip(labels or [score.method for score in scores], marks, strict=True)]
    for extras in (
        [f" @{score.step}" if score.step else "" for score in scores],
        [f", {score.model}" if score.model else "" for score in scores],
        [f", {score.run}" for score in scores],
    ):
        apart = {name: len({e for n, e in zip(found, extras, strict=True) if n == name}) > 1 for name in found}
        found = [name + extra * apart[name] for name, extra in zip(found, extras, strict=True)]
    return found


def is_base(score: RunScore, scores: Sequence[RunScore]) -> bool:
    """Whether it is the model that the others were trained from. Its step does not say: the tiny base has steps."""
    named = any(score.method == other.model for other in scores if other is not score)
    return named or score.method.casefold() == "base" or score.step == 0


def lacks_runs(sources: Sources) -> str | None:
    """What is missing unless there is a run."""
    return None if sources.runs else "expected a run folder, got none; 'stapo-bench eval' makes one"
