"""Analytic functions and, for the radius of a ball, how large their derivatives are."""

from collections.abc import Callable
from typing import Any


def real_root(ctx: Any, x: Any, degree: int) -> Any:
    """The root of that degree; real, and negative, for odd roots of negative numbers."""
    if ctx.im(x) == 0 and ctx.re(x) < 0 and degree % 2:
        return -ctx.root(-ctx.re(x), degree)
    return ctx.root(x, degree)


# Name to the function of an mpmath context and x, and the size of its derivative there.
FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "sqrt": (lambda c, x: c.sqrt(x), lambda c, x: 1 / (2 * abs(c.sqrt(x)))),
    "exp": (lambda c, x: c.exp(x), lambda c, x: abs(c.exp(x))),
    "ln": (lambda c, x: c.ln(x), lambda c, x: 1 / abs(x)),
    "sin": (lambda c, x: c.sin(x), lambda c, x: c.cosh(c.im(x))),
    "cos": (lambda c, x: c.cos(x), lambda c, x: c.cosh(c.im(x))),
    "tan": (lambda c, x: c.tan(x), lambda c, x: 1 + abs(c.tan(x)) ** 2),
    "cot": (lambda c, x: 1 / c.tan(x), lambda c, x: 1 + abs(1 / c.tan(x)) ** 2),
    "sec": (lambda c, x: 1 / c.cos(x), lambda c, x: 1 + abs(1 / c.cos(x)) ** 2),
    "csc": (lambda c, x: 1 / c.sin(x), lambda c, x: 1 + abs(1 / c.sin(x)) ** 2),
    "sinh": (lambda c, x: c.sinh(x), lambda c, x: abs(c.cosh(x)) + 1),
    "cosh": (lambda c, x: c.cosh(x), lambda c, x: abs(c.sinh(x)) + 1),
    "tanh": (lambda c, x: c.tanh(x), lambda c, x: 1 + abs(c.tanh(x)) ** 2),
    "coth": (lambda c, x: 1 / c.tanh(x), lambda c, x: 1 + abs(1 / c.tanh(x)) ** 2),
    "sech": (lambda c, x: 1 / c.cosh(x), lambda c, x: 1 + abs(1 / c.cosh(x)) ** 2),
    "csch": (lambda c, x: 1 / c.sinh(x), lambda c, x: 1 + abs(1 / c.sinh(x)) ** 2),
    "arcsin": (lambda c, x: c.asin(x), lambda c, x: 1 / abs(c.sqrt(1 - x * x))),
    "arccos": (lambda c, x: c.acos(x), lambda c, x: 1 / abs(c.sqrt(1 - x * x))),
    "arctan": (lambda c, x: c.atan(x), lambda c, x: 1 / abs(1 + x * x)),
    "arccot": (lambda c, x: c.pi / 2 - c.atan(x), lambda c, x: 1 / abs(1 + x * x)),
    "arcsec": (lambda c, x: c.acos(1 / x), lambda c, x: 1 / abs(x * c.sqrt(x * x - 1))),
    "arccsc": (lambda c, x: c.asin(1 / x), lambda c, x: 1 / abs(x * c.sqrt(x * x - 1))),
    "arcsinh": (lambda c, x: c.asinh(x), lambda c, x: 1 / abs(c.sqrt(1 + x * x))),
    "arccosh": (lambda c, x: c.acosh(x), lambda c, x: 1 / abs(c.sqrt(x * x - 1))),
    "arctanh": (lambda c, x: c.atanh(x), lambda c, x: 1 / abs(1 - x * x)),
    "abs": (lambda c, x: abs(x), lambda c, x: 1),
    "Re": (lambda c, x: c.re(x), lambda c, x: 1),
    "Im": (lambda c, x: c.im(x), lambda c, x: 1),
    "conj": (lambda c, x: c.conj(x), lambda c, x: 1),
    "cis": (lambda c, x: c.expj(x), lambda c, x: c.exp(abs(c.im(x)))),
    "cbrt": (lambda c, x: real_root(c, x, 3), lambda c, x: 1 / (3 * abs(c.cbrt(x)) ** 2)),
    "Arg": (lambda c, x: c.arg(x), lambda c, x: 1 / abs(x)),
}  # fmt: skip
PERIODIC = frozenset(["sin", "cos", "tan", "cot", "sec", "csc", "cis"])
