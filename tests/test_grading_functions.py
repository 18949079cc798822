"""Numbers as balls in the grader: functions and their slopes, radii, values, and what has none."""

import math
from fractions import Fraction

import pytest

from stapo_bench.grading.evaluate import (
    TooLarge,
    Undefined,
    Unresolved,
    compare_reals,
    context,
    evaluate,
    refill,
    same_constant,
    significant_digits,
    value,
)
from stapo_bench.grading.evaluate.analytic import FUNCTIONS
from stapo_bench.grading.read import parse
from stapo_bench.grading.tree import Refusal, call, num, power, sym

LN2, PI = math.log(2), math.pi


@pytest.fixture(autouse=True)
def _full_budget():
    refill()


# f(x) and how large |f'| may be taken to be; 1 + f^2 bounds |f'| of the quotients, so that no slope is zero.
@pytest.mark.parametrize(
    ("name", "x", "value_there", "slope_there"),
    [
        ("sqrt", 4, 2, 1 / 4),
        ("exp", math.log(3), 3, 3),
        ("ln", 2, LN2, 1 / 2),
        ("sin", PI / 6, 1 / 2, 1),
        ("sin", 1j * LN2, 0.75j, 5 / 4),  # sin iy = i sinh y, and |cos| is at most cosh y
        ("cos", PI / 3, 1 / 2, 1),
        ("cos", 1j * LN2, 5 / 4, 5 / 4),
        ("tan", PI / 4, 1, 2),
        ("tan", PI / 3, math.sqrt(3), 4),
        ("cot", PI / 6, math.sqrt(3), 4),
        ("sec", PI / 3, 2, 5),
        ("csc", PI / 6, 2, 5),
        ("sinh", LN2, 3 / 4, 9 / 4),
        ("cosh", LN2, 5 / 4, 7 / 4),
        ("tanh", LN2, 3 / 5, 34 / 25),
        ("coth", LN2, 5 / 3, 34 / 9),
        ("sech", LN2, 4 / 5, 41 / 25),
        ("csch", LN2, 4 / 3, 25 / 9),
        ("arcsin", 0.6, math.asin(0.6), 5 / 4),
        ("arccos", 0.6, math.acos(0.6), 5 / 4),
        ("arctan", 2, math.atan(2), 1 / 5),
        ("arccot", 2, math.atan(1 / 2), 1 / 5),
        ("arcsec", 5 / 4, math.acos(0.8), 16 / 15),
        ("arccsc", 5 / 4, math.asin(0.8), 16 / 15),
        ("arcsinh", 3 / 4, LN2, 4 / 5),
        ("arccosh", 5 / 4, LN2, 4 / 3),
        ("arctanh", 3 / 5, LN2, 25 / 16),
        ("abs", -3, 3, 1),
        ("Re", 3 + 4j, 3, 1),
        ("Im", 3 + 4j, 4, 1),
        ("conj", 3 + 4j, 3 - 4j, 1),
        ("cis", PI / 3, 1 / 2 + 1j * math.sqrt(3) / 2, 1),
        ("cis", 1j * LN2, 1 / 2, 2),
        ("cbrt", 8, 2, 1 / 12),
        ("cbrt", -8, -2, 1 / 12),  # the real one
        ("Arg", -2, PI, 1 / 2),
    ],
)
def test_each_function_and_its_slope_by_hand(name, x, value_there, slope_there):
    function, slope = FUNCTIONS[name]
    ctx = context(53)
    at = ctx.mpmathify(x)
    assert complex(function(ctx, at)) == pytest.approx(value_there, rel=1e-12, abs=1e-12)
    assert complex(slope(ctx, at)) == pytest.approx(slope_there, rel=1e-12)


