"""The panel: graders by name, and the rule of each."""

import subprocess
import sys

import pytest

from stapo_bench.errors import UsageError
from stapo_bench.grading.graders import minerva, prm800k, qwen
from stapo_bench.grading.graders.strict import WINDOW, grade_answer
from stapo_bench.grading.pool import grade_many
from stapo_bench.grading.registry import GRADERS, get_grader
from stapo_bench.records import Gold

OTHERS = pytest.mark.slow(reason="a process for each of the other graders, most of which load sympy")
QUICK = ("math", "strict", "math-verify")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in QUICK else OTHERS) for name in GRADERS])
def test_every_grader_grades_and_names_itself(name):
    if name == "inspect":
        pytest.importorskip("inspect_ai", reason="its own environment runs it")
    grader = get_grader(name)
    grades = grade_many([(r"\boxed{42}", "42"), (r"\boxed{43}", "42"), ("I give up.", "42")], workers=1, grader=name)
    assert [grade.outcome.value for grade in grades] == ["CORRECT", "INCORRECT", "NO_ANSWER"]
    assert {grade.grader for grade in grades} == {grader.version}
    assert grader.version.startswith(name)
    assert grader.grade(r"\boxed{42}", Gold(answer="42")) == grades[0]


def test_an_unknown_grader_is_bad_usage():
    with pytest.raises(UsageError, match=r"unknown grader 'strickt' \(graders: .*\); did you mean 'strict'\?") as error:
        get_grader("strickt")
    assert error.value.exit_code == 2


def test_a_dotted_path_is_no_grader():
    with pytest.raises(UsageError):
        get_grader("os:system")


