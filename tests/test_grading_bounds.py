"""The bounds of the grader at their edges: what is just short enough is read, one more is not."""

import pytest

from stapo_bench.grading import grade_answer
from stapo_bench.grading.decide import decide
from stapo_bench.grading.evaluate import TooLarge, spend
from stapo_bench.grading.extraction import extract_answer, named_values
from stapo_bench.grading.graders.mathematics import extract_for, quick_grade
from stapo_bench.grading.read import parse
from stapo_bench.grading.tree import Refusal
from stapo_bench.records import Gold, Outcome


@pytest.mark.parametrize(
    ("make", "most", "why"),
    [
        (lambda n: "1" * n, 4000, "too long"),
        (lambda n: "x" + " " * (n - 1), 4000, "too long"),
        (lambda n: "1e" + "0" * n, 5, "number too long"),
        (lambda n: f"1e{n}", 4000, "exponent too large"),
        (lambda n: "*".join("x" * n), 200, "too many factors"),
        (lambda n: "x" + "'" * n, 19, "too many powers and signs behind a value"),
        (lambda n: "5" + "%" * n, 20, "too many percent signs"),
        (lambda n: "+" * n + "5", 8, "too many signs"),
        (lambda n: rf"5 \text{{{'big ' * n}}}", 40, "a unit of too many words"),
        (lambda n: "(" * n + "1" + ")" * n, 15, "nested too deeply"),  # each takes two levels, of 32
        (lambda n: r"\frac{1}{" * n + "1" + "}" * n, 15, "nested too deeply"),
        (lambda n: r"\sin" * n + " x", 31, "nested too deeply"),
        (lambda n: f"({'1,' * n}1)", 1499, "too many tokens"),  # two to a value, of 3000
        (lambda n: rf"0.\overline{{{'1' * n}}}", 60, "cannot read the period"),
        (lambda n: rf"\begin{{{'a' * n}}}1\end", 12, "unknown environment"),
    ],
)
def test_the_longest_that_is_read(make, most, why):
    for length, is_beyond in ((most, False), (most + 1, True)):
        try:
            parse(make(length))
            refused = ""
        except Refusal as refusal:
            refused = str(refusal)
        assert (refused == why) is is_beyond, (length, refused)


def branches(count, first):
    rows = [f"0 & {first}", *(f"{k} & x = {k}" for k in range(1, count))]
    return r"\begin{cases}" + r"\\".join(rows) + r"\end{cases}"


@pytest.mark.parametrize(
    ("response", "gold", "most", "why"),
    [
        (lambda n: ",".join(map(str, range(n))), lambda n: ",".join(map(str, range(n)[::-1])), 60, "too many items"),
        (
            lambda n: rf"\{{{','.join(map(str, range(n)))}\}}",
            lambda n: rf"\{{{','.join(map(str, range(n)[::-1]))}\}}",
            60,
            "set too large",
        ),
        (lambda n: branches(n, "x = 0"), lambda n: branches(n, "0 = x"), 12, "too many cases"),
        (lambda n: "1" * n, lambda n: "1" * n, 20_000, "longer than 20000 characters"),
    ],
)
def test_the_largest_that_is_compared(response, gold, most, why):
    assert grade_answer(rf"\boxed{{{response(most)}}}", gold(most)).outcome is Outcome.CORRECT
    assert grade_answer(rf"\boxed{{{response(most + 1)}}}", gold(most + 1)).detail == f"not comparable: {why}"


def test_four_signs_of_two_values_are_spread():
    values = ", ".join(map(str, range(-8, 9, 4)))
    assert grade_answer(r"\boxed{\pm 2 \pm 2 \pm 2 \pm 2}", values).detail == "mathematics"
    assert "plus-or-minus" in grade_answer(r"\boxed{\pm 2 \pm 2 \pm 2 \pm 2 \pm 2}", values).detail


@pytest.mark.parametrize(
    ("response", "gold", "right"),
    [
        ("0.33333333333333", r"\frac13", False),
        ("0.333333333333333", r"\frac13", True),  # fifteen digits stand for what has no finite decimal
        ("0.333333333333334", r"\frac13", True),  # within one unit of its last place
        ("0.333333333333335", r"\frac13", False),
        ("0.12500000001", r"\frac18", False),  # 1/8 has one
        ("3.14159265359", r"\pi", False),  # digits are not pi
        ("1.41421356237310", r"\sqrt2", True),
        ("0.990", "1.0", True),  # one percent, and half a unit in the last place
        ("0.989", "1.0", False),
        ("1.010", "1.0", True),
        ("1.011", "1.0", False),
        ("7.4e37", "7e37", False),
        ("0.1476", "0.15", False),
        (r"\frac16", "0.2", False),
        (r"\frac16", "0.17", True),
        (r"0.1\overline{6}", "0.17", False),  # digits: two percent off
        (r"\frac{1}{3}", "0.33", True),
    ],
)
def test_decimals_at_their_precision(response, gold, right):
    assert (grade_answer(rf"\boxed{{{response}}}", gold).outcome is Outcome.CORRECT) is right


