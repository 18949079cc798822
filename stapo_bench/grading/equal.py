"""Are two expressions equal? Rationals by integers, other constants by balls, formulas at several points.

>>> from stapo_bench.grading.tree import num, call
>>> same_value(call("sqrt", num(8)), num(3))
False
"""

import math
from collections import Counter
from contextlib import suppress
from fractions import Fraction
from typing import Any

from stapo_bench.grading.balls import Ball, Unresolved, context, evaluate
from stapo_bench.grading.budget import TooLarge, spend
from stapo_bench.grading.exact import PRIMES, Env, Inexact, Undefined, exact, residue
from stapo_bench.grading.tree import Node, Refusal, add, calls, negate, num, symbols

MAX_BITS = 100_000
CONSTANTS = frozenset({"pi", "e", "i"})
# Real points of both signs and several sizes, with no relation among them: numerators are primes over primes.
_POINTS = [(37, 29), (-53, 31), (83, 23), (11, 47), (-7, 61), (127, 19), (3, 17), (-149, 43), (59, 71), (13, 5)]
_STEPS = [(101, 89), (67, 73), (109, 97), (79, 113), (139, 103), (151, 107), (157, 131), (163, 137)]
_COUNTS = (6, 7, 9, 4, 12, 5, 3, 10)  # where floors, factorials and (-1)^n ask for whole numbers
_FAR = [Fraction(1009, 7), Fraction(-1009, 7), Fraction(10**4, 3), Fraction(-(10**4), 3)]
_FAR_COUNTS = [Fraction(count) for count in (23, -6, 101, 1009)]
_WHOLE = frozenset({"floor", "ceil", "factorial", "factorial2", "binom", "gcd", "lcm", "sum", "prod"})
_GROWING = frozenset({"exp", "factorial", "binom", "prod"})
# As large as the exponential, or that close to 1.
_HYPERBOLIC = frozenset({"sinh", "cosh", "tanh", "coth", "sech", "csch"})
_COUNTERS = frozenset(["i", "j", "k", "l", "m", "n", "p", "q", "r", "s", "t", "a", "b", "c", "d", "N", "M", "K"])


def free_symbols(node: Node) -> frozenset[str]:
    return symbols(node) - CONSTANTS


def same_value(left: Node, right: Node) -> bool:
    """Whether two expressions agree; with free symbols, at every sample point where ``right`` (the gold) is real."""
    if left == right:
        return True
    names = sorted(free_symbols(left) | free_symbols(right))
    if not names:
        return same_constant(left, right, {})
    if free_symbols(left) != free_symbols(right) and _differs_in_names(left, right):
        return False
    return _same_function(left, right, names) and not _differs_far(left, right, names)


def _differs_in_names(left: Node, right: Node) -> bool:
    """A symbol of one side alone can only cancel out, as in x + y - y; that needs the symbol at least twice."""
    counts = Counter(name for side in (left, right) for name in _occurrences(side))
    return any(counts[name] < 2 for name in free_symbols(left) ^ free_symbols(right))


def _occurrences(node: Node) -> list[str]:
    found: list[str] = []
    stack = [node]
    while stack:
        current = stack.pop()
        stack.extend(current.args)
        if current.kind == "sym":
            found.append(current.label)
    return found


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
    total = 0
    stack = [node]
    while stack:
        current = stack.pop()
        stack.extend(current.args)
        if current.value is not None:
            total += (current.value.numerator.bit_length() + current.value.denominator.bit_length()) // 3
    return total


def _functions(node: Node) -> int:
    return (node.kind in ("pow", "call")) + sum(map(_functions, node.args))


def _sizes(node: Node, env: Env) -> int:
    """Sum of the sizes of log2 of the powers, exponentials and products in the tree: 1 - e^-1000 needs 1443 bits."""
    total = 0
    stack = [(node, env)]
    while stack:
        current, at = stack.pop()
        if current.kind == "call" and current.label in ("sum", "prod"):
            variable, low, high, term = current.args
            for end in (low, high):
                with suppress(Inexact):
                    stack.append((term, at | {variable.label: exact(end, at)}))
        else:
            stack.extend((arg, at) for arg in current.args)
        name = current.label if current.kind == "call" else ""
        if name in _HYPERBOLIC:
            current = Node("call", current.args, "exp")
        elif not (current.kind == "pow" and current.args[1] != num(-1)) and name not in _GROWING:
            continue
        with suppress(Undefined, Unresolved):
            ctx = context(90)
            ball = evaluate(current, at, ctx)
            size = abs(int(ctx.mag(ball.mid))) if abs(ball.mid) > ball.rad else 0
            if size > MAX_BITS:
                raise TooLarge("number too large")
            total += size
    return total


def value(node: Node, env: Env | None = None, bits: int = 90) -> Ball:
    """Numeric value of a closed expression."""
    for precision in (bits, 8 * bits):
        try:
            return evaluate(node, env or {}, context(precision))
        except Unresolved:
            continue
    raise Refusal("value not resolved")


