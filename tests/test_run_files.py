"""What a run folder from elsewhere must not reach, what was moved while it was written, archives and file systems
without locks."""

import ast
import errno
import fcntl
import io
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from eval_setup import FakeEngine, completions, make_options, run
from interrupted import heeding_ctrl_c
from store_setup import make_sample, write

from stapo_bench.analysis import current_score, score_run
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.presenting import finish_run
from stapo_bench.runs import grade_run, locks, sample_writer, store
from stapo_bench.runs.export import export_runs
from stapo_bench.runs.files import open_own, open_to_read, own_file, replacing, write_atomically
from stapo_bench.runs.grades import append_grades, read_grades
from stapo_bench.runs.sample_writer import repair
from stapo_bench.sampling import sole_writer
from stapo_bench.sampling.evaluation import evaluate

ROOT = Path(__file__).parents[1]

# -- a folder from elsewhere ------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """A run of twelve problems, one sample each, graded and scored."""
    options = replace(make_options(tmp_path), samples=1, tasks=(str(tmp_path / "one.yaml"),))
    run(options)
    finish_run(options.out, data_dir=tmp_path)
    return options.out


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def link_folder(name: str) -> Callable[[Path, Path], None]:
    def make(drawn: Path, ours: Path) -> None:
        shutil.move(drawn / name, ours / name)
        (drawn / name).symlink_to(ours / name)

    return make


def link_files(make_link: Callable[[Path, Path], None], pattern: str) -> Callable[[Path, Path], None]:
    def make(drawn: Path, ours: Path) -> None:
        for path in sorted(drawn.glob(pattern)):
            shutil.move(path, ours / path.name)
            make_link(path, ours / path.name)

    return make


def symlink(path: Path, target: Path) -> None:
    path.symlink_to(target)


def hard_link(path: Path, target: Path) -> None:
    os.link(target, path)


REACHING = {
    "samples is a link": link_folder("samples"),
    "grades is a link": link_folder("grades"),
    "segments are links": link_files(symlink, "samples/*.jsonl"),
    "segments are hard links": link_files(hard_link, "samples/*.jsonl"),
    "grade files are links": link_files(symlink, "grades/*.jsonl"),
    "grade files are hard links": link_files(hard_link, "grades/*.jsonl"),
    "the manifest is a link": link_files(symlink, "manifest.json"),
    "the manifest is a hard link": link_files(hard_link, "manifest.json"),
    "scores and table are links": link_files(symlink, "[st]*.*"),
    "scores and table are hard links": link_files(hard_link, "[st]*.*"),
    "locks are links": link_files(symlink, ".*lock"),
    "locks are hard links": link_files(hard_link, ".*lock"),
}


@pytest.mark.parametrize("name", REACHING)
def test_no_command_writes_through_a_link(drawn, tmp_path, name):
    ours = tmp_path / "ours"
    ours.mkdir()
    # What would be cut or emptied: torn lines, and grades of another version.
    for path in [*drawn.glob("samples/*"), *drawn.glob("grades/*")]:
        path.write_bytes(path.read_bytes().replace(b"math-3", b"math-2") + b'{"task":"one","prob')
    REACHING[name](drawn, ours)
    before = contents(ours)
    more = replace(make_options(tmp_path), samples=2)
    refused = []
    for command in (
        lambda: grade_run(drawn, data_dir=tmp_path, workers=1),
        lambda: finish_run(drawn, data_dir=tmp_path),
        lambda: run(more),
        lambda: run(replace(more, samples=3)),
    ):
        try:
            command()
        except StapoError as error:
            refused.append(str(error))
    assert contents(ours) == before
    assert all("expected a fil" in line or "expected a folder of the run's own, got a link" in line for line in refused)
    if name.startswith(("samples", "grades", "grade", "locks are links")):
        assert refused != []


def test_a_run_that_is_reached_by_a_link_of_its_owners_is_an_ordinary_run(drawn, tmp_path):
    shutil.move(drawn, tmp_path / "disk")
    drawn.symlink_to(tmp_path / "disk")
    assert run(replace(make_options(tmp_path), samples=2)).num_sampled == 36
    finish_run(drawn, data_dir=tmp_path)
    assert len(completions(tmp_path / "disk")) == len(read_grades(tmp_path / "disk", "math").outcomes) == 48


