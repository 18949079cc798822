"""Values of what an answer says, by hand: distances, digits, names, and which boxes belong together."""

import calendar
from fractions import Fraction

import pytest

from stapo_bench.grading import grade_answer
from stapo_bench.grading.compare.renaming import by_name, in_name_order, in_order_of, in_order_of_names, same_letters
from stapo_bench.grading.compare.spread import compound
from stapo_bench.grading.decide.asserted import _last_time, asserts
from stapo_bench.grading.decide.restated import restates
from stapo_bench.grading.decide.text_answers import date, number
from stapo_bench.grading.evaluate import significant_digits, within
from stapo_bench.grading.extraction import extract_answer
from stapo_bench.grading.extraction.languages import with_points
from stapo_bench.grading.extraction.markup import plain_text
from stapo_bench.grading.read import parse, region_in_words
from stapo_bench.grading.read.cleaning import _encloses
from stapo_bench.grading.read.mixed_units import join_mixed
from stapo_bench.grading.read.progressions import progression
from stapo_bench.grading.tree import negate, num, precision, sym
from stapo_bench.records import Outcome


@pytest.mark.parametrize(
    ("left", "gold", "radius", "near"),
    [
        ("1.5", "1", "1/2", True),  # exactly at the bound
        ("1.5", "1", "49/100", False),
        (r"\sqrt{2}", "1.4", "15/1000", True),  # 1.41421…: 0.01421… apart
        (r"\sqrt{2}", "1.4", "14/1000", False),
        ("1.4", r"\sqrt{2}", "14/1000", False),
        (r"\sqrt{2}", "-1.4", "28143/10000", True),  # 2.81421…
        (r"\sqrt{2}", "-1.4", "28142/10000", False),
        (r"\pi \cdot \sqrt{2} / \pi \cdot \sqrt{2}", "1", "1", True),  # at the bound, and not seen to be rational
    ],
)
def test_within_by_hand(left, gold, radius, near):
    assert within(parse(left), parse(gold), Fraction(radius)) is near


@pytest.mark.parametrize(
    ("number", "place", "digits"),
    [("12.50", "1/100", 4), ("-0.0125", "1/10000", 3), ("0.9", "1/10", 1), ("1000", "100", 2), ("0.00", "1/100", 0)],
)
def test_significant_digits_by_hand(number, place, digits):
    assert significant_digits(parse(number), Fraction(place)) == digits


def test_each_prime_is_part_of_a_name():
    assert parse(r"x^{\prime}") == parse(r"x^\prime") == parse("x'")
    assert parse(r"x^{\prime\prime}") == parse("x''") != parse("x'")


@pytest.mark.parametrize(("width", "answer"), [(60, "3, 4"), (61, "4")])
def test_boxes_more_than_sixty_characters_apart_are_not_joined(width, answer):
    assert extract_answer(rf"\boxed{{3}}{'or':^{width}}\boxed{{4}}") == answer


def test_an_answer_at_either_end_of_a_long_text_is_found():
    assert extract_answer("word " * 20_000 + "\n\nThe final answer is 7.") == "7"
    assert extract_answer(r"So \boxed{5}." + " It was long." * 10_000) == "5"


def test_a_quantity_goes_on_in_a_smaller_unit_alone():
    assert join_mixed(r"2 \text{ hours } and 30 \text{ minutes }") == r"2 \text{ hours } 30 \text{ minutes }"
    for two in (r"30 \text{ minutes } and 2 \text{ hours }", r"2 \text{ hours } and 30 \text{ meters }"):
        assert join_mixed(two) == two


@pytest.mark.parametrize(
    ("said", "time"),
    [("quarter past 3", "3:15"), ("half past 11", "11:30"), ("quarter to 4", "3:45"), ("20 past 7", "7:20")],
)
def test_a_time_in_words_by_hand(said, time):
    assert _last_time(f"They meet at {said}.") == time


@pytest.mark.parametrize(
    ("text", "ulp"),
    [
        ("3.14", "1/100"),
        ("-3.14", "1/100"),
        (r"3.14 \times 10^{2}", "1"),
        (r"3.14 \times 10^{-2}", "1/10000"),
        (r"-3.14 \times 10^{2}", "1"),
        (r"3.1\%", "1/1000"),
        (r"3.1 \text{ cm}", "1/10"),
        ("4e3", "1000"),
        ("3", None),
        (r"\frac{3.1}{2}", None),
        (r"3.1 \cdot 2.0", None),
        (r"3.1 \pi", None),
        (r"3.1 \times 10^{x}", None),
        (r"3.1 \times 10^{401}", None),
        (r"3.1 \times 10^{400}", "1" + "0" * 399),
    ],
)
def test_the_last_place_of_a_decimal_by_hand(text, ulp):
    assert precision(parse(text)) == (None if ulp is None else Fraction(ulp))


