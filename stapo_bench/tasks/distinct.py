"""The first of an endless stream of generated problems that differ.

>>> import itertools
>>> distinct(itertools.cycle("abcb"), 3, what="letters", key=str.lower)
['a', 'b', 'c']
"""

import itertools
from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

from stapo_bench.errors import UsageError

MAX_REPEATS = 2000  # known ones in a row after which there seem to be no others

T = TypeVar("T")


def distinct(drawn: Iterator[T], count: int, *, what: str, key: Callable[[T], Hashable]) -> list[T]:
    """The first ``count`` whose keys differ, ``what`` in words.

    Raises:
        UsageError: there seem to be fewer.
    """
    found: dict[Hashable, T] = {}
    while len(found) < count:
        new = next((one for one in itertools.islice(drawn, MAX_REPEATS + 1) if key(one) not in found), None)
        if new is None:
            raise UsageError(f"expected {count} distinct {what}, found {len(found)}; ask for fewer")
        found[key(new)] = new
    return list(found.values())
