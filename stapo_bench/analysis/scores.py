"""From the graded samples of a run to its scores: estimates, intervals, counts and denominators.

    score = run_score(load_manifest(run_dir), "math", read_grades(run_dir, "math"))

A run may be scored at any time while it goes on: what is missing is counted, declared, and never taken for wrong.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stapo_bench.errors import watched
from stapo_bench.grading import equal_answers
from stapo_bench.records import Outcome, Outcomes, StatedSampling
from stapo_bench.runs import GradedSample, Grades, Manifest, samples_of
from stapo_bench.statistics import (
    ERROR_NAMES,
    Interval,
    Matrix,
    anytime_interval,
    avg_at_k,
    interval,
    macro_interval,
    maj_at_k,
    pass_at_k,
    pass_hat_k,
    score_bounds,
    stability,
)
from stapo_bench.tasks import style_in_words


@dataclass(frozen=True, kw_only=True)
class TaskScore:
    """avg@k of one task, with what it rests on. Scores are fractions; NaN is "not measured"."""

    task: str
    title: str
    value: float  # over the decided samples
    these_problems: Interval
    problems_like_these: Interval
    bounds: Interval  # if every undecided completion were wrong, and if every one were right
    num_problems: int  # with a decided sample
    num_problems_expected: int
    samples_per_problem: int  # k, as asked for
    num_samples: int  # completions stored
    num_samples_expected: int
    num_truncated: int | None  # None: of imported samples it is not known
    num_no_answer: int
    num_grader_errors: int
    num_ungraded: int  # stored, but no grade yet
    pass_at: dict[int, float]  # unbiased pass@k for k = 1, 2, 4, … up to the fewest decided samples of a problem
    maj_at: dict[int, float]  # maj@k at that fewest number, over classes of equal answers; ties broken evenly at random
    pass_hat: dict[int, float] = field(default_factory=dict)  # pass^k at the same k as pass@k
    stability: dict[str, float] = field(default_factory=dict)  # G-Pass@k and mG-Pass@k by name
    counts: dict[str, tuple[int, int]]  # by problem: right and decided samples, all that paired statistics need
    num_rounds: int = 0  # complete rounds: samples that every problem has, from the first on
    rounds_value: float | None = None  # avg@k over them alone: in a run in progress, short completions end first
    num_unread: int = 0  # counted as wrong because the answer could not be read or compared
    num_copies: int = 0  # completions that repeat another of their problem too often for chance: they count as none

    @property
    def few_outcomes(self) -> bool:
        """At most one sample differs from the others of its problem, so hardly another score could have come out.

        The interval for these problems then holds in fewer than 95 of 100: in 76, where one of 30 problems is right
        half the time and the others always, with two samples of each. All right or all wrong is covered.
        """
        several = [(right, total) for right, total in self.counts.values() if total > 1]
        return bool(several) and 0.0 < self.value < 1.0 and sum(min(r, n - r) for r, n in several) <= 1

    @property
    def is_drawn(self) -> bool:
        """Every sample asked for is stored."""
        return self.num_samples == self.num_samples_expected

    @property
    def complete(self) -> bool:
        """Every sample asked for is stored and decided."""
        return self.is_drawn and not (self.num_grader_errors or self.num_ungraded)


@dataclass(frozen=True, kw_only=True)
class MacroScore:
    """The mean over the run's tasks: every task weighs the same."""

    value: float
    these_problems: Interval
    problems_like_these: Interval
    bounds: Interval
    num_tasks: int


