"""A run's folder and the files of a command: made, left as they were, synced, and refused with a way out."""

import errno
import os
from pathlib import Path

import pytest

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import Stopping, files, folder, locks, manifest


def test_a_folder_that_cannot_be_written_is_refused_as_it_is_made(tmp_path, monkeypatch):
    folder.make_folder(tmp_path / "new" / "run")
    assert (tmp_path / "new" / "run").is_dir()

    def read_only(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(folder, "open_own", read_only)
    with pytest.raises(StapoError, match=r"cannot write to .*run: Read-only file system; choose another --out"):
        folder.make_folder(tmp_path / "new" / "run")


def test_a_run_stays_under_the_first_rule_that_stops_it(make_run):
    run = make_run("run", {"t": [[1, 0]]})
    assert manifest.load_manifest(run).about.stopping is None
    first, second = Stopping(rule="--until-width 0.02", aim=0.01), Stopping(rule="--until-width 0.04", aim=0.02)
    for rule in (first, second):
        folder.state_stopping(run, rule)
        assert manifest.load_manifest(run).about.stopping == first


@pytest.mark.parametrize(
    ("inside", "is_left"),
    [
        ((), False),
        ((".lock", ".shard0of1.lock", "manifest.json"), False),
        (("manifest.json", "samples.jsonl"), True),
        ((".hidden",), True),
        (("run.lock",), True),  # no lock of a run
    ],
)
def test_a_command_that_fails_before_any_work_leaves_no_folder(tmp_path, inside, is_left):
    made = tmp_path / "new" / "run"
    with pytest.raises(RuntimeError, match="refused"), folder.nothing_left_behind(made, "manifest.json"):
        made.mkdir(parents=True)
        for name in inside:
            (made / name).touch()
        raise RuntimeError("refused")
    assert sorted(path.name for path in made.glob("*")) == (sorted(inside) if is_left else [])
    assert (tmp_path / "new").exists() == is_left


def test_a_folder_that_was_there_or_that_somebody_holds_stays(tmp_path):
    there, held = tmp_path / "there", tmp_path / "held"
    there.mkdir()
    for run in (there, held):
        with pytest.raises(RuntimeError), folder.nothing_left_behind(run):
            run.mkdir(exist_ok=True)
            holding = locks.try_lock(run / ".lock")
            raise RuntimeError
        assert (run / ".lock").exists()
        holding.release()
        with pytest.raises(RuntimeError), folder.nothing_left_behind(run):
            raise RuntimeError  # by now both were there
        assert (run / ".lock").exists()


@pytest.mark.parametrize(
    ("number", "is_raised"), [(errno.EINVAL, False), (errno.EACCES, False), (errno.EIO, True), (errno.ENOSPC, True)]
)
def test_a_folder_that_cannot_be_synced_is_an_error_unless_the_system_syncs_none(monkeypatch, number, is_raised):
    def fail(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files, "sync", fail)
    if is_raised:
        with pytest.raises(OSError, match=os.strerror(number)):
            files.sync_folder(Path())
    else:
        files.sync_folder(Path())


@pytest.mark.parametrize(
    ("content", "is_refused"), [(b"", False), (b"id,score\n1,2", False), (b"id,s", True), (b"no,score\n", True)]
)
def test_a_file_that_begins_otherwise_is_not_replaced(tmp_path, content, is_refused):
    out = tmp_path / "out.csv"
    files.refuse_foreign(out, b"id,score")  # a free name
    out.write_bytes(content)
    if is_refused:
        with pytest.raises(UsageError, match="expected a free name, or a file that this command wrote"):
            files.refuse_foreign(out, b"id,score")
    else:
        files.refuse_foreign(out, b"id,score")


@pytest.mark.parametrize(
    ("number", "way_out"),
    [(errno.ENOSPC, "make room there"), (errno.EDQUOT, "make room there"), (errno.EACCES, "put that right")],
)
def test_a_file_that_cannot_be_written_says_why_and_what_is_safe(number, way_out):
    error = OSError(number, os.strerror(number))
    said = f"cannot write f: {os.strerror(number)}; 3 are safe: {way_out} and run the same command again"
    assert str(files.cannot_write(Path("f"), error, "3 are safe")) == said
    assert str(files.cannot_write(Path("f"), error)) == said.replace("3 are safe: ", "")
