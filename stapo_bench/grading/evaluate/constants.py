"""Comparing constants: whether two expressions have the same value, which is larger, how far apart they are.

>>> from stapo_bench.grading.tree import call, num
>>> same_constant(call("sqrt", num(8)), num(3), {})
False
"""

import math
from contextlib import suppress
from fractions import Fraction
from typing import Any

from stapo_bench.grading.evaluate.balls import Ball, Unresolved, context, evaluate
from stapo_bench.grading.evaluate.budget import TooLarge, spend
from stapo_bench.grading.evaluate.rationals import PRIMES, Env, Inexact, Undefined, exact, residue
from stapo_bench.grading.tree import Kind, Node, Refusal, add, negate, num

MAX_BITS = 100_000
_GROWING = frozenset({"exp", "factorial", "binom", "prod"})
# As large as the exponential, or as close to 1 as its reciprocal is to 0.
_HYPERBOLIC = frozenset({"sinh", "cosh", "tanh", "coth", "sech", "csch"})


def same_constant(left: Node, right: Node, env: Env) -> bool:
    """Exact where both are rational, modulo primes where too large for that; else by balls at rising precision."""
    try:
        return exact(left, env) == exact(right, env)
    except Inexact:
        pass
    except TooLarge:
        if left == right:
            return True
        with suppress(Inexact, TooLarge):
            return all(residue(left, env, prime) == residue(right, env, prime) for prime in PRIMES)
    # The first look settles most that differ; the last has enough bits to tell apart what expressions with this many
    # digits, and with parts of this size, can be.
    final = 0
    for step in range(4):
        if step == 1:
            sizes = max(_sizes(left, env), _sizes(right, env))
            final = 400 + 8 * _digits(left) + 8 * _digits(right) + 2 * sizes
        bits = final * 4 ** (step - 1) if step else 90
        if bits > MAX_BITS:
            break
        spend((bits // 1000) ** 2 * (_functions(left) + _functions(right)))
        ctx = context(bits)
        try:
            a, b = evaluate(left, env, ctx), evaluate(right, env, ctx)
        except Unresolved:
            continue
        if abs(a.mid - b.mid) > a.rad + b.rad:
            return False
        if step and _sharp(a, bits, ctx) and _sharp(b, bits, ctx):
            return True
    raise TooLarge("cannot be told apart at the highest precision")


def _sharp(ball: Ball, bits: int, ctx: Any) -> bool:
    """Whether the radius is small beside the value, or value and radius are both as small as this precision goes."""
    return bool(ball.rad <= abs(ball.mid) * ctx.mpf(2) ** -40 or ball.rad <= ctx.mpf(2) ** (-bits // 2))


def _digits(node: Node) -> int:
    """Decimal digits of all numbers in the tree."""
    total = 0
    stack = [node]
    while stack:
        current = stack.pop()
        stack.extend(current.args)
        if current.value is not None:
            total += (current.value.numerator.bit_length() + current.value.denominator.bit_length()) // 3
    return total


def _functions(node: Node) -> int:
    """How many powers and functions the tree holds."""
    return (node.kind in (Kind.POWER, Kind.CALL)) + sum(map(_functions, node.args))


def _sizes(node: Node, env: Env) -> int:
    """Sum of the sizes of log2 of the powers, exponentials and products in the tree: 1 - e^-1000 needs 1443 bits."""
    total = 0
    stack = [(node, env)]
    while stack:
        current, at = stack.pop()
        if current.kind is Kind.CALL and current.label in ("sum", "prod"):
            variable, low, high, term = current.args
            for end in (low, high):
                with suppress(Inexact):
                    stack.append((term, at | {variable.label: exact(end, at)}))
        else:
            stack.extend((arg, at) for arg in current.args)
        name = current.label if current.kind is Kind.CALL else ""
        if name in _HYPERBOLIC:
            current = Node(Kind.CALL, current.args, "exp")
        elif not (current.kind is Kind.POWER and current.args[1] != num(-1)) and name not in _GROWING:
            continue
        with suppress(Undefined, Unresolved):
            ctx = context(90)
            ball = evaluate(current, at, ctx)
            size = abs(int(ctx.mag(ball.mid))) if abs(ball.mid) > ball.rad else 0
            if size > MAX_BITS:
                raise TooLarge("number too large")
            total += size
    return total


def value(node: Node, env: Env | None = None) -> Ball:
    """Numeric value of a closed expression; ``Refusal`` where it has none, or none that 720 bits resolve."""
    for bits in (90, 720):
        try:
            return evaluate(node, env or {}, context(bits))
        except Unresolved:
            continue
    raise Refusal("value not resolved")


def is_real(ball: Ball, ctx: Any) -> bool:
    """Whether the ball holds a real number."""
    return bool(abs(ctx.im(ball.mid)) <= ball.rad)


def compare_reals(left: Node, right: Node) -> int:
    """-1, 0 or 1 for two real constants; infinity is a symbol of either sign. ``Refusal`` where they are not real."""
    a, b = _infinite(left), _infinite(right)
    if a or b:
        return (a > b) - (a < b)
    if same_constant(left, right, {}):
        return 0
    try:
        return -1 if exact(left, {}) < exact(right, {}) else 1
    except Inexact:
        pass
    ctx = context(400)
    ball = evaluate(add(left, negate(right)), {}, ctx)
    if not is_real(ball, ctx):
        raise Refusal("not real")
    return -1 if ctx.re(ball.mid) < 0 else 1


def _infinite(node: Node) -> int:
    """1 for infinity, -1 for minus infinity, else 0."""
    if node.kind is Kind.SYMBOL and node.label == "infty":
        return 1
    if node == negate(Node(Kind.SYMBOL, (), "infty")):
        return -1
    return 0


def is_infinite(node: Node) -> bool:
    """Whether the node is infinity, of either sign."""
    return _infinite(node) != 0


def within(left: Node, gold: Node, radius: Fraction) -> bool:
    """Whether |left - gold| <= radius, bounds included, for closed expressions."""
    try:
        return abs(exact(left, {}) - exact(gold, {})) <= radius
    except Inexact:
        pass
    ctx = context(200)
    ball = evaluate(add(left, negate(gold)), {}, ctx)
    return bool(abs(ball.mid) <= ctx.mpf(radius.numerator) / radius.denominator + ball.rad)


def significant_digits(node: Node, ulp: Fraction) -> int:
    """Digits of a decimal from its first non-zero one to its last place."""
    size = abs(exact(node, {}))
    return 0 if not size else max(0, math.floor(math.log10(size / ulp)) + 1) if size / ulp < 10**300 else 300
