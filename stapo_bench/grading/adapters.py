"""Our graders as what other packages call: a reward of TRL or verifiers, results of lm-eval, a scorer of inspect_ai.

    rewards = grader_reward()                                    # TRL: GRPOTrainer(reward_funcs=rewards, ...)
    rubric = verifiers.Rubric(funcs=[verifiers_reward()])        # verifiers
    from stapo_bench.grading import lm_eval_results as process_results    # lm-eval: utils.py beside a task file
    task = inspect_ai.Task(dataset=..., scorer=inspect_scorer())          # inspect_ai

All of them grade in processes that can be killed, so that a completion which hangs or crashes a grader costs itself and
nothing else. A grader's failure says nothing about the completion: it is never a reward or a score of 0. (verl's
``compute_score`` is ``stapo_train.integrations.verl_reward``.)
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading.golds import as_gold
from stapo_bench.grading.pool import GraderPool
from stapo_bench.records import DEFAULT_GRADER, Gold, Grade, Outcome

if TYPE_CHECKING:
    from inspect_ai.scorer import Score, Scorer, Target
    from inspect_ai.solver import TaskState

REWARDS: Mapping[Outcome, float] = {
    Outcome.CORRECT: 1.0,
    Outcome.INCORRECT: 0.0,
    Outcome.NO_ANSWER: 0.0,
    Outcome.GRADER_ERROR: float("nan"),
}
"""Reward by outcome. A grader's failure is NaN, which leaves a rollout out of its group's statistics."""


def grader_reward(grader: str = DEFAULT_GRADER, workers: int | None = None) -> Callable[..., list[float | None]]:
    """A reward function for TRL: 1 for a correct completion, 0 for another, None where the grader failed.

    TRL leaves a None out of its group's statistics. The data set needs a column ``gold``: the answer as a text or a
    number, or the fields of a ``Gold``; a blank one is refused, since every reply would be wrong by it. A column
    ``question``, where there is one, goes to graders that ask it.

    Args:
        grader: a name that ``stapo_bench`` knows, such as ``math`` or ``strict``.
        workers: processes that grade; default one per CPU.
    """
    pool = GraderPool(workers, grader=grader)

    def grader_reward(  # by name, as TRL calls it: in another order prompts would be graded against completions
        *,
        completions: Sequence[Any],
        gold: Sequence[Any] | None = None,
        question: Sequence[str] | None = None,
        **others: Any,
    ) -> list[float | None]:
        if gold is None:
            columns = ", ".join(others) or "none"
            raise UsageError(f"gold: expected a column of the data set with the answers, got none; there are {columns}")
        if len(gold) != len(completions):
            raise UsageError(f"gold: expected one for each of {len(completions)} completions, got {len(gold)}")
        asked: Sequence[str | None] = question or [None] * len(completions)
        grades = pool.grade([(_text(c), _gold(g, q)) for c, g, q in zip(completions, gold, asked, strict=True)])
        return [None if grade.outcome is Outcome.GRADER_ERROR else REWARDS[grade.outcome] for grade in grades]

    return grader_reward


def verifiers_reward(grader: str = DEFAULT_GRADER, workers: int | None = None) -> Callable[..., Awaitable[float]]:
    """A reward function for a rubric of verifiers: 1 for the answer of the data set's column ``answer``, else 0.

    verifiers knows no reward that is unknown, and takes an exception for a 0: where the grader failed it is NaN.
    """
    from asyncio import to_thread

    pool = GraderPool(workers, grader=grader)

    async def correct_answer(completion: Any, answer: str, prompt: Any = None, **_: Any) -> float:
        question = None if prompt is None else _text(prompt)
        (grade,) = await to_thread(pool.grade, [(_text(completion), _gold(answer, question))])
        return REWARDS[grade.outcome]

    return correct_answer


def lm_eval_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """``process_results`` of an lm-eval task whose documents have ``answer`` and ``problem`` or ``question``.

    Where the grader failed there is no ``exact_match``, and lm-eval leaves the document out of its mean.
    """
    gold = _gold(doc["answer"], doc.get("problem", doc.get("question")))
    (grade,) = _pool(DEFAULT_GRADER).grade([(results[0], gold)])
    return {} if grade.outcome is Outcome.GRADER_ERROR else {"exact_match": REWARDS[grade.outcome]}


def inspect_scorer(grader: str = DEFAULT_GRADER) -> "Scorer":
    """A scorer of inspect_ai, with accuracy and its standard error; unscored where the grader failed.

    The sample's target is the gold (any of several); the sample's input goes to graders that ask the question.
    """
    from asyncio import to_thread

    from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer, stderr

    @scorer(metrics=[accuracy(), stderr()], name="stapo_bench")  # type: ignore[untyped-decorator]
    def stapo_bench_scorer(grader: str = DEFAULT_GRADER) -> "Scorer":
        async def score(state: "TaskState", target: "Target") -> "Score":
            pairs = [(state.output.completion, _gold(gold, state.input_text)) for gold in target]
            grades = await to_thread(_pool(grader).grade, pairs)
            grade = _best(grades)
            explanation = f"{grade.outcome.value} by {grade.grader}: {grade.detail}"
            if grade.outcome is Outcome.GRADER_ERROR:
                return Score.unscored(explanation=explanation)
            right = grade.outcome is Outcome.CORRECT
            return Score(value=CORRECT if right else INCORRECT, answer=grade.extracted, explanation=explanation)

        return score

    made: Scorer = stapo_bench_scorer(grader)
    return made


def _best(grades: Sequence[Grade]) -> Grade:
    """The grade that counts where any of several golds will do: a right one, else one that failed, else the first."""
    for outcome in (Outcome.CORRECT, Outcome.GRADER_ERROR):
        for grade in grades:
            if grade.outcome is outcome:
                return grade
    if not grades:
        raise StapoError("expected a target to grade against, got a sample without one; give it its answer")
    return grades[0]


def _text(message: Any) -> str:
    """The text of a completion or a prompt: itself, or the last message's of a chat."""
    if isinstance(message, str):
        return message
    if not message:
        raise UsageError(f"completion: expected a text or a chat, got {message!r:.40}")
    last = message[-1]
    content = last["content"] if isinstance(last, Mapping) else last.content
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _gold(gold: Any, question: str | None) -> Gold:
    """A gold as data sets hold it: the answer, or the fields of a ``Gold``."""
    if not isinstance(gold, Mapping):
        return as_gold(gold, where="gold", question=question)
    others = {name: value for name, value in gold.items() if name != "answer"}
    return replace(as_gold(gold.get("answer"), where="gold.answer"), **{"question": question, **others})


@cache
def _pool(grader: str) -> GraderPool:
    """One pool for as long as this process lives: these packages hand completions over one by one."""
    return GraderPool(grader=grader)
