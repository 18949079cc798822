"""``grade_answer`` as it is called from Python: golds that are numbers, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest

from stapo_bench.errors import UsageError
from stapo_bench.grading import grade_many
from stapo_bench.grading.graders.mathematics import grade_answer
from stapo_bench.records import Gold, Outcome


@pytest.mark.parametrize("gold", [42, 42.0, np.int64(42), np.float64(42.0), Fraction(42)])
def test_a_number_is_a_gold(gold):
    assert grade_answer(r"\boxed{42}", gold).outcome == Outcome.CORRECT
    assert grade_answer(r"\boxed{43}", gold).outcome == Outcome.INCORRECT


@pytest.mark.parametrize("gold", [None, True, float("nan"), float("inf"), ["42"], "", " \n"])
def test_what_is_no_gold_is_refused(gold):
    with pytest.raises(UsageError, match="answer: expected the gold as a text, a finite number or a Gold, got"):
        grade_answer(r"\boxed{42}", gold)


@pytest.mark.parametrize("completion", [None, b"42", [{"role": "assistant", "content": "42"}]])
def test_what_is_no_text_of_a_completion_is_refused(completion):
    with pytest.raises(UsageError, match="completion: expected its text, got"):
        grade_answer(completion, "42")


@pytest.mark.parametrize("gold", ["", None])
def test_pairs_without_a_gold_are_refused(gold):
    with pytest.raises(UsageError, match="answer: expected the gold as a text"):
        grade_many([("42", gold)], workers=1)


def test_a_type_that_does_not_exist_is_refused_where_it_is_an_argument():
    with pytest.raises(UsageError, match="got 'nummber'; did you mean 'number'"):
        grade_answer("42", "42", "nummber")
    with pytest.raises(UsageError, match="got 'zzz'; there are number, expression"):
        grade_answer("42", "42", "zzz")
    assert grade_answer("42", Gold(answer="42", answer_type="free form")).outcome == Outcome.CORRECT  # another tool's


def test_a_gold_may_be_larger_than_any_float():
    assert grade_answer(r"\boxed{10^{400}}", 10**400).outcome == Outcome.CORRECT
