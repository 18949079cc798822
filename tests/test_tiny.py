"""The embedded suite: layout, determinism, right answers, and no problem in two places."""

import random
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stapo_bench.errors import UsageError
from stapo_bench.tasks import tiny
from stapo_bench.tasks.loading import load_problems, load_task, task_names
from stapo_bench.tasks.tiny import KINDS, TASKS, Op, evaluate
from stapo_train.tiny import problems as tiny_data

PAPER_LAYOUT = {  # problems, samples per problem
    "tiny_aime24": (30, 32),
    "tiny_aime25": (30, 32),
    "tiny_amc23": (40, 32),
    "tiny_math500": (500, 4),
    "tiny_minerva": (272, 4),
    "tiny_olympiadbench": (674, 4),
}


def draws(kind: str, count: int = 200) -> list[tiny.TinyProblem]:
    rng = random.Random(3)
    return [KINDS[kind](rng) for _ in range(count)]


def numbers_in(expr: tiny.Expr) -> list[int]:
    """Every leaf and every intermediate value of a tree."""
    if isinstance(expr, int):
        return [expr]
    return [*numbers_in(expr.left), *numbers_in(expr.right), evaluate(expr)]


def divisions_in(expr: tiny.Expr) -> list[Op]:
    if isinstance(expr, int):
        return []
    below = divisions_in(expr.left) + divisions_in(expr.right)
    return [*below, expr] if expr.symbol == "/" else below


# --- task files -------------------------------------------------------------------------------------------------------


def test_suite_has_the_papers_layout_in_the_papers_order():
    tasks = [load_task(name) for name in task_names("tiny")]
    assert {task.name: (task.num_problems, task.num_samples) for task in tasks} == PAPER_LAYOUT
    assert [task.name for task in tasks] == list(PAPER_LAYOUT)


@pytest.mark.parametrize("name", PAPER_LAYOUT)
def test_task_file_pins_the_generated_content(name):
    task = load_task(name)
    assert task.digest, "a task without a digest accepts any content"
    problems = load_problems(task)  # raises where count or digest differ
    assert len(problems) == PAPER_LAYOUT[name][0]
    assert problems[0].problem_id == f"{name.replace('_', '-')}-001"


def test_prompt_is_the_problem_and_a_newline_as_in_pretraining():
    from stapo_bench.tasks.prompts import render_prompts

    task = load_task("tiny_math500")
    problem = load_problems(task)[0]
    (prompt,) = render_prompts(task, [problem], tokenizer=None)
    assert prompt.text == problem.question + "\n"
    twin = tiny.TinyProblem(text=problem.question, derivations=(Op("+", 1, 1),))
    assert prompt.text == tiny_data.prompt_text(twin)


# --- problems ---------------------------------------------------------------------------------------------------------


def test_same_seed_same_problems_other_seed_others():
    assert tiny.generate("tiny_amc23", 1) == tiny.generate("tiny_amc23", 1)
    texts = [{row["problem"] for row in tiny.generate("tiny_amc23", seed)} for seed in (1, 2)]
    assert len(texts[0] & texts[1]) < 5


def test_unknown_task_names_the_known_ones():
    with pytest.raises(UsageError, match=r"tiny_aime99.*tiny_aime24"):
        tiny.generate("tiny_aime99", 0)


@pytest.mark.parametrize("kind", KINDS)
def test_all_ways_to_solve_agree_within_bounds_and_divide_exactly(kind):
    for problem in draws(kind):
        assert {evaluate(tree) for tree in problem.derivations} == {problem.answer}
        for tree in problem.derivations:
            assert all(0 <= number <= tiny.MAX_TOTAL for number in numbers_in(tree)), problem
            for step in divisions_in(tree):
                assert evaluate(step.left) % evaluate(step.right) == 0, problem


@pytest.mark.parametrize("kind", ["sum-1", "sum-4", "product-2", "two-products"])
def test_answer_is_what_python_makes_of_the_text(kind):
    import ast

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, int)
            return node.value
        assert isinstance(node, ast.BinOp)
        symbol = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}[type(node.op)]
        return tiny.apply(symbol, value(node.left), value(node.right))

    for problem in draws(kind):
        formula = problem.text.rstrip(".?").removeprefix("Compute").removeprefix("What is").removeprefix("Evaluate")
        assert value(ast.parse(formula.strip(), mode="eval").body) == problem.answer


def test_equation_answers_solve_their_equations():
    for problem in draws("equation"):
        a, sign, b, c = re.search(r"(\d+)[xyn] ([+-]) (\d+) = (\d+)", problem.text).groups()
        assert tiny.apply(sign, int(a) * problem.answer, int(b)) == int(c), problem.text


def test_pair_answers_are_the_larger_number():
    for problem in draws("pair"):
        total, gap = map(int, re.findall(r"\d+", problem.text))
        larger, smaller = problem.answer, total - problem.answer
        assert larger - smaller == gap > 0


