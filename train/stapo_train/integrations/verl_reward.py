"""Our graders as verl's reward function.

    reward.custom_reward_function.path=pkg://stapo_train.integrations.verl_reward
    +reward.custom_reward_function.reward_kwargs.grader=math

verl calls ``compute_score`` in threads of its reward workers. Grading runs in processes that can be killed, so that a
completion which hangs or crashes a grader costs its own rollout alone.

A grader's failure says nothing about the rollout and must not be a reward of 0. verl allows a reward function two other
responses: to raise, which discards the whole group, or to return NaN, which verl's own estimators spread over the
group. Our estimator, ``algorithm.adv_estimator=stapo_train``, leaves the NaN out of its group, as everywhere in this
project; the actor's worker refuses advantages that are NaN. verl's logged mean score of the iteration is then NaN.
"""

import threading
from functools import lru_cache
from typing import Any

from stapo_bench.grading import REWARDS, GraderPool, as_gold
from stapo_bench.records import Outcome

_making = threading.Lock()


def compute_score(  # noqa: PLR0917
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    grader: str = "strict",
    workers: int = 2,
    **_: Any,
) -> dict[str, float]:
    """The reward of one completion, by verl's signature.

    Args:
        data_source: not used; verl hands it over.
        solution_str: the completion.
        ground_truth: the gold answer.
        extra_info: of the problem; ``answer_type`` says how the gold is to be read, ``question`` what was asked.
        grader: a name that ``stapo_bench`` knows, such as ``math`` or ``strict``.
        workers: grading processes of each of verl's reward workers.

    Returns:
        ``score``, NaN where the grader failed; and, for verl's logs, 0 or 1 for each reason why it is not 1.

    Raises:
        UsageError: no gold, or a blank one, by which every completion would be wrong.
    """
    said = extra_info or {}
    gold = as_gold(
        ground_truth, where="ground_truth", answer_type=said.get("answer_type"), question=said.get("question")
    )
    with _making:  # only one pool, even if several threads arrive at once
        pool = _pool(grader, workers)
    (grade,) = pool.grade([(solution_str, gold)])
    return {
        "score": REWARDS[grade.outcome],
        "no_answer": float(grade.outcome is Outcome.NO_ANSWER),
        "grader_error": float(grade.outcome is Outcome.GRADER_ERROR),
    }


@lru_cache
def _pool(grader: str, workers: int) -> GraderPool:
    return GraderPool(workers, grader=grader)
