"""A grader with a quick rule and an extraction of its own. Used by ``test_grader_pool.py`` only."""

from pathlib import Path

from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = "quick-1"


def quick_grade(completion: str, gold: Gold) -> Grade | None:
    return Grade(outcome=Outcome.CORRECT, extracted=completion, detail="quick") if completion == gold.answer else None


def extract_answer(completion: str) -> str | None:
    return completion.rpartition("answer ")[2] if "answer " in completion else None


def grade_extracted(extracted: str, gold: Gold) -> Grade:
    with Path(gold.answer).open("a", encoding="utf-8") as log:
        log.write("x")
    return Grade(outcome=Outcome.INCORRECT, extracted=extracted, detail="graded its answer")


def grade_answer(completion: str, gold: Gold) -> Grade:
    return Grade(outcome=Outcome.NO_ANSWER, extracted=None, detail="graded whole")
