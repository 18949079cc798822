"""Can this run be believed? Checks of the stored samples, each against what chance alone would give.

    checks = audit_runs(Path("results/stapo"), Path("results/stapo-again"))

One run: missing samples, equal seeds, repeated completions, a writer (shard, worker) that differs from the others. Two
runs: samples that both share, and drift of the engine where both sampled the same weights (an A/A check). A check
speaks up when chance alone would do so less than once in a thousand runs.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import numpy as np

from stapo_bench.analysis.parity_gate import same_weights
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import GradedSample, LoadedRun, load_run
from stapo_bench.statistics import Vector

Result = Literal["ok", "finding", "not testable"]

ALARM = 0.001
_PERMUTATIONS = 200


@dataclass(frozen=True, kw_only=True)
class AuditCheck:
    """What one check found."""

    name: str
    result: Result
    message: str


def audit_runs(run_a: Path, run_b: Path | None = None, grader: str = DEFAULT_GRADER) -> list[AuditCheck]:
    """Audit one run folder, or two against each other."""
    a = load_run(run_a, grader)
    if run_b is None:
        return audit(a)
    b = load_run(run_b, grader)
    return [*audit(a), *audit(b), shared_samples(a, b), engine_drift(a, b)]


def audit(run: LoadedRun) -> list[AuditCheck]:
    """The checks of one run."""
    return [missing_draws(run), equal_seeds(run), repeated_completions(run), odd_writer(run)]


def missing_draws(run: LoadedRun) -> AuditCheck:
    """Samples that were asked for and are not stored."""
    missing = []
    for task, asked in run.tasks.items():
        number = asked.num_samples
        stored = {(sample.problem_id, sample.sample_index) for sample in run.samples.get(task, [])}
        absent = [(i, j) for i in asked.problem_ids for j in range(number) if (i, j) not in stored]
        if absent:
            first = ", ".join(f"{i}/{j}" for i, j in absent[:3])
            missing.append(f"{run.title(task)} {len(absent)} of {asked.num_problems * number} (first: {first})")
    return _check(run, "missing draws", not missing, "; ".join(missing) or "every sample asked for is stored")


def equal_seeds(run: LoadedRun) -> AuditCheck:
    """Samples that share a seed: one sample stored twice, or sampled by other rules than this run's."""
    seeds = Counter(sample.seed for samples in run.samples.values() for sample in samples)
    repeated = sum(count - 1 for count in seeds.values())
    return _check(
        run, "equal seeds", repeated == 0, f"{repeated} of {seeds.total()} samples repeat the seed of another"
    )


def repeated_completions(run: LoadedRun) -> AuditCheck:
    """Equal texts on one problem, beyond what chance makes of short or certain completions.

    Where the engine gave log-probabilities: a text of probability p is sampled again by the k - 1 other samples of its
    problem (k - 1) p times on average (top-p raises p by at most 1 / top_p per token). Texts for which that is below
    one in a million are counted. Without them: chance spreads equal pairs over all distances between sample indices;
    copies of a neighbour, a shard or an earlier batch all lie at one distance.
    """
    top_p = float(run.manifest.identity.sampling.top_p)
    groups = [group for samples in run.samples.values() for group in _by_problem(samples).values() if len(group) > 1]
    name = "repeated completions"
    if groups and all(sample.sum_log_prob is not None for group in groups for sample in group):
        copies = sum(_impossible_copies(group, top_p) for group in groups)
        return _check(run, name, copies == 0, f"{copies} completions equal another too improbable to be drawn twice")
    observed, expected, deviation = _equal_pairs_by_distance(groups)
    if len(observed) < 2:
        return AuditCheck(
            name=name, result="not testable", message=f"{run.name}: needs three samples per problem, or log-probs"
        )
    scores = (observed - expected) / deviation
    worst = int(np.argmax(scores))
    fine = _two_sided(float(scores[worst])) * len(scores) >= ALARM or scores[worst] < 0
    where = "spread as chance would" if fine else f"{observed[worst]:.0f} of them between indices {worst + 1} apart"
    return _check(run, name, bool(fine), f"{observed.sum():.0f} equal pairs on the same problem, {where}")


def odd_writer(run: LoadedRun) -> AuditCheck:
    """A writer (shard, worker) whose samples are right, long or cut off more or less often than others of the same
    problems. Segments that one shard wrote one after the other count as one writer: in a run that was stopped, the
    first of them holds the samples that ended early.

    A permutation test within problems: with n of a problem's N samples in the segment, the sum of their values has mean
    n m and variance n (N - n) / N s^2 (sampling without replacement; Mantel-Haenszel for 0/1 values).
    """
    writers = sorted({_writer(sample) for samples in run.samples.values() for sample in samples})
    name = "writer unlike the rest"
    if len(writers) < 2:
        return AuditCheck(name=name, result="not testable", message=f"{run.name}: one writer drew everything")
    groups = [group for samples in run.samples.values() for group in _by_problem(samples).values()]
    marked = [[(_writer(sample), sample) for sample in group] for group in groups]
    scores = {(w, what): _stratified_z(marked, w, measure) for w in writers for what, measure in _MEASURES.items()}
    known = {key: z for key, z in scores.items() if not math.isnan(z)}
    if not known:
        return AuditCheck(name=name, result="not testable", message=f"{run.name}: no problem was drawn by two writers")
    odd = [
        f"{writer} {what} {_more(z)} than the others on the same problems (z = {z:+.1f})"
        for (writer, what), z in known.items()
        if _two_sided(z) * len(known) < ALARM
    ]
    return _check(run, name, not odd, "; ".join(odd) or f"{len(writers)} writers agree")


