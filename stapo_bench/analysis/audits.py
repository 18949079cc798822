"""Can this run be believed? Checks of the stored samples, each against what chance alone would give.

    checks = audit_runs(Path("results/stapo"), Path("results/stapo-again"))

One run: missing samples, equal seeds, repeated completions, a writer (shard, worker) that differs from the others. Two
runs: samples that both share, at the same places or at others, and drift of the engine where both sampled the same
weights (an A/A check). A check speaks up when chance alone would do so less than once in a thousand runs.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from stapo_bench.analysis.audit_check import AuditCheck, by_problem, checked, not_testable
from stapo_bench.analysis.parity_gate import parity, same_weights
from stapo_bench.analysis.passed_on import common_problems, moved_samples, shared_samples
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import GradedSample, LoadedRun, Rows, evidence_of_shared_starts, load_run, texts_of
from stapo_bench.statistics import ALARM, Labels, Vector

_PERMUTATIONS = 200
_NAMED = 4  # settings that differ beside a drift; comparisons list all


def audit_runs(run_a: Path, run_b: Path | None = None, grader: str = DEFAULT_GRADER) -> list[AuditCheck]:
    """Audit one run folder, or two against each other."""
    a = load_run(run_a, grader)
    if run_b is None:
        return audit(a)
    b = load_run(run_b, grader)
    return [*audit(a), *audit(b), shared_samples(a, b), moved_samples(a, b), engine_drift(a, b)]


def audit(run: LoadedRun) -> list[AuditCheck]:
    """The checks of one run."""
    checks = [missing_draws(run), equal_seeds(run), repeated_completions(run), odd_writer(run)]
    checks += [left_out_problems(run)] if run.manifest.imported else []
    return [*checks, *([answered_by(run)] if _versions(run) else [])]


def missing_draws(run: LoadedRun) -> AuditCheck:
    """Samples that were asked for and are not stored; of an imported run, of the problems that its files hold."""
    missing = []
    for task, asked in run.tasks.items():
        number = asked.num_samples
        stored = {(sample.problem_id, sample.sample_index) for sample in run.samples.get(task, [])}
        elsewhere = _left_out(run, task)
        absent = [
            (i, j) for i in asked.problem_ids if i not in elsewhere for j in range(number) if (i, j) not in stored
        ]
        if absent:
            first = ", ".join(f"{i}/{j}" for i, j in absent[:3])
            missing.append(f"{run.title(task)} {len(absent)} of {asked.num_problems * number} (first: {first})")
    return _check(run, "missing draws", not missing, "; ".join(missing) or "every sample asked for is stored")


def left_out_problems(run: LoadedRun) -> AuditCheck:
    """Problems of an imported run's tasks of which its files hold no sample."""
    said = [
        f"{run.title(task)} {len(absent)} of {asked.num_problems} (first: {', '.join(list(absent)[:3])})"
        for task, asked in run.tasks.items()
        if (absent := _left_out(run, task))
    ]
    message = (
        f"{'; '.join(said)}: the imported files hold no sample of them" if said else "the files hold every problem"
    )
    return _check(run, "problems left out", not said, message)


def _left_out(run: LoadedRun, task: str) -> dict[str, None]:
    """Ids, in order, of the problems of which an imported run holds no sample; of another run none."""
    held = {sample.problem_id for sample in run.samples.get(task, [])}
    return {i: None for i in run.tasks[task].problem_ids if i not in held} if run.manifest.imported else {}


def equal_seeds(run: LoadedRun) -> AuditCheck:
    """Samples that share a seed: one sample stored twice, or sampled by other rules than this run's."""
    seeds = Counter(sample.seed for samples in run.samples.values() for sample in samples)
    if None in seeds:
        return not_testable("equal seeds", f"{run.name}: the seeds of {seeds[None]} imported samples are not known")
    if run.manifest.identity.imported is None:
        repeated, among = sum(count - 1 for count in seeds.values()), ""
    elif run.manifest.identity.sampling.temperature == 0:
        return not_testable("equal seeds", f"{run.name}: at temperature 0 a seed decides nothing")
    else:  # other tools seed a problem's samples, each problem's alike
        places = Counter((t, s.problem_id, s.seed) for t, samples in run.samples.items() for s in samples)
        repeated, among = sum(count - 1 for count in places.values()), " on the same problem"
    said = f"{repeated} of {seeds.total()} samples repeat the seed of another{among}"
    return _check(run, "equal seeds", repeated == 0, said)


