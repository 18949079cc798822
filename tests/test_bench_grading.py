"""The measurement script runs, and says what it measured."""

import json
import os
import runpy
from pathlib import Path

import pytest

from stapo_bench.records import Gold, Problem

PERCENT = "What percent of 50 is 5?"
SCRIPT = Path(__file__).parent.parent / "bench" / "grading.py"


@pytest.fixture
def bench():
    return runpy.run_path(str(SCRIPT))


def test_missing_data_is_one_line(bench, capsys, tmp_path):
    assert bench["main"](["--data", str(tmp_path / "responses.jsonl.gz")]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path / 'responses.jsonl.gz'}: no such file")
    assert error.count("\n") == 1


def test_agreement_counts_both_kinds_of_error(bench):
    cases = [bench["Case"](str(i), "b", "", None, label) for i, label in enumerate([True, True, False, False])]
    summary = bench["_summary"](cases, ["CORRECT", "NO_ANSWER", "CORRECT", "INCORRECT"], [0.001, 0.001, 0.001, 0.009])
    assert summary["agreement"] == 0.5
    assert summary["false_negatives"] == ["1"]
    assert summary["false_positives"] == ["2"]
    assert summary["outcomes"] == {"CORRECT": 2, "INCORRECT": 1, "NO_ANSWER": 1}
    assert summary["p50_ms"] == pytest.approx(1.0)
    assert summary["max_ms"] == pytest.approx(9.0)


def test_the_question_reaches_the_grader(bench):
    gold = Gold(answer=r"10\%")
    asked, not_asked = (bench["Case"]("1", "b", r"\boxed{10}", gold, True, question) for question in (PERCENT, None))
    assert [bench["_with_question"](case).value for case in (asked, not_asked)] == ["CORRECT", "INCORRECT"]


def test_a_case_has_the_question_of_its_problem(bench):
    row = {"id": "7", "benchmark": "b", "response": "10", "gold": "11", "label": False}
    problem = Problem(task="b", problem_id="p", question=PERCENT, gold=Gold(answer="12", tolerance=0.5))
    case = bench["_case"](row, problem)
    assert (case.question, case.gold) == (PERCENT, Gold(answer="11", tolerance=0.5))
    assert bench["_case"](row, None).question is None


def test_a_short_measurement(bench, capsys, tmp_path):
    if "STAPO_BENCH_DATA" not in os.environ:
        pytest.skip("needs the benchmark data: set STAPO_BENCH_DATA to their folder")
    assert bench["main"](["--limit", "4", "--json", str(tmp_path / "out.json")]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["num_responses"] == 4
    assert set(result["graders"]) == {"math", "math, with the question", "strict", "qwen", "math-verify"}
    assert {"commit", "device", "versions", "import_s", "ratio_math_verify_to_math"} <= set(result)
    assert "times as fast as math-verify" in capsys.readouterr().out
