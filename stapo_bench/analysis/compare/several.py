"""Several runs at once: every two compared with intervals that hold together, groups, ties and places.

    found = compare_several(read_sides(["a.csv", "b.csv", "c.csv"]))

The claims are about the mean over tasks. Runs that are *not told apart* may differ by more than anybody wants; runs
that are *shown to be tied* may not: the two are kept apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from stapo_bench.analysis.audits import drift_between
from stapo_bench.analysis.compare.outcomes import NOT_LOOKED_AT, Compared, origin_of, read_side
from stapo_bench.analysis.compare.records import EffectVerdict, PairOfRuns, RunValue, SeveralComparison, Standing
from stapo_bench.analysis.compare.runs import in_clusters
from stapo_bench.analysis.compare.sides import (
    Mask,
    Side,
    check_names,
    lacking,
    same_sample_seeds,
    shared_clusters,
    side_of,
    tasks_as_clusters,
)
from stapo_bench.analysis.compare.two_sides import clustering_of, looks_clustered, marked, pair_risks
from stapo_bench.analysis.early_stopping import WIDENED, aim_of, at_every_look, stopped_note
from stapo_bench.analysis.parity_gate import parity, same_weights
from stapo_bench.errors import StapoError, UsageError, watched
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import LoadedRun
from stapo_bench.runs.outcomes import (
    ColumnsOf,
    OutcomeTable,
    ScoreRange,
    columns_of_each,
    is_run,
    is_there,
    read_outcomes,
)
from stapo_bench.statistics import (
    ERROR_NAMES,
    LEVEL,
    MARGIN,
    Clustering,
    ErrorName,
    JointDifference,
    Labels,
    Matrix,
    all_differences,
    groups_of,
    judge_together,
    places_of,
    problem_means,
)


def read_sides(
    found: Sequence[Compared],
    columns: ColumnsOf | None = None,
    grader: str = DEFAULT_GRADER,
    *,
    declared: ScoreRange | None = None,
    data_dir: Path | None = None,
) -> list[LoadedRun | OutcomeTable]:
    """Runs and tables of outcomes by their paths, or Python objects; a single file gives every model in it.

    ``columns`` and ``declared`` as of ``compare_outcomes``.

    Raises:
        StapoError: what cannot be read, or a file that stands twice.
    """
    paths = [Path(each).resolve() for each in found if isinstance(each, str | Path)]
    if doubled := [path for path in paths if paths.count(path) > 1]:
        raise UsageError(f"expected every run once, got {doubled[0].name} {paths.count(doubled[0])} times")
    if missing := [path for path in paths if not is_there(path)]:
        raise UsageError(f"{missing[0]}: no such run folder or file")
    if len(paths) == len(found) == 1 and not is_run(paths[0]):
        return [*read_outcomes(Path(str(found[0])), columns_of_each(columns, 1)[0], declared)]
    of_each = columns_of_each(columns, len(found))
    named = zip(watched(found, "reading", "runs", len(found)), of_each, strict=True)
    sides = [read_side(each, f"run {i}", of, grader, declared) for i, (each, of) in enumerate(named, start=1)]
    runs = [side for side in sides if isinstance(side, LoadedRun)]
    if declared and len(runs) == len(sides):
        raise UsageError("--range declares the scores of tables; all are run folders")
    return sides if len(runs) < len(sides) else [*in_clusters(runs, columns, data_dir)]


def runs_alike(runs: Sequence[LoadedRun]) -> list[list[LoadedRun]]:
    """Runs of the same tasks, decoding and grader together, in their order: those that may be compared."""
    found: dict[tuple[Any, ...], list[LoadedRun]] = {}
    for run in runs:
        found.setdefault((run.manifest.identity.sampling, run.grader, tuple(run.tasks)), []).append(run)
    return list(found.values())


def compare_several(
    found: Sequence[LoadedRun | OutcomeTable], margin: float = MARGIN, against: str | None = None
) -> SeveralComparison:
    """Compare every two of several runs, or all with one of them, by the mean over the tasks that all have.

    Args:
        found: at least two runs or tables of outcomes.
        margin: two runs are "tied" when their difference is shown to lie within it, a fraction.
        against: the name of the run with which the others are compared; None: every two.

    Raises:
        StapoError: fewer than two, no task or no problem in common, or no run of that name.
    """
    if len(found) < 2:
        raise UsageError(f"expected at least two runs, got {len(found)}; 'stapo-bench score' shows one by itself")
    sides = _named_apart(found)
    if against is not None and against not in [side.name for side in sides]:
        raise UsageError(f"--against {against}: expected one of {', '.join(side.name for side in sides)}")
    tasks = [task for task in sides[0].outcomes if all(task in side.outcomes for side in sides)]
    if not tasks:
        raise StapoError("nothing to compare: no task is in all runs; compare runs of the same tasks")
    common = {task: _common(sides, task) for task in tasks}
    matrices, clusters, notes = _decided_by_all(sides, common)
    missing: dict[str, list[str]] = {side.name: [] for side in sides}
    for task in tasks:
        for side, lines in zip(sides, lacking(sides, task, common[task]), strict=True):
            missing[side.name] += lines
    values = [[float(np.nanmean(problem_means(scores))) for scores in of_run] for of_run in matrices]
    order = sorted(range(len(sides)), key=lambda i: -float(np.mean(values[i])))
    sides, matrices, values = ([items[i] for i in order] for items in (sides, matrices, values))  # type: ignore[assignment]
    reference = None if against is None else [side.name for side in sides].index(against)
    runs = [side.run for side in sides if side.run is not None]
    unfair, cautions = _parity(sides)
    return SeveralComparison(
        runs=tuple(
            RunValue(name=side.name, tasks=dict(zip(tasks, of_run, strict=True)), value=float(np.mean(of_run)))
            for side, of_run in zip(sides, values, strict=True)
        ),
        titles={task: next((s for s in sides if s.run is not None), sides[0]).titles[task] for task in tasks},
        standings={error: _standing(sides, matrices, clusters, error, (margin, reference)) for error in ERROR_NAMES},
        against=reference,
        margin=margin,
        unfair=tuple(unfair),
        unknown=any(side.run is None for side in sides),
        clusterings=_clusterings(tasks, matrices, clusters),
        risks=tuple(pair_risks([[marked(side, task, common[task]) for task in tasks] for side in sides], reference)),
        unfinished=tuple(name for name, lines in missing.items() if lines),
        notes=(
            *(note for side in sides if side.table is not None for note in side.table.notes),
            *([NOT_LOOKED_AT] if any(side.table is not None for side in sides) else []),
            *cautions,
            *notes,
            *(line for lines in missing.values() for line in lines),
            *stopped_note(runs, WIDENED),
        ),
    )


def _decided_by_all(
    sides: Sequence[Side], common: Mapping[str, Sequence[str]]
) -> tuple[list[list[Matrix]], list[Labels | None], list[str]]:
    """Scores by run, then by task, over the problems that all have, NaN where one has not decided; clusters; notes."""
    titles = {task: side.titles[task] for side in sides for task in side.outcomes}
    left_out = [titles[task] for task in sorted(titles) if task not in common]
    notes = [f"not in all runs, left out: {', '.join(left_out)}"] if left_out else []
    matrices: list[list[Matrix]] = [[] for _ in sides]
    clusters: list[Labels | None] = []
    for task, problem_ids in common.items():
        notes += _left_out(sides, task, problem_ids)
        clusters.append(shared_clusters(sides, task, problem_ids))
        notes += looks_clustered(task, problem_ids, clusters[-1])
        of_task = [side.outcomes[task].of(problem_ids).scores for side in sides]
        unknown: Mask = np.isnan(np.sum([problem_means(scores) for scores in of_task], axis=0))
        if unknown.all():
            raise StapoError(f"{task}: expected items with outcomes in all runs, got none that all decided")
        if lost := int(unknown.sum()):
            notes.append(f"{task}: {lost} problems that a run has not decided are left out of all")
        for of_run, scores in zip(matrices, of_task, strict=True):
            of_run.append(np.where(unknown[:, None], np.nan, scores))
    return matrices, clusters, notes


def _clusterings(
    tasks: Sequence[str], matrices: Sequence[Sequence[Matrix]], clusters: Sequence[Labels | None]
) -> dict[str, tuple[Clustering, ...]]:
    """By task, how far the differences of every two runs hang together; without tasks whose problems are alone."""
    means = [[problem_means(scores) for scores in of_run] for of_run in matrices]
    found = {
        task: tuple(filter(None, (clustering_of(b[i] - a[i], clusters[i]) for a, b in combinations(means, 2))))
        for i, task in enumerate(tasks)
    }
    return {task: of_pairs for task, of_pairs in found.items() if of_pairs}


def _standing(
    sides: Sequence[Side],
    matrices: Sequence[Sequence[Matrix]],
    clusters: Sequence[Labels | None],
    error: ErrorName,
    asked: tuple[float, int | None],
) -> Standing:
    margin, reference = asked
    differences = all_differences(matrices, error, same_seeds=_same_seeds(sides), clusters=clusters)
    aims = [None if side.run is None else aim_of(side.run) for side in sides]
    differences = {(a, b): at_every_look(found, (aims[a], aims[b])) for (a, b), found in differences.items()}
    judged = [pair for pair in differences if reference is None or reference in pair]
    pairs = tuple(
        PairOfRuns(a=a, b=b, joint=joint, verdict=verdict_together(joint, margin))
        for (a, b), joint in judge_together(differences, judged).items()
    )
    better = [(pair.b, pair.a) for pair in pairs if pair.verdict == "better"]
    better += [(pair.a, pair.b) for pair in pairs if pair.verdict == "worse"]
    tied = {(pair.a, pair.b) for pair in pairs if pair.verdict == "tied"}
    not_tied = set(combinations(range(len(sides)), 2)) - tied
    return Standing(
        pairs=pairs,
        groups=tuple(groups_of(len(sides), better)) if reference is None else (),
        tied=tuple(group for group in groups_of(len(sides), not_tied) if len(group) > 1),
        places=tuple(places_of(len(sides), better)) if reference is None else (),
    )


def verdict_together(joint: JointDifference, margin: float) -> EffectVerdict:
    """Better or worse, tied or open, of one of several pairs that are judged together."""
    if joint.p_adjusted < LEVEL:
        return "better" if joint.difference.value > 0 else "worse"
    return "tied" if joint.tied_within <= margin else "not enough data"  # NaN is not within it


def _named_apart(found: Sequence[LoadedRun | OutcomeTable]) -> list[Side]:
    """The sides under names of their own; tables that name no task are of the others' only one."""
    named = [list(each.tasks) for each in sorted(found, key=lambda each: isinstance(each, OutcomeTable))]
    sides = [side_of(each, each.name, named[0]) for each in found]
    names = [side.name for side in sides]
    if len(set(names)) < len(names):
        names = [origin_of(each) for each in found]
    apart = []
    for i, (side, name) in enumerate(zip(sides, names, strict=True), start=1):
        apart.append(replace(side, name=name if names.count(name) == 1 else f"{name} ({names[:i].count(name)})"))
    return tasks_as_clusters(apart)


