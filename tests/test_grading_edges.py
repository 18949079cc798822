"""Edges of the grader's rules, by hand: the second of two signs, an end at its bound, a hair beyond it."""

from fractions import Fraction

import pytest

from stapo_bench.grading import grade_answer
from stapo_bench.grading.compare.chains import _stated
from stapo_bench.grading.compare.conditional import same_conditions
from stapo_bench.grading.compare.measure import same_ratio
from stapo_bench.grading.compare.regions import _same_end, reads_as_region, region, same_region
from stapo_bench.grading.compare.renaming import bound_variable, same_letters, same_names
from stapo_bench.grading.compare.spread import elements, rows, spread
from stapo_bench.grading.decide.text_answers import same_time, time
from stapo_bench.grading.evaluate import compare_reals, exact, refill
from stapo_bench.grading.extraction.formulas import hide_formulas
from stapo_bench.grading.read import parse, region_in_words
from stapo_bench.grading.read.lexer import lex
from stapo_bench.grading.read.number_parser import in_base
from stapo_bench.grading.tree import Kind, Node, mul, negate, num, sym
from stapo_bench.records import Outcome


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        (r"5 \pm 3 \mp 1", [7, 3]),  # 5 + 3 - 1 and 5 - 3 + 1
        (r"5 \mp 3 \mp 1", [1, 9]),  # all signs turn together
        (r"5 \pm 3 \pm 1", [9, 7, 3, 1]),  # each by itself
    ],
)
def test_signs_that_turn_together(answer, values):
    assert [exact(value, {}) for value in spread(parse(answer))] == values


def test_a_set_lists_the_values_of_a_letter_alone():
    assert elements(parse(r"n \in \{2, 4\}")) == parse(r"\{2, 4\}")
    for other in (r"2n \in \{2, 4\}", r"n \in \mathbb{N}"):
        assert elements(parse(other)) == parse(other)


def test_noon_is_not_the_end_of_the_day():
    assert not same_time(time("12:00 pm"), time("24:00"))
    assert same_time(time("12:00 pm"), time("12:00")) and same_time(time("12:00 am"), time("0:00"))


def test_displayed_formulas_stand_apart_from_the_words_beside_them():
    hidden = hide_formulas(r"so$$ 2 $$and$ 3 $or\[ 4 \]with\( 5 \)")
    assert hidden.formulas == [" 2 ", "3", " 4 ", "5"]
    assert hidden.shown(hidden.text) == "so 2 and3or 4 with5"


def test_a_parabola_between_large_roots():
    # Its constant is beyond those of which rational roots are looked for: only as a parabola can it be read.
    assert same_region(parse("x^2 < 4000000"), parse("(-2000, 2000)"))
    assert same_region(parse(r"x^2 + 2000 x \ge 0"), parse(r"(-\infty, -2000] \cup [0, \infty)"))


HOLDS = {
    "<": Fraction.__lt__,
    r"\le": Fraction.__le__,
    ">": Fraction.__gt__,
    r"\ge": Fraction.__ge__,
    r"\ne": Fraction.__ne__,
}


def holds(pieces, point):
    """Whether a point lies in one of the pieces."""
    for piece in pieces:
        below, above = compare_reals(piece.low, num(point)), compare_reals(num(point), piece.high)
        if (below < 0 or (below == 0 and piece.low_closed)) and (above < 0 or (above == 0 and piece.high_closed)):
            return True
    return False


@pytest.mark.parametrize("sign", HOLDS)
@pytest.mark.parametrize(
    ("quotient", "value"),
    [
        (r"\frac{1}{x}", lambda x: 1 / x),
        (r"\frac{-2}{3 - x}", lambda x: -2 / (3 - x)),
        (r"\frac{(x-1)(x+3)}{x-2}", lambda x: (x - 1) * (x + 3) / (x - 2)),
        (r"\frac{x-1}{(x+2)^2 (x-1)}", lambda x: (x - 1) / ((x + 2) ** 2 * (x - 1))),  # undefined at 1, no turn at -2
        (r"\frac{(x-1)^3}{(x-1)(2x+1)}", lambda x: (x - 1) ** 3 / ((x - 1) * (2 * x + 1))),
        ("(x-1)^2 (x+2)^3", lambda x: (x - 1) ** 2 * (x + 2) ** 3),
        ("-2x^3 + 3x^2 + 2x", lambda x: -2 * x**3 + 3 * x**2 + 2 * x),  # -x (2x + 1) (x - 2)
        ("(x-5)(1+2x-x^2)", lambda x: (x - 5) * (1 + 2 * x - x**2)),  # 1 +- sqrt 2: a negative square in the rest
        ("(x^2+x+1)(x-1)", lambda x: (x**2 + x + 1) * (x - 1)),  # the rest is never zero
        ("x^2 - x - 1", lambda x: x**2 - x - 1),
        ("-x^2 + 2x - 1", lambda x: -(x**2) + 2 * x - 1),
        ("x^2 + 1", lambda x: x**2 + 1),
        ("-x^2 - x - 1", lambda x: -(x**2) - x - 1),
        ("1 - 2x", lambda x: 1 - 2 * x),
    ],
)
def test_inequalities_hold_where_they_do_point_by_point(quotient, value, sign):
    refill()
    pieces = region(parse(f"{quotient} {sign} 0"))
    for point in (Fraction(half, 2) for half in range(-14, 15)):
        try:
            wanted = HOLDS[sign](value(point), Fraction(0))
        except ZeroDivisionError:  # undefined
            wanted = False
        assert holds(pieces, point) is wanted, point


