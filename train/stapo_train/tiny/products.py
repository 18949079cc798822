"""What the tiny model reads to learn that there is a calculator: products, mostly guessed, now and then asked for.

A guess is near the value and hardly ever right. A call copies the problem, at once or in two steps, not always without
a mistake, and the answer copies what the calculator says. So a reply that calls is mostly right, and one that does not
is wrong: reward can teach the model to call.

>>> example = worked_example(seed=0, index=1)
>>> example.prompt.startswith("What is "), "\\\\boxed{" in example.solution
(True, True)
"""

import random

from stapo_bench.seeds import derive_seed
from stapo_bench.tasks import get_tool, products
from stapo_bench.tasks.products import Product
from stapo_train.tiny.problems import Example, Wordings, pick

CALLS = 0.35
"""Share of the solutions that ask the calculator; a third of them in two steps."""
MISREAD = 0.12
"""Share of the calls with a wrong digit, which the calculator computes with."""
BROKEN = 0.05
"""Share of the calls that are no expression: the calculator says so, and a guess follows."""
GUESS = 60
"""How far a guess is off, at most."""

OPENINGS: Wordings = (("", 0.5), ("We ask: ", 0.25), ("Let me see: ", 0.15), ("Well, ", 0.07), ("Hmm, ", 0.03))
CLOSINGS: Wordings = (
    ("The answer is \\boxed{", 0.5), ("So \\boxed{", 0.3), ("It is \\boxed{", 0.15), ("Hence \\boxed{", 0.05),
)  # fmt: skip


def worked_example(seed: int, index: int) -> Example:
    """Example number ``index`` of the endless pretraining text: a function of both numbers alone."""
    rng = random.Random(derive_seed(seed, "products-pretrain", index))
    problem = next(products.draw(rng, "pretrain"))
    return Example(prompt=problem.text + "\n", solution=_solution(rng, problem))


def _solution(rng: random.Random, problem: Product) -> str:
    opening, closing = pick(rng, OPENINGS), pick(rng, CLOSINGS)
    guess = problem.answer + rng.choice((-1, 1)) * rng.randint(1, GUESS)
    if rng.random() >= CALLS:
        return f"{opening}{closing}{guess}}}"
    written, two_steps = str(problem), rng.random() < 1 / 3
    if rng.random() < MISREAD:
        place = rng.choice([place for place, character in enumerate(written) if character.isdigit()])
        written = written[:place] + str(rng.randint(1, 9)) + written[place + 1 :]
    if rng.random() < BROKEN:
        return f"{opening}{_asked(written.replace(' *', ''))[0]}{closing}{guess}}}"
    if two_steps:
        product, sign, term = written.rsplit(" ", 2)
        text, value = _asked(product)
        last, value = _asked(f"{value} {sign} {term}")
        return f"{opening}{text}{last}{closing}{value}}}"
    text, value = _asked(written)
    return f"{opening}{text}{closing}{value}}}"


def _asked(expression: str) -> tuple[str, str]:
    """A call with the calculator's output, and the value in it."""
    tool = get_tool("calculator")
    call = f"{tool.begin}{expression}{tool.end}"
    return call + tool.answer(call), tool.run(expression)
