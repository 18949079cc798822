r"""The strict grader: DAPO's box rule, the reward of the paper's training runs.

It is verl's ``math_dapo`` with ``strict_box_verify=True``: the last ``\boxed{`` within the final 100 characters, its
braces balanced, and its content equal to the gold character by character: no stripping, no normal form, no numeric
reading.
https://github.com/volcengine/verl/blob/012542c42542738709ccd0db619cff949cb0337a/verl/utils/reward_score/math_dapo.py
(``compute_score`` first cuts to 300 characters and ``is_correct_strict_box`` then to 100, so 100 decide.)

One thing is added: where verl says -1 for both, a response without a complete box is NO_ANSWER here and a wrong one
INCORRECT.
"""

from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = "strict-1"
WINDOW = 100  # characters from the end; an earlier box is not seen


def extract_answer(completion: str) -> str | None:
    r"""The content of the last box in the window; None when there is none or it never closes.

    >>> extract_answer(r"\boxed{41}, no: $\boxed{\frac{1}{2}}$.")
    '\\frac{1}{2}'
    >>> extract_answer(r"\boxed{41}, no: $\boxed{\frac{1}{2}")  # cut off: an earlier box is not credited
    """
    tail = completion[-WINDOW:]
    start = tail.rfind(r"\boxed{")
    if start < 0:
        return None
    content = start + len(r"\boxed{")
    depth = 1
    for position in range(content, len(tail)):
        depth += (tail[position] == "{") - (tail[position] == "}")
        if depth == 0:
            return tail[content:position]
    return None


def grade_answer(completion: str, answer: str | Gold, answer_type: str | None = None) -> Grade:
    r"""CORRECT if the extracted text equals the gold's text; the gold's type and tolerance play no part.

    >>> grade_answer(r"So it is $\boxed{204}$.", "204").outcome.value
    'CORRECT'
    >>> grade_answer(r"So it is $\boxed{ 204}$.", "204").outcome.value
    'INCORRECT'
    """
    gold = answer.answer if isinstance(answer, Gold) else answer
    extracted = extract_answer(completion)
    if extracted is None:
        detail = f"no complete box in the final {WINDOW} characters"
        return Grade(outcome=Outcome.NO_ANSWER, extracted=None, detail=detail, grader=GRADER_VERSION)
    outcome = Outcome.CORRECT if extracted == gold else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=extracted, detail="exact text", grader=GRADER_VERSION)


quick_grade = grade_answer  # it reads 100 characters: never worth a worker
