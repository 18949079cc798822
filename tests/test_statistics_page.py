"""docs/statistics.md: its tables are those of the record and of the formulas, and the formulas are right."""

import json

import numpy as np
import pytest

from bench.pairs import PAIRS
from bench.statistics_page import (
    BEYOND,
    FIGURE,
    PAGE,
    RECORD,
    bowyer,
    coverage_table,
    filled,
    inspect_ai,
    lm_eval,
    miller,
    nemo,
    said_of_outcomes,
)
from stapo_bench.statistics import ERROR_NAMES


def test_the_tables_are_those_of_the_record_and_the_formulas():
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "make it again: python -m bench.statistics_page"
    assert FIGURE.read_text(encoding="utf-8").startswith("<?xml")


def test_what_is_said_of_scores_clusters_and_several_models_is_in_the_record():
    said = " ".join((BEYOND.parent / "README.md").read_text(encoding="utf-8").split())
    assert said_of_outcomes(json.loads(BEYOND.read_text(encoding="utf-8"))) in said


def test_the_record_covers_rare_and_spread_differences():
    """500 data sets a cell: standard error 1.0 points at 95 %, and the lowest of 180 cells is three of them low."""
    rows = json.loads(RECORD.read_text(encoding="utf-8"))["pairs"]["rows"]
    assert len(rows) == 15 * 12
    assert min(row["problems like these"]["covered"] for row in rows) >= 0.91
    assert max(row[error]["false_tie"] for row in rows for error in ERROR_NAMES) <= 0.05
    power = {row["population"]: row["problems like these"]["shown"] for row in rows if row["design"] == [30, 32]}
    assert power["spread, 4 points"] >= 0.55
    assert power["spread, 7 points"] >= 0.93


def test_formulas_by_hand():
    correct = np.array([[1.0, 1.0], [0.0, 1.0]])
    # first samples 1, 0: mean 1/2, s = 0.7071, / sqrt(2) = 1/2
    assert lm_eval(correct).high == pytest.approx(0.5 + 1.95996 / 2, abs=1e-4)
    # means 1 and 1/2: mean 3/4, s = 0.35355, / sqrt(2) = 1/4
    assert inspect_ai(correct).low == pytest.approx(0.75 - 1.95996 / 4, abs=1e-4)
    # runs 1/2 and 1: the same numbers
    assert nemo(correct).low == pytest.approx(0.75 - 1.95996 / 4, abs=1e-4)
    # residuals 1/4, 1/4 and -3/4, 1/4: cluster sums 1/2 and -1/2, SE^2 = (1/4 + 1/4) / 16
    assert miller(correct).low == pytest.approx(0.75 - 1.95996 * 0.176777, abs=1e-4)
    # Beta(4, 2): P(X < x) = 5 x^4 - 4 x^5 = 0.025 at 0.28358
    assert bowyer(correct).low == pytest.approx(0.28358, abs=1e-4)


def test_the_table_of_the_record_takes_the_worst_design():
    cell = {"covered": 0.95, "shown": 0.1, "false_tie": 0.0}
    worse = {**cell, "covered": 0.93, "false_tie": 0.04}
    rows = [
        {"population": name, "truth": 0.02, "design": design, "these problems": cell, "problems like these": of_like}
        for name in PAIRS
        for design, of_like in (([30, 32], cell), ([30, 1], worse))
    ]
    line = coverage_table({"pairs": {"rows": rows}}).splitlines()[2]
    assert line.endswith("| 2.0 | 95.0 | 93.0 | 4.0 | 10.0 |")
