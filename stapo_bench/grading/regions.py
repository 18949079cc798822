"""Subsets of the real line: intervals, inequalities and set notation as one sorted list of pieces."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key

from stapo_bench.grading.equal import compare_reals, free_symbols, is_infinite, same_value
from stapo_bench.grading.exact import Inexact, exact
from stapo_bench.grading.tree import Node, Refusal, add, call, divide, kinds, negate, num, sym

INFINITY = sym("infty")
MINUS_INFINITY = negate(INFINITY)
REALS = frozenset({"mathbb(R)", "R"})
_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True)
class Piece:
    low: Node
    high: Node
    low_closed: bool
    high_closed: bool


Region = list[Piece]
EVERYTHING = Piece(MINUS_INFINITY, INFINITY, False, False)


def is_inequality(node: Node) -> bool:
    return node.kind == "rel" and len(node.args) > 1 and set(node.label.split()) <= {"<", ">", "<=", ">="}


def reads_as_region(node: Node) -> bool:
    """Whether the notation can only mean a set of numbers (a bare ``(2, 5)`` may be a point)."""
    if node.kind in ("union", "inter", "minus", "builder"):
        return True
    if node.kind == "tuple":
        return len(node.args) == 2 and (node.label in ("(]", "[)") or any(is_infinite(a) for a in node.args))
    if node.kind == "sym":
        return node.label in ("mathbb(R)",)
    if node.kind == "rel":
        return is_inequality(node) or (len(node.args) == 2 and node.label in ("in", "!=", "notin"))
    if node.kind == "list":
        signs = [a.label for a in node.args if not is_inequality(a)]  # "x < 0 or x = 1" has a point in it
        either = node.label == "or" and "=" in signs and len(signs) < len(node.args)
        return variable(node) is not None and set(signs) <= ({"!=", "="} if either else {"!="})
    return False


def variable(node: Node) -> str | None:
    """The variable that an inequality or membership speaks of; None where the notation names none."""
    if node.kind == "list":
        shared = {variable(a) for a in node.args}
        return shared.pop() if len(shared) == 1 else None
    if node.kind != "rel":
        return None
    names = {name for arg in node.args for name in free_symbols(arg)} - {"infty", "mathbb(R)"}
    return names.pop() if len(names) == 1 else None


def turned(node: Node) -> Node:
    """The same chain of inequalities read from right to left."""
    return Node("rel", node.args[::-1], " ".join(_FLIP[sign] for sign in reversed(node.label.split())))


def region(node: Node) -> Region:
    """The pieces, sorted, disjoint and merged; ``Refusal`` where an end is no real constant."""
    return _merge(_pieces(node))


def _pieces(node: Node) -> Region:  # noqa: PLR0911, PLR0912
    if node.kind == "union":
        return [piece for arg in node.args for piece in _pieces(arg)]
    if node.kind == "inter":
        left, right = region(node.args[0]), region(node.args[1])
        return intersection(left, right)
    if node.kind == "minus":
        return intersection(region(node.args[0]), complement(region(node.args[1])))
    if node.kind == "tuple" and len(node.args) == 2:
        low, high = node.args
        return [Piece(low, high, node.label[0] == "[", node.label[1] == "]")]
    if node.kind == "set":
        return [Piece(item, item, True, True) for item in node.args]
    if node.kind == "sym" and node.label in REALS:
        return [EVERYTHING]
    if node.kind == "builder":
        head = [node.args[0]] if node.args[0].kind == "rel" else []
        result: Region = [EVERYTHING]
        for condition in (*head, *node.args[1:]):
            result = intersection(result, region(condition))
        return result
    if node.kind == "list":
        if node.label == "or" or all(a.kind == "tuple" for a in node.args):
            return [piece for arg in node.args for piece in _pieces(arg)]
        result = [EVERYTHING]
        for arg in node.args:
            result = intersection(result, region(arg))
        if not result:  # "x < 2, x > 5" and even "x < 2 and x > 5" list two ranges
            return [piece for arg in node.args for piece in _pieces(arg)]
        return result
    if node.kind == "rel":
        return _relation(node)
    raise Refusal("no set of numbers")


def _relation(node: Node) -> Region:
    signs = node.label.split()
    if signs == ["in"] and node.args[0].kind == "sym":
        return _pieces(node.args[1])
    if signs == ["notin"] and node.args[0].kind == "sym":
        return complement(region(node.args[1]))
    name = variable(node)
    if name is None or len(node.args) < 2:
        raise Refusal("no single variable")
    result: Region = [EVERYTHING]
    for sign, left, right in zip(signs, node.args, node.args[1:], strict=False):
        if sign not in _FLIP:
            raise Refusal("no inequality")
        if left == sym(name) and not free_symbols(right):
            result = intersection(result, _half(sign, right))
        elif right == sym(name) and not free_symbols(left):
            result = intersection(result, _half(_FLIP[sign], left))
        elif left.kind == "call" and left.label == "abs" and not free_symbols(right):
            result = intersection(result, _absolute(sign, left.args[0], right))
        else:
            result = intersection(result, _polynomial(sign, add(left, negate(right)), name))
    return result


def _polynomial(sign: str, node: Node, name: str) -> Region:
    """Where a polynomial of degree one or two with rational coefficients is below, above or at zero."""
    a, b, c = _coefficients(node, name)
    if not a:
        return _half(sign if b > 0 else _FLIP[sign], num(-c / b))
    under = b * b - 4 * a * c
    if under < 0:
        return [EVERYTHING] if sign in (("!=", ">", ">=") if a > 0 else ("!=", "<", "<=")) else []
    reach = divide(call("sqrt", num(under)), num(2 * abs(a)))
    low, high = (add(num(-b / (2 * a)), side) for side in (negate(reach), reach))
    if sign in ("=", "!="):
        roots = [Piece(low, low, True, True), Piece(high, high, True, True)]
        return roots if sign == "=" else complement(roots)
    inside = (sign in ("<", "<=")) == (a > 0)
    closed = sign.endswith("=") == inside
    between = [Piece(low, high, closed, closed)]
    return between if inside else complement(between)


def _coefficients(node: Node, name: str) -> tuple[Fraction, Fraction, Fraction]:
    """a, b, c of ``a x^2 + b x + c``, read off its values."""
    try:
        at = {x: exact(node, {name: Fraction(x)}) for x in (0, 1, -1, 5, -7, 11)}
    except Inexact as wrong:
        raise Refusal("no polynomial") from wrong
    a, b, c = (at[1] + at[-1]) / 2 - at[0], (at[1] - at[-1]) / 2, at[0]
    if not (a or b) or any(value != a * x * x + b * x + c for x, value in at.items()):
        raise Refusal("no polynomial of degree one or two")
    return a, b, c


def _half(sign: str, bound: Node) -> Region:
    if sign == "=":
        return [Piece(bound, bound, True, True)]
    if sign == "!=":
        return complement([Piece(bound, bound, True, True)])
    if sign in ("<", "<="):
        return [Piece(MINUS_INFINITY, bound, False, sign == "<=")]
    return [Piece(bound, INFINITY, sign == ">=", False)]


def _absolute(sign: str, inner: Node, bound: Node) -> Region:
    """``|x - 1| < 2`` is ``-2 < x - 1 < 2``; ``|x - 1| > 2`` is what that leaves."""
    if sign in ("<", "<="):
        return _relation(Node("rel", (negate(bound), inner, bound), f"{sign} {sign}"))
    if sign in (">", ">="):
        closed = "<" if sign == ">=" else "<="
        return complement(_relation(Node("rel", (negate(bound), inner, bound), f"{closed} {closed}")))
    raise Refusal("no inequality")


def _merge(pieces: Region) -> Region:
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
    order = compare_reals(piece.low, piece.high)
    return order < 0 or (order == 0 and piece.low_closed and piece.high_closed)


def _by_low(a: Piece, b: Piece) -> int:
    order = compare_reals(a.low, b.low)
    return order if order else int(b.low_closed) - int(a.low_closed)


def _touches(a: Piece, b: Piece) -> bool:
    order = compare_reals(b.low, a.high)
    return order < 0 or (order == 0 and (a.high_closed or b.low_closed))


def complement(pieces: Region) -> Region:
    result: Region = []
    low, closed = MINUS_INFINITY, False
    for piece in _merge(pieces):
        result.append(Piece(low, piece.low, closed, not piece.low_closed))
        low, closed = piece.high, not piece.high_closed
    result.append(Piece(low, INFINITY, closed, False))
    return [p for p in result if _not_empty(p)]


def intersection(left: Region, right: Region) -> Region:
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


def same_region(left: Node, right: Node) -> bool:
    """Whether two notations describe the same set of reals."""
    try:
        a, b = region(left), region(right)
    except Refusal:
        a, b = _pieces_as_written(left), _pieces_as_written(right)
    return len(a) == len(b) and all(
        x.low_closed == y.low_closed
        and x.high_closed == y.high_closed
        and _same_end(x.low, y.low)
        and _same_end(x.high, y.high)
        for x, y in zip(a, b, strict=True)
    )


def _pieces_as_written(node: Node) -> Region:
    """Ends with free symbols cannot be sorted: pieces in the order given."""
    if node.kind == "union":
        return [piece for arg in node.args for piece in _pieces_as_written(arg)]
    if node.kind in ("tuple", "set"):
        return _pieces(node)
    if node.kind == "rel" and node.label == "in":
        return _pieces_as_written(node.args[1])
    if (
        node.kind == "rel"
        and len(node.args) == 2
        and node.args[0].kind == "sym"
        and node.label in ("<", "<=", ">", ">=")
    ):
        return _half(node.label, node.args[1])
    if node.kind == "rel" and len(node.args) == 3 and node.args[1].kind == "sym" and is_inequality(node):
        first, second = node.label.split()
        if first[0] == second[0] == "<":
            return [Piece(node.args[0], node.args[2], first == "<=", second == "<=")]
        if first[0] == second[0] == ">":
            return [Piece(node.args[2], node.args[0], second == ">=", first == ">=")]
    raise Refusal("ends cannot be compared")


def _same_end(left: Node, right: Node) -> bool:
    if is_infinite(left) or is_infinite(right):
        return is_infinite(left) and is_infinite(right) and compare_reals(left, right) == 0
    if {"tuple", "set", "list", "rel"} & (kinds(left) | kinds(right)):
        raise Refusal("an end is no number")
    return same_value(left, right)