W = "w" * 50_000
STEPS = [f"Step {letter} holds.\n" for letter in "abcdefgh"]


@pytest.mark.parametrize(
    ("make", "most", "answer", "beyond"),
    [
        (lambda n: f"The final answer is {W[:n]} 7", 198, "7", W[:199] + " 7"),  # a line of 200 is prose
        (lambda n: f"7, since {W[:n]} it is", 185, "7", None),  # a line of 200 opens with its answer
        (lambda n: rf"\boxed{{7}} {W[:n]} Wait, that is wrong. The answer is 8.", 1494, "8", "7"),
        (lambda n: rf"5% {W[:n]} \boxed{{5}}", 996, r"5 \text{(in percent)}", "5"),
        (lambda n: f"{W[:n]} it equals 17.\n" * 2 + f"{W[:n]} it equals 1", 1319, "17", "1"),  # 4,000 in three copies
        (lambda n: f'{{"steps": "{W[:n]}", "answer": "x=7"}}', 19_970, "x=7", "x = 7"),  # 20,000 of JSON
        (lambda n: f'Here: {{"answer": "seven"}}{"!" * n}', 3, "seven", "7"),
        (lambda n: f"It is 7. {W[:n]}. So we have that x = 8 and this shows much", 1947, "x = 8", None),  # of 2,000
        (lambda n: f"So x = 7. {W[:n]}. I don't know. But x = 8.", 1463, "x = 8", None),
        (lambda n: f'{{"{"x" * n}": 3, "y": 4}}', 2, "xx = 3, y = 4", "4"),
        (
            lambda n: (
                ("Step holds.\n" * (n - 1) + "The answer is 17.\n") * 2 + "Step holds.\n" * (n - 1) + "The answer is 1"
            ),
            5,
            "17",
            "1",
        ),
        (
            lambda n: "What follows.\n" + "Question: What?\n" * n + "So it is 7.\n\nQuestion: What is 3+3?\n6",
            7,
            "7",
            "6",
        ),
        (
            lambda n: " or ".join(rf"\boxed{{{k}}}" for k in range(n)),
            40,
            ", ".join(map(str, range(40))),
            ", ".join(map(str, range(1, 41))),
        ),
        (
            lambda n: " ".join(f"Then {chr(97 + k)} = {k + 2}." for k in range(n)),
            3,
            r"a = 2 \text{(and)} b = 3 \text{(and)} c = 4",
            r"b = 3 \text{(and)} c = 4 \text{(and)} d = 5",
        ),
    ],
)
def test_how_far_an_answer_is_looked_for(make, most, answer, beyond):
    assert extract_answer(make(most)) == answer
    assert extract_answer(make(most + 1)) == beyond


def test_a_quick_look_is_for_short_replies():
    gold = Gold(answer="7")
    assert quick_grade(r"\boxed{7}".ljust(10_000), gold) is not None
    assert quick_grade(r"\boxed{7}".ljust(10_001), gold) is None
    assert quick_grade(r"\boxed{7}", Gold(answer="7".ljust(10_001))) is None
    assert quick_grade(r"\boxed{\frac12}", Gold(answer="0.5")) is None  # it takes mathematics
    assert quick_grade("no answer", gold) is None


def test_six_values_have_names():
    def names(count):
        return [named.name for named in named_values(" and ".join(f"{c} = 1" for c in "abcdpqr"[:count]) + ".")]

    assert names(6) == list("abcdpq")
    assert names(7) == list("bcdpqr")


def test_a_verdict_has_one_budget_whatever_was_spent_before_it():
    with pytest.raises(TooLarge):
        spend(10**9)
    extract_for("So it is 2.", Gold(answer="2"))
    spend()  # extraction began with a full budget
    with pytest.raises(TooLarge):
        spend(10**9)
    assert not decide("1/2", Gold(answer="2/4")).correct  # a verdict inside another fills up nothing
    assert grade_answer(r"\boxed{1/2}", "2/4").outcome is Outcome.CORRECT
