"""Exact evaluation in the rationals; all other values are left to ``balls``.

Sizes are bounded before anything is computed: a power or factorial that would not fit raises ``TooLarge``.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from stapo_bench.grading.evaluate.budget import TooLarge, spend
from stapo_bench.grading.tree import Kind, Node, Refusal

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
    if node.value is not None:
        return node.value
    if node.kind not in _RULES:
        raise Inexact
    return _RULES[node.kind](node, env)


def residue(node: Node, env: Env, prime: int) -> int:
    """Value of the tree modulo a prime: what is left of numbers too large to write down, such as 2^82589933 - 1.

    >>> from stapo_bench.grading.tree import num, power
    >>> residue(power(num(2), num(10**30)), {}, 7)
    2
    """
    spend()
    if node.kind is Kind.SUM:
        return sum(residue(arg, env, prime) for arg in node.args) % prime
    if node.kind is Kind.PRODUCT:
        product = 1
        for arg in node.args:
            product = product * residue(arg, env, prime) % prime
        return product
    if node.kind is Kind.POWER and (exponent := exact(node.args[1], env)).denominator == 1:
        base = residue(node.args[0], env, prime)
        if not base and exponent <= 0:
            raise Inexact
        return pow(base, exponent.numerator % (prime - 1), prime) if base else 0
    if node.kind is Kind.CALL and node.label == "factorial":
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


def _symbol(node: Node, env: Env) -> Fraction:
    """The value given for a symbol."""
    given = env.get(node.label)
    if isinstance(given, Fraction):
        return given
    raise Inexact


def _sum(node: Node, env: Env) -> Fraction:
    """A sum, bounded at every step."""
    total = Fraction(0)
    for arg in node.args:
        total += exact(arg, env)
        _bounded(total)
    return total


def _product(node: Node, env: Env) -> Fraction:
    """A product, bounded at every step."""
    product = Fraction(1)
    for arg in node.args:
        product *= exact(arg, env)
        _bounded(product)
    return product


def _bounded(value: Fraction) -> None:
    """``TooLarge`` for a number of too many bits."""
    if value.numerator.bit_length() + value.denominator.bit_length() > MAX_BITS:
        raise TooLarge("number too large")


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    """A power with its size bounded beforehand."""
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
    """The exact root of a positive number; ``Inexact`` where there is none."""
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


def _call(node: Node, env: Env) -> Fraction:
    """The value of a function; ``Inexact`` for one that has no rational values."""
    if node.label in ("sum", "prod"):
        return _series(node, env)
    values = [exact(arg, env) for arg in node.args]
    if node.label not in _FUNCTIONS:
        raise Inexact
    return _FUNCTIONS[node.label](values)


def _nth_root(value: Fraction, degree: int) -> Fraction:
    """The real root; odd ones of negative numbers are negative."""
    if not 2 <= degree <= 64:
        raise Inexact
    if value >= 0:
        return _root(value, degree)
    if degree % 2:
        return -_root(-value, degree)
    raise Inexact


def _root_of_degree(values: list[Fraction]) -> Fraction:
    """``root(x, n)``."""
    if len(values) != 2:
        raise Inexact
    return _nth_root(values[0], _whole(values[1:])[0])


def _whole(values: list[Fraction]) -> list[int]:
    """The values as integers; ``Inexact`` where one is none."""
    if any(value.denominator != 1 for value in values):
        raise Inexact
    return [value.numerator for value in values]


def _lcm(values: list[Fraction]) -> Fraction:
    """Least common multiple, with its size bounded beforehand."""
    whole = _whole(values)
    _bounded(math.prod(values, start=Fraction(1)))
    return Fraction(math.lcm(*whole))


def _modulo(values: list[Fraction]) -> Fraction:
    """The remainder."""
    if not values[1]:
        raise Inexact
    return values[0] % values[1]


def _binomial(values: list[Fraction]) -> Fraction:
    """n over k, with its size bounded beforehand."""
    if len(values) != 2:
        raise Inexact
    n, k = _whole(values)
    if n < 0 or k < 0:
        raise Inexact
    if min(k, n - k) > 2_000 or n.bit_length() > 64:
        raise TooLarge("binomial too large")
    return Fraction(math.comb(n, k))


def _factorial(value: Fraction, step: int) -> Fraction:
    """n (n - step) (n - 2 step) ..."""
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
    """A sum or product over a range of integers."""
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


_FUNCTIONS: dict[str, Callable[[list[Fraction]], Fraction]] = {
    "sqrt": lambda values: _nth_root(values[0], 2),
    "cbrt": lambda values: _nth_root(values[0], 3),
    "root": _root_of_degree,
    "abs": lambda values: abs(values[0]),
    "floor": lambda values: Fraction(math.floor(values[0])),
    "ceil": lambda values: Fraction(math.ceil(values[0])),
    "sgn": lambda values: Fraction((values[0] > 0) - (values[0] < 0)),
    "max": max,
    "min": min,
    "gcd": lambda values: Fraction(math.gcd(*_whole(values))),
    "lcm": _lcm,
    "bmod": _modulo,
    "factorial": lambda values: _factorial(values[0], 1),
    "factorial2": lambda values: _factorial(values[0], 2),
    "binom": _binomial,
}
_RULES: dict[Kind, Callable[[Node, Env], Fraction]] = {
    Kind.SYMBOL: _symbol,
    Kind.SUM: _sum,
    Kind.PRODUCT: _product,
    Kind.POWER: lambda node, env: _power(exact(node.args[0], env), exact(node.args[1], env)),
    Kind.CALL: _call,
}
