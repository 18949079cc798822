"""Hostile answers: answered, within bounds, with nothing executed, in any thread."""

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from stapo_bench.errors import UsageError
from stapo_bench.grading import grade_answer
from stapo_bench.records import Outcome

SECONDS = 6.0  # processor time for one verdict; the slowest below takes 1.3 s on a slow machine

HOSTILE = {
    "parentheses": "(" * 5000 + "1" + ")" * 5000,
    "braces": "{" * 5000 + "1" + "}" * 5000,
    "fractions": r"\frac{1}{" * 3000 + "2" + "}" * 3000,
    "roots": r"\sqrt{" * 31 + "2" + "}" * 31,
    "exponents": "^{2".join(["2"] * 900) + "}" * 899,
    "texts": r"\text{" * 3000 + "a" + "}" * 3000,
    "megabyte of digits": "9" * 1_000_000,
    "megabyte of letters": "x" * 1_000_000,
    "megabyte of sums": "1+" * 500_000 + "1",
    "long sum": "1+" * 9500 + "1",
    "sum of roots": "+".join(rf"\sqrt{{{k}}}" for k in range(2, 200)),
    "tower": "9^{9^{9^{9^{9}}}}",
    "tower in Python": "9**9**9**9",
    "enormous power": "10^{10^{100}}",
    "tiny power": "2^{-10^{10^{10}}}",
    "e tower": "e^{e^{e^{e^{e}}}}",
    "factorial": "1000000!",
    "factorial of factorial": "((9!)!)!",
    "exclamation marks": "3" + "!" * 5000,
    "binomial": r"\binom{10^{100}}{10^{50}}",
    "long series": r"\sum_{k=1}^{1000000000} k^2",
    "nested series": r"\sum_{k=1}^{200} \sum_{j=1}^{200} \sqrt{jk}",
    "enormous angle": r"\sin(10^{10^{10}})",
    "high root": r"\sqrt[1000000]{2}",
    "high polynomial": "(x+1)^{1000000}",
    "no polynomial": r"\sin(x)^{y}=\cos(y)^{x}",
    "exponent": "1e999999999",
    "plus or minus": r"\pm 1" * 50,
    "many values": ",".join(map(str, range(5000))),
    "many pieces": r"\cup".join(rf"(\sqrt{{{2 * k}}},\sqrt{{{2 * k + 1}}})" for k in range(100)),
    "chain": "=".join([r"\sqrt{2}"] * 800),
    "matrix": r"\begin{pmatrix}" + r"\\".join("&".join([r"\sqrt{2}"] * 30) for _ in range(30)) + r"\end{pmatrix}",
    "environments": r"\begin{matrix}" * 500,
    "nested cases": r"\begin{cases}" * 500,
    "many cases": r"\begin{cases}" + r"x & x > \sqrt{2} \\".join(str(k) for k in range(200)) + r"\end{cases}",
    "irrational cases": r"\begin{cases}" + "".join(rf"x & x < \sqrt{{{k}}} \\" for k in range(2, 14)) + r"\end{cases}",
    "conditions": r"1 \text{ for } x > 0, " * 400,
    "one condition": r"x \text{ where } " + r"a > 0, " * 700,
    "progression": r"1, 2, \ldots, 10^{100}",
    "ellipses": r"1, \ldots, " * 700,
    "ratios": ":".join(["x"] * 1500),
    "determinant": r"\begin{vmatrix}" + r"\\".join("&".join([r"\sqrt{2}"] * 30) for _ in range(30)) + r"\end{vmatrix}",
    "backslashes": "\\" * 10_000,
    "dollars": "$" * 10_000,
    "bars": "|x" * 200 + "|" * 200,
    "null bytes": "4\x002\x00" * 100 + "7",
    "right to left": "\u202e24\u202c",
    "surrogate": "\ud800 1",
    "emoji": "😀" * 1000,
    "code": '__import__("os").system("touch pwned")',
    "class walk": "().__class__.__bases__[0].__subclasses__()",
    "file": r"\input{/etc/passwd}",
    "sympify": 'sympify("exec(1)")',
    "empty": "",
    "unit letters": "5 " + "m " * 60 + "x",
    "millimetres": "5 " + "mm " * 60 + "x",
    "percent signs": "%" * 2500,
    "percents": "5" + "%" * 2500,
    "factorials": "5" + "!" * 2000,
    "squares": "x" + "^2" * 1200,
    "powers in Python": "2" + "**2" * 900,
    "sines": r"\sin" * 600 + "x",
    "sums": r"\sum_{k=1}^{2} " * 300 + "k",
    "text in text": r"\text{" * 500 + "5" + "}" * 500,
    "euros": "€" * 1500 + "5",
    "dollars in front": "USD " * 1500 + "5",
    "feet and inches": "5 ft 6 in " * 400,
    "hundreds": r"5 \text{" + "hundred " * 2000 + "}",
    "per euro": "5/€",
}  # fmt: skip
GOLDS = ["42", "x^2+1", r"\{1,2\}", "(1,2)", r"\sqrt{2}", r"(0,1)\cup(2,3)", "y=2x+1", r"\text{east}", "3.14"]
COMPLETIONS = {
    "unterminated boxes": r"\boxed{1}\boxed{" * 3000,
    "phrases": "answer is " * 20_000,
    "hashes": "####" * 50_000,
    "asterisks": "**" * 50_000,
    "closed thoughts": "</think>" * 20_000,
    "openings": r"\(" * 50_000,
    "newlines": "\n" * 500_000,
    "ands": " and " * 40_000,
    "bold marks": "** " * 3000 + "5.",
    "spaces in an answer": "the final answer is x" + " " * 19_000 + "y",
}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


