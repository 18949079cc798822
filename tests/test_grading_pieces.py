"""Sets of pieces of the real line hold the points that they should: every pair of small ones, point by point."""

from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

from stapo_bench.grading.compare.pieces import INFINITY, MINUS_INFINITY, Piece, complement, intersection, merge
from stapo_bench.grading.compare.regions import _pieces_as_written, reads_as_region, turned, variable
from stapo_bench.grading.evaluate import refill
from stapo_bench.grading.read import parse
from stapo_bench.grading.tree import Refusal, num, sym


@pytest.fixture(autouse=True)
def _full_budget():
    refill()


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


A, B = sym("a"), sym("b")


@pytest.mark.parametrize(
    ("written", "ends"),
    [
        (r"a < x \le b", (A, B, False, True)),
        (r"a \le x < b", (A, B, True, False)),
        (r"b > x \ge a", (A, B, True, False)),
        (r"b \ge x > a", (A, B, False, True)),
        ("x < a", (MINUS_INFINITY, A, False, False)),
        (r"x \le a", (MINUS_INFINITY, A, False, True)),
        ("x > a", (A, INFINITY, False, False)),
        (r"x \ge a", (A, INFINITY, True, False)),
        (r"x \in (a, b]", (A, B, False, True)),
        ("a < x > b", None),
        ("2x < a", None),
        (r"x \ne a", None),
    ],
)
def test_ends_that_are_letters_stay_as_written(written, ends):
    if ends is None:
        with pytest.raises(Refusal):
            _pieces_as_written(parse(written))
    else:
        (piece,) = _pieces_as_written(parse(written))
        assert (piece.low, piece.high, piece.low_closed, piece.high_closed) == ends


@pytest.mark.parametrize(
    ("notation", "is_region", "letter"),
    [
        (r"(1, \infty)", True, None),
        ("(1, 2, 3)", False, None),
        (r"(1, 2, \infty)", False, None),
        (r"\mathbb{R}", True, None),
        ("R", False, None),
        ("x < 1", True, "x"),
        ("x = 1", False, "x"),
        (r"x \ne 1", True, "x"),
        (r"x < 1 \text{ or } x = 2", True, "x"),
        (r"x < 1 \text{ and } x = 2", False, "x"),
        (r"x = 1 \text{ or } x = 2", False, "x"),
        ("x < 1, x > 3", True, "x"),
        ("x < 1, y > 3", False, None),
        (r"x < 1, x \ne 0", True, "x"),
    ],
)
def test_what_speaks_of_a_set_of_numbers(notation, is_region, letter):
    assert reads_as_region(parse(notation)) is is_region
    assert variable(parse(notation)) == letter


def test_a_chain_turned_keeps_its_meaning():
    assert turned(parse(r"1 < x \le 3")) == parse(r"3 \ge x > 1")
