"""Samples that two runs share: passed on at the same places, or at others, where each should have drawn its own.

shared_samples(a, b), moved_samples(a, b)
"""

import math
from collections.abc import Hashable, Iterator
from itertools import product
from statistics import NormalDist

import numpy as np

from stapo_bench.analysis.audit_check import AuditCheck, by_problem, checked, not_testable
from stapo_bench.runs import GradedSample, LoadedRun
from stapo_bench.statistics import ALARM, copy_evidence, most_log_probability, problem_evidence

_PERMUTATIONS = 200

Pair = tuple[list[GradedSample], list[GradedSample]]
"""Two runs' samples of one problem."""


def shared_samples(a: LoadedRun, b: LoadedRun) -> AuditCheck:
    """Equal texts at the same place of two runs, against equal texts at different places of the same problems.

    Under one seed, models that are alike write alike: what two such runs share is evidence of nothing.
    """
    same = same_total = other = other_total = 0
    groups = list(common_problems(a, b))
    for of_a, of_b in groups:
        for one, two in product(of_a, of_b):
            equal = one.text_digest == two.text_digest
            if one.sample_index == two.sample_index:
                same, same_total = same + equal, same_total + 1
            else:
                other, other_total = other + equal, other_total + 1
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
        evidence, _ = copy_evidence([_evidence_of_passing_on(pair, temperature or 0.0, moved=False) for pair in groups])
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
    groups = list(common_problems(a, b))
    if not any(one.sample_index != two.sample_index for pair in groups for one, two in product(*pair)):
        return not_testable(name, f"{a.name}, {b.name}: no places to compare")
    observed, expected, variance = (sum(parts) for parts in zip(*map(_moved_pairs, groups), strict=True))
    z = (observed - expected) / math.sqrt(max(variance, expected, 1.0))
    temperature = b.manifest.identity.sampling.temperature or 0.0  # not known: perhaps greedy, which proves nothing
    evidence, _ = copy_evidence([_evidence_of_passing_on(pair, temperature) for pair in groups])
    fine = NormalDist().cdf(-z) >= ALARM and evidence < -math.log(ALARM)
    message = (
        f"{observed:.0f} pairs of samples are equal at different places of {a.name} and {b.name}; a random division of "
        f"their samples gives {expected:.1f}"
    )
    return checked(name, fine, message)


def common_problems(a: LoadedRun, b: LoadedRun) -> Iterator[Pair]:
    """By problem of both runs, the samples of each, without copies within a run."""
    for task in sorted(set(a.samples) & set(b.samples)):
        groups_a, groups_b = by_problem(a.samples[task]), by_problem(b.samples[task])
        for problem_id in sorted(groups_a.keys() & groups_b.keys()):
            of_a, of_b = (
                [sample for sample in group[problem_id] if not sample.is_copy] for group in (groups_a, groups_b)
            )
            yield of_a, of_b


def _moved_pairs(pair: Pair) -> tuple[float, float, float]:
    """Equal texts at different places of two runs on one problem: observed, expected and variance under permutations.

    A permutation deals all samples of both runs out to their places again.
    """
    of_a, of_b = pair
    labels = np.unique([sample.text_digest for sample in (*of_a, *of_b)], return_inverse=True)[1]
    if len(set(labels.tolist())) == len(labels):
        return 0.0, 0.0, 0.0
    rng = np.random.default_rng(0)
    dealt = np.vstack([labels, rng.permuted(np.tile(labels, (_PERMUTATIONS, 1)), axis=1)])  # row 0: as observed
    places = list(product(range(len(of_a)), range(len(of_b))))
    moved = [(i, len(of_a) + j) for i, j in places if of_a[i].sample_index != of_b[j].sample_index]
    one, other = np.array(moved, dtype=np.int64).reshape(-1, 2).T
    counts = (dealt[:, one] == dealt[:, other]).sum(axis=1).astype(np.float64)
    return float(counts[0]), float(counts[1:].mean()), float(counts[1:].var())


def _evidence_of_passing_on(pair: Pair, temperature: float, moved: bool = True) -> float:
    """log E that B's samples of one problem repeat A's of other places, or those of the same places.

    ``temperature``: of B, another model perhaps.

    What A's engine told of a text's log-probability holds for A alone: its length has to do.
    """
    of_a, of_b = pair
    place = {sample.text_digest: sample.sample_index for sample in of_a}
    known: dict[Hashable, float] = {
        sample.text_digest: most_log_probability(sample.text_tokens, temperature) for sample in of_a
    }
    texts = [
        (sample.text_digest, 0.0)
        for sample in of_b
        if sample.text_digest not in place or (place[sample.text_digest] != sample.sample_index) == moved
    ]
    return problem_evidence(texts, known=known)


def _binomial_tail(successes: int, trials: int, chance: float) -> float:
    """P(at least so many successes)."""
    from scipy.special import bdtrc

    return 1.0 if successes == 0 else float(bdtrc(successes - 1, trials, chance))