@dataclass(frozen=True, kw_only=True)
class RunScore:
    """The scores of a run, and what a table row says about it."""

    run: str  # folder name
    digest: str  # of the manifest
    checkpoint: str
    model: str | None
    method: str
    step: int | None  # training step of the checkpoint, where it is known
    regime: str | None
    temperature: float | None  # None, as the next three: not known of an imported run
    top_p: float | None
    max_new_tokens: int | None
    seed: int | None
    grades: str  # name of the grade file
    grader: str  # name and version of what wrote it
    commit: str | None
    tasks: tuple[TaskScore, ...]
    macro: MacroScore
    stopping: str | None = None  # the early-stopping rule: all intervals then hold at every look
    aim: float | None = None  # of that rule, see ``sequential.boundary``
    imported: str | None = None  # format of the files that its samples came from; None: sampled here
    top_k: int | None = None  # as the next two: off, or not known
    min_p: float | None = None
    stop: tuple[str, ...] = ()
    thinking_budget: int | None = None
    thinking_end: str | None = None
    prompt: str | None = None  # what stands around the questions, in words

    @property
    def sampling(self) -> StatedSampling:
        """How its tokens were sampled, as far as it is known."""
        return StatedSampling(**{part.name: getattr(self, part.name) for part in fields(StatedSampling)})


def run_score(manifest: Manifest, name: str, grades: Grades) -> RunScore:
    """Score a run's stored samples with the grades of the file of that name; writes nothing."""
    samples = samples_of(manifest, grades)
    tasks = [
        score_task(task, asked.title, samples.get(task, []), asked.problem_ids, asked.num_samples)
        for task, asked in manifest.about.tasks.items()
    ]
    sampling, about = manifest.identity.sampling, manifest.about
    styles = [style_in_words(task.style) for task in manifest.identity.tasks.values() if task.style]
    macro = macro_score(tasks)
    if stopping := about.stopping:
        tasks, macro = _at_every_look(tasks, macro, float(stopping.aim))
    return RunScore(
        run=manifest.name,
        digest=manifest.digest,
        checkpoint=about.checkpoint or "",
        model=about.model,
        method=about.method or manifest.name,
        step=about.step,
        regime=about.regime,
        temperature=None if sampling.temperature is None else float(sampling.temperature),
        top_p=None if sampling.top_p is None else float(sampling.top_p),
        max_new_tokens=sampling.max_new_tokens,
        seed=manifest.seed,
        grades=name,
        grader=grades.grader,
        commit=about.commit,
        tasks=tuple(tasks),
        macro=macro,
        stopping=stopping.rule if stopping else None,
        aim=float(stopping.aim) if stopping else None,
        imported=manifest.imported,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        stop=sampling.stop,
        thinking_budget=sampling.thinking_budget,
        thinking_end=sampling.thinking_end,
        prompt=" / ".join(dict.fromkeys(words for words in styles if words)) or None,
    )


def _at_every_look(tasks: Sequence[TaskScore], macro: MacroScore, aim: float) -> tuple[list[TaskScore], MacroScore]:
    """Intervals that stay valid although the samples themselves decided when to stop."""
    found = [Outcomes.of_counts(task.counts).scores for task in tasks]
    widened = [replace(task, **_anytime([correct], aim)) for task, correct in zip(tasks, found, strict=True)]
    return widened, replace(macro, **_anytime(found, aim))


def _anytime(tasks: Sequence[Matrix], aim: float) -> dict[str, Any]:
    return {error.replace(" ", "_"): anytime_interval(tasks, aim, error) for error in ERROR_NAMES}


