"""At how many sample points two formulas must agree; which quotes around an answer are its own."""

import pytest

from stapo_bench.grading.compare.functions import same_value
from stapo_bench.grading.read import parse
from stapo_bench.grading.read.cleaning import strip_quotes
from stapo_bench.grading.read.lexer import lex


@pytest.mark.parametrize(
    ("gold", "response", "is_same"),
    [
        # Of the points tried, 127/19 alone is beyond 5, where both are the same; elsewhere one is i times the other.
        (r"\sqrt{x-5}", r"|\sqrt{x-5}|", False),
        (r"\sqrt{x-2}", r"|\sqrt{x-2}|", True),  # 83/23, 127/19, 13/5 are three
        # Nowhere real; n is 6, 7, 9, 4, 12 in turn, and a negative number has no factorial: one point, and two.
        (r"\ln(-2-(n-12)!)", r"\ln(-(n-12)!-2)", False),
        (r"\ln(-2-(n-9)!)", r"\ln(-(n-9)!-2)", True),
    ],
)
def test_formulas_that_agree_at_a_single_point_are_not_taken_for_the_same(gold, response, is_same):
    assert same_value(parse(response), parse(gold)) is is_same


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("'x'", "x"),
        ("`x'", "x"),
        ("``x''", "x"),
        ("`f'(x)'", "`f'(x)'"),  # the closing sign alone is within: a prime
        ("``f''(x)''", "``f''(x)''"),
        ("`a`b'", "`a`b'"),  # the opening sign alone
        ("'a'b'", "'a'b'"),
    ],
)
def test_quotes_go_only_where_neither_sign_is_within(text, bare):
    assert strip_quotes(text) == bare


def test_an_empty_text_is_no_token_and_counts_no_bracket_twice():
    assert [token.text for token in lex(r"(\text{})1,234")] == ["(", ")", "1234"]
    assert [token.text for token in lex(r"(\text{}1,234)")] == ["(", "1", ",", "234", ")"]
