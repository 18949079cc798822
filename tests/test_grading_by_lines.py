"""Single lines of the grader by hand: lists, labels, chains, clauses and balls, each beside what it must not be."""

from fractions import Fraction

import pytest

from stapo_bench.grading import grade_answer
from stapo_bench.grading.compare import Contradiction
from stapo_bench.grading.compare.chains import collapsed
from stapo_bench.grading.compare.conditional import same_clause
from stapo_bench.grading.compare.equations import _vanishes
from stapo_bench.grading.compare.regions import _pieces_as_written
from stapo_bench.grading.decide.asserted import _is_ratio, _lists, _rivals, _shares, _uncompared, asserts
from stapo_bench.grading.decide.by_question import _goes_on, in_base
from stapo_bench.grading.decide.decision import _in_order_of_letters
from stapo_bench.grading.decide.parts import labelled, listed
from stapo_bench.grading.decide.read_again import _with_point, states_identity
from stapo_bench.grading.decide.verdict import Question
from stapo_bench.grading.decide.word_rules import option_with_text
from stapo_bench.grading.evaluate import context, evaluate, refill, same_constant
from stapo_bench.grading.extraction import extract_answer
from stapo_bench.grading.extraction.boxes import measured
from stapo_bench.grading.extraction.chains import chain_end
from stapo_bench.grading.extraction.endings import is_finished
from stapo_bench.grading.extraction.for_question import _by_chain, _by_quantity
from stapo_bench.grading.extraction.markup import plain_text
from stapo_bench.grading.extraction.spans import spans
from stapo_bench.grading.extraction.statements import _emphasised, bare, sentences, stated, without_stop
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


def test_shares_and_ratios_in_sentences():
    assert _shares(("1", "3", None)) == [Fraction(1, 4), Fraction(3, 4)]
    assert _shares(("0", "0", None)) == []
    assert _is_ratio("it is 1 to 3", "2:6")
    for sentence, gold in (("1:3, then 1:2", "1:3"), ("none", "1:3"), ("1:2", "half")):  # the last one counts
        assert not _is_ratio(sentence, gold)


@pytest.mark.parametrize(
    ("sentence", "question", "lists_both"),
    [
        ("red and blue", None, True),
        ("blue and red", None, True),
        ("blue and red", "List them in order.", False),
        ("red, blue and green", None, False),
        ("red and blue and green", None, False),
        ("not red and blue", None, False),
        ("red", None, False),
        ("green", None, False),
    ],
)
def test_a_sentence_lists_two_words_and_no_third(sentence, question, lists_both):
    assert _lists(sentence, ["red", "blue"], question) is lists_both


def test_what_else_an_answer_in_words_might_have_been():
    assert {"blue", "green"} <= _rivals(["red"], "Is it red, blue or green?")
    assert _rivals(["tom"], "Is it Tom or Ann?") == {"ann"}
    assert _rivals(["tom"], "Is it Ann or Bob?") == set()
    assert len(_rivals(["sunday"], "")) == 6
    assert _uncompared(["ann", "than", "tom"]) == {"ann"}


@pytest.mark.parametrize(
    ("given", "gold", "goes_on"),
    [
        ("3.14", "3.1", True),
        ("x = 3.14", "3.1", True),
        ("3.10", "3.1", False),
        ("3", "3.1", False),
        ("3.14", "3", False),
    ],
)
def test_a_decimal_that_goes_on_behind_the_golds_last_place(given, gold, goes_on):
    assert _goes_on(given, gold) is goes_on


@pytest.mark.parametrize(
    ("answer", "pointed"),
    [
        ("0,125", "0.125"),
        ("x = -4,5 cm", "x = -4.5 cm"),
        ("1,5² = 2,25", "1.5² = 2.25"),
        ("12,3456", "12.3456"),
        ("1,500", None),  # thousands
        ("(4,5)", None),
        ("a,b = 4,5", None),
        ("1.5", None),
        ("5", None),
    ],
)
def test_decimal_commas_of_one_number(answer, pointed):
    assert _with_point(answer) == pointed


