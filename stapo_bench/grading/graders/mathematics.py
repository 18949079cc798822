"""The ``math`` grader: mathematical equality, by the type of answer that the gold is. See README.md of ``grading``.

It never raises on any string, never executes its input, needs no main thread and no signals. Bounds on length, depth,
digits and nodes are checked before anything is computed.
"""

from dataclasses import replace

from stapo_bench.grading.decide import Verdict, asked_by, decide, decide_at_sight
from stapo_bench.grading.extraction import extract_answer
from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = "math-5"
# The gold's own text decides its type; "text" forces a comparison of words, and "multi", "set" and "tuple" make every
# comma a separator. A type that is none of these changes nothing.
ANSWER_TYPES = ("number", "expression", "tuple", "interval", "set", "multi", "equation", "matrix", "text")

MAX_QUICK = 10_000  # characters of a completion, or a gold, that is worth a quick look


def grade_answer(
    completion: str, answer: str | Gold, answer_type: str | None = None, *, question: str | None = None
) -> Grade:
    r"""Grade a completion against a gold.

    ``answer_type``: one of ``ANSWER_TYPES``; None lets the gold say by itself what it is.
    ``question``: the problem's text, where a percentage or a base that it asks for may decide; None: the gold's own.

    >>> grade_answer(r"... so the area is \boxed{0.5\text{ cm}^2}.", r"\frac{1}{2}").outcome.value
    'CORRECT'
    >>> grade_answer(r"\boxed{0.33}", r"\frac{1}{3}").outcome.value
    'INCORRECT'
    >>> grade_answer(r"\boxed{10}", r"10\%", question="What percent of 50 is 5?").outcome.value
    'CORRECT'
    >>> grade_answer("I give up.", "42").outcome.value
    'NO_ANSWER'
    """
    gold = answer if isinstance(answer, Gold) else Gold(answer=answer)
    if answer_type is not None:
        gold = replace(gold, answer_type=answer_type)
    if question is not None:
        gold = replace(gold, question=question)
    try:
        extracted = extract_answer(completion)
    except Exception as error:
        return _failed(None, error)
    if extracted is None:
        return Grade(outcome=Outcome.NO_ANSWER, extracted=None, detail="no final answer found", grader=GRADER_VERSION)
    return grade_extracted(extracted, gold)


def grade_extracted(extracted: str, gold: Gold) -> Grade:
    """Grade an answer that ``extract_answer`` found: completions that give the same one share a grade."""
    try:
        verdict = decide(extracted, gold, asked_by(gold.question) if gold.question else None)
    except Exception as error:
        return _failed(extracted, error)
    return _grade(extracted, verdict)


def quick_grade(completion: str, gold: Gold) -> Grade | None:
    """The grade where a look at a short answer settles it, which needs no process of its own; else None."""
    if len(completion) > MAX_QUICK or len(gold.answer) > MAX_QUICK:
        return None
    try:
        extracted = extract_answer(completion)
        verdict = None if extracted is None else decide_at_sight(extracted, gold)
    except Exception:  # a worker meets it again, and reports it
        return None
    return None if verdict is None or extracted is None else _grade(extracted, verdict)


def _grade(extracted: str, verdict: Verdict) -> Grade:
    """The verdict as a grade."""
    outcome = Outcome.CORRECT if verdict.correct else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=extracted, detail=verdict.rule, grader=GRADER_VERSION)


def _failed(extracted: str | None, error: Exception) -> Grade:
    """The grade where the grader failed: unknown, not wrong; the score's bounds show it."""
    detail = f"{type(error).__name__}: {str(error)[:200]}"
    return Grade(outcome=Outcome.GRADER_ERROR, extracted=extracted, detail=detail, grader=GRADER_VERSION)
