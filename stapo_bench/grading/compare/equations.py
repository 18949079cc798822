"""Equations and inequalities with several unknowns: equal up to rearrangement, that is, with the same solutions."""

from fractions import Fraction
from typing import Any

from stapo_bench.grading.compare.functions import points, same_value
from stapo_bench.grading.evaluate import Inexact, Unresolved, context, evaluate, exact
from stapo_bench.grading.names import split_name
from stapo_bench.grading.tree import (
    REVERSED_SIGN,
    Kind,
    Node,
    Refusal,
    add,
    divide,
    free_symbols,
    mul,
    negate,
    num,
    substitute,
)

_STARTS = ((0.7, 0.0), (-1.3, 0.0), (3.1, 0.0), (-6.3, 0.0), (0.4, 1.7), (-2.2, 0.9), (17.0, 0.0), (0.05, 0.0))


def difference(relation: Node) -> Node:
    """Left side minus right side."""
    return add(relation.args[0], negate(relation.args[1]))


def is_problem_of(left: Node, right: Node) -> bool:
    """Whether one is the solution ``x = 2`` and the other an equation to solve, ``3x + 1 = 7``; a line is neither."""
    return _is_solved(left) is not _is_solved(right) and num(0) not in (*left.args, *right.args)


def _is_solved(relation: Node) -> bool:
    """Whether an equation of one unknown says what it is: ``x = 2``; not ``3x + 1 = 7``."""
    name, value = split_name(relation)
    return name is not None and name.kind is Kind.SYMBOL and not free_symbols(value)


def same_relation(left: Node, right: Node) -> bool:
    """Whether two binary relations (``=``, ``<``, ...) say the same.

    A common non-zero factor is allowed (positive, or with the sign turned, for inequalities); equations may also be
    cleared of denominators: then each one's solutions must solve the other.
    """
    if len(left.args) != 2 or len(right.args) != 2:
        return False
    a, b = difference(left), difference(right)
    if free_symbols(a) != free_symbols(b) or not free_symbols(b):
        return False
    if left.label not in REVERSED_SIGN or right.label not in REVERSED_SIGN:
        return left.label == right.label and all(same_value(x, y) for x, y in zip(left.args, right.args, strict=True))
    factor = _constant_factor(a, b)
    if factor is not None:
        if left.label in ("=", "!="):
            return left.label == right.label
        return left.label == (right.label if factor > 0 else REVERSED_SIGN[right.label])
    return left.label == right.label == "=" and _same_solutions(a, b)


def _constant_factor(a: Node, b: Node) -> int | None:
    """Sign of the constant c with a = c b; 1 for a complex one; None where there is none."""
    names = sorted(free_symbols(b))
    for env in points(a, b, names)[:4]:
        try:
            top, bottom = exact(a, env), exact(b, env)
            if not bottom or not top:
                continue
            ratio: Node = num(top / bottom)
            sign = 1 if top / bottom > 0 else -1
        except Inexact:
            fixed = {name: num(point) for name, point in env.items()}
            fixed_a, fixed_b = substitute(a, fixed), substitute(b, fixed)
            ratio = divide(fixed_a, fixed_b)
            ctx = context(90)
            try:
                sign = 1 if ctx.re(evaluate(ratio, {}, ctx).mid) > 0 else -1
            except (Refusal, Unresolved):
                continue
        except Refusal:
            continue
        try:
            return sign if same_value(a, mul(ratio, b)) else None
        except Refusal:
            return None
    return None


def _same_solutions(a: Node, b: Node) -> bool:
    """Roots of one in each unknown, the others fixed at sample points, are roots of the other, both ways.

    Where both are linear in the unknown the root is a fraction; else some roots are found numerically.
    """
    names = sorted(free_symbols(b))
    agreed = 0
    for count, env in enumerate(points(a, b, names)[:4]):
        for name in names:
            left, right = _linear_root(a, env, name), _linear_root(b, env, name)
            if left is not None and right is not None:
                if left != right:
                    return False
                agreed += 1
            elif count < 1 and not (_roots_vanish(a, b, env, name) and _roots_vanish(b, a, env, name)):
                return False
            elif count < 1:
                agreed += 2
    return agreed >= 2


def _linear_root(node: Node, env: dict[str, Fraction], name: str) -> Fraction | None:
    """The exact root in the unknown ``name`` if the node is linear in it with rational values."""
    try:
        at = [exact(node, env | {name: Fraction(x)}) for x in (2, 3, 7)]
    except (Inexact, Refusal):
        return None
    slope = at[1] - at[0]
    return 2 - at[0] / slope if slope and at[2] == at[0] + 5 * slope else None


def _roots_vanish(source: Node, target: Node, env: dict[str, Fraction], name: str) -> bool:
    """Whether roots of ``source`` were found and each is a root of ``target``."""
    roots = _roots(source, env, name)
    return bool(roots) and all(_vanishes(target, env, name, root) for root in roots)


def _roots(node: Node, env: dict[str, Fraction], name: str) -> list[Any]:
    """Some roots in the unknown ``name``, by the secant method from several starts."""
    ctx = context(80)
    found: list[Any] = []
    for real, imaginary in _STARTS:
        x = ctx.mpc(real, imaginary)
        step = ctx.mpf("1e-3")
        try:
            last, now = _value(node, env, name, x + step, ctx), _value(node, env, name, x, ctx)
            previous = x + step
            for _ in range(40):
                if now == last:
                    break
                following = x - now * (x - previous) / (now - last)
                previous, last, x = x, now, following
                now = _value(node, env, name, x, ctx)
                if abs(x - previous) < abs(x) * ctx.mpf(2) ** -60:
                    break
            size = 1 + abs(x)
            settled = abs(now) < size * ctx.mpf(2) ** -50 and abs(x - previous) < size * ctx.mpf(2) ** -40
            if settled and all(abs(x - other) > size * ctx.mpf(2) ** -30 for other in found):
                found.append(x)
        except (Refusal, Unresolved, ZeroDivisionError, ValueError, OverflowError):
            continue
    return found


def _value(node: Node, env: dict[str, Fraction], name: str, x: Any, ctx: Any) -> Any:
    """The value with the unknown ``name`` at x."""
    return evaluate(node, env | {name: x}, ctx).mid


def _vanishes(node: Node, env: dict[str, Fraction], name: str, x: Any) -> bool:
    """Whether the node is zero at x, judged against its size a little beside x."""
    ctx = context(80)
    try:
        here = abs(_value(node, env, name, x, ctx))
        beside = abs(_value(node, env, name, x * (1 + ctx.mpf(2) ** -10) + ctx.mpf(2) ** -10, ctx))
    except (Refusal, Unresolved, ZeroDivisionError, ValueError, OverflowError):
        return False
    return bool(here <= beside * ctx.mpf(2) ** -25)