def test_story_answers_follow_the_words():
    losses = ("drained", "spends", "get off")
    for problem in draws("story-3"):
        start, *changes = [sentence for sentence in problem.text.split(".") if re.search(r"\d", sentence)]
        signed = [(-1 if any(word in change for word in losses) else 1, change) for change in changes]
        value = int(re.search(r"\d+", start)[0]) + sum(s * int(re.search(r"\d+", change)[0]) for s, change in signed)
        assert value == problem.answer, problem.text


@given(st.integers(0, 99), st.integers(1, 99), st.integers(1, 99))
def test_a_tree_reads_as_python_reads_its_text(a, b, c):
    product_of_sum, product_last = Op("*", a, Op("+", b, c)), Op("-", a, Op("*", b, c))
    left_to_right = Op("+", Op("-", a, b), c)
    assert (str(product_of_sum), evaluate(product_of_sum)) == (f"{a} * ({b} + {c})", a * (b + c))
    assert (str(product_last), evaluate(product_last)) == (f"{a} - {b} * {c}", a - b * c)
    assert (str(left_to_right), evaluate(left_to_right)) == (f"{a} - {b} + {c}", a - b + c)


# --- splits -----------------------------------------------------------------------------------------------------------


def test_no_problem_text_is_in_two_tasks_or_in_training():
    evaluation = [row["problem"] for name in TASKS for row in tiny.generate(name, seed=0)]
    assert len(evaluation) == len(set(evaluation)) == 30 + 30 + 40 + 500 + 272 + 674
    # another seed, so that nothing but the split of a text keeps them apart
    training = [problem.question for problem in tiny_data.training_problems(seed=7, count=3000)]
    pretraining = {tiny_data.worked_example(seed=7, index=index).prompt.strip() for index in range(6000)}
    assert len(training) == len(set(training))
    assert not set(evaluation) & set(training)
    assert not set(evaluation) & pretraining
    assert not set(training) & pretraining


def test_every_split_gets_its_share_of_texts():
    rng = random.Random(0)
    splits = [tiny.split_of(tiny.KINDS["sum-4"](rng).text) for _ in range(4000)]
    shares = {name: splits.count(name) / 4000 for name in (*TASKS, "train", "pretrain")}
    for name in TASKS:
        assert shares[name] == pytest.approx(0.05, abs=0.015)
    assert shares["train"] == pytest.approx(0.15, abs=0.025)
    assert shares["pretrain"] == pytest.approx(0.55, abs=0.03)


def test_generating_needs_no_torch():
    program = "import sys, stapo_bench.tasks.tiny; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# --- worked solutions -------------------------------------------------------------------------------------------------


def test_worked_solutions_end_in_a_box_and_state_a_share_of_mistakes():
    rng = random.Random(1)
    problem = tiny.TinyProblem(text="", derivations=(Op("-", Op("+", 47, 38), 19),))
    solutions = [tiny_data.worked_solution(rng, problem) for _ in range(4000)]
    assert all(solution.endswith("}") and solution.count("\\boxed{") == 1 for solution in solutions)
    right = sum(solution.endswith("\\boxed{66}") for solution in solutions) / 4000
    # Two steps, each right with 1 - mistake_rate; the answer at once counts its two steps too. A mistake in one step
    # undone by another (-1, then +1) adds a little.
    expected = sum(style.share * (1 - style.mistake_rate) ** 2 for style in tiny_data.STYLES)
    assert right == pytest.approx(expected, abs=0.03)


def test_a_step_that_is_wrong_is_carried_on():
    always_wrong = tiny_data.Style(name="steps", share=1.0, mistake_rate=1.0)
    written: list[str] = []
    value = tiny_data._work(random.Random(0), Op("+", Op("+", 40, 30), 5), always_wrong, written)
    first, second = (list(map(int, re.findall(r"\d+", step))) for step in written)
    assert first[2] != 70
    assert first[2] in second[:2]
    assert second[2] != second[0] + second[1]
    assert value == second[2]


def test_wordings_are_many_and_uneven():
    rng = random.Random(2)
    problem = tiny.TinyProblem(text="", derivations=(Op("+", 1, 2),))
    solutions = [tiny_data.worked_solution(rng, problem) for _ in range(4000)]
    counts = sorted((solutions.count(text) for text in set(solutions)), reverse=True)
    assert len(counts) > 60
    assert counts[0] > 10 * counts[40]


def test_shares_sum_to_one():
    for wordings in (tiny_data.OPENINGS, tiny_data.CONNECTORS, tiny_data.CLOSINGS, tiny_data.DIRECT_CLOSINGS):
        assert sum(share for _, share in wordings) == pytest.approx(1.0)
    assert sum(style.share for style in tiny_data.STYLES) == pytest.approx(1.0)


def test_training_problems_have_exact_golds_and_unique_ids():
    problems = tiny_data.training_problems(seed=0, count=300, kinds=("equation",))
    assert len({problem.problem_id for problem in problems}) == 300
    assert {problem.task for problem in problems} == {"tiny_train"}
    assert all(problem.question.startswith(("Solve", "Find")) for problem in problems)
