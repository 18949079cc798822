r"""Lists that leave terms out, ``1, 2, \ldots, 10``, filled in where the terms written say which.

Constant differences, and constant ratios from three terms on, are filled in. A list without an end, or with a symbol
for one, keeps its dots and its first two terms, so that ``2, 4, \ldots`` and ``2, 4, 6, \ldots`` are the same.
"""

from fractions import Fraction
from itertools import pairwise

from stapo_bench.grading.evaluate import Inexact, exact
from stapo_bench.grading.tree import Kind, Node, num

MAX_TERMS = 60
DOTS = Node(Kind.DOTS)


def progression(items: list[Node]) -> list[Node]:
    """The items with what the dots stand for, if it is plain; else as they are."""
    if items.count(DOTS) != 1 or items[0] == DOTS:
        return items
    place = items.index(DOTS)
    first, last = _values(items[:place]), _values(items[place + 1 :])
    if first is None:
        return items
    for step in (_difference, _ratio):
        if (terms := step(first, last)) is not None:
            return [num(term) for term in terms]
    if len(first) > 2 and len({b - a for a, b in pairwise(first)}) == 1:
        return [*items[:2], *items[place:]]
    return items


def _values(items: list[Node]) -> list[Fraction] | None:
    """The values of numbers; None where one is none."""
    try:
        return [exact(item, {}) for item in items]
    except Inexact:
        return None


def _difference(first: list[Fraction], last: list[Fraction] | None) -> list[Fraction] | None:
    """``1, 2, ..., 10`` and ``1, ..., 10``."""
    if not last:
        return None
    step = first[1] - first[0] if len(first) > 1 else Fraction(1)
    count = (last[-1] - first[0]) / step if step else Fraction(0)
    if count.denominator != 1 or not 0 < count < MAX_TERMS:
        return None
    terms = [first[0] + k * step for k in range(int(count) + 1)]
    return terms if terms[: len(first)] == first and terms[-len(last) :] == last else None


def _ratio(first: list[Fraction], last: list[Fraction] | None) -> list[Fraction] | None:
    """``1, 2, 4, ..., 64``."""
    if not last or len(first) < 3 or not first[0] or abs(first[1]) <= abs(first[0]):
        return None
    terms, ratio = [first[0]], first[1] / first[0]
    while terms[-1] != last[-1] and len(terms) < MAX_TERMS and abs(terms[-1]) < abs(last[-1]):
        terms.append(terms[-1] * ratio)
    return terms if terms[: len(first)] == first and terms[-len(last) :] == last else None
