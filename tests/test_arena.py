"""Graders side by side on labelled responses: counts worked out by hand, hangs, and files that people have."""

import gzip
import json
from dataclasses import replace
from math import isnan

import pytest
from click.testing import CliRunner

from stapo_bench.analysis import Contender, graders_at_hand, judge_graders
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import GRADERS, Grader, get_grader
from stapo_bench.runs.importing import read_labelled

RESPONSES = [
    {"response": r"\boxed{0.5}", "gold": r"\frac{1}{2}", "label": True},  # 1: mathematics, not text
    {"response": r"\boxed{42}", "gold": "42", "label": "false"},  # 2: every grader accepts; the label says otherwise
    {"response": r"\boxed{43}", "gold": 42, "label": 0},  # 3: every grader refuses
    {"response": "I give up.", "gold": "42", "label": "incorrect"},  # 4
    {"response": r"\boxed{42 \mod 10 = 2}", "gold": "42", "label": False},  # 5: unread
]


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "labelled.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in RESPONSES)
    return path


def test_what_each_grader_did_is_counted(labelled):
    math, strict = judge_graders(read_labelled(labelled), [get_grader("math"), get_grader("strict")])
    assert (math.wrong_accepts, math.wrong_refusals, math.num_no_answer, math.num_unread) == ((2,), (), 1, 1)
    assert math.agreement == pytest.approx(4 / 5)
    assert (strict.wrong_accepts, strict.wrong_refusals, strict.num_no_answer) == ((2,), (1,), 1)
    assert strict.agreement == pytest.approx(3 / 5)
    assert 0 < math.p50_ms <= math.p99_ms


def test_a_grader_that_hangs_or_raises_agrees_with_nobody(labelled, monkeypatch):
    monkeypatch.setattr("stapo_bench.analysis.arena.MOST_CPU_S", 0.2)
    faulty = Grader(name="faulty", summary="", module="faulty_graders")
    rows = [
        {"response": "hang in python", "gold": "1", "label": False},
        {"response": "raise", "gold": "1", "label": False},
        {"response": "1", "gold": "1", "label": True},
    ]
    labelled.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = judge_graders(read_labelled(labelled), [faulty])
    assert (found.hung, found.failed, found.wrong_accepts, found.wrong_refusals) == ((1,), (2,), (), ())
    assert found.agreement == pytest.approx(1 / 3)


def test_every_way_to_disagree_counts_once():
    found = Contender(
        name="g", version="1", num_responses=16, wrong_accepts=(1, 2, 3), wrong_refusals=(4,), num_no_answer=0,
        num_unread=0, hung=(5, 6, 7), failed=(8,), p50_ms=1.0, p99_ms=1.0,
    )  # fmt: skip
    assert found.agreement == 0.5
    assert isnan(replace(found, num_responses=0).agreement)


def test_graders_that_need_a_package_that_is_missing_are_named_and_left_out(monkeypatch):
    monkeypatch.setattr("stapo_bench.grading.registry.find_spec", lambda name: None)
    ready, missing = graders_at_hand(["math-verify", "strict"])
    assert [grader.name for grader in ready] == ["strict"]
    assert missing == ["grader math-verify: math_verify is not installed: pip install 'stapo-bench[graders]'"]
    with pytest.raises(UsageError, match="unknown grader 'mth'"):
        graders_at_hand(["mth"])


def test_the_command_tables_them_best_first(labelled):
    done = CliRunner().invoke(cli, ["arena", str(labelled), "--graders", "strict, math"])
    assert done.exit_code == 0, done.output
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.output.splitlines() if line[:2] == "| "]
    best, next_best = (row[:6] for row in rows[1:])
    assert (best, next_best) == (["math", "80.00", "1", "0", "1", "1"], ["strict", "60.00", "1", "1", "1", ""])
    found = json.loads(
        CliRunner().invoke(cli, ["arena", str(labelled), "--graders", "strict", "--format", "json"]).stdout
    )
    assert found["graders"][0]["wrong_refusals"] == [1]


def test_the_panel_has_seven_others_rules_and_ours():
    assert {"math", "strict", "qwen", "math-verify", "minerva", "prm800k", "hendrycks"} <= set(GRADERS)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"gold": "1", "label": True}, "expected a column with the completion"),
        ({"response": "1", "label": True}, "expected a column with the gold"),
        ({"response": "1", "gold": "1"}, r"expected a column with the label \(label, score, correct"),
        ({"response": None, "gold": "1", "label": True}, "row 1: expected a text in response, got 'None'"),
        ({"response": "1", "gold": None, "label": True}, "row 1: expected the gold's text in gold"),
        ({"response": "1", "gold": "1", "label": "maybe"}, "row 1: expected true or false in label, got 'maybe'"),
        ({"response": "1", "gold": "1", "label": 1, "tolerance": "x"}, "row 1: expected a number in tolerance"),
    ],
)
def test_a_row_that_is_no_labelled_response_is_named(tmp_path, row, message):
    path = tmp_path / "labelled.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(StapoError, match=message):
        read_labelled(path)


def test_the_gold_may_come_with_a_tolerance(tmp_path):
    path = tmp_path / "labelled.csv"
    path.write_text("completion,answer,correct,tolerance\n\\boxed{3.2},3.1,1,0.2\n")
    (response,) = read_labelled(path)
    assert (response.gold.answer, response.gold.tolerance, response.is_right) == ("3.1", 0.2, True)
