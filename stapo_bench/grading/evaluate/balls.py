"""Real and complex numbers as balls: a midpoint and a radius that bounds what rounding and cancellation may have done.

Two values differ when the ball of their difference leaves zero out. Precision rises until that happens or until it is
far beyond what expressions of this length can separate; only then are they equal. Nothing here is absolute: 2^-99 and
2^-98 differ, and so do sqrt(N) and sqrt(N + 2) for a sixty-digit N.
"""

import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from stapo_bench.grading.evaluate.analytic import FUNCTIONS, PERIODIC, real_root
from stapo_bench.grading.evaluate.budget import TooLarge, spend
from stapo_bench.grading.evaluate.rationals import Env, Inexact, Undefined, exact
from stapo_bench.grading.tree import Kind, Node, Refusal

MAX_LOG2 = 20_000  # bits of the exponent of the largest number, so 2^(2^20000) is out of reach
_local = threading.local()


class Unresolved(Exception):  # noqa: N818 - a signal, not an error
    """The precision does not suffice to say (is this divisor zero? which side of a cut?)."""


class Ball(NamedTuple):
    """All numbers within ``rad`` of ``mid``."""

    mid: Any  # mpf or mpc
    rad: Any  # mpf, at least the distance to the true value, to first order


def context(bits: int) -> Any:
    """An mpmath context of this thread alone, so that no other thread changes its precision."""
    if not hasattr(_local, "ctx"):
        import mpmath  # type: ignore[import-untyped]  # it ships no types

        _local.ctx = mpmath.MPContext()
    _local.ctx.prec = bits
    return _local.ctx


