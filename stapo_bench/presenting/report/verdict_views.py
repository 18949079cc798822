"""Verdicts as the page shows them: two runs, methods over training seeds, runs together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from stapo_bench.analysis import (
    Comparison,
    SeveralComparison,
    compare_loaded,
    compare_methods,
    compare_several,
    methods_among,
    runs_alike,
    with_other_graders,
)
from stapo_bench.engines import sampling_in_words
from stapo_bench.errors import StapoError, watched
from stapo_bench.presenting.parity_words import parity_lines
from stapo_bench.presenting.verdicts import legend, remarks_on, render_comparison, sentence, table_rows, task_cells
from stapo_bench.presenting.verdicts_of_several import (
    GROUPS_MEANING,
    notes_of_several,
    pairs_of_several,
    render_several,
    several_about,
    several_sentence,
    standings_table,
)
from stapo_bench.presenting.verdicts_over_seeds import (
    MEANING,
    method_table,
    pair_table,
    pairs_about,
    render_methods,
    seeds_sentence,
)
from stapo_bench.runs import LoadedRun

MOST_PAIRED = 30
"""Runs of which every two are compared for the page: 435 comparisons, each some 0.1 s for runs of 9,000 samples."""

ByGrader = Mapping[str, LoadedRun]
"""A run as each of its graders has it."""


@dataclass(frozen=True, kw_only=True)
class ComparisonView:
    """The verdict about two runs, with the lines that it rests on."""

    sentence: str
    about: str
    rows: tuple[tuple[str, ...], ...]  # task, A, B, B - A; then interval, p, verdict under both errors
    parity: tuple[str, ...]
    remarks: tuple[str, ...]
    markdown: str  # what its button copies


@dataclass(frozen=True, kw_only=True)
class MethodsView:
    """Methods over training seeds, or runs together: verdicts, and what is compared and its pairs as tables."""

    title: str  # what their runs share
    sentences: tuple[str, ...]
    tables: tuple[tuple[Sequence[str], Sequence[Sequence[str]]], ...]  # columns and rows
    about: str
    notes: tuple[str, ...]
    markdown: str  # what its button copies


@dataclass(frozen=True, kw_only=True)
class PairView:
    """Two runs that a reader may choose, by their numbers in the report."""

    a: int
    b: int
    verdict: ComparisonView | None
    failure: str  # why they cannot be compared; "" where they are


def compare_by(a: ByGrader, b: ByGrader, grader: str) -> Comparison:
    """``compare_runs`` for runs that were read before, given by grader."""
    seen = {name: compare_loaded(a[name], b[name]) for name in a if name in b}
    return with_other_graders(seen.pop(grader), seen)


def comparison_view(found: Comparison) -> ComparisonView:
    return ComparisonView(
        sentence=sentence(found),
        about=legend(found),
        rows=tuple(map(task_cells, table_rows(found))),
        parity=parity_lines(found)[1],
        remarks=remarks_on(found),
        markdown=render_comparison(found),
    )


def pair_views(
    runs: Sequence[ByGrader], grader: str, known: Mapping[tuple[int, int], Comparison]
) -> Iterator[PairView]:
    """Every two runs, compared as ``compare`` does; none where there are two runs alone, or more than ``MOST_PAIRED``.

    ``known``: comparisons that were made before.
    """
    if not 2 < len(runs) <= MOST_PAIRED:
        return
    pairs = list(combinations(range(len(runs)), 2))
    for one, other in watched(pairs, "comparing", "pairs", len(pairs)):
        a, b = (other, one) if (other, one) in known else (one, other)
        try:
            found = known.get((a, b)) or compare_by(runs[a], runs[b], grader)
        except StapoError as error:
            yield PairView(a=a, b=b, verdict=None, failure=str(error))
        else:
            yield PairView(a=a, b=b, verdict=comparison_view(found), failure="")


def methods_views(runs: Sequence[LoadedRun], failures: list[str]) -> Iterator[MethodsView]:
    """Methods that have several trainings each; what keeps them from being compared goes to the failures."""
    for methods in methods_among(runs):
        try:
            found = compare_methods(methods)
        except StapoError as error:
            failures.append(str(error))
            continue
        manifest = methods[0].runs[0].manifest
        sampling = manifest.identity.sampling
        yield MethodsView(
            title=f"{manifest.about.model or 'model not stated'}, " + sampling_in_words(sampling),
            sentences=tuple(map(seeds_sentence, found.pairs)),
            tables=(method_table(found), pair_table(found)),
            about=f"{pairs_about(found)} {MEANING.replace('*', '')}",
            notes=found.notes,
            markdown=render_methods(found),
        )


def several_views(runs: Sequence[ByGrader], grader: str, failures: list[str]) -> Iterator[MethodsView]:
    """Every three runs or more that were evaluated alike, judged together."""
    graded = {id(run[grader]): run for run in runs}
    for group in runs_alike([run[grader] for run in runs]):
        if len(group) < 3:
            continue
        try:
            found = compare_several(group)
        except StapoError as error:
            failures.append(str(error))
            continue
        yield MethodsView(
            title=sampling_in_words(group[0].manifest.identity.sampling),
            sentences=(several_sentence(found),),
            tables=(standings_table(found), pairs_of_several(found)),
            about=f"{several_about(found)} {GROUPS_MEANING.replace('*', '')}",
            notes=(*notes_of_several(found), *_grader_flips(found, [graded[id(run)] for run in group], grader)),
            markdown=render_several(found),
        )


def _grader_flips(found: SeveralComparison, group: Sequence[ByGrader], grader: str) -> Iterator[str]:
    """A line for each other grader of all these runs that puts two of them in the opposite order."""
    for name in sorted(set(group[0]).intersection(*group[1:]) - {grader}):
        values = {run.name: run.value for run in compare_several([run[name] for run in group]).runs}
        flipped = [
            f"{a.name} − {b.name}"
            for a, b in combinations(found.runs, 2)
            if (a.value - b.value) * (values[a.name] - values[b.name]) < 0
        ]
        if flipped:
            yield f"grader '{name}' sees the opposite sign: {', '.join(flipped)}"
