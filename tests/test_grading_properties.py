"""Properties of the grader: what must hold for any answer, shown by hypothesis."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stapo_bench.grading import grade_answer
from stapo_bench.grading.evaluate import exact
from stapo_bench.grading.read import clean
from stapo_bench.grading.read import parse as read
from stapo_bench.records import Gold, Outcome

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
INTEGERS = st.integers(-(10**30), 10**30)
FRACTIONS = st.builds(Fraction, st.integers(-(10**6), 10**6), st.integers(1, 10**4))


def correct(answer: str, gold: str) -> bool:
    return grade_answer(rf"\boxed{{{answer}}}", gold).outcome is Outcome.CORRECT


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """LaTeX in x, y and small integers that has a value almost everywhere."""
    if depth == 0:
        return draw(st.sampled_from(["x", "y", "2", "3", "7", r"\pi", "5"]))
    left, right = draw(expressions(depth=depth - 1)), draw(expressions(depth=depth - 1))
    form = draw(
        st.sampled_from(["({}+{})", "({}-{})", r"({} \cdot {})", r"\frac{{{}}}{{{}+11}}", r"{}\sqrt{{{}^2+1}}"])
    )
    return form.format(left, right)


@QUICK
@given(INTEGERS, INTEGERS)
def test_integers_are_equal_only_to_themselves(a: int, b: int) -> None:
    assert correct(str(a), str(b)) == (a == b)
    assert correct(f"{a:,}", str(a))


@QUICK
@given(FRACTIONS, FRACTIONS)
def test_fractions_compare_by_value(a: Fraction, b: Fraction) -> None:
    assert correct(rf"\frac{{{a.numerator}}}{{{a.denominator}}}", f"{b.numerator}/{b.denominator}") == (a == b)


@QUICK
@given(FRACTIONS, st.integers(2, 9))
def test_an_unreduced_fraction_is_the_fraction(a: Fraction, k: int) -> None:
    assert correct(
        rf"\dfrac{{{a.numerator * k}}}{{{a.denominator * k}}}", rf"\frac{{{a.numerator}}}{{{a.denominator}}}"
    )


@QUICK
@given(INTEGERS, st.data())
def test_a_changed_digit_is_never_accepted(a: int, data: st.DataObject) -> None:
    digits = list(str(a))
    place = data.draw(st.sampled_from([i for i, d in enumerate(digits) if d != "-"]))
    digits[place] = data.draw(st.sampled_from([d for d in "0123456789" if d != digits[place]]))
    for pattern in ("{}", r"\sqrt{{{}}}", r"\frac{{{}}}{{7}}", "{}x+1", r"\{{{},1\}}", "({},2)", r"\text{{cm: }}{}"):
        assert not correct(pattern.format("".join(digits)), pattern.format(a))


@QUICK
@given(expressions(depth=2))
def test_reflexive_beyond_identical_text(expression: str) -> None:
    assert_reflexive(expression)


@pytest.mark.slow(reason="expressions of eight numbers or more, twice their own")
@QUICK
@given(expressions())
def test_reflexive_beyond_identical_text_of_long_expressions(expression: str) -> None:
    assert_reflexive(expression)


def assert_reflexive(expression: str) -> None:
    assert correct(f"0+{expression}", expression)
    assert correct(rf"\left({expression}\right)\cdot 1", expression)


@QUICK
@given(expressions(depth=2), expressions(depth=2))
def test_symmetric_on_expressions(left: str, right: str) -> None:
    assert correct(left, right) == correct(right, left)


@QUICK
@given(expressions())
def test_adding_one_is_never_accepted(expression: str) -> None:
    assert not correct(f"{expression}+1", expression)
    assert not correct(f"{expression}+10^{{-30}}", expression)


@QUICK
@given(expressions(depth=2))
def test_invariant_under_restyling(expression: str) -> None:
    restyled = (
        expression.replace(r"\frac", r"\dfrac")
        .replace(r"\cdot", r"\times")
        .replace("(", r"\left( ")
        .replace(")", r" \right)")
    )
    for style in ("{}", "$ {} $", r"\displaystyle {}", r"\mathbf{{{}}}", r"\, {} \,", "{{{}}}", "z = {}", "{}."):
        assert correct(style.format(restyled), expression)


@QUICK
@given(st.lists(st.integers(-99, 99), min_size=2, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_lists_and_sets_have_no_order_and_tuples_do(values: list[int], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    plain, mixed = ", ".join(map(str, values)), ", ".join(map(str, shuffled))
    assert correct(mixed, plain)
    assert correct(rf"\{{{mixed}\}}", rf"\{{{plain}\}}")
    assert correct(f"({mixed})", f"({plain})") == (shuffled == values)
    assert not correct(", ".join(map(str, values[:-1])), plain)


@QUICK
@given(st.text(max_size=300), st.text(max_size=60))
def test_never_raises_and_never_blames_itself(completion: str, gold: str) -> None:
    for text in (completion, rf"\boxed{{{completion}}}", rf"\boxed{{{completion}"):
        assert grade_answer(text, Gold(answer=gold)).outcome is not Outcome.GRADER_ERROR


@QUICK
@given(
    st.lists(
        st.sampled_from(
            [
                r"\frac",
                r"\sqrt",
                r"{",
                r"}",
                r"(",
                r")",
                r"[",
                r"]",
                r"\{",
                r"\}",
                r",",
                r"1",
                r"2",
                r"x",
                r"^",
                r"_",
                r"+",
                r"-",
                r"=",
                r"<",
                r"\pm",
                r"\cup",
                r"\text",
                r"\%",
                r"|",
                r"!",
                r"\begin",
                r".",
                r"\left",
                r"/",
                r"\in",
            ]
        ),
        max_size=30,
    )
)
def test_never_raises_on_scrambled_latex(pieces: list[str]) -> None:
    answer = " ".join(pieces)
    assert grade_answer(rf"\boxed{{{answer}}}", "42").outcome is not Outcome.GRADER_ERROR
    assert grade_answer(r"\boxed{x+1}", Gold(answer=answer)).outcome is not Outcome.GRADER_ERROR


@QUICK
@given(FRACTIONS)
def test_a_decimal_gold_is_matched_at_its_own_precision(value: Fraction) -> None:
    if abs(value) < Fraction(1, 50):
        value += 1  # a gold of one digit is no rounding
    gold = f"{float(value):.3f}"
    error = abs(exact(read(clean(gold)), {}) - value)
    exact_answer = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    assert correct(exact_answer, gold) == (error <= Fraction(1, 2000))
