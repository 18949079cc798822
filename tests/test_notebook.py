"""``stapo_bench.load``: a run as an object in a notebook."""

import shutil
from pathlib import Path

import pytest

import stapo_bench
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
    html = run._repr_html_()
    assert run.table() in html.replace("&#x27;", "'").replace("&quot;", '"').replace("&amp;", "&")
    assert state() == before


def test_what_is_no_run_is_refused_at_once(tmp_path):
    with pytest.raises(StapoError, match=r"manifest\.json"):
        stapo_bench.load(tmp_path)


def test_what_a_stranger_wrote_is_escaped_when_displayed(run, monkeypatch):
    monkeypatch.setattr(type(run), "table", lambda self: "<script>alert(1)</script>")
    assert run._repr_html_() == "<pre>&lt;script&gt;alert(1)&lt;/script&gt;</pre>"
