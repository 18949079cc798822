"""Grading a run: while it is drawn, afterwards, and only what has no grade."""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from eval_setup import NUM_PROBLEMS, make_options, make_task, run
from store_setup import make_sample

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Gold, SampleKey
from stapo_bench.runs.run_grading import _gold, grade_run
from stapo_bench.runs.store import read_samples
from stapo_bench.sampling import live_grading
from stapo_bench.sampling.live_grading import LiveGrader


def grades(run_dir: Path) -> list[dict]:
    return [json.loads(line) for line in (run_dir / "grades/strict.jsonl").read_text().splitlines()]


def test_only_ungraded_samples_are_graded(tmp_path):
    options = make_options(tmp_path, samples=1)
    run(options)
    first = grade_run(tmp_path / "run", "strict", data_dir=tmp_path, workers=1)
    assert (first.num_graded, first.num_kept) == (24, 0)
    run(replace(options, samples=2))
    second = grade_run(tmp_path / "run", "strict", data_dir=tmp_path, workers=1)
    assert (second.num_graded, second.num_kept) == (24, 24)
    header, *rows = grades(tmp_path / "run")
    assert header == {"grader": "strict-1"}
    outcome = {(row["task"], row["problem_id"], row["sample_index"]): row["outcome"] for row in rows}
    assert outcome == {
        sample.key: "CORRECT" if sample.seed % 3 == 1 else "INCORRECT" for sample in read_samples(tmp_path / "run")
    }
    third = grade_run(tmp_path / "run", "strict", data_dir=tmp_path / "nowhere")  # nothing to grade: no data needed
    assert (third.num_graded, third.num_kept) == (0, 48)


def test_another_version_grades_anew_and_a_torn_line_is_graded_again(tmp_path):
    run(make_options(tmp_path, samples=1))
    grade_run(tmp_path / "run", "strict", data_dir=tmp_path, workers=1)
    path = tmp_path / "run/grades/strict.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert grade_run(tmp_path / "run", "strict", data_dir=tmp_path, workers=1).num_graded == 1
    assert path.read_bytes() == whole
    path.write_bytes(whole.replace(b"strict-1", b"strict-0"))
    assert grade_run(tmp_path / "run", "strict", data_dir=tmp_path, workers=1).num_graded == 24
    assert path.read_bytes() == whole


def test_grading_while_drawing_leaves_nothing_to_do_and_shows_what_was_graded_before(tmp_path):
    run(make_options(tmp_path, samples=1))
    golds = {(task, f"{task}-{i}"): Gold(answer="1") for task in ("one", "two") for i in range(NUM_PROBLEMS)}
    stored = list(read_samples(tmp_path / "run"))
    (tmp_path / "run/grades/math.jsonl").unlink(missing_ok=True)  # of the run's own live grader, as far as it came
    for new in (stored, []):  # the second time all of it is known from the file
        seen: dict[SampleKey, str] = {}
        grader = LiveGrader(tmp_path / "run", golds, seen.__setitem__)
        for sample in new:
            grader.put(sample)
        deadline = time.monotonic() + 60
        while len(seen) < len(stored) and time.monotonic() < deadline:
            time.sleep(0.01)
        grader.close()
        assert seen == {s.key: "CORRECT" if s.seed % 3 == 1 else "INCORRECT" for s in stored}
    assert grade_run(tmp_path / "run", data_dir=tmp_path / "nowhere").num_kept == len(stored)


def test_damaged_grades_and_other_data_are_named(tmp_path):
    run(make_options(tmp_path, samples=1))
    with pytest.raises(StapoError, match="expected task one with content"):
        other = tmp_path / "other"
        make_task(other, "two")
        make_task(other, "one")
        (other / "one.jsonl").write_text((tmp_path / "one.jsonl").read_text().replace('"answer": "1"', '"answer": "2"'))
        grade_run(tmp_path / "run", "strict", data_dir=other, workers=1)
    grade_run(tmp_path / "run", "strict", data_dir=tmp_path, workers=1)
    path = tmp_path / "run/grades/strict.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"task":"one"', b'"tusk":"one"', 1))
    with pytest.raises(StapoError, match=r"strict\.jsonl:2: expected a grade, got a damaged line"):
        grade_run(tmp_path / "run", "strict", data_dir=tmp_path, workers=1)


