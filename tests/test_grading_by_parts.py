"""Small parts of the grader by hand: what a phrase, a line, a sign or a bracket alone makes of an answer."""

from fractions import Fraction

import pytest

from stapo_bench.grading.compare import functions
from stapo_bench.grading.compare.equations import same_relation
from stapo_bench.grading.decide.asserted import asserts
from stapo_bench.grading.decide.by_trees import may_be_region
from stapo_bench.grading.decide.text_answers import date
from stapo_bench.grading.evaluate import exact, refill
from stapo_bench.grading.extraction import extract_answer
from stapo_bench.grading.extraction.clauses import without_reasons
from stapo_bench.grading.extraction.concluding import conclusion
from stapo_bench.grading.extraction.extraction import _heading
from stapo_bench.grading.extraction.languages import with_points
from stapo_bench.grading.extraction.lists import block
from stapo_bench.grading.extraction.markup import plain_text
from stapo_bench.grading.extraction.remarks import has_contrast
from stapo_bench.grading.extraction.statements import stated
from stapo_bench.grading.extraction.turns import until_similar_question
from stapo_bench.grading.read import parse
from stapo_bench.grading.read.answer_parser import _answers, _bracket
from stapo_bench.grading.read.conditions import _membership
from stapo_bench.grading.read.expression_parser import ExpressionParser
from stapo_bench.grading.read.lexer import lex
from stapo_bench.grading.tree import Refusal, sym
from stapo_bench.records import Gold


@pytest.fixture(autouse=True)
def _full_budget():
    refill()


@pytest.mark.parametrize(
    "text",
    [
        "2**3", "2**3**4+1", "5 ft 6 in", r"\frac12+\frac{1}{2}", r"x^{2}+x_1", r"\sin\sin x", "€€5", r"\sqrt[3]{2}",
        "((1,2),[3,4))", r"\{1,2\} \cup \{3\}", r"\{x | x>1\}", "|x-|y||", r"\lfloor \frac{x}{2} \rfloor", "-+-2*-3",
        r"\begin{cases}x & x>0 \cr -x & \text{otherwise}\end{cases}", r"\begin{pmatrix}1&2 \cr 3&4\end{pmatrix}",
        r"\sum_{k=1}^{3} k^2", r"\binom{5}{2}", r"f^{-1}(x)", r"2 \text{ if } x>0, 3 \text{ if } x<0",
        r"42 \text{ for } x>0",
    ],
)  # fmt: skip
def test_a_parser_comes_back_from_every_depth(text):
    parser = ExpressionParser(lex(text), _bracket)
    _answers(parser)
    assert parser.at_end() and (parser.depth, parser.bars, parser.in_set) == (0, 0, False)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (r"0.142857142857\ldots", Fraction(1, 7)),  # two whole periods
        (r"0.1666\ldots", Fraction(1, 6)),
        ("2 * -3", Fraction(-6)),
        ("2 * --3", Fraction(6)),
        ("6 / -+-3", Fraction(2)),
        (r"\sqrt{\frac{1}{4}}", Fraction(1, 2)),  # of what lies below 1
        (r"\sqrt[3]{-\frac{1}{8}}", Fraction(-1, 2)),
        ("2 1/2", Fraction(5, 2)),
    ],
)
def test_what_is_written_has_this_value(text, number):
    assert exact(parse(text), {}) == number


@pytest.mark.parametrize("text", ["2 1.5/2.5", "2 3*4", "2 3/2", "52_{8.5}", "52_{six}{7"])
def test_what_might_be_two_things_is_neither(text):
    with pytest.raises(Refusal):
        parse(text)


def test_counts_of_a_second_letter_by_hand():
    # three places on in 6 7 9 4 12 5 3 10, and further by the index modulo 3
    env = functions.points(parse("n!"), parse("k!"), ["k", "n"])
    assert [at["n"] for at in env] == [4, 12 + 1, 5 + 2, 3, 10 + 1, 6 + 2, 7, 9 + 1, 4 + 2, 12]


@pytest.mark.parametrize(
    ("left", "right", "are_one"),
    [
        (r"y \propto x + x", r"y \propto 2x", True),
        (r"y \propto x", r"y \propto 2x", False),
        (r"y \propto x + x", r"y \sim 2x", False),
    ],
)
def test_relations_that_cannot_be_turned_agree_side_by_side(left, right, are_one):
    assert same_relation(parse(left), parse(right)) is are_one


