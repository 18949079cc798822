"""Exact numbers of the grader, by hand: values, what has none, bounds, residues and steps."""

import math
from fractions import Fraction

import pytest

from stapo_bench.grading.evaluate import (
    Inexact,
    TooLarge,
    Undefined,
    context,
    evaluate,
    exact,
    refill,
    same_constant,
    spend,
)
from stapo_bench.grading.evaluate.budget import MAX_STEPS
from stapo_bench.grading.evaluate.constants import _digits
from stapo_bench.grading.evaluate.rationals import residue
from stapo_bench.grading.read import parse
from stapo_bench.grading.tree import Kind, Node, Refusal, call, num, power, sym


@pytest.fixture(autouse=True)
def _full_budget():
    refill()


X, N = sym("x"), sym("n")


def series(kind, first, last, term):
    return call(kind, N, num(first), num(last), term)


@pytest.mark.parametrize(
    ("node", "number"),
    [
        (call("sqrt", num(Fraction(9, 4))), Fraction(3, 2)),
        (call("cbrt", num(-27)), -3),
        (call("root", num(1024), num(10)), 2),
        (call("root", num(2**64), num(64)), 2),
        (power(num(Fraction(4, 9)), num(Fraction(-3, 2))), Fraction(27, 8)),
        (power(num(7), num(Fraction(0))), 1),
        (power(num(0), num(0)), 1),
        (power(num(0), num(5)), 0),
        (power(num(-1), num(10**40 + 1)), -1),
        (power(num(-1), num(10**40)), 1),
        (power(num(-1), num(-1)), -1),
        (call("abs", num(Fraction(-7, 2))), Fraction(7, 2)),
        (call("floor", num(Fraction(-7, 2))), -4),
        (call("ceil", num(Fraction(-7, 2))), -3),
        (call("sgn", num(-5)), -1),
        (call("sgn", num(0)), 0),
        (call("sgn", num(Fraction(1, 9))), 1),
        (call("max", num(3), num(7), num(5)), 7),
        (call("min", num(3), num(7), num(5)), 3),
        (call("gcd", num(84), num(36), num(60)), 12),
        (call("lcm", num(4), num(6), num(10)), 60),
        (call("bmod", num(-7), num(4)), 1),
        (call("factorial", num(0)), 1),
        (call("factorial", num(6)), 720),
        (call("factorial2", num(7)), 7 * 5 * 3),
        (call("factorial2", num(8)), 8 * 6 * 4 * 2),
        (call("factorial2", num(0)), 1),
        (call("binom", num(9), num(3)), 84),
        (call("binom", num(3), num(9)), 0),
        (call("binom", num(0), num(0)), 1),
        (call("binom", num(10**9), num(2)), 10**9 * (10**9 - 1) // 2),
        (series("sum", 1, 4, power(N, num(2))), 30),
        (series("prod", 1, 4, N), 24),
        (series("sum", 5, 4, N), 0),
        (series("prod", 5, 4, N), 1),
    ],
)
def test_exact_values_by_hand(node, number):
    assert exact(node, {}) == number


@pytest.mark.parametrize(
    ("node", "signal"),
    [
        (call("sqrt", num(2)), Inexact),
        (call("sqrt", num(-4)), Inexact),
        (call("cbrt", num(9)), Inexact),
        (call("root", num(8)), Inexact),
        (call("root", num(8), num(Fraction(3, 2))), Inexact),
        (call("root", num(8), num(1)), Inexact),
        (call("root", num(2**65), num(65)), Inexact),
        (power(num(-4), num(Fraction(1, 2))), Inexact),
        (power(num(2**65), num(Fraction(1, 65))), Inexact),
        (power(num(0), num(-1)), Undefined),
        (power(num(3), num(2**32)), TooLarge),
        (call("bmod", num(7), num(0)), Inexact),
        (call("gcd", num(Fraction(1, 2)), num(3)), Inexact),
        (call("lcm", num(Fraction(1, 2)), num(3)), Inexact),
        (call("binom", num(5)), Inexact),
        (call("binom", num(-5), num(2)), Inexact),
        (call("binom", num(5), num(-2)), Inexact),
        (call("binom", num(Fraction(1, 2)), num(2)), Inexact),
        (call("factorial", num(Fraction(1, 2))), Inexact),
        (call("factorial", num(-1)), Undefined),
        (call("factorial2", num(-1)), Undefined),
        (series("sum", 1, Fraction(5, 2), N), Inexact),
        (series("sum", Fraction(1, 2), 3, N), Inexact),
        (call("sin", num(1)), Inexact),
        (X, Inexact),
        (Node(Kind.TUPLE, (num(1), num(2)), "()"), Inexact),
    ],
)
def test_what_arithmetic_alone_cannot_say(node, signal):
    with pytest.raises(signal):
        exact(node, {})


# The largest that is computed, and the next one, which is refused before anything is computed.
@pytest.mark.parametrize(
    ("largest", "beyond"),
    [
        (power(num(2), num(30_000)), power(num(2), num(30_001))),  # two bits, so many times, up to 60,000
        (power(num(2), num(-30_000)), power(num(2), num(-30_001))),
        (call("factorial", num(5_000)), call("factorial", num(5_001))),
        (call("factorial2", num(5_000)), call("factorial2", num(5_001))),
        (call("binom", num(4_000), num(2_000)), call("binom", num(4_002), num(2_001))),
        (call("binom", num(2**64 - 1), num(2)), call("binom", num(2**64), num(2))),
        (call("lcm", num(2**59_990), num(3)), call("lcm", num(2**60_000), num(3))),
    ],
)
def test_bounds_of_exact_numbers(largest, beyond):
    assert exact(largest, {}) != 0
    with pytest.raises(TooLarge):
        exact(beyond, {})


def test_sums_and_products_are_bounded_at_every_step():
    big = num(2**40_000)
    assert exact(Node(Kind.SUM, (big, num(1))), {}) == 2**40_000 + 1
    with pytest.raises(TooLarge):
        exact(Node(Kind.PRODUCT, (big, big)), {})
    with pytest.raises(TooLarge):  # a fraction's parts count together
        exact(Node(Kind.SUM, (num(2**30_000), num(Fraction(1, 2**30_000)))), {})
    with pytest.raises(TooLarge):
        exact(series("prod", 1, 300, num(2**300)), {})


def test_a_series_has_at_most_301_terms_exactly_and_201_in_balls():
    assert exact(series("sum", 0, 300, num(1)), {}) == 301
    with pytest.raises(Inexact):
        exact(series("sum", 0, 301, num(1)), {})
    ctx = context(90)
    assert evaluate(series("sum", 0, 200, num(1)), {}, ctx).mid == 201
    assert evaluate(series("prod", 1, 5, N), {}, ctx).mid == 120
    with pytest.raises(Refusal, match="sum too long"):
        evaluate(series("sum", 0, 201, num(1)), {}, ctx)
    with pytest.raises(Refusal, match="sum too long"):
        evaluate(call("sum", N, X, num(3), num(1)), {}, ctx)


def test_residues_of_what_is_too_large_to_write_down():
    # 2^82589933 - 1 mod 7: 2^3 = 1 and 82589933 = 3 * 27529977 + 2, so 4 - 1 = 3
    assert residue(parse("2^{82589933}-1"), {}, 7) == 3
    assert residue(power(num(3), num(0)), {}, 7) == 1
    assert residue(power(num(7), num(2)), {}, 7) == 0
    assert residue(power(num(3), num(-1)), {}, 7) == 5  # 3 * 5 = 15 = 1
    assert residue(num(Fraction(1, 2)), {}, 7) == 4
    assert residue(Node(Kind.PRODUCT, (num(3), num(5))), {}, 7) == 1
    assert residue(call("factorial", num(5)), {}, 7) == 1  # 120 = 17 * 7 + 1
    assert residue(call("factorial", num(50_000)), {}, 10**9 + 7) == math.factorial(50_000) % (10**9 + 7)
    with pytest.raises(TooLarge):
        residue(call("factorial", num(50_001)), {}, 7)
    for none in (power(num(7), num(-1)), power(num(7), num(0)), num(Fraction(1, 7))):
        with pytest.raises(Inexact):
            residue(none, {}, 7)


def test_the_budget_is_so_many_steps():
    spend(MAX_STEPS)
    with pytest.raises(TooLarge, match="out of steps"):
        spend()
    refill()
    spend(MAX_STEPS)


def test_digits_are_three_bits_each_above_and_below():
    assert _digits(num(Fraction(7, 1000))) == (3 + 10) // 3
    assert _digits(Node(Kind.SUM, (num(Fraction(1, 8)), num(5)))) == (1 + 4) // 3 + (3 + 1) // 3


def test_steps_of_a_factorial_modulo_a_prime():
    # The call, its argument, and 50,000 factors, twenty of which cost a step.
    steps = 2 + 2500
    spend(MAX_STEPS - steps)
    assert residue(call("factorial", num(50_000)), {}, 7) == 0
    with pytest.raises(TooLarge):
        spend()


def test_steps_of_a_comparison_at_high_precision():
    q = 2**3000 + 1
    left, right = call("sqrt", num(4 * q)), Node(Kind.PRODUCT, (num(2), call("sqrt", num(q))))
    # Digits, by three bits each: (3003 + 1) // 3 = 1001, and 1 + 1000. Bits: 400 + 8 * 1001 + 8 * 1001 = 16416.
    # exact: a call and a number, then no root. Six nodes at 90 bits, and at 16416, where each costs 1 + 32.
    # Two functions at 16 thousand bits: 16^2 * 2.
    steps = 2 + 6 + 6 * 33 + 16**2 * 2
    spend(MAX_STEPS - steps)
    assert same_constant(left, right, {})
    with pytest.raises(TooLarge):
        spend()
