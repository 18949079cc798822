"""``math-sympy``: CORRECT where sympy proves what ``math`` could not read, and nothing else changes."""

import pytest

from stapo_bench.grading import GraderPool, Limits
from stapo_bench.grading.graders.mathematics import grade_answer as by_math
from stapo_bench.grading.graders.proved import grade_answer, proves_equal

# Worked out by hand: antiderivatives, Basel's sum, the arithmetic sum, ad - bc.
EQUAL = [
    (r"\int_0^1 x^2 \, dx", r"\frac{1}{3}"),
    (r"\int_{0}^{\pi} \sin x \, dx", "2"),
    (r"\frac{1}{3}", r"\int_0^1 x^2 dx"),
    (r"\sum_{n=1}^{\infty} \frac{1}{n^2}", r"\frac{\pi^2}{6}"),
    (r"2 \sum_{k=1}^{10} k", r"\int_0^{110} 1 \, dx"),
]
OTHER = [
    (r"\int_0^1 x^2 \, dx", r"\frac{1}{2}"),
    (r"\int_0^1 x^2 \, dx", "0.333333333333333"),  # a decimal is no proof
    (r"\int_0^1 x^2 \, dx + C", r"\frac{1}{3}"),  # a free letter
    (r"\int x^2 \, dx", r"\int x^2 \, dx + 0"),  # not closed
    (r"\int_0^1 x^2 \, dx \text{ where 5 also works}", r"\frac{1}{3}"),  # words are never shown to the parser
    (r"\int_0^1 x \, dx = \frac{1}{3}", r"\frac{1}{3}"),  # a contradiction
    (r"\int_0^1 x^2 \, dx, 5", r"\frac{1}{3}"),
    (r"\int_0^{\infty} 1 \, dx", r"\infty"),  # divergent: equal to nothing
    ("__import__(1)", "1"),
]


@pytest.mark.parametrize(("answer", "gold"), EQUAL)
def test_what_is_proved_is_right(answer, gold):
    assert proves_equal(answer, gold)
    assert by_math(rf"\boxed{{{answer}}}", gold).outcome.value == "INCORRECT"
    grade = grade_answer(rf"\boxed{{{answer}}}", gold)
    assert (grade.outcome.value, grade.detail) == ("CORRECT", "proved by sympy")


@pytest.mark.parametrize(("answer", "gold"), OTHER)
def test_what_is_not_proved_stays_wrong(answer, gold):
    assert not proves_equal(answer, gold)
    assert grade_answer(rf"\boxed{{{answer}}}", gold).outcome.value == "INCORRECT"


def test_other_verdicts_are_those_of_math():
    for completion, gold in ((r"\boxed{0.5}", r"\frac12"), (r"\boxed{43}", "42"), ("I give up.", "42")):
        ours, theirs = grade_answer(completion, gold), by_math(completion, gold)
        assert (ours.outcome, ours.extracted, ours.detail) == (theirs.outcome, theirs.extracted, theirs.detail)
        assert ours.grader == f"math-sympy-1+{theirs.grader}"


@pytest.mark.slow(reason="a grading process that loads sympy is killed and started again")
def test_what_takes_too_long_is_an_error_and_no_verdict():
    hard = r"\int_0^1 \sin(\exp(x^{7})) \log(1 + \cos(x^{5})) \sqrt{1 + x^{9}} \, dx"
    with GraderPool(1, grader="math-sympy", limits=Limits(cpu_s=0.3)) as pool:
        slow, after = pool.grade([(rf"\boxed{{{hard}}}", "1"), (r"\boxed{\int_0^1 1 \, dx}", "2")])
    assert slow.outcome.value == "GRADER_ERROR"
    assert after.outcome.value in ("INCORRECT", "GRADER_ERROR")
