"""The tiny model's data: worked solutions to pretrain on, and problems without solutions to train on by reward.

Solutions come in three styles (every step, running totals only, the answer at once), several orders and many wordings
whose frequencies fall off steeply, so that the policy that learns them is uncertain as real models are. A share of the
steps is wrong, more where less is written out: the base model inherits that share, and reward can teach it away by
preferring careful styles and likelier digits. Rare wordings, *typos* (stray letters) and *slips* (wrong numbers that
the rest of the solution does not use) put tokens of tiny probability into right answers: what STAPO is about.

>>> problem = training_problems(seed=0, count=1)[0]
>>> problem.problem_id, problem.gold.answer == worked_example(seed=0, index=0).solution
('tiny-train-0001', False)
"""

import random
import string
from dataclasses import dataclass

from stapo_bench.records import Gold, Problem
from stapo_bench.seeds import derive_seed
from stapo_bench.tasks import tiny
from stapo_bench.tasks.tiny import Expr, Op, TinyProblem

ALL_KINDS = tuple(tiny.KINDS)

Wordings = tuple[tuple[str, float], ...]
"""Texts with their shares."""

RARE_SHARE = 0.02
"""Share of each list that its rare wordings divide evenly: about a thousandth each."""


def _with_rare(common: Wordings, rare: tuple[str, ...]) -> Wordings:
    return tuple((text, share * (1 - RARE_SHARE)) for text, share in common) + tuple(
        (text, RARE_SHARE / len(rare)) for text in rare
    )


OPENINGS = _with_rare(
    (
        ("", 0.42),
        ("We get ", 0.23),
        ("First, ", 0.16),
        ("Here ", 0.10),
        ("Step by step: ", 0.06),
        ("Let us see: ", 0.03),
    ),
    ("Well, ", "Clearly ", "Now ", "Okay, ", "Simply ", "Hmm, ", "Begin: ", "Fine, ", "Note ", "Just ", "Look: "),
)
CONNECTORS = _with_rare(
    ((", ", 0.45), (", then ", 0.27), ("; ", 0.14), (", so ", 0.09), (", next ", 0.05)),
    (" and ", ", which means ", "! ", ", now ", " thus ", ": ", ", also ", "? ", " ... ", ", hence "),
)
CLOSINGS = _with_rare(
    (
        (". The answer is \\boxed{", 0.41),
        (", so \\boxed{", 0.27),
        (". Hence \\boxed{", 0.18),
        (". Therefore \\boxed{", 0.10),
        (". In short: \\boxed{", 0.04),
    ),
    (
        ". We conclude \\boxed{",
        ", thus \\boxed{",
        ", that is \\boxed{",
        "! \\boxed{",
        ", giving \\boxed{",
        ". Done: \\boxed{",
        ". Final: \\boxed{",
        ". Yes, \\boxed{",
    ),
)
DIRECT_CLOSINGS: Wordings = (("The answer is \\boxed{", 0.7), ("It is \\boxed{", 0.3))


@dataclass(frozen=True, kw_only=True)
class Style:
    """How much of the arithmetic is written, and how often what is written is wrong."""

    name: str
    share: float
    mistake_rate: float  # per step; carried on, so the answer is wrong too


STYLES = (
    Style(name="steps", share=0.55, mistake_rate=0.05),
    Style(name="totals", share=0.3, mistake_rate=0.12),
    Style(name="direct", share=0.15, mistake_rate=0.3),
)
SLIP_RATE = 0.008
"""Share of the written steps whose number is wrong although the right one is used after it."""
TYPO_RATE = 0.03
"""Share of the written steps with a stray letter in front: about a thousandth for each letter."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """One text to pretrain on: the prompt as evaluation renders it, then the solution."""

    prompt: str
    solution: str


def prompt_text(problem: TinyProblem) -> str:
    """The problem, then a newline: what the task files' ``doc_to_text`` renders."""
    return problem.text + "\n"


def pick(rng: random.Random, wordings: Wordings) -> str:
    """One of the texts, by their shares."""
    texts, shares = zip(*wordings, strict=True)
    return str(rng.choices(texts, shares)[0])


def _blunder(rng: random.Random, value: int) -> int:
    """A wrong number near the right one: off by one or two, or a forgotten carry."""
    near = {max(0, value + shift) for shift in (-10, 10, -1, 1, -2, 2)}
    return rng.choice(sorted(near - {value}))


def _work(rng: random.Random, expr: Expr, style: Style, written: list[str]) -> int:
    """Write the steps of a tree into ``written``, innermost first, and return the value they lead to."""
    if isinstance(expr, int):
        return expr
    left, right = (_work(rng, side, style, written) for side in (expr.left, expr.right))
    value = tiny.apply(expr.symbol, left, right)
    if rng.random() < style.mistake_rate:
        value = _blunder(rng, value)
    shown = _blunder(rng, value) if rng.random() < SLIP_RATE else value
    if expr.symbol in "+*" and rng.random() < 0.15:  # sums and products are said in either order
        left, right = right, left
    step = f"{left} {expr.symbol} {right} = {shown}" if style.name == "steps" else str(shown)
    written.append(rng.choice(string.ascii_lowercase) + step if rng.random() < TYPO_RATE else step)
    return value


def worked_solution(rng: random.Random, problem: TinyProblem) -> str:
    """A solution in a random style, order and wording, not always right, ending in a box."""
    style = rng.choices(STYLES, [style.share for style in STYLES])[0]
    tree: Op = rng.choice(problem.derivations)
    steps: list[str] = []
    value = _work(rng, tree, style, steps)
    if style.name == "direct":
        return pick(rng, DIRECT_CLOSINGS) + f"{value}}}"
    text = pick(rng, OPENINGS) + steps[0]
    for step in steps[1:]:
        text += pick(rng, CONNECTORS) + step
    return text + pick(rng, CLOSINGS) + f"{value}}}"


def worked_example(seed: int, index: int) -> Example:
    """Example number ``index`` of the endless pretraining text: a function of both numbers alone."""
    rng = random.Random(derive_seed(seed, "tiny-pretrain", index))
    problem = next(tiny.draw(rng, "pretrain", ALL_KINDS))
    return Example(prompt=prompt_text(problem), solution=worked_solution(rng, problem))


def training_problems(seed: int, count: int, kinds: tuple[str, ...] = ALL_KINDS) -> list[Problem]:
    """Distinct problems to train on by reward; none is in a task or in the pretraining text."""
    rng = random.Random(derive_seed(seed, "tiny-train"))
    return [
        Problem(
            task="tiny_train",
            problem_id=f"tiny-train-{number:04d}",
            question=problem.text,
            gold=Gold(answer=str(problem.answer)),
        )
        for number, problem in enumerate(tiny.distinct_problems(tiny.draw(rng, "train", kinds), count), start=1)
    ]
