"""Run folders by hand: what a grade's line may be, what two commands ask for together, when side work is due."""

import io
import math
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stapo_bench.engines import Spent
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Grade, Outcome, SampleKey, SamplingParams
from stapo_bench.runs import Pace, folder, grades, spent
from stapo_bench.runs.checkpoint import check_hashes
from stapo_bench.runs.copies import evidence_of_shared_starts, mark_copies, texts_of
from stapo_bench.runs.files import after_last_newline, is_file, read_bounded, whole_lines
from stapo_bench.runs.graded_samples import GradedSample, GradedSamples
from stapo_bench.runs.importing.writing import _refuse_several_folders
from stapo_bench.runs.loaded_run import LoadedRun
from stapo_bench.runs.manifest import AskedTask
from stapo_bench.runs.measured import measured_with
from stapo_bench.runs.sealed import complete_lines, seal, unseal
from stapo_bench.statistics import problem_evidence

KEY = SampleKey("t", "p", 3)
ROW = {"task": "t", "problem_id": "p", "sample_index": 3, "outcome": "CORRECT", "extracted": "7", "detail": ""}


# --- grades ----------------------------------------------------------------------------------------------------------


def test_a_grade_survives_its_line():
    for grade in (
        Grade(outcome=Outcome.CORRECT, extracted="7", detail="why", grader=""),
        Grade(outcome=Outcome.GRADER_ERROR, extracted=None, grader=""),
    ):
        key, found = grades.grade_from_line(seal(grades.grade_line(KEY, grade)))
        assert (key, found.outcome, found.extracted, found.detail) == (
            KEY, grade.outcome, grade.extracted, grade.detail
        )  # fmt: skip
    older = {name: value for name, value in ROW.items() if name != "detail"}
    assert grades.grade_from_line(seal(older))[1].detail == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "it has extra, which no grade has"),
        ({"outcome": ...}, "it has no outcome"),
        ({"task": 3}, "task is 3, expected str"),
        ({"problem_id": None}, "problem_id is None, expected str"),
        ({"sample_index": "3"}, "sample_index is '3', expected int"),
        ({"sample_index": -1}, "sample_index is -1, expected 0 to 999999"),
        ({"sample_index": 1_000_000}, "sample_index is 1000000, expected 0 to 999999"),
        ({"extracted": 7}, "extracted is 7, expected str or null"),
        ({"outcome": "RIGHT"}, "'RIGHT' is not a valid Outcome"),
    ],
)
def test_a_line_that_is_no_grade_says_why(change, message):
    row = {name: value for name, value in {**ROW, **change}.items() if value is not ...}
    with pytest.raises(ValueError, match=message):
        grades.grade_from_line(seal(row))


@pytest.mark.parametrize("index", [0, 999_999])
def test_every_index_that_a_sample_may_have_is_a_grades(index):
    assert grades.grade_from_line(seal({**ROW, "sample_index": index}))[0].sample_index == index


