"""What a run folder from elsewhere must not reach, and samples that were moved or cut while they were drawn."""

import ast
import io
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from eval_setup import FakeEngine, completions, contents, make_options, run
from parsed import nodes_of
from store_setup import make_sample, write

from stapo_bench.analysis import current_score, score_run
from stapo_bench.errors import StapoError
from stapo_bench.presenting import finish_run
from stapo_bench.runs import grade_run, sample_writer, store
from stapo_bench.runs.files import open_own
from stapo_bench.runs.grades import append_grades, read_grades
from stapo_bench.runs.sample_writer import repair
from stapo_bench.sampling.evaluation import evaluate

ROOT = Path(__file__).parents[1]

# -- a folder from elsewhere ------------------------------------------------------------------------------------------


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
        path.write_bytes(path.read_bytes().replace(b"math-15", b"math-2") + b'{"task":"one","prob')
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
        append_grades(drawn, "math", "math-15", [])
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
    path.write_bytes(old := path.read_bytes().replace(b"math-15", b"math-2"))
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
    "stapo_bench/presenting/leaderboard/page.py": "the page's parts",
    "stapo_bench/analysis/published.py": "published tables",
    "stapo_bench/runs/importing/opening.py": "files of other tools",
    "stapo_bench/runs/importing/unpacking.py": "archives of other tools, into a temporary folder",
    "stapo_bench/runs/outcomes/reading.py": "tables of outcomes",
    "stapo_bench/runs/importing/writing.py": "a folder of its own, which is renamed once it is whole",
    "stapo_bench/commands/entry.py": "the null device",
    "stapo_bench/commands/launch.py": "launch files of the package",
    "stapo_bench/sampling/engine_cache.py": "parts of a checkpoint",
    "stapo_bench/sampling/following.py": "removes a merged checkpoint, which it had made",
    "stapo_bench/sampling/merging.py": "a folder of its own, which is renamed once it is whole",
}
OPENING = {"open", "fdopen", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "mkdir"}
OPENING |= {"rename", "replace", "unlink", "savefig", "copy", "copyfile", "move", "rmtree", "symlink_to", "link"}


def opening_calls(path: Path) -> list[str]:
    """Calls that open, make, move or remove files; ``replace`` of dataclasses and texts has other arguments."""
    found = []
    for node in nodes_of(path):
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
