"""Two runs: their samples are judged alike, cut alike and restricted to the same problems, one step after the other.

    gap = (B - A as printed) - (on the common problems)          problems
        + (by their own golds and graders) - (by the same)      golds, grader
        + (under their own limits) - (both under the smaller)   truncation
        + what is left                                           prompt, decoding, or sampling noise and unexplained

Every step is a difference on stored samples, so the parts sum to the gap. What changes the distribution itself (prompt,
temperature, top-p) leaves no trace in a sample: it gets the rest where it alone differs, both get it together where
both do, and where nothing differs the rest is noise as far as chance can make it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from stapo_bench.analysis.common_problems import shared_tasks
from stapo_bench.analysis.parity_gate import parity, same_weights
from stapo_bench.analysis.score_file import SCORES, current_score
from stapo_bench.analysis.token_limits import sample_matrix
from stapo_bench.analysis.why.distribution import differing_settings, unknown_settings
from stapo_bench.analysis.why.parts import (
    Cause,
    Explanation,
    Part,
    TaskGap,
    average_gap,
    in_order,
    mean_and_error,
    rest_in_parts,
)
from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Outcome
from stapo_bench.runs import GradedSample, LoadedRun, grade_files, load_run, outcomes_of, split_golds
from stapo_bench.statistics import Matrix, contrast_variances, problem_means

Judgements = Mapping[tuple[str, str], float]
"""(problem, extracted answer) -> how a run's grader judged it, where it always judged it alike."""


@dataclass(frozen=True, kw_only=True)
class ScoredRun:
    """A run under the grades that its number rests on."""

    run: LoadedRun
    grades: str  # name of the grade file
    run_dir: Path

    @cached_property
    def by_grader(self) -> dict[str, LoadedRun]:
        """The run by each of its grade files."""
        return {
            name: self.run if name == self.grades else load_run(self.run_dir, name)
            for name in grade_files(self.run_dir)
        }


def read_scored(run_dir: Path, grader: str | None) -> ScoredRun:
    """A run by this grader; None: by the one that it was last scored with, else its first grade file."""
    name = grader or (current_score(run_dir).grades if (run_dir / SCORES).is_file() else None)
    name = name or next(iter(grade_files(run_dir)), DEFAULT_GRADER)
    return ScoredRun(run=load_run(run_dir, name), grades=name, run_dir=run_dir)


def why_runs(run_a: Path, run_b: Path, grader: str | None = None) -> Explanation:
    """Split B - A into its causes.

    Args:
        run_a, run_b: run folders.
        grader: name of the grade files; None: each run by the grader that its own number rests on.

    Raises:
        StapoError: no task in common.
    """
    a, b = read_scored(run_a, grader), read_scored(run_b, grader)
    names = shared_tasks((a.run, b.run))
    if not names:
        raise StapoError(
            f"nothing to explain: {a.run.name} has {', '.join(a.run.tasks)}; {b.run.name} has {', '.join(b.run.tasks)}"
        )
    tasks = tuple(_TaskOfTwo(a, b, task).gap() for task in names)
    suspects = [
        f"{item.weight}: {item}"
        for item in parity(a.run, b.run)
        if item.weight in ("unknown", "caution") and not item.field.startswith("tasks.")
    ]
    if not same_weights(a.run, b.run):
        suspects.insert(0, "the weights differ: 'stapo-bench compare' says what that does")
    left_out = sorted(set(a.run.tasks) ^ set(b.run.tasks))
    return Explanation(
        name_a=a.run.name,
        name_b=b.run.name,
        tasks=tasks,
        average=average_gap(tasks),
        suspects=tuple(suspects),
        notes=(f"only in one run, left out: {', '.join(left_out)}",) if left_out else (),
    )


