"""What replies and sentences say, by hand: JSON, lists, parts, loops, and the values among the words."""

import pytest

from stapo_bench.grading import grade_answer
from stapo_bench.grading.evaluate import refill
from stapo_bench.grading.extraction.boxes import boxes
from stapo_bench.grading.extraction.for_question import _until_remark, _without_last
from stapo_bench.grading.extraction.formulas import hide_formulas
from stapo_bench.grading.extraction.lists import block, last_items
from stapo_bench.grading.extraction.markup import json_reply, tagged
from stapo_bench.grading.extraction.readings import stated_parts
from stapo_bench.grading.extraction.spans import spans
from stapo_bench.grading.extraction.spoken import spoken
from stapo_bench.grading.extraction.tokens import tokens
from stapo_bench.grading.extraction.turns import until_similar_question, without_loop
from stapo_bench.grading.extraction.words import in_words
from stapo_bench.grading.read import parse
from stapo_bench.grading.read.characters import in_ascii
from stapo_bench.grading.units import NEXT_VALUE
from stapo_bench.records import Outcome


@pytest.fixture(autouse=True)
def _full_budget():
    refill()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": 5}', "5"),
        ('So {"answer": [-2, 5]}.', "-2, 5"),
        ('{"answer": 5}\nDone with all this', "5"),
        ('{"answer": 5} and that was all of it', None),
        ('{"answer": 5', None),
        ('Answer: { "answer": 5}', None),
        ("x = 5}", None),
        ('text\n{"a": 1, "answer": 7}\n', "7"),
        ('{"x": 1, "y": 2}', "x = 1, y = 2"),
        ('So {"roots": [4, -4]}.', "4, -4"),
        ("{'answer': 5}", "5"),
        ('{"answer": {"x": 1}}', "x = 1"),
        ('{"note": "hi", "steps": [1]}', None),
        ('```json\n{"answer": 9}\n``` ok ok ok', "9"),
    ],
)
def test_replies_in_json(text, answer):
    assert json_reply(text) == answer


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        (["The values are:", "- x = 1", "- y = 2"], "x = 1, y = 2"),
        (["roots", "- x = 1", "- y = 2"], "x = 1, y = 2"),
        (["Values:", "- ab = 1", "- cd = 2"], f"1{NEXT_VALUE}2"),
        (["Nothing here", "- 1", "- 2"], "1, 2"),
        (["x = 1", "y = 2"], "x = 1, y = 2"),
        (["Nothing here", "- x = 1", "- y = 2"], None),
        (["x = 0", "- x = 1", "- y = 2"], None),
        (["- 1"], None),
        (["Values:", "- only 5", "- only 6"], None),
        (["Values:", "- 5 apples", "- 6 pears"], None),
        (["Values:", "- ab: 5 apples", "- cd: 6 pears"], f"5{NEXT_VALUE}6"),
        (["Values:", "- five", "- six"], None),
    ],
)
def test_lines_that_list_values(lines, values):
    assert block(lines, len(lines) - 1) == values


def test_as_many_items_as_are_wanted():
    assert last_items("So\n- 1\n- 2", 2) == f"1{NEXT_VALUE}2"
    for text, wanted in (("- 0\n- 1\n- 2", 2), ("So\n- 1\n- 2", 1), ("So\n1\n- 2", 2), ("- 1\n- 2", 2)):
        assert last_items(text, wanted) is None


def test_a_cut_off_copy_is_gone_behind_two_whole_ones():
    assert without_loop("It is 5.\nIt is 5.\nIt is 5.\nIt is") == "It is 5.\nIt is 5.\nIt is 5.\n"
    for text in ("It is 5.\nIt is 5.", "It is 5.\nIt is", "5", "x 5\nIt is 5\nx 5\n5"):
        assert without_loop(text) == text


