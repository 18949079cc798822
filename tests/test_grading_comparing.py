"""Both sides of single conditions of the comparison, by hand: what is one answer, and what is another beside it."""

from fractions import Fraction

import pytest

from stapo_bench.grading.compare import Contradiction, Rules, same
from stapo_bench.grading.compare.chains import collapsed
from stapo_bench.grading.compare.conditional import _counter, _restricts, unconditioned
from stapo_bench.grading.compare.equations import _linear_root, _roots, is_problem_of, same_relation
from stapo_bench.grading.compare.functions import _alternates, _differs_in_names, _leaves_reals, same_value
from stapo_bench.grading.compare.renaming import (
    in_name_order,
    in_order_of,
    in_order_of_letters,
    in_order_of_names,
    same_letters,
    same_names,
    shared_name,
)
from stapo_bench.grading.evaluate import refill
from stapo_bench.grading.read import parse
from stapo_bench.grading.tree import Kind, Node, num, sym


@pytest.fixture(autouse=True)
def _full_budget():
    refill()


@pytest.mark.parametrize(
    ("chain", "value"),
    [
        (r"1249 \approx 1200", "1249"),  # rounded to hundreds: within 50
        (r"1250 \approx 1200", "1250"),
        (r"-1249 \approx -1200", "-1249"),
        (r"1251 \approx 1200", None),
        (r"1200 \approx 1249", None),  # to ones: within 1/2
        (r"42.4 \approx 42", "42.4"),
        (r"42 \approx 43", None),
        (r"x \approx 3.14", "x = 3.14"),
        ("x = 1 + 1 = 2", "x = 2"),
        ("x = 3 = 4", None),
        (r"\frac{1}{3} = 0.33", None),
        (r"x = \frac{1}{3} \approx 0.33", r"x = \frac{1}{3}"),
        ("x = y = 3", "x = y = 3"),
        ("1 < 2", "1 < 2"),
    ],
)
def test_a_chain_is_one_value_or_contradicts_itself(chain, value):
    if value is None:
        with pytest.raises(Contradiction):
            collapsed(parse(chain), same_value)
    else:
        assert collapsed(parse(chain), same_value) == parse(value)


@pytest.mark.parametrize(
    ("left", "right", "are_one"),
    [
        # Both sides are equal at x = 37/29, the first point where the two are looked at.
        ("58x = 74", "29x = 37", True),
        ("29x = 38", "29x = 37", False),
        ("29x = 37", "29x = 38", False),
        ("2x + 2y = 4", "x + y = 2", True),
        ("x < y", "2x < 2y", True),
        ("x < y", "-x > -y", True),
        ("x < y", "-x < -y", False),
        (r"x \le y", "x < y", False),
        ("x = y", r"x \ne y", False),
        (r"\pi x < y", r"-\pi x > -y", True),
        (r"\pi x < y", r"-\pi x < -y", False),
        (r"\frac{x}{y} = 2", "x = 2y", True),
        (r"\frac{1}{x} + \frac{1}{y} = 1", "x + y = xy", True),
        ("x^2 = y", r"x = \sqrt{y}", False),
        ("x = y = 2", "x = y", False),
    ],
)
def test_relations_up_to_rearrangement(left, right, are_one):
    assert same_relation(parse(left), parse(right)) is are_one


def test_a_rounding_is_one_of_the_exact_value_that_stands_first():
    def always(left, right):
        return True

    assert collapsed(parse(r"\frac{1}{3} = 0.333 \approx 0.3333"), always) == parse(r"\frac{1}{3}")  # 0.333 is not


def test_a_solution_is_not_the_equation_to_solve():
    def one_is_of_the_other(left, right):
        return is_problem_of(parse(left), parse(right))

    assert one_is_of_the_other("x = 2", "3x + 1 = 7") and one_is_of_the_other("3x + 1 = 7", "x = 2")
    assert not one_is_of_the_other("x = 2", "x = 3") and not one_is_of_the_other("x = 2", "2x - 4 = 0")
    assert not one_is_of_the_other("x + 1 = 2", "2x = 2")


def test_roots_by_hand():
    assert _linear_root(parse("3x - 6y"), {"y": Fraction(2)}, "x") == 4
    assert _linear_root(parse("x^2"), {}, "x") is _linear_root(parse("5"), {}, "x") is None
    roots = sorted(float(root.real) for root in _roots(parse("x^2 - 2"), {}, "x"))
    assert roots == pytest.approx([-(2**0.5), 2**0.5])
    (root,) = {abs(complex(root)) for root in _roots(parse("x^2 + 4"), {}, "x")}
    assert root == pytest.approx(2)


