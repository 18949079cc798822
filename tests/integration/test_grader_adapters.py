"""Our grader inside the packages that call it: a rubric of verifiers and a scorer of inspect_ai, run by these packages.

Run by ``scripts/integration.sh adapters``, in an environment with both.
"""

import asyncio
import math
from importlib.util import find_spec

import pytest

from stapo_bench.grading import get_grader, inspect_scorer, verifiers_reward

WHY = "{} is not installed: scripts/integration.sh adapters runs this"
needs_inspect = pytest.mark.skipif(find_spec("inspect_ai") is None, reason=WHY.format("inspect_ai"))
needs_verifiers = pytest.mark.skipif(find_spec("verifiers") is None, reason=WHY.format("verifiers"))

ANSWERS = [(r"So \boxed{\frac12}.", "0.5"), (r"\boxed{43}", "42"), ("I give up.", "42")]  # right, wrong, none


def scored(completion, gold, grader="math"):
    """A sample's score by our scorer, from the state that inspect_ai hands a scorer."""
    from inspect_ai.model import ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Target
    from inspect_ai.solver import TaskState

    asked = "What percent of 50 is 5?"
    state = TaskState(
        model="mockllm/model",
        sample_id=1,
        epoch=1,
        input=asked,
        messages=[ChatMessageUser(content=asked)],
        output=ModelOutput.from_content("mockllm/model", completion),
    )
    return asyncio.run(inspect_scorer(grader)(state, Target(gold)))


@needs_inspect
def test_the_scorer_of_inspect_is_a_grader():
    graded = [get_grader("inspect").grade(completion, gold) for completion, gold in ANSWERS[:2]]
    assert [(grade.outcome.value, grade.extracted) for grade in graded] == [
        ("CORRECT", "\\frac12"),
        ("INCORRECT", "43"),
    ]
    assert graded[0].grader.startswith("inspect-0.")


@needs_inspect
def test_inspect_scores_by_our_grader():
    """Right, wrong, no answer, right because the question asks for a percentage, right by the second of two golds."""
    asked = [*ANSWERS, (r"\boxed{10}", r"10\%"), (r"\boxed{3}", ["2", "3"])]
    found = [scored(completion, gold) for completion, gold in asked]
    assert [one.value for one in found] == ["C", "I", "I", "C", "C"]
    assert found[0].answer == r"\frac12"
    assert found[2].explanation.startswith("NO_ANSWER by math-")
    assert scored(r"\boxed{0.5}", r"\frac12", "strict").value == "I"


@needs_inspect
def test_a_failed_grader_leaves_the_sample_of_inspect_unscored(monkeypatch):
    from stapo_bench.grading.adapters import GraderPool
    from stapo_bench.records import Grade, Outcome

    failed = Grade(outcome=Outcome.GRADER_ERROR, extracted=None, detail="crashed", grader="x")
    monkeypatch.setattr(GraderPool, "grade", lambda self, pairs: [failed for _ in pairs])
    found = scored("1", "1")
    assert isinstance(found.value, float) and math.isnan(found.value)
    assert found.explanation == "GRADER_ERROR by x: crashed"


@needs_inspect
def test_inspect_knows_the_scorer_and_its_metrics():
    from inspect_ai import Task
    from inspect_ai.dataset import Sample

    task = Task(dataset=[Sample(input="1+1?", target="2")], scorer=inspect_scorer())
    assert len(task.scorer) == 1


@needs_verifiers
def test_a_rubric_of_verifiers_rewards_by_our_grader():
    import verifiers as vf

    rubric = vf.Rubric(funcs=[verifiers_reward(workers=1)], weights=[1.0])

    async def scores():
        found = []
        for completion, gold in [*ANSWERS, (r"\boxed{10}", r"10\%")]:
            state = {
                "prompt": [{"role": "user", "content": "What percent of 50 is 5?"}],
                "completion": [{"role": "assistant", "content": completion}],
                "answer": gold,
                "task": "default",
                "info": {},
                "example_id": 0,
                "timing": {"scoring_ms": 0.0, "total_ms": 0.0},
                "trajectory": [],
            }
            await rubric.score_rollout(state)
            found.append(state["reward"])
        return found

    assert asyncio.run(scores()) == [1.0, 0.0, 0.0, 1.0]
