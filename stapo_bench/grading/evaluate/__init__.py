"""Tree to number: the values of expressions, exact where that can be, within a budget of steps."""

from stapo_bench.grading.evaluate.balls import Ball, Unresolved, context, evaluate
from stapo_bench.grading.evaluate.budget import TooLarge, refill, spend
from stapo_bench.grading.evaluate.constants import (
    compare_reals,
    is_infinite,
    is_real,
    same_constant,
    significant_digits,
    value,
    within,
)
from stapo_bench.grading.evaluate.rationals import Env, Inexact, Undefined, exact
