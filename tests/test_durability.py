"""What was written is on disk, with its name, before it is counted: a power cut loses nothing that was called safe."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from store_setup import make_sample, write

from stapo_bench.records import Grade, Outcome, SampleKey
from stapo_bench.runs.grades import append_grades
from stapo_bench.runs.sample_writer import repair
from stapo_train.integrations.metrics_file import MetricsFile
from stapo_train.train_records import StepRecord
from stapo_train.training_log import append

GRADE = Grade(outcome=Outcome.CORRECT, extracted="1", grader="math-1")


@pytest.fixture
def synced(monkeypatch) -> list[tuple[Path, int]]:
    """What an fsync was asked for so far: a file with the size that it had then, a folder with 0."""
    found, fsync = [], os.fsync

    def watched(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        found.append((path, path.stat().st_size if path.is_file() else 0))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    return found


def log_line(folder: Path, iteration: int) -> None:
    facts = dict.fromkeys(StepRecord.__dataclass_fields__, 0.0) | {"iteration": iteration}
    append(folder / "metrics.jsonl", StepRecord(**facts))


def foreign_line(folder: Path, iteration: int) -> None:
    log = MetricsFile(folder, seed=1, objective={"name": "stapo"}, iterations=3, trainer="verl")
    log.add(iteration, {"entropy": 0.5})


def grades(folder: Path, index: int) -> None:
    append_grades(folder, "math", "math-1", [(SampleKey("t", "p", index), GRADE)])


@pytest.mark.parametrize(
    ("add", "name"), [(grades, "grades/math.jsonl"), (log_line, "metrics.jsonl"), (foreign_line, "metrics.jsonl")]
)
def test_each_addition_is_on_disk_when_the_call_returns(tmp_path, synced, add: Callable[[Path, int], None], name):
    path = tmp_path / "run" / name
    (tmp_path / "run").mkdir()
    for number in (1, 2, 3):
        before = path.stat().st_size if path.exists() else 0
        synced.clear()
        add(tmp_path / "run", number)
        assert path.stat().st_size > before
        assert (path, path.stat().st_size) in synced  # all of it, the new line included


def test_a_file_of_grades_has_its_name_on_disk_after_its_lines(tmp_path, synced):
    grades(tmp_path, 0)
    path = tmp_path / "grades" / "math.jsonl"
    assert [where for where, _ in synced][-2:] == [path, path.parent]


def test_a_torn_line_is_cut_off_on_disk_too(tmp_path, synced):
    path = write(tmp_path, [make_sample(0), make_sample(1)])
    whole = path.read_bytes()
    os.truncate(path, len(whole) - 1)
    synced.clear()
    assert repair(tmp_path, "shard0of1") == 1
    assert synced == [(path, whole.index(b"\n") + 1)]