def shared_samples(a: LoadedRun, b: LoadedRun) -> AuditCheck:
    """Equal texts at the same place of two runs, against equal texts at different places of the same problems."""
    same = same_total = other = other_total = 0
    for task in set(a.samples) & set(b.samples):
        groups_b = _by_problem(b.samples[task])
        for problem_id, group in _by_problem(a.samples[task]).items():
            for one in group:
                for two in groups_b.get(problem_id, []):
                    equal = one.text_digest == two.text_digest
                    if one.sample_index == two.sample_index:
                        same, same_total = same + equal, same_total + 1
                    else:
                        other, other_total = other + equal, other_total + 1
    if same_total == 0:
        return AuditCheck(
            name="shared samples", result="not testable", message=f"{a.name}, {b.name}: no sample in common"
        )
    chance = (other + 1) / (other_total + 2)
    p = _binomial_tail(same, same_total, min(1.0, chance))
    message = f"{same} of {same_total} samples are equal in {a.name} and {b.name}, {chance * same_total:.1f} by chance"
    if a.manifest.seed == b.manifest.seed:
        message += f"; both drew with seed {a.manifest.seed}, so models that are alike write alike"
    return AuditCheck(name="shared samples", result="ok" if p >= ALARM else "finding", message=message)


def engine_drift(a: LoadedRun, b: LoadedRun) -> AuditCheck:
    """An A/A check: two runs of the same weights under the same sampling must not differ beyond chance."""
    sampling = [run.manifest.identity.sampling for run in (a, b)]
    if not same_weights(a, b) or sampling[0] != sampling[1]:
        message = f"{a.name}, {b.name}: not the same weights under the same sampling"
        return AuditCheck(name="engine drift", result="not testable", message=message)
    marked = []
    for task in set(a.samples) & set(b.samples):
        groups_a, groups_b = _by_problem(a.samples[task]), _by_problem(b.samples[task])
        for problem_id in groups_a.keys() & groups_b.keys():
            of_a, of_b = groups_a[problem_id], groups_b[problem_id]
            marked.append([*(("A", sample) for sample in of_a), *(("B", sample) for sample in of_b)])
    scores = {what: _stratified_z(marked, "B", measure) for what, measure in _MEASURES.items()}
    odd = [
        f"{b.name} {what} {_more(z)} than {a.name} (z = {z:+.1f})"
        for what, z in scores.items()
        if not math.isnan(z) and _two_sided(z) * len(scores) < ALARM
    ]
    message = "; ".join(odd) or f"{a.name} and {b.name} agree in score, length and truncation"
    return AuditCheck(name="engine drift", result="finding" if odd else "ok", message=message)


_MEASURES: dict[str, Callable[[GradedSample], float]] = {
    "is right": lambda sample: sample.correct,
    "writes": lambda sample: float(sample.num_tokens),
    "is cut off": lambda sample: float(sample.truncated),
}


def _check(run: LoadedRun, name: str, fine: bool, message: str) -> AuditCheck:
    return AuditCheck(name=name, result="ok" if fine else "finding", message=f"{run.name}: {message}")


def _by_problem(samples: Iterable[GradedSample]) -> dict[str, list[GradedSample]]:
    groups: defaultdict[str, list[GradedSample]] = defaultdict(list)
    for sample in samples:
        groups[sample.problem_id].append(sample)
    return groups


def _impossible_copies(group: Sequence[GradedSample], top_p: float) -> int:
    """Copies, among the samples of one problem, of texts too improbable to be sampled twice."""
    texts: defaultdict[bytes, list[GradedSample]] = defaultdict(list)
    for sample in group:
        texts[sample.text_digest].append(sample)
    copies = 0
    for same in texts.values():
        most = max((sample.sum_log_prob or 0.0) - sample.num_tokens * math.log(top_p) for sample in same)
        if len(same) > 1 and math.log(len(group) - 1) + most < math.log(1e-6):
            copies += len(same) - 1
    return copies


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


def _stratified_z(
    groups: Sequence[Sequence[tuple[str, GradedSample]]], mark: str, measure: Callable[[GradedSample], float]
) -> float:
    """z-score of the marked samples' sum of values under permutations within problems.

    NaN where single values make up so much of the variance that the sum is not near normal.
    """
    excess = variance = largest = 0.0
    for group in groups:
        pairs = [(name == mark, value) for name, sample in group if not math.isnan(value := measure(sample))]
        values = np.array([value for _, value in pairs])
        chosen = np.array([is_marked for is_marked, _ in pairs], dtype=np.bool_)
        inside, total = int(chosen.sum()), len(values)
        if 0 < inside < total:
            excess += float(values[chosen].sum() - inside * values.mean())
            variance += inside * (total - inside) / total * float(values.var(ddof=1))
            largest = max(largest, float(np.abs(values - values.mean()).max()) ** 2)
    return excess / math.sqrt(variance) if variance > max(0.0, 5.0 * largest) else math.nan


def _binomial_tail(successes: int, trials: int, chance: float) -> float:
    """P(at least so many successes)."""
    from scipy.special import bdtrc

    return 1.0 if successes == 0 else float(bdtrc(successes - 1, trials, chance))


def _two_sided(z: float) -> float:
    return 2.0 * NormalDist().cdf(-abs(z))


def _more(z: float) -> str:
    return "more" if z > 0 else "less"


def _writer(sample: GradedSample) -> str:
    """The writer's label in a segment's name, ``<number>-<label>-<unique>.jsonl``; else the name."""
    parts = sample.segment.removesuffix(".jsonl").split("-")
    return "-".join(parts[1:-1]) if len(parts) > 2 else sample.segment