@pytest.mark.parametrize(
    ("answer", "gold", "is_right"),
    [
        # A gold of two digits allows half a unit of its last place to a fraction, and a gold of one digit one percent.
        (r"\frac{21}{20}", "1.0", True),
        (r"\frac{17}{19}", "0.9", True),  # 0.8947
        (r"\frac{7}{8}", "0.9", False),
        # One percent of the larger of the two, to an answer in digits.
        ("1.0101", "1.0", True),
        ("1.0102", "1.0", False),
        ("1410", r"1.4 \times 10^3", True),
        ("1449", r"1.4 \times 10^3", False),
        # Constants of integration by any of their letters, and no other name.
        ("x^2 + k", "x^2 + K", True),
        ("x^2 + a", "x^2 + A", False),
        # A family's letter is free where it does not stand for something else.
        (r"\pi n, n \in \mathbb{Z}", r"\pi k, k \in \mathbb{Z}", True),
        (r"\pi n + k, n \in \mathbb{Z}", r"\pi k + k, k \in \mathbb{Z}", False),
        # "When" beside a number restricts it, beside a formula it says where it holds.
        (r"42 \text{ when } n = 1", "42", False),
        (r"x^2 \text{ when } x > 0", "x^2", True),
        (r"x = 5 \text{ where } x = 5", "5", True),  # says it twice, and nothing else
        (r"5 \text{ if } m \mid n", r"5 \text{ if } m \mid n", True),
        (r"5 \text{ if } m \mid n", r"5 \text{ if } n \mid m", False),
        # Terms that are left out, where those on both sides of the dots fit together.
        (r"8, 9, \ldots, 11, 12", "8, 9, 10, 11, 12", True),
        (r"8, 9, \ldots, 10, 12", "8, 9, 10, 11, 12", False),
        # Ends that cannot be sorted.
        (r"(a, \infty)", r"(a, \infty)", True),
        (r"(a, \infty)", r"(a, -\infty)", False),
    ],
)
def test_answers_on_either_side_of_a_rule(answer, gold, is_right):
    assert grade_answer(answer, gold).outcome is (Outcome.CORRECT if is_right else Outcome.INCORRECT)


def test_ratios_with_a_zero_are_equal_part_by_part():
    assert not same_ratio(parse("1:2"), parse("0:0"))  # though 1 * 0 = 2 * 0
    assert not same_ratio(parse("0:2"), parse("0:3"))
    assert same_ratio(parse("0:2"), parse("0:2"))


def test_of_a_value_and_its_rounding_the_value_is_stated():
    third, rounded, metres = parse(r"\frac{1}{3}"), parse("0.33"), parse(r"0.33 \text{ m}")
    assert _stated([third, rounded]) == _stated([third, metres]) == third
    other = parse(r"333 \text{ m}")
    assert _stated([parse(r"\frac{1}{3} \text{ km}"), other]) == other  # in the unit of the last


def test_clauses_of_two_conditions_are_matched_one_to_one():
    def conditional(*clauses):
        return Node(Kind.CONDITIONAL, (num(1), *map(parse, clauses)), "for")

    both = conditional("x > 0", "n < 5")
    assert same_conditions(conditional("n < 5", "x > 0"), both) and same_conditions(conditional(), both)
    for other in (conditional("x > 0"), conditional("x > 0", "x > 0"), conditional("x > 0", "n < 5", "n < 5")):
        assert not same_conditions(other, both)


def test_names_by_hand():
    assert same_names(sym("AB"), sym("ab")) and not same_names(sym("n"), sym("N"))
    assert bound_variable(sym("f(t)"), sym("f(x)")) == {"t": "x"}
    assert bound_variable(sym("f(t)"), sym("g(x)")) is bound_variable(sym("f(x)"), sym("f(x)")) is None
    assert same_letters(sym("cab"), mul(*map(sym, "abc"))) and not same_letters(sym("CAB"), mul(*map(sym, "ABC")))


def test_the_two_ends_of_the_line_are_two():
    infinity = sym("infty")
    assert _same_end(infinity, infinity) and not _same_end(infinity, negate(infinity))
    assert not _same_end(infinity, num(0))


def test_a_half_open_interval_is_no_point():
    found = [reads_as_region(parse(text)) for text in ("[2, 5)", "(2, 5]", "(2, 5)", "[2, 5]")]
    assert found == [True, True, False, False]


def test_all_that_stands_before_a_matrix_goes_inside():
    matrix = Node(Kind.MATRIX, (Node(Kind.ROW, (num(3), sym("y"))),))
    factors = (num(2), sym("x"))
    product = Node(Kind.PRODUCT, (*factors, matrix))
    assert rows(product) == [(mul(*factors, num(3)), mul(*factors, sym("y")))]
    assert rows(Node(Kind.PRODUCT, (matrix, matrix))) is None  # a product of two is none of them


def test_digits_of_the_largest_base():
    assert in_base("z", 36).value == 35


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("x is between 2 exclusive and 5 inclusive", "(2, 5]"),
        ("x is between 2 and 5 inclusive", "[2, 5]"),
        ("x is not between 2 and 5 inclusive", None),
        ("x is greater than 0, so x is at least 3 and less than 5", "[3, 5)"),  # the last two bounds
    ],
)
def test_intervals_in_words(words, found):
    assert region_in_words(words) == found


def test_four_letters_side_by_side_may_be_a_product():
    assert [token.text for token in lex("abcd")] == ["a", "b", "c", "d"]
    assert [token.text for token in lex("bcdfg")] == ["bcdfg"]
