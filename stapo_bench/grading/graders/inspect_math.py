r"""The ``inspect`` grader: the ``math()`` scorer of inspect_ai, as that package has it.

It bounds what it reads and evaluates nothing; its own limit on time stays beside the grading process's.
https://inspect.aisi.org.uk/scorers.html
"""

from importlib.metadata import PackageNotFoundError, version

from stapo_bench.records import Gold, Grade, Outcome

try:
    GRADER_VERSION = f"inspect-{version('inspect-ai')}"
except PackageNotFoundError:  # whoever asks for it is told what to install
    GRADER_VERSION = "inspect"


def grade_answer(completion: str, answer: str | Gold, answer_type: str | None = None) -> Grade:
    """The scorer's verdict; the gold's type, unit and tolerance play no part."""
    import anyio
    from inspect_ai.model import ModelName, ModelOutput
    from inspect_ai.scorer import CORRECT, Target, math
    from inspect_ai.solver import TaskState

    gold = answer.answer if isinstance(answer, Gold) else answer
    output = ModelOutput.from_content("none/none", completion)
    state = TaskState(model=ModelName("none/none"), sample_id=0, epoch=1, input="", messages=[], output=output)
    score = anyio.run(math(), state, Target(gold))
    if score is None or not score.answer:
        return Grade(outcome=Outcome.NO_ANSWER, extracted=None, detail="nothing to parse", grader=GRADER_VERSION)
    outcome = Outcome.CORRECT if score.value == CORRECT else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=score.answer, detail="its own rule", grader=GRADER_VERSION)
