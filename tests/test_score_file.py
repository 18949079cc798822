"""Stored scores are used while they are those of the samples and grades, made again when not; damage is named."""

import json
import os

import pytest

from stapo_bench.analysis import score_file
from stapo_bench.analysis.score_file import current_score, from_json, score_run
from stapo_bench.errors import StapoError
from stapo_bench.runs.nested import canonical_digest


def test_scores_that_a_slow_reader_writes_last_are_not_current(make_run, monkeypatch):
    """A watcher reads half a run, the evaluation ends and writes its scores, and then the watcher its own."""
    run = make_run("r", {"t": [[1, 0]] * 2})
    grades = run / "grades" / "math.jsonl"
    whole = grades.read_text()
    grades.write_text("".join(whole.splitlines(keepends=True)[:2]))
    read = score_file.read_grades

    def slowly(run_dir, grader):
        found = read(run_dir, grader)
        monkeypatch.setattr(score_file, "read_grades", read)
        grades.write_text(whole)
        assert score_run(run).tasks[0].num_ungraded == 0
        return found

    monkeypatch.setattr(score_file, "read_grades", slowly)
    assert score_run(run).tasks[0].num_ungraded == 3
    assert current_score(run).tasks[0].num_ungraded == 0


def quietly(path, old, new):
    """Change a file without a trace in its times."""
    times = path.stat()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_scores_follow_the_files(make_run):
    run = make_run("r", {"t": [[1, 0]] * 2})
    assert current_score(run).tasks[0].value == 0.5
    quietly(run / "grades" / "math.jsonl", "INCORRECT", "CORRECT")
    assert current_score(run).tasks[0].value == 1.0


def test_scores_follow_grades_of_equal_size(make_run):
    run = make_run("r", {"t": [[1, 0]] * 2})
    assert current_score(run).tasks[0].num_no_answer == 0
    quietly(run / "grades" / "math.jsonl", "INCORRECT", "NO_ANSWER")  # nine letters each
    assert current_score(run).tasks[0].num_no_answer == 2


def test_scores_follow_another_version_of_the_grader(make_run):
    run = make_run("r", {"t": [[1, 0]] * 2}, grader="math-1")
    assert current_score(run).grader == "math-1"
    quietly(run / "grades" / "math.jsonl", "math-1", "math-2")
    assert current_score(run).grader == "math-2"


@pytest.mark.parametrize("segment", ["0001-all.jsonl", "0002-all.jsonl"], ids=["longer", "one more"])
def test_scores_follow_the_samples(make_run, segment):
    run = make_run("r", {"t": [[1, 0]] * 2})
    (first, *rest) = (run / "samples" / "0001-all.jsonl").read_text().splitlines(keepends=True)
    (run / "samples" / "0001-all.jsonl").write_text(first)
    assert current_score(run).tasks[0].num_samples == 1
    with (run / "samples" / segment).open("a") as file:
        file.writelines(rest)
    assert current_score(run).tasks[0].num_samples == 4


def test_scores_follow_what_is_asked_for(make_run):
    run = make_run("r", {"t": [[1, 0]] * 2}, about={"method": "GRPO"})
    assert current_score(run).method == "GRPO"
    quietly(run / "manifest.json", "GRPO", "DAPO")
    assert current_score(run).method == "DAPO"


def test_current_scores_are_not_made_again_whatever_the_times_say(make_run, tmp_path, monkeypatch):
    run = make_run("r", {"t": [[1, 0]] * 2})
    score = current_score(run)
    monkeypatch.setattr(score_file, "run_score", None)
    for file in run.rglob("*"):  # as a copy would have them, and a clock that was wrong
        os.utime(file, (0, 0) if file.name == "scores.json" else None)
    assert current_score(run) == score


def test_scores_of_an_older_version_do_not_say_what_they_were_made_from(make_run):
    run = make_run("r", {"t": [[1, 0]] * 2})
    score = score_run(run)
    (run / "scores.sources.json").unlink()
    assert current_score(run) == score
    (run / "scores.sources.json").unlink()
    quietly(run / "grades" / "math.jsonl", "INCORRECT", "CORRECT")
    assert current_score(run).tasks[0].value == 1.0