@pytest.mark.parametrize(
    ("gold", "is_one"), [("(1,2)", True), ("(1,2,3)", False), ("(1+x)/2", False), (r"x \ge 2", True), ("12", False)]
)
def test_what_may_be_a_set_of_numbers(gold, is_one):
    assert may_be_region(Gold(answer=gold)) is is_one


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("5,2 cm", "5.2 cm"),  # a unit behind it
        ("0,25 x 0,5", "0.25 x 0.5"),  # two of them begin with 0
        ("x = 0,25", "x = 0.25"),  # at the end of an equality
        ("x = 0,125", "x = 0.125"),  # three digits group no thousands behind a 0
        ("0,25 x 1,5", "0,25 x 1,5"),
    ],
)
def test_what_shows_that_commas_are_decimal_ones(text, points):
    assert with_points(text) == points


@pytest.mark.parametrize(
    ("clause", "left"),
    [
        ("The mix is 5 parts sand, while the rest is gravel", "The mix is 5 parts sand"),
        ("While the rest is gravel", "While the rest is gravel"),
        ("The mix is 5 parts sand", "The mix is 5 parts sand"),
    ],
)
def test_a_clause_without_its_reasons(clause, left):
    assert without_reasons(clause) == left


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("## Final answer\n42", "42"),
        ("## Final answer\n42\nExplanation: six times seven", "42"),
        ("## Final answer\n42\nIt was long.", None),
        ("42", None),
    ],
)
def test_what_a_heading_stands_over(text, answer):
    assert _heading(text) == answer


def test_a_list_at_the_beginning_has_nothing_to_open_it():
    assert block(["- x = 4", "- y = 3"], 1) == "x = 4, y = 3"
    assert block(["There we go", "- x = 4", "- y = 3"], 2) is None
    assert block(["There we go", "- 4", "- 3"], 2) == "4, 3"  # nor do values without names need it


@pytest.mark.parametrize(
    ("text", "plain"),
    [("It is 7. [1]", "It is 7."), ("It is 7. [1] [23]", "It is 7."), ("It is in [1]", "It is in [1]")],
)
def test_citations_behind_a_sentence_are_gone(text, plain):
    assert plain_text(text) == plain


def test_a_ratio_in_words():
    assert stated("The ratio of boys to girls is 3 to 4.") == "3:4"


def test_a_remark_behind_a_phrase_takes_its_answer_back_only_where_it_says_so():
    assert extract_answer("The final answer is 52. (It is 7 more than 45.)") == "52"
    assert extract_answer("The final answer is 52. (Correction: it is 53.)") == "53"


@pytest.mark.parametrize(
    ("text", "unit"),
    [(r"30^{\circ}", "deg"), (r"30^{\circ}C", "degC"), (r"30^{\circ}F", "degF"), (r"300^\circ \text{K}", "K")],
)
def test_degrees_of_an_angle_or_of_a_scale(text, unit):
    assert parse(text).label == unit
    assert parse(rf"{text} x").args == (parse(text), parse("x"))


def test_signs_that_are_read_in_one_way_alone():
    assert exact(parse("frac{1}{2}"), {}) == Fraction(1, 2)  # its backslash was lost
    assert parse(r"5^{\text{th}}") == parse("5")
    assert parse(r"\frac{d^2 y}{dx^2}") == sym("ddot(y,x)") != parse(r"\frac{dy}{dx}")
    assert parse(r"\frac{dy}{dx}") == sym("dot(y,x)")
    assert parse("2k, where k is an integer").args[1].label == "integer k"
    assert _membership(parse(r"n \in \mathbb{Z}")).label == "integer n"
    assert _membership(parse(r"n+1 \in \mathbb{Z}")) is None
    with pytest.raises(Refusal):
        parse(r"x^{\text{abc}}")


@pytest.mark.parametrize(
    ("words", "month"), [("Jan", 1), ("Sep", 9), ("Sept", 9), ("Sept.", 9), ("Nov", 11), ("June", 6), ("Octo", 10)]
)
def test_a_month_has_three_letters_or_four(words, month):
    assert date(f"{words} 5") == (None, month, 5)


def test_which_sentence_concludes():
    assert conclusion("It is 7. Note that 8 is even.") == "It is 7."
    assert has_contrast("42, not 24") and not has_contrast("42")
    assert not asserts("It was Friday, rain while Thursday lasted.", "Friday", None)
    assert asserts("It was Friday, while Thursday was free.", "Friday", None)


def test_a_line_that_asks_nothing_does_not_hide_the_question_behind_it():
    text = "2\nIn total there are two.\nEvaluate 11 mod 4.\n3"
    assert until_similar_question(text, "Evaluate 10 mod 4.", lambda part: True) == text[:25]
