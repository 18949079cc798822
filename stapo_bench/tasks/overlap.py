"""Which evaluation problems stand in a training set: shared shingles of eight words.

    find_overlaps(problems, read_training_texts(Path("train.jsonl")))

A problem counts as contained when one training row shares at least half of its shingles: reworded openings and other
markup still match, template siblings with other numbers may match too, and all are to be treated as contaminated.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stapo_bench.errors import StapoError, watched
from stapo_bench.records import Problem
from stapo_bench.tasks.foreign_files import read_foreign_rows

SHINGLE_WORDS = 8
MIN_SHARE = 0.5
_COLUMNS = ("problem", "question", "prompt", "messages")
_WORD = re.compile(r"[a-z]+|\d+")
_MARKUP = re.compile(r"\\(left|right|text|mathrm|displaystyle|dfrac|tfrac|frac|quad|cdot|begin|end|[,;!])")


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """An evaluation problem and the training row that shares most of it."""

    task: str
    problem_id: str
    row: int  # line of the training file, from 1
    share: float  # of the problem's shingles


def shingles(text: str) -> frozenset[int]:
    """Hashes of all runs of eight words; a shorter text is one run.

    Words are lower-case letters or digits; markup that copies of a problem write differently is left out.

    >>> shingles(r"Find $x$ where $\\dfrac{x}{2}=1$, and prove it") == shingles("find x where x / 2 = 1 and prove it")
    True
    >>> len(shingles("one two three four five six seven eight nine"))
    2
    """
    words = _WORD.findall(_MARKUP.sub(" ", text.lower()))
    count = max(1, len(words) - SHINGLE_WORDS + 1)
    return frozenset(hash(tuple(words[i : i + SHINGLE_WORDS])) for i in range(count)) if words else frozenset()


def find_overlaps(problems: Sequence[Problem], training_texts: Iterable[str]) -> list[Overlap]:
    """The contained problems in their order, each with the row that shares most of it."""
    best: dict[int, tuple[float, int]] = {}
    for number, row, share in contained(problems, training_texts):
        if share > best.get(number, (0.0, 0))[0]:
            best[number] = (share, row)
    return [
        Overlap(task=problems[number].task, problem_id=problems[number].problem_id, row=row, share=share)
        for number, (share, row) in sorted(best.items())
    ]


def contained(
    problems: Sequence[Problem], training_texts: Iterable[str], min_share: float = MIN_SHARE
) -> Iterator[tuple[int, int, float]]:
    """(number of a contained problem from 0, row that holds it from 1, share of its shingles), row by row.

    Training texts stream; only the problems' shingles are kept in memory.
    """
    own = [shingles(problem.question) for problem in problems]
    holders: dict[int, list[int]] = {}
    for number, found in enumerate(own):
        for shingle in found:
            holders.setdefault(shingle, []).append(number)
    for row, text in enumerate(watched(training_texts, "looking through", "training rows"), start=1):
        shared = Counter(number for shingle in shingles(text) for number in holders.get(shingle, ()))
        for number, count in shared.items():
            share = count / len(own[number])
            if share >= min_share:
                yield number, row, share


def read_training_texts(path: Path) -> Iterator[str]:
    """The problem of each line of a JSON-lines file: column ``problem``, ``question``, ``prompt`` or ``messages``.

    Of chat messages it is what the user says.
    """
    if not path.is_file():
        raise StapoError(f"{path}: no such file; expected one JSON object per line with {' or '.join(_COLUMNS)}")
    for number, row in read_foreign_rows(path):
        try:
            text = next(row[column] for column in _COLUMNS if column in row)
            if not isinstance(text, str):
                text = "\n".join(message["content"] for message in text if message["role"] == "user")
        except (TypeError, KeyError, AttributeError, StopIteration):
            raise StapoError(
                f"{path}, line {number}: expected a JSON object with {' or '.join(_COLUMNS)}, got {str(row)[:60]!r}"
            ) from None
        yield text
