"""Graded samples without their texts, stored in columns (a million in some 80 MB) and read one at a time as objects.

An object per sample would take ten times as much. What repeats (problems, answers, files) is kept once.
"""

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

import numpy as np

from stapo_bench.records import Outcome, SampleKey
from stapo_bench.runs.store import MAX_SAMPLE_INDEX

_FOUND: tuple[tuple[Outcome | None, bool], ...] = (
    (None, False), *((outcome, False) for outcome in Outcome), (Outcome.INCORRECT, True)
)  # fmt: skip
"""Outcome, and whether it says so of an answer that could not be read: what a grade is in a column."""
_CODE = {found: code for code, found in enumerate(_FOUND)}
_CUT = (False, True, None)
_NO_SEED, _NO_COUNT = -(1 << 63), -(1 << 31)  # stand for None in columns; ``store`` refuses them as values
START_TOKENS = 256  # at the beginning of a completion, by which one that shares no more than that is known
DIGEST_SIZE = 8  # bytes: two of a million texts share one with a chance of 3e-8

Name = TypeVar("Name", bound="str | None")


@dataclass(frozen=True, kw_only=True, slots=True)
class GradedSample:
    """A sample as statistics see it, without its text."""

    problem_id: str
    sample_index: int
    outcome: Outcome | None  # None: no grade yet
    extracted: str | None = None  # the answer that the grader read
    truncated: bool | None = False  # None: not known, as number of tokens and seed may be of an imported sample
    failed: bool = False  # the engine gave it up: no completion to judge
    num_tokens: int | None = 0
    seconds: float | None = None
    seed: int | None = 0
    segment: str = ""  # the file that holds it: one per writer
    text_digest: bytes = bytes(DIGEST_SIZE)  # of the completion; equal texts have equal digests
    sum_log_prob: float | None = None  # nats
    model: str | None = None  # the version that answered, where a server told one
    text_tokens: int = 0  # tokens that an equal completion has in common with it, at least
    start_digest: bytes | None = None  # of the completion's first ``START_TOKENS``, where it goes on behind them
    is_unread: bool = False  # INCORRECT because the answer could not be read or compared, see ``Grade``
    is_copy: bool = False  # its completion repeats one of the same problem that counts, see ``stapo_bench.runs.copies``

    @property
    def correct(self) -> float:
        """1.0 right, 0.0 wrong or without an answer, NaN when nothing decided it or it is a copy: no sample."""
        if self.is_copy or self.outcome is None or self.outcome is Outcome.GRADER_ERROR or self.failed:
            return float("nan")
        return float(self.outcome is Outcome.CORRECT)


class Names(Generic[Name]):
    """Numbers for names, each kept once.

    >>> names = Names[str]()
    >>> names.number("b"), names.number("a"), names.number("b"), names[1]
    (0, 1, 0, 'a')
    """

    def __init__(self) -> None:
        self._numbers: dict[Name, int] = {}
        self._names: list[Name] = []

    def number(self, name: Name) -> int:
        """The name's number; a new name gets the next one."""
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return number

    def __getitem__(self, number: int) -> Name:
        return self._names[number]