def test_what_a_formula_asks_of_its_points():
    for formula in ("(-1)^n", r"(-1)^n + \pi^n", r"\pi^n + (-1)^n"):
        assert _alternates(parse(formula))
    for formula in (r"\pi^n", "(-1)^2", "(-x)^n", "2^n"):
        assert not _alternates(parse(formula))
    for formula in (r"\sqrt{x}", r"\ln x", "x^{0.5}", r"1 + \sqrt{x} \sqrt{x}"):
        assert _leaves_reals(parse(formula), {"x": Fraction(-2)})
        assert not _leaves_reals(parse(formula), {"x": Fraction(2)})
    assert not _leaves_reals(parse(r"\sqrt{x^2} + \sin x + x^3"), {"x": Fraction(-2)})
    for left, right, differs in (("x+y-y", "x", False), ("x", "x+y", True), ("x+y-y+z", "x", True), ("x", "x", False)):
        assert _differs_in_names(parse(left), parse(right)) is differs


def conditional(value, lead, *clauses):
    """A value with its conditions; those without a sign are words."""
    read = [Node(Kind.WORDS, (), text) if text.replace(" ", "").isalpha() else parse(text) for text in clauses]
    return Node(Kind.CONDITIONAL, (parse(value), *read), lead)


@pytest.mark.parametrize(
    ("clauses", "counter"),
    [
        (["integer n"], ("n", "integer")),
        (["integer n positive"], ("n", "integer positive")),
        (["integer n", "n > 2"], ("n", "integer")),
        (["integer"], None),
        (["n"], None),
        (["even n p"], None),
        (["integer n", "integer m"], None),
        (["n > 1"], None),
    ],
)
def test_the_letter_that_counts(clauses, counter):
    found = _counter(conditional("2n", "for", *clauses))
    assert found is None if counter is None else found[:2] == counter


@pytest.mark.parametrize(
    ("value", "lead", "restricts"),
    [
        ("5", "when", True),
        ("x = 5", "when", True),
        ("x", "when", False),
        ("5", "given", True),
        ("x", "given", False),
        ("5", "for", False),
        ("x", "if", True),
        ("x", "otherwise", True),
    ],
)
def test_which_conditions_restrict(value, lead, restricts):
    assert _restricts(conditional(value, lead, "n > 1")) is restricts


def test_values_without_conditions_that_agree():
    ours, theirs = (
        conditional(r"2 \pi n", "for", "integer n", "n > 1"),
        conditional(r"2 \pi k", "for", "integer k", "k > 1"),
    )
    assert unconditioned(ours, theirs) == (theirs.args[0], theirs.args[0])
    other = conditional(r"2 \pi n", "for", "integer n", "n > 2")
    assert unconditioned(other, theirs) is None
    assert (
        unconditioned(conditional(r"2 \pi n", "for", "natural n"), conditional(r"2 \pi k", "for", "integer k")) is None
    )
    for with_other in (r"2 \pi n + k", r"2 \pi n"):  # k stands for something else on one side
        gold = r"2 \pi k" if "k" in with_other else r"2 \pi k + n"
        assert unconditioned(conditional(with_other, "for", "integer n"), conditional(gold, "for", "integer k")) is None
    five, restricted, bounded = parse("5"), conditional("5", "if", "n > 1"), conditional("5", "for", "n > 1")
    assert unconditioned(five, restricted) is unconditioned(restricted, five) is None
    assert unconditioned(five, bounded) == unconditioned(bounded, five) == (five, five)


def test_values_in_the_order_of_their_names():
    for pair, order in (("(b, a) = (2, 1)", "(1, 2)"), ("(a, b) = (2, 1)", "(2, 1)"), ("(z, x) = (2, 1)", "(1, 2)")):
        assert in_order_of_names(parse(pair)) == parse(order)
    for other in ("(a, b) = (2, 1, 3)", "x = (2, 1)", "(y, x) = 2", "(2, 1)"):
        assert in_order_of_names(parse(other)) == parse(other)
    assert in_order_of_letters(parse("(y, x) = (2, 1)")) == parse("(1, 2)")
    for other in ("(b, m) = (2, 1)", "(z, x) = (2, 1)"):  # no letters that follow each other
        assert in_order_of_letters(parse(other)) == parse(other)
    for items, order in ((["y = 2", "x = 1"], [1, 2]), (["y = 2", "y = 1"], [2, 1]), (["y = 2", "1"], [2, 1])):
        assert in_name_order(list(map(parse, items))) == list(map(num, order))
    assert in_order_of(parse("a:b"), parse("b:a"), parse("4:3")) == parse("3:4")
    assert in_order_of(parse("a:b"), parse("b:c"), parse("4:3")) is None
    assert in_order_of(parse("a:b"), parse("b:a"), parse("4:3:2")) is None


def test_a_name_before_a_list_names_all_of_it():
    assert shared_name(parse("n = 2, 3, 4")) == parse("2, 3, 4")
    for other in ("n = 2, n = 3", "2, 3", "2n = 2, 3", "2, n = 3", "n < 2, 3"):
        assert shared_name(parse(other)) == parse(other)


