"""The expression tree that answers are parsed into: its nodes, how they are built, and what they say of themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction


class Refusal(Exception):  # noqa: N818 - not an error: the parser's way to say "this is no mathematics I know"
    """The text is not fully understood, or a bound was reached; the caller compares as text or says no."""


class Kind(Enum):
    """What a node is. Compare with ``is``."""

    NUMBER = "num"
    SYMBOL = "sym"
    SUM = "add"
    PRODUCT = "mul"
    POWER = "pow"
    CALL = "call"  # of a function, by name
    PLUS_MINUS = "pm"
    LIST = "list"  # several values without brackets
    TUPLE = "tuple"  # in any brackets, so an interval too
    SET = "set"
    BUILDER = "builder"  # {x | condition}
    UNION = "union"
    INTERSECTION = "inter"
    DIFFERENCE = "minus"  # of sets
    MATRIX = "matrix"
    ROW = "row"  # of a matrix
    RELATION = "rel"  # one or several: a = b, a < b <= c
    RATIO = "ratio"
    RESIDUE = "mod"  # a residue class
    QUANTITY = "quantity"  # a value and its unit
    CONDITIONAL = "given"  # a value and its conditions
    WORDS = "words"  # a condition that is no relation
    CASES = "cases"  # a function by cases: conditionals
    DOTS = "dots"  # terms left out

    __hash__ = object.__hash__  # members are unique; Enum's own hash runs Python code at each look-up

    def __repr__(self) -> str:
        """The word that messages show and that sorts a tree among others."""
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a tree.

    ``label`` is the name of a symbol or function, the brackets of a tuple, the relations of a chain, the unit.
    """

    kind: Kind
    args: tuple["Node", ...] = ()
    label: str = ""
    value: Fraction | None = None  # of a number
    ulp: Fraction | None = None  # of a number written as a decimal: one unit in its last place


EXPRESSIONS = frozenset({Kind.NUMBER, Kind.SYMBOL, Kind.SUM, Kind.PRODUCT, Kind.POWER, Kind.CALL})
CONSTANTS = frozenset({"pi", "e", "i"})
REVERSED_SIGN = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_INEQUALITIES = frozenset({"<", ">", "<=", ">="})


def num(value: Fraction | int, ulp: Fraction | None = None) -> Node:
    """A number; ``ulp``: one unit in the last place of what was written as a decimal."""
    return Node(Kind.NUMBER, (), "", Fraction(value), ulp)


def sym(name: str) -> Node:
    """A symbol."""
    return Node(Kind.SYMBOL, (), name)


def call(name: str, *args: Node) -> Node:
    """A function of arguments."""
    return Node(Kind.CALL, args, name)


def add(*args: Node) -> Node:
    """A sum."""
    return Node(Kind.SUM, args)


def mul(*args: Node) -> Node:
    """A product."""
    return Node(Kind.PRODUCT, args)


def power(base: Node, exponent: Node) -> Node:
    """A power."""
    return Node(Kind.POWER, (base, exponent))


def negate(node: Node) -> Node:
    """Minus a value; a number keeps its precision."""
    if node.kind is Kind.NUMBER and node.value is not None:
        return num(-node.value, node.ulp)
    return mul(num(-1), node)


def divide(top: Node, bottom: Node) -> Node:
    """A quotient: the product with a power of -1."""
    return mul(top, power(bottom, num(-1)))


def substitute(node: Node, values: Mapping[str, Node]) -> Node:
    """The tree with other trees in the place of symbols."""
    if node.kind is Kind.SYMBOL:
        return values.get(node.label, node)
    return Node(node.kind, tuple(substitute(arg, values) for arg in node.args), node.label, node.value, node.ulp)


def rename(node: Node, names: Mapping[str, str]) -> Node:
    """The tree with other names for some symbols."""
    return substitute(node, {old: sym(new) for old, new in names.items()})


def symbols(node: Node) -> frozenset[str]:
    """Names of all symbols in the tree, constants included.

    >>> sorted(symbols(add(sym("x"), mul(num(2), sym("pi")))))
    ['pi', 'x']
    """
    return _labels(node, Kind.SYMBOL)


def free_symbols(node: Node) -> frozenset[str]:
    """Names of the symbols that are no constants.

    >>> sorted(free_symbols(add(sym("x"), mul(num(2), sym("pi")))))
    ['x']
    """
    return symbols(node) - CONSTANTS


def calls(node: Node) -> frozenset[str]:
    """Names of the functions used anywhere in the tree."""
    return _labels(node, Kind.CALL)


def _labels(node: Node, kind: Kind) -> frozenset[str]:
    """The labels of all nodes of one kind."""
    found: set[str] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current.kind is kind:
            found.add(current.label)
        stack.extend(current.args)
    return frozenset(found)


def kinds(node: Node) -> frozenset[Kind]:
    """The kinds of all nodes in the tree."""
    found: set[Kind] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        found.add(current.kind)
        stack.extend(current.args)
    return frozenset(found)


def is_inequality(node: Node) -> bool:
    """Whether the node is a chain of ``<``, ``<=``, ``>`` and ``>=``, with both its sides."""
    return node.kind is Kind.RELATION and len(node.args) > 1 and set(node.label.split()) <= _INEQUALITIES


def precision(node: Node) -> Fraction | None:
    """One unit in the last place of a decimal, also of ``d x 10^k``, ``-d`` and ``d %``; None for what is exact.

    >>> precision(num(Fraction("3.14"), Fraction(1, 100)))
    Fraction(1, 100)
    """
    if node.kind is Kind.NUMBER:
        return node.ulp
    if node.kind is Kind.QUANTITY:
        return precision(node.args[0])
    return _precision_of_product(node) if node.kind is Kind.PRODUCT else None


def _precision_of_product(node: Node) -> Fraction | None:
    """The precision of a product with one decimal in it, where all other factors only move its point or sign."""
    unit: Fraction | None = None
    scale = Fraction(1)
    for arg in node.args:
        if arg.kind is Kind.NUMBER and arg.ulp is not None and unit is None:
            unit = arg.ulp
        elif arg.value is not None and arg.value in (1, -1, Fraction(1, 100)):
            scale *= abs(arg.value)
        elif arg.kind is Kind.POWER and arg.args[0] == num(10) and arg.args[1].kind is Kind.NUMBER:
            exponent = arg.args[1].value
            if exponent is None or exponent.denominator != 1 or abs(exponent) > 400:
                return None
            scale *= Fraction(10) ** int(exponent)
        elif arg.kind is Kind.PRODUCT:
            inner = precision(arg)
            if inner is None or unit is not None:
                return None
            unit = inner
        else:
            return None
    return None if unit is None else unit * scale