MANY = ("megabyte of sums", "megabyte of letters", "nested series")  # "megabyte of digits" and "long sum" stay
LONG = pytest.mark.slow(reason="more than a second each, with every gold")


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG if name in MANY else ()) for name in HOSTILE])
def test_hostile_answer(name: str, empty_folder: Path) -> None:
    answer = HOSTILE[name]
    is_too_long = len(answer) > 20_000  # and refused for it, whatever the gold
    for gold in GOLDS[:2] if is_too_long else GOLDS:
        start = time.process_time()
        grade = grade_answer(rf"\boxed{{{answer}}}", gold)
        assert time.process_time() - start < SECONDS
        assert grade.outcome in (Outcome.INCORRECT, Outcome.NO_ANSWER), (gold, grade.detail)
        assert not is_too_long or grade.detail == "not comparable: longer than 20000 characters"
    if answer:
        start = time.process_time()
        assert grade_answer(r"\boxed{42}", answer).outcome is Outcome.INCORRECT
        assert time.process_time() - start < SECONDS
    else:
        with pytest.raises(UsageError, match="expected the gold as a text"):
            grade_answer(r"\boxed{42}", answer)
    assert not list(empty_folder.iterdir())


def test_the_verdict_does_not_depend_on_the_stack_of_the_caller() -> None:
    def outcomes(frames: int) -> dict[str, Outcome]:
        if frames:
            return outcomes(frames - 1)
        return {name: grade_answer(rf"\boxed{{{answer}}}", "x^2+1").outcome for name, answer in HOSTILE.items()}

    assert outcomes(400) == dict.fromkeys(HOSTILE, Outcome.INCORRECT)


@pytest.mark.parametrize("name", COMPLETIONS)
def test_hostile_completion(name: str) -> None:
    start = time.process_time()
    assert grade_answer(COMPLETIONS[name], "42").outcome in (Outcome.INCORRECT, Outcome.NO_ANSWER)
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("name", ["tower", "enormous power", "nested series", "high polynomial", "matrix"])
def test_a_hostile_gold_is_still_itself_and_not_its_neighbour(name: str) -> None:
    assert grade_answer(rf"\boxed{{{HOSTILE[name]}}}", HOSTILE[name]).outcome is Outcome.CORRECT
    neighbour = HOSTILE[name].replace("2", "3").replace("9", "8").replace("10", "20")
    assert grade_answer(rf"\boxed{{{neighbour}}}", HOSTILE[name]).outcome is Outcome.INCORRECT


def test_a_box_before_a_megabyte_of_text_still_counts() -> None:
    assert grade_answer(r"\boxed{42}" + " and so on" * 100_000, "42").outcome is Outcome.CORRECT
    assert grade_answer("well " * 200_000 + r"\boxed{42}", "42").outcome is Outcome.CORRECT


