r"""One notation, several values: lists, ``\pm``, membership, matrices; and several numbers that are one quantity."""

import itertools
from collections.abc import Iterator

from stapo_bench.grading import units
from stapo_bench.grading.compare.regions import reads_as_region
from stapo_bench.grading.compare.renaming import shared_name
from stapo_bench.grading.tree import Kind, Node, Refusal, add, kinds, mul, num

MAX_ITEMS = 60
MAX_UNITS = 4  # that one quantity is written in


def spread(node: Node) -> list[Node]:
    r"""The values that a notation lists: ``\pm`` gives two, a list its items, anything else itself."""
    if node.kind is Kind.LIST and not reads_as_region(node):
        node = shared_name(node)
        items = [value for arg in node.args for value in spread(arg)]
        if len(items) > MAX_ITEMS:
            raise Refusal("too many items")
        return items
    marks = _marks(node)
    if not marks:
        return [node]
    if node.kind is Kind.SET:
        return [Node(Kind.SET, tuple(value for arg in node.args for value in spread(arg)))]
    if len(marks) > 4:
        raise Refusal("too many plus-or-minus signs")
    if "mp" in marks:
        choices: list[tuple[int, ...]] = [tuple(s if m == "pm" else -s for m in marks) for s in (1, -1)]
    else:
        choices = list(itertools.product((1, -1), repeat=len(marks)))
    return [_signed(node, iter(choice)) for choice in choices]


def _marks(node: Node) -> list[str]:
    """The signs of two values in the tree, ``pm`` or ``mp`` each, in the order written."""
    found: list[str] = []
    if node.kind is Kind.PLUS_MINUS:
        found.append(node.label)
    for arg in node.args:
        found.extend(_marks(arg))
    return found


def _signed(node: Node, signs: Iterator[int]) -> Node:
    """The tree with one sign, 1 or -1, for each that has two values."""
    if node.kind is Kind.PLUS_MINUS:
        sign = next(signs)
        inner = _signed(node.args[0], signs)
        return inner if sign > 0 else mul(num(-1), inner)
    return Node(node.kind, tuple(_signed(arg, signs) for arg in node.args), node.label, node.value, node.ulp)


def elements(node: Node) -> Node:
    r"""``n \in \{2, 3\}`` lists the values of n."""
    if node.kind is not Kind.RELATION or node.label != "in":
        return node
    return node.args[1] if node.args[0].kind is Kind.SYMBOL and node.args[1].kind is Kind.SET else node


def compound(node: Node) -> Node:
    """``7 minutes and 5 seconds`` is one quantity: different units of one kind add up, in the first one's unit."""
    parts = node.args
    while node.kind is Kind.SUM and len(parts) < MAX_UNITS and parts[-1].kind is Kind.SUM:  # 2 h 5 min 30 s
        parts = (*parts[:-1], *parts[-1].args)
    if (
        node.kind not in (Kind.LIST, Kind.SUM)
        or len(parts) < 2
        or any(part.kind is not Kind.QUANTITY for part in parts)
    ):
        return node
    if node.kind is Kind.LIST and len({part.label for part in parts}) < len(parts):
        return node
    factors = [units.relation(part.label, parts[0].label) for part in parts]
    if None in factors or any(isinstance(units.canonical(part.label), frozenset) for part in parts):
        return node
    terms = [mul(num(f), part.args[0]) for f, part in zip(factors, parts, strict=True) if f is not None]
    return Node(Kind.QUANTITY, (add(*terms),), parts[0].label)


def rows(node: Node) -> list[tuple[Node, ...]] | None:
    """Rows of a matrix; a tuple is a column, a tuple of tuples its rows; a scalar before a matrix goes inside."""
    if node.kind is Kind.MATRIX:
        return [row.args for row in node.args]
    if node.kind is Kind.TUPLE:
        if all(arg.kind is Kind.TUPLE for arg in node.args):
            return [arg.args for arg in node.args]
        return [(arg,) for arg in node.args]
    if node.kind is Kind.PRODUCT:
        matrices = [arg for arg in node.args if Kind.MATRIX in kinds(arg)]
        if len(matrices) == 1 and (inner := rows(matrices[0])) is not None:
            scalars = [arg for arg in node.args if arg is not matrices[0]]
            return [tuple(mul(*scalars, entry) for entry in row) for row in inner]
    return None
