"""The expression tree that answers are read into, and what every stage may know about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


class Refusal(Exception):  # noqa: N818 - not a failure: the reader's way to say "this is not mathematics I know"
    """The text is not fully understood, or a bound was reached; the caller compares as text or says no."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    ``kind`` is one of: num, sym, add, mul, pow, call, pm (plus or minus), list (no parentheses), tuple, set, builder,
    union, inter, minus (set difference), matrix, rel, ratio, mod, quantity, given (a value and its conditions), words
    (a condition that is no relation), cases, dots (terms left out).
    ``label`` is the name of a symbol or function, the brackets of a tuple, the relations of a chain, the unit.
    """

    kind: str
    args: tuple["Node", ...] = ()
    label: str = ""
    value: Fraction | None = None  # of a num
    ulp: Fraction | None = None  # of a num written as a decimal: one unit in its last place


def num(value: Fraction | int, ulp: Fraction | None = None) -> Node:
    return Node("num", (), "", Fraction(value), ulp)


def sym(name: str) -> Node:
    return Node("sym", (), name)


def call(name: str, *args: Node) -> Node:
    return Node("call", args, name)


def add(*args: Node) -> Node:
    return Node("add", args)


def mul(*args: Node) -> Node:
    return Node("mul", args)


def power(base: Node, exponent: Node) -> Node:
    return Node("pow", (base, exponent))


def negate(node: Node) -> Node:
    if node.kind == "num" and node.value is not None:
        return num(-node.value, node.ulp)
    return mul(num(-1), node)


def divide(top: Node, bottom: Node) -> Node:
    return mul(top, power(bottom, num(-1)))


MATH_KINDS = frozenset({"num", "sym", "add", "mul", "pow", "call"})


def substitute(node: Node, values: Mapping[str, Node]) -> Node:
    """The tree with other trees in the place of symbols."""
    if node.kind == "sym":
        return values.get(node.label, node)
    return Node(node.kind, tuple(substitute(arg, values) for arg in node.args), node.label, node.value, node.ulp)


def symbols(node: Node) -> frozenset[str]:
    """Names of the free symbols.

    >>> sorted(symbols(add(sym("x"), mul(num(2), sym("a")))))
    ['a', 'x']
    """
    found: set[str] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current.kind == "sym":
            found.add(current.label)
        stack.extend(current.args)
    return frozenset(found)


def calls(node: Node) -> frozenset[str]:
    """Names of the functions used anywhere in the tree."""
    found: set[str] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current.kind == "call":
            found.add(current.label)
        stack.extend(current.args)
    return frozenset(found)


def kinds(node: Node) -> frozenset[str]:
    found: set[str] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        found.add(current.kind)
        stack.extend(current.args)
    return frozenset(found)


def precision(node: Node) -> Fraction | None:  # noqa: PLR0911
    """One unit in the last place of a decimal, also of ``d x 10^k``, ``-d`` and ``d %``; None for what is exact.

    >>> precision(num(Fraction("3.14"), Fraction(1, 100)))
    Fraction(1, 100)
    """
    if node.kind == "num":
        return node.ulp
    if node.kind == "quantity":
        return precision(node.args[0])
    if node.kind != "mul":
        return None
    unit: Fraction | None = None
    scale = Fraction(1)
    for arg in node.args:
        if arg.kind == "num" and arg.ulp is not None and unit is None:
            unit = arg.ulp
        elif arg.kind == "num" and arg.value is not None and (abs(arg.value) == 1 or arg.value == Fraction(1, 100)):
            scale *= abs(arg.value)
        elif arg.kind == "pow" and arg.args[0] == num(10) and arg.args[1].kind == "num":
            exponent = arg.args[1].value
            if exponent is None or exponent.denominator != 1 or abs(exponent) > 400:
                return None
            scale *= Fraction(10) ** int(exponent)
        elif arg.kind == "mul":
            inner = precision(arg)
            if inner is None or unit is not None:
                return None
            unit = inner
        else:
            return None
    return None if unit is None else unit * scale