def test_every_function_stands_in_the_table_above():
    (table,) = (mark for mark in test_each_function_and_its_slope_by_hand.pytestmark if mark.name == "parametrize")
    assert {row[0] for row in table.args[1]} == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "signal", "why"),
    [
        ("x", Refusal, "no value for x"),
        (r"\sqrt[1001]{2}", Refusal, "root of that degree"),
        (r"\lfloor i \rfloor", Refusal, "floor of a complex number"),
        (r"\ln 0", Undefined, "ln of zero"),
        (r"\cot 0", Undefined, "cot of zero"),
        (r"0^{-\pi}", Undefined, "division by zero"),
        (r"\tan \frac{\pi}{2}", Refusal, "tan has a pole"),
        (r"\sec \frac{\pi}{2}", Refusal, "sec has a pole"),
        (r"\sin 10^{700}", TooLarge, "angle too large"),
        ("e^{2^{20000}}", TooLarge, "number too large"),
        (r"(\pi+10^{13})!", TooLarge, "factorial too large"),
        (r"\max(i, 2)", Refusal, "cannot evaluate max"),
        ("(1, 2)", Refusal, "tuple has no numeric value"),
        (r"3 \text{ cm}", Refusal, "quantity has no numeric value"),
    ],
)
def test_what_has_no_value_says_why(text, signal, why):
    with pytest.raises(signal, match=why):
        evaluate(parse(text), {}, context(90))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (r"\sqrt[1000]{\pi}", PI ** (1 / 1000)),
        (r"\sqrt[3]{-\pi}", -(PI ** (1 / 3))),
        (r"\sqrt[3]{0 \cdot \pi}", 0),
        (r"\sqrt{0 \cdot \pi}", 0),
        (r"0^{\pi}", 0),
        (r"\pi^{0 \cdot e}", 1),
        (r"\pi^{63}", PI**63),
        (r"\pi^{64}", PI**64),
        (r"\pi^{-3}", PI**-3),
        (r"\pi^{e}", PI**math.e),
        (r"(-\pi)^{3}", -(PI**3)),
        (r"\max(\pi, e)", PI),
        (r"\min(\pi, e)", math.e),
        (r"\lfloor \pi^2 \rfloor", 9),
        (r"\lceil \pi^2 \rceil", 10),
        (r"\lfloor 3 \pi / \pi \rfloor", 3),
        (r"180 \cdot \pi^\circ", PI * PI),
        (r"\arctan(10^{9})", math.atan(1e9)),
        (r"(\frac{1}{2})!", math.sqrt(PI) / 2),
        (r"\binom{1/2}{2}", -1 / 8),
    ],
)
def test_values_by_hand_lie_in_a_narrow_ball(text, number):
    ball = evaluate(parse(text), {}, context(90))
    assert complex(ball.mid) == pytest.approx(number, rel=1e-12, abs=1e-12)
    assert ball.rad <= 1e-20 * (1 + abs(number))
    assert complex(value(parse(text)).mid) == pytest.approx(number, rel=1e-12, abs=1e-12)


def test_at_the_end_of_its_domain_an_arc_has_the_ball_of_a_square_root():
    ball = evaluate(parse(r"\arcsin(\sin^2 1 + \cos^2 1)"), {}, context(90))
    assert abs(complex(ball.mid) - PI / 2) < 1e-12
    assert 1e-14 < ball.rad < 1e-11  # 4 sqrt(radius of the argument), some 2^-88


def test_what_more_bits_may_tell_is_not_resolved():
    nearly = parse(r"\sqrt{2} \cdot \sqrt{3} - \sqrt{6}")
    for node in (power(nearly, num(-1)), call("ln", nearly), call("sqrt", nearly), power(nearly, sym("pi"))):
        with pytest.raises(Unresolved):
            evaluate(node, {}, context(90))
    with pytest.raises(Refusal, match="value not resolved"):
        value(call("ln", nearly))
    # 10^-100 is lost at 90 bits, and found at 720
    tiny = parse(r"\ln(\sqrt{2} \cdot \sqrt{3} - \sqrt{6} + 10^{-100})")
    assert float(value(tiny).mid.real) == pytest.approx(-100 * math.log(10))


def test_large_numbers_that_hardly_differ_are_told_apart():
    assert not same_constant(parse(r"\sqrt{10^{60}+1}"), parse("10^{30}"), {})
    assert not same_constant(parse("e^{1000}"), parse("e^{1000}+1"), {})
    assert not same_constant(parse(r"1-e^{-1000}"), num(1), {})
    assert not same_constant(parse(r"\tanh 1000"), num(1), {})
    assert not same_constant(parse("2^{82589933}-1"), parse("2^{82589933}-3"), {})
    assert same_constant(parse("2^{82589934}-2"), parse(r"2 (2^{82589933}-1)"), {})
    assert same_constant(parse(r"(\sqrt{2}+\sqrt{3})^2"), parse(r"5+2\sqrt{6}"), {})
    with pytest.raises(TooLarge):
        same_constant(parse(r"e^{100000}-e^{100000}"), parse("0"), {})


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        ("2", "3", -1),
        ("3", "2", 1),
        (r"\pi", r"\frac{22}{7}", -1),
        ("e", r"\pi - 1", 1),
        (r"\sqrt{8}", r"2\sqrt{2}", 0),
        (r"\infty", "5", 1),
        (r"-\infty", "5", -1),
        ("5", r"-\infty", 1),
        (r"\infty", r"\infty", 0),
    ],
)
def test_order_of_reals(left, right, order):
    assert compare_reals(parse(left), parse(right)) == order


