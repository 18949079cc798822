"""score, table, plan, curve and audit of tables of outcomes: the numbers of run folders, and what they cannot tell."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from stapo_bench.analysis import curve_runs, curve_tables, plan_runs, plan_tables, score_run, score_tables
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.runs import export_runs

UNSEEN = "were not looked at"


def run(*arguments):
    result = CliRunner().invoke(cli, [*map(str, arguments)])
    error = str(result.exception) if isinstance(result.exception, StapoError) else ""
    return result.exit_code, result.output + error


@pytest.fixture
def both(make_run, tmp_path):
    """Three runs of two tasks under seeds of their own, and the tables of their outcomes."""
    rng = np.random.default_rng(2)
    rates = {task: rng.beta(0.5, 0.5, size=(12, 1)) for task in ("x", "y")}
    runs = []
    for seed, (name, shift) in enumerate((("a", 0.0), ("b", 0.1), ("c", 0.2))):
        tasks = {t: (rng.random((12, 4)) < np.clip(r + shift, 0, 1)).astype(float).tolist() for t, r in rates.items()}
        runs.append(make_run(name, tasks, identity={"seed": seed, "checkpoint": {"digest": name}}))
    files = [tmp_path / f"{path.name}.csv" for path in runs]
    for path, file in zip(runs, files, strict=True):
        export_runs([path], file)
    return runs, files


def test_scores_are_those_of_the_run(both):
    runs, files = both
    found = score_tables([files[0]]).scores
    for score, expected in zip(found, score_run(runs[0]).tasks, strict=True):
        assert (score.task, score.value) == (expected.task, expected.value)
        assert score.intervals == {
            "these problems": expected.these_problems,
            "problems like these": expected.problems_like_these,
        }
        assert (score.num_problems, score.num_samples, score.num_undecided) == (12, (4, 4), 0)
    code, output = run("score", files[0])
    assert code == 0 and UNSEEN in output
    assert f"| a | x | 12 × 4 | {100 * found[0].value:.2f} |" in output
    code, output = run("table", *files)
    assert code == 0 and [row.split(" | ")[0] for row in output.splitlines() if " × 4 " in row] == [
        "| a", "| a", "| b", "| b", "| c", "| c",
    ]  # fmt: skip
    assert len(json.loads(run("table", *files, "--format", "json")[1])["scores"]) == 6


def test_undecided_and_missing_outcomes_are_counted_and_bound_the_score(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("item,sample,score\np,0,1\np,1,\nq,0,0\n", encoding="utf-8")
    (score,) = score_tables([path]).scores
    # p: 1 of 1 decided; q: 0 of 1. Were the undecided sample wrong, p had 1 of 2.
    assert (score.value, score.bounds.low, score.bounds.high) == (0.5, 0.25, 0.5)
    assert (score.num_samples, score.num_undecided) == ((1, 1), 1)
    assert "| 1; with them [25.0, 50.0] |" in run("score", path)[1]
    # Means 0.3, 0.5 and 1: 0.6 +- 4.303 x 0.3606 / sqrt(3), cut off at 0 and 1.
    path.write_text("item,score\np,0.3\nq,0.5\nr,1\n", encoding="utf-8")
    (score,) = score_tables([path]).scores
    assert (score.value, score.intervals["problems like these"].high) == (pytest.approx(0.6), 1.0)
    path.write_text("item,score\np,0.4\nq,0.5\nr,0.6\n", encoding="utf-8")
    (score,) = score_tables([path]).scores  # 0.5 +- 4.303 x 0.1 / sqrt(3)
    assert score.intervals["problems like these"].low == pytest.approx(0.5 - 0.24841, abs=1e-5)
    assert "Student's interval for problems like these, none for these problems" in run("score", path)[1]


def test_plan_and_curve_are_those_of_the_runs(both):
    runs, files = both
    of_runs, of_tables = plan_runs(runs[0], runs[2], 0.05), plan_tables(files[0], files[2], 0.05)
    unpriced = [replace(task, tokens_per_sample=None, seconds_per_sample=None) for task in of_runs.tasks]
    assert [replace(task, title="") for task in unpriced] == [replace(task, title="") for task in of_tables.tasks]
    code, output = run("plan", files[0], files[2], "--detect", 0.05)
    assert code == 0 and "unknown" in output and UNSEEN in output
    of_runs, of_tables = curve_runs(runs), curve_tables(files)
    assert [point.gain for point in of_runs.points] == [point.gain for point in of_tables.points]
    assert [point.band for point in of_runs.points] == [point.band for point in of_tables.points]
    code, output = run("curve", *files)
    assert code == 0 and "they stand in the order given" in output and UNSEEN in output


def test_audit_says_what_it_found_and_what_it_could_not_test(both, tmp_path):
    _, files = both
    code, output = run("audit", files[0], files[1])
    assert code == 0 and output.startswith("**Nothing found.**")
    assert len(re.findall("not testable", output)) == 6
    assert "ok: equal seeds: a: 0 of 96 samples repeat" in output
    path = tmp_path / "odd.csv"
    path.write_text("item,sample,seed,score\np,0,7,1\np,1,7,\nq,0,3,1\n", encoding="utf-8")
    code, output = run("audit", path)
    assert code == 3
    assert "finding: equal seeds: odd: 1 of 3 samples repeat the seed" in output
    assert "all items 1 of 4 outcomes are not there; all items 1 of 4 are without a score" in output
    path.write_text("item,score\np,1\nq,0\n", encoding="utf-8")
    assert "not testable: equal seeds: odd: seeds are not known" in run("audit", path)[1]


def test_columns_can_be_named_and_what_does_not_fit_is_one_line(both, tmp_path):
    runs, files = both
    path = tmp_path / "named.csv"
    path.write_text("name,right\np,1\nq,0\n", encoding="utf-8")
    assert "| named | all items | 2 × 1 | 50.00 |" in run("score", path, "--map", "item=name,score=right")[1]
    for arguments, error in (
        (["table", runs[0], files[0]], "expected run folders or tables of outcomes, got both"),
        (["plan", runs[0], files[0], "--detect", 0.1], "expected run folders or tables of outcomes, got both"),
        (["audit", runs[0], "--map", "item=name"], "--map names columns of tables; run folders were given"),
        (["score", files[0], "--grader", "strict"], "--grader is of run folders"),
        (["table", files[0], "--published"], "--published is of run folders"),
        (["table", files[0], "--format", "latex"], "unknown format 'latex': expected md or json"),
        (["curve", files[0]], "expected at least two tables"),
        (["plan", files[0], files[1], "--detect", 2], "--detect: expected a fraction"),
    ):
        code, output = run(*arguments)
        assert code in (1, 2) and error in output, (arguments, output)


def test_a_report_of_tables_holds_scores_and_places_and_says_what_it_lacks(both, tmp_path):
    _, files = both
    page = tmp_path / "page.html"
    code, output = run("report", *files, "-o", page)
    assert (code, "tables have no samples, figures or tokens to show" in output) == (0, True)
    text = page.read_text(encoding="utf-8")
    assert all(f">{path.stem}<" in re.sub(r"\s*([<>])\s*", r"\1", text) for path in files)
    assert "expected two tables or more, got 1" in run("report", files[0], "-o", page)[1]
    assert "--train is of run folders" in run("report", *files, "--train", tmp_path, "-o", page)[1]
