"""Chains: ``a = b = c`` is one value where its members agree; where they do not the answer contradicts itself."""

from collections.abc import Callable
from fractions import Fraction

from stapo_bench.grading.compare.measure import measured
from stapo_bench.grading.evaluate import within
from stapo_bench.grading.names import is_name
from stapo_bench.grading.tree import EXPRESSIONS, Kind, Node, free_symbols, precision


class Contradiction(Exception):  # noqa: N818 - a finding, not an error
    """The response says that two different values are equal."""


def collapsed(node: Node, agree: Callable[[Node, Node], bool]) -> Node:
    """The one value, with its name if it has one, of a chain whose members ``agree``; any other node as it is."""
    if node.kind is not Kind.RELATION or len(node.args) < 2:
        return node
    signs = node.label.split()
    if not set(signs) <= {"=", "~"} or (len(signs) == 1 and signs[0] == "=" and free_symbols(node)):
        return node
    args = list(node.args)
    name: Node | None = None
    while len(args) > 1 and signs[0] == "=" and is_name(args[0]):  # x = y = 3: both are names
        name, signs = args.pop(0), signs[1:]
    if len(args) > 1 and name is None and is_name(args[0]) and precision(args[1]) is not None:  # x ~ 3.14
        name, signs = args.pop(0), signs[1:]
    if not signs and "~" not in node.label:
        return node
    exacts = [args[0]]
    for sign, arg in zip(signs, args[1:], strict=True):
        if sign == "~":
            _check_rounding(exacts[0], arg)
        else:
            exacts.append(arg)
    if not all(agree(other, exacts[0]) for other in exacts):
        raise Contradiction
    value = _stated(exacts)
    return value if name is None else Node(Kind.RELATION, (name, value), "=")


def _stated(members: list[Node]) -> Node:
    """The last member, in whose unit the answer is; the first where the last is a rounding of it in the same unit."""
    first, last = members[0], members[-1]
    return first if precision(last) is not None and measured(first)[1] in ("", measured(last)[1]) else last


def _check_rounding(value: Node, rounded: Node) -> None:
    """Raise ``Contradiction`` where the second is no rounding of the first."""
    ulp = precision(rounded)
    value, rounded = measured(value)[0], measured(rounded)[0]
    if ulp is None and rounded.value is not None and rounded.value.denominator == 1 and rounded.value:
        digits = str(abs(rounded.value.numerator))  # 42 ~ 43 is wrong; 1234 ~ 1200 is rounded to hundreds
        ulp = Fraction(10 ** (len(digits) - len(digits.rstrip("0"))), 2)
    if ulp is not None and value.kind in EXPRESSIONS and not free_symbols(value) and not within(value, rounded, ulp):
        raise Contradiction
