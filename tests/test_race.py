"""The race: what is counted of the answers, by hand; a tool on a file of data sets; the page and its record."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.race.__main__ import joined, row
from bench.race.adapters import JUDGES, TOGETHER
from bench.race.cells import cells
from bench.race.environments import judge
from bench.race.page import PAGE, RECORD, TABLES, filled, table

CELLS = {cell.name: cell for cell in cells()}


def test_shares_by_hand():
    answers = [  # low, high, claim, tied
        [-0.01, 0.03, False, True],  # covers 0.02; a tie although the truth is the margin
        [0.03, 0.05, True, False],  # does not
        [-0.30, 0.10, False, False],
        [0.02, 0.04, True, False],  # at its end
    ]
    found = {"answers": answers, "each_s": 0.0025, "peak_kb": 2048}
    counted = row("errorbars", "a kind", 0.02, np.zeros(4), found)
    assert (counted["coverage"], counted["claims"], counted["false_ties"]) == (0.75, 0.5, 0.25)
    assert counted["width"] == pytest.approx((0.04 + 0.02 + 0.40 + 0.02) / 4)
    assert (counted["sets"], counted["each_ms"], counted["peak_mb"]) == (4, 2.5, 2)
    # who speaks of the items as they are has to cover their difference, and calls no tie falsely where it is 0
    fixed = row("stapo-bench, these problems", "a kind", 0.02, np.zeros(4), found)
    assert (fixed["coverage"], fixed["false_ties"]) == (0.5, 0.0)
    assert (counted["false_claims"], fixed["false_claims"]) == (
        0.0,
        0.5,
    )  # their difference is 0: both claims are wrong
    assert row("errorbars", "a kind", -0.02, np.zeros(4), found)["false_claims"] == 0.5  # of the wrong sign


def test_a_test_without_an_interval_has_no_coverage():
    found = {"answers": [[math.nan, math.nan, True, False]], "each_s": 0.1, "peak_kb": 1024}
    counted = row("McNemar", "a kind", 0.0, np.zeros(1), found)
    assert counted["claims"] == 1.0 and "coverage" not in counted and "width" not in counted


def test_formulas_by_hand():
    a, b = np.zeros((4, 1)), np.array([[1.0], [1.0], [0.0], [0.0]])  # mean 1/2, s^2 = 1/3, error sqrt(1/12)
    found = JUDGES["Miller's z"](a, b, None)
    assert found.high == pytest.approx(0.5 + 1.959964 * math.sqrt(1 / 12)) and not found.claim
    # two clusters of sums 1 and -1 of residuals: sqrt(2) / 4
    assert JUDGES["Miller's z"](a, b, np.array([0, 0, 1, 1])).high == pytest.approx(0.5 + 1.959964 * math.sqrt(2) / 4)
    assert JUDGES["paired t"](a, b, None).low == pytest.approx(0.5 - 3.182446 * math.sqrt(1 / 12))
    assert JUDGES["McNemar"](np.zeros((6, 1)), np.ones((6, 1)), None).claim  # 2 / 2^6
    assert not JUDGES["McNemar"](np.zeros((5, 1)), np.ones((5, 1)), None).claim  # 2 / 2^5
    lacking = np.vstack([b, [[np.nan]]])
    assert JUDGES["paired t"](np.zeros((5, 1)), lacking, None) == JUDGES["paired t"](a, b, None)


def test_ours_is_asked_by_matrix_and_by_rows_alike():
    a, b = np.zeros((8, 2)), np.repeat([[1.0], [0.0]], [6, 2], axis=0) * np.ones((8, 2))
    ours = JUDGES["stapo-bench, problems like these"]
    alone, each = ours(a, b, None), ours(a, b, np.arange(8))
    assert alone.claim and each.claim and alone.low == pytest.approx(each.low)
    b[0] = np.nan
    assert ours(a, b, None).low != alone.low


def test_a_tool_is_given_files_and_what_it_refuses_is_named(tmp_path):
    cell = CELLS["30 × 32, 7 points"]
    data, single = tmp_path / "a.npz", tmp_path / "b.npz"
    np.savez(data, **cell.data(3))
    np.savez(single, runs=np.stack([np.zeros((6, 1)), np.ones((6, 1))])[None], truths=np.ones(1))
    refused, judged = judge(Path(sys.executable), "McNemar", [data, single], 5.0)
    assert refused == {"refused": "ValueError: McNemar: one sample of each item, 0 or 1, alone"}
    assert judged["answers"][0][2] is True and judged["peak_kb"] > 0
    (fast,) = judge(Path(sys.executable), "paired t", [data], 5.0)
    assert 0.0 < fast["each_s"] < 0.004, "finer than a tick of the processor's clock"
    (lost,) = judge(Path(sys.executable), "no such tool", [data], 5.0)
    assert "no such tool" in lost["refused"]


@pytest.mark.slow(reason="a process that spends its limits of processor time")
def test_who_takes_too_long_is_refused_for_that_file_alone(tmp_path):
    np.savez(tmp_path / "a.npz", runs=np.ones((1, 2, 6, 1)), truths=np.zeros(1))
    np.savez(tmp_path / "b.npz", runs=np.zeros((1, 2, 6, 1)), truths=np.zeros(1))
    script = (
        "from bench.race import worker; worker.MOST_SECONDS = 0.25\n"
        "def judge(a, b, clusters):\n    while a[0, 0]: pass\n    return (0.0, 0.0, False, False)\n"
        "worker.JUDGES['mine'] = judge\n"
        "while worker.spent_s() < 0.5: pass\n"  # as where importing takes long: limits count from here
        "worker.main()"
    )
    command = [sys.executable, "-c", script, "mine", "0.1", str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PAGE.parent.parent)
    late, other = map(json.loads, done.stdout.splitlines())
    assert late == {"refused": "TimeoutError: needed more than 0.25 s of processor time"}
    assert other["answers"] == [[0.0, 0.0, False, False]]


def test_data_sets_are_the_same_each_time_and_differ_by_what_they_are_called():
    cell = CELLS["30 × 32, 4 points"]
    first, again = cell.data(40), cell.data(40)
    assert np.array_equal(first["runs"], again["runs"])
    assert not np.array_equal(first["runs"], CELLS["30 × 32, 2 points"].data(40)["runs"])
    assert first["truths"].mean() == pytest.approx(cell.truth, abs=0.005)
    lacking = CELLS["missing items, 30 × 32"].data(40)["runs"]
    assert np.isnan(lacking[:, 1]).all(axis=2).mean() == pytest.approx(0.2, abs=0.06)
    assert not np.isnan(lacking[:, 0]).any()


def test_every_column_of_the_page_is_of_a_kind_of_data_that_is_drawn():
    assert {cell for columns in TABLES.values() for _, cell, _ in columns} <= CELLS.keys()
    assert TOGETHER.keys() <= JUDGES.keys()


def test_a_table_has_a_dash_where_a_tool_says_nothing():
    rows = [
        {"tool": "evalci", "cell": "x", "claims": 0.051, "each_ms": 12.34},
        {"tool": "scorio", "cell": "x", "refused": "no"},
        {"tool": "McNemar", "cell": "y", "claims": 0.5},
    ]
    columns = [("claims", "x", "claims"), ("ms", "x", "each_ms"), ("other", "y", "claims")]
    assert table({"rows": rows, "tools": {"evalci": "0.1"}}, columns).splitlines()[2:] == [
        "| evalci 0.1 | 5.1 | 12.3 | – |",
        "| McNemar | – | – | 50.0 |",
    ]


def test_false_claims_that_were_not_counted_are_all_claims_but_of_items_as_they_are():
    rows = [{"tool": tool, "cell": "x", "claims": 0.1} for tool in ("errorbars", "scorio")]
    rows.append({"tool": "stapo-bench, these problems", "cell": "x", "claims": 0.2, "false_claims": 0.01})
    columns = [("false claims", "x", "false_claims"), ("claims", "x", "claims")]
    assert table({"rows": rows, "tools": {}}, columns).splitlines()[2:] == [
        "| stapo-bench, these problems | 1.0 | 20.0 |",
        "| errorbars | 10.0 | 10.0 |",
        "| scorio | – | 10.0 |",
    ]


def test_rows_that_are_made_again_keep_how_and_leave_the_others():
    about = {"command": "all", "commit": "a", "device": "d", "versions": {"numpy": "1"}, "seed": 1}
    names = list(CELLS)[:2]
    rows = [{"tool": tool, "cell": cell, "claims": 0.1} for tool in ("paired t", "McNemar") for cell in names]
    before = {**about, "tools": {"evalci": "1"}, "not_installed": {"scorio": "no"}, "rows": rows}
    again = {"tool": "McNemar", "cell": names[1], "claims": 0.2}
    facts = {**about, "command": "one", "commit": "b", "tools": {"scorio": "2"}, "not_installed": {}, "rows": [again]}
    found = joined(before, facts)
    assert found["rows"] == [*rows[:3], {**again, "command": "one", "commit": "b"}]
    assert (found["command"], found["commit"]) == ("all", "a")
    assert (found["tools"], found["not_installed"]) == ({"evalci": "1", "scorio": "2"}, {})
    found["rows"] = found["rows"][2:]
    assert f"McNemar by `one`, commit b: {names[1]}." in filled("<!-- made -->\n\n<!-- end -->", found)


def test_ours_says_of_several_models_what_each_error_says():
    rng = np.random.default_rng(0)
    runs = [(rng.random((40, 8)) < rate).astype(float) for rate in (0.2, 0.2, 0.9)]
    for error in ("problems like these", "these problems"):
        ours = TOGETHER[f"stapo-bench, {error}"]
        assert ours(runs) and not ours([runs[0], runs[0], runs[0]])


def test_the_page_is_that_of_the_record():
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, json.loads(RECORD.read_text(encoding="utf-8"))) == page, "python -m bench.race.page"
