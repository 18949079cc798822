"""The embedded suite: six generated tasks with the paper's layout, and the problems to train on.

A problem is a text and the arithmetic that solves it: an expression tree, one node per step of a worked solution, and
often a second tree that reaches the same answer in another order. Everything follows from a seed. Which split a text
may serve (one of the tasks, training prompts, pretraining) is a function of the text alone, so no two splits can share
a problem, whatever their seeds.

>>> generate("tiny_aime24", seed=0)[0]["id"]
'tiny-aime24-001'
"""

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from stapo_bench.errors import UsageError
from stapo_bench.seeds import derive_seed
from stapo_bench.tasks.distinct import distinct

MAX_TOTAL = 99
"""Largest number in any step."""
MAX_TERM = 15
"""Largest number that is added or taken away: a model of under a million parameters learns these steps in minutes."""


@dataclass(frozen=True)
class Op:
    """One step of arithmetic; ``symbol`` is one of ``+ - * / mod``. Division rounds down; a right solution's is exact.

    >>> str(Op("*", 3, Op("+", 4, 5)))
    '3 * (4 + 5)'
    """

    symbol: str
    left: "Expr"
    right: "Expr"

    def __str__(self) -> str:
        tight = self.symbol not in ("+", "-")
        sides = [f"({side})" if tight and isinstance(side, Op) else str(side) for side in (self.left, self.right)]
        return f"{sides[0]} {self.symbol} {sides[1]}"


Expr = Op | int


def apply(symbol: str, left: int, right: int) -> int:
    """The value of one step.

    >>> apply("mod", 85, 7), apply("/", 84, 7)
    (1, 12)
    """
    match symbol:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left // right
        case "mod":
            return left % right
    raise ValueError(f"expected one of + - * / mod, got {symbol!r}")


def evaluate(expr: Expr) -> int:
    """The value of a tree.

    >>> evaluate(Op("-", Op("*", 7, 12), 19))
    65
    """
    return expr if isinstance(expr, int) else apply(expr.symbol, evaluate(expr.left), evaluate(expr.right))


@dataclass(frozen=True, kw_only=True)
class TinyProblem:
    """A question and one or more trees that solve it, all with the same value."""

    text: str
    derivations: tuple[Op, ...]

    @property
    def answer(self) -> int:
        """The value of every derivation."""
        return evaluate(self.derivations[0])


# --- kinds of problems: each takes a generator and returns one problem ------------------------------------------------


def _sign(rng: random.Random, total: int) -> str:
    """Whether to add to ``total`` or to take away, so that any term up to MAX_TERM keeps it in [0, MAX_TOTAL]."""
    if total < MAX_TERM:
        return "+"
    return "-" if total > MAX_TOTAL - MAX_TERM else rng.choice("+-")


def _signed_term(rng: random.Random, total: int) -> tuple[str, int]:
    return _sign(rng, total), rng.randint(2, MAX_TERM)


def _terms(rng: random.Random, num_ops: int) -> list[tuple[str, int]]:
    """A number and ``num_ops`` signed terms."""
    total = rng.randint(10, 89)
    terms = [("+", total)]
    for _ in range(num_ops):
        sign, term = _signed_term(rng, total)
        total = apply(sign, total, term)
        terms.append((sign, term))
    return terms


def _fold(terms: list[tuple[str, int]]) -> Op:
    """Terms to a tree that adds and subtracts them in the order given."""
    (_, tree), *rest = terms
    expr: Expr = tree
    for sign, term in rest:
        expr = Op(sign, expr, term)
    assert isinstance(expr, Op), "a chain has at least one operation"
    return expr


def _orders(terms: list[tuple[str, int]]) -> tuple[Op, ...]:
    """Left to right; and additions before subtractions where that is another order and no total grows too large."""
    positive = [(sign, term) for sign, term in terms if sign == "+"]
    additions_first = positive + [(sign, term) for sign, term in terms if sign == "-"]
    fits = sum(term for _, term in positive) <= MAX_TOTAL
    orders = [terms, additions_first] if fits and additions_first != terms else [terms]
    return tuple(_fold(order) for order in orders)