def score_task(
    task: str, title: str, samples: Iterable[GradedSample], problem_ids: Sequence[str], num_samples: int
) -> TaskScore:
    """Score one task.

    Args:
        task: its name.
        title: its column in a table.
        samples: the stored ones; others than those asked for are left out.
        problem_ids: the problems asked for.
        num_samples: samples per problem asked for.
    """
    row_of = {problem_id: row for row, problem_id in enumerate(problem_ids)}
    correct = np.full((len(problem_ids), num_samples), np.nan)
    answers = np.full(correct.shape, None, dtype=object)
    ungraded, drawn = np.zeros((2, *correct.shape), dtype=np.bool_)
    outcomes: Counter[Outcome | None] = Counter()
    cut: Counter[bool | None] = Counter()
    num_unread = num_copies = 0
    for sample in samples:  # once: they may be a million, made one at a time
        if sample.problem_id in row_of and sample.sample_index < num_samples:
            place = row_of[sample.problem_id], sample.sample_index
            correct[place], answers[place] = sample.correct, sample.extracted
            ungraded[place] = np.isnan(correct[place]) and not sample.is_copy
            drawn[place] = True
            outcomes[sample.outcome] += 1
            cut[sample.truncated] += 1
            num_unread += sample.is_unread
            num_copies += sample.is_copy
    low, high = score_bounds(correct, ungraded)
    num_rounds = int(drawn.all(axis=0).cumprod().sum())
    of_rounds = avg_at_k(correct[:, :num_rounds])
    decided = (~np.isnan(correct)).sum(axis=1)
    fewest = int(decided[decided > 0].min(initial=num_samples)) if decided.any() else 0
    return TaskScore(
        task=task,
        title=title,
        value=avg_at_k(correct),
        these_problems=interval(correct, "these problems"),
        problems_like_these=interval(correct, "problems like these"),
        bounds=Interval(low=low, high=high),
        num_problems=int((decided > 0).sum()),
        num_problems_expected=len(problem_ids),
        samples_per_problem=num_samples,
        num_samples=outcomes.total(),
        num_samples_expected=len(problem_ids) * num_samples,
        num_truncated=None if cut[None] else cut[True],
        num_no_answer=outcomes[Outcome.NO_ANSWER],
        num_grader_errors=outcomes[Outcome.GRADER_ERROR],
        num_ungraded=outcomes[None],
        pass_at={k: pass_at_k(correct, k) for k in _powers_of_two(fewest)},
        pass_hat={k: pass_hat_k(correct, k) for k in _powers_of_two(fewest)},
        stability=stability(correct, fewest),
        maj_at={fewest: maj_at_k(correct, _classes(answers, correct), fewest)} if fewest else {},
        counts={
            problem_id: (int(row[i].sum()), len(row[i]))
            for problem_id, row, i in zip(problem_ids, correct, ~np.isnan(correct), strict=True)
        },
        num_rounds=num_rounds,
        rounds_value=None if math.isnan(of_rounds) else of_rounds,
        num_unread=num_unread,
        num_copies=num_copies,
    )


def macro_score(tasks: Sequence[TaskScore]) -> MacroScore:
    """The mean over tasks with its own intervals; NaN as long as a task has no value."""
    return MacroScore(
        value=float(np.mean([task.value for task in tasks])) if tasks else math.nan,
        these_problems=macro_interval([t.value for t in tasks], [t.these_problems for t in tasks]),
        problems_like_these=macro_interval([t.value for t in tasks], [t.problems_like_these for t in tasks]),
        bounds=Interval(
            low=float(np.mean([task.bounds.low for task in tasks])) if tasks else math.nan,
            high=float(np.mean([task.bounds.high for task in tasks])) if tasks else math.nan,
        ),
        num_tasks=len(tasks),
    )


def _powers_of_two(limit: int) -> list[int]:
    return [2**power for power in range(limit.bit_length())]


def _classes(answers: NDArray[np.object_], correct: Matrix) -> NDArray[np.int64]:
    """Equivalence classes of the wrong answers, [num_problems, num_samples]; -1 where there is none.

    Which answers are right is the grade's to say: they need no class. Two wrong ones are equal as the math grader sees
    it: it accepts each where the other is the gold.
    """
    classes = np.empty(answers.shape, dtype=np.int64)
    rows = zip(answers, correct, strict=True)
    for i, (row, grades) in enumerate(watched(rows, "counting votes", "problems", len(answers))):
        classes[i] = equal_answers(
            [answer if grade == 0.0 else None for answer, grade in zip(row, grades, strict=True)]
        )
    return classes