def test_a_sign_of_a_constant():
    assert evaluate(call("sgn", parse(r"e-\pi")), {}, context(90)).mid == -1
    with pytest.raises(Refusal, match="cannot evaluate sgn"):
        evaluate(call("sgn", parse(r"\pi-\pi")), {}, context(90))


def test_complex_numbers_have_no_order():
    with pytest.raises(Refusal, match="not real"):
        compare_reals(parse(r"i\sqrt{2}"), parse("1"))


def test_digits_of_numbers_far_apart():
    assert significant_digits(num(10**200), Fraction(1, 10**99)) == 300
    assert significant_digits(num(10**200), Fraction(1, 10**150)) == 300  # 350, of which 300 are told
    assert significant_digits(num(Fraction(1, 1000)), Fraction(1)) == 0


ROOT2, ROOT3 = math.sqrt(2), math.sqrt(3)


# Radii by hand, in units of eps: a fraction has |x| eps, pi and e four; then first-order propagation.
@pytest.mark.parametrize(
    ("text", "radius"),
    [
        ("3", 3),
        ("1+2", 1 + 2 + 3),
        (r"2 \cdot 3", 2 * 3 + 3 * 2 + 6),
        (r"\pi", 4),
        ("e", 4),
        ("i", 0),
        (r"\pi^2", PI**2 * (2 * 4 / PI * 2 + 4)),
        (r"\pi^{-2}", PI**-2 * (2 * 4 / PI * 2 + 4)),
        (r"2^{100}", 2**100 * (2 * (100 * 2 / 2 + LN2 * 100) + 4 + 100 * LN2)),
        (r"\pi^{e}", PI**math.e * (2 * (math.e * 4 / PI + math.log(PI) * 4) + 4 + math.e * math.log(PI))),
        (r"\sqrt{2}", 2 * 2 / (2 * ROOT2) + 8 * ROOT2),
        (r"\sqrt[3]{2}", 2 ** (1 / 3) * (2 / 2 + 8)),
        (r"\sin 1", 2 + 8 * math.sin(1)),
        (r"\arcsin 0.5", 2 * (2 / ROOT3) / 2 + 8 * PI / 6),
        (r"180^\circ", 180 * 1 + PI / 180 * 180 + PI),
        (r"\sum_{k=1}^{3} k", (0 + 1 + 0) + (2 + 1) + (3 + 3)),
        (r"\prod_{k=1}^{3} k", 36),  # 2, then 2 + 4 + 2 = 8, then 2 * 3 + 3 * 8 + 6
        (r"\lfloor \pi \rfloor", 0),
        (r"\max(\pi, 2)", 4),
    ],
)
def test_radii_by_hand(text, radius):
    ctx = context(120)
    ball = evaluate(parse(text), {}, ctx)
    assert float(ball.rad / ctx.eps) == pytest.approx(radius, rel=1e-9)


def test_the_radius_of_a_factorial_by_hand():
    ctx = context(120)
    # 4 (1/2) (2 + ln(1/2 + 3)) + 2^12, of a value of sqrt(pi) / 2
    ball = evaluate(call("factorial", num(Fraction(1, 2))), {}, ctx)
    assert float(ball.rad / ctx.eps) == pytest.approx((2 * (2 + math.log(3.5)) + 4096) * math.sqrt(PI) / 2)
    # the radii of 1/2 and 2 count, each by its logarithm; |binom| is 1/8
    ball = evaluate(call("binom", num(Fraction(1, 2)), num(2)), {}, ctx)
    spread = (2 + math.log(3.5)) / 2 + 2 * (2 + math.log(5))
    assert float(ball.rad / ctx.eps) == pytest.approx((4 * spread + 4096) / 8)
