"""``stapo_bench.load`` and ``compare``: a run, and a comparison, as objects in a notebook."""

import html
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import stapo_bench
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError

RUN = Path(__file__).parent / "data" / "run_before" / "run"


@pytest.fixture
def run(tmp_path):
    return stapo_bench.load(shutil.copytree(RUN, tmp_path / "run"))


def test_frame_and_scores_tell_the_same_numbers(run):
    frame, scores = run.frame(), run.scores()
    assert list(frame.columns[:3]) == ["task", "problem_id", "sample_index"]
    for task in scores.tasks:
        of_task = frame[frame["task"] == task.task]
        assert len(of_task) == task.num_samples
        assert of_task.groupby("problem_id")["correct"].mean().mean() == pytest.approx(task.value)
    assert set(frame["outcome"].dropna()) == {"CORRECT", "INCORRECT", "NO_ANSWER"}
    assert (frame["correct"] == 1.0).sum() == (frame["outcome"] == "CORRECT").sum()


def test_reading_changes_no_file(run):
    def state():
        return {path: path.read_bytes() for path in sorted(run.path.rglob("*")) if path.is_file()}

    before = state()
    run.frame()
    assert run.table() in html.unescape(run._repr_html_())
    assert state() == before


def test_what_is_no_run_is_refused_at_once(tmp_path):
    with pytest.raises(StapoError, match=r"manifest\.json"):
        stapo_bench.load(tmp_path)


def test_what_a_stranger_wrote_is_escaped_when_displayed(run, monkeypatch):
    monkeypatch.setattr(type(run), "table", lambda self: "<script>alert(1)</script>")
    assert run._repr_html_() == "<pre>&lt;script&gt;alert(1)&lt;/script&gt;</pre>"


def test_a_comparison_is_displayed_as_the_command_prints_it(tmp_path):
    files = [tmp_path / "before.csv", tmp_path / "after.csv"]
    files[0].write_text("item,score\np,0\nq,0\nr,1\n")
    files[1].write_text("item,score\np,1\nq,0\nr,1\n")
    comparison = stapo_bench.compare(*files)
    assert (comparison.average.value_a, comparison.average.value_b) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    printed = CliRunner().invoke(cli, ["compare", *map(str, files)], catch_exceptions=False).output
    assert str(comparison) == printed.rstrip("\n")
    # Markdown's lines, without its marks, are the texts between HTML's tags.
    shown = [html.unescape(text) for text in re.split(r"<[^>]*>", comparison._repr_html_()) if text]
    lines = re.sub(r"^\|[-|]+\|$|\*\*|^- |\\(?=<)", "", printed, flags=re.MULTILINE).splitlines()
    texts = [text.strip() for line in lines for text in (line.split("|") if line.startswith("|") else [line])]
    assert shown == [text for text in texts if text]


def test_names_of_strangers_are_escaped_in_a_displayed_comparison(tmp_path):
    file = tmp_path / "<img src=x onerror=alert(1)>\u202e.csv"
    file.write_text("item,score\np,1\nq,0\n")
    shown = stapo_bench.compare(file, {"p": 1, "q": 1})._repr_html_()
    assert "<img" not in shown
    assert "\u202e" not in shown
    assert "Not enough data to tell B from &lt;img src=x onerror=alert(1)&gt;\\u202e" in shown


def test_two_loaded_runs_compare_as_their_folders_do(run, tmp_path):
    other = shutil.copytree(run.path, tmp_path / "other")
    expected = str(stapo_bench.compare(run.path, other))
    assert str(stapo_bench.compare(run, stapo_bench.load(other))) == expected
    assert str(stapo_bench.compare(run, other)) == expected


def test_runs_with_two_graders_are_not_compared(run):
    run.grader = "qwen"
    with pytest.raises(StapoError, match="expected runs loaded with the same grader, got math and qwen"):
        stapo_bench.compare(run, stapo_bench.load(run.path))


@pytest.mark.parametrize("margin", [2, -0.1, float("nan")])
def test_a_margin_that_is_no_fraction_is_refused(margin):
    with pytest.raises(
        StapoError, match=f"margin: expected a fraction from 0 to 1, as 0.02 for two points, got {margin}"
    ):
        stapo_bench.compare([[0], [1]], [[1], [1]], margin=margin)


def test_an_error_that_does_not_exist_names_the_nearest():
    average = stapo_bench.compare([[0], [1]], [[1], [1]]).average
    with pytest.raises(StapoError, match="got 'problems like this'; did you mean 'problems like these'"):
        average.effect("problems like this")
    with pytest.raises(StapoError, match="got 'x'; there are 'these problems' and 'problems like these'"):
        average.effect("x")


def test_rows_of_several_lengths_are_named():
    with pytest.raises(StapoError, match=r"A: expected a matrix .* got 2 samples in row 0 and 1 in row 1; NaN stands"):
        stapo_bench.compare([[0, 1], [1]], [[1, 1], [1]])
    with pytest.raises(StapoError, match=r"expected a matrix of scores and NaN, got \['right'\] in row 0"):
        stapo_bench.compare([["right"]], [["wrong"]])
    with pytest.raises(StapoError, match=r"got \['a', 1\] in row 1"):
        stapo_bench.compare([[1, 0], ["a", 1]], [[1, 1], [1, 1]])
    with pytest.raises(StapoError, match="got 2 samples in row 0 and 1 in row 1"):
        stapo_bench.compare([np.array([1, 0]), [1]], [[1, 1], [1, 1]])


def test_notes_name_the_arguments_of_python():
    ones = {f"q{group}_{item}": 1 for group in range(10) for item in range(5)}
    (note,) = [n for n in stapo_bench.compare(ones, dict.fromkeys(ones, 0)).notes if "look grouped" in n]
    assert note.endswith('name the groups with columns={"cluster": "COLUMN"}')


def test_errors_name_the_arguments_of_python_and_not_options():
    def message(*sides, **given):
        with pytest.raises(StapoError) as caught:
            stapo_bench.compare(*sides, **given)
        assert "--" not in str(caught.value)
        return str(caught.value)

    rows = [{"item": "p", "score": 3}]
    assert "scores of another range are declared: score_range=(LO, HI)" in message(rows, rows)
    assert "score_range: expected a lower and a higher number, got 5 and 1" in message(rows, rows, score_range=(5, 1))
    assert 'columns={"score": "punkte"}: no such column' in message(rows, rows, columns={"score": "punkte"})
    assert 'columns={"cluster": "topic"}: no such column' in message(rows, rows, columns={"cluster": "topic"})
    assert 'names the items: columns={"item": "COLUMN"}' in message([{"a": 1}], [{"a": 1}])


def test_a_frame_without_pandas_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(StapoError, match=r"pandas is not installed: pip install 'stapo-bench\[eval\]'"):
        run.frame()