def test_the_last_line_of_a_key_counts_and_another_version_begins_anew(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    wrong, right = (Grade(outcome=o, extracted="7", grader="") for o in (Outcome.INCORRECT, Outcome.CORRECT))
    other = SampleKey("t", "q", 0)
    grades.append_grades(tmp_path, "math", "math-1", [(KEY, wrong), (other, wrong)])
    grades.append_grades(tmp_path, "math", "math-1", [(KEY, right)])
    found = grades.read_grades(tmp_path, "math")
    assert found.grader == "math-1"
    assert dict(found.outcomes) == {KEY: (Outcome.CORRECT, "7"), other: (Outcome.INCORRECT, "7")}
    seen = []
    keys = grades.graded_keys(tmp_path, "math", "math-1", lambda *found: seen.append(found))
    assert (len(keys), seen) == (2, [(KEY, "INCORRECT"), (other, "INCORRECT")])
    assert len(grades.graded_keys(tmp_path, "math", "math-2")) == 0
    assert dict(grades.grades_by(tmp_path, "math", "math-2")) == {}
    assert dict(grades.grades_by(tmp_path, "none", "none-1")) == {}
    grades.append_grades(tmp_path, "math", "math-2", [(other, right)])
    assert dict(grades.read_grades(tmp_path, "math").outcomes) == {other: (Outcome.CORRECT, "7")}


@pytest.mark.parametrize(
    ("there", "grader", "advice"),
    [
        ([], "math", "found none; run 'stapo-bench grade RUN'"),
        (["strict"], "math", "found strict; run 'stapo-bench grade RUN'"),
        (["math"], "strict", "found math; run 'stapo-bench grade RUN --grader strict'"),
        (["math"], "judge-m", "found math; run 'stapo-bench grade RUN --judge FOLDER'"),
        ([], "own-reported", "found none; such verdicts come with imported files alone"),
        (
            ["math", "qwen-reported"],
            "somebody-elses-reported",
            "found math, qwen-reported; such verdicts come with imported files alone; name one that is there: "
            "--grader math",
        ),
        (["qwen-reported"], "qwn-reported", "found qwen-reported; did you mean 'qwen-reported'?"),
        (
            ["qwen-reported"],
            "math",
            "found qwen-reported; name what came along: --grader qwen-reported; where the golds are known, "
            "run 'stapo-bench grade RUN'",
        ),
    ],
)
def test_grades_that_are_not_there_are_named_with_the_way_to_them(tmp_path, there, grader, advice):
    (tmp_path / "grades").mkdir()
    for name in there:
        (tmp_path / "grades" / f"{name}.jsonl").write_text("")
    with pytest.raises(StapoError) as refusal:
        grades.stream_grades(tmp_path, grader)
    assert str(refusal.value).replace(str(tmp_path), "RUN") == f"RUN: expected grades by '{grader}', {advice}"


def test_grades_by_no_grader_are_refused_with_those_that_are_there(tmp_path):
    with pytest.raises(UsageError, match=r"unknown grader 'mth' .*did you mean 'math'"):
        grades.stream_grades(tmp_path, "mth")


# --- folders, files and pace -----------------------------------------------------------------------------------------


def test_a_run_grows_to_what_two_commands_ask_for():
    def asked(ids, num_samples):
        return AskedTask(title="T", problem_ids=ids, num_samples=num_samples, file=None)

    grown = folder._grown({"a": asked(("1", "2"), 4)}, {"a": asked(("2", "3"), 2), "b": asked(("9",), 1)})
    assert (grown["a"].problem_ids, grown["a"].num_samples) == (("1", "2", "3"), 4)
    assert grown["b"] == asked(("9",), 1)


def test_runs_under_other_settings_stand_beside_each_other(tmp_path):
    names = folder._folders(tmp_path / "run")
    assert [next(names).name for _ in range(3)] == ["run", "run-2", "run-3"]


@pytest.mark.parametrize(
    ("content", "offset"),
    [
        (b"", 0),
        (b"abc", 0),
        (b"\n", 1),
        (b"a\nb", 2),
        (b"a\n" + b"b" * (1 << 16), 2),
        (b"a\n" + b"b" * ((1 << 16) - 1), 2),
        (b"a" * 70_000 + b"\n" + b"b" * 140_000, 70_001),
        (b"b" * 140_000, 0),
    ],
)
def test_the_offset_behind_the_last_newline(content, offset):
    assert after_last_newline(io.BytesIO(content)) == offset


def test_a_file_is_read_up_to_its_bound(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"1234")
    assert read_bounded(path, 4) == b"1234"
    with pytest.raises(StapoError, match="expected at most 3 bytes, got more"):
        read_bounded(path, 3)
    if (status := Path("/proc/self/status")).exists():  # its size is told as 0
        with pytest.raises(StapoError, match="expected at most 3 bytes, got more"):
            read_bounded(status, 3)
    path.write_bytes(b"a\nb\nc")
    assert whole_lines(path) == 2
    with path.open("rb") as opened:
        assert is_file(path, opened)
        path.rename(tmp_path / "g")
        assert not is_file(path, opened)
        path.write_bytes(b"")
        assert not is_file(path, opened)


def test_whole_lines_and_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("stapo_bench.runs.sealed.LONGEST_LINE", 4)
    path = tmp_path / "f"
    path.write_bytes(b"abc\nd\ne")
    assert list(complete_lines(path)) == [(1, b"abc\n"), (2, b"d\n")]
    path.write_bytes(b"d\nabcd\n")
    with pytest.raises(StapoError, match="f:2: expected a line of at most 4 bytes"):
        list(complete_lines(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [(b"[1]\n", "not a JSON object"), (b"{\n", "not JSON"), (b'{"a":1,"crc32":"00000000"}\n', "does not fit")],
)
def test_a_line_whose_seal_does_not_fit(line, message):
    with pytest.raises(ValueError, match=message):
        unseal(line)


def test_what_is_behind_a_seal_is_no_part_of_it():
    line = seal({"a": 1})
    assert unseal(line.rstrip()) == unseal(line) == {"a": 1} and unseal(b'{"a":1}') == {"a": 1}
    with pytest.raises(ValueError, match="does not fit"):
        unseal(line[:-2] + b',"b":2}\n')


def test_side_work_is_due_by_the_clock_by_its_share_and_at_the_latest():
    now = [10.0]
    pace = Pace(2.0, share=0.1, longest=20.0, clock=lambda: now[0])

    def first_due(begin):
        for tenths in range(1, 400):
            now[0] = begin + tenths / 10
            if pace.due():
                return tenths / 10
        raise AssertionError

    assert first_due(10.0) == 2.0
    now[0] = 12.1  # it took a tenth of a second: less than the share of two seconds
    pace.done()
    assert first_due(12.1) == 2.0
    now[0] = 15.1  # a second: ten times as long
    pace.done()
    assert first_due(15.1) == pytest.approx(10.0)
    now[0] = 35.1  # ten seconds: never after more than twenty
    pace.done()
    assert first_due(35.1) == 20.0


def test_what_was_spent_adds_up_and_damage_is_named(tmp_path):
    assert spent.spent_on(tmp_path) is None
    one = Spent(num_answers=2, num_uncounted=1, prompt_tokens=30, completion_tokens=40, money=0.5)
    spent.note_spent(tmp_path, "a", one)
    spent.note_spent(tmp_path, "a", replace(one, num_answers=3))
    spent.note_spent(tmp_path, "b", one)
    found = spent.spent_on(tmp_path)
    assert (found.num_answers, found.num_uncounted, found.prompt_tokens) == (7, 3, 90)
    assert (found.completion_tokens, found.money) == (120, 1.5)
    with (tmp_path / "spent" / "a.jsonl").open("ab") as file:
        file.write(b'{"torn')
    spent.note_spent(tmp_path, "a", one)  # behind what was torn
    assert spent.spent_on(tmp_path).num_answers == 9
    (tmp_path / "spent" / "b.jsonl").write_bytes(b"{}\n")
    with pytest.raises(StapoError, match=r"b\.jsonl:1: expected what a command spent"):
        spent.spent_on(tmp_path)


# --- copies ----------------------------------------------------------------------------------------------------------

SAMPLING = SamplingParams(temperature=1.0, top_p=0.8, max_new_tokens=4000)


def drawn(problem, texts, **more):
    return [
        GradedSample(
            problem_id=problem, sample_index=index, outcome=Outcome.CORRECT, text_digest=text.encode() * 8,
            text_tokens=2000, **more,
        )
        for index, text in enumerate(texts)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sampling", "as_drawn", "log_prob", "expected"),
    [
        (SAMPLING, False, None, -0.005 * 1936),  # by length
        (SAMPLING, False, -2000.0, -2000.0 - 2000 * math.log(0.8)),  # before the cut, a token may be 1 / 0.8 as likely
        (SAMPLING, True, -2000.0, -2000.0),
        (replace(SAMPLING, top_p=None), False, -2000.0, -0.005 * 1936),  # what the log-probability is of is not known
        (replace(SAMPLING, temperature=None), False, -2000.0, 0.0),
    ],
)
def test_how_likely_the_texts_of_samples_may_be(sampling, as_drawn, log_prob, expected):
    ((text, most),) = texts_of(drawn("p", "a", sum_log_prob=log_prob), sampling, as_drawn=as_drawn)
    assert text == b"aaaaaaaa" and most == pytest.approx(expected)


def test_copies_are_those_behind_the_first_on_problems_that_show_them():
    samples = GradedSamples()
    for problem in "opqrst":
        for sample in drawn(problem, "abaa" if problem != "o" else "abcd"):
            samples.append(sample)
    mark_copies({"t": samples}, SAMPLING)
    marked = [(one.problem_id, one.sample_index) for one in samples if one.is_copy]
    assert marked == [(problem, index) for problem in "pqrst" for index in (2, 3)]
    for sampling in (replace(SAMPLING, temperature=0.0), replace(SAMPLING, temperature=None)):
        fresh = GradedSamples()
        for sample in drawn("p", "aaaa"):
            fresh.append(sample)
        mark_copies({"t": fresh}, sampling)
        assert not any(one.is_copy for one in fresh)


@pytest.mark.parametrize(("num_problems", "marked"), [(2, []), (3, [3, 3, 3])])
def test_copies_are_marked_from_odds_of_a_thousand_on(num_problems, marked):
    """Each problem has a text of likelihood e^-3 twice: E_i = 16.06, the mean of r e^3. Over the problems E is the mean
    of 1.30^n, 4.01^n and 14.56^n: 77 for two and 1,050 for three. Texts of a few tokens are no copies, as ever.
    """
    samples = GradedSamples()
    for problem in "pqr"[:num_problems]:
        for sample in drawn(problem, "ssaa"):
            samples.append(replace(sample, text_tokens=10 if sample.sample_index < 2 else 664))
    mark_copies({"t": samples}, SAMPLING)
    assert [one.sample_index for one in samples if one.is_copy] == marked


def test_shared_beginnings_count_once_for_each_whole_text():
    starts = [replace(one, start_digest=b"beginsss") for one in drawn("p", "abca")]
    alone = [replace(one, start_digest=None) for one in drawn("q", "ab")]
    most = -0.005 * (256 - 64)
    expected = problem_evidence([(b"beginsss", most)] * 3)
    odds = [(1 - s + s * math.exp(expected)) * (1 - s) for s in (0.02, 0.2, 0.9)]
    assert evidence_of_shared_starts([starts, alone], 1.0) == pytest.approx(math.log(sum(odds) / 3))


def test_a_file_that_is_another_one_is_named_with_what_was_expected():
    whole = {"config.json": "0123456789abcdef", "model.safetensors": "fedcba9876543210"}
    check_hashes(Path("c"), whole, whole)
    for found, got in (({**whole, "config.json": "abcdef0123456789"}, "abcdef012345"), ({}, "no such file")):
        with pytest.raises(StapoError) as refusal:
            check_hashes(Path("c"), whole, found)
        assert str(refusal.value) == (
            f"c/config.json: expected sha256 0123456789ab, as when it was written, got {got}; the file is damaged or "
            "another one: restore it"
        )


@pytest.mark.parametrize(("folders", "shown"), [("ab", "a, b"), ("cba", "a, b, c"), ("abcd", "a, b, c, …")])
def test_three_folders_of_an_archive_are_named(folders, shown):
    sources = [SimpleNamespace(opened=SimpleNamespace(label=Path(name) / "samples.jsonl")) for name in folders]
    with pytest.raises(UsageError) as refusal:
        _refuse_several_folders(Path("all.zip"), sources)
    said = f"all.zip: holds samples in {len(folders)} folders; name those of one run: {shown}"
    assert str(refusal.value) == said
    _refuse_several_folders(Path("all.zip"), sources[:1] * 2)


def test_what_something_was_measured_with(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # whose GPU would be named
    found = measured_with(["pytest", "no-such-package"])
    assert found["versions"] == {"python": platform.python_version(), "pytest": pytest.__version__}
    assert "model name" not in str(found["device"]) and str(found["device"]).endswith(f"{os.cpu_count()} CPUs")


# --- samples in columns ----------------------------------------------------------------------------------------------


def test_samples_in_columns_are_told_by_task_and_problem():
    samples = {
        "u": [GradedSample(problem_id="p", sample_index=4, outcome=None, truncated=None, num_tokens=None)],
        "t": [
            GradedSample(problem_id="q", sample_index=0, outcome=Outcome.INCORRECT, truncated=True, num_tokens=9),
            GradedSample(problem_id="p", sample_index=1, outcome=Outcome.CORRECT, segment="w", is_copy=True),
        ],
    }
    found = LoadedRun(manifest=None, grader="math", samples=samples).drawn
    assert found.places == {("t", "p"): 0, ("t", "q"): 1, ("u", "p"): 2}
    assert found.rows["problem"].tolist() == [0, 1, 2]
    assert [found.segments[segment] for segment in found.rows["segment"]] == ["w", "", ""]
    rows = found.of([("u", "p"), ("t", "none"), ("t", "q")])
    assert rows["problem"].tolist() == [2, 0]
    assert rows["index"].tolist() == [0, 4]
    assert rows[["correct", "truncated", "num_tokens"]].tolist()[0] == (0.0, 1.0, 9.0)
    assert np.isnan([rows[name][1] for name in ("correct", "truncated", "num_tokens", "sum_log_prob")]).all()
    assert found.rows["problem"].tolist() == [0, 1, 2]  # the copy alone was numbered anew
    assert LoadedRun(manifest=None, grader="math", samples={}).drawn.of([("t", "p")]).tolist() == []
