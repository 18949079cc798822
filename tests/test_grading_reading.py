"""Both sides of single conditions of the parser, by hand: what is read, and what is refused beside it."""

from fractions import Fraction

import pytest

from stapo_bench.grading.evaluate import refill
from stapo_bench.grading.read import in_digits, parse
from stapo_bench.grading.read.lexer import lex
from stapo_bench.grading.read.mixed_units import join_mixed
from stapo_bench.grading.tree import Kind, Node, Refusal, add, call, divide, mul, num, power, sym

X, Y = sym("x"), sym("y")


def decimal(text):
    """A number written with so many places."""
    return num(Fraction(text), Fraction(1, 10 ** len(text.partition(".")[2])))


def quantity(value, unit):
    return Node(Kind.QUANTITY, (value,), unit)


@pytest.fixture(autouse=True)
def _full_budget():
    refill()


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        # A whole number before a proper fraction is mixed; before anything else it multiplies.
        (r"0\frac{1}{2}", num(Fraction(1, 2))),
        (r"2\frac{x}{3}", mul(num(2), divide(X, num(3)))),
        (r"2\frac{0}{3}", mul(num(2), divide(num(0), num(3)))),
        (r"x\frac{1}{2}", mul(X, divide(num(1), num(2)))),
        (r"1.5\frac{1}{2}", mul(decimal("1.5"), divide(num(1), num(2)))),
        # An x multiplies between a number and a power of ten.
        ("4.5 x 10^3", mul(decimal("4.5"), power(num(10), num(3)))),
        ("4.5 x 10", mul(decimal("4.5"), X, num(10))),
        ("4.5 x 11^3", mul(decimal("4.5"), X, power(num(11), num(3)))),
        ("y x 10^3", mul(Y, X, power(num(10), num(3)))),
        # Signs.
        ("-+-5", num(5)),
        ("2--3", add(num(2), num(3))),
        ("-+-+-+-+5", num(5)),
        ("5!!", call("factorial2", num(5))),
        ("x^(2)", power(X, num(2))),
        ("x^-2", power(X, num(-2))),
        ("x' + y''", add(sym("x'"), sym("y''"))),
        (r"5^{\text{th}}", num(5)),
        # A U between intervals is a union, else a letter.
        (
            "(1,2)U(3,4)",
            Node(Kind.UNION, tuple(Node(Kind.TUPLE, (num(low), num(low + 1)), "()") for low in (1, 3))),
        ),
        ("(1,2)U", mul(Node(Kind.TUPLE, (num(1), num(2)), "()"), sym("U"))),
        # Functions: their bases, exponents and arguments.
        (r"\lg 100", divide(call("ln", num(100)), call("ln", num(10)))),
        (r"\lg_2 8", divide(call("ln", num(8)), call("ln", num(2)))),
        (r"\sin^2 x", power(call("sin", X), num(2))),
        (r"\sin^{-1} x", call("arcsin", X)),
        (r"\log^{-1} x", power(call("ln", X), num(-1))),
        (r"\sin 2x/3", call("sin", divide(mul(num(2), X), num(3)))),
        (r"\sin 2/3", divide(call("sin", num(2)), num(3))),
        (r"\sin x/y", divide(call("sin", X), Y)),
        (r"\sin x y \cos x", mul(call("sin", mul(X, Y)), call("cos", X))),
        (r"\sin x \sqrt{2}", call("sin", mul(X, call("sqrt", num(2))))),
        # Values of functions are names of their own; (1) behind another letter is a factor.
        ("f^{-1}(x)", sym("f^-1(x)")),
        ("f^{n}(x)", mul(power(sym("f"), sym("n")), X)),
        ("f(2)", sym("f(2)")),
        ("P(0)", sym("P(0)")),
        ("P (0)", mul(sym("P"), num(0))),
        ("P(1)", mul(sym("P"), num(1))),
        # A bar over a sum conjugates it, over letters it is part of a name.
        (r"\overline{2+i}", call("conj", add(num(2), sym("i")))),
        (r"\overline{AB}", sym("bar(AB)")),
        (r"\overline{-z}", sym("bar(-z)")),
        (r"\vec{v}", sym("v")),
        (r"\vec{AB}", sym("vec(AB)")),
        (r"\hat{v}", sym("hat(v)")),
        (r"\angle A_1 B", sym("angle(A_1B)")),
        # Roots, digits one by one, braces, floors.
        (r"\sqrt[2]{8}", call("sqrt", num(8))),
        (r"\sqrt[3]{8}", call("root", num(8), num(3))),
        (r"\binom52", call("binom", num(5), num(2))),
        (r"{3, 4}", Node(Kind.SET, (num(3), num(4)))),
        (r"{3}", num(3)),
        (r"\lceil x \rceil", call("ceil", X)),
        ("||x| - 1|", call("abs", add(call("abs", X), num(-1)))),
        # The d of Leibniz.
        (r"\frac{dx}{dt}", sym("dot(x)")),
        (r"\frac{dy}{dx}", sym("dot(y,x)")),
        (r"\frac{d^2 x}{dt^2}", sym("ddot(x)")),
        (r"\frac{dx}{dt^2}", divide(mul(sym("d"), X), mul(sym("d"), power(sym("t"), num(2))))),
        (r"\frac{dx}{2t}", divide(mul(sym("d"), X), mul(num(2), sym("t")))),
        # Numerals with a base, and with a period.
        ("52_8", Node(Kind.NUMBER, (), "base 8", Fraction(42))),
        ("52_{(8)}", Node(Kind.NUMBER, (), "base 8", Fraction(42))),
        (r"12_{\text{three}}", Node(Kind.NUMBER, (), "base 3", Fraction(5))),
        (r"0.1\overline{6}", num(Fraction(1, 6))),
        (r"0.\dot{1}4285\dot{7}", num(Fraction(1, 7))),
        (r"0.333\ldots", num(Fraction(1, 3))),
        (r"0.33\ldots", decimal("0.33")),
        (r"0.1212\ldots", num(Fraction(4, 33))),
        ("3.", num(3)),
        ("3e2", num(300, Fraction(100))),
        ("3.e2", num(300, Fraction(100))),
        # Quantities.
        (r"5 \text{ J/(kg \cdot K)}", quantity(num(5), "J/ kg K")),
        (r"\text{2 \cdot 3}", mul(num(2), num(3))),
        ("5 ft 6 in", add(quantity(num(5), "ft"), quantity(num(6), "in"))),
        (r"5 \text{ m}^{-2}", quantity(num(5), "m ^-2")),
        (r"90^\circ F", quantity(num(90), "degF")),
        (r"90^\circ K", quantity(num(90), "K")),
        (r"90^{\circ}", quantity(num(90), "deg")),
        ("5%%", mul(mul(num(5), num(Fraction(1, 100))), num(Fraction(1, 100)))),
        ("1 third", mul(num(1), num(Fraction(1, 3)))),
    ],
)
def test_what_is_read(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (r"5\frac{4}{3}", "neither a mixed number nor a product"),
        (r"3\frac{1.5}{2}", "neither a mixed number nor a product"),
        ("1 5/4", "two numbers side by side"),
        (r"\frac123", "two numbers side by side"),
        ("3'", "leftover"),
        ("+-+-+-+-+5", "too many signs"),
        (r"\sin_2 x", "subscript on sin"),
        (r"\sin^{\circ} x", "degrees of a function name"),
        (r"\angle", "of nothing"),
        (r"\lfloor x \rceil", "expected 'rfloor'"),
        ("a{,}b", "stray comma"),
        ("12_{two}", "no numeral in base 2"),
        ("1e3_8", "no numeral in base 8"),
        (r"0.\overline{x}", "cannot read the period"),
        (r"5 \text{ squared}", "not a unit"),
        (r"5 \text{ m}^x", "unit power is no number"),
        # A number among the conditions of another is a second answer, unless it goes on counting.
        (r"5 \text{ for } 2", "a second value"),
        (r"5 \text{ for the number } 6", "a second value"),
        (r"5 \text{ for } n = 1, 3", "a second value"),
        (r"5 \text{ for } n > 1, 2", "a second value"),
        (r"5 \text{ with } n = 2, 3, 5", "a second value"),
        (r"x = 5 \text{ for } x = 6", "a second value"),
        (r"5 \text{ for } n = 1, 2 \text{ possible}", "a second value"),
    ],
)
def test_what_is_refused(text, why):
    with pytest.raises(Refusal, match=why):
        parse(text)


