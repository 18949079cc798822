"""Exact evaluation in the rationals, and with i in the Gaussian rationals' place left to ``balls``.

Sizes are bounded before anything is computed: a power or factorial that would not fit raises ``TooLarge``.
"""

import math
from fractions import Fraction

from stapo_bench.grading.budget import TooLarge, spend
from stapo_bench.grading.tree import Node, Refusal

MAX_BITS = 60_000
MAX_FACTORIAL = 5_000
MAX_MODULAR_FACTORIAL = 50_000
PRIMES = (2**255 - 19, 2**128 - 159)
Env = dict[str, Fraction]


class Undefined(Refusal):
    """Division by zero, logarithm of zero, factorial of a half: no value at this point."""


class Inexact(Exception):  # noqa: N818 - a signal, not an error
    """The value is not rational, or not visibly so."""


def exact(node: Node, env: Env) -> Fraction:
    """Value of the tree as a fraction; raises ``Inexact`` where it has none that arithmetic alone can find.

    >>> from stapo_bench.grading.tree import num, power, mul
    >>> exact(mul(num(3), power(num(4), num(Fraction(1, 2)))), {})
    Fraction(6, 1)
    """
    spend()
    kind = node.kind
    if kind == "num":
        assert node.value is not None
        return node.value
    if kind == "sym":
        given = env.get(node.label)
        if isinstance(given, Fraction):
            return given
        raise Inexact
    if kind == "add":
        total = Fraction(0)
        for arg in node.args:
            total += exact(arg, env)
            _bounded(total)
        return total
    if kind == "mul":
        product = Fraction(1)
        for arg in node.args:
            product *= exact(arg, env)
            _bounded(product)
        return product
    if kind == "pow":
        return _power(exact(node.args[0], env), exact(node.args[1], env))
    if kind == "quantity" and node.label in ("deg", "degree", "degrees", "%"):
        raise Inexact
    if kind == "call":
        return _call(node, env)
    raise Inexact


def residue(node: Node, env: Env, prime: int) -> int:
    """Value of the tree modulo a prime: what is left of numbers too large to write down, such as 2^82589933 - 1.

    >>> from stapo_bench.grading.tree import num, power
    >>> residue(power(num(2), num(10**30)), {}, 7)
    2
    """
    spend()
    if node.kind == "add":
        return sum(residue(arg, env, prime) for arg in node.args) % prime
    if node.kind == "mul":
        product = 1
        for arg in node.args:
            product = product * residue(arg, env, prime) % prime
        return product
    if node.kind == "pow" and (exponent := exact(node.args[1], env)).denominator == 1:
        base = residue(node.args[0], env, prime)
        if not base and exponent <= 0:
            raise Inexact
        return pow(base, exponent.numerator % (prime - 1), prime) if base else 0
    if node.kind == "call" and node.label == "factorial":
        count = exact(node.args[0], env)
        if count.denominator == 1 and 0 <= count <= MAX_MODULAR_FACTORIAL:
            spend(int(count) // 20)
            product = 1
            for factor in range(2, int(count) + 1):
                product = product * factor % prime
            return product
    value = exact(node, env)
    if not value.denominator % prime:
        raise Inexact
    return value.numerator * pow(value.denominator, -1, prime) % prime


def _bounded(value: Fraction) -> None:
    if value.numerator.bit_length() + value.denominator.bit_length() > MAX_BITS:
        raise TooLarge("number too large")


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        if base < 0 or exponent.denominator > 64:
            raise Inexact
        base, exponent = _root(base, exponent.denominator), Fraction(exponent.numerator)
    count = exponent.numerator
    if base == 0 and count < 0:
        raise Undefined("division by zero")
    if abs(base) in (0, 1):
        return base ** (count if count in (0, 1) else 2 + count % 2)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if count.bit_length() > 32 or bits * abs(count) > MAX_BITS:
        raise TooLarge("power too large")
    return base**count


def _root(value: Fraction, degree: int) -> Fraction:
    top, bottom = _integer_root(value.numerator, degree), _integer_root(value.denominator, degree)
    return Fraction(top, bottom)


def _integer_root(value: int, degree: int) -> int:
    """Exact integer root, by Newton's method in integers."""
    if value < 2:
        return value
    if degree == 2:
        root = math.isqrt(value)
    else:
        root = 1 << -(-value.bit_length() // degree)
        while True:
            better = ((degree - 1) * root + value // root ** (degree - 1)) // degree
            if better >= root:
                break
            root = better
    if root**degree != value:
        raise Inexact
    return root


def _call(node: Node, env: Env) -> Fraction:  # noqa: PLR0911, PLR0912
    name = node.label
    if name in ("sum", "prod"):
        return _series(node, env)
    values = [exact(arg, env) for arg in node.args]
    first = values[0]
    if name == "sqrt":
        if first < 0:
            raise Inexact
        return _root(first, 2)
    if name == "cbrt" or (name == "root" and len(values) == 2 and values[1].denominator == 1):
        degree = 3 if name == "cbrt" else values[1].numerator
        if not 2 <= degree <= 64:
            raise Inexact
        if first < 0 and degree % 2:
            return -_root(-first, degree)
        if first < 0:
            raise Inexact
        return _root(first, degree)
    if name == "abs":
        return abs(first)
    if name == "floor":
        return Fraction(math.floor(first))
    if name == "ceil":
        return Fraction(math.ceil(first))
    if name == "sgn":
        return Fraction((first > 0) - (first < 0))
    if name in ("max", "min"):
        return max(values) if name == "max" else min(values)
    if name in ("gcd", "lcm") and all(v.denominator == 1 for v in values):
        whole = [v.numerator for v in values]
        if name == "lcm":
            _bounded(math.prod((Fraction(v) for v in whole), start=Fraction(1)))
        return Fraction(math.gcd(*whole) if name == "gcd" else math.lcm(*whole))
    if name == "bmod" and values[1]:
        return first % values[1]
    if name in ("factorial", "factorial2"):
        return _factorial(first, 1 if name == "factorial" else 2)
    if name == "binom" and len(values) == 2 and all(v.denominator == 1 for v in values):
        n, k = values[0].numerator, values[1].numerator
        if n < 0 or k < 0:
            raise Inexact
        if min(k, n - k) > 2_000 or n.bit_length() > 64:
            raise TooLarge("binomial too large")
        return Fraction(math.comb(n, k))
    raise Inexact


def _factorial(value: Fraction, step: int) -> Fraction:
    if value.denominator != 1:
        raise Inexact
    if value < 0:
        raise Undefined("factorial of a negative number")
    if value > MAX_FACTORIAL:
        raise TooLarge("factorial too large")
    if step == 1:
        return Fraction(math.factorial(value.numerator))
    return Fraction(math.prod(range(value.numerator, 0, -2)))


def _series(node: Node, env: Env) -> Fraction:
    variable, low, high, term = node.args
    first, last = exact(low, env), exact(high, env)
    if first.denominator != 1 or last.denominator != 1 or last - first > 300:
        raise Inexact
    total = Fraction(0 if node.label == "sum" else 1)
    for index in range(int(first), int(last) + 1):
        value = exact(term, env | {variable.label: Fraction(index)})
        total = total + value if node.label == "sum" else total * value
        _bounded(total)
    return total
