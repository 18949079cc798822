"""Products of two numbers with a third added or taken away: what a tiny model copies with ease and cannot compute.

    "What is 47 * 83 + 26?"   # 3927

Which split a text may serve (the tasks, training prompts, pretraining) is a function of the text alone, so that no two
splits share a problem, whatever their seeds.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stapo_bench.seeds import derive_seed
from stapo_bench.tasks.distinct import distinct

Split = Literal["task", "train", "pretrain"]


@dataclass(frozen=True)
class Product:
    """``a * b + c`` or ``a * b - c``, numbers of two digits.

    >>> str(Product(47, 83, -26)), Product(47, 83, -26).answer
    ('47 * 83 - 26', 3875)
    """

    a: int
    b: int
    c: int

    def __str__(self) -> str:
        return f"{self.a} * {self.b} {'+' if self.c > 0 else '-'} {abs(self.c)}"

    @property
    def answer(self) -> int:
        """Its value, of three or four digits."""
        return self.a * self.b + self.c

    @property
    def text(self) -> str:
        """The problem."""
        return f"What is {self}?"


def split_of(text: str) -> Split:
    """The one split that a text may serve: 5 % of all the tasks', 15 % training's, the rest pretraining's."""
    bucket = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 20
    return "task" if bucket == 0 else "train" if bucket < 4 else "pretrain"


def draw(rng: random.Random, split: Split) -> Iterator[Product]:
    """An endless stream of a split's problems; one may come again."""
    while True:
        found = Product(rng.randint(12, 98), rng.randint(12, 98), rng.choice((-1, 1)) * rng.randint(11, 99))
        if split_of(found.text) == split:
            yield found


def rows(split: Split, seed: int, count: int) -> list[dict[str, str]]:
    """Problems of a split as rows ``{"id", "problem", "answer"}``, the same for the same seed on every machine.

    >>> rows("task", seed=0, count=1)
    [{'id': 'product-001', 'problem': 'What is 44 * 65 + 65?', 'answer': '2925'}]
    """
    drawn = draw(random.Random(derive_seed(seed, "products", split)), split)
    found = distinct(drawn, count, what="products", key=str)
    return [
        {"id": f"product-{number:03d}", "problem": problem.text, "answer": str(problem.answer)}
        for number, problem in enumerate(found, start=1)
    ]