def test_a_part_is_its_value_or_else_its_words():
    assert stated_parts("(a) So it is blue.\n(b) It is 5.", 2) == ["blue", "5"]
    assert stated_parts("(a) It is 4.\n(b) ", 2) is stated_parts("(a) It is 4.", 2) is None


def test_half_of_its_words_make_a_line_like_the_question():
    for line, ends in (("Evaluate 11 red blue.", True), ("Evaluate 10 red blue.", False)):  # two of four, one of four
        text = f"2\n{line}\n3"
        shown = until_similar_question(text, "Evaluate 11 mod 4.", lambda part: True)
        assert shown == ("2" if ends else text)


def test_characters_that_stand_for_formulas_stand_for_these_alone():
    assert hide_formulas("it \ue000 5 é").text == "it   5 é"


@pytest.mark.parametrize(
    ("sentence", "values"),
    [
        ("2xy = 5", ["2xy = 5"]),
        ("so xy is", []),
        ("= ab.", ["ab"]),
        ("x/ab", ["x/ab"]),
        ("abc^2", ["abc^2"]),
        ("is a cat", []),
        ("a(n) = 2", ["a(n) = 2"]),
        ("{a}", ["{a}"]),
        ("I = 2", ["I = 2"]),
        ("I am", []),
        ("no = 2", ["2"]),
        ("the 5 th", ["5"]),
        ("it is 5 m", [r"5 \text{ m }"]),
        ("it is 5m", ["5m"]),
        ("5 in total", ["5"]),
        ("3 ft 2 in", [r"3 \text{ ft } 2 \text{ in }"]),
        ("5 million", [r"5 \text{ million }"]),
        ("5 percent", ["5 %"]),
        ("am 5", ["5"]),
        ("x = y o 3", ["x = y  or  3"]),
        ("ten 5", ["10", "5"]),
        ("the min", []),
        ("the value 3,5", ["3,5"]),
        ("the values 3,5", ["3, 5"]),
        ("a, b = 3,5", ["b = 3, 5"]),  # two letters, so two values
        ("2 or x equals 3", ["2", "3"]),
        ("2 or x gives 3", ["2  or  x", "3"]),
        ("2, x equals 3", ["2", "3"]),
        ("3-x", ["3-x"]),
        ("3 - x", ["3 - x"]),
        ("5 – it", ["5"]),
    ],
)
def test_the_values_among_the_words(sentence, values):
    assert [span.text for span in spans(tokens(sentence))] == values


def test_dots_between_signs_are_terms_left_out():
    assert spoken("1 + 2 + ⋯ + 9") == spoken("1 + 2 + … + 9") == spoken("1 + 2 + ... + 9") == r"1 + 2 + \ldots  + 9"
    assert spoken("2 … 9") == "2 … 9"


@pytest.mark.parametrize(
    ("clause", "verdict"),
    [
        ("the series diverges", "diverges"),
        ("the series never diverges", None),
        ("it is undefined", "undefined"),
        ("it is not undefined", None),
        ("the equation has no solutions", "no solutions"),
    ],
)
def test_verdicts_in_words_and_what_denies_them(clause, verdict):
    assert in_words(clause) == verdict


def test_marks_above_digits_stay_and_others_go():
    for text, plain in (("3\u0305", "3\u0305"), ("0.16\u0305", "0.16\u0305"), ("x\u0305", "x"), ("\u03053", "3")):
        assert in_ascii(text) == plain


def test_ten_is_the_base_in_each_base():
    named = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
    for name, base in (named | {"eleven": 11, "twelve": 12, "sixteen": 16, "binary": 2, "octal": 8, "hex": 16}).items():
        assert parse(f"10_{{{name}}}").value == base


