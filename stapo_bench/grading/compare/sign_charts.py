r"""Inequalities of any degree and of quotients, by their sign chart: where ``p(x) / q(x)`` is below, above or at zero.

Exact: the roots of p and q are rational, or those of the one quadratic that is left of each; what has others is
refused. From the right the sign is that of the leading coefficients, and it turns at each root of odd multiplicity.
"""

from collections import defaultdict
from fractions import Fraction
from functools import cmp_to_key
from itertools import pairwise
from math import gcd, lcm

from stapo_bench.grading.compare.pieces import INFINITY, MINUS_INFINITY, Piece, Region
from stapo_bench.grading.evaluate import compare_reals, spend
from stapo_bench.grading.tree import Kind, Node, Refusal, add, call, divide, negate, num

MAX_DEGREE = 8
MAX_COEFFICIENT = 10**6  # of the ends of a polynomial with whole coefficients whose rational roots are looked for
Polynomial = tuple[Fraction, ...]  # coefficients from the constant up, the last not 0; () is zero
_ONE: Polynomial = (Fraction(1),)


def where_quotient(sign: str, node: Node, name: str) -> Region:
    """Where a quotient of polynomials in one variable is below, above or at zero, as pieces in order."""
    top, bottom = _fraction(node, name)
    if not top or len(top) + len(bottom) < 3:
        raise Refusal("no variable")
    zeros, poles = _roots(top), _roots(bottom)
    ends = sorted({*zeros, *poles}, key=cmp_to_key(compare_reals))
    if any(compare_reals(a, b) == 0 for a, b in pairwise(ends)):
        raise Refusal("a root written in two ways")
    positive = (top[-1] > 0) == (bottom[-1] > 0)
    wanted, at_zero = sign.startswith(">"), sign.endswith("=")
    found: Region = []
    high = INFINITY
    for end in reversed(ends):
        if sign != "=" and (positive == wanted or sign == "!="):
            found.append(Piece(end, high, False, False))
        if end not in poles and at_zero and sign != "!=":
            found.append(Piece(end, end, True, True))
        positive ^= (zeros.get(end, 0) + poles.get(end, 0)) % 2 == 1
        high = end
    if sign != "=" and (positive == wanted or sign == "!="):
        found.append(Piece(MINUS_INFINITY, high, False, False))
    return found[::-1]


def _fraction(node: Node, name: str) -> tuple[Polynomial, Polynomial]:
    """Numerator and denominator of a tree, not reduced."""
    spend()
    top: Polynomial = _ONE
    bottom: Polynomial = _ONE
    if node.kind is Kind.NUMBER and node.value is not None:
        return _trimmed([node.value]), _ONE
    if node.kind is Kind.SYMBOL and node.label == name:
        return (Fraction(0), Fraction(1)), _ONE
    if node.kind is Kind.SUM:
        top = ()
        for arg in node.args:
            p, q = _fraction(arg, name)
            top, bottom = _plus(_times(top, q), _times(p, bottom)), _times(bottom, q)
        return top, bottom
    if node.kind is Kind.PRODUCT:
        for arg in node.args:
            p, q = _fraction(arg, name)
            top, bottom = _times(top, p), _times(bottom, q)
        return top, bottom
    if node.kind is Kind.POWER and (exponent := node.args[1].value) is not None and exponent.denominator == 1:
        p, q = _fraction(node.args[0], name)
        if exponent < 0:
            p, q = q, p
        if not q or abs(exponent) > MAX_DEGREE:
            raise Refusal("no quotient of polynomials")
        for _ in range(abs(int(exponent))):
            top, bottom = _times(top, p), _times(bottom, q)
        return top, bottom
    raise Refusal("no quotient of polynomials")


def _plus(a: Polynomial, b: Polynomial) -> Polynomial:
    longer, shorter = sorted((a, b), key=len, reverse=True)
    return _trimmed([x + (shorter[i] if i < len(shorter) else 0) for i, x in enumerate(longer)])


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    if len(a) + len(b) > MAX_DEGREE + 2:
        raise Refusal("degree too high")
    product = [Fraction(0)] * max(0, len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return _trimmed(product)


def _trimmed(coefficients: list[Fraction]) -> Polynomial:
    """The coefficients without zeros at the end."""
    while coefficients and not coefficients[-1]:
        coefficients.pop()
    return tuple(coefficients)


def _roots(polynomial: Polynomial) -> dict[Node, int]:
    """The real roots with their multiplicities."""
    found: dict[Fraction, int] = defaultdict(int)
    rest = polynomial
    for candidate in _candidates(polynomial):
        while len(rest) > 1 and not _at(rest, candidate):
            found[candidate] += 1
            rest = _divided(rest, candidate)
    roots = {num(root): count for root, count in found.items()}
    if len(rest) > 3:
        raise Refusal("roots that are neither rational nor of one quadratic")
    if len(rest) == 3 and (under := rest[1] ** 2 - 4 * rest[0] * rest[2]) > 0:
        reach = divide(call("sqrt", num(under)), num(2 * abs(rest[2])))
        middle = num(-rest[1] / (2 * rest[2]))
        roots |= {add(middle, negate(reach)): 1, add(middle, reach): 1}
    return roots


def _candidates(polynomial: Polynomial) -> list[Fraction]:
    """The rationals that may be roots: divisors of the first whole coefficient over divisors of the last; and 0."""
    scale = lcm(*(c.denominator for c in polynomial))
    whole = [int(c * scale) for c in polynomial]
    common = gcd(*whole)
    first, last = next(abs(c) // common for c in whole if c), abs(whole[-1]) // common
    if max(first, last) > MAX_COEFFICIENT:
        raise Refusal("coefficients too large")
    found = {Fraction(p, q) for p in _divisors(first) for q in _divisors(last)}
    spend(len(found))
    return [Fraction(0), *sorted(found | {-root for root in found})]


def _divisors(number: int) -> list[int]:
    """The divisors of a positive whole number."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return small + [number // d for d in small]


def _at(polynomial: Polynomial, point: Fraction) -> Fraction:
    """The value at a point."""
    value = Fraction(0)
    for coefficient in reversed(polynomial):
        value = value * point + coefficient
    return value


def _divided(polynomial: Polynomial, root: Fraction) -> Polynomial:
    """The polynomial divided by ``x - root``."""
    quotient: list[Fraction] = []
    carry = Fraction(0)
    for coefficient in reversed(polynomial[1:]):
        carry = carry * root + coefficient
        quotient.insert(0, carry)
    return tuple(quotient)