def relation(left, sign, right):
    return Node(Kind.RELATION, (left, right), sign)


N = sym("n")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        (r"5 \text{ for } n = 1, 2, 3", Node(Kind.CONDITIONAL, (num(5), relation(N, "=", num(1))), "for")),
        (r"n^2 \text{ for } n = 1, 3", Node(Kind.CONDITIONAL, (power(N, num(2)), relation(N, "=", num(1))), "for")),
        (
            r"x = 5 \text{ for } y = 6",
            Node(Kind.CONDITIONAL, (relation(X, "=", num(5)), relation(Y, "=", num(6))), "for"),
        ),
        (
            r"x = 5 \text{ for } x = 5",
            Node(Kind.CONDITIONAL, (relation(X, "=", num(5)), relation(X, "=", num(5))), "for"),
        ),
        (r"5 \text{ since } n > 2", num(5)),
        # An item that bounds a letter of those before it is their condition.
        (r"2^n, n \ge 1", Node(Kind.CONDITIONAL, (power(num(2), N), relation(N, ">=", num(1))), "for")),
        (r"x, y \ge 1", Node(Kind.LIST, (X, relation(Y, ">=", num(1))), ",")),
        (r"2n, n = 3", Node(Kind.LIST, (mul(num(2), N), relation(N, "=", num(3))), ",")),
        (
            r"x > n, n \in \mathbb{Z}",
            Node(Kind.LIST, (relation(X, ">", N), relation(N, "in", sym("mathbb(Z)"))), ","),
        ),
        (
            r"2n, n \in \mathbb{Z}_+",
            Node(Kind.CONDITIONAL, (mul(num(2), N), Node(Kind.WORDS, (), "integer n positive")), "for"),
        ),
        (
            r"n, 2n \in \mathbb{Z}",
            Node(Kind.LIST, (N, relation(mul(num(2), N), "in", sym("mathbb(Z)"))), ","),
        ),
    ],
)
def test_what_stands_behind_a_value(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        (r"2, 4, \ldots, 10", [2, 4, 6, 8, 10]),
        (r"10, 8, \ldots, 2", [10, 8, 6, 4, 2]),
        (r"1, \ldots, 5", [1, 2, 3, 4, 5]),
        (r"1, 3, \ldots, 7, 9", [1, 3, 5, 7, 9]),
        (r"1, \ldots, 60", range(1, 61)),
        (r"1, 2, 4, \ldots, 64", [1, 2, 4, 8, 16, 32, 64]),
        (r"1, 2, 4, \ldots, 32, 64", [1, 2, 4, 8, 16, 32, 64]),
        (r"1, -2, 4, \ldots, -32", [1, -2, 4, -8, 16, -32]),
        # Not so many terms, or no number of them, or none that leads there.
        (r"1, \ldots, 61", None),
        (r"2, 4, \ldots, 9", None),
        (r"5, \ldots, 1", None),
        (r"1, 1, \ldots, 1", None),
        (r"1, 3, \ldots, 8, 9", None),
        (r"1, 2, \ldots, 64", None),
        (r"1, 2, 4, \ldots, 60", None),
        (r"64, 32, 16, \ldots, 1", None),
        (r"0, 0, 0, \ldots, 4", None),
        (r"1, \ldots, 3, \ldots, 5", None),
        (r"\ldots, 3, 4", None),
    ],
)
def test_what_dots_stand_for(text, terms):
    found = parse(text).args
    if terms is None:
        assert Node(Kind.DOTS) in found
    else:
        assert found == tuple(map(num, terms))


