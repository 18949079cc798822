"""Subsets of the real line as they are written: intervals, inequalities and set notation to a sorted list of pieces."""

from collections.abc import Callable, Iterable
from fractions import Fraction

from stapo_bench.grading.compare.functions import same_value
from stapo_bench.grading.compare.pieces import (
    EVERYTHING,
    INFINITY,
    MINUS_INFINITY,
    Piece,
    Region,
    complement,
    intersection,
    merge,
)
from stapo_bench.grading.compare.sign_charts import where_quotient
from stapo_bench.grading.evaluate import Inexact, compare_reals, exact, is_infinite
from stapo_bench.grading.tree import (
    REVERSED_SIGN,
    Kind,
    Node,
    Refusal,
    add,
    call,
    divide,
    free_symbols,
    is_inequality,
    kinds,
    negate,
    num,
    sym,
)

_REALS = frozenset({"mathbb(R)", "R"})


def reads_as_region(node: Node) -> bool:
    """Whether the notation can only mean a set of numbers (a bare ``(2, 5)`` may be a point)."""
    if node.kind in (Kind.UNION, Kind.INTERSECTION, Kind.DIFFERENCE, Kind.BUILDER):
        return True
    if node.kind is Kind.TUPLE:
        return len(node.args) == 2 and (node.label in ("(]", "[)") or any(is_infinite(a) for a in node.args))
    if node.kind is Kind.SYMBOL:
        return node.label == "mathbb(R)"
    if node.kind is Kind.RELATION:
        return is_inequality(node) or (len(node.args) == 2 and node.label in ("in", "!=", "notin"))
    if node.kind is Kind.LIST:
        signs = [a.label for a in node.args if not is_inequality(a)]  # "x < 0 or x = 1" has a point in it
        either = node.label == "or" and "=" in signs and len(signs) < len(node.args)
        return variable(node) is not None and set(signs) <= ({"!=", "="} if either else {"!="})
    return False


def variable(node: Node) -> str | None:
    """The variable that an inequality or membership speaks of; None where the notation names none."""
    if node.kind is Kind.LIST:
        shared = {variable(a) for a in node.args}
        return shared.pop() if len(shared) == 1 else None
    if node.kind is not Kind.RELATION:
        return None
    names = {name for arg in node.args for name in free_symbols(arg)} - {"infty", "mathbb(R)"}
    return names.pop() if len(names) == 1 else None


def turned(node: Node) -> Node:
    """The same chain of inequalities read from right to left."""
    return Node(Kind.RELATION, node.args[::-1], " ".join(REVERSED_SIGN[sign] for sign in reversed(node.label.split())))


def region(node: Node) -> Region:
    """The pieces, sorted, disjoint and merged; ``Refusal`` where an end is no real constant."""
    return merge(_pieces(node))


def _pieces(node: Node) -> Region:
    """The pieces in the order written."""
    if node.kind not in _NOTATIONS:
        raise Refusal("no set of numbers")
    return _NOTATIONS[node.kind](node)


def _of_each(node: Node) -> Region:
    """The pieces of all parts."""
    return [piece for arg in node.args for piece in _pieces(arg)]


def _interval(node: Node) -> Region:
    """An interval: two ends in brackets."""
    if len(node.args) != 2:
        raise Refusal("no set of numbers")
    low, high = node.args
    return [Piece(low, high, node.label[0] == "[", node.label[1] == "]")]


def _named(node: Node) -> Region:
    """The reals by their sign."""
    if node.label not in _REALS:
        raise Refusal("no set of numbers")
    return [EVERYTHING]


def _builder(node: Node) -> Region:
    """Where all conditions of ``{x > 0 | x < 2}`` hold."""
    head = [node.args[0]] if node.args[0].kind is Kind.RELATION else []
    return _of_all([*head, *node.args[1:]])


def _of_all(conditions: Iterable[Node]) -> Region:
    """Where all of them hold."""
    result: Region = [EVERYTHING]
    for condition in conditions:
        result = intersection(result, region(condition))
    return result


def _list(node: Node) -> Region:
    """Conditions that hold together, or ranges side by side."""
    if node.label == "or" or all(a.kind is Kind.TUPLE for a in node.args):
        return _of_each(node)
    # "x < 2, x > 5" and even "x < 2 and x > 5" list two ranges.
    return _of_all(node.args) or _of_each(node)