@pytest.mark.parametrize(
    ("name", "gold", "are_one"),
    [("y", "f(x)", True), ("x", "f(x)", False), ("Area", "y", True), ("y", "z", False), ("f(x)", "g(t)", True)],
)
def test_names_for_one_thing(name, gold, are_one):
    assert same_names(sym(name), sym(gold)) is are_one


def test_letters_of_a_word_are_those_of_a_product():
    assert same_letters(sym("cab"), parse("abc"))
    for word, product in (("ca", "ac"), ("cab", "abd"), ("cab", "2abc"), ("aab", "abb"), ("cab", "a+b+c")):
        assert not same_letters(sym(word), parse(product))


MATRIX = r"\begin{pmatrix} 1 & 2 \cr 3 & 4 \end{pmatrix}"


@pytest.mark.parametrize(
    ("response", "gold", "is_right"),
    [
        # Ratios.
        ("2", "2:1", True),
        ("1:2:3", "2:4:6", True),
        ("1:2:3", "2:4:7", False),
        ("1:2", "1:2:3", False),
        # Angles and units.
        (r"180^\circ", r"\pi", True),
        (r"\pi", r"180^\circ", True),
        (r"45^\circ", r"\arctan 1", True),
        (r"\arctan 1", r"45^\circ", True),
        (r"\arctan 1", r"46^\circ", False),
        (r"5 \text{ cm}", r"50 \text{ mm}", True),
        (r"5 \text{ cm}", r"5 \text{ kg}", False),
        # The letters of constants, and the engineers' unit.
        ("x^2 + c_1", "x^2 + C_1", True),
        ("x^2 + c + y", "x^2 + C", False),
        ("2j", "2i", True),
        ("3j", "2i", False),
        ("2j + i", "2i", False),
        # Decimals for exact numbers: fifteen digits, and none where the gold has a finite one or is one of pi.
        ("0.333333333333333", r"\frac{1}{3}", True),
        ("0.33333333333333", r"\frac{1}{3}", False),
        ("0.20000000001", r"\frac{1}{5}", False),
        ("1.41421356237310", r"\sqrt{2}", True),
        ("1.4142135623731", r"\sqrt{2}", False),
        ("3.14159265358979", r"\pi", False),
        ("0.5", r"\sin 30^\circ", True),
        # Infinities.
        (r"\infty", r"-\infty", False),
        ("5", r"\infty", False),
        (r"\infty - \infty", "0", False),
        # Percentages.
        ("0.5", r"50\%", True),
        (r"50\%", "0.5", True),
        (r"50\%", "50", False),
        # Names of one thing.
        ("y = x^2", "f(x) = x^2", True),
        ("Area = 3", "y = 3", True),
        ("g(t) = t^2", "f(x) = x^2", False),
        # Sets and matrices.
        ("1", r"\{1\}", True),
        (r"\{1\}", "1", False),
        ("1", r"\{1, 2\}", False),
        (r"\{1, 2\}", r"\{1\}", False),
        (MATRIX, "((1, 2), (3, 4))", True),
        (MATRIX, f"2{MATRIX}", False),
        (MATRIX, "5", False),
        ("5", MATRIX, False),
        # Residues.
        (r"n \equiv 2 \pmod 4", r"n \equiv -2 \pmod 4", True),
        (r"n \equiv 2 \pmod 4", r"n \equiv 3 \pmod 4", False),
        (r"n \equiv 2 \pmod 4", r"n \equiv 2 \pmod 5", False),
        (r"n \equiv 2 \pmod 4", r"m \equiv 2 \pmod 4", False),
        (r"2 \pmod 4", r"n \equiv 6 \pmod 4", True),
        (r"n \equiv 6 \pmod 4", r"2 \pmod 4", True),
        (r"n \equiv 2 \equiv 3 \pmod 4", r"n \equiv 2 \pmod 4", False),
        (r"n \equiv 2 \pmod 4", r"n \equiv 2 \equiv 3 \pmod 4", False),
        (r"\frac12 \pmod 4", r"\frac92 \pmod 4", True),
        ("5", r"1 \pmod 4", False),
    ],
)
def test_numbers_in_all_their_forms(response, gold, is_right):
    assert same(parse(response), parse(gold), Rules()) is is_right


@pytest.mark.parametrize(
    ("response", "rules", "is_right"),
    [
        ("4.2", Rules(unit="%"), True),
        (r"4.2\%", Rules(unit="%"), True),
        (r"42\%", Rules(unit="%"), False),
        ("4.3", Rules(tolerance=Fraction(1, 10)), True),
        ("4.31", Rules(tolerance=Fraction(1, 10)), False),
        (r"420 \text{ cm}", Rules(unit="m"), True),
        (r"420 \text{ kg}", Rules(unit="m"), False),
    ],
)
def test_what_a_task_says_of_the_gold(response, rules, is_right):
    assert same(parse(response), parse("4.2"), rules) is is_right
