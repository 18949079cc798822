"""Names of response and gold: which are the same, and the order that they give to values.

A name may be dropped, not exchanged for another.
"""

import re
from string import ascii_lowercase

from stapo_bench.grading.names import split_name
from stapo_bench.grading.tree import Kind, Node, kinds


def same_names(left: Node, right: Node) -> bool:
    """The same name, or two names for the value of a function (``y`` and ``f(x)``), or a word that names anything."""
    if left == right:
        return True
    a, b = _spelled(left), _spelled(right)
    if a.casefold() == b.casefold() and len(a) > 1:
        return True
    return _names_anything(a) and _names_anything(b)


def _names_anything(text: str) -> bool:
    """``y``, ``f(x)`` and words; not ``x``, not ``angle(ABC)``."""
    return text == "y" or re.fullmatch(r"[A-Za-z]\([a-z]\)|[A-Za-z][A-Za-z ]+", text) is not None


def bound_variable(name: Node, gold_name: Node) -> dict[str, str] | None:
    """``f(t) = t^2`` for ``f(x) = x^2``: what to rename, if that is all that differs in the names."""
    ours = re.fullmatch(r"(\w+)\(([A-Za-z])\)", name.label)
    theirs = re.fullmatch(r"(\w+)\(([A-Za-z])\)", gold_name.label)
    if not ours or not theirs or ours[1] != theirs[1] or ours[2] == theirs[2]:
        return None
    return {ours[2]: theirs[2]}


def _spelled(node: Node) -> str:
    """A name as one word."""
    if node.kind is Kind.SYMBOL:
        return node.label
    if node.kind is Kind.SUM:
        return "+".join(sorted(map(_spelled, node.args)))
    return f"{_spelled(node.args[0])}({','.join(map(_spelled, node.args[1:]))})" if node.args else ""


def shared_name(node: Node) -> Node:
    """``n = 2, 3, 4`` names all three; so does ``n = 2, n = 3`` where it names each."""
    first = node.args[0]
    if first.kind is Kind.RELATION and all(a.kind is not Kind.RELATION for a in node.args[1:]):
        name, value = split_name(first)
        if name is not None:
            return Node(Kind.LIST, (value, *node.args[1:]), node.label)
    return node


def by_name(items: list[Node]) -> dict[Node, Node] | None:
    """Values by their names where each has its own: ``f(n) = n, g(n) = 1``."""
    named = {name: value for name, value in map(split_name, items) if name is not None}
    return named if len(named) == len(items) else None


def in_order_of_names(node: Node) -> Node:
    """``(b, a) = (2, 1)`` is the pair (1, 2) of a and b."""
    name, value = split_name(node)
    if name is None or name.kind is not Kind.TUPLE or value.kind is not Kind.TUPLE or len(name.args) != len(value.args):
        return node
    pairs = [Node(Kind.RELATION, pair, "=") for pair in zip(name.args, value.args, strict=True)]
    return Node(Kind.TUPLE, tuple(in_name_order(pairs)), "()")


def in_order_of_letters(node: Node) -> Node:
    """``(y, x) = (2, 1)`` is the pair (1, 2), for letters that follow each other: (m, b) has an order of its own."""
    name, _ = split_name(node)
    letters = "" if name is None else "".join(sorted(arg.label for arg in name.args))
    return in_order_of_names(node) if len(letters) > 1 and letters in ascii_lowercase else node


def in_name_order(items: list[Node]) -> list[Node]:
    """``y = 2, x = 1`` stands for (1, 2): named coordinates come in the order of their names."""
    names = [split_name(item)[0] for item in items]
    if all(name is not None for name in names) and len({str(n) for n in names}) == len(names):
        items = [item for _, item in sorted(zip(map(str, names), items, strict=True), key=lambda pair: pair[0])]
    return [split_name(item)[1] for item in items]


def in_order_of(wanted: Node, names: Node, values: Node) -> Node | None:
    """``b : a = 4 : 3`` is 3 : 4 in the order a : b; None where the names are others."""
    if len(names.args) != len(values.args) or sorted(map(str, names.args)) != sorted(map(str, wanted.args)):
        return None
    value_of = dict(zip(names.args, values.args, strict=True))
    return Node(values.kind, tuple(value_of[name] for name in wanted.args), values.label)


def same_letters(response: Node, gold: Node) -> bool:
    """``cab`` is read as a word; for a gold ``abc`` it is the product."""
    word = response.label if response.kind is Kind.SYMBOL else ""
    if len(word) < 3 or not word.islower() or gold.kind is not Kind.PRODUCT:
        return False
    return kinds(gold) == {Kind.PRODUCT, Kind.SYMBOL} and sorted(word) == sorted(_letters(gold))


def _letters(node: Node) -> list[str]:
    """The letters of a product, one by one."""
    return [node.label] if node.kind is Kind.SYMBOL else [letter for arg in node.args for letter in _letters(arg)]
