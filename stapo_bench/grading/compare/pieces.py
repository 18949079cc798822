"""Pieces of the real line, and the operations of sets on lists of them."""

from dataclasses import dataclass
from functools import cmp_to_key

from stapo_bench.grading.evaluate import compare_reals
from stapo_bench.grading.tree import Node, negate, sym

INFINITY = sym("infty")
MINUS_INFINITY = negate(INFINITY)


@dataclass(frozen=True)
class Piece:
    """An interval; a point where both ends are one and the same, and closed."""

    low: Node
    high: Node
    low_closed: bool
    high_closed: bool


Region = list[Piece]
EVERYTHING = Piece(MINUS_INFINITY, INFINITY, False, False)


def merge(pieces: Region) -> Region:
    """The same points as sorted pieces that neither meet nor touch."""
    live = [p for p in pieces if _not_empty(p)]
    live.sort(key=cmp_to_key(_by_low))
    merged: Region = []
    for piece in live:
        if merged and _touches(merged[-1], piece):
            last = merged[-1]
            order = compare_reals(last.high, piece.high)
            high, closed = (last.high, last.high_closed) if order > 0 else (piece.high, piece.high_closed)
            if order == 0:
                closed = last.high_closed or piece.high_closed
            merged[-1] = Piece(last.low, high, last.low_closed, closed)
        else:
            merged.append(piece)
    return merged


def _not_empty(piece: Piece) -> bool:
    """Whether there is a point in the piece."""
    order = compare_reals(piece.low, piece.high)
    return order < 0 or (order == 0 and piece.low_closed and piece.high_closed)


def _by_low(a: Piece, b: Piece) -> int:
    """Their order from left to right; a closed end comes before an open one at the same place."""
    order = compare_reals(a.low, b.low)
    return order if order else int(b.low_closed) - int(a.low_closed)


def _touches(a: Piece, b: Piece) -> bool:
    """Whether nothing lies between a piece and one that begins no earlier."""
    order = compare_reals(b.low, a.high)
    return order < 0 or (order == 0 and (a.high_closed or b.low_closed))


def complement(pieces: Region) -> Region:
    """What the pieces leave of the line."""
    result: Region = []
    low, closed = MINUS_INFINITY, False
    for piece in merge(pieces):
        result.append(Piece(low, piece.low, closed, not piece.low_closed))
        low, closed = piece.high, not piece.high_closed
    result.append(Piece(low, INFINITY, closed, False))
    return [p for p in result if _not_empty(p)]


def intersection(left: Region, right: Region) -> Region:
    """What lies in both."""
    result: Region = []
    for a in left:
        for b in right:
            low_order, high_order = compare_reals(a.low, b.low), compare_reals(a.high, b.high)
            low = a.low if low_order >= 0 else b.low
            high = a.high if high_order <= 0 else b.high
            low_closed = (a.low_closed if low_order >= 0 else b.low_closed) and (low_order != 0 or b.low_closed)
            high_closed = (a.high_closed if high_order <= 0 else b.high_closed) and (high_order != 0 or b.high_closed)
            piece = Piece(low, high, low_closed, high_closed)
            if _not_empty(piece):
                result.append(piece)
    return result
