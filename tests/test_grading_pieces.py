"""Sets of pieces of the real line hold the points that they should: every pair of small ones, point by point."""

from fractions import Fraction
from itertools import combinations_with_replacement, product

from stapo_bench.grading.compare.pieces import Piece, complement, intersection, merge
from stapo_bench.grading.tree import num

POINTS = [Fraction(half, 2) for half in range(5)]
"""All ends, and what lies half way between them."""


def holds(region):
    """Which of the points are in one of the pieces."""
    return [any(holds_one(piece, point) for piece in region) for point in POINTS]


def holds_one(piece, point):
    low, high = piece.low.value, piece.high.value
    return (low < point or (low == point and piece.low_closed)) and (
        point < high or (point == high and piece.high_closed)
    )


def test_sets_of_pieces_hold_the_points_that_they_should():
    places = combinations_with_replacement(map(num, range(3)), 2)
    pieces = [Piece(*ends, *closed) for ends, closed in product(places, product((False, True), repeat=2))]
    whole = Piece(num(0), num(2), True, True)
    for a, b in product(pieces, repeat=2):
        either = [x or y for x, y in zip(holds([a]), holds([b]), strict=True)]
        merged = merge([a, b])
        assert holds(merged) == either, (a, b)
        assert holds(intersection([a], [b])) == [x and y for x, y in zip(holds([a]), holds([b]), strict=True)], (a, b)
        assert holds(intersection(complement([a, b]), [whole])) == [not x for x in either], (a, b)
        if len(merged) == 2:  # sorted, with a point between them
            first, second = merged
            gap = second.low.value - first.high.value
            assert gap > 0 or (gap == 0 and not (first.high_closed or second.low_closed)), (a, b)