def repeated_completions(run: LoadedRun) -> AuditCheck:
    """Equal texts on one problem, beyond what chance makes of short or certain completions.

    Texts too long, or of too small a log-probability, to come so often are marked as copies when a run is read, and
    beginnings are compared alike, see ``stapo_bench.runs.copies``. Shorter ones tell by where they lie: chance spreads
    equal pairs over all distances between sample indices; copies of a neighbour, a shard or an earlier batch all lie
    at one distance.
    """
    name = "repeated completions"
    groups = [group for samples in run.samples.values() for group in by_problem(samples).values()]
    copied = [group for group in groups if any(sample.is_copy for sample in group)]
    if copied:
        copies = [sample for group in copied for sample in group if sample.is_copy]
        message = (
            f"{len(copies)} completions equal another of their problem, on {len(copied)} of {len(groups)} problems and "
            f"at {min(sample.text_tokens for sample in copies)} tokens or more, far beyond chance: was the server or "
            "engine given the seeds? Equal ones count as one sample"
        )
        return _check(run, name, False, message)
    sampling, drawn = run.manifest.identity.sampling, run.manifest.identity.log_probs_as_drawn
    if evidence_of_shared_starts(groups, sampling.temperature or 0.0) >= -math.log(ALARM):
        message = (
            "completions of one problem begin alike and then differ, far beyond chance: does a cache hand them on?"
        )
        return _check(run, name, False, message)
    observed, expected, deviation = _equal_pairs_by_distance([group for group in groups if len(group) > 1])
    if len(observed) < 2:
        if len(observed) and any(
            most < 0.0 for group in groups for _, most in texts_of(group, sampling, as_drawn=drawn)
        ):
            return _check(run, name, True, "no completion equals another of its problem beyond chance")
        return not_testable(name, f"{run.name}: needs three samples per problem, or long ones")
    scores = (observed - expected) / deviation
    worst = int(np.argmax(scores))
    fine = _two_sided(float(scores[worst])) * len(scores) >= ALARM or scores[worst] < 0
    where = "spread as chance would" if fine else f"{observed[worst]:.0f} of them between indices {worst + 1} apart"
    message = f"{observed.sum():.0f} equal pairs on the same problem, {where}"
    if fine and observed.sum() and run.manifest.identity.sampling.temperature is None:
        unknown = f"{run.name}: {message}; at temperature 0 all would be equal, and the temperature is not known"
        return not_testable(name, unknown)
    return _check(run, name, bool(fine), message)


def answered_by(run: LoadedRun) -> AuditCheck:
    """The versions of its model that a server named in its answers: a run has one."""
    versions = _versions(run)
    told = ", ".join(f"{name} ({count})" for name, count in sorted(versions.items()))
    return _check(run, "answered by one version", len(versions) == 1, f"samples by version: {told}")


def _versions(run: LoadedRun) -> Counter[str]:
    return Counter(sample.model for samples in run.samples.values() for sample in samples if sample.model is not None)


def odd_writer(run: LoadedRun) -> AuditCheck:
    """A writer (shard, worker) whose samples are right, long or cut off more or less often than others of the same
    problems. Segments that one shard wrote one after the other count as one writer: in a run that was stopped, the
    first of them holds the samples that ended early.

    A permutation test within problems: with n of a problem's N samples in the segment, the sum of their values has mean
    n m and variance n (N - n) / N s^2 (sampling without replacement; Mantel-Haenszel for 0/1 values).
    """
    rows, of_segment = run.drawn.rows, np.array([_writer(segment) for segment in run.drawn.segments])
    writers = sorted(set(of_segment.tolist()))
    name = "writer unlike the rest"
    if len(writers) < 2:
        return not_testable(name, f"{run.name}: one writer drew everything")
    writer = of_segment[rows["segment"]]
    scores = {
        (w, what): _stratified_z(rows["problem"], writer == w, measure(rows))
        for w in writers
        for what, measure in _MEASURES.items()
    }
    known = {key: z for key, z in scores.items() if not math.isnan(z)}
    if not known:
        return not_testable(name, f"{run.name}: no problem was drawn by two writers")
    odd = [
        f"{writer} {what} {_more(z)} than the others on the same problems (z = {z:+.1f})"
        for (writer, what), z in known.items()
        if _two_sided(z) * len(known) < ALARM
    ]
    return _check(run, name, not odd, "; ".join(odd) or f"{len(writers)} writers agree")


def engine_drift(a: LoadedRun, b: LoadedRun) -> AuditCheck:
    """An A/A check: two runs of the same weights under the same sampling must not differ beyond chance.

    Score, length, truncation and log-probabilities per token are looked at: a wrong temperature, which may hardly move
    a score, moves these.
    """
    sampling = [run.manifest.identity.sampling for run in (a, b)]
    if not same_weights(a, b) or sampling[0] != sampling[1]:
        return not_testable("engine drift", f"{a.name}, {b.name}: not the same weights under the same sampling")
    common = common_problems(a, b)
    rows = np.concatenate([common.a, common.b])
    order = np.argsort(rows["problem"], kind="stable")
    rows, is_b = rows[order], order >= len(common.a)
    drawn = [run.manifest.identity.log_probs_as_drawn for run in (a, b)]
    measures = {what: measure for what, measure in _MEASURES.items() if what != _SURE or drawn[0] == drawn[1]}
    scores = {what: _stratified_z(rows["problem"], is_b, measure(rows)) for what, measure in measures.items()}
    odd = [
        f"{b.name} {what} {_more(z)} than {a.name} (z = {z:+.1f})"
        for what, z in scores.items()
        if not math.isnan(z) and _two_sided(z) * len(scores) < ALARM
    ]
    told = (
        "score, length and truncation"
        if math.isnan(scores.get(_SURE, math.nan))
        else "score, length, truncation and log-probabilities"
    )
    message = "; ".join(odd) or f"{a.name} and {b.name} agree in {told}"
    if odd and (differing := [item.field for item in parity(a, b) if item.weight != "note"]):
        more = f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
        message += f"; {', '.join(differing[:_NAMED])}{more} {'differ' if len(differing) > 1 else 'differs'} as well"
    return checked("engine drift", not odd, message)