def _ask(rng: random.Random, expr: Expr) -> str:
    return rng.choice(("Compute {}.", "What is {}?", "Evaluate {}.")).format(expr)


def _chain(rng: random.Random, num_ops: int) -> TinyProblem:
    """A sum of signed two-digit numbers."""
    trees = _orders(_terms(rng, num_ops))
    return TinyProblem(text=_ask(rng, trees[0]), derivations=trees)


def _product(rng: random.Random) -> Op:
    return Op("*", rng.randint(2, 9), rng.randint(2, 11))


def _product_chain(rng: random.Random, num_ops: int) -> TinyProblem:
    """A product, then ``num_ops`` signed terms."""
    tree = _product(rng)
    for _ in range(num_ops):
        sign, term = _signed_term(rng, evaluate(tree))
        tree = Op(sign, tree, term)
    return TinyProblem(text=_ask(rng, tree), derivations=(tree,))


def _two_products(rng: random.Random) -> TinyProblem:
    """A product and a small one, added or subtracted."""
    product = _product(rng)
    small = Op("*", rng.randint(2, 3), rng.randint(2, MAX_TERM // 3))
    tree = Op(_sign(rng, evaluate(product)), product, small)
    return TinyProblem(text=_ask(rng, tree), derivations=(tree,))


def _equation(rng: random.Random) -> TinyProblem:
    """``a x + b = c`` or ``a x - b = c``."""
    a, x = rng.randint(2, 6), rng.randint(2, 11)
    sign, b = _signed_term(rng, a * x)
    c = apply(sign, a * x, b)
    text = rng.choice(("Solve {a}{v} {sign} {b} = {c} for {v}.", "Find {v} if {a}{v} {sign} {b} = {c}."))
    tree = Op("/", Op("-" if sign == "+" else "+", c, b), a)
    return TinyProblem(text=text.format(a=a, v=rng.choice("xyn"), sign=sign, b=b, c=c), derivations=(tree,))


def _pair(rng: random.Random) -> TinyProblem:
    """The larger of two numbers from their sum and difference, by halving the sum of both or through the smaller."""
    gap = rng.randint(2, MAX_TERM)
    small = rng.randint(2, (MAX_TOTAL - gap) // 2)
    total = 2 * small + gap
    text = rng.choice(
        (
            "If x + y = {} and x - y = {}, find x.",
            "If a + b = {} and a = b + {}, find a.",
            "Two numbers have sum {} and difference {}. Find the larger.",
            "Ann and Ben have {} coins, Ann {} more. How many has Ann?",
        )
    ).format(total, gap)
    halved = Op("/", Op("+", total, gap), 2)
    through_smaller = Op("+", Op("/", Op("-", total, gap), 2), gap)
    trees = (halved, through_smaller) if total + gap <= MAX_TOTAL else (through_smaller,)
    trees = (halved, through_smaller) if total + gap <= MAX_TOTAL else (through_smaller,)
    return TinyProblem(text=text, derivations=trees)


def _remainder(rng: random.Random, num_ops: int) -> TinyProblem:
    """The remainder of a sum of signed numbers."""
    divisor = rng.randint(3, 9)
    trees = _orders(_terms(rng, num_ops))
    text = f"Find the remainder when {trees[0]} is divided by {divisor}."
    return TinyProblem(text=text, derivations=tuple(Op("mod", tree, divisor) for tree in trees))


_STORIES = (
    ("A tank holds {} litres.", " {} are added.", " {} are drained.", " How many litres are in it?"),
    ("Ann has {} coins.", " She finds {}.", " She spends {}.", " How many has she now?"),
    ("A bus carries {} people.", " {} get on.", " {} get off.", " How many are on the bus?"),
)


def _story(rng: random.Random, num_ops: int) -> TinyProblem:
    """A chain told in words."""
    terms = _terms(rng, num_ops)
    start, gain, loss, question = rng.choice(_STORIES)
    changes = "".join((gain if sign == "+" else loss).format(term) for sign, term in terms[1:])
    return TinyProblem(text=start.format(terms[0][1]) + changes + question, derivations=_orders(terms))


Kind = Callable[[random.Random], TinyProblem]

KINDS: dict[str, Kind] = {
    "sum-1": partial(_chain, num_ops=1),
    "sum-2": partial(_chain, num_ops=2),
    "sum-3": partial(_chain, num_ops=3),
    "sum-4": partial(_chain, num_ops=4),
    "product-1": partial(_product_chain, num_ops=1),
    "product-2": partial(_product_chain, num_ops=2),
    "two-products": _two_products,
    "equation": _equation,
    "pair": _pair,
    "remainder-1": partial(_remainder, num_ops=1),
    "remainder-2": partial(_remainder, num_ops=2),
    "story-2": partial(_story, num_ops=2),
    "story-3": partial(_story, num_ops=3),
}
"""Kinds by name; the number is how many additions or subtractions a problem takes."""


# --- tasks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TinyTask:
    """How many problems a task has, and the kinds they are drawn from in equal shares."""

    num_problems: int
    kinds: tuple[str, ...]


_AIME = ("sum-4", "remainder-2")

TASKS: dict[str, TinyTask] = {
    "tiny_aime24": TinyTask(num_problems=30, kinds=_AIME),
    "tiny_aime25": TinyTask(num_problems=30, kinds=_AIME),
    "tiny_amc23": TinyTask(num_problems=40, kinds=("sum-3", "two-products", "remainder-1")),
    "tiny_math500": TinyTask(num_problems=500, kinds=("sum-1", "sum-2", "product-1", "equation")),
    "tiny_minerva": TinyTask(num_problems=272, kinds=("story-2", "story-3")),
    "tiny_olympiadbench": TinyTask(num_problems=674, kinds=("pair", "equation", "remainder-1", "sum-3")),
}

_TRAIN_BUCKETS = {"train": range(6, 9), "pretrain": range(9, 20)}
_NUM_BUCKETS = 20


def split_of(text: str) -> str:
    """The one split that a problem text may serve: a task's name, ``train`` or ``pretrain``.

    5 % of all texts belong to each task, 15 % to the training prompts, the rest to pretraining.
    """
    bucket = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % _NUM_BUCKETS
    if bucket < len(TASKS):
        return list(TASKS)[bucket]
    return next(name for name, buckets in _TRAIN_BUCKETS.items() if bucket in buckets)


def draw(rng: random.Random, split: str, kinds: tuple[str, ...]) -> Iterator[TinyProblem]:
    """An endless stream of a split's problems, each kind equally likely; a text may come again."""
    while True:
        problem = KINDS[rng.choice(kinds)](rng)
        if split_of(problem.text) == split:
            yield problem


def distinct_problems(problems: Iterator[TinyProblem], count: int) -> list[TinyProblem]:
    """The first ``count`` problems whose texts differ; UsageError: there seem to be fewer."""
    return distinct(problems, count, what="problems of these kinds", key=lambda problem: problem.text)


@cache  # sampling and grading ask for them, and of those that are drawn nineteen in twenty are another split's
def generate(task_name: str, seed: int) -> tuple[Mapping[str, str], ...]:
    """Problems of a task as rows ``{"id", "problem", "answer"}``, the same for the same seed on every machine."""
    if task_name not in TASKS:
        raise UsageError(f"unknown generated task {task_name!r}; expected one of {', '.join(TASKS)}")
    task = TASKS[task_name]
    rng = random.Random(derive_seed(seed, "tiny", task_name))
    prefix = task_name.replace("_", "-")
    asked = distinct_problems(draw(rng, task_name, task.kinds), task.num_problems)
    return tuple(
        {"id": f"{prefix}-{number:03d}", "problem": problem.text, "answer": str(problem.answer)}
        for number, problem in enumerate(asked, start=1)
    )