def test_what_links_lead_to_is_read(drawn, tmp_path):
    """A download cache keeps every file as a link: such a run is scored, and nothing in it changes."""
    expected = score_run(drawn)
    cached = tmp_path / "snapshot" / "run"
    for path in [path for path in drawn.rglob("*") if path.is_file()]:
        place = cached / path.relative_to(drawn)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path)
    before = contents(drawn)
    assert current_score(cached).tasks == expected.tasks
    assert finish_run(cached, data_dir=tmp_path).tasks == expected.tasks
    assert contents(drawn) == before


FOREIGN = b'my notes\nwithout an end: {"task":'


@pytest.mark.parametrize("name", ["notes.jsonl", "0002-shard0of1-x.jsonl", "0002-shard0of1-0badc0de.jsonl"])
def test_a_segment_that_is_not_ours_is_never_cut(tmp_path, name):
    write(tmp_path, [make_sample(0)])
    foreign = tmp_path / "samples" / name
    foreign.write_bytes(FOREIGN)
    assert repair(tmp_path, "shard0of1") == 0
    assert foreign.read_bytes() == FOREIGN


@pytest.mark.parametrize("begin", [FOREIGN, b"no line at all", b"\x00" * 64, b'["x"]\n', b"{}\n"])
def test_a_grade_file_that_is_not_ours_is_refused_and_left(drawn, tmp_path, begin):
    path = drawn / "grades" / "math.jsonl"
    path.write_bytes(begin)
    with pytest.raises(StapoError, match=r"math\.jsonl.*expected"):
        grade_run(drawn, data_dir=tmp_path, workers=1)
    with pytest.raises(StapoError, match=r"math\.jsonl: expected grades, got a file that begins otherwise; move it"):
        append_grades(drawn, "math", "math-3", [])
    assert path.read_bytes() == begin


@pytest.mark.parametrize("begin", [b"", b'{"grader":"ma', b'{"grader":"math-2"}\n', b'{"task":"one","pro'])
def test_a_torn_or_older_grade_file_of_ours_is_made_anew(drawn, tmp_path, begin):
    path = drawn / "grades" / "math.jsonl"
    whole = path.read_bytes()
    path.write_bytes(begin)
    assert grade_run(drawn, data_dir=tmp_path, workers=1).num_graded == 12
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())


def test_grades_of_another_version_stay_until_there_are_new_ones(drawn, tmp_path):
    path = drawn / "grades" / "math.jsonl"
    path.write_bytes(old := path.read_bytes().replace(b"math-3", b"math-2"))
    with pytest.raises(StapoError):  # no golds to grade against
        grade_run(drawn, data_dir=tmp_path / "empty", workers=1)
    assert path.read_bytes() == old


def test_a_link_made_between_the_look_and_the_opening_is_refused(tmp_path, monkeypatch):
    (tmp_path / "ours").write_text("ours")
    (tmp_path / "run").mkdir()
    monkeypatch.setattr("stapo_bench.runs.files.own_file", lambda run_dir, name: run_dir / name)  # it looked before
    (tmp_path / "run" / "link").symlink_to(tmp_path / "ours")
    with pytest.raises(OSError, match="symbolic link"):
        open_own(tmp_path / "run", "link")
    os.link(tmp_path / "ours", tmp_path / "run" / "name")
    with pytest.raises(StapoError, match="one of 2 names of a file"):
        open_own(tmp_path / "run", "name")


# Who opens files in the rooms that know runs, besides stapo_bench/runs/files.py, and what: nothing of a run.
OPENERS = {
    "stapo_bench/runs/checkpoint.py": "labels of a checkpoint",
    "stapo_bench/runs/folder.py": "removes what it began in a folder that it made itself",
    "stapo_bench/runs/measured.py": "the processor's name",
    "stapo_bench/presenting/figures/render.py": "a buffer in memory",
    "stapo_bench/presenting/figures/tokens.py": "a dump's config",
    "stapo_bench/presenting/figures/sources.py": "a training's config",
    "stapo_bench/presenting/report/page.py": "the page's template",
    "stapo_bench/presenting/report/tokens.py": "a dump's tokens",
    "stapo_bench/analysis/published.py": "published tables",
    "stapo_bench/runs/importing/opening.py": "files of other tools",
    "stapo_bench/runs/outcomes/reading.py": "tables of outcomes",
    "stapo_bench/runs/importing/writing.py": "a folder of its own, which is renamed once it is whole",
    "stapo_bench/commands/entry.py": "the null device",
    "stapo_bench/sampling/engine_cache.py": "parts of a checkpoint",
}
OPENING = {"open", "fdopen", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "mkdir"}
OPENING |= {"rename", "replace", "unlink", "savefig", "copy", "copyfile", "move", "rmtree", "symlink_to", "link"}