@pytest.mark.parametrize("damaged", ["", "{", "[]", "{}"])
def test_damage_of_what_scores_were_made_from_only_costs_time(make_run, damaged):
    run = make_run("r", {"t": [[1, 0]] * 2})
    score = score_run(run)
    whole = (run / "scores.sources.json").read_text()
    (run / "scores.sources.json").write_text(damaged)
    assert current_score(run) == score
    assert (run / "scores.sources.json").read_text() == whole


def test_what_other_scores_were_made_from_says_nothing(make_run):
    """Two commands write at the same time: the scores are of one, what they were made from of the other."""
    run = make_run("r", {"t": [[1, 0]] * 2})
    score_run(run)
    old = (run / "scores.json").read_text()
    quietly(run / "grades" / "math.jsonl", "INCORRECT", "CORRECT")
    score_run(run)
    (run / "scores.json").write_text(old)
    assert current_score(run).tasks[0].value == 1.0


def test_a_folder_that_cannot_be_written_is_read_all_the_same(make_run, monkeypatch):
    run = make_run("r", {"t": [[1, 0]] * 2})
    scored = score_run(run)
    (run / "scores.sources.json").unlink()  # as older versions left it
    monkeypatch.setattr("stapo_bench.runs.files.os.access", lambda path, mode: False)
    assert current_score(run) == scored
    assert not (run / "scores.sources.json").exists()


def test_scores_do_not_depend_on_the_segments_in_which_samples_lie(make_run):
    run = make_run("r", {"t": [[1, 0]] * 2})
    score_run(run)
    whole = (run / "scores.json").read_bytes()
    lines = (run / "samples" / "0001-all.jsonl").read_text().splitlines(keepends=True)
    (run / "samples" / "0001-all.jsonl").write_text("".join(lines[:1]))
    (run / "samples" / "0002-all.jsonl").write_text("".join(lines[1:]))
    score_run(run)
    assert (run / "scores.json").read_bytes() == whole


@pytest.mark.parametrize(
    ("old", "new"),
    [('"value": 0.5', '"value": 0.7'), ('"sha256": ', '"sha257": '), ('"format": 1', '"format": 0'), ("{", "")],
    ids=["a score", "its digest's name", "its format", "no JSON"],
)
def test_damaged_scores_are_named_and_can_be_made_again(make_run, old, new):
    run = make_run("r", {"t": [[1, 0]] * 2})
    score = score_run(run)
    path = run / "scores.json"
    whole = path.read_text()
    assert old in whole
    path.write_text(whole.replace(old, new, 1))
    with pytest.raises(StapoError, match=r"scores.json: expected scores, got damage .*'stapo-bench score .* again"):
        current_score(run)
    assert score_run(run) == score and path.read_text() == whole


def test_scores_of_an_older_version_lack_a_digest(make_run):
    run = make_run("r", {"t": [[1, 0]] * 2})
    score = score_run(run)
    stored = json.loads((run / "scores.json").read_text())
    del stored["sha256"]
    assert from_json(stored) == score


@pytest.mark.parametrize(
    "change",
    [
        {"method": ["a"]}, {"max_new_tokens": "x"}, {"macro": 3}, {"tasks": 3}, {"tasks": [3]}, {"step": 1.5},
        {"seed": True}, {"unknown": 1},
        {"tasks.0.counts": 5}, {"tasks.0.counts": {"a": [1]}}, {"tasks.0.counts": {"a": ["x", "y"]}},
        {"tasks.0.value": "x"}, {"tasks.0.bounds": [1]}, {"tasks.0.stability": {"G-Pass@8": "x"}},
        {"tasks.0.pass_at": {"x": 1.0}},
    ],
    ids=str,
)  # fmt: skip
def test_stored_scores_of_other_types_are_one_line(make_run, change):
    run = make_run("run", {"a": [[1.0, 0.0], [0.0, 1.0]]})
    score_file.score_run(run)
    raw = json.loads((run / "scores.json").read_text())
    ((place, value),) = change.items()
    at, *rest = raw, *place.split(".")
    for name in rest[:-1]:
        at = at[int(name) if name.isdecimal() else name]
    at[rest[-1]] = value
    del raw["sha256"]
    (run / "scores.json").write_text(json.dumps(raw | {"sha256": canonical_digest(raw)}))
    with pytest.raises(StapoError, match=r"scores.json: expected scores, got damage") as caught:
        score_file.current_score(run)
    assert "\n" not in str(caught.value)
    (run / "scores.json").write_text("[" * 100_000)
    with pytest.raises(StapoError, match=r"scores.json: expected scores, got damage"):
        score_file.current_score(run)
