r"""Piecewise functions, ``\begin{cases} ...`` and "x if x > 0, -x otherwise": whether two are the same function.

A node of kind CASES holds branches in the order written, each a CONDITIONAL. Where every condition is a set of reals in
one and the same variable, two such functions are compared on every piece of the line that the conditions cut out and at
every end; otherwise branch by branch.
"""

from fractions import Fraction
from functools import cmp_to_key
from itertools import pairwise

from stapo_bench.grading.compare.conditional import same_conditions
from stapo_bench.grading.compare.functions import same_value
from stapo_bench.grading.compare.pieces import EVERYTHING, Piece, Region, complement, intersection
from stapo_bench.grading.compare.regions import region, variable
from stapo_bench.grading.evaluate import Inexact, TooLarge, compare_reals, exact, is_infinite, value
from stapo_bench.grading.tree import EXPRESSIONS, Kind, Node, Refusal, num, substitute

MAX_BRANCHES = 12
# Where a piece of the line is looked at: parts of a bounded one, distances from the end of an unbounded one.
_SHARES = (Fraction(3, 29), Fraction(11, 31), Fraction(17, 23), Fraction(37, 41))
_FAR = (Fraction(7, 19), Fraction(47, 29), Fraction(61, 13), Fraction(113, 7))
_REST = frozenset(["otherwise", "else"])


def same_cases(response: Node, gold: Node) -> bool:
    """Whether two functions by cases are the same function."""
    response, gold = _as_cases(response), _as_cases(gold)
    if max(len(response.args), len(gold.args)) > MAX_BRANCHES:
        raise Refusal("too many cases")
    names = _variables(response) | _variables(gold)
    if len(names) == 1 and (name := names.pop()) is not None:
        try:
            return _same_on_the_line(_regions(response), _regions(gold), name)
        except TooLarge:
            raise
        except Refusal:
            pass
    return len(response.args) == len(gold.args) and all(
        any(_same_branch(ours, theirs) for ours in response.args) for theirs in gold.args
    )


def _same_branch(left: Node, right: Node) -> bool:
    """Whether two branches have the same condition and the same value."""
    if (left.label in _REST) != (right.label in _REST):
        return False
    return same_conditions(left, right) and same_value(left.args[0], right.args[0])


def _as_cases(node: Node) -> Node:
    """A formula that holds everywhere is a function of one case: ``|x|``."""
    if node.kind is Kind.CASES:
        return node
    if node.kind not in EXPRESSIONS:
        raise Refusal(f"{node.kind.value} against a value by cases")
    return Node(Kind.CASES, (Node(Kind.CONDITIONAL, (node,), "otherwise"),))


def _variables(node: Node) -> set[str | None]:
    """The variables that the conditions speak of; None stands for a condition on none, or on several."""
    return {variable(clause) for branch in node.args for clause in branch.args[1:]}


def _regions(node: Node) -> list[tuple[Region, Node]]:
    """Where each branch holds: its condition, minus the regions of the branches before it."""
    left: Region = [EVERYTHING]
    found: list[tuple[Region, Node]] = []
    for branch in node.args:
        where: Region = [EVERYTHING]
        if branch.label not in _REST:
            if len(branch.args) < 2:
                raise Refusal("a case without a condition")
            for clause in branch.args[1:]:
                where = intersection(where, region(clause))
        found.append((intersection(where, left), branch.args[0]))
        left = intersection(left, complement(where))
    return found


def _same_on_the_line(left: list[tuple[Region, Node]], right: list[tuple[Region, Node]], name: str) -> bool:
    """Whether two functions of ``name``, as (where, formula) branches, agree at every end and in every piece."""
    both = (*left, *right)
    ends = [end for where, _ in both for piece in where for end in (piece.low, piece.high) if not is_infinite(end)]
    cuts: list[Node] = []
    for end in sorted(ends, key=cmp_to_key(compare_reals)):
        if not cuts or compare_reals(cuts[-1], end):
            cuts.append(end)
    return all(_same_at(point, left, right, name) for point in (*cuts, *_between(cuts)))


def _between(cuts: list[Node]) -> list[Node]:
    """Rational points in each piece that the cuts leave."""
    if not cuts:
        return [num(k) for k in (-_FAR[2], -_FAR[0], Fraction(0), _FAR[1], _FAR[3])]
    values = [_near(cut) for cut in cuts]
    inner = [num(a + (b - a) * share) for a, b in pairwise(values) for share in _SHARES]
    return [*(num(values[0] - far) for far in _FAR), *inner, *(num(values[-1] + far) for far in _FAR)]


def _near(cut: Node) -> Fraction:
    """A rational at the cut, or so near that it lies in the same piece."""
    try:
        return exact(cut, {})
    except Inexact:
        return Fraction(str(value(cut).mid.real))


def _same_at(point: Node, left: list[tuple[Region, Node]], right: list[tuple[Region, Node]], name: str) -> bool:
    """Whether the two have the same value at a point, or neither has one."""
    ours, theirs = _branch_at(point, left), _branch_at(point, right)
    if ours is None or theirs is None:
        return ours is theirs
    return same_value(substitute(ours, {name: point}), substitute(theirs, {name: point}))


def _branch_at(point: Node, branches: list[tuple[Region, Node]]) -> Node | None:
    """The formula that holds at a point."""
    here = [Piece(point, point, True, True)]
    return next((formula for where, formula in branches if intersection(where, here)), None)