def opening_calls(path: Path) -> list[str]:
    """Calls that open, make, move or remove files; ``replace`` of dataclasses and texts has other arguments."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            is_file_replace = isinstance(function, ast.Attribute) and len(node.args) == 1 and not node.keywords
            if name in OPENING and (name != "replace" or is_file_replace):
                found.append(f"{name} in line {node.lineno}")
    return found


def test_one_module_opens_the_files_of_a_run():
    rooms = [ROOT / "stapo_bench" / room for room in ("runs", "sampling", "analysis", "presenting", "commands")]
    calls = {
        str(path.relative_to(ROOT)): found
        for room in rooms
        for path in sorted(room.rglob("*.py"))
        if (found := opening_calls(path))
    }
    assert len(calls.pop("stapo_bench/runs/files.py")) > 5
    assert {name: found for name, found in calls.items() if name not in OPENERS} == {}


# -- what was drawn is where it was said to be -----------------------------------------------------------------------


def delete(segment: Path) -> None:
    segment.unlink()


def move_run(segment: Path) -> None:
    segment.parents[1].rename(segment.parents[2] / "elsewhere")


def replace_segment(segment: Path) -> None:
    content = segment.read_bytes()
    segment.unlink()
    segment.write_bytes(content + content)


def cut(segment: Path) -> None:
    os.truncate(segment, segment.read_bytes().index(b"\n") + 1)


class Meddler(FakeEngine):
    """In the middle of a run, does something to the segment that is being written."""

    def __init__(self, run_dir: Path, meddle: Callable[[Path], None]) -> None:
        super().__init__()
        self.run_dir, self.meddle, self.num_done = run_dir, meddle, 0

    def complete(self, request):
        self.num_done += 1
        if self.num_done == 12:
            (segment,) = store.segments(self.run_dir)
            self.meddle(segment)
        return super().complete(request)


@pytest.mark.parametrize(("meddle", "left"), [(delete, 0), (move_run, 0), (replace_segment, 0), (cut, 1)])
@pytest.mark.parametrize("sync_seconds", [0.0, 1e9])  # found at the next sync, or at the end
def test_samples_that_are_gone_are_not_called_safe(tmp_path, monkeypatch, meddle, left, sync_seconds):
    monkeypatch.setattr(sample_writer, "SYNC_SECONDS", sync_seconds)
    monkeypatch.setattr(sample_writer, "LONGEST_SYNC_SECONDS", sync_seconds)
    options, watch = replace(make_options(tmp_path), samples=1), io.StringIO()
    expected = rf"samples/0001-\S+\.jsonl: expected \d+ new samples in it, {left} are there: it was deleted, moved or"
    if meddle is cut:
        expected = r"samples/0001-\S+\.jsonl: expected 24 new samples in it, \d+ are there"
    with pytest.raises(StapoError, match=expected) as caught:
        evaluate(options, engine=Meddler(options.out, meddle), watch=watch)
    num_drawn = int(str(caught.value).split("expected ")[1].split()[0])
    assert (num_drawn < 24) == (meddle is not cut and sync_seconds == 0.0)  # not drawn on for nothing
    if meddle is not cut:
        assert "0 new samples are safe" in watch.getvalue()
    else:
        assert f"{len(completions(options.out))} new samples are safe" in watch.getvalue()
    assert run(options).num_sampled > 0  # the same command draws what is not there
    assert len(completions(options.out)) == 24


# -- archives, full disks, file systems without locks -----------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_scored_and_reported(drawn, tmp_path, monkeypatch):
    from stapo_bench import analysis, presenting, runs

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


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_flock_a_lease_names_its_owner(tmp_path, monkeypatch, number):
    def no_flock(*_arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", no_flock)
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.6)
    path = tmp_path / ".lock"
    with locks.locked(path):
        lease = (tmp_path / ".lock.lease").read_text()
        assert f"pid={os.getpid()}\n" in lease and "host=" in lease and "mode=lease" in lease
        assert locks.is_locked(path)
        began = time.monotonic()
        assert locks.try_lock(path) is None
        assert time.monotonic() - began < 0.6  # it was renewed, so that nobody waits for its end
    assert not locks.is_locked(path)
    again = sole_writer(tmp_path, "shard0of1")
    with sole_writer(tmp_path, "shard0of1"), pytest.raises(StapoError, match="another process is drawing"), again:
        pass


def test_a_lease_that_is_not_renewed_is_taken_over(tmp_path, monkeypatch):
    def no_flock(*_arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_flock)
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.6)
    path = tmp_path / ".lock"
    with locks.locked(path):
        content = (tmp_path / ".lock.lease").read_text()
    elsewhere = "\n".join("host=elsewhere" if line.startswith("host=") else line for line in content.split("\n"))
    (tmp_path / ".lock.lease").write_text(elsewhere)  # a process of another machine, which has died
    began = time.monotonic()
    lock = locks.try_lock(path)
    assert lock is not None
    assert 0.5 < time.monotonic() - began < 3
    lock.release()


def test_whoever_lost_its_lease_is_stopped(tmp_path, monkeypatch, capsys):
    def no_flock(*_arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_flock)
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.3)
    with heeding_ctrl_c(), pytest.raises(KeyboardInterrupt), locks.locked(tmp_path / ".lock"):
        (tmp_path / ".lock.lease").unlink()
        for _ in range(100):
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


# -- files that are replaced ------------------------------------------------------------------------------------------


def test_what_fails_half_way_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text("old")
    for error in (KeyboardInterrupt, StapoError("damaged"), ValueError):
        with pytest.raises(BaseException), replacing(path) as beside:
            beside.write_text("half")
            raise error
        assert [found.name for found in tmp_path.iterdir()] == ["samples.csv"]
        assert path.read_text() == "old"
    full = r"cannot write .*samples\.csv: No space left on device; make room there and run"
    with pytest.raises(StapoError, match=full), replacing(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    write_atomically(path, "new")
    assert path.read_text() == "new"


def test_a_device_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(StapoError, match="expected a file, or a name that is free, got a folder, device or pipe"):
            write_atomically(path, "x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_pipes_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for opened in (lambda: open_to_read(tmp_path / "pipe"), lambda: own_file(tmp_path, "pipe")):
        with pytest.raises(StapoError, match="pipe: expected a file of the run's own, got a "):
            opened()


WRITING = {"write_text", "write_bytes", "save_file", "to_parquet", "to_csv", "copy", "copyfile", "move", "savez"}
NOT_RESULTS = {
    "stapo_bench/errors/streams.py": "the null device",
    "train/stapo_train/check/ranks.py": "what one process of a check tells another, in a temporary folder",
    "train/stapo_train/tiny/random_model.py": "a checkpoint for tests",
}


def writing_calls(path: Path) -> list[str]:
    """Calls that write a whole file, outside ``with replacing(…)`` and ``with whole_folder(…)``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    allowed: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            openers = [item.context_expr.func for item in node.items if isinstance(item.context_expr, ast.Call)]
            if {"replacing", "whole_folder"} & {getattr(function, "id", "") for function in openers}:
                allowed.update(ast.walk(node))
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or node in allowed:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        texts = [value.value for value in node.args if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        if name in ("copy", "copyfile", "move") and getattr(getattr(node.func, "value", None), "id", "") != "shutil":
            continue
        writes = name in WRITING or (name == "open" and any(text[:1] in ("w", "x") for text in texts if len(text) < 4))
        if writes:
            found.append(f"{name} in line {node.lineno}")
    return found


def test_results_are_written_beside_and_renamed():
    files = [path for folder in ("stapo_bench", "train/stapo_train") for path in sorted((ROOT / folder).rglob("*.py"))]
    calls = {str(path.relative_to(ROOT)): found for path in files if (found := writing_calls(path))}
    assert len(calls) >= 2  # so that the search finds what there is
    assert {name: found for name, found in calls.items() if name not in NOT_RESULTS} == {}


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_an_export_that_fails_leaves_the_one_before(drawn, tmp_path, name):
    out = tmp_path / name
    export_runs([drawn], out)
    before = out.read_bytes()
    (segment,) = store.segments(drawn)
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"boxed", b"bowed")]))
    with pytest.raises(StapoError, match="damaged line"):
        export_runs([drawn], out)
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.glob("*s.*") if path.is_file()) == [name]


def test_a_result_is_written_to_what_a_link_of_its_owner_leads_to(drawn, tmp_path):
    (tmp_path / "latest.csv").symlink_to(tmp_path / "today.csv")
    export_runs([drawn], tmp_path / "latest.csv")
    assert (tmp_path / "latest.csv").is_symlink()
    assert (tmp_path / "today.csv").read_bytes().count(b"boxed") == 12
