"""score, table, plan, curve and audit of tables of outcomes: the numbers of run folders, and what they cannot tell."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from stapo_bench.analysis import (
    average_of_table,
    curve_runs,
    curve_tables,
    plan_runs,
    plan_tables,
    score_run,
    score_tables,
)
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.presenting.tables.rows import rows_from_runs
from stapo_bench.runs import export_runs
from stapo_bench.runs.outcomes import read_outcomes

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
    path.write_text("item,score\np,0.4\nq,0.5\nr,0.6\n", encoding="utf-8")
    (score,) = score_tables([path]).scores  # 75 items as good as, t of 4.303: 0.27742 / 1.24687
    assert score.intervals["problems like these"].low == pytest.approx(0.5 - 0.2225, abs=1e-4)


def test_scores_of_a_declared_range_are_shares_of_it(tmp_path, make_run):
    rows = [("p", 2.6), ("p", 3.4), ("q", 4.6), ("q", 3.8)]  # of 1 to 5: 0.4, 0.6, 0.9, 0.7
    paths = tmp_path / "a.csv", tmp_path / "b.csv"
    for path in paths:
        path.write_text("\n".join(["item,score", *(f"{item},{x}" for item, x in rows)]) + "\n", encoding="utf-8")
    # Samples' variance 0.02 of both: 0.04 of 2 x 0.65 x 0.35, 4 samples as good as 45.5; t of 2 degrees is 4.303.
    assert "| a | all items | 2 × 2 | 65.00 | [34.6, 86.7] |" in run("score", paths[0], "--range", "1:5")[1]
    for command in (("plan", *paths, "--detect", "0.1"), ("curve", *paths), ("table", *paths), ("audit", *paths)):
        code, output = run(*command, "--range", "1:5")
        assert code == 0 and "expected a score from 0 to 1 (or nothing), got '2.6'" in run(*command)[1], output
    assert "--range are of tables" in run("plan", "--problems", 3, "--range", "1:5")[1]
    assert "--range are of tables" in run("score", make_run("r", {"x": [[1]]}), "--range", "1:5")[1]


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
        (
            ["audit", runs[0], "--map", "item=name"],
            "--map and --range are of tables of outcomes; run folders were given",
        ),
        (["table", files[0], "none.csv"], "none.csv: no such run folder or file"),
        (["score", "none"], "none: no such run folder or file"),
        (["score", files[0], "--range=-1e308:1e308"], "--range: expected a lower and a higher number, got -1e+308 and"),
        (["score", files[0], "--grader", "strict"], "--grader is of run folders"),
        (["table", files[0], "--published"], "--published is of run folders"),
        (["table", files[0], "--format", "latex"], "unknown format 'latex': expected md or json"),
        (["curve", files[0]], "expected at least two tables"),
        (["plan", files[0], files[1], "--detect", 2], "--detect: expected a fraction"),
    ):
        code, output = run(*arguments)
        assert code in (1, 2) and error in output, (arguments, output)


def words(page):
    """A page's text in one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8")).split())


def test_a_report_of_tables_holds_scores_and_places_and_says_what_it_lacks(both, tmp_path):
    runs, files = both
    page = tmp_path / "page.html"
    code, output = run("report", *files, "-o", page)
    assert code == 0 and re.search(r"page.html: \d\d kB; tables have no samples, figures or tokens to show", output)
    assert all(f" {path.stem} " in words(page) for path in files)
    assert "truncation, copied samples and early stopping were not looked at" in words(page)
    assert "by math" not in words(page)  # nobody knows who graded a table
    expected = rows_from_runs([runs[0]])[0].average
    value, interval = average_of_table(read_outcomes(files[0])[0])
    assert (value, interval) == (expected.value, expected.problems_like_these)
    assert f"{100 * value:.2f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]" in words(page)
    assert "expected at least two runs, got 1; 'stapo-bench score' shows one" in run("report", files[0], "-o", page)[1]
    assert "--train is of run folders" in run("report", *files, "--train", tmp_path, "-o", page)[1]


@pytest.mark.parametrize("command", ["report", "leaderboard"])
def test_pages_of_tables_take_columns_ranges_and_several_models_in_one_file(command, tmp_path, both):
    page, path = tmp_path / "page.html", tmp_path / "both.csv"
    rows = [f"{name},{item},{score + (item % 2)}" for name, score in (("old", 2), ("new", 4)) for item in range(6)]
    path.write_text("\n".join(["who,frage,punkte", *rows]) + "\n", encoding="utf-8")
    options = ["--map", "model=who,item=frage,score=punkte", "--range", "1:5", "-o", page]
    code, output = run(command, path, *options)
    assert code == 0, output
    # 2 and 3 of 1 to 5 are 0.25 and 0.5, 4 and 5 are 0.75 and 1.
    assert " 87.50 [" in words(page) and " 37.50 [" in words(page) and "scores from 1 to 5" in words(page)
    assert "expected a score from 0 to 1 (or nothing), got '2'" in run(command, path, *options[:2], "-o", page)[1]
    runs, _ = both
    for extra in (["--range", "1:5"], ["--map", "item=x"]):
        code, output = run(command, *runs, *extra, "-o", page)
        assert code in (1, 2) and " of tables" in output, output
