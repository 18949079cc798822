"""A run under several graders: scores side by side, disagreement, and disputed answers, worst first."""

import json
import math

import pytest

from stapo_bench.analysis.grader_agreement import (
    Dispute,
    GraderAgreement,
    compare_graders,
)
from stapo_bench.presenting.graders import MAX_DISPUTES, render_graders
from stapo_bench.records import Outcome
from stapo_bench.runs import grade_files

NAN = float("nan")
OUTCOMES = {"C": "CORRECT", "I": "INCORRECT", "N": "NO_ANSWER", "E": "GRADER_ERROR"}


def write_grades(run, name, tasks, extracted=None, version=None):
    """A grade file. tasks: task -> a word per problem, a letter per sample, "." where there is no grade."""
    lines = [json.dumps({"grader": version or f"{name}-1"})]
    for task, rows in tasks.items():
        for i, row in enumerate(rows):
            for j, letter in enumerate(row):
                if letter != ".":
                    text = None if letter == "N" else (extracted or {}).get((task, i, j), "7")
                    key = {"task": task, "problem_id": f"{task}-{i}", "sample_index": j}
                    lines.append(json.dumps({**key, "outcome": OUTCOMES[letter], "extracted": text, "detail": ""}))
    (run / "grades" / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def run(make_run):
    """Two tasks under three graders; of aime24's second problem one sample is not drawn."""
    run = make_run("run", {"aime24": [[0, 0, 0, 0], [0, 0, 0, NAN]], "amc23": [[0, 0]]})
    write_grades(run, "math", {"aime24": ["CCCI", "CIN"], "amc23": ["CC"]})
    write_grades(run, "strict", {"aime24": ["IINI", "CII"], "amc23": ["CC"]}, {("aime24", 0, 0): "7 m"})
    write_grades(run, "qwen", {"aime24": ["CCEI", "C.C"], "amc23": ["CC"]})
    return run


def test_one_grade_file_is_no_panel(make_run):
    run = make_run("run", {"t": [[1, 0]]})
    assert grade_files(run) == ["math"]
    assert compare_graders(run) is None


def test_the_default_grader_comes_first(run):
    write_grades(run, "judge-a", {})
    write_grades(run, "math+corrected", {})
    assert grade_files(run) == ["math", "math+corrected", "judge-a", "qwen", "strict"]


def test_each_grader_has_its_score_with_bounds_for_what_it_left_open(run):
    panel = compare_graders(run)
    math_, qwen, strict = panel.scores
    assert [score.name for score in panel.scores] == ["math", "qwen", "strict"]
    assert math_.values == {"aime24": pytest.approx((3 / 4 + 1 / 3) / 2), "amc23": 1.0}
    assert math_.bounds["aime24"].low == math_.bounds["aime24"].high  # what is not drawn is not undecided
    assert strict.values["aime24"] == pytest.approx((0 + 1 / 3) / 2)
    # 2 of 3 and 2 of 2 are right of what it decided; one failed of 4, one without a grade of 3
    assert qwen.values["aime24"] == pytest.approx((2 / 3 + 1) / 2)
    assert qwen.bounds["aime24"].low == pytest.approx((2 / 4 + 2 / 3) / 2)
    assert qwen.bounds["aime24"].high == pytest.approx((3 / 4 + 3 / 3) / 2)


def test_graders_disagree_where_both_decided_and_one_accepts(run):
    pairs = {(pair.first, pair.second): dict(pair.by_task) for pair in compare_graders(run).disagreements}
    assert pairs == {
        ("math", "qwen"): {"aime24": (1, 5), "amc23": (0, 2)},  # an answer that one of them does not find
        ("math", "strict"): {"aime24": (3, 7), "amc23": (0, 2)},  # no answer and a wrong one are no disagreement
        ("qwen", "strict"): {"aime24": (3, 5), "amc23": (0, 2)},
    }


def test_disputed_answers_most_samples_first(make_run):
    run = make_run("run", {"t": [[0, 0, 0], [0, 0, 0]]})
    texts = {("t", 0, 0): "rare", ("t", 1, 0): "often", ("t", 1, 1): "often"}
    write_grades(run, "math", {"t": ["CCI", "IIE"]}, texts)
    write_grades(run, "strict", {"t": ["NCN", "CCC"]}, {("t", 1, 0): "104", ("t", 1, 1): "104"})
    found = compare_graders(run).disputes
    right, wrong, none = Outcome.CORRECT, Outcome.INCORRECT, Outcome.NO_ANSWER
    assert found == (
        Dispute(task="t", problem_id="t-1", readings=("often", "104"), verdicts=(wrong, right), num_samples=2),
        Dispute(task="t", problem_id="t-0", readings=("rare", None), verdicts=(right, none), num_samples=1),
    )
    assert [dispute.extracted for dispute in found] == ["often", "rare"]
    assert render_graders(compare_graders(run)).splitlines()[-2:] == [
        "| 2 | t/t-1 | often | INCORRECT | CORRECT (read 104) |",
        "| 1 | t/t-0 | rare | CORRECT | NO_ANSWER |",
    ]


def test_samples_that_nobody_asked_for_are_left_out(run):
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["about"]["tasks"]["aime24"] |= {"problem_ids": ["aime24-1"], "num_problems": 1}
    (run / "manifest.json").write_text(json.dumps(manifest))
    panel = compare_graders(run)
    assert panel.scores[0].values["aime24"] == pytest.approx(1 / 3)
    assert panel.disagreements[1].by_task["aime24"] == (0, 3)
    assert {dispute.problem_id for dispute in panel.disputes} == {"aime24-1"}
    manifest["about"]["tasks"]["aime24"] |= {"problem_ids": ["aime24-0"], "num_samples": 2}
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert [(d.num_samples, d.readings[2]) for d in compare_graders(run).disputes] == [(1, "7 m"), (1, "7")]


def test_rendered(run):
    lines = render_graders(compare_graders(run)).splitlines()
    assert lines[2:7] == [
        "| Grader | AIME24 | AMC23 | Average |",
        "|---|---:|---:|---:|",
        "| math (math-1) | 54.17 | 100.00 | 77.08 |",
        "| qwen (qwen-1) | 83.33 (58.33 to 87.50) | 100.00 | 91.67 (79.17 to 93.75) |",
        "| strict (strict-1) | 16.67 | 100.00 | 58.33 |",
    ]
    assert "| math, strict | 3 of 7 (42.86 %) | 0 of 2 (0.00 %) |" in lines
    disputes = lines[lines.index("| Samples | Problem | Answer | math | qwen | strict |") + 2 :]
    assert disputes[:2] == [
        "| 1 | aime24/aime24-0 | 7 | CORRECT | CORRECT | INCORRECT (read 7 m) |",
        "| 1 | aime24/aime24-0 | 7 | CORRECT | CORRECT | INCORRECT |",
    ]
    assert "| 1 | aime24/aime24-1 | 7 | NO_ANSWER | CORRECT | INCORRECT |" in disputes
    assert len(disputes) == 4
    assert (
        "golds are shown with --data-dir"
        in lines[lines.index("| Samples | Problem | Answer | math | qwen | strict |") - 2]
    )


def test_agreement_shows_no_disputes(make_run):
    run = make_run("run", {"t": [[1, 0]]})
    write_grades(run, "strict", {"t": ["CN"]})
    assert "Disputed" not in render_graders(compare_graders(run))


def test_many_disputes_are_cut_and_counted():
    disputes = tuple(
        Dispute(task="t", problem_id=f"p{i}", readings=("x",), verdicts=(Outcome.CORRECT,), num_samples=1)
        for i in range(MAX_DISPUTES + 5)
    )
    text = render_graders(GraderAgreement(titles={}, scores=(), disagreements=(), disputes=disputes))
    assert f"Disputed answers, those of most samples first; the first {MAX_DISPUTES} of {MAX_DISPUTES + 5}" in text
    assert f"t/p{MAX_DISPUTES - 1} " in text and f"t/p{MAX_DISPUTES} " not in text


def test_a_task_without_samples_is_not_zero(make_run):
    run = make_run("run", {"t": [[NAN, NAN]], "u": [[1, 0]]})
    write_grades(run, "math", {"u": ["CI"]})
    write_grades(run, "strict", {"u": ["CC"]})
    panel = compare_graders(run)
    assert math.isnan(panel.scores[0].values["t"])
    assert "| math (math-1) | – | 50.00 | – |" in render_graders(panel)


def test_verdicts_that_came_along_have_their_name_once(make_run):
    run = make_run("run", {"t": [[1, 0]]}, grader="math-1")
    (run / "grades" / "qwen-reported.jsonl").write_text(
        (run / "grades" / "math.jsonl").read_text().replace("math-1", "qwen-reported")
    )
    assert "| qwen-reported | 50.00 |" in render_graders(compare_graders(run))
