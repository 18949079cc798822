"""The other metrics: by hand, declared where k is not what was asked for, and never with a test they do not have."""

import csv
import io
import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from stapo_bench.analysis.metrics import parse_metric
from stapo_bench.analysis.score_file import from_json, score_run, to_json
from stapo_bench.cli import cli
from stapo_bench.errors import UsageError
from stapo_bench.presenting import render_metrics
from stapo_bench.presenting.tables.rows import rows_from_runs
from stapo_bench.presenting.tables.table import render_table
from stapo_bench.statistics.estimators import g_pass_at_k, mg_pass_at_k, stability

NAN = float("nan")
ROWS = {"t": [[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]}


def test_all_of_them_stand_in_the_scores(make_run):
    run = make_run("a", ROWS)
    (task,) = score_run(run).tasks
    # pass^2: C(2,2) / C(4,2) = 1/6, 1, 0; pass^4: 0, 1, 0
    assert task.pass_hat == {1: pytest.approx(0.5), 2: pytest.approx(7 / 18), 4: pytest.approx(1 / 3)}
    # G-Pass@4: at least 2, 3 and 4 of 4: problem 1 has 2. mG: (2/4) (tau = 3/4 and 1)
    assert task.stability == {
        "G-Pass@4_0.5": pytest.approx(2 / 3),
        "G-Pass@4_0.75": pytest.approx(1 / 3),
        "G-Pass@4_1": pytest.approx(1 / 3),
        "mG-Pass@4": pytest.approx(1 / 3),
    }
    stored = json.loads((run / "scores.json").read_text())["tasks"][0]
    assert stored["pass_hat"]["2"] == pytest.approx(7 / 18)
    assert stored["stability"]["mG-Pass@4"] == pytest.approx(1 / 3)
    assert from_json(to_json(score_run(run))) == score_run(run)


def test_g_pass_is_taken_at_sixteen_or_the_next_smaller_power_of_two():
    correct = (np.random.default_rng(0).random((6, 40)) < 0.6).astype(float)
    found = stability(correct, 40)
    assert list(found) == ["G-Pass@16_0.5", "G-Pass@16_0.75", "G-Pass@16_1", "mG-Pass@16"]
    assert found["G-Pass@16_0.75"] == g_pass_at_k(correct, 16, 0.75)
    assert found["mG-Pass@16"] == mg_pass_at_k(correct, 16)
    assert list(stability(correct[:, :7], 7))[-1] == "mG-Pass@4"
    assert stability(correct[:, :1], 1) == stability(correct, 0) == {}


def test_score_prints_them_with_their_sources_and_the_tie_rule(make_run):
    text = render_metrics(score_run(make_run("a", ROWS)))
    assert "| T | 66.67 @4 | 33.33 @4 | 66.67, 33.33, 33.33 @4 | 33.33 @4 |" in text
    for source in ("2107.03374", "2406.12045", "2412.13147", "2203.11171"):
        assert source in text
    assert text.count("\n- *") == 4
    assert "a tie is broken evenly at random" in text
    assert "decided samples; k is at most" not in text


def test_unequal_and_missing_samples_are_declared(make_run):
    rows = {"t": [[1, 1, 0, 0], [1, 0, NAN, NAN], [NAN] * 4, [1, -1, 1, 0]]}
    text = render_metrics(score_run(make_run("a", rows)))
    assert "- T: problems have 2 to 4 decided samples; k is at most the fewest" in text
    assert "- T: 1 of 4 problems have none and are left out" in text
    assert " @2 |" in text
    assert render_metrics(score_run(make_run("once", {"t": [[1], [0]]}))) == ""


def test_a_table_of_another_metric_claims_no_interval_and_no_test(make_run):
    runs = [make_run(name, {"aime24": ROWS["t"]}) for name in ("GRPO", "STAPO")]
    text = render_table(rows_from_runs(runs, parse_metric("pass@2")), "md")
    # pass@2: 5/6, 1, 0
    assert text.startswith("**paper suite: pass@2 in percent**")
    assert "| AIME24 @2 | Avg " in text
    assert "| 61.11 " in text
    assert "[" not in text.split("|")[-2]
    assert "at least one of k samples is right" in text
    assert "No intervals: checkpoints are compared by avg@k" in text
    assert "strongest other method" not in text
    latex = render_table(rows_from_runs(runs, parse_metric("pass@2")), "latex")
    assert r"\textbf" not in latex
    assert "Bold" not in latex
    (row, _, *_) = csv.DictReader(io.StringIO(render_table(rows_from_runs(runs, parse_metric("maj")), "csv")))
    assert (row["metric"], row["k"]) == ("maj@k", "4")
    assert json.loads(render_table(rows_from_runs(runs), "json"))[0]["metric"] == "avg@k"


def test_any_k_up_to_the_fewest_samples_and_no_further(make_run):
    run = make_run("a", {"t": ROWS["t"], "u": [[1, 0]] * 3})
    # pass^3: 0, 1, 0
    (row,) = rows_from_runs([run], parse_metric("pass^3"))
    assert row.cells["t"].value == pytest.approx(1 / 3)
    assert math.isnan(row.cells["u"].value)
    assert math.isnan(row.average.value)
    text = render_table([row])
    assert "\\* a, U: pass^3 needs 3 decided samples of every problem, the fewest are 2" in text


def test_unknown_metrics_and_published_rows_beside_them_are_refused(make_run):
    for text in ("pass", "pass@0", "pass@", "cons@8", "maj@4"):
        with pytest.raises(UsageError, match=r"expected avg, maj, pass@K or pass\^K"):
            parse_metric(text)
    run = make_run("a", ROWS)
    refused = CliRunner().invoke(cli, ["table", str(run), "--published", "--metric", "maj"])
    assert "the paper prints avg@k alone" in str(refused.exception)
    assert "pass^4 in percent" in CliRunner().invoke(cli, ["table", str(run), "--metric", "pass^4"]).output


def test_the_average_of_a_metric_is_the_mean_over_tasks(make_run):
    # pass@2 of 2 of 4: 1 - C(2,2) / C(4,2) = 5/6; of 1 of 4: 1 - C(3,2) / C(4,2) = 1/2
    run = make_run("a", {"t": [[1, 1, 0, 0]], "u": [[1, 0, 0, 0]]})
    (row,) = rows_from_runs([run], parse_metric("pass@2"))
    assert row.average.value == pytest.approx((5 / 6 + 1 / 2) / 2)


def test_a_task_without_decided_samples_has_no_metric_at_any_k(make_run):
    (task,) = score_run(make_run("a", {"t": [[-1, -1]] * 2})).tasks
    assert parse_metric("pass@1").of(task) is None
    assert parse_metric("pass^1").of(task) is None


def test_nothing_is_declared_of_a_whole_run(make_run):
    text = render_metrics(score_run(make_run("a", ROWS)))
    assert [line for line in text.splitlines() if line.startswith("- T")] == []


def test_a_footnote_that_many_numbers_share_stands_once(make_run):
    few = {name: [[1, 0]] * 3 for name in ("t", "u", "v", "w", "x")}
    runs = [make_run(name, few) for name in ("a", "b")] + [make_run("c", {**few, "x": [[1, 0, 1, 0] * 2] * 3})]
    text = render_table(rows_from_runs(runs, parse_metric("pass@8")))
    reason = "pass@8 needs 8 decided samples of every problem, the fewest are 2"
    assert [line for line in text.splitlines() if "needs 8" in line] == [
        f"- \\* a, b, T, U, V, W, X; c, T, U, V, W: {reason}"
    ]
