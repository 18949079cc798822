"""Copies are found while sampling, after a few samples of each problem and before hours are spent on the rest."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from stapo_bench.records import Sample, SampleKey, StatedSampling
from stapo_bench.runs import graded_sample, texts_of
from stapo_bench.statistics import ALARM, copy_evidence, problem_evidence

_WATCHED = 8  # first samples of a problem that are looked at


class CopyWatch:
    """Looks at the first samples of each problem, and says once where they are copies of each other.

    They count in order of their indices, not in that in which they come: equal texts end together. By chance it speaks
    in at most one of a thousand runs, see ``stapo_bench.statistics.copies``.
    """

    def __init__(self, keys: Iterable[SampleKey], sampling: StatedSampling) -> None:
        """``keys``: of the samples that are to come, the first ones first."""
        self._sampling = sampling
        self._first: dict[tuple[str, str], list[int]] = {}
        for task, problem_id, index in keys if sampling.temperature else ():
            if len(first := self._first.setdefault((task, problem_id), [])) < _WATCHED:
                first.append(index)
        self._texts: dict[tuple[str, str], dict[int, tuple[bytes, float]]] = {}
        self._evidence: dict[tuple[str, str], float] = {}
        self._num_seen = self._next_look = 0  # of the samples that are looked at
        self._has_spoken = False

    def see(self, sample: Sample) -> Iterator[str]:
        """Take note of a sample; a line if it is the one that leaves no doubt."""
        problem = sample.task, sample.problem_id
        first = self._first.get(problem, ())
        if self._has_spoken or sample.sample_index not in first:
            return
        came = self._texts.setdefault(problem, {})
        (came[sample.sample_index],) = texts_of([graded_sample(sample)], self._sampling)
        self._evidence[problem] = problem_evidence(_without_gaps(first, came))
        self._num_seen += 1
        if self._evidence[problem] == -math.inf or self._num_seen < self._next_look:
            return
        self._next_look = self._num_seen + self._num_seen // 100  # many problems take time
        repeated = [evidence for evidence in self._evidence.values() if evidence > -math.inf]
        evidence, _ = copy_evidence(repeated, len(self._evidence) - len(repeated))
        if evidence >= -math.log(ALARM):
            self._has_spoken = True
            yield (
                f"warning: equal completions on {len(repeated)} of {len(self._evidence)} problems, far beyond chance; "
                "does the server or engine use the seed of each request? Copies will count as no samples"
            )


def _without_gaps(first: Sequence[int], came: dict[int, tuple[bytes, float]]) -> list[tuple[bytes, float]]:
    """What came, in the order of ``first``, up to the first sample that is still awaited."""
    return [came[index] for index in takewhile(came.__contains__, first)]
