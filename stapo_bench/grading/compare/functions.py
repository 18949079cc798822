"""Comparing expressions: constants by value, formulas at several sample points.

>>> from stapo_bench.grading.tree import call, num, sym
>>> same_value(call("sqrt", num(8)), num(3)), same_value(sym("x"), sym("x"))
(False, True)
"""

from collections import Counter
from fractions import Fraction

from stapo_bench.grading.evaluate import (
    Env,
    Inexact,
    TooLarge,
    Undefined,
    Unresolved,
    context,
    evaluate,
    exact,
    is_real,
    same_constant,
    value,
)
from stapo_bench.grading.tree import Kind, Node, Refusal, calls, free_symbols, symbols

# Real points of both signs and several sizes, with no relation among them: numerators are primes over primes.
_POINTS = [(37, 29), (-53, 31), (83, 23), (11, 47), (-7, 61), (127, 19), (3, 17), (-149, 43), (59, 71), (13, 5)]
_STEPS = [(101, 89), (67, 73), (109, 97), (79, 113), (139, 103), (151, 107), (157, 131), (163, 137)]
_COUNTS = (6, 7, 9, 4, 12, 5, 3, 10)  # where floors, factorials and (-1)^n ask for whole numbers
_FAR = [Fraction(1009, 7), Fraction(-1009, 7), Fraction(10**4, 3), Fraction(-(10**4), 3)]
_FAR_COUNTS = [Fraction(count) for count in (23, -6, 101, 1009)]
_WHOLE = frozenset({"floor", "ceil", "factorial", "factorial2", "binom", "gcd", "lcm", "sum", "prod"})
_COUNTERS = frozenset(["i", "j", "k", "l", "m", "n", "p", "q", "r", "s", "t", "a", "b", "c", "d", "N", "M", "K"])


def same_value(left: Node, right: Node) -> bool:
    """Whether two expressions agree; with free symbols, at every sample point where ``right`` (the gold) is real."""
    if left == right:
        return True
    names = sorted(free_symbols(left) | free_symbols(right))
    if _are_factorials(left, right) and same_value(left.args[0], right.args[0]):
        return True  # however large they are
    if not names:
        return same_constant(left, right, {})
    if free_symbols(left) != free_symbols(right) and _differs_in_names(left, right):
        return False
    return _same_function(left, right, names) and not _differs_far(left, right, names)


def _are_factorials(left: Node, right: Node) -> bool:
    """Whether both are factorials, of any number: ``1000000!`` and ``(10^6)!``."""
    return left.kind is right.kind is Kind.CALL and left.label == right.label == "factorial"


def _differs_in_names(left: Node, right: Node) -> bool:
    """Whether a symbol of one side alone occurs only once: to cancel out, as in x + y - y, it must occur twice."""
    counts = Counter(name for side in (left, right) for name in _occurrences(side))
    return any(counts[name] < 2 for name in free_symbols(left) ^ free_symbols(right))


def _occurrences(node: Node) -> list[str]:
    """The name of each symbol in the tree, as often as it stands there."""
    found: list[str] = []
    stack = [node]
    while stack:
        current = stack.pop()
        stack.extend(current.args)
        if current.kind is Kind.SYMBOL:
            found.append(current.label)
    return found


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
            if abs(a.mid - b.mid) <= 4 * (a.rad + b.rad) or not (is_real(a, ctx) and is_real(b, ctx)):
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
        if current.kind is Kind.POWER and free_symbols(current.args[1]) and not free_symbols(current.args[0]):
            try:
                if exact(current.args[0], {}) < 0:
                    return True
            except (Inexact, Refusal):
                continue
    return False


def _leaves_reals(node: Node, env: Env) -> bool:
    """Whether a root or logarithm in the tree is taken of a negative number, though its value may be real again."""
    stack = [node]
    while stack:
        current = stack.pop()
        stack.extend(current.args)
        if (current.kind is Kind.CALL and current.label in ("sqrt", "ln", "root")) or (
            current.kind is Kind.POWER and current.args[1].value is not None and current.args[1].value.denominator == 2
        ):
            inner = current.args[0]
        else:
            continue
        ball, ctx = value(inner, env), context(90)
        if is_real(ball, ctx) and ctx.re(ball.mid) < 0:
            return True
    return False


def _same_function(left: Node, right: Node, names: list[str]) -> bool:
    """Whether the two agree at the sample points that say something, and these are enough."""
    agreed = skipped = 0
    samples = points(left, right, names)
    is_complex = "i" in symbols(right)
    for env in samples:
        agree = _agree_at(env, left, right, is_complex)
        if agree is False:
            return False
        if agree is None:
            skipped += 1
            continue
        agreed += 1
        if agreed == 6:
            return True
    if agreed >= 2:
        return True
    if agreed + skipped < len(samples) or not skipped:
        return False
    return _same_complex(left, right, samples)


def _agree_at(env: Env, left: Node, right: Node, is_complex: bool) -> bool | None:
    """Whether the two have one value at a point; None where the point says nothing. ``is_complex``: of the gold."""
    if not is_complex:
        try:
            if not is_real(value(right, env), context(90)):
                return None
        except TooLarge:
            raise
        except Refusal:
            return None
    try:
        if not is_complex and "i" not in symbols(left) and not is_real(value(left, env), context(90)):
            return None  # outside the domain of the response: sqrt(a) sqrt(b) for negative a and b
        if same_constant(left, right, env):
            return True
        # sqrt(a) sqrt(b) is sqrt(ab) where a and b have roots.
        beyond = _leaves_reals(right, env) or (len(free_symbols(right)) > 1 and _leaves_reals(left, env))
        return None if beyond else False
    except Undefined:
        # n! / k! (n - k)! says nothing of n < k, where the binomial is zero.
        return None if calls(left) & {"factorial", "factorial2"} else False


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
