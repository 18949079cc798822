"""The calculator: its values beside Python's own fractions, its errors, its bounds."""

import random
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stapo_bench.errors import UsageError
from stapo_bench.tasks import get_tool
from stapo_bench.tasks.calculator import DEEPEST, LONGEST, calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("100 - 7 - 3", "90"),  # from the left: (100 - 7) - 3
        ("100 / 5 / 2", "10"),
        ("7/3", "7/3"),
        ("6/4", "3/2"),
        ("0.1 + 0.2", "3/10"),  # exact, unlike floating point
        ("1/3 + 1/6", "1/2"),
        ("2^3^2", "512"),  # from the right: 2^(3^2)
        ("2**10", "1024"),
        ("-2^2", "-4"),  # the power first
        ("(-2)^2", "4"),
        ("2^-3", "1/8"),
        ("--5", "5"),
        ("3 * -4", "-12"),
        ("0^0", "1"),
        ("6 × 7 − 4 ÷ 2 · 3", "36"),
        ("  12\n+ 30 ", "42"),
        ("0007", "7"),
        ("99999999999999999999 + 1", "100000000000000000000"),
    ],
)
def test_values_by_hand(expression: str, value: str) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "expected a number or an opening parenthesis"),
        ("2 +", "expected a number or an opening parenthesis"),
        ("2 3", "expected an operator or the end"),
        ("2(3)", "expected an operator or the end"),
        ("x + 1", "expected a number or an opening parenthesis"),
        ("1,000 + 1", "expected an operator or the end"),
        ("1e9", "expected an operator or the end"),
        ("(1 + 2", "expected a closing parenthesis"),
        ("1 + 2)", "expected an operator or the end"),
        ("1.", "expected an operator or the end"),
        ("٣ + 1", "expected a number or an opening parenthesis"),  # a digit, but not one of ours
        ("__import__('os')", "expected a number or an opening parenthesis"),
        ("1 / (2 - 2)", "division by zero"),
        ("0^-1", "division by zero"),
        ("2^0.5", "expected a whole exponent from -200 to 200"),
        ("2^201", "expected a whole exponent from -200 to 200"),
        ("10^50", "a number is too large"),
        ("10^25 * 10^25", "a number is too large"),
        ("1 / 10^49 / 10", "a number is too large"),
        ("1" * 51, "a number is too large"),
        ("1" * (LONGEST + 1), "expected at most 200 characters"),
        ("-" * (DEEPEST + 1) + "1", "expected at most 30 parentheses and signs inside one another"),
        (
            "(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1),
            "expected at most 30 parentheses and signs inside one another",
        ),
    ],
)
def test_what_has_no_value_says_why(expression: str, reason: str) -> None:
    assert calculate(expression) == f"error: {reason}"


def test_the_bounds_themselves_are_inside() -> None:
    assert calculate("9" * 50) == "9" * 50
    assert calculate("(" * 30 + "1" + ")" * 30) == "1"
    assert calculate("1" + " " * (LONGEST - 1)) == "1"
    assert calculate("2^164") == str(2**164)  # 2^166 < 10^50 < 2^167


@given(st.integers(), st.integers(min_value=1, max_value=6))
def test_trees_have_the_value_that_fractions_give(seed: int, depth: int) -> None:
    text, value = written(random.Random(seed), depth)
    told = "error: division by zero" if value is None else str(value)
    assert calculate(text) == told or calculate(text).startswith(("error: expected at most", "error: a number is too"))


def written(rng: random.Random, depth: int) -> tuple[str, Fraction | None]:
    """An expression with all its parentheses, and its value; None: it divides by zero."""
    if not depth or rng.random() < 0.2:
        number = rng.randint(0, 12)
        return str(number), Fraction(number)
    (left, a), (right, b) = written(rng, depth - 1), written(rng, depth - 1)
    sign = rng.choice("+-*/")
    if a is None or b is None or (sign == "/" and b == 0):
        return f"({left} {sign} {right})", None
    values = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}
    return f"({left} {sign} {right})", values[sign]


@given(st.text(alphabet="0123456789.+-*/^() ×x<>\x00\udc80٣", max_size=60))
def test_any_text_has_a_short_answer(text: str) -> None:
    began = time.process_time()
    assert len(calculate(text)) <= 110  # a sign, two numbers of 50 digits and the bar; errors are shorter
    assert time.process_time() - began < 10  # a power that is written out takes minutes


def test_a_call_is_answered_by_its_last_mark() -> None:
    calculator = get_tool("calculator")
    assert (calculator.begin, calculator.end, calculator.identity) == ("<calculator>", "</calculator>", "calculator-3")
    assert calculator.answer("<calculator>1 + 1</calculator>") == "<output>2</output>"
    assert calculator.answer("<calculator>9 <calculator>5 * 5</calculator> and") == "<output>25</output>"
    assert calculator.answer("so 1</calculator>") == (
        "<output>error: expected <calculator> before </calculator></output>"
    )


def test_an_unknown_tool_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="tool: expected one of calculator, got 'python'"):
        get_tool("python")
