"""Our balls beside Arb's, the library of rigorous ball arithmetic: every value lies in the ball that claims it.

Skipped without python-flint; ``scripts/integration.sh adapters`` runs it.
"""

import random

import mpmath
import pytest

from stapo_bench.grading.evaluate import Unresolved, context, evaluate, refill
from stapo_bench.grading.read import parse

flint = pytest.importorskip("flint", reason="python-flint is not installed: pip install python-flint")


SHARP = 4000  # bits, far beyond every precision that is checked


def square(x):
    return x * x  # a power of a ball around 0 goes through its logarithm


def expression(draw, depth):
    """A random closed expression: its LaTeX, and the same with Arb's functions. All values are real."""
    if depth == 0:
        whole, other = draw.randint(1, 999), draw.randint(1, 99)
        return draw.choice(
            [
                (str(whole), lambda: flint.arb(whole)),
                (rf"\frac{{{whole}}}{{{other}}}", lambda: flint.arb(whole) / other),
                (r"\pi", flint.arb.pi),
                ("e", lambda: flint.arb(1).exp()),
            ]
        )
    (left, a), (right, b) = expression(draw, depth - 1), expression(draw, draw.randrange(depth))
    return draw.choice(
        [
            (f"({left}) + ({right})", lambda: a() + b()),
            (f"({left}) - ({right})", lambda: a() - b()),
            (rf"({left}) \cdot ({right})", lambda: a() * b()),
            (rf"\frac{{{left}}}{{2 + ({right})^2}}", lambda: a() / (2 + square(b()))),
            (rf"\sqrt{{({left})^2 + 1}}", lambda: (square(a()) + 1).sqrt()),  # noqa: PLW0108  # its precision is set later
            (rf"\sin({left})", lambda: a().sin()),
            (rf"\cos({left})", lambda: a().cos()),
            (rf"\arctan({left})", lambda: a().atan()),
            (rf"\ln(({left})^2 + 2)", lambda: (square(a()) + 2).log()),  # noqa: PLW0108
            (rf"e^{{\sin({left})}}", lambda: a().sin().exp()),
            (f"({left})^3", lambda: a() * square(a())),
        ]
    )


@pytest.mark.parametrize("seed", range(60))
def test_every_value_lies_in_the_ball_that_claims_it(seed):
    text, by_arb = expression(random.Random(seed), 4)
    flint.ctx.prec = SHARP
    exact = by_arb()
    assert exact.rad() < flint.arb(2) ** -1000, text
    node = parse(text)
    for bits in (60, 200, 800):
        refill()
        ctx = context(bits)
        try:
            ball = evaluate(node, {}, ctx)
        except Unresolved:
            continue
        sharp = mpmath.MPContext()
        sharp.prec = SHARP
        distance = abs(sharp.mpf(ball.mid) - sharp.mpf(exact.mid().str(1100, radius=False)))
        assert distance <= 1.01 * sharp.mpf(ball.rad), (text, bits)  # to first order, as the ball says
        assert bits < 800 or sharp.mpf(ball.rad) < 1e-100, text  # and it says something


def test_a_ball_that_is_too_small_would_be_seen():
    """The check itself: pi to 60 bits is not within 2^-70 of pi."""
    flint.ctx.prec = SHARP
    sharp = mpmath.MPContext()
    sharp.prec = SHARP
    rounded = sharp.mpf(context(60).pi + 0)
    assert abs(rounded - sharp.mpf(flint.arb.pi().mid().str(1100, radius=False))) > sharp.mpf(2) ** -70
