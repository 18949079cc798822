"""Grade files beside each other: one per grader and golds, and a judge's over a rule's; nothing mixed in one file."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stapo_bench.analysis.grader_agreement import compare_graders
from stapo_bench.analysis.score_file import score_run
from stapo_bench.engines import EngineOptions
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Completion, Gold, Problem, Request, SamplingParams, ToolOutput
from stapo_bench.runs.golds import data_digest
from stapo_bench.runs.grades import append_grades, read_grades
from stapo_bench.runs.nested import canonical_digest
from stapo_bench.runs.run_grading import grade_run
from stapo_bench.runs.store import sample_from_line, sample_to_line, segments
from stapo_bench.sampling.judging import Judge, JudgeOptions, judge_run, open_judge
from stapo_bench.tasks.errata import Errata, Erratum

GOLDS = ("4", "5", "6")  # the second is wrong: 2 + 4
ERRATUM = Erratum(id="t-1", task="t", kind="gold", published="5", corrected="6", reason="2 + 4 = 6")
ANSWERS = (("4", "IV", None), ("6", "6", "5"), ("7", "7", "7"))  # of each problem's samples


def use_errata(monkeypatch, version=1, **changes):
    errata = Errata(version=version, items=(replace(ERRATUM, **changes),))
    monkeypatch.setattr("stapo_bench.tasks.errata.load_errata", lambda: errata)


@pytest.fixture
def run(make_run, tmp_path, monkeypatch):
    """A run of one small task with its data in the test's folder, and one erratum."""
    problems = [
        Problem(task="t", problem_id=f"t-{i}", question=f"2 + {i + 2}?", gold=Gold(answer=gold))
        for i, gold in enumerate(GOLDS)
    ]
    rows = [{"id": p.problem_id, "problem": p.question, "answer": p.gold.answer} for p in problems]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "t.yaml").write_text("task: t\nrepeats: 3\ndoc_to_text: '{{problem}}'\nmetadata: {num_problems: 3}\n")
    use_errata(monkeypatch)

    def sample(task, i, j):
        return {"completion": "I give up." if ANSWERS[i][j] is None else rf"\boxed{{{ANSWERS[i][j]}}}"}

    folder = make_run("run", {"t": [[0, 0, 0]] * 3}, sample=sample)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["identity"]["tasks"]["t"]["data"] = data_digest(problems)
    manifest["about"]["tasks"]["t"]["file"] = str(tmp_path / "t.yaml")
    manifest["digest"] = canonical_digest(manifest["identity"])
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "grades/math.jsonl").unlink()
    return folder


def accepted(run, name):
    """(problem, sample) pairs that a grade file accepts."""
    outcomes = read_grades(run, name).outcomes
    return {(key.problem_id, key.sample_index) for key, (outcome, _) in outcomes.items() if outcome.value == "CORRECT"}


# -- golds ------------------------------------------------------------------------------------------------------------


def test_corrected_golds_have_a_grade_file_of_their_own(run, tmp_path):
    grade_run(run, data_dir=tmp_path, workers=1)
    published = (run / "grades/math.jsonl").read_bytes()
    done = grade_run(run, "math+corrected", data_dir=tmp_path, workers=1)
    assert (done.grader, done.num_graded, done.num_kept) == ("math-15+errata-1", 9, 0)
    assert (run / "grades/math.jsonl").read_bytes() == published
    assert accepted(run, "math") == {("t-0", 0), ("t-1", 2)}
    assert accepted(run, "math+corrected") == {("t-0", 0), ("t-1", 0), ("t-1", 1)}
    assert json.loads((run / "grades/math+corrected.jsonl").open().readline()) == {"grader": "math-15+errata-1"}
    assert score_run(run).tasks[0].value == pytest.approx(2 / 9)
    corrected = score_run(run, "math+corrected")
    assert corrected.tasks[0].value == pytest.approx(3 / 9)
    assert (corrected.grades, corrected.grader) == ("math+corrected", "math-15+errata-1")


def test_other_errata_grade_anew_and_the_published_grades_stay(run, tmp_path, monkeypatch):
    grade_run(run, data_dir=tmp_path, workers=1)
    grade_run(run, "math+corrected", data_dir=tmp_path, workers=1)
    assert grade_run(run, "math+corrected", data_dir=tmp_path, workers=1).num_graded == 0
    use_errata(monkeypatch, version=2, corrected="5.0")
    done = grade_run(run, "math+corrected", data_dir=tmp_path, workers=1)
    assert (done.grader, done.num_graded) == ("math-15+errata-2", 9)
    assert accepted(run, "math+corrected") == {("t-0", 0), ("t-1", 2)}
    assert grade_run(run, data_dir=tmp_path, workers=1).num_graded == 0