def drift_between(a: LoadedRun, b: LoadedRun) -> str | None:
    """How samples of the same weights under the same sampling differ; None: not beyond chance, or no such runs."""
    check = engine_drift(a, b)
    return check.message if check.result == "finding" else None


_SURE = "is sure of its tokens"
_MEASURES: dict[str, Callable[[Rows], Vector]] = {
    "is right": lambda rows: rows["correct"],
    "writes": lambda rows: rows["num_tokens"],
    "is cut off": lambda rows: rows["truncated"],
    _SURE: lambda rows: rows["sum_log_prob"] / np.where(rows["num_tokens"] == 0, np.nan, rows["num_tokens"]),
}


def _check(run: LoadedRun, name: str, fine: bool, message: str) -> AuditCheck:
    return checked(name, fine, f"{run.name}: {message}")


def _equal_pairs_by_distance(groups: Sequence[Sequence[GradedSample]]) -> tuple[Vector, Vector, Vector]:
    """Equal pairs by distance of sample indices 1, 2, …: observed, expected and deviation under permuted indices.

    A permutation keeps how often each text came up on its problem and forgets where. The deviation is at least 1 and
    at least Poisson's, since few pairs are not normally distributed.
    """
    rng = np.random.default_rng(0)
    longest = max((sample.sample_index for group in groups for sample in group), default=0)
    counts = np.zeros((_PERMUTATIONS + 1, longest + 1))  # row 0: as observed
    for group in groups:
        labels = np.unique([sample.text_digest for sample in group], return_inverse=True)[1]
        if len(set(labels.tolist())) == len(labels):
            continue
        shuffled = np.vstack([labels, rng.permuted(np.tile(labels, (_PERMUTATIONS, 1)), axis=1)])
        index = np.array([sample.sample_index for sample in group])
        one, other = np.triu_indices(len(group), k=1)
        equal = (shuffled[:, one] == shuffled[:, other]).astype(np.float64)
        distance = np.abs(index[one] - index[other])
        counts += equal @ (distance[:, None] == np.arange(longest + 1)[None, :])
    counts = counts[:, 1:]
    expected: Vector = counts[1:].mean(axis=0)
    return counts[0], expected, np.sqrt(np.maximum.reduce([counts[1:].var(axis=0), expected, np.ones_like(expected)]))


def _stratified_z(problem: Labels, marked: NDArray[np.bool_], values: Vector) -> float:
    """z-score of the marked samples' sum of values under permutations within problems; samples in order of problems.

    NaN where single values make up so much of the variance that the sum is not near normal.
    """
    known = ~np.isnan(values)
    problem, marked, values = problem[known], marked[known], values[known]
    total = np.bincount(problem)
    shape = np.stack([np.bincount(problem[marked], minlength=len(total)), total])  # inside and total
    starts, parts, largest = np.cumsum(total) - total, np.zeros((2, len(total))), 0.0
    for inside, size in np.unique(shape[:, (shape[0] > 0) & (shape[0] < total)], axis=1).T.tolist():
        these = np.flatnonzero((shape[0] == inside) & (total == size))
        at = starts[these, None] + np.arange(size)
        mean = values[at].mean(axis=1)
        chosen = values[at][marked[at]].reshape(len(these), inside)
        parts[0, these] = chosen.sum(axis=1) - inside * mean
        parts[1, these] = inside * (size - inside) / size * values[at].var(axis=1, ddof=1)
        largest = max(largest, float(np.abs(values[at] - mean[:, None]).max()) ** 2)
    excess, variance = np.cumsum(np.pad(parts, ((0, 0), (1, 0))), axis=1)[:, -1].tolist()
    return excess / math.sqrt(variance) if variance > max(0.0, 5.0 * largest) else math.nan


def _two_sided(z: float) -> float:
    return 2.0 * NormalDist().cdf(-abs(z))


def _more(z: float) -> str:
    return "more" if z > 0 else "less"


def _writer(segment: str) -> str:
    """The writer's label in a segment's name, ``<number>-<label>-<unique>.jsonl``; else the name."""
    parts = segment.removesuffix(".jsonl").split("-")
    return "-".join(parts[1:-1]) if len(parts) > 2 else segment