def test_a_run_without_samples_gets_a_file_without_grades(tmp_path):
    run(make_options(tmp_path, samples=1))
    shutil.rmtree(tmp_path / "run/samples")
    for _ in range(2):  # also where the file is there
        found = grade_run(tmp_path / "run", "strict", data_dir=tmp_path / "nowhere", workers=1)
        assert (found.grader, found.num_graded, found.num_kept) == ("strict-1", 0, 0)
        assert grades(tmp_path / "run") == [{"grader": "strict-1"}]


def test_what_cannot_be_graded_is_refused(tmp_path):
    run(make_options(tmp_path, samples=1))
    with pytest.raises(UsageError, match="grader qwen-reported: its verdicts came with the imported files"):
        grade_run(tmp_path / "run", "qwen-reported")
    gold = Gold(answer="4")
    assert _gold({("aime24", "I-3"): gold}, make_sample(3)) is gold
    with pytest.raises(StapoError, match="sample of aime24/I-3: the task has no such problem"):
        _gold({("aime24", "I-4"): gold}, make_sample(3))


@pytest.fixture
def idle(tmp_path, monkeypatch):
    """A live grader whose thread does nothing, for at most three waiting samples in batches of two; what it saw."""
    monkeypatch.setattr(live_grading, "_WAITING", 3)
    monkeypatch.setattr(live_grading, "_BATCH", 2)
    monkeypatch.setattr(LiveGrader, "_work", lambda self: None)
    seen: list[tuple[SampleKey, str]] = []
    return LiveGrader(tmp_path, {}, lambda *found: seen.append(found)), seen


def test_a_sample_that_finds_no_room_is_undecided_and_holds_nothing_up(idle):
    grader, seen = idle
    for index in range(4):
        grader.put(make_sample(index))
    assert seen == [(make_sample(3).key, "GRADER_ERROR")]
    grader.put_end()  # there is no room for it, and no need
    assert len(grader._next_batch()) == 2
    assert len(grader._next_batch()) == 1
    grader.close()


def test_a_batch_is_what_waits_until_the_end_or_until_it_is_time_to_stop(idle):
    grader, _ = idle
    grader.put(make_sample(0))
    grader.put_end()
    grader.put(make_sample(1))
    assert grader._next_batch() == [make_sample(0)]
    assert grader._next_batch() == [make_sample(1)]
    grader.put_end()
    assert grader._next_batch() == []
    grader.put(make_sample(2))
    grader.close()
    assert grader._next_batch() == []  # what still waits is left


def test_grading_rests_two_hundred_times_as_long_as_it_worked(tmp_path, monkeypatch):
    """It may take a 200th of one processor's time; here grading a batch takes two hundredths of a second of it."""
    used, rests = [0.0], []
    monkeypatch.setattr(live_grading.time, "thread_time", lambda: used[0])

    def append(_run_dir, _grader, _version, grades):
        list(grades)
        used[0] += 0.02

    monkeypatch.setattr(live_grading, "append_grades", append)
    monkeypatch.setattr(live_grading, "graded_keys", lambda *_: None)
    run_dir = tmp_path / "run"
    grader = LiveGrader(run_dir, {("aime24", f"I-{i}"): Gold(answer="4") for i in range(7)}, lambda *_: None)
    monkeypatch.setattr(grader._stopping, "wait", rests.append)
    grader.put(make_sample(0))
    deadline = time.monotonic() + 60
    while not rests and time.monotonic() < deadline:
        time.sleep(0.005)
    grader.put(make_sample(1))
    while len(rests) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    grader.close()
    assert rests == [pytest.approx(4.0), pytest.approx(4.0)]