def test_disputes_show_both_golds(run, tmp_path):
    for name in ("math", "math+corrected"):
        grade_run(run, name, data_dir=tmp_path, workers=1)
    first, second = compare_graders(run, tmp_path).disputes
    assert (first.problem_id, first.extracted, first.num_samples, first.gold) == ("t-1", "6", 2, "5 → 6")
    assert (second.problem_id, second.extracted, second.num_samples, second.gold) == ("t-1", "5", 1, "5 → 6")
    without = compare_graders(run, tmp_path / "nowhere")
    assert [dispute.gold for dispute in without.disputes] == [None, None]
    assert without.note.startswith("no golds are shown: ") and "t.jsonl: no such file" in without.note


def test_an_erratum_that_does_not_fit_writes_no_grade(run, tmp_path, monkeypatch):
    use_errata(monkeypatch, published="55")
    with pytest.raises(StapoError, match="erratum of t-1: expected the published gold '55', got '5'"):
        grade_run(run, "math+corrected", data_dir=tmp_path, workers=1)
    assert not list((run / "grades").iterdir())


def test_unknown_graders_are_refused_under_either_golds(run, tmp_path):
    for name in ("mth", "mth+corrected"):
        with pytest.raises(UsageError, match=r"unknown grader 'mth' .*; did you mean 'math'"):
            grade_run(run, name, data_dir=tmp_path)
    assert not list((run / "grades").iterdir())


# -- the judge --------------------------------------------------------------------------------------------------------


class FakeJudge:
    """Replies by (problem, sample), and remembers what it was asked."""

    def __init__(self, replies: dict[tuple[str, int], str], default: str = "B") -> None:
        self.replies = replies
        self.default = default
        self.asked: list[tuple[str, int]] = []
        self.prompts: dict[tuple[str, int], str] = {}

    def identity(self) -> dict[str, str]:
        return {"engine": "fake"}

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        for request in requests:
            key = (request.key.problem_id, request.key.sample_index)
            self.asked.append(key)
            self.prompts[key] = request.prompt.text
            text = self.replies.get(key, self.default)
            if text == "die":
                raise RuntimeError("the device fell off the bus")
            if text != "nothing":
                yield Completion(key=request.key, text=text, finish_reason="stop", num_tokens=1)

    def close(self) -> None:
        pass


REJECTED = {("t-0", 1), ("t-1", 0), ("t-1", 1), ("t-2", 0), ("t-2", 1), ("t-2", 2)}


def judged(run, engine, tmp_path, rule="math", **changes):
    judge = replace(Judge(name="m", digest="0123456789abcdef", engine=engine), **changes)
    return judge_run(run, judge, rule, data_dir=tmp_path)


def test_the_judge_sees_what_the_rule_rejects_and_writes_a_file_of_its_own(run, tmp_path):
    grade_run(run, data_dir=tmp_path, workers=1)
    rule_file = (run / "grades/math.jsonl").read_bytes()
    engine = FakeJudge({("t-0", 1): "A"})
    done = judged(run, engine, tmp_path)
    assert (done.num_graded, done.num_kept) == (9, 0)
    assert done.grader == read_grades(run, "judge-m").grader == "judge-1:m@0123456789ab on math-15"
    assert set(engine.asked) == REJECTED and len(engine.asked) == len(REJECTED)
    assert accepted(run, "judge-m") == {("t-0", 0), ("t-0", 1), ("t-1", 2)}  # IV is 4
    assert read_grades(run, "judge-m").outcomes[("t", "t-0", 2)] == ("NO_ANSWER", None)  # nothing to judge
    assert (run / "grades/math.jsonl").read_bytes() == rule_file
    again = FakeJudge({})
    assert judged(run, again, tmp_path / "nowhere").num_kept == 9  # all judged: no data, no questions
    assert again.asked == []


def test_where_there_is_nothing_to_judge_a_file_says_so(run, tmp_path):
    append_grades(run, "math", "math-11", [])
    for _ in range(2):
        found = judged(run, FakeJudge({}, default="die"), tmp_path / "nowhere")
        assert (found.num_graded, found.num_kept) == (0, 0)
        assert json.loads((run / "grades/judge-m.jsonl").read_text()) == {"grader": found.grader}


def test_the_judge_reads_no_call_of_a_tool_and_no_output(run, tmp_path):
    (file,) = segments(run)
    *others, last = [sample_from_line(line) for line in file.read_bytes().splitlines(keepends=True)]
    text = r"See <calculator>2 + 4</calculator><output>6</output> \boxed{7}"
    called = replace(last, completion=text, tool_outputs=(ToolOutput(0, (6,)),))
    file.write_bytes(b"".join(map(sample_to_line, [*others, called])))
    grade_run(run, data_dir=tmp_path, workers=1)
    engine = FakeJudge({})
    judged(run, engine, tmp_path)
    asked = engine.prompts[called.problem_id, called.sample_index]
    assert r"\boxed{7}" in asked and "<output>" not in asked and "2 + 4</" not in asked


