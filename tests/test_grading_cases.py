"""The grader against cases with a source: ``tests/grading_cases/*.jsonl``, one pair and its verdict a line.

A case may give what a task publishes with its gold, ``answer_type``, ``tolerance``, ``unit``, ``is_multiple``, or the
``question``. The ``independent_*`` files were written from the reading alone, by someone who had not seen the grader's
code.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stapo_bench.grading import grade_answer
from stapo_bench.records import Gold, Grade, Outcome

CASES = {
    path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for path in sorted((Path(__file__).parent / "grading_cases").glob("*.jsonl"))
}

PUBLISHED = ("answer_type", "tolerance", "unit", "is_multiple")


def grade_of(case: dict[str, Any]) -> Grade:
    completion = case["completion"] if "completion" in case else rf"\boxed{{{case['answer']}}}"
    gold = Gold(answer=case["gold"], **{name: case[name] for name in PUBLISHED if name in case})
    return grade_answer(completion, gold, question=case.get("question"))


# A test a file, as pytest takes longer over a test of its own than the grader over a case.
@pytest.mark.parametrize("name", CASES)
def test_every_case_of_a_file(name: str) -> None:
    wrong = []
    for number, case in enumerate(CASES[name], start=1):
        expected = Outcome.CORRECT if case["correct"] else Outcome(case.get("outcome", "INCORRECT"))
        grade = grade_of(case)
        if grade.outcome is not expected:
            wrong.append(f"{name}-{number}: expected {expected}, got {grade} for {case}")
    assert not wrong, "\n".join(wrong)


def test_near_misses_are_at_least_a_third() -> None:
    verdicts = Counter(case["correct"] for cases in CASES.values() for case in cases)
    assert verdicts.total() > 2900
    assert verdicts[False] * 3 >= verdicts.total()


def test_every_case_names_its_source() -> None:
    assert all(case["source"] for cases in CASES.values() for case in cases)