def test_naming_a_grader_loads_nothing_heavy():
    code = (
        "import sys; from stapo_bench.grading.registry import GRADERS; [g.version for g in GRADERS.values()];"
        "print(sorted({'sympy', 'math_verify', 'torch', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# verl's is_correct_strict_box (source in the module): the same verdict where that returns 1, None from it is NO_ANSWER.
STRICT = [
    (r"\boxed{42}", "42", "CORRECT"),
    (r"$\boxed{\frac{1}{2}}$", r"\frac{1}{2}", "CORRECT"),
    (r"\boxed{41} ... \boxed{42}", "42", "CORRECT"),  # the last box
    (r"\boxed{42} ... \boxed{41}", "42", "INCORRECT"),
    (r"\boxed{42.0}", "42", "INCORRECT"),  # exact text
    (r"\boxed{ 42}", "42", "INCORRECT"),
    (r"\boxed{042}", "42", "INCORRECT"),
    (r"\boxed{1,000}", "1000", "INCORRECT"),
    (r"\boxed{x = 42}", "42", "INCORRECT"),
    (r"\boxed{}", "42", "INCORRECT"),
    (r"\boxed{42} and then \boxed{42", "42", "NO_ANSWER"),  # the last one never closes
    (r"\boxed 42", "42", "NO_ANSWER"),
    (r"\boxed {42}", "42", "NO_ANSWER"),
    (r"\fbox{42}", "42", "NO_ANSWER"),
    ("The answer is 42.", "42", "NO_ANSWER"),
    ("", "42", "NO_ANSWER"),
]


@pytest.mark.parametrize(("completion", "gold", "outcome"), STRICT)
def test_strict(completion, gold, outcome):
    assert grade_answer(completion, gold).outcome.value == outcome


def test_strict_sees_the_final_characters_only():
    box = r"\boxed{42}"
    inside = WINDOW - len(box)
    assert WINDOW == 100
    assert grade_answer(box + "x" * inside, "42").outcome.value == "CORRECT"
    assert grade_answer(box + "x" * (inside + 1), "42").outcome.value == "NO_ANSWER"


def test_strict_ignores_tolerance_and_type():
    assert grade_answer(r"\boxed{42.01}", Gold(answer="42", tolerance=1.0), "number").outcome.value == "INCORRECT"


# (response, gold, verdict, rule that decides): what evaluation/grader.py of Qwen2.5-Math says, its oddities included.
QWEN = [
    (r"\boxed{42}", "42", "CORRECT", "text"),
    (r"\boxed{41} or rather \boxed{42}", "42", "CORRECT", "text"),
    (r"\boxed{42", "42", "CORRECT", "text"),  # a box that never closes is read to the end
    (r"the answer is 42.", "42", "CORRECT", "text"),
    ("Final Answer: The final answer is $42$. I hope it is correct.", "42", "CORRECT", "text"),
    ("it costs 1,234 in all", "1234", "CORRECT", "text"),  # the last number
    ("nothing at all", "1234", "NO_ANSWER", "no final answer"),
    (r"\boxed{\dfrac12}", r"\frac{1}{2}", "CORRECT", "text"),
    (r"\boxed{1/2}", r"\frac{1}{2}", "CORRECT", "text"),
    (r"\boxed{5\text{ cm}^2}", "5", "CORRECT", "text"),
    (r"\boxed{5 \text{ cm}}", r"5 \text{ m}", "CORRECT", "text"),  # units fall away, whichever they are
    (r"\boxed{90^\circ}", "90", "CORRECT", "text"),
    (r"\boxed{x = 5}", "5", "CORRECT", "text"),
    (r"\boxed{5.00}", "5", "CORRECT", "text"),
    (r"\boxed{\text{east}}", "East", "CORRECT", "text"),
    (r"\boxed{12345}", "12346", "CORRECT", "numbers"),  # within 1e-4
    (r"\boxed{12345}", "12347", "INCORRECT", "numbers"),  # 2 / 12347 = 1.6e-4
    (r"\boxed{0.42}", "42", "CORRECT", "numbers"),  # percent, either way
    (r"\boxed{4200}", "42", "CORRECT", "numbers"),
    (r"\boxed{420}", "42", "INCORRECT", "numbers"),
    (r"\boxed{1,234}", "1234", "CORRECT", "numbers"),
    (r"\boxed{\text{(C)}}", "C", "CORRECT", "choice"),
    (r"\boxed{D}", "C", "INCORRECT", "no rule finds them equal"),
    (r"\boxed{[1,2)}", "(1,2]", "CORRECT", "text without brackets"),
    (r"\boxed{(\frac{1}{2}, \sqrt{4})}", "(0.5,2)", "CORRECT", "tuple"),
    (r"\boxed{(1,2,3)}", "(1,3,2)", "INCORRECT", "no rule finds them equal"),
    (r"\boxed{(1,2)}", "(1,2,3)", "INCORRECT", "no rule finds them equal"),
    (
        r"\boxed{\begin{bmatrix}1 & 0.5 \\ 0 & 1\end{bmatrix}}",
        r"\begin{pmatrix}1&\frac{1}{2}\\0&1\end{pmatrix}",
        "CORRECT",
        "matrix",
    ),
    (
        r"\boxed{\begin{pmatrix}1&2\\3&4\end{pmatrix}}",
        r"\begin{pmatrix}1&2&3&4\end{pmatrix}",
        "INCORRECT",
        "no rule finds them equal",
    ),
    (r"\boxed{y - 2x = 1}", "2x+1=y", "CORRECT", "equation"),  # left minus right, up to sign
    (r"\boxed{2y = 4x + 2}", "y=2x+1", "INCORRECT", "no rule finds them equal"),  # a multiple of it
    (r"\boxed{(x+1)^2}", "x^2+2x+1", "CORRECT", "value"),
    (r"\boxed{2\sqrt{2}}", r"\sqrt{8}", "CORRECT", "value"),
    (r"\boxed{\frac{22}{7}}", r"\pi", "INCORRECT", "no rule finds them equal"),  # 4e-4 apart
    (r"\boxed{3.1416}", r"\pi", "CORRECT", "value"),  # 2e-6 apart
    (r"\boxed{x^2}", "x^3", "INCORRECT", "no rule finds them equal"),
    (r"\boxed{9^{9^{9^{9}}}}", "1", "INCORRECT", "no rule finds them equal"),  # not written out
    (r"\boxed{__import__('os')}", "1", "INCORRECT", "no rule finds them equal"),
]


@pytest.mark.parametrize(("completion", "gold", "outcome", "rule"), QWEN)
def test_qwen(completion, gold, outcome, rule):
    grade = qwen.grade_answer(completion, gold)
    assert (grade.outcome.value, grade.detail) == (outcome, rule)


def test_qwen_reads_no_mathematics_from_a_huge_answer():
    grade = qwen.grade_answer(r"\boxed{" + "((" * 10_000 + "}", "1")
    assert (grade.outcome.value, grade.detail) == ("INCORRECT", "text, too long to be read")


def test_qwen_decides_text_and_numbers_without_sympy():
    assert qwen.quick_grade(r"\boxed{42}", Gold(answer="42")).outcome.value == "CORRECT"
    assert qwen.quick_grade(r"\boxed{43}", Gold(answer="42")).outcome.value == "INCORRECT"
    assert qwen.quick_grade(r"\boxed{x}", Gold(answer="42")) is None


def test_minerva_takes_no_long_text_for_another_that_begins_like_it():
    long = "1" * minerva.MAX_LENGTH
    outcomes = [
        minerva.grade_answer(rf"\boxed{{{answer}}}", f"{long}2").outcome.value for answer in (f"{long}2", f"{long}3")
    ]
    assert outcomes == ["CORRECT", "INCORRECT"]


# (answer, gold, verdict): what grading/grader.py of PRM800K says, to which both notations of a fraction are one.
PRM800K = [
    ("1 1/2", "3/2", "CORRECT"),  # "([0-9]) +([0-9])" is a sum
    (r"1\frac12", r"\frac{3}{2}", "CORRECT"),  # a blank goes before \frac first
    (r"1 \dfrac{1}2", "1.5", "CORRECT"),
    (r"3\frac{\sqrt{4}}{4}", "3.5", "CORRECT"),
    (r"-1\frac12", "-1/2", "CORRECT"),  # -1 + 1/2, as it is there
    (r"2\frac{1}{3}", "2/3", "INCORRECT"),  # no product
    (r"(\frac12, 3)", "(1/2,3)", "CORRECT"),
    (r"(-\frac12, 3)", "(1/2,3)", "INCORRECT"),
    (r"(\frac24, 3)", "(1/2,3)", "INCORRECT"),  # of two fractions, the very one
]


@pytest.mark.parametrize(("answer", "gold", "outcome"), PRM800K)
def test_prm800k_reads_mixed_numbers(answer, gold, outcome):
    assert prm800k.grade_answer(rf"\boxed{{{answer}}}", gold).outcome.value == outcome