def _common(sides: Sequence[Side], task: str) -> list[str]:
    """The problems that all have, in the order of the first."""
    first, *others = sides
    for other in others:
        if first.table is not None or other.table is not None:
            check_names(first, other, task)
    there = set(first.outcomes[task].problem_ids).intersection(*(side.outcomes[task].problem_ids for side in others))
    if not there:
        names = {side.name: set(side.outcomes[task].problem_ids) for side in sides}
        apart = next((two for two in combinations(names, 2) if names[two[0]].isdisjoint(names[two[1]])), None)
        which = f" ({apart[0]} and {apart[1]} have none)" if apart else ""
        raise StapoError(f"{task}: the runs have no problem in common{which}; compare runs of the same data")
    return [problem_id for problem_id in first.outcomes[task].problem_ids if problem_id in there]


def _left_out(sides: Sequence[Side], task: str, common: Sequence[str]) -> list[str]:
    everywhere = {problem_id for side in sides for problem_id in side.outcomes[task].problem_ids}
    if not (dropped := len(everywhere) - len(common)):
        return []
    are = "problem is" if dropped == 1 else "problems are"
    return [f"{task}: {dropped} {are} not in all runs and left out; {len(common)} are compared"]


def _same_seeds(sides: Sequence[Side]) -> bool:
    """Whether sample j of every problem has one seed in all runs."""
    first, *others = sides
    if first.run is not None:
        return all(side.run is not None and first.run.manifest.shares_seed(side.run.manifest) for side in others)
    return first.table is not None and all(
        side.table is not None and same_sample_seeds(first.table, side.table) for side in others
    )


def _parity(sides: Sequence[Side]) -> tuple[list[str], list[str]]:
    """What differs besides the weights and may be the reason for a difference; and what asks for caution."""
    unfair: dict[str, None] = {}
    cautions: dict[str, None] = {}
    for (name, run), (other_name, other) in combinations([(s.name, s.run) for s in sides if s.run is not None], 2):
        for item in parity(run, other):
            if item.weight == "confounds":
                unfair[item.field] = None
            elif item.weight in ("caution", "unknown"):
                cautions[f"with caution: {item.field} differs or is not known of all"] = None
        if same_weights(run, other):
            cautions[f"{name} and {other_name} are the same weights"] = None
            cautions |= dict.fromkeys(filter(None, [drift_between(run, other)]))
    if any(side.run is None for side in sides):
        cautions["with caution: a table tells neither engine, prompts, decoding nor grader; they may differ"] = None
    return list(unfair), list(cautions)
