"""An exported table holds every sample with its grade."""

import csv
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stapo_bench.cli import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Sample, SamplingParams
from stapo_bench.runs.export import export_runs
from stapo_bench.runs.folder import open_run
from stapo_bench.runs.golds import data_digest
from stapo_bench.runs.identity import Identity
from stapo_bench.runs.manifest import About
from stapo_bench.runs.sample_writer import SegmentWriter
from stapo_bench.tasks import load_problems, load_task


@pytest.fixture
def run(tmp_path) -> Path:
    """Three samples, two of them graded; one completion ends in half of a character."""
    folder = tmp_path / "run"
    sampling = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=8)
    identity = Identity(checkpoint_digest="c0ffee", tasks={}, sampling=sampling, seed=0, engine={})
    open_run(folder, identity, About(tasks={}))
    with SegmentWriter(folder, "shard0of1") as writer:
        for index, text in enumerate(["so \\boxed{4}", "cut \ud83d", 'a "quoted"\nline, with a comma']):
            writer.append(
                Sample(
                    task="t",
                    problem_id="p",
                    sample_index=index,
                    seed=2**62 + index,
                    completion=text,
                    num_tokens=5,
                    finish_reason="stop",
                    sum_log_prob=-1.5 if index == 0 else None,
                )
            )
    (folder / "grades").mkdir()
    grades = [{"task": "t", "problem_id": "p", "sample_index": i, "outcome": o, "extracted": e, "detail": ""}
              for i, o, e in ((0, "CORRECT", "4"), (1, "NO_ANSWER", None))]  # fmt: skip
    lines = [{"grader": "math-1"}, *grades]
    (folder / "grades/math.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_parquet_holds_every_sample_with_its_grade(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export_runs([run], tmp_path / "s.parquet").num_samples == 3
    rows = parquet.read_table(tmp_path / "s.parquet").to_pylist()
    assert [row["completion"] for row in rows] == ["so \\boxed{4}", "cut \ufffd", 'a "quoted"\nline, with a comma']
    assert [row["outcome"] for row in rows] == ["CORRECT", "NO_ANSWER", None]
    assert [row["extracted"] for row in rows] == ["4", None, None]
    assert [row["seed"] for row in rows] == [2**62, 2**62 + 1, 2**62 + 2]
    assert [row["sum_log_prob"] for row in rows] == [-1.5, None, None]


def test_csv_holds_the_same_and_needs_no_extra(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as where it is not installed
    assert export_runs([run], tmp_path / "s.csv").num_samples == 3
    with (tmp_path / "s.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["completion"] for row in rows] == ["so \\boxed{4}", "cut \ufffd", 'a "quoted"\nline, with a comma']
    assert [row["outcome"] for row in rows] == ["CORRECT", "NO_ANSWER", ""]
    head, first = (tmp_path / "s.csv").read_text(encoding="utf-8").split("\n")[:2]
    assert (head[:24], first[:9]) == ('"run","method","model","', '"run","ru')
    assert first.endswith(f',0,{2**62},"so \\boxed{{4}}",5,"stop",-1.5,,"math-1","CORRECT","4",true,')


def test_several_runs_stand_in_one_table_with_what_tells_them_apart(make_run, tmp_path):
    rows = {"tiny_amc23": [[1.0, 0.0], [0.5, -1.0]]}
    problems = load_problems(load_task("tiny_amc23"))
    about = {"tasks": {"tiny_amc23": {"title": "T", "num_samples": 2, "problem_ids": [p.problem_id for p in problems]}}}
    identity = {"tasks": {"tiny_amc23": {"data": data_digest(problems), "prompts": "p", "prompt_format": "plain"}}}
    ids = {f"tiny_amc23-{i}": problems[i].problem_id for i in range(2)}

    def real(task, row, index):
        return {"problem_id": ids[f"{task}-{row}"]}

    runs = [
        make_run(name, rows, about={**about, "method": method, "regime": "justrl"}, identity=identity, sample=real)
        for name, method in (("a", "grpo"), ("b", "stapo"))
    ]
    for run in runs:
        grades = run / "grades/math.jsonl"
        text = grades.read_text()
        for made, own in ids.items():
            text = text.replace(f'"{made}"', json.dumps(own))
        grades.write_text(text)
    done = export_runs(runs, tmp_path / "new" / "s.csv")
    assert (done.num_samples, done.notes) == (8, ())
    with (tmp_path / "new" / "s.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    names = [(row["run"], row["method"], row["regime"], row["grader"]) for row in found]
    assert names == [("a", "grpo", "justrl", "math-1")] * 4 + [("b", "stapo", "justrl", "math-1")] * 4
    # right, wrong, no answer (which is not right), and a grader that failed (which says nothing)
    assert [row["correct"] for row in found[:4]] == ["true", "false", "false", ""]
    assert [row["gold"] for row in found[:4]] == [problems[0].gold.answer] * 2 + [problems[1].gold.answer] * 2


def test_runs_of_one_name_are_told_apart_by_their_paths(make_run, tmp_path):
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
    runs = [make_run(f"{place}/eval", {"t": [[1.0]]}) for place in ("one", "two")]
    export_runs(runs, tmp_path / "s.csv")
    with (tmp_path / "s.csv").open(newline="", encoding="utf-8") as file:
        assert [row["run"] for row in csv.DictReader(file)] == [str(run) for run in runs]


def test_golds_that_are_not_at_hand_are_empty_and_the_command_says_why(run, make_run, tmp_path):
    folder = make_run("hub", {"aime24": [[1.0]]})
    found = CliRunner().invoke(
        cli, ["export", str(folder), "-o", str(tmp_path / "s.csv")], env={"STAPO_BENCH_DATA": ""}
    )
    assert found.output == f"hub: golds are shown with --data-dir\n1 samples written to {tmp_path / 's.csv'}\n"
    with (tmp_path / "s.csv").open(newline="", encoding="utf-8") as file:
        assert next(csv.DictReader(file))["gold"] == ""


def test_other_names_and_folders_are_refused_before_anything_is_written(run, make_run, tmp_path):
    with pytest.raises(UsageError, match=r"expected a name ending in \.parquet, \.csv or \.jsonl, got '\.xlsx'"):
        export_runs([run], tmp_path / "s.xlsx")
    with pytest.raises(UsageError, match=r"expected every run once, got .* 2 times; its samples would count as often"):
        export_runs([run, run.parent / "." / run.name], tmp_path / "s.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(StapoError, match="cannot write"):
        export_runs([run], tmp_path / "file/s.csv")
    ungraded = make_run("ungraded", {"t": [[1.0]]}, grader="strict-1")
    for folder, words in ((tmp_path, "not a run folder"), (ungraded, "expected grades by 'math', found strict")):
        with pytest.raises(StapoError, match=words):
            export_runs([run, folder], tmp_path / "s.csv")
    assert not (tmp_path / "s.csv").exists()
