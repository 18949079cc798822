"""How far around a word the grader looks: the last place at which it sees something, and the next, where it does not.

A row gives a function of a distance, the largest distance that is seen, and the answers there and one step beyond.
"""

import pytest

from stapo_bench.grading.decide.asked import asked_by
from stapo_bench.grading.decide.asserted import _last_time, asserts
from stapo_bench.grading.decide.read_again import _with_point, read_again, states_identity
from stapo_bench.grading.decide.restated import restates
from stapo_bench.grading.decide.text_answers import time
from stapo_bench.grading.evaluate import refill
from stapo_bench.grading.extraction import extract_answer, named_values
from stapo_bench.grading.extraction.boxes import based, has_labels
from stapo_bench.grading.extraction.clauses import _firm_runs, _strength, in_clause
from stapo_bench.grading.extraction.concluding import conclusion
from stapo_bench.grading.extraction.endings import breaks_off, is_finished
from stapo_bench.grading.extraction.extraction import _whole
from stapo_bench.grading.extraction.formulas import hide_formulas
from stapo_bench.grading.extraction.openings import opening_value
from stapo_bench.grading.extraction.readings import boxes_for, prose_of
from stapo_bench.grading.extraction.spans import spans
from stapo_bench.grading.extraction.statements import _emphasised, stated
from stapo_bench.grading.extraction.tokens import tokens
from stapo_bench.grading.units import NEXT_PART
from stapo_bench.records import Gold

W = "w" * 50_000


@pytest.fixture(autouse=True)
def _full_budget():
    refill()


@pytest.mark.parametrize(
    ("make", "gold", "most", "right"),
    [
        (lambda n: f"It never {'quite ' * n}is undefined.", "undefined", 2, False),  # "never": of the last four words
        (lambda n: "不" + "在" * n + "东方", "东方", 3, False),  # of the last four characters
        (lambda n: f"{'Now ' * n}if it were, there is no solution.", "no solution", 1, False),  # of the first two words
        (lambda n: f"It was maybe {'quite ' * n}Friday.", "Friday", 2, False),  # of the last three
        (lambda n: f"It was Friday {'quite ' * n}or so.", "Friday", 0, False),  # the next word
        (lambda n: f"{'Now ' * n}the Friday came.", "Friday", 1, False),  # what opens a clause is known already
        (lambda n: f"It gets even {'quite ' * n}so.", "even", 0, False),  # the next word
        (lambda n: f"It is {'quite ' * n}even so.", "even", 1, True),  # of the last two
        (lambda n: f"It was {'quite ' * n}Ann.", "Ann", 2, True),  # of the last three
        (lambda n: f"Ann {'quite ' * n}wins.", "Ann", 2, True),  # of the next three
    ],
)
def test_how_far_from_an_answer_a_word_counts(make, gold, most, right):
    assert asserts(make(most), gold, None) is right
    assert asserts(make(most + 1), gold, None) is not right


@pytest.mark.parametrize(
    ("said", "name", "right"), [("It was Al.", "Al", False), ("It was Ali.", "Ali", True), ("是东。", "东", False)]
)
def test_a_name_has_three_letters_or_two_signs(said, name, right):
    assert asserts(said, name, None) is right


def firm(clause):
    """How many values of a clause no word before them bounds."""
    return len(_firm_runs(clause, tokens(clause)))


def strength(clause):
    """Of the last value of a clause."""
    pieces = tokens(clause)
    return _strength(pieces, spans(pieces)[-1])


BASE_7, OPEN = r"101 \text{(in base 7)}", "\nSince three to the"


