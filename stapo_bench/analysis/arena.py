"""Several graders on the same labelled responses: who agrees with the labels, who errs which way, at what cost.

for contender in judge_graders(read_labelled(Path("responses.jsonl.gz")), ["math", "math-verify"]):
    print(contender.name, contender.agreement)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stapo_bench.errors import StapoError
from stapo_bench.grading import Grader, GraderPool, Limits, get_grader
from stapo_bench.records import Outcome
from stapo_bench.runs.importing import Labelled

MOST_CPU_S = 5.0
"""CPU seconds that a response may take: the time that math-verify gives itself for each of its steps."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """What a grader did with the responses. Rows are the file's, from 1."""

    name: str
    version: str
    num_responses: int
    wrong_accepts: tuple[int, ...]  # rows that it calls right, the label wrong
    wrong_refusals: tuple[int, ...]  # rows that it calls wrong or without an answer, the label right
    num_no_answer: int
    num_unread: int  # counted as wrong because they could not be read; only ``math`` tells
    hung: tuple[int, ...]  # rows that took more than ``MOST_CPU_S``
    failed: tuple[int, ...]  # rows on which it crashed or raised
    p50_ms: float  # CPU time of a response that was decided; NaN: none was
    p99_ms: float

    @property
    def agreement(self) -> float:
        """The share of all responses with a verdict, and that of the label; NaN without responses."""
        others = len(self.wrong_accepts) + len(self.wrong_refusals) + len(self.hung) + len(self.failed)
        return 1.0 - others / self.num_responses if self.num_responses else float("nan")


def graders_at_hand(names: Sequence[str]) -> tuple[list[Grader], list[str]]:
    """The graders of those names, and in one line each why others cannot run here.

    Raises:
        UsageError: a name that no grader has.
    """
    ready, missing = [], []
    for grader in map(get_grader, names):
        try:
            grader.check_installed()
        except StapoError as error:
            missing.append(str(error))
        else:
            ready.append(grader)
    return ready, missing


def judge_graders(responses: Sequence[Labelled], graders: Sequence[Grader]) -> Iterator[Contender]:
    """How each grader judges the responses, one grader after the other, in processes that can be killed."""
    pairs = [(response.completion, response.gold) for response in responses]
    for grader in graders:
        with GraderPool(grader=grader, limits=Limits(cpu_s=MOST_CPU_S)) as pool:
            graded = pool.grade_timed(pairs)
        found = [(response, grade) for response, (grade, _) in zip(responses, graded, strict=True)]
        lost = [(response.row, grade.detail) for response, grade in found if grade.outcome is Outcome.GRADER_ERROR]
        decided = [seconds for _, seconds in graded if not np.isnan(seconds)]
        p50, p99 = np.percentile(decided, [50, 99]) * 1000 if decided else (np.nan, np.nan)
        refused = (Outcome.INCORRECT, Outcome.NO_ANSWER)
        yield Contender(
            name=grader.name,
            version=grader.version,
            num_responses=len(responses),
            wrong_accepts=tuple(r.row for r, grade in found if grade.outcome is Outcome.CORRECT and not r.is_right),
            wrong_refusals=tuple(r.row for r, grade in found if grade.outcome in refused and r.is_right),
            num_no_answer=sum(grade.outcome is Outcome.NO_ANSWER for _, grade in found),
            num_unread=sum(grade.is_unread for _, grade in found),
            hung=tuple(row for row, why in lost if why.startswith(("timed out", "asleep"))),
            failed=tuple(row for row, why in lost if not why.startswith(("timed out", "asleep"))),
            p50_ms=float(p50),
            p99_ms=float(p99),
        )
