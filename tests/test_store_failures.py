"""Full disks, failing syncs and kills: every sample that was said to be safe is there exactly once."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from functools import partial
from pathlib import Path

import pytest
from store_setup import make_sample, write

from stapo_bench.errors import StapoError
from stapo_bench.runs import Pace, files, sample_writer, sealed, store

# -- full disk --------------------------------------------------------------------------------------------------------


def test_a_full_disk_stops_with_one_line_and_keeps_what_was_whole(tmp_path, monkeypatch):
    samples = [make_sample(i) for i in range(5)]
    lines = [len(store.sample_to_line(sample)) for sample in samples]
    room = sum(lines[:3]) + lines[3] // 2
    real = os.write

    def write_until_full(fd, data):
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(fd, data[:room])
        room -= written
        return written

    monkeypatch.setattr(os, "write", write_until_full)
    with (
        pytest.raises(StapoError, match="No space left on device; 3 samples of this writer are safe") as caught,
        sample_writer.SegmentWriter(tmp_path, "shard0of1") as writer,
    ):
        for sample in samples:
            writer.append(sample)
    assert "\n" not in str(caught.value)
    (path,) = store.segments(tmp_path)
    assert path.stat().st_size == sum(lines[:3])  # the half line is gone
    monkeypatch.undo()
    write(tmp_path, samples[3:])
    assert list(store.read_samples(tmp_path)) == samples


def test_a_real_full_disk_is_one_line(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    writer = sample_writer.SegmentWriter(tmp_path, "shard0of1")
    writer.append(make_sample(0))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._file.fileno())
    os.close(full)
    with pytest.raises(StapoError, match="No space left on device"):
        writer.append(make_sample(1))


def test_a_file_that_grows_while_it_is_read_ends_at_the_line_being_written(monkeypatch):
    class Growing(list):
        """What a reader gets that meets the end of the file in the middle of a line, and then more of it."""

        def readline(self, _most):
            return self.pop(0) if self else b""

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return None

    monkeypatch.setattr(sealed, "open_to_read", lambda _path: Growing([b'{"a":1}\n', b'{"a"', b":2}\n"]))
    assert list(sealed.complete_lines(Path("samples/1.jsonl"))) == [(1, b'{"a":1}\n')]


def test_what_a_failed_fsync_leaves_is_not_counted_by_the_next(tmp_path, monkeypatch):
    """Linux reports a failed write-back once; the second fsync succeeds whatever became of the lines."""
    writer = sample_writer.SegmentWriter(tmp_path, "shard0of1")
    writer.append(make_sample(0))
    writer.sync()
    writer.append(make_sample(1))

    def failing(_fd):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(StapoError, match="1 samples of this writer are safe"):
            writer.sync()
    assert writer.close() == []
    assert writer.num_safe == 1


# -- kill -9 ----------------------------------------------------------------------------------------------------------

NUM_SAMPLES = 400
_WRITER = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_store_failures as t
from stapo_bench.runs import sample_writer, store
from stapo_bench.sampling import sole_writer

def slow_write(fd, data, write=os.write):  # a few bytes at a time: most kills land inside a line
    time.sleep(0.0002)
    return write(fd, data[:40])

os.write = slow_write
run_dir, index, num_shards = Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])
label = f"shard{index}of{num_shards}"
run_dir.mkdir(exist_ok=True)
with sole_writer(run_dir, label), sample_writer.SegmentWriter(run_dir, label) as writer:
    done, _ = store.scan_keys(run_dir, 0)
    print("writing", flush=True)
    for i in range(index, t.NUM_SAMPLES, num_shards):
        sample = t.make_sample(i, completion=str(i) * 50)
        if sample.key not in done:
            writer.append(sample)
"""


