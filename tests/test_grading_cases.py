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
from stapo_bench.records import Gold, Outcome

CASES = [
    pytest.param(json.loads(line), id=f"{path.stem}-{number}")
    for path in sorted((Path(__file__).parent / "grading_cases").glob("*.jsonl"))
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
]

PUBLISHED = ("answer_type", "tolerance", "unit", "is_multiple")


@pytest.mark.parametrize("case", CASES)
def test_case(case: dict[str, Any]) -> None:
    completion = case["completion"] if "completion" in case else rf"\boxed{{{case['answer']}}}"
    gold = Gold(answer=case["gold"], **{name: case[name] for name in PUBLISHED if name in case})
    grade = grade_answer(completion, gold, question=case.get("question"))
    expected = Outcome.CORRECT if case["correct"] else Outcome(case.get("outcome", "INCORRECT"))
    assert grade.outcome is expected, (case, grade)


def test_near_misses_are_at_least_a_third() -> None:
    verdicts = Counter(param.values[0]["correct"] for param in CASES)  # type: ignore[index]
    assert len(CASES) > 2900
    assert verdicts[False] * 3 >= len(CASES)


def test_every_case_names_its_source() -> None:
    assert all(param.values[0]["source"] for param in CASES)  # type: ignore[index]
