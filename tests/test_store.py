"""The store holds every sample exactly once, through torn lines and damage."""

import json
import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_setup import make_sample, write

from stapo_bench.errors import StapoError
from stapo_bench.records import Sample, SampleKey, ToolOutput
from stapo_bench.runs import locks, sample_writer, store

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


@pytest.mark.parametrize(
    ("places", "num_drawn", "is_taken"),
    [
        ([0, 5], 5, True),  # before the first token and behind the last
        ([3, 3], 5, True),  # two tools one after the other
        ([6], 5, False),
        ([3, 2], 5, False),
        ([-1], 5, False),
        ([1], 0, False),
        ([2**31 - 1], None, True),  # of a reply of unknown length
        ([2**31], None, False),
    ],
)
def test_what_tools_wrote_stands_within_the_reply(places, num_drawn, is_taken):
    stored = [[place, [7, 8]] for place in places]
    if is_taken:
        assert store.read_outputs(stored, num_drawn) == tuple(ToolOutput(place, (7, 8)) for place in places)
    else:
        with pytest.raises(ValueError, match="expected a number of tokens from"):
            store.read_outputs(stored, num_drawn)


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
    assert sample_writer.repair(tmp_path, "shard0of1") == 1
    assert path.read_bytes() == store.sample_to_line(make_sample(0))
    assert sample_writer.repair(tmp_path, "shard0of1") == 0


def test_a_torn_line_of_many_blocks_is_cut_off(tmp_path):
    path = write(tmp_path, [make_sample(0), make_sample(1, completion="x" * 300_000)])
    os.truncate(path, path.stat().st_size - 1)
    assert sample_writer.repair(tmp_path, "shard0of1") == 1
    assert path.read_bytes() == store.sample_to_line(make_sample(0))


def test_zeros_that_a_power_cut_leaves_at_the_end_are_cut_off(tmp_path):
    path = write(tmp_path, [make_sample(0)])
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(4096))
    assert sample_writer.repair(tmp_path, "shard0of1") == 1
    assert path.read_bytes() == whole


def test_a_live_writers_half_line_is_left_alone(tmp_path):
    with sample_writer.SegmentWriter(tmp_path, "shard0of2") as writer:
        writer.append(make_sample(0))
        (path,) = store.segments(tmp_path)
        with path.open("ab") as file:
            file.write(b'{"task":')
        with locks.locked(sample_writer.lock_file(tmp_path, "shard0of2")):  # as its process holds it
            assert sample_writer.repair(tmp_path, "shard1of2") == 0
        assert path.read_bytes().endswith(b'{"task":')
    assert sample_writer.repair(tmp_path, "shard1of2") == 1


@pytest.mark.parametrize("damage", [b"\x00" * 20, b'{"task":"aime24"', b"[]", b"", b"\xff\xfe", b"NaN"])
def test_damage_in_the_middle_is_named_by_file_and_line(tmp_path, damage):
    path = write(tmp_path, [make_sample(i) for i in range(3)])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + damage + b"\n" + lines[2])
    with pytest.raises(StapoError, match=rf"{path.name}:2: expected a sample, got a damaged line"):
        list(store.read_samples(tmp_path))
    assert sample_writer.repair(tmp_path, "shard0of1") == 0  # never touched


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
