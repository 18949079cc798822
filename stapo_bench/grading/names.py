"""Names before values: which part of ``x = 5`` and ``f(x) = 2x`` is the name, and which the value."""

from stapo_bench.grading.tree import CONSTANTS, Kind, Node, num, symbols

_QUANTITIES = frozenset(["deg", "dim", "det", "gcd", "lcm", "max", "min"])
_CONSTANTS = CONSTANTS | {"infty"}
_COUNTED = frozenset("abcdfghjklmnpqrstuvw")


def split_name(node: Node) -> tuple[Node | None, Node]:
    r"""``x = 5`` into (x, 5); ``f(x) = 2x`` into (f(x), 2x); a bare value into (None, value)."""
    if node.kind is Kind.RELATION and node.label == "=":
        name, value = node.args[0], node.args[1]
        if is_name(name) and not _stands_in(name, value):
            return name, value
        if node.args[1].kind is Kind.SYMBOL and is_name(node.args[1]) and not symbols(node.args[0]):
            return node.args[1], node.args[0]  # 16 = N
    return None, node


def is_name(node: Node) -> bool:
    """Whether a tree is a name: a symbol, |S|, a sum of counts, a ratio or tuple of symbols, a quotient of things."""
    if node.kind is Kind.SYMBOL:
        return node.label not in _CONSTANTS
    if node.kind is Kind.CALL and node.label == "abs":  # |S| of a set, |AB| of a segment
        inside = node.args[0].args if node.args[0].kind is Kind.PRODUCT else node.args
        return all(part.kind is Kind.SYMBOL and part.label[0].isupper() for part in inside)
    if node.kind is Kind.PRODUCT:
        return _names_thing(node)
    if node.kind is Kind.SUM:  # "m + n = 125" and "x_1 + x_2 = 13" name what was asked for; x + y = 5 is a line
        return all(arg.kind is Kind.SYMBOL and (arg.label in _COUNTED or "_" in arg.label) for arg in node.args)
    names_quantity = node.kind is Kind.CALL and node.label in _QUANTITIES
    return (names_quantity or node.kind in (Kind.RATIO, Kind.TUPLE)) and all(a.kind is Kind.SYMBOL for a in node.args)


def _names_thing(node: Node) -> bool:
    """The segment AB, P(n), AB/CD, V_o/V_i; not xy, not x/y."""
    above = [arg for arg in node.args if arg.kind is not Kind.POWER]
    below = [arg.args[0] for arg in node.args if arg.kind is Kind.POWER and arg.args[1] == num(-1)]
    if len(above) + len(below) < len(node.args) or not above:
        return False
    return all(map(_is_thing, above)) and all(map(_is_thing, below)) if below else _is_thing(node)


def _is_thing(node: Node) -> bool:
    """What a capital names, alone, with an index or with lower-case arguments: ``AB``, ``V_o``, ``P(n)``."""
    if node.kind is Kind.SYMBOL:
        return node.label[0].isupper() or "_" in node.label or "(" in node.label
    if node.kind is not Kind.PRODUCT or any(
        arg.kind is not Kind.SYMBOL or arg.label in _CONSTANTS for arg in node.args
    ):
        return False
    return node.args[0].label[0].isupper() and len(node.args) == 2


def _stands_in(name: Node, value: Node) -> bool:
    """Whether the name occurs in its own value, as in ``x = 2x + 3``: then it names nothing."""
    return bool(name.kind in (Kind.SYMBOL, Kind.SUM) and symbols(name) & symbols(value))