@pytest.mark.parametrize(
    ("answer", "ordered"),
    [
        ("z = 3, x = 1, y = 2", "(1, 2, 3)"),
        ("y = 1 + 1 = 2, x = 1", "(1, 2)"),
        ("x = 1, x = 2", None),
        ("x = 1", None),
        ("x = 1, 2", None),
        ("ab = 1, c = 2", None),
        ("1 = 1, x = 2", None),
    ],
)
def test_values_of_letters_are_a_tuple_in_their_order(answer, ordered):
    assert _in_order_of_letters(answer, Gold(answer="(1,2,3)")) == ordered
    assert _in_order_of_letters(answer, Gold(answer="6")) is None


@pytest.mark.parametrize(
    ("answer", "gold", "base", "same"),
    [
        ("101_2", "101", 2, True),
        ("101", "101_2", 2, True),
        ("0101", "101_2", 2, True),
        ("0b101", "101", 2, True),
        ("0x1F", "1f", 16, True),
        ("102", "101_2", 2, False),
        ("101", "101", 2, None),
        ("101_2", "101_2", 2, None),
        ("101_2", "101", 3, None),
        ("101_2", "5", 2, None),  # may be in decimal
    ],
)
def test_digits_with_their_base_on_one_side(answer, gold, base, same):
    assert in_base(answer, Gold(answer=gold), base) is same


def test_an_identity_has_the_golds_form_on_its_right():
    assert states_identity("x + x = 2x", Gold(answer="2x"))
    for answer, gold in (("x + x = 2x", "4"), ("x = 2x", "2x"), ("x + x = x + x", "x+x"), ("x + x = 2x = 2x", "2x")):
        assert not states_identity(answer, Gold(answer=gold))


def test_sentences_and_what_stands_around_them():
    assert list(sentences("It is 5. So 6.")) == ["It is 5.", "So 6."]
    assert list(sentences("Mr. Smith has 5")) == ["Mr. Smith has 5"]
    assert list(sentences("e.g. 5. Yes")) == ["e.g. 5.", "Yes"]
    for sentence, words in (
        ("It is 5!.", "It is 5!"),
        ("**5**.", "5"),
        ("It is 1.2.3...", "It is 1.2.3..."),
        ("5。", "5"),
    ):
        assert without_stop(sentence) == words
    for line, content in (("> ## e", "e"), ("| a | b |", "b"), ("| a | b", "| a | b"), ("a | b | c", "a | b | c")):
        assert bare(line) == content


@pytest.mark.parametrize(
    ("sentence", "bold"),
    [
        ("So it is **5**.", "5"),
        ("It is **5** and **6**.", "6"),
        ("**Answer:** 5 or so", None),
        ("**5**", None),
        ("The value **x** : 5 is here", None),
    ],
)
def test_the_last_bold_part_of_a_sentence(sentence, bold):
    assert _emphasised(sentence) == bold


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        ("mean: 4 median: 4.8", "What is the mean?", "mean: 4"),
        ("mean: 4, median: 4.8 mode: 3", "Find the median", "mean: 4, median: 4.8"),
        ("mean: 4 median: 4.8", "What is the median?", None),
        ("mean: 4\nmedian: 4.8", "Find the mean", None),
        ("mean: 4 median: 5", "Find the mean and median", None),
    ],
)
def test_one_quantity_of_a_row(text, question, answer):
    assert _by_quantity(text, question) == answer


def test_a_chain_answers_what_is_to_be_evaluated():
    assert _by_chain("2+3 = 5\n3+3 = 6", "Compute 2+3.") == "2+3 = 5"
    assert _by_chain("2 + 3 = 5\n3+3 = 6", "Compute $2+3$.") == "2 + 3 = 5"
    assert _by_chain("1+3 = 4\n3+3 = 6", "Compute 2+3.") is None
    assert _by_chain("2+3 = 5", "Compute 2+3.") is None
    assert _by_chain("2+3 = 5\nThis is x = 5", "Compute 2+3.") is None
    assert _by_chain("2+3 = 5\n3+3 = 6", "Add 2 and 3.") is None