def start_writer(run_dir: Path, index: int, num_shards: int) -> "subprocess.Popen[bytes]":
    tests = str(Path(__file__).parent)
    command = [sys.executable, "-c", _WRITER, str(run_dir), tests, str(index), str(num_shards)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def kill(writer: "subprocess.Popen[bytes]") -> None:
    writer.send_signal(signal.SIGKILL)
    writer.communicate()


SIX_KILLS = pytest.param(1, 6, marks=pytest.mark.slow(reason="six kills at least, each of a process of its own"))
EIGHT = pytest.param(8, 2, marks=pytest.mark.slow(reason="eight processes, started again for each kill"))


@pytest.mark.parametrize(("num_shards", "num_kills"), [(1, 2), SIX_KILLS, EIGHT])
def test_killed_at_any_moment_every_sample_is_there_exactly_once(tmp_path, num_shards, num_kills):
    random_ = random.Random(num_shards)
    num_torn = 0
    for kills in range(40):
        if kills >= num_kills and num_torn > 0:  # where a kill falls is up to the machine
            break
        writers = [start_writer(tmp_path, i, num_shards) for i in range(num_shards)]
        for writer in writers:
            assert writer.stdout.readline() == b"writing\n"
        time.sleep(random_.random() * 0.1)
        for writer in writers:
            kill(writer)
        num_torn += sum(not path.read_bytes().endswith(b"\n") for path in store.segments(tmp_path))
    for index in reversed(range(num_shards)):  # in any order
        writer = start_writer(tmp_path, index, num_shards)
        writer.communicate()
        assert writer.returncode == 0
    assert num_torn > 0  # else this test has tested nothing
    keys, num_repeated = store.scan_keys(tmp_path, run_seed=0)
    assert (len(keys), num_repeated) == (NUM_SAMPLES, 0)
    completions = {s.sample_index: s.completion for s in store.read_samples(tmp_path)}
    assert completions == {i: str(i) * 50 for i in range(NUM_SAMPLES)}


def test_write_atomically_replaces_whole_files_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "scores.json"
    files.write_atomically(path, "old")
    files.write_atomically(path, "new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["scores.json"]


@pytest.mark.parametrize(
    ("number", "way_out"),
    [
        (errno.ENOSPC, "No space left on device; make room there"),
        (errno.EDQUOT, "Disk quota exceeded; make room there"),
        (errno.EFBIG, "File too large; make room there"),
        (errno.EIO, "Input/output error; put that right"),
    ],
)
def test_a_file_that_cannot_be_written_whole_is_one_line_and_leaves_the_old_one(tmp_path, monkeypatch, number, way_out):
    path = tmp_path / "scores.json"
    files.write_atomically(path, "old")

    def failing(_fd):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(StapoError) as caught:
        files.write_atomically(path, "new")
    assert str(caught.value) == f"cannot write {path}: {way_out} and run the same command again"
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["scores.json"]


def test_a_writer_whose_first_line_was_torn_leaves_nothing(tmp_path):
    path = write(tmp_path, [make_sample(0)])
    os.truncate(path, path.stat().st_size - 1)
    assert sample_writer.repair(tmp_path, "shard0of1") == 1
    assert path.read_bytes() == b""


def test_a_writer_touches_no_file_that_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_writer.uuid, "uuid4", lambda: uuid.UUID(int=0))
    there = tmp_path / "samples" / "0002-shard0of1-00000000.jsonl"
    there.parent.mkdir()
    there.touch()
    with pytest.raises(StapoError, match=r"cannot write .*: File exists; 0 samples of this writer are safe there"):
        write(tmp_path, [make_sample(0)])
    assert there.read_bytes() == b""


def test_a_new_segment_is_in_its_folder_before_its_first_sample_is_safe(tmp_path, monkeypatch):
    """An fsync of a file does not save its name: a power cut would lose the segment with all that it holds."""
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(Path(f"/proc/self/fd/{fd}").readlink()), fsync(fd))[1])
    path = write(tmp_path / "new" / "run", [make_sample(0), make_sample(1)])
    assert synced == [tmp_path / "new" / "run", path.parent, path]  # its folder's name, its own, its lines


def test_a_file_that_is_replaced_is_on_disk_before_its_name_and_then_its_name(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    path = tmp_path / "scores.json"
    path.write_text("old")

    def watched(fd):
        synced.append((Path(f"/proc/self/fd/{fd}").readlink() == tmp_path, path.read_text()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    files.write_atomically(path, "new")
    assert synced == [(False, "old"), (True, "new")]


def test_after_a_sync_the_next_lines_wait_again(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(sample_writer, "SYNC_SECONDS", 10.0)
    monkeypatch.setattr(sample_writer, "Pace", partial(Pace, clock=lambda: now[0]))
    counted = []
    with sample_writer.SegmentWriter(tmp_path, "shard0of1") as writer:
        for index, second in enumerate((101, 109, 110, 111, 119, 120, 121)):
            now[0] = float(second)
            counted.append(len(writer.append(make_sample(index))))
    # due at 110, ten seconds after the start, and at 120; the last waits for the end
    assert counted == [0, 0, 3, 0, 0, 3, 0]


@pytest.mark.parametrize(("took_s", "due_s"), [(0.0, 0.5), (0.0005, 0.5), (0.01, 5.0), (1.0, 30.0)])
def test_a_slow_disk_is_synced_less_often(tmp_path, monkeypatch, took_s, due_s):
    """Every half a second, but at most a 500th of the time, and within half a minute at the latest."""
    now, fsync = [100.0], os.fsync
    monkeypatch.setattr(sample_writer, "Pace", partial(Pace, clock=lambda: now[0]))
    with sample_writer.SegmentWriter(tmp_path, "shard0of1") as writer:
        writer.append(make_sample(0))
        now[0] = 101.0
        monkeypatch.setattr(os, "fsync", lambda fd: (now.__setitem__(0, now[0] + took_s), fsync(fd))[1])
        assert len(writer.append(make_sample(1))) == 2
        begin = now[0]
        now[0] = begin + due_s - 0.001
        assert writer.append(make_sample(2)) == []
        now[0] = begin + due_s + 0.001
        assert len(writer.append(make_sample(3))) == 2