def test_the_same_verdicts_in_threads() -> None:
    pairs = [
        (a, g) for a in ("2^{99}", r"\sqrt{8}", "x^2+1+0", r"\frac12", "(1,2)") for g in (*GOLDS, r"2\sqrt2", "0.5")
    ]
    alone = [grade_answer(rf"\boxed{{{a}}}", g).outcome for a, g in pairs]
    found: list[list[Outcome]] = []
    threads = [
        threading.Thread(target=lambda: found.append([grade_answer(rf"\boxed{{{a}}}", g).outcome for a, g in pairs]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4


# In starts of a bare interpreter, so that a slow machine is measured by itself: the door alone, and the grader.
@pytest.mark.parametrize(
    ("code", "most"), [("import stapo_bench.grading", 8), ("from stapo_bench.grading import grade_answer", 16)]
)
def test_importing_is_quick_and_loads_nothing_heavy(code: str, most: float) -> None:
    heavy = (
        "; import sys; print(sorted({'sympy', 'mpmath', 'math_verify', 'numpy', 'torch', 'scipy'} & set(sys.modules)))"
    )
    bare, imported = (min(_cpu_seconds(code + heavy) for _ in range(3)) for code in ("pass", code))
    assert imported < (1 + most) * bare, f"{imported:.3f} s, the interpreter alone {bare:.3f} s"


def _cpu_seconds(code: str) -> float:
    """Processor time of a fresh interpreter that runs the code, which prints an empty list."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert shown.stdout == "[]\n"
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_door_imports_a_module_when_a_name_of_it_is_asked_for() -> None:
    code = (
        "import sys; import stapo_bench.grading as g; rooms = {'pool', 'adapters', 'voting', 'registry', 'extraction'};"
        "behind = lambda: sorted(name for name in rooms if f'stapo_bench.grading.{name}' in sys.modules);"
        "print(behind()); g.grade_answer; print(behind()); g.GraderPool; print(behind())"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert shown.stdout.split("\n")[:3] == ["[]", "['extraction']", "['extraction', 'pool', 'registry']"]


def test_importing_compiles_no_pattern_of_the_grader() -> None:
    code = (
        "import re, sys; compile = re.compile; callers = []\n"
        "def counted(*arguments):\n"
        "    callers.append(sys._getframe(1).f_globals['__name__']); return compile(*arguments)\n"
        "re.compile = counted; from stapo_bench.grading import grade_answer\n"
        "print([name for name in callers if name.startswith('stapo_bench.grading')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert shown.stdout.strip() == "[]"


def test_memory_stays_small() -> None:
    # 512 MiB of address space for everything below, the interpreter and mpmath included.
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20));"
        "from stapo_bench.grading import grade_answer as g;"
        "print({g(chr(92) + 'boxed{' + a + '}', '42').outcome.value for a in "
        "['9' * 1000000, '9^{9^{9^{9}}}', '(9!)!', '(x+1)^{1000000}', '1+' * 500000 + '1', '10^{10^{100}}']})"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert shown.stdout.strip() == "{'INCORRECT'}"


@pytest.mark.parametrize(
    "piece",
    [
        "x.",
        "p.m. ",
        "\n \n",
        "1+",
        "- 1\n",
        "not 1 ",
        "\\begin{align}",
        "</b>",
        "<answer></answ",
        "[result] ",
        "a | ",
        "a | b\n",
        "0,5 ",
        "Q: 1?\n",
        "1 and ",
        "<s>",
        "is ",
    ],
)
def test_prose_without_end_is_read_in_bounded_time(piece: str) -> None:
    for length in (3_000, 40_000):
        text = (piece * length)[:length] + " is the 7"
        start = time.process_time()
        assert grade_answer(text, "42", question=text).outcome is not Outcome.GRADER_ERROR
        assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("asks", ["", "What is ", "Which is less, "])
def test_a_question_of_many_operators_is_read_in_bounded_time(asks: str) -> None:
    question = asks + "1 + " * 60 + "1 and more"
    start = time.process_time()
    assert grade_answer(r"\boxed{6 + 1}", "7", question=question).outcome is Outcome.CORRECT
    assert time.process_time() - start < SECONDS