class _TaskOfTwo:
    """One task of two runs on its way from the printed numbers to comparable ones."""

    def __init__(self, a: ScoredRun, b: ScoredRun, task: str) -> None:
        self.sides, self.task = (a, b), task
        asked = [side.run.tasks[task] for side in self.sides]
        common = set(asked[0].problem_ids) & set(asked[1].problem_ids)
        self.common = [problem_id for problem_id in asked[0].problem_ids if problem_id in common]
        self.same_problems = all(set(of_run.problem_ids) == common for of_run in asked)
        self.same_data = len({side.run.manifest.identity.tasks[task].data for side in self.sides}) == 1

    def gap(self) -> TaskGap:
        """The parts, each the change that a step makes."""
        printed = [mean_and_error(side.run.outcomes[self.task].scores)[0] for side in self.sides]
        if not self.common:
            note = "no problem in common"
            parts = [Part(cause="problems", knowledge="measured", value=printed[1] - printed[0], note=note)]
        else:
            runs, judged = self._judged_alike()
            matrices, cut = self._cut_alike(runs)
            parts = [self._problems(printed), *judged, *cut, *self._rest(matrices)]
        first = self.sides[0].run
        return TaskGap(
            task=self.task, title=first.title(self.task), value_a=printed[0], value_b=printed[1], parts=in_order(parts)
        )

    def _samples(self, run: LoadedRun) -> list[GradedSample]:
        """Those that were asked for, of the common problems."""
        wanted, num = set(self.common), run.tasks[self.task].num_samples
        return [s for s in run.samples.get(self.task, []) if s.problem_id in wanted and s.sample_index < num]

    def _matrix(self, run: LoadedRun) -> Matrix:
        """[num_common, num_samples] verdicts."""
        return outcomes_of(self._samples(run), self.common, run.tasks[self.task].num_samples).scores

    def _problems(self, printed: Sequence[float]) -> Part:
        if self.same_problems:
            return Part(cause="problems", knowledge="same")
        own = [side.run.outcomes[self.task] for side in self.sides]
        common = [mean_and_error(outcomes.of(self.common).scores)[0] for outcomes in own]
        variance, wanted = 0.0, set(self.common)
        for outcomes in own:
            means = problem_means(outcomes.scores)
            decided = ~np.isnan(means)
            inside = np.array([problem_id in wanted for problem_id in outcomes.problem_ids]) & decided
            weights = decided / max(1, decided.sum()) - inside / max(1, inside.sum())
            if decided.any():
                of_means = contrast_variances([outcomes.scores[decided]], [1.0])[1]
                variance += float((weights[decided] ** 2 * of_means).sum())
        sizes = " and ".join(f"{side.run.tasks[self.task].num_problems} in {side.run.name}" for side in self.sides)
        return Part(
            cause="problems",
            knowledge="measured",
            value=printed[1] - printed[0] - (common[1] - common[0]),
            standard_error=math.sqrt(max(0.0, variance)),
            note=f"{sizes}, {len(self.common)} of them the same",
        )

    # --- golds and graders --------------------------------------------------------------------------------------------

    def _judged_alike(self) -> tuple[list[LoadedRun], list[Part]]:
        """Both runs by one grader and one set of golds; and the part of what had to change for that, if anything."""
        a, b = self.sides
        runs = [a.run, b.run]
        if a.run.grader == b.run.grader and a.grades == b.grades and self.same_data:
            return runs, []
        (rule_a, golds_a), (rule_b, golds_b) = split_golds(a.grades), split_golds(b.grades)
        cause: Cause = "golds" if rule_a == rule_b and _rule(a) == _rule(b) else "grader"
        said = f"{a.run.grader} in {a.run.name}, {b.run.grader} in {b.run.name}"
        if cause == "golds" and golds_a == golds_b:
            said = "the data have other golds"
        shared = self._shared_grades()
        if shared is not None and self.same_data:
            alike = [side.by_grader[shared] for side in self.sides]
            how = f"{said}; both by {alike[0].grader} instead"
        else:
            judged = _judgements(self._samples(a.run))
            other, share = _rejudged(b.run, self.task, self._samples(b.run), judged)
            alike = [a.run, other]
            how = (
                f"{said}; {100 * share:.0f} % of {b.run.name}'s answers were judged in {a.run.name}, too, and count so"
            )
        before, after = ([self._matrix(run) for run in pair] for pair in (runs, alike))
        shifts = [mean_and_error(old - new) for old, new in zip(before, after, strict=True)]
        # Means, not the mean of differences: what one grader decided and the other did not stays in the numbers.
        values = [mean_and_error(old)[0] - mean_and_error(new)[0] for old, new in zip(before, after, strict=True)]
        errors = [0.0 if math.isnan(error) else error for _, error in shifts]
        part = Part(
            cause=cause,
            knowledge="measured",
            value=values[1] - values[0],
            standard_error=math.hypot(*errors),
            note=how,
        )
        return alike, [part]

    def _shared_grades(self) -> str | None:
        """A grade file of one version that both runs have: A's own, B's own, or another."""
        a, b = self.sides
        names = [name for name in dict.fromkeys((a.grades, b.grades, *a.by_grader)) if name in b.by_grader]
        return next((n for n in names if n in a.by_grader and a.by_grader[n].grader == b.by_grader[n].grader), None)

    # --- limits -------------------------------------------------------------------------------------------------------

    def _cut_alike(self, runs: Sequence[LoadedRun]) -> tuple[list[Matrix], list[Part]]:
        """Verdicts under the smaller limit; what is cut there counts as the other run's cut samples do on average.

        And the part of that, if there are two limits, or not both are known.
        """
        limits = [side.run.manifest.identity.sampling.max_new_tokens for side in self.sides]
        matrices = [self._matrix(run) for run in runs]
        if None in limits or any(sample.num_tokens is None for run in runs for sample in self._samples(run)):
            note = "limits and lengths of imported samples are not known of both runs"
            return matrices, [Part(cause="truncation", knowledge="unknown", note=note)]
        told = [limit for limit in limits if limit is not None]
        if told[0] == told[1]:
            return matrices, []
        longer = int(told[1] > told[0])
        smaller = min(told)
        cut = [s.correct for s in self._samples(runs[1 - longer]) if s.truncated and not math.isnan(s.correct)]
        right_when_cut = float(np.mean(cut)) if cut else 0.0
        too_long = sample_matrix(
            runs[longer], self.task, lambda sample: float((sample.num_tokens or 0) > smaller), self.common
        )
        shortened = np.where((too_long == 1.0) & ~np.isnan(matrices[longer]), right_when_cut, matrices[longer])
        change, error = mean_and_error(matrices[longer] - shortened)
        names = [side.run.name for side in self.sides]
        part = Part(
            cause="truncation",
            knowledge="measured",
            value=change if longer else -change,
            standard_error=error,
            note=f"{limits[0]} tokens in {names[0]}, {limits[1]} in {names[1]}; {100 * np.nanmean(too_long):.1f} % "
            f"of {names[longer]}'s samples are longer than {smaller}",
        )
        matrices[longer] = shortened
        return matrices, [part]

    # --- what is left -------------------------------------------------------------------------------------------------

    def _rest(self, matrices: Sequence[Matrix]) -> list[Part]:
        """The rest, given to what alone can have caused it."""
        rest = mean_and_error(matrices[1])[0] - mean_and_error(matrices[0])[0]
        a, b = (side.run for side in self.sides)
        error = _error_of_difference(matrices, same_seeds=a.manifest.shares_seed(b.manifest))
        same_texts = self.same_data or self.same_problems
        differing = differing_settings(a, b, self.task, same_texts=same_texts)
        unknown = unknown_settings(a, b, self.task)
        if not differing or unknown or not same_weights(a, b):
            open_ = [Part(cause=c, knowledge="unknown", note=note) for c, note in {**unknown, **differing}.items()]
            return [*rest_in_parts(rest, error), *open_]
        cause: Cause = next(iter(differing)) if len(differing) == 1 else "prompt and decoding"
        note = "; ".join(differing.values())
        parts = [Part(cause=cause, knowledge="measured", value=rest, standard_error=error, note=note)]
        if len(differing) > 1:
            together = "no sample says which of the two it is; a run that differs in one of them would"
            parts[0] = replace(parts[0], note=f"{note}; {together}")
        return [*parts, Part(cause="sampling noise", knowledge="measured", standard_error=error)]