def _relation(node: Node) -> Region:
    """Where a chain of inequalities in one variable holds; a membership names its set."""
    signs = node.label.split()
    if signs == ["in"] and node.args[0].kind is Kind.SYMBOL:
        return _pieces(node.args[1])
    if signs == ["notin"] and node.args[0].kind is Kind.SYMBOL:
        return complement(region(node.args[1]))
    name = variable(node)
    if name is None or len(node.args) < 2:
        raise Refusal("no single variable")
    result: Region = [EVERYTHING]
    for sign, left, right in zip(signs, node.args, node.args[1:], strict=False):
        if sign not in REVERSED_SIGN:
            raise Refusal("no inequality")
        if left == sym(name) and not free_symbols(right):
            result = intersection(result, _half(sign, right))
        elif right == sym(name) and not free_symbols(left):
            result = intersection(result, _half(REVERSED_SIGN[sign], left))
        elif left.kind is Kind.CALL and left.label == "abs" and not free_symbols(right):
            result = intersection(result, _absolute(sign, left.args[0], right))
        else:
            result = intersection(result, _polynomial(sign, add(left, negate(right)), name))
    return result


def _polynomial(sign: str, node: Node, name: str) -> Region:
    """Where a polynomial or a quotient of two, with rational coefficients, is below, above or at zero."""
    try:
        a, b, c = _coefficients(node, name)
    except Refusal:
        return merge(where_quotient(sign, node, name))
    if not a:
        return _half(sign if b > 0 else REVERSED_SIGN[sign], num(-c / b))
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


def _is_multiple_or_sum(node: Node) -> bool:
    """Whether a tree is 2n or n + 1: its values are not those of n."""
    linear = node.kind in (Kind.SUM, Kind.PRODUCT) and {part.kind for part in node.args} == {Kind.NUMBER, Kind.SYMBOL}
    return linear and len(free_symbols(node)) == 1


def _half(sign: str, bound: Node) -> Region:
    """Where a variable is below, above or at a bound."""
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
        return _relation(Node(Kind.RELATION, (negate(bound), inner, bound), f"{sign} {sign}"))
    if sign in (">", ">="):
        closed = "<" if sign == ">=" else "<="
        return complement(_relation(Node(Kind.RELATION, (negate(bound), inner, bound), f"{closed} {closed}")))
    raise Refusal("no inequality")


def same_region(left: Node, right: Node) -> bool:
    """Whether two notations describe the same set of reals."""
    if left.label == right.label == "in" and left.args[0] == right.args[0]:
        left, right = left.args[1], right.args[1]
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
    if node.kind is Kind.UNION:
        return [piece for arg in node.args for piece in _pieces_as_written(arg)]
    if node.kind in (Kind.TUPLE, Kind.SET):
        return _pieces(node)
    if node.kind is Kind.RELATION and node.label == "in":
        if _is_multiple_or_sum(node.args[0]):
            raise Refusal("no membership of a variable")
        return _pieces_as_written(node.args[1])
    if (
        node.kind is Kind.RELATION
        and len(node.args) == 2
        and node.args[0].kind is Kind.SYMBOL
        and node.label in ("<", "<=", ">", ">=")
    ):
        return _half(node.label, node.args[1])
    if node.kind is Kind.RELATION and len(node.args) == 3 and node.args[1].kind is Kind.SYMBOL and is_inequality(node):
        first, second = node.label.split()
        if first[0] == second[0] == "<":
            return [Piece(node.args[0], node.args[2], first == "<=", second == "<=")]
        if first[0] == second[0] == ">":
            return [Piece(node.args[2], node.args[0], second == ">=", first == ">=")]
    raise Refusal("ends cannot be compared")


def _same_end(left: Node, right: Node) -> bool:
    """Whether two ends are one point."""
    if is_infinite(left) or is_infinite(right):
        return is_infinite(left) and is_infinite(right) and compare_reals(left, right) == 0
    if {Kind.TUPLE, Kind.SET, Kind.LIST, Kind.RELATION} & (kinds(left) | kinds(right)):
        raise Refusal("an end is no number")
    return same_value(left, right)


_NOTATIONS: dict[Kind, Callable[[Node], Region]] = {
    Kind.UNION: _of_each,
    Kind.INTERSECTION: lambda node: intersection(region(node.args[0]), region(node.args[1])),
    Kind.DIFFERENCE: lambda node: intersection(region(node.args[0]), complement(region(node.args[1]))),
    Kind.TUPLE: _interval,
    Kind.SET: lambda node: [Piece(item, item, True, True) for item in node.args],
    Kind.SYMBOL: _named,
    Kind.BUILDER: _builder,
    Kind.LIST: _list,
    Kind.RELATION: _relation,
}