@pytest.mark.parametrize(
    ("behind", "is_remark"),
    [
        ("It took her 2 days.", True),
        ("Recall that 2 days are left.", True),
        ("It took her long.", False),  # has no number, so nothing to take for the answer
        ("So it took her 2 days.", False),
        ("Actually she took 2 days.", False),
        ("She sold 40 apples before.", False),  # speaks of what is asked
        ("This gives 64 in all.", False),
    ],
)
def test_what_a_conclusion_is_followed_by(behind, is_remark):
    question, conclusion = "How many apples did Ann sell?", "So Ann sold 32 apples."
    text = f"{conclusion} {behind}"
    assert _until_remark(text, question, question) == (conclusion if is_remark else text)
    for other in ("Ann sold 32 apples.", "So Ann sold 32 apples?"):  # concludes nothing
        assert _until_remark(f"{other} {behind}", question, question) == f"{other} {behind}"


def test_what_states_nothing_is_no_remark_on_the_conclusion():
    question, text = (
        "How many apples did Ann sell?",
        "So Ann sold 32 apples. It took her 2 days. Let me know if it helps.",
    )
    assert _until_remark(text, question, question) == "So Ann sold 32 apples."


def test_the_value_of_the_letter_that_is_asked_for():
    for text, shown in (
        ("Thus x = 3. The other root is 5.", "Thus x = 3."),
        ("x = 3. y = 5.", "x = 3."),
        ("Thus x = 3. Then x is 5.", "Thus x = 3. Then x is 5."),
        ("Thus x = 3 and so on. The rest is 5.", "Thus x = 3 and so on. The rest is 5."),
    ):
        assert _until_remark(text, "Find x.", "Find x.") == shown


def test_a_summary_and_a_rounded_value_behind_the_answer_are_gone():
    def shown(text, question):
        return _without_last(text, question, lambda part: True)

    summary, exact = "In summary, Ann has 3 and 4.", "It is 1/3. Numerically, 0.33."
    assert shown(f"So it is 7. {summary}", "Ann has 3 and 4 apples. How many?") == "So it is 7. "
    assert shown(f"It is 7. {summary}", "Ann has 3 and 4 apples. How many?") == f"It is 7. {summary}"
    assert shown(f"So it is 7. {summary}", "Ann has 3 apples. How many?") == f"So it is 7. {summary}"
    assert shown(exact, "Give the exact value.") == "It is 1/3. "
    assert shown(exact, "Give the value.") == "It is 1/3. "
    assert shown(exact, "Give the value to two decimals.") == exact
    assert shown("Numerically, 0.33.", "Give the exact value.") == "Numerically, 0.33."


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (r"\boxed{1}\boxed{2}", ["1", "2"]),
        (r"\boxed{\boxed{2}}", [r"\boxed{2}"]),
        (r"So \boxed{12} so \boxed{12} so \boxed{1", ["12"]),  # a loop that was cut off
        (r"So \boxed{12} so \boxed{12} now \boxed{1", None),
        (r"So \boxed{12} so \boxed{13} so \boxed{1", None),
        (r"So \boxed{12} so \boxed{12} so \boxed{3", None),
        (r"So \boxed{12} so \boxed{1", None),
    ],
)
def test_boxes_up_to_one_that_is_cut_off(text, contents):
    found = boxes(text)
    assert found is None if contents is None else [box.content for box in found] == contents


def test_an_answer_tag_may_stay_open_before_one_line():
    assert tagged("So <answer>5") == "5"
    for text in ("<answer>5\n6", "<answer>...", "<answer>5 <b", "<answer>"):
        assert tagged(text) is None


@pytest.mark.parametrize(
    ("question", "answer", "outcome"),
    [
        ("What is $k$?", "k = 3, m = 5", Outcome.CORRECT),
        ("What is $k$?", "m = 3, k = 5", Outcome.INCORRECT),
        ("What is $x$?", "k = 3, m = 5", Outcome.INCORRECT),
    ],
)
def test_of_several_letters_the_one_asked_for_counts(question, answer, outcome):
    assert grade_answer(rf"\boxed{{{answer}}}", "3", question=question).outcome is outcome