def _rule(side: ScoredRun) -> str:
    """The grader's version without that of the golds."""
    return side.run.grader.split("+")[0]


def _judgements(samples: Sequence[GradedSample]) -> Judgements:
    """How each answer to each problem was judged, where always alike."""
    found: dict[tuple[str, str], set[float]] = {}
    for sample in samples:
        if sample.extracted is not None and not math.isnan(sample.correct):
            found.setdefault((sample.problem_id, sample.extracted), set()).add(sample.correct)
    return {answer: next(iter(verdicts)) for answer, verdicts in found.items() if len(verdicts) == 1}


def _rejudged(
    run: LoadedRun, task: str, samples: Sequence[GradedSample], judged: Judgements
) -> tuple[LoadedRun, float]:
    """The run with the judgements of another one where that has judged the same answer; the share that it has."""
    outcomes = {1.0: Outcome.CORRECT, 0.0: Outcome.INCORRECT}
    changed, matched = [], 0
    for sample in samples:
        verdict = judged.get((sample.problem_id, sample.extracted)) if sample.extracted is not None else None
        matched += verdict is not None
        changed.append(sample if verdict is None else replace(sample, outcome=outcomes[verdict]))
    answered = sum(sample.extracted is not None for sample in samples)
    return replace(run, samples={**run.samples, task: changed}), matched / answered if answered else 0.0


def _error_of_difference(matrices: Sequence[Matrix], *, same_seeds: bool) -> float:
    """Standard error of B - A over new samples of these problems, as ``paired_difference`` has it; verdicts may be
    shares."""
    common = ~np.isnan([problem_means(matrix) for matrix in matrices]).any(axis=0)
    used = [matrix[common] for matrix in matrices]
    if not len(used[0]):
        return math.nan
    variance = float(contrast_variances(used, [-1.0, 1.0], same_seeds=same_seeds)[1].sum())
    prior = sum(0.5 * float((1.0 / (~np.isnan(matrix)).sum(axis=1)).mean()) ** 2 for matrix in used)
    return math.sqrt(max(0.0, variance) + prior) / int(common.sum())
