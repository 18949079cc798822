"""What lm-eval calls when it runs our task files: the same problems, the same grader, all repeats scored.

    lm_eval --include_path tasks --tasks stapo_aime24 --model hf --model_args pretrained=PATH

lm-eval's default filter scores only the first of the repeats; ``all_samples`` hands all of them to
``process_results``, whose mean over a problem's samples lm-eval then averages over problems: avg@k.
"""

import atexit
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.grading import GraderPool
from stapo_bench.presenting.exporting.lm_eval_logs import problem_metrics
from stapo_bench.records import Gold
from stapo_bench.tasks import load_problems, load_task


def load_dataset(task: str, **_metadata: Any) -> dict[str, Any]:
    """The task's checked problems as lm-eval's ``custom_dataset``: {split: rows}.

    ``task`` is a name, or the path of a task file. Rows come from ``STAPO_BENCH_DATA`` if set, else from the hub.
    """
    definition = load_task(task)
    if definition.tool is not None:
        raise StapoError(
            f"{task}: expected a task without a tool, as lm-eval has no {definition.tool}: stapo-bench eval"
        )

    import datasets

    data_dir = os.environ.get("STAPO_BENCH_DATA")
    rows = [
        {
            "id": problem.problem_id,
            "problem": problem.question,
            "answer": problem.gold.answer,
            "answer_type": problem.gold.answer_type,
            "tolerance": problem.gold.tolerance,
            "unit": problem.gold.unit,
            "is_multiple": problem.gold.is_multiple,
        }
        for problem in load_problems(definition, Path(data_dir) if data_dir else None)
    ]
    return {definition.source.split: datasets.Dataset.from_list(rows)}


def all_samples(responses: Iterable[Sequence[str]], docs: Sequence[Any]) -> list[Sequence[str]]:
    """Filter that keeps every repeat of every problem."""
    return list(responses)


def process_results(doc: dict[str, Any], results: Sequence[Sequence[str]]) -> dict[str, float]:
    """avg@k of one problem, and the shares of its samples without an answer and with a grader error.

    ``avg_at_k`` is the share of CORRECT among the samples that the grader decided. A problem with none has no
    ``avg_at_k``: lm-eval leaves it out of the mean, as our scores do, and says on how many problems each metric rests.
    (NaN would make the whole task's mean NaN.)
    """
    gold = Gold(
        answer=doc["answer"],
        answer_type=doc["answer_type"],
        tolerance=doc["tolerance"],
        unit=doc["unit"],
        is_multiple=doc["is_multiple"],
        question=doc["problem"],
    )
    grades = _pool().grade([(completion, gold) for completion in results[0]])
    return problem_metrics([grade.outcome for grade in grades])


@cache
def _pool() -> GraderPool:
    """Worker processes for all problems: lm-eval hands them over one by one, and a worker takes a second to start."""
    pool = GraderPool()
    atexit.register(pool.close)
    return pool