def test_a_row_without_an_end_keeps_two_terms():
    assert parse(r"2, 4, 6, \ldots") == parse(r"2, 4, \ldots") != parse(r"2, 4, 7, \ldots")
    assert parse(r"2, 4, 6, \ldots, 2n") == parse(r"2, 4, \ldots, 2n")


SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
SMALL = [*SMALL.split(), "seventeen", "eighteen", "nineteen"]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spelled(number):
    """A number below 10^15 in words."""
    for size, name in (
        (10**12, "trillion"),
        (10**9, "billion"),
        (10**6, "million"),
        (1000, "thousand"),
        (100, "hundred"),
    ):
        if number >= size:
            rest = f" {spelled(number % size)}" if number % size else ""
            return f"{spelled(number // size)} {name}{rest}"
    if number < 20:
        return SMALL[number]
    return TENS[number // 10 - 2] + (f"-{SMALL[number % 10]}" if number % 10 else "")


def test_numbers_in_words_are_those_that_were_spelled():
    for number in (*range(120), 999, 1000, 1001, 12_345, 10**6, 2_003_004_005, 7 * 10**12 + 80, 999_999_999_999_999):
        assert in_digits(spelled(number)) == str(number)
    for words in ("two three", "twenty thirty", "twenty zero", "one hundred two hundred three four", "twenty eleven"):
        assert in_digits(words) is None


def test_letters_side_by_side():
    def letters(text):
        return [token.text for token in lex(text)]

    for product in ("RsC", "abc", "xyz", "mgh", "xy", "bcdf"):
        assert letters(product) == list(product)
    for word in ("Cat", "ABC", "bca", "bed", "no", "of", "bcdfg", "pix"):
        assert letters(word) == [word]
    assert letters("xpi") == ["x", "pi"]
    assert letters("12,345 12,34") == ["12345", "12", ",", "34"]
    assert letters("(1,234)") == ["(", "1", ",", "234", ")"] and letters("0,123") == ["0", ",", "123"]


def test_two_units_of_one_dimension_in_order_are_one_quantity():
    assert join_mixed("5 h 30 min") == r"5 \text{ h } 30 \text{ min }"
    assert join_mixed("5 h 30 m") == join_mixed("5h30m") == r"5 \text{ h } 30 \text{ min }"
    assert join_mixed("2 h 5 m 30 s") == r"2 \text{ h } 5 \text{ min } 30 \text{ s }"
    assert join_mixed(r"5 \text{ft} 6 in") == r"5 \text{ ft } 6 \text{ in }"
    assert join_mixed("45^{\\circ} 30' 15''") == r"(45+\frac{30}{60}+\frac{15}{3600})^{\circ}"
    assert join_mixed("45 1/2 deg") == r"(45+\frac{1}{2}) deg"
    for other in ("5 min 30 h", "5 ft 30 m", "5 kg and 3 cm", "x 5 h 3 min", "5 h"):
        assert join_mixed(other) == other
