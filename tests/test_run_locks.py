"""Runs that cannot be written, and locks: where a file system has none, where a lease ends, where it is lost."""

import errno
import fcntl
import os
import subprocess
import sys
import time

import pytest
from cli_setup import EVAL
from click.testing import CliRunner
from eval_setup import contents
from interrupted import heeding_ctrl_c

from stapo_bench import analysis, presenting, runs
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.runs import locks
from stapo_bench.sampling import sole_writer


def test_a_folder_that_cannot_be_written_is_scored_and_reported(drawn, tmp_path, monkeypatch):
    score, table = ["score", str(drawn), "--data-dir", str(tmp_path)], ["table", str(drawn)]
    scored, shown = (CliRunner().invoke(cli, command).stdout for command in (score, table))
    (drawn / "scores.json").unlink()
    before = contents(drawn)
    for module in (analysis.score_file, presenting.finish, runs):
        monkeypatch.setattr(module, "can_write", lambda _folder: False)
    monkeypatch.setattr("stapo_bench.runs.files.os.open", lambda *_: pytest.fail("something is written"))
    again = CliRunner().invoke(cli, score)
    assert (again.exit_code, again.stdout) == (0, scored)
    note = f"{drawn}: cannot be written: its scores.json and table.md stay as they were"
    assert again.stderr.splitlines()[-1] == note
    assert CliRunner().invoke(cli, table).stdout == shown
    assert contents(drawn) == before


def test_a_finished_run_in_an_archive_is_found_finished_and_shown(stapo, small, monkeypatch):
    command = (*EVAL, "--data-dir", ".", "--out", "a")
    code, table, _ = stapo(*command)
    assert code == 0
    before = contents(small / "a")

    def refuse(*_arguments):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for module in (analysis.score_file, presenting.finish, runs, runs.folder):
        monkeypatch.setattr(module, "can_write", lambda _folder: False)
    monkeypatch.setattr("stapo_bench.runs.files.os.open", refuse)
    code, again, error = stapo(*command)
    assert (code, again) == (0, table)
    assert error == "run folder: a; nothing is missing\n"
    code, again, error = stapo(*command, "--samples", 9)
    assert (code, again) == (1, "")
    assert error == "stapo-bench: cannot write to a: Read-only file system; choose another --out\n"
    assert contents(small / "a") == before


@pytest.fixture(params=[errno.ENOLCK])
def _without_flock(request, monkeypatch):
    def no_flock(*_arguments):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", no_flock)


without_flock = pytest.mark.usefixtures("_without_flock")


@without_flock
@pytest.mark.parametrize("_without_flock", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP], indirect=True)
def test_without_flock_a_lease_names_its_owner(tmp_path):
    path = tmp_path / ".lock"
    with locks.locked(path):
        lease = (tmp_path / ".lock.lease").read_text()
        assert f"pid={os.getpid()}\n" in lease and "host=" in lease and "mode=lease" in lease
    assert not locks.is_locked(path)


@pytest.mark.slow(reason="waits for most of a lease")
@without_flock
def test_a_lease_that_is_renewed_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 4.0)
    path = tmp_path / ".lock"
    with locks.locked(path):
        began = time.monotonic()
        assert locks.is_locked(path)
        assert time.monotonic() - began < 3.9  # it was renewed, so that nobody waits for its end
    assert not locks.is_locked(path)
    again = sole_writer(tmp_path, "shard0of1")
    with sole_writer(tmp_path, "shard0of1"), pytest.raises(StapoError, match="another process is drawing"), again:
        pass


@without_flock
def test_a_lease_that_is_not_renewed_is_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.6)
    path = tmp_path / ".lock"
    with locks.locked(path):
        content = (tmp_path / ".lock.lease").read_text()
    elsewhere = "\n".join("host=elsewhere" if line.startswith("host=") else line for line in content.split("\n"))
    (tmp_path / ".lock.lease").write_text(elsewhere)  # a process of another machine, which has died
    began = time.monotonic()
    lock = locks.try_lock(path)
    assert lock is not None
    assert 0.5 < time.monotonic() - began < 60
    lock.release()


@without_flock
def test_whoever_lost_its_lease_is_stopped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.3)
    with heeding_ctrl_c(), pytest.raises(KeyboardInterrupt), locks.locked(tmp_path / ".lock"):
        (tmp_path / ".lock.lease").unlink()
        for _ in range(400):
            time.sleep(0.05)
    assert ".lock.lease: this lock was lost (marker-missing): another process may go on here" in capsys.readouterr().err


def test_reading_a_run_loads_no_posix_locks():
    """What compares, grades and reports runs where there is no ``fcntl``."""
    code = (
        "import sys; sys.modules['fcntl'] = None\n"
        "import stapo_bench.cli, stapo_bench.analysis, stapo_bench.presenting, stapo_bench.runs, stapo_bench.sampling\n"
        "import stapo_bench.presenting.report.page, stapo_bench.runs.export"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_lock_that_was_never_taken_is_not_made(tmp_path):
    assert not locks.is_locked(tmp_path / ".lock")
    assert list(tmp_path.iterdir()) == []
    with locks.locked(tmp_path / ".lock"):
        assert locks.is_locked(tmp_path / ".lock") and locks.try_lock(tmp_path / ".lock") is None
    assert not locks.is_locked(tmp_path / ".lock")


def test_a_file_system_with_locks_says_so_also_while_one_is_held(tmp_path):
    assert locks.has_locks(tmp_path)
    with locks.locked(tmp_path / "probe.lock"):
        assert locks.has_locks(tmp_path)


@without_flock
def test_a_file_system_without_locks_says_so(tmp_path):
    assert not locks.has_locks(tmp_path)


@without_flock
@pytest.mark.parametrize("_without_flock", [errno.EIO], indirect=True)
def test_what_is_no_lack_of_locks_is_raised(tmp_path):
    with pytest.raises(OSError, match="Input/output error"):
        locks.try_lock(tmp_path / ".lock")