def points(left: Node, right: Node, names: list[str]) -> list[Env]:
    """Sample points, the same on every run."""
    whole = bool((calls(left) | calls(right)) & _WHOLE)
    whole = whole or _alternates(left) or _alternates(right)
    physical = len(names) > 3 or any("_" in name for name in names)
    samples: list[Env] = []
    for index, (top, bottom) in enumerate(_POINTS):
        env: Env = {}
        for place, name in enumerate(names):
            step = Fraction(*_STEPS[(place + index) % len(_STEPS)])
            point = Fraction(top, bottom) * step ** (place % 5) + Fraction(place * (index % 3), 7)
            if index in (1, 2, 4) and place % 2:
                point = -point  # signs that differ from name to name: sqrt(x^2 y) is not x sqrt(y)
            if whole and name in _COUNTERS:
                point = Fraction(_COUNTS[(index + 3 * place) % len(_COUNTS)] + (place * index) % 3)
            elif physical:
                # Names of measured quantities: square roots of their squares are taken as they are.
                point = abs(point)
            env[name] = point
        samples.append(env)
    return samples


def _far_points(left: Node, right: Node, names: list[str]) -> list[Env]:
    """Points far from zero, where |x - 10| is not 10 - x, and whole ones where floors ask for them."""
    physical = len(names) > 3 or any("_" in name for name in names)
    functions = calls(left) | calls(right)
    samples: list[Env] = []
    for index, top in enumerate((*_FAR_COUNTS, *_FAR) if functions & {"floor", "ceil"} else _FAR):
        env: Env = {}
        for place, name in enumerate(names):
            point = (top + place * (index + 3)) * (-1) ** (place * index)
            if functions & _WHOLE and name in _COUNTERS:
                point = Fraction(round(abs(point)))
            env[name] = abs(point) if physical else point
        samples.append(env)
    return samples


def _differs_far(left: Node, right: Node, names: list[str]) -> bool:
    """Whether the two are real and surely not equal at a point far away; what has no value there says nothing."""
    complex_gold = "i" in symbols(right) | symbols(left)
    for env in [] if complex_gold else _far_points(left, right, names):
        try:
            ctx = context(200)
            a, b = evaluate(left, env, ctx), evaluate(right, env, ctx)
            if abs(a.mid - b.mid) <= 4 * (a.rad + b.rad) or not (_is_real(a, ctx) and _is_real(b, ctx)):
                continue
            if not _leaves_reals(right, env) and not (len(names) > 1 and _leaves_reals(left, env)):
                return True
        except (Refusal, Unresolved, ArithmeticError, ValueError):
            continue
    return False


def _alternates(node: Node) -> bool:
    """Whether a negative number is raised to a power that is no constant."""
    stack = [node]
    while stack:
        current = stack.pop()
        stack.extend(current.args)
        if current.kind == "pow" and free_symbols(current.args[1]) and not free_symbols(current.args[0]):
            try:
                if exact(current.args[0], {}) < 0:
                    return True
            except (Inexact, Refusal):
                continue
    return False


def _is_real(ball: Ball, ctx: Any) -> bool:
    return bool(abs(ctx.im(ball.mid)) <= ball.rad)


def _leaves_reals(node: Node, env: Env) -> bool:
    """Whether a root or logarithm in the tree is taken of a negative number, though its value may be real again."""
    stack = [node]
    while stack:
        current = stack.pop()
        stack.extend(current.args)
        if (current.kind == "call" and current.label in ("sqrt", "ln", "root")) or (
            current.kind == "pow" and current.args[1].value is not None and current.args[1].value.denominator == 2
        ):
            inner = current.args[0]
        else:
            continue
        ball, ctx = value(inner, env), context(90)
        if _is_real(ball, ctx) and ctx.re(ball.mid) < 0:
            return True
    return False


def _same_function(left: Node, right: Node, names: list[str]) -> bool:  # noqa: PLR0912
    complex_gold = "i" in symbols(right)
    agreed = skipped = 0
    samples = points(left, right, names)
    for env in samples:
        try:
            if not complex_gold:
                gold = value(right, env)
                if not _is_real(gold, context(90)):
                    skipped += 1
                    continue
        except TooLarge:
            raise
        except (Undefined, Refusal):
            skipped += 1
            continue
        try:
            if not complex_gold and "i" not in symbols(left) and not _is_real(value(left, env), context(90)):
                skipped += 1  # outside the domain of the response: sqrt(a) sqrt(b) for negative a and b
                continue
            if not same_constant(left, right, env):
                if _leaves_reals(right, env) or (len(free_symbols(right)) > 1 and _leaves_reals(left, env)):
                    skipped += 1  # sqrt(a) sqrt(b) is sqrt(ab) where a and b have roots
                    continue
                return False
        except Undefined:
            if not calls(left) & {"factorial", "factorial2"}:
                return False
            skipped += 1  # n! / k! (n - k)! says nothing of n < k, where the binomial is zero
            continue
        agreed += 1
        if agreed == 6:
            return True
    if agreed >= 2:
        return True
    if agreed + skipped < len(samples) or not skipped:
        return False
    return _same_complex(left, right, samples)


def _same_complex(left: Node, right: Node, samples: list[Env]) -> bool:
    """The gold is real at hardly any sample point (ln of a negative): compare principal values instead."""
    agreed = 0
    for env in samples[:5]:
        try:
            if not same_constant(left, right, env):
                return False
            agreed += 1
        except TooLarge:
            raise
        except Refusal:
            continue
    return agreed >= 2


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
    if not _is_real(ball, ctx):
        raise Refusal("not real")
    return -1 if ctx.re(ball.mid) < 0 else 1


def _infinite(node: Node) -> int:
    if node.kind == "sym" and node.label == "infty":
        return 1
    if node == negate(Node("sym", (), "infty")):
        return -1
    return 0


def is_infinite(node: Node) -> bool:
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