@pytest.mark.parametrize(
    ("see", "most", "seen", "beyond"),
    [
        # A sign, a base and a plural beside an answer: so many characters, those of the words themselves among them.
        (lambda n: extract_answer(rf"x is{' ' * n}-\boxed{{8}}"), 30 - len("is-"), "-8", "8"),
        (lambda n: based("101", "", f"base{' ' * n}7"), 60 - len("base7"), BASE_7, "101"),
        (lambda n: based("101", f"in base{' ' * n}7", ""), 80 - len("in base7"), BASE_7, "101"),
        (lambda n: based("0" * n, "in base 7", "").endswith("7)}"), 20, True, False),
        (lambda n: based("3,5", f"roots{' ' * n}", ""), 30 - len("roots"), "3, 5", "3,5"),
        (
            lambda n: based(r"\log 2", "", W[:n] + r"\log is base 10"),
            200 - len(r"\log is base 10"),
            r"\log_{10} 2",
            r"\log 2",
        ),
        (lambda n: has_labels(f"(a) {W[:n]} (b)"), 20_000 - len("(a)  (b)"), True, False),
        (
            lambda n: boxes_for(rf"\boxed{{3}}{W[:n]}\boxed{{4}}", 2, labels=True),
            50_000 - 2 * len(r"\boxed{3}"),
            f"3{NEXT_PART}4",
            None,
        ),
        # Prose.
        (lambda n: _whole("7" * n) is not None, 200, True, False),
        (lambda n: firm(f"x at least{' ' * n}7"), 60 - len("at least"), 1, 2),
        (lambda n: strength(f"it is {'about ' * n}7"), 5, 2, 0),  # of the last six words
        (lambda n: in_clause("so " * n + "x", hide_formulas("")), 2, "x", None),  # of three words
        (lambda n: stated("x = 7." + " " * n), 3_000 - len("x = 7."), "x = 7", "7"),
        (lambda n: stated("x = 7." + " Is it so?" * n), 5, "x = 7", None),
        (lambda n: stated(f"The {W[:n]} is an ellipse."), 200 - len("The  is an ellipse"), "ellipse", None),
        (lambda n: _emphasised(f"{W[:n]} **7 apples**"), 2, None, "7 apples"),  # eight characters beside it, stars too
        (
            lambda n: [pair.name for pair in named_values("mean is 4; mode is 5." + " " * n)],
            600 - len("mean is 4; mode is 5."),
            ["mean", "mode"],
            ["ean", "mode"],
        ),
        (lambda n: opening_value("1" * n + OPEN) is not None, 30, True, False),
        # A short response, and a short last line, need no full stop.
        (lambda n: is_finished(W[:n]), 1_999, True, False),
        (lambda n: is_finished(f"{W[:2_000]}\n{W[:n]}"), 29, True, False),
        (lambda n: is_finished(f"{W[:2_000]} is {'1' * n}"), 200 - len("is "), True, False),
        (lambda n: breaks_off("A. " + W[:n], 0), 1_999 - len("A. "), False, True),
        # Questions, and answers that are read once more.
        (lambda n: asked_by(W[:n] + " in base 7").base, 20_000 - len(" in base 7"), 7, None),
        (lambda n: restates("6*7", "42", "What is 6*7" + "?" * n), 200 - len("What is 6*7"), True, False),
        (lambda n: _with_point("1" * n + ",5") is not None, 300 - len(",5"), True, False),
        (lambda n: read_again("B) " + "1" * n, Gold(answer="7")) is not None, 300 - len("B) "), True, False),
        (lambda n: states_identity(f"x+x{' ' * n}= 2x", Gold(answer="2x")), 300 - len("x+x= 2x"), True, False),
        # Times of the day.
        (lambda n: _last_time(f"{n} past 7"), 59, "7:59", None),
        (lambda n: time(f"{n}:00"), 24, (24, 0, 0, ""), None),
        (lambda n: time(f"{n}pm"), 12, (12, 0, 0, "pm"), None),
        (lambda n: time(f"{n}am"), 0, None, (1, 0, 0, "am")),
    ],
)
def test_the_last_place_that_is_seen(see, most, seen, beyond):
    assert see(most) == seen
    assert see(most + 1) == beyond


def test_no_more_than_so_much_is_read():
    assert len(prose_of(W[:20_001])) == 20_000
    assert len(conclusion(W[:801])) == 800
    assert firm("1 is " * 61) == 60
    assert named_values("The big blue mean value is 4.")[0].name == "blue mean value"