def evaluate(node: Node, env: Env, ctx: Any) -> Ball:
    """Value of the tree with the symbols of ``env`` filled in; ``Refusal`` where it has none."""
    spend(1 + ctx.prec // 500)
    if node.value is not None:
        return _constant(node.value, ctx)
    if node.kind not in _RULES:
        raise Refusal(f"{node.kind.value} has no numeric value")
    return _RULES[node.kind](node, env, ctx)


def _sum(node: Node, env: Env, ctx: Any) -> Ball:
    """A sum; the radii add up."""
    total = evaluate(node.args[0], env, ctx)
    for arg in node.args[1:]:
        other = evaluate(arg, env, ctx)
        mid = total.mid + other.mid
        total = Ball(mid, total.rad + other.rad + abs(mid) * ctx.eps)
    return total


def _product(node: Node, env: Env, ctx: Any) -> Ball:
    """A product."""
    product = evaluate(node.args[0], env, ctx)
    for arg in node.args[1:]:
        product = _times(product, evaluate(arg, env, ctx), ctx)
    return product


def _quantity(node: Node, env: Env, ctx: Any) -> Ball:
    """An angle in degrees; other units have no value."""
    if node.label.split()[0] not in ("deg", "degree", "degrees"):
        raise Refusal(f"{node.kind.value} has no numeric value")
    return _times(evaluate(node.args[0], env, ctx), Ball(ctx.pi / 180, ctx.eps), ctx)


def _constant(value: Fraction, ctx: Any) -> Ball:
    """A fraction, rounded."""
    mid = ctx.mpf(value.numerator) / value.denominator
    return Ball(mid, abs(mid) * ctx.eps)


def _symbol(node: Node, env: Env, ctx: Any) -> Ball:
    """The value of a symbol, given or constant; ``Refusal`` where it has none."""
    name = node.label
    if name in env:
        given = env[name]
        # The root finder of ``compare.equations`` fills in floating-point numbers of this context.
        return _constant(given, ctx) if isinstance(given, Fraction) else Ball(given, abs(given) * ctx.eps)
    if name == "pi":
        return Ball(+ctx.pi, 4 * ctx.eps)
    if name == "e":
        return Ball(+ctx.e, 4 * ctx.eps)
    if name == "i":
        return Ball(ctx.mpc(0, 1), ctx.mpf(0))
    raise Refusal(f"no value for {name}")


def _times(a: Ball, b: Ball, ctx: Any) -> Ball:
    """A product of two balls."""
    mid = a.mid * b.mid
    return Ball(mid, abs(a.mid) * b.rad + abs(b.mid) * a.rad + a.rad * b.rad + abs(mid) * ctx.eps)


def _size(ctx: Any, value: Any) -> None:
    """Refuse an exponent whose power could not be written down."""
    if value and ctx.mag(value) > MAX_LOG2:
        raise TooLarge("number too large")


def _power(node: Node, env: Env, ctx: Any) -> Ball:
    """A power, by multiplication where the exponent is a small integer, else by the logarithm."""
    base, exponent = (evaluate(arg, env, ctx) for arg in node.args)
    whole = _whole(node.args[1], env)
    if abs(base.mid) <= base.rad:
        if base.rad and not _is_zero(node.args[0], env):
            raise Unresolved
        if abs(exponent.mid) <= exponent.rad:
            return Ball(ctx.mpf(1), ctx.mpf(0))
        if ctx.re(exponent.mid) < 0:
            raise Undefined("division by zero")
        return Ball(ctx.mpf(0), ctx.mpf(0))
    if whole is not None and abs(whole) < 64:
        mid = base.mid ** int(whole)
        return Ball(mid, abs(mid) * (abs(int(whole)) * base.rad / abs(base.mid) * 2 + 4 * ctx.eps))
    logarithm = ctx.ln(base.mid)
    _size(ctx, exponent.mid * logarithm)
    mid = base.mid ** int(whole) if whole is not None and abs(whole) < 10**6 else ctx.exp(exponent.mid * logarithm)
    if whole is None and ctx.im(base.mid) == 0 and ctx.re(base.mid) > 0 and ctx.im(exponent.mid) == 0:
        mid = ctx.re(mid)
    spread = abs(exponent.mid) * base.rad / abs(base.mid) + abs(logarithm) * exponent.rad
    return Ball(mid, abs(mid) * (2 * spread + ctx.eps * (4 + abs(exponent.mid * logarithm))))


def _whole(node: Node, env: Env) -> Fraction | None:
    """The value if it is an integer."""
    try:
        value = exact(node, env)
    except (Inexact, Refusal):
        return None
    return value if value.denominator == 1 else None


def _is_zero(node: Node, env: Env) -> bool:
    """Whether the value is exactly zero."""
    try:
        return exact(node, env) == 0
    except Inexact:
        return False


def _call(node: Node, env: Env, ctx: Any) -> Ball:
    """The value of a function."""
    name = node.label
    if name in ("sum", "prod"):
        return _series(node, env, ctx)
    values = [evaluate(arg, env, ctx) for arg in node.args]
    if name in FUNCTIONS and len(values) == 1:
        return _analytic(node, values[0], env, ctx)
    if name == "root" and len(values) == 2:
        return _nth_root(values[0], _whole(node.args[1], env), ctx)
    if name in ("floor", "ceil"):
        return _floor(name, values[0], ctx)
    if name in ("factorial", "binom"):
        return _gamma(name, values, ctx)
    return _ordered(name, values, ctx)


def _nth_root(x: Ball, degree: Fraction | None, ctx: Any) -> Ball:
    """A root of whole degree."""
    if degree is None or not 2 <= degree <= 1000:
        raise Refusal("root of that degree")
    if x.mid == 0:
        return Ball(ctx.mpf(0), ctx.mpf(0))
    mid = real_root(ctx, x.mid, int(degree))
    return Ball(mid, abs(mid) * (x.rad / abs(x.mid) + 8 * ctx.eps))


def _ordered(name: str, values: list[Ball], ctx: Any) -> Ball:
    """What the order of the reals decides: a maximum, a minimum, a sign."""
    if name in ("max", "min") and all(ctx.im(v.mid) == 0 for v in values):
        return (max if name == "max" else min)(values, key=lambda v: ctx.re(v.mid))
    if name == "sgn" and abs(values[0].mid) > values[0].rad:
        return Ball(ctx.sign(values[0].mid), ctx.mpf(0))
    raise Refusal(f"cannot evaluate {name}")


def _analytic(node: Node, x: Ball, env: Env, ctx: Any) -> Ball:
    """A function of ``FUNCTIONS`` at ``x``, the value of its argument; the radius grows by the slope there."""
    name = node.label
    function, slope = FUNCTIONS[name]
    if abs(x.mid) <= x.rad and name in ("sqrt", "ln", "cbrt", "Arg", "cot", "csc", "coth", "csch", "arcsec", "arccsc"):
        if x.rad and not _is_zero(node.args[0], env):
            raise Unresolved
        if name in ("sqrt", "cbrt"):
            return Ball(ctx.mpf(0), ctx.mpf(0))
        raise Undefined(f"{name} of zero")
    if name in ("exp", "sinh", "cosh"):
        _size(ctx, x.mid)
    if name in PERIODIC and x.mid and ctx.mag(x.mid) > 2_000:
        raise TooLarge("angle too large")
    try:
        mid = function(ctx, x.mid)
        derivative = slope(ctx, x.mid) if x.rad else 0
    except (ZeroDivisionError, ValueError):
        # At an end of the domain (arcsin 1) the slope is infinite: the radius follows from the square-root shape there.
        try:
            mid = function(ctx, x.mid)
        except (ZeroDivisionError, ValueError) as wrong:
            raise Undefined(f"{name} has no value here") from wrong
        return Ball(mid, 4 * ctx.sqrt(x.rad) + abs(mid) * ctx.eps * 8)
    if name in ("tan", "sec") and abs(mid) * ctx.eps * 2**10 > 1:
        raise Undefined(f"{name} has a pole here")
    if derivative * x.rad * 4 > 1 and name.startswith("arc"):
        return Ball(mid, 4 * ctx.sqrt(x.rad) + abs(mid) * ctx.eps * 8)
    return Ball(mid, 2 * derivative * x.rad + abs(mid) * ctx.eps * 8)


def _floor(name: str, x: Ball, ctx: Any) -> Ball:
    """Floor or ceiling; a ball that holds an integer is taken for that integer."""
    if ctx.im(x.mid) != 0:
        raise Refusal("floor of a complex number")
    real = ctx.re(x.mid)
    nearest = ctx.nint(real)
    if abs(real - nearest) <= x.rad * 4:
        return Ball(nearest, ctx.mpf(0))
    return Ball(ctx.floor(real) if name == "floor" else ctx.ceil(real), ctx.mpf(0))


def _gamma(name: str, values: list[Ball], ctx: Any) -> Ball:
    """Factorial or binomial, by the gamma function."""
    if any(ctx.mag(v.mid) > 40 for v in values if v.mid):
        raise TooLarge("factorial too large")
    try:
        first = values[0].mid
        mid = ctx.gamma(first + 1) if name == "factorial" else ctx.binomial(first, values[1].mid)
    except ValueError as wrong:
        raise Undefined("factorial of a negative number") from wrong
    spread = sum(v.rad * (2 + ctx.ln(abs(v.mid) + 3)) for v in values)
    return Ball(mid, abs(mid) * (4 * spread + 2**12 * ctx.eps))


def _series(node: Node, env: Env, ctx: Any) -> Ball:
    """A sum or product over a range of integers."""
    variable, low, high, term = node.args
    first, last = _whole(low, env), _whole(high, env)
    if first is None or last is None or last - first > 200:
        raise Refusal("sum too long")
    total = Ball(ctx.mpf(0 if node.label == "sum" else 1), ctx.mpf(0))
    for index in range(int(first), int(last) + 1):
        value = evaluate(term, env | {variable.label: Fraction(index)}, ctx)
        if node.label == "sum":
            total = Ball(total.mid + value.mid, total.rad + value.rad + abs(total.mid) * ctx.eps)
        else:
            total = _times(total, value, ctx)
    return total


_RULES: dict[Kind, Callable[[Node, Env, Any], Ball]] = {
    Kind.SYMBOL: _symbol,
    Kind.SUM: _sum,
    Kind.PRODUCT: _product,
    Kind.POWER: _power,
    Kind.QUANTITY: _quantity,
    Kind.CALL: _call,
}
