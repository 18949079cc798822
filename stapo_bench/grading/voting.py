r"""Which extracted answers are the same answer, as the math grader sees it: the classes over which maj@k counts votes.

>>> equal_answers([r"\frac{1}{2}", None, "0.5", "3", "3"])
[1, -1, 1, 0, 0]
"""

import atexit
from collections import Counter
from collections.abc import Sequence
from functools import cache

from stapo_bench.grading.decide import decide_at_sight
from stapo_bench.grading.pool import GraderPool
from stapo_bench.records import Gold, Outcome

MAX_CLASSES = 32
"""A problem's most frequent answers that are compared by value; beyond them, answers are equal when their text is."""

_MAX_LENGTH = 200  # characters; what is longer is prose, and equal only to its own text


def equal_answers(answers: Sequence[str | None]) -> list[int]:
    """Number the answers of one problem by class, -1 for no answer.

    Each distinct text is compared once with one member of each class among the ``MAX_CLASSES`` most frequent texts, so
    that the cost does not grow with the number of samples.
    """
    from stapo_bench.statistics import answer_classes  # numpy, which grading alone does not need

    counts = Counter(answer for answer in answers if answer is not None)
    frequent = [text for text, _ in counts.most_common(MAX_CLASSES) if len(text) <= _MAX_LENGTH]
    number_of = dict(zip(frequent, answer_classes(frequent, same_answer), strict=True))
    for text in counts:
        number_of.setdefault(text, len(number_of))
    return [-1 if answer is None else number_of[answer] for answer in answers]


def same_answer(a: str, b: str) -> bool:
    """Whether the math grader accepts each of two answers where the other is the gold.

    Models wrote both, so all that a look does not settle is left to a process with a limit on its time.

    >>> same_answer("1,000", "1000"), same_answer("7", "8")
    (True, False)
    """
    return all(_accepts(answer, Gold(answer=gold)) for answer, gold in ((a, b), (b, a)))


def _accepts(answer: str, gold: Gold) -> bool:
    """Whether the math grader takes the answer for the gold."""
    seen = decide_at_sight(answer, gold)
    return seen.correct if seen is not None else _pool().grade_extracted(answer, gold).outcome is Outcome.CORRECT


@cache
def _pool() -> GraderPool:
    """One worker, started when first needed, for as long as this process lives."""
    pool = GraderPool(1)
    atexit.register(pool.close)
    return pool