class GradedSamples(Sequence[GradedSample]):
    """The samples of one task, a row each in columns; times keep seven digits.

    >>> samples = GradedSamples()
    >>> for problem, index in (("b", 1), ("a", 7), ("b", 0)):
    ...     samples.append(GradedSample(problem_id=problem, sample_index=index, outcome=Outcome.CORRECT))
    >>> samples.sort()
    >>> [(sample.problem_id, sample.sample_index) for sample in samples]
    [('a', 7), ('b', 0), ('b', 1)]
    """

    def __init__(self) -> None:
        self._problems, self._segments = Names[str](), Names[str]()
        self._answers: Names[str | None] = Names()
        self._models: Names[str | None] = Names()
        self._problem, self._index, self._segment, self._answer, self._model = (array("i") for _ in range(5))
        self._seed, self._tokens, self._text_tokens = array("q"), array("i"), array("i")
        self._seconds, self._log_prob = array("f"), array("d")
        self._outcome, self._cut, self._failed, self._copy = (bytearray() for _ in range(4))
        self._digest, self._start = bytearray(), bytearray()
        self._order: Sequence[int] | None = None  # None: as appended

    def append(self, sample: GradedSample) -> None:
        """Add a sample at the end.

        Raises:
            OverflowError: a seed beyond 64 bits, or a number of tokens beyond 32.
        """
        # These three may overflow: they come before the others.
        self._seed.append(_NO_SEED if sample.seed is None else sample.seed)
        self._tokens.append(_NO_COUNT if sample.num_tokens is None else sample.num_tokens)
        self._text_tokens.append(sample.text_tokens)
        self._problem.append(self._problems.number(sample.problem_id))
        self._index.append(sample.sample_index)
        self._segment.append(self._segments.number(sample.segment))
        self._answer.append(self._answers.number(sample.extracted))
        self._model.append(self._models.number(sample.model))
        self._seconds.append(_or_nan(sample.seconds))
        self._log_prob.append(_or_nan(sample.sum_log_prob))
        self._outcome.append(_CODE[sample.outcome, sample.is_unread])
        self._cut.append(_CUT.index(sample.truncated))
        self._failed.append(sample.failed)
        self._copy.append(sample.is_copy)
        self._digest += sample.text_digest
        self._start += sample.start_digest or bytes(DIGEST_SIZE)
        self._order = None

    def sort(self) -> None:
        """Order by problem and sample index."""
        names = [self._problems[number] for number in range(max(self._problem, default=-1) + 1)]
        rank = np.empty(len(names), dtype=np.int32)
        rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        order = np.lexsort((np.array(self._index, dtype=np.int32), rank[np.array(self._problem, dtype=np.int32)]))
        self._order = array("i", order.astype(np.int32).tobytes())

    def repeating(self) -> Iterator[list[int]]:
        """The places of the samples of each problem on which two have the same text, by sample index."""
        problem, index = (np.array(column, dtype=np.int32) for column in (self._problem, self._index))
        text = np.frombuffer(bytes(self._digest), dtype=np.uint64)
        place = np.arange(len(self)) if self._order is None else np.argsort(self._order)
        by_text = np.lexsort((text, problem))
        equal = (np.diff(problem[by_text]) == 0) & (text[by_text][1:] == text[by_text][:-1])
        by_index = np.lexsort((index, problem))
        ends = np.searchsorted(problem[by_index], np.unique(problem[by_text][1:][equal]), side="right")
        starts = np.searchsorted(problem[by_index], np.unique(problem[by_text][1:][equal]), side="left")
        for start, end in zip(starts, ends, strict=True):
            yield place[by_index[start:end]].tolist()

    @property
    def num_problems(self) -> int:
        """Problems that have a sample."""
        return len(set(self._problem))

    def mark_copy(self, place: int) -> None:
        """Note that a sample is a copy of another."""
        self._copy[place if self._order is None else self._order[place]] = True

    def __len__(self) -> int:
        return len(self._index)

    @overload
    def __getitem__(self, place: int) -> GradedSample: ...
    @overload
    def __getitem__(self, place: slice) -> list[GradedSample]: ...
    def __getitem__(self, place: int | slice) -> GradedSample | list[GradedSample]:
        order = range(len(self)) if self._order is None else self._order
        found = order[place]
        return self._row(found) if isinstance(found, int) else [self._row(i) for i in found]

    def __iter__(self) -> Iterator[GradedSample]:
        return map(self._row, range(len(self)) if self._order is None else self._order)

    def _row(self, i: int) -> GradedSample:
        outcome, is_unread = _FOUND[self._outcome[i]]
        return GradedSample(
            problem_id=self._problems[self._problem[i]],
            sample_index=self._index[i],
            outcome=outcome,
            extracted=self._answers[self._answer[i]],
            truncated=_CUT[self._cut[i]],
            failed=bool(self._failed[i]),
            num_tokens=None if self._tokens[i] == _NO_COUNT else self._tokens[i],
            seconds=_or_none(self._seconds[i]),
            seed=None if self._seed[i] == _NO_SEED else self._seed[i],
            segment=self._segments[self._segment[i]],
            text_digest=bytes(self._digest[i * DIGEST_SIZE : (i + 1) * DIGEST_SIZE]),
            sum_log_prob=_or_none(self._log_prob[i]),
            model=self._models[self._model[i]],
            text_tokens=self._text_tokens[i],
            start_digest=start if any(start := bytes(self._start[i * DIGEST_SIZE : (i + 1) * DIGEST_SIZE])) else None,
            is_unread=is_unread,
            is_copy=bool(self._copy[i]),
        )


class GradedKeys(Mapping[SampleKey, tuple[Outcome, str | None]]):
    """What a grader found by sample: outcome and extracted answer; setting a key again replaces it."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str], tuple[bytearray, array[int]]] = {}
        self._answers: Names[str | None] = Names()
        self._size = 0

    def set(self, key: SampleKey, outcome: Outcome, extracted: str | None, is_unread: bool = False) -> None:
        """Store a grade; ValueError for an index that no sample has."""
        if not 0 <= key.sample_index < MAX_SAMPLE_INDEX:
            raise ValueError(f"sample_index is {key.sample_index}, expected 0 to {MAX_SAMPLE_INDEX - 1}")
        outcomes, answers = self._columns.setdefault((key.task, key.problem_id), (bytearray(), array("i")))
        if (lacking := key.sample_index + 1 - len(outcomes)) > 0:
            outcomes.extend(bytes(lacking))
            answers.extend([0] * lacking)
        self._size += not outcomes[key.sample_index]
        outcomes[key.sample_index] = _CODE[outcome, is_unread]
        answers[key.sample_index] = self._answers.number(extracted)

    def __getitem__(self, key: SampleKey) -> tuple[Outcome, str | None]:
        task, problem_id, index = key
        outcomes, answers = self._columns[task, problem_id]
        outcome = _FOUND[outcomes[index]][0] if index < len(outcomes) else None
        if outcome is None:
            raise KeyError(key)
        return outcome, self._answers[answers[index]]

    def is_unread(self, key: SampleKey) -> bool:
        """Whether a grade says INCORRECT of an answer that could not be read; False where there is none."""
        outcomes, _ = self._columns.get((key.task, key.problem_id), (b"", None))
        return key.sample_index < len(outcomes) and _FOUND[outcomes[key.sample_index]][1]

    def __iter__(self) -> Iterator[SampleKey]:
        for (task, problem_id), (outcomes, _) in self._columns.items():
            yield from (SampleKey(task, problem_id, index) for index, code in enumerate(outcomes) if code)

    def __len__(self) -> int:
        return self._size


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
