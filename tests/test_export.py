"""An exported table holds every sample with its grade."""

import csv
import json
from pathlib import Path

import pytest

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Sample, SamplingParams
from stapo_bench.runs.export import export_run
from stapo_bench.runs.folder import open_run
from stapo_bench.runs.manifest import About, Identity
from stapo_bench.runs.sample_writer import SegmentWriter


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
    assert export_run(run, tmp_path / "s.parquet") == 3
    rows = parquet.read_table(tmp_path / "s.parquet").to_pylist()
    assert [row["completion"] for row in rows] == ["so \\boxed{4}", "cut \ufffd", 'a "quoted"\nline, with a comma']
    assert [row["outcome"] for row in rows] == ["CORRECT", "NO_ANSWER", None]
    assert [row["extracted"] for row in rows] == ["4", None, None]
    assert [row["seed"] for row in rows] == [2**62, 2**62 + 1, 2**62 + 2]
    assert [row["sum_log_prob"] for row in rows] == [-1.5, None, None]


def test_csv_holds_the_same(run, tmp_path):
    assert export_run(run, tmp_path / "s.csv") == 3
    with (tmp_path / "s.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["completion"] for row in rows] == ["so \\boxed{4}", "cut \ufffd", 'a "quoted"\nline, with a comma']
    assert [row["outcome"] for row in rows] == ["CORRECT", "NO_ANSWER", ""]


def test_other_names_and_folders_are_refused(run, tmp_path):
    with pytest.raises(UsageError, match=r"expected a name ending in \.parquet or \.csv, got '\.xlsx'"):
        export_run(run, tmp_path / "s.xlsx")
    with pytest.raises(StapoError, match="cannot write"):
        export_run(run, tmp_path / "none/s.csv")
    with pytest.raises(StapoError, match="not a run folder"):
        export_run(tmp_path, tmp_path / "s.csv")
