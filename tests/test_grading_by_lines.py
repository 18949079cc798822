"""Single lines of the grader by hand: lists, labels, chains, clauses and balls, each beside what it must not be."""

import pytest

from stapo_bench.grading import grade_answer
from stapo_bench.grading.compare import Contradiction
from stapo_bench.grading.compare.chains import collapsed
from stapo_bench.grading.compare.conditional import same_clause
from stapo_bench.grading.compare.equations import _vanishes
from stapo_bench.grading.compare.regions import _pieces_as_written
from stapo_bench.grading.decide.asserted import asserts
from stapo_bench.grading.decide.parts import labelled, listed
from stapo_bench.grading.decide.verdict import Question
from stapo_bench.grading.decide.word_rules import option_with_text
from stapo_bench.grading.evaluate import context, evaluate, refill, same_constant
from stapo_bench.grading.extraction import extract_answer
from stapo_bench.grading.extraction.boxes import measured
from stapo_bench.grading.extraction.chains import chain_end
from stapo_bench.grading.extraction.endings import is_finished
from stapo_bench.grading.extraction.markup import plain_text
from stapo_bench.grading.extraction.spans import spans
from stapo_bench.grading.extraction.statements import stated
from stapo_bench.grading.extraction.tokens import tokens
from stapo_bench.grading.read import parse
from stapo_bench.grading.read.lexer import lex
from stapo_bench.grading.tree import Refusal, num, sym
from stapo_bench.grading.units import NEXT_VALUE
from stapo_bench.records import Gold, Outcome


@pytest.fixture(autouse=True)
def _full_budget():
    refill()


def test_words_side_by_side_are_each_said_once():
    assert asserts("They are blue and red.", "red and blue", None)
    assert not asserts("They are blue and blue.", "red and blue", None)


def test_labels_and_lists():
    assert labelled("(i) 7, (ii) 10") == labelled("(a) 7 (b) 10") == ["7", "10"]
    assert labelled("(i) 7, (b) 10") is None  # of two rows
    assert listed("(1, 2)") == ["1", "2"]
    assert listed("(1),(2)") == ["(1)", "(2)"]


def test_the_end_of_a_chain_and_its_other_form():
    assert chain_end("1/2 + 1/4 = 3/4, or 0.75") == "3/4"
    assert chain_end("x = 3, or 4") == "x = 3, or 4"


def never(left, right):
    return left == right


def test_a_chain_that_rounds():
    assert collapsed(parse(r"x \approx 3.14"), never) == parse("x = 3.14")
    assert collapsed(parse(r"x = 42.3 \approx 42"), never) == parse("x = 42.3")
    with pytest.raises(Contradiction):  # a tenth is told
        collapsed(parse(r"x = 42.3 \approx 42.0"), never)


def test_a_decimal_is_no_fifth():
    assert grade_answer(r"\boxed{0.20000000001}", r"\frac15").outcome is Outcome.INCORRECT
    assert grade_answer(r"\boxed{0.2000000000}", r"\frac15").outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"<answer>So \boxed{7} it is</answer>", "7"),
        ("<answer>\n3 + 4\n#### 7\n</answer>", "7"),
        ("<answer>7</answer>", "7"),
    ],
)
def test_what_stands_in_answer_tags(text, answer):
    assert extract_answer(text) == answer


def test_conditions_in_several_letters_agree_up_to_a_factor():
    assert same_clause(parse("x+y>0"), parse("2y+2x>0"))
    assert not same_clause(parse("x+y>0"), parse("x+y>1"))
    assert parse("2k, where k are integers").args[1].label == "integer k"
    with pytest.raises(Refusal):
        _pieces_as_written(parse("a < x > b"))


def test_balls_at_zero_and_of_a_given_number():
    ctx = context(90)
    assert evaluate(parse(r"(0 \cdot \pi)^{0 \cdot e}"), {}, ctx) == (1, 0)
    assert evaluate(sym("x"), {"x": ctx.mpf(3)}, ctx) == (3, 3 * ctx.eps)
    assert not _vanishes(parse(r"\ln x"), {}, "x", ctx.mpf(0))  # it has no value there
    assert _vanishes(parse(r"\ln x"), {}, "x", ctx.mpf(1))
    assert same_constant(parse(r"\lg 100"), num(2), {})


def test_only_the_first_of_letters_side_by_side_stands_apart():
    assert [token.space for token in lex("2 xy")] == [False, True, False]
    assert [span.text for span in spans(tokens("x + 1]"))] == ["x + 1"]


def test_values_of_letters_in_sentences_side_by_side():
    assert stated("So x = 3. Then y = 4.") == f"x = 3{NEXT_VALUE}y = 4"
    assert stated("It is 5. So x = 3.") == "x = 3"


def test_the_last_mention_of_a_number_tells_whether_it_is_a_percentage():
    assert measured("8", "a rate of 8% of the 8 of them") == "8"
    assert measured("8", "of the 8 of them 8%") == r"8 \text{(in percent)}"


@pytest.mark.parametrize(("text", "verdict"), [("12", True), ("(1,2)", None), ("and C", None)])
def test_the_text_of_an_option_that_may_be_told_by_its_letter(text, verdict):
    found = option_with_text(Question("(B)", f"(B) {text}", Gold(answer=f"(B) {text}")))
    assert (found.correct if found else None) is verdict


def test_a_long_text_is_finished_by_its_stop():
    assert is_finished("w" * 2_000 + ".") and not is_finished("w" * 2_000 + ",")


def test_a_program_is_no_text_and_a_fenced_line_is():
    assert plain_text("```python\na = 1\nb = 2\n```").strip() == ""
    assert plain_text("```\n7\n```").strip() == plain_text("```python\n7\n```").strip() == "7"