def test_where_the_judge_failed_it_is_asked_again(run, tmp_path):
    grade_run(run, data_dir=tmp_path, workers=1)
    judged(run, FakeJudge({("t-0", 1): "nothing", ("t-1", 0): "perhaps"}), tmp_path)
    outcomes = read_grades(run, "judge-m").outcomes
    assert {key[1:] for key, (outcome, _) in outcomes.items() if outcome == "GRADER_ERROR"} == {("t-0", 1), ("t-1", 0)}
    score = score_run(run, "judge-m").tasks[0]
    assert score.num_grader_errors == 2
    assert (score.bounds.low, score.bounds.high) == (pytest.approx(2 / 9), pytest.approx(4 / 9))
    engine = FakeJudge({("t-0", 1): "A"})
    done = judged(run, engine, tmp_path)
    assert (done.num_graded, done.num_kept) == (2, 7)
    assert set(engine.asked) == {("t-0", 1), ("t-1", 0)}
    assert accepted(run, "judge-m") == {("t-0", 0), ("t-0", 1), ("t-1", 2)}
    assert score_run(run, "judge-m").tasks[0].num_grader_errors == 0


def test_another_judge_or_another_version_of_the_rule_judges_anew(run, tmp_path):
    grade_run(run, data_dir=tmp_path, workers=1)
    judged(run, FakeJudge({}), tmp_path)
    assert judged(run, FakeJudge({}), tmp_path, digest="fedcba9876543210").num_kept == 0
    path = run / "grades/math.jsonl"
    path.write_bytes(path.read_bytes().replace(b"math-15", b"math-1"))
    assert judged(run, FakeJudge({}), tmp_path, digest="fedcba9876543210").num_kept == 0
    assert read_grades(run, "judge-m").grader == "judge-1:m@fedcba987654 on math-1"


def test_the_judge_follows_the_rules_golds_into_another_file(run, tmp_path):
    grade_run(run, "math+corrected", data_dir=tmp_path, workers=1)
    engine = FakeJudge({})
    judged(run, engine, tmp_path, rule="math+corrected")
    assert set(engine.asked) == (REJECTED | {("t-1", 2)}) - {("t-1", 0), ("t-1", 1)}
    assert "<reference_answer>\n6\n</reference_answer>" in engine.prompts["t-1", 2]
    assert accepted(run, "judge-m+corrected") == accepted(run, "math+corrected")
    assert [path.stem for path in (run / "grades").glob("judge*")] == ["judge-m+corrected"]


def test_a_judge_that_dies_loses_no_grade_of_the_rule(run, tmp_path):
    grade_run(run, data_dir=tmp_path, workers=1)
    with pytest.raises(StapoError, match="the engine stopped: RuntimeError: the device fell off the bus"):
        judged(run, FakeJudge({("t-2", 2): "die"}), tmp_path)
    assert [path.name for path in (run / "grades").iterdir()] == ["math.jsonl"]
    assert judged(run, FakeJudge({}), tmp_path).num_graded == 9


def test_what_the_rule_has_not_graded_is_left_for_later(run, tmp_path):
    grade_run(run, data_dir=tmp_path, workers=1)
    path = run / "grades/math.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))  # all but t-2's last sample
    assert judged(run, FakeJudge({}), tmp_path).num_graded == 8
    path.write_bytes(whole)
    engine = FakeJudge({})
    assert judged(run, engine, tmp_path).num_graded == 1
    assert engine.asked == [("t-2", 2)]


def test_without_the_rules_grades_the_judge_is_not_asked(run, tmp_path):
    engine = FakeJudge({})
    with pytest.raises(StapoError, match="expected grades by 'math', found none"):
        judged(run, engine, tmp_path)
    assert engine.asked == []


def test_an_opened_judge_is_named_after_its_folder_and_told_apart_by_its_content(tmp_path):
    digests = []
    for text in ("success: 0.5\n", "success: 0.25\n"):
        (tmp_path / "my judge.yaml").write_text(text)
        with open_judge(
            JudgeOptions(checkpoint=tmp_path / "my judge.yaml", engine=EngineOptions(name="scripted"))
        ) as judge:
            assert judge.name == "my-judge"
            digests.append(judge.digest)
    assert digests[0] != digests[1]


def test_servers_take_the_place_of_an_engine_here(tmp_path, monkeypatch):
    opened = {}

    def open_engine(options, checkpoint):
        opened.update(vars(options))
        return FakeJudge({})

    monkeypatch.setattr("stapo_bench.sampling.judging.open_engine", open_engine)
    (tmp_path / "j.yaml").write_text("success: 1\n")
    engine = EngineOptions(base_urls=("http://localhost:1/v1",), model="served")
    with open_judge(JudgeOptions(checkpoint=tmp_path / "j.yaml", engine=engine)) as judge:
        assert judge.name == "j"
    assert (opened["name"], opened["base_urls"], opened["model"]) == ("openai", ("http://localhost:1/v1",), "served")


def test_an_address_is_no_folder():
    with (
        pytest.raises(UsageError, match="give that as --judge-base-url"),
        open_judge(JudgeOptions(checkpoint=Path("http://localhost:8000/v1"))),
    ):
        pass
