"""Samples that two runs share: passed on at the same places, or at others, where each should have drawn its own.

shared_samples(a, b), moved_samples(a, b)
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from stapo_bench.analysis.audit_check import AuditCheck, checked, not_testable
from stapo_bench.runs import LoadedRun, Rows
from stapo_bench.statistics import ALARM, Labels, Matrix, copy_evidence, most_log_probability, problem_evidence

_PERMUTATIONS = 200
_AT_ONCE = 256  # problems whose pairs are in memory, [num_problems, num_samples, num_samples]


@dataclass(frozen=True, kw_only=True, eq=False)
class Common:
    """The samples of two runs on the problems of both, problem after problem, without copies within a run."""

    a: Rows
    b: Rows
    num_problems: int

    @cached_property
    def text(self) -> Labels:
        """A number for each sample of A, then of B: equal ones where problem and text are."""
        return _numbered(self.column("problem"), self.column("text"))

    def column(self, name: str) -> Labels:
        """Of the samples of A, then of B."""
        return np.concatenate([self.a[name], self.b[name]])

    def equal_pairs(self) -> tuple[int, int, int, int]:
        """Pairs of a sample of A and one of B at the same place: equal texts, all; and at other places: equal, all."""
        problem, index = self.column("problem"), self.column("index")
        of = (_numbered(self.text, index), _numbered(problem, index), self.text, problem)
        counted = [[np.bincount(side, minlength=len(n)) for side in np.split(n, [len(self.a)])] for n in of]
        same, same_total, equal, total = (int(one @ two) for one, two in counted)
        return same, same_total, equal - same, total - same_total


def common_problems(a: LoadedRun, b: LoadedRun) -> Common:
    """The samples of two runs that are compared with each other."""
    names = sorted(a.drawn.places.keys() & b.drawn.places.keys())
    sides = [rows[~rows["is_copy"]] for rows in (run.drawn.of(names) for run in (a, b))]
    return Common(a=sides[0], b=sides[1], num_problems=len(names))


def _numbered(one: Labels, other: Labels) -> Labels:
    """A number for each pair of values, from 0 up."""
    values, numbers = np.unique(other, return_inverse=True)
    both: Labels = np.unique(one * max(1, len(values)) + numbers, return_inverse=True)[1]
    return both


def shared_samples(a: LoadedRun, b: LoadedRun) -> AuditCheck:
    """Equal texts at the same place of two runs, against equal texts at different places of the same problems.

    Under one seed, models that are alike write alike: what two such runs share is evidence of nothing.
    """
    common = common_problems(a, b)
    same, same_total, other, other_total = common.equal_pairs()
    if same_total == 0:
        return not_testable("shared samples", f"{a.name}, {b.name}: no sample in common")
    message = f"{same} of {same_total} samples are equal in {a.name} and {b.name}"
    temperature = b.manifest.identity.sampling.temperature
    if other_total:
        chance = (other + 1) / (other_total + 2)
        message += f", {chance * same_total:.1f} by chance"
        by_chance = _binomial_tail(same, same_total, min(1.0, chance)) >= ALARM
    elif same and not temperature:
        message += "; one sample per problem at a temperature that is not known, or 0, does not tell what chance gives"
        return not_testable("shared samples", message)
    else:
        evidence = _evidence_of_passing_on(common, temperature or 0.0, moved=False)
        by_chance = evidence < -math.log(ALARM)
    if not by_chance and a.manifest.shares_seed(b.manifest):
        message += f"; both drew with seed {a.manifest.seed}, so models that are alike write alike"
        return not_testable("shared samples", message)
    return checked("shared samples", by_chance, message)


def moved_samples(a: LoadedRun, b: LoadedRun) -> AuditCheck:
    """Equal texts at different places of two runs: samples that were passed on, reordered or from a common cache.

    Two tests. Independent runs of equal models share texts as often as a random division of all their samples into two
    does; different models share fewer. And a text of so many tokens, or so small a log-probability, comes again by
    chance as rarely as ``stapo_bench.statistics.copies`` says.
    """
    name = "samples shared at other places"
    common = common_problems(a, b)
    if common.equal_pairs()[3] == 0:
        return not_testable(name, f"{a.name}, {b.name}: no places to compare")
    observed, expected, variance = (sum(parts) for parts in _moved_pairs(common).tolist())
    z = (observed - expected) / math.sqrt(max(variance, expected, 1.0))
    temperature = b.manifest.identity.sampling.temperature or 0.0  # not known: perhaps greedy, which proves nothing
    evidence = _evidence_of_passing_on(common, temperature)
    fine = NormalDist().cdf(-z) >= ALARM and evidence < -math.log(ALARM)
    message = (
        f"{observed:.0f} pairs of samples are equal at different places of {a.name} and {b.name}; a random division of "
        f"their samples gives {expected:.1f}"
    )
    return checked(name, fine, message)


def _moved_pairs(common: Common) -> Matrix:
    """Equal texts at different places: observed, expected and variance under permutations, [3, num_problems].

    A permutation deals all samples of both runs on a problem out to their places again: the same permutations for
    problems with the same places, whose pairs are then counted together, as sums of [text x = text y] times
    [x and y are dealt to different places of the two runs].
    """
    starts = [np.searchsorted(rows["problem"], np.arange(common.num_problems + 1)) for rows in (common.a, common.b)]
    repeated = np.bincount(common.text, minlength=1)[common.text] > 1
    alike: defaultdict[tuple[int, bytes, bytes], list[int]] = defaultdict(list)
    for problem in np.unique(common.column("problem")[repeated]).tolist():
        a, b = (
            rows["index"][start[problem] : start[problem + 1]]
            for rows, start in zip((common.a, common.b), starts, strict=True)
        )
        alike[problem // _AT_ONCE, a.tobytes(), b.tobytes()].append(problem)
    found = np.zeros((3, common.num_problems))
    for (_, *places), problems in alike.items():
        a, b = (np.frombuffer(place, dtype=np.int64) for place in places)
        size = len(a) + len(b)
        moved = np.zeros((size, size), dtype=np.float32)
        moved[: len(a), len(a) :] = a[:, None] != b
        order = np.tile(np.arange(size), (_PERMUTATIONS, 1))
        dealt = np.vstack([order[:1], np.random.default_rng(0).permuted(order, axis=1)])  # row 0: as observed
        to = np.argsort(dealt, axis=1)  # the place that each sample is dealt to
        counted = moved[to[:, :, None], to[:, None, :]].reshape(len(to), -1)
        rows = [start[problems, None] + np.arange(len(side)) for start, side in zip(starts, (a, b), strict=True)]
        text = common.text[np.hstack([rows[0], len(common.a) + rows[1]])]
        equal = (text[:, :, None] == text[:, None, :]).reshape(len(problems), -1)
        counts = (equal.astype(np.float32) @ counted.T).astype(np.float64)  # of small whole numbers: exact
        found[:, problems] = counts[:, 0], counts[:, 1:].mean(axis=1), counts[:, 1:].var(axis=1)
    return found


def _evidence_of_passing_on(common: Common, temperature: float, moved: bool = True) -> float:
    """log E that B's samples repeat A's of other places on their problems, or those of the same places.

    ``temperature``: of B, another model perhaps.

    What A's engine told of a text's log-probability holds for A alone: its length has to do.
    """
    a, b = common.a, common.b
    text_a, text_b = np.split(common.text, [len(a)])
    lengths, own = np.unique(a["text_tokens"], return_inverse=True)
    most = np.array([most_log_probability(tokens, temperature) for tokens in lengths.tolist()])[own]
    last = np.full(len(common.text), -1)
    last[text_a] = np.arange(len(a))
    found = last[text_b]  # the sample of A with the same text
    counts = (found < 0) | ((a["index"][found] != b["index"]) == moved)
    evidence = np.full(common.num_problems, -math.inf)
    for problem in np.unique(b["problem"][counts & (found >= 0) & (most[found] < 0.0)]).tolist():
        of_a, of_b = (slice(*np.searchsorted(rows["problem"], [problem, problem + 1])) for rows in (a, b))
        texts = [(text, 0.0) for text in text_b[of_b][counts[of_b]].tolist()]
        evidence[problem] = problem_evidence(
            texts, known=dict(zip(text_a[of_a].tolist(), most[of_a].tolist(), strict=True))
        )
    return copy_evidence(evidence)[0]


def _binomial_tail(successes: int, trials: int, chance: float) -> float:
    """P(at least so many successes)."""
    from scipy.special import bdtrc

    return 1.0 if successes == 0 else float(bdtrc(successes - 1, trials, chance))
