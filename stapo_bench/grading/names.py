r"""Names before values: ``x = 5``, ``f(x) = 2x``, ``n = 2, 3, 4``. A name may be dropped, not exchanged for another."""

import re

from stapo_bench.grading.tree import Node, kinds, num, substitute, sym, symbols

_QUANTITIES = frozenset(["deg", "dim", "det", "gcd", "lcm", "max", "min"])
_COUNTED = frozenset("abcdfghjklmnpqrstuvw")


def split_name(node: Node) -> tuple[Node | None, Node]:
    r"""``x = 5`` into (x, 5); ``f(x) = 2x`` into (f(x), 2x); a bare value into (None, value)."""
    if node.kind == "rel" and node.label == "=":
        name, value = node.args[0], node.args[1]
        if is_name(name) and not _stands_in(name, value):
            return name, value
        if node.args[1].kind == "sym" and is_name(node.args[1]) and not symbols(node.args[0]):
            return node.args[1], node.args[0]  # 16 = N
    return None, node


def is_name(node: Node) -> bool:  # noqa: PLR0911
    """A symbol, a function of symbols, a quotient of these (a derivative, a transfer function), a sum of counts."""
    if node.kind == "sym":
        return node.label not in ("i", "pi", "infty") and (node.label != "e")
    if node.kind == "call" and node.label == "abs":  # |S| of a set, |AB| of a segment
        inside = node.args[0].args if node.args[0].kind == "mul" else node.args
        return all(part.kind == "sym" and part.label[0].isupper() for part in inside)
    if node.kind == "call":
        return node.label in _QUANTITIES and all(arg.kind == "sym" for arg in node.args)
    if node.kind == "add":  # "m + n = 125" names what was asked for; x + y = 5 is a line
        return all(arg.kind == "sym" and arg.label in _COUNTED for arg in node.args)
    if node.kind == "ratio":
        return all(arg.kind == "sym" for arg in node.args)
    if node.kind == "tuple":
        return all(arg.kind == "sym" for arg in node.args)
    if node.kind == "mul":  # the segment AB, P(n), AB/CD, V_o/V_i; not xy, not x/y
        above = [arg for arg in node.args if arg.kind != "pow"]
        below = [arg.args[0] for arg in node.args if arg.kind == "pow" and arg.args[1] == num(-1)]
        if len(above) + len(below) < len(node.args) or not above:
            return False
        return all(map(_is_thing, above)) and all(map(_is_thing, below)) if below else _is_thing(node)
    return False


def _is_thing(node: Node) -> bool:
    """What a capital names, alone, with an index or with lower-case arguments: ``AB``, ``V_o``, ``P(n)``."""
    if node.kind == "sym":
        return node.label[0].isupper() or "_" in node.label or "(" in node.label
    if node.kind != "mul" or any(arg.kind != "sym" or arg.label in ("i", "pi", "e", "infty") for arg in node.args):
        return False
    return node.args[0].label[0].isupper() and len(node.args) == 2


def _stands_in(name: Node, value: Node) -> bool:
    """``x = 2x + 3`` says nothing that a name could stand for."""
    return bool(name.kind in ("sym", "add") and symbols(name) & symbols(value))


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
    if node.kind == "sym":
        return node.label
    if node.kind == "add":
        return "+".join(sorted(map(_spelled, node.args)))
    return f"{_spelled(node.args[0])}({','.join(map(_spelled, node.args[1:]))})" if node.args else ""


def shared_name(node: Node) -> Node:
    """``n = 2, 3, 4`` names all three; so does ``n = 2, n = 3`` where it names each."""
    first = node.args[0]
    if first.kind == "rel" and all(a.kind != "rel" for a in node.args[1:]):
        name, value = split_name(first)
        if name is not None:
            return Node("list", (value, *node.args[1:]), node.label)
    return node


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


def rename(node: Node, names: dict[str, str]) -> Node:
    return substitute(node, {old: sym(new) for old, new in names.items()})


def same_letters(response: Node, gold: Node) -> bool:
    """``cab`` is read as a word; for a gold ``abc`` it is the product."""
    word = response.label if response.kind == "sym" else ""
    if len(word) < 3 or not word.islower() or gold.kind != "mul":
        return False
    return kinds(gold) == {"mul", "sym"} and sorted(word) == sorted(_letters(gold))


def _letters(node: Node) -> list[str]:
    return [node.label] if node.kind == "sym" else [letter for arg in node.args for letter in _letters(arg)]