def test_minus_keeps_the_precision_of_a_decimal_and_the_base_of_a_numeral():
    assert negate(num(Fraction(5, 2), Fraction(1, 10))) == num(Fraction(-5, 2), Fraction(1, 10))
    assert negate(sym("x")) == parse("-x")


def test_values_in_the_order_of_their_names():
    def values(*items):
        return in_name_order([parse(item) for item in items])

    one, two, three = parse("1"), parse("2"), parse("3")
    assert values("y=2", "x=1") == [one, two]
    assert values("y=2", "1") == [two, one]  # not all have names
    assert values("1", "y=2") == [one, two]
    assert values("x=2", "x=1") == [two, one]  # one name twice orders nothing
    assert in_order_of_names(parse("(b,a)=(2,1)")) == parse("(1,2)")
    assert in_order_of_names(parse("(b,a)=(2,1,3)")) == parse("(b,a)=(2,1,3)")
    assert in_order_of(parse("a:b"), parse("b:a"), parse("4:3")) == parse("3:4")
    assert in_order_of(parse("a:b"), parse("b:c"), parse("4:3")) is None
    assert in_order_of(parse("a:b"), parse("b:a"), parse("4:3:2")) is None
    assert by_name([parse("x=1"), parse("y=2")]) == {sym("x"): one, sym("y"): two}
    assert by_name([parse("x=1"), parse("x=2")]) is None
    assert by_name([parse("x=1"), three]) is None


def test_letters_of_a_product_in_any_order():
    assert same_letters(sym("cab"), parse("abc"))
    assert not any(same_letters(sym(word), parse("abc")) for word in ("dab", "cabb", "aab", "ca", "CAB"))
    assert not same_letters(sym("ba"), parse("ab"))  # two letters may be a word
    assert not same_letters(sym("cab"), parse("a+b+c"))


def test_quantities_that_add_up():
    assert compound(parse(r"2 \text{ h } 30 \text{ min}")).label == "h"
    for apart in (
        r"2 \text{ h}, 3 \text{ m}",
        r"2 \text{ h}, 3",
        r"2 \text{ h}, 3 \text{ h}",
        r"2 \text{ apples}, 3 \text{ pears}",
    ):
        assert compound(parse(apart)) == parse(apart)


def test_constant_steps_need_three_terms_without_an_end():
    three, two = (parse(text).args for text in (r"2, 4, 6, \ldots", r"2, 4, \ldots"))
    assert three == two
    assert [item.value for item in progression(list(parse(r"1, 3, 4, \ldots").args))[:3]] == [1, 3, 4]


@pytest.mark.parametrize(
    ("said", "gold", "right"),
    [
        ("It falls on March 3, 2021.", "March 3, 2021", True),
        ("It falls on March 3.", "March 3, 2021", True),  # without a year
        ("It falls on March 3, 2021.", "March 3", True),
        ("It falls on March 3, 2020.", "March 3, 2021", False),
        ("It falls on April 3, 2021.", "March 3, 2021", False),
        ("It falls on March 4, 2021.", "March 3, 2021", False),
        ("From March 3, 2021 on it is April 1, 2021.", "March 3, 2021", False),  # the last one counts
        ("From April 1 on it is March 3, 2021.", "March 3, 2021", True),
    ],
)
def test_a_date_in_a_sentence(said, gold, right):
    assert asserts(said, gold, None) is right


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("March 3, 2021", (2021, 3, 3)),
        ("3 March 2021", (2021, 3, 3)),
        ("2021-03-05", (2021, 3, 5)),
        ("Dec. 31", (None, 12, 31)),
        ("March 2021", (2021, 3, None)),
        ("March 3 4", None),  # two days
        ("March 32 2021", None),  # two years
        ("March April 3", None),
        ("March", None),
        ("March 3 2021 5", None),
        ("March 20210", None),
    ],
)
def test_dates_by_hand(text, parts):
    assert date(text) == parts


def test_each_month_has_its_number():
    names = [month.lower() for month in calendar.month_name[1:]]
    assert [date(f"{name} 5")[1] for name in names] == list(range(1, 13))


