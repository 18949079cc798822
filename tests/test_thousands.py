"""Where a comma groups the digits of a number, and where it separates two."""

import pytest

from stapo_bench.grading.read.lexer import lex


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (r"\text{}1,234", ["1234"]),  # an empty text opens no bracket
        (r"(\text{}1,234)", ["(", "1", ",", "234", ")"]),
    ],
)
def test_thousands_beside_an_empty_text(text, tokens):
    assert [token.text for token in lex(text)] == tokens
