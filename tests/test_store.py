"""The store keeps every sample exactly once through kills, torn lines, damage and full disks."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stapo_bench.errors import StapoError
from stapo_bench.records import Sample, SampleKey
from stapo_bench.runs import Pace, sample_writer, sealed, store
from stapo_bench.seeds import derive_seed


def make_sample(index: int, completion: str = "so \\boxed{4}", seed: int | None = None) -> Sample:
    key = SampleKey("aime24", f"I-{index % 7}", index)
    return Sample(
        **key._asdict(),
        seed=derive_seed(0, *key) if seed is None else seed,
        completion=completion,
        num_tokens=5,
        finish_reason="stop",
    )


def write(run_dir: Path, samples: list[Sample], label: str = "shard0of1") -> Path:
    with sample_writer.SegmentWriter(run_dir, label) as writer:
        for sample in samples:
            writer.append(sample)
    return store.segments(run_dir)[-1]


# -- lines ------------------------------------------------------------------------------------------------------------


@given(
    completion=st.text(st.characters(codec=None)),  # lone surrogates included
    ids=st.none() | st.lists(st.integers(0, 200_000)).map(tuple),
    log_prob=st.none() | st.floats(-1e6, 0),
)
def test_a_sample_survives_its_line(completion, ids, log_prob):
    sample = Sample(
        task="t",
        problem_id="p",
        sample_index=3,
        seed=9,
        completion=completion,
        num_tokens=2,
        finish_reason="length",
        token_ids=ids,
        sum_log_prob=log_prob,
    )
    line = store.sample_to_line(sample)
    assert line.count(b"\n") == 1  # whatever the completion holds
    assert store.sample_from_line(line) == sample


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "7"}, "seed is '7', expected int"),
        ({"finish_reason": "eos"}, "finish_reason is 'eos'"),
        ({"sample_index": -1}, "sample_index is -1"),
        ({"sample_index": 10**9}, "sample_index is 1000000000"),
        ({"seed": 2**63}, "seed is 9223372036854775808, num_tokens 5, expected 64 and 32 bits"),
        ({"num_tokens": 2**31}, "num_tokens 2147483648, expected 64 and 32 bits"),
        ({"colour": "red"}, "unexpected keyword argument 'colour'"),
    ],
)
def test_a_line_that_is_no_sample_says_why(change, message):
    values = json.loads(store.sample_to_line(make_sample(1))) | change
    del values["crc32"]  # the line is one that somebody wrote by hand
    with pytest.raises(ValueError, match=message):
        store.sample_from_line(json.dumps(values).encode())


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 100))))
def test_key_set_is_a_set(keys):
    found, expected = store.KeySet(), set()
    for key in (SampleKey(*k) for k in keys):
        assert found.add(key) == (key not in expected)
        expected.add(key)
    assert len(found) == len(expected)
    assert all(
        (SampleKey(t, p, j) in found) == ((t, p, j) in expected) for t in "ab" for p in "xyz" for j in range(101)
    )


@pytest.mark.parametrize("place", range(0, 200, 7))
def test_a_bit_that_turned_round_is_found_wherever_it_stands(place):
    line = bytearray(store.sample_to_line(make_sample(1)))
    line[place % (len(line) - 1)] ^= 1
    with pytest.raises(ValueError):
        store.sample_from_line(bytes(line))


def test_a_sample_under_other_settings_is_refused(tmp_path):
    write(tmp_path, [make_sample(0), replace(make_sample(1), stamp="0ther")])
    with pytest.raises(StapoError, match=r":2: .*stamp 5e1f.*got stamp 0ther: it belongs to another run"):
        list(store.read_samples(tmp_path, {"aime24": "5e1f"}))


# -- segments ---------------------------------------------------------------------------------------------------------


def test_samples_come_back_in_order_and_each_writer_has_its_own_segment(tmp_path):
    samples = [make_sample(i) for i in range(10)]
    write(tmp_path, samples[:4])
    write(tmp_path, samples[4:])
    assert len(store.segments(tmp_path)) == 2
    assert list(store.read_samples(tmp_path)) == samples


def test_a_writer_without_samples_leaves_no_segment(tmp_path):
    write_nothing = sample_writer.SegmentWriter(tmp_path, "shard0of1")
    assert write_nothing.close() == []
    assert store.segments(tmp_path) == []


def test_a_sample_counts_only_after_its_fsync(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd))[1])
    monkeypatch.setattr(sample_writer, "SYNC_SECONDS", 1e9)
    with sample_writer.SegmentWriter(tmp_path, "shard0of1") as writer:
        assert writer.append(make_sample(0)) == []
        assert writer.append(make_sample(1)) == []
        assert writer.num_safe == 0
        num_syncs = len(synced)
        assert writer.sync() == [make_sample(0), make_sample(1)]
        assert len(synced) == num_syncs + 1
        assert synced[-1] == 2 * len(store.sample_to_line(make_sample(0)))  # both lines were in the file when it synced
        assert writer.num_safe == 2


def test_samples_wait_for_a_slow_disk_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_writer, "SYNC_SECONDS", 1e9)
    monkeypatch.setattr(sample_writer, "LONGEST_SYNC_SECONDS", 1e9)
    samples = [make_sample(i) for i in range(20)]
    longest = max(len(store.sample_to_line(sample)) for sample in samples)
    monkeypatch.setattr(sample_writer, "MOST_PENDING_BYTES", 5 * longest)
    with sample_writer.SegmentWriter(tmp_path, "shard0of1") as writer:
        counted = [len(writer.append(sample)) for sample in samples]
    assert max(counted) == 6  # five lines fit, the sixth is one too many
    assert sum(counted) == 18


def test_a_line_reaches_the_system_at_once_so_that_a_kill_loses_none(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_writer, "SYNC_SECONDS", 1e9)
    with sample_writer.SegmentWriter(tmp_path, "shard0of1") as writer:
        writer.append(make_sample(0))
        assert list(store.read_samples(tmp_path)) == [make_sample(0)]  # a reader in another process sees the same


@pytest.mark.parametrize("cut", [1, 10, 50])
def test_a_torn_last_line_is_cut_off(tmp_path, cut):
    path = write(tmp_path, [make_sample(0), make_sample(1)])
    os.truncate(path, path.stat().st_size - cut)
    assert list(store.read_samples(tmp_path)) == [make_sample(0)]  # a reader passes over it
    assert sample_writer.repair(tmp_path) == 1
    assert path.read_bytes() == store.sample_to_line(make_sample(0))
    assert sample_writer.repair(tmp_path) == 0


def test_a_torn_line_of_many_blocks_is_cut_off(tmp_path):
    path = write(tmp_path, [make_sample(0), make_sample(1, completion="x" * 300_000)])
    os.truncate(path, path.stat().st_size - 1)
    assert sample_writer.repair(tmp_path) == 1
    assert path.read_bytes() == store.sample_to_line(make_sample(0))


def test_zeros_that_a_power_cut_leaves_at_the_end_are_cut_off(tmp_path):
    path = write(tmp_path, [make_sample(0)])
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(4096))
    assert sample_writer.repair(tmp_path) == 1
    assert path.read_bytes() == whole


def test_a_live_writers_half_line_is_left_alone(tmp_path):
    with sample_writer.SegmentWriter(tmp_path, "shard0of1") as writer:
        writer.append(make_sample(0))
        (path,) = store.segments(tmp_path)
        with path.open("ab") as file:
            file.write(b'{"task":')
        assert sample_writer.live_segments(tmp_path) == [path]
        assert sample_writer.repair(tmp_path) == 0
        assert path.read_bytes().endswith(b'{"task":')
    assert sample_writer.live_segments(tmp_path) == []
    assert sample_writer.repair(tmp_path) == 1


@pytest.mark.parametrize("damage", [b"\x00" * 20, b'{"task":"aime24"', b"[]", b"", b"\xff\xfe", b"NaN"])
def test_damage_in_the_middle_is_named_by_file_and_line(tmp_path, damage):
    path = write(tmp_path, [make_sample(i) for i in range(3)])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + damage + b"\n" + lines[2])
    with pytest.raises(StapoError, match=rf"{path.name}:2: expected a sample, got a damaged line"):
        list(store.read_samples(tmp_path))
    assert sample_writer.repair(tmp_path) == 0  # never touched


def test_a_repeated_key_keeps_its_first_line_and_is_counted(tmp_path):
    write(tmp_path, [make_sample(0, "first"), make_sample(1)])
    write(tmp_path, [make_sample(0, "second"), make_sample(2)])
    assert next(store.read_samples(tmp_path)).completion == "first"
    keys, num_repeated = store.scan_keys(tmp_path, run_seed=0)
    assert (len(keys), num_repeated) == (3, 1)


def test_a_sample_of_another_run_is_refused(tmp_path):
    write(tmp_path, [make_sample(0), make_sample(1, seed=123)])
    with pytest.raises(StapoError, match=r":2: expected seed \d+ for aime24/I-1/1 under run seed 0, got 123"):
        store.scan_keys(tmp_path, run_seed=0)


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
    os.dup2(full, writer._fd)
    os.close(full)
    with pytest.raises(StapoError, match="No space left on device"):
        writer.append(make_sample(1))


def test_a_file_that_grows_while_it_is_read_ends_at_the_line_being_written(monkeypatch):
    class Growing(list):
        """What a reader gets that meets the end of the file in the middle of a line, and then more of it."""

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return None

    monkeypatch.setattr(Path, "open", lambda *_arguments: Growing([b'{"a":1}\n', b'{"a"', b":2}\n"]))
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
import test_store as t
from stapo_bench.runs import Pace, sample_writer, sealed, store

def slow_write(fd, data, write=os.write):  # a few bytes at a time: most kills land inside a line
    time.sleep(0.0002)
    return write(fd, data[:40])

os.write = slow_write
run_dir, index, num_shards = Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])
sample_writer.repair(run_dir)
done, _ = store.scan_keys(run_dir, 0)
with sample_writer.SegmentWriter(run_dir, f"shard{index}of{num_shards}") as writer:
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


@pytest.mark.parametrize(("num_shards", "num_kills"), [(1, 6), (8, 2)])
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
    sealed.write_atomically(path, "old")
    sealed.write_atomically(path, "new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["scores.json"]


def test_a_file_that_cannot_be_written_whole_is_one_line_and_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "scores.json"
    sealed.write_atomically(path, "old")

    def full(_fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StapoError, match=r"cannot write .*scores\.json: No space left on device; put that right"):
        sealed.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["scores.json"]


def test_a_writer_whose_first_line_was_torn_leaves_nothing(tmp_path):
    path = write(tmp_path, [make_sample(0)])
    os.truncate(path, path.stat().st_size - 1)
    assert sample_writer.repair(tmp_path) == 1
    assert path.read_bytes() == b""


def test_a_new_segment_is_in_its_folder_before_its_first_sample_is_safe(tmp_path, monkeypatch):
    """An fsync of a file does not save its name: a power cut would lose the segment with all that it holds."""
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(Path(f"/proc/self/fd/{fd}").readlink()), fsync(fd))[1])
    path = write(tmp_path / "new" / "run", [make_sample(0), make_sample(1)])
    assert synced == [path.parent, path]


def test_a_file_that_is_replaced_is_on_disk_before_its_name_and_then_its_name(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    path = tmp_path / "scores.json"
    path.write_text("old")

    def watched(fd):
        synced.append((Path(f"/proc/self/fd/{fd}").readlink() == tmp_path, path.read_text()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    sealed.write_atomically(path, "new")
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