@pytest.mark.parametrize(
    ("answer", "gold", "question", "is_question"),
    [
        ("3+4", "7", "What is 3+4?", True),
        ("7", "7", "What is 3+4?", False),
        ("3+4", "7", "What is 2+5?", False),
    ],
)
def test_the_expression_of_the_question_is_no_answer(answer, gold, question, is_question):
    assert restates(answer, gold, question) is is_question


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("~~5~~ 6", "6"),
        ("The value is ~~5~~ 7.", "7"),
        ("I don't know. But the answer: I think x = 4, since 2x = 8.", "x = 4"),
        ("I do not know. However, x = 4.", "x = 4"),
        ("I do not know. However, x = 4. I do not know.", None),  # the last word counts
        ("**Total:** it is **12** apples.", "12"),
        ("81\nSince three to the", "81"),
    ],
)
def test_what_is_struck_out_given_up_or_bold(completion, answer):
    assert extract_answer(completion) == answer


def test_what_is_struck_out_is_gone():
    assert plain_text("~~5~~ 6").strip() == plain_text("<s>5</s> 6").strip() == "6"


def test_a_brace_that_the_last_one_closes():
    assert all(map(_encloses, ["{1}", "{{1}{2}}", r"{\{1\}}", r"{1\}}"]))
    assert not any(map(_encloses, ["{1", "{1}{2}", r"{1\}", "{1}2", "{{1}"]))


@pytest.mark.parametrize(
    ("words", "interval"),
    [
        ("größer als 3", "(3, ∞)"),
        ("mindestens 3", "[3, ∞)"),
        ("kleiner als 3", "(-∞, 3)"),
        ("höchstens 3", "(-∞, 3]"),
        ("supérieur à 3", "(3, ∞)"),
        ("au moins 3", "[3, ∞)"),
        ("menor que 3", "(-∞, 3)"),
        ("a lo sumo 3", "(-∞, 3]"),
        ("x is at least 3 and less than 5", "[3, 5)"),
        ("x is less than 3 or at least 5", "(-∞, 3) ∪ [5, ∞)"),
        ("x is no more than 3", "(-∞, 3]"),
        ("x is between 3 and 5, inclusive", "[3, 5]"),
        ("x is from 3 (included) to 5 (excluded)", "[3, 5)"),
        ("the open interval from 3 to 5", "(3, 5)"),
        ("the closed interval from 3 to 5", "[3, 5]"),
        ("x is between 3 and 5", "(3, 5)"),
        ("all positive real numbers", "(0, ∞)"),
        ("all negative numbers", "(-∞, 0)"),
        ("all nonnegative reals", "[0, ∞)"),
        ("all non-positive numbers", "(-∞, 0]"),
        ("all reals except 2", "(-∞, 2) ∪ (2, ∞)"),
        ("all real numbers except 2 and 3", r"\mathbb{R} \setminus \{2, 3\}"),
        ("x is positive and less than 3", "(0, 3)"),
        ("the tree is taller than 3", None),
        ("greater than 3", "(3, ∞)"),
        ("больше 3", "(3, ∞)"),
        ("x die größer als 3 sind", "(3, ∞)"),
    ],
)
def test_sets_of_numbers_in_words(words, interval):
    assert region_in_words(words) == interval


@pytest.mark.parametrize(
    ("text", "digits"), [("three", "3"), ("three.", "3"), (r"\text{three}", "3"), ("three!", None)]
)
def test_a_number_word_alone(text, digits):
    assert number(text) == digits


@pytest.mark.parametrize(
    ("said", "gold", "right"),
    [
        ("Therefore there is no solution.", "no solution", True),
        ("Then if it were, there is no solution.", "no solution", False),
        ("It is true that if x = 1 there is no solution.", "no solution", False),
        ("There is a solution.", "no solution", False),
    ],
)
def test_what_is_only_supposed_is_not_said(said, gold, right):
    assert asserts(said, gold, None) is right


def test_a_comma_before_three_digits_is_no_decimal_one():
    assert with_points("Die Summe ist 1,234.") == "Die Summe ist 1,234."
    assert with_points("Die Summe ist 1,25 oder 1,234.") == "Die Summe ist 1.25 oder 1.234."


@pytest.mark.parametrize("said", ["one two", "twenty thirty"])
def test_words_that_are_no_numeral_end_nothing(said):
    assert grade_answer(f"So the value of x is {said}.", "12").outcome is not Outcome.GRADER_ERROR


@pytest.mark.parametrize("mark", ["", " &"])
def test_a_mark_without_a_condition_behind_it_is_as_none(mark):
    said = rf"\boxed{{\begin{{cases}}-x & x<0\\x{mark}\end{{cases}}}}"
    assert grade_answer(said, r"\begin{cases}x & x\ge0\\-x&x<0\end{cases}").outcome is Outcome.INCORRECT
