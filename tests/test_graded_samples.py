"""Samples in columns come back as they went in, and take little memory."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stapo_bench.records import Outcome, SampleKey
from stapo_bench.runs.graded_samples import GradedKeys, GradedSample, GradedSamples

DRAWS = st.builds(
    GradedSample,
    problem_id=st.sampled_from(["a", "b", "c"]),
    sample_index=st.integers(0, 5),
    outcome=st.sampled_from([None, *Outcome]),
    extracted=st.none() | st.sampled_from(["1", "", "2"]),
    truncated=st.booleans(),
    failed=st.booleans(),
    num_tokens=st.integers(0, 2**31 - 1),
    seconds=st.none() | st.floats(0, 10, width=32),
    seed=st.integers(0, 2**63 - 1),
    segment=st.sampled_from(["0001-a.jsonl", "0002-b.jsonl"]),
    text_digest=st.binary(min_size=8, max_size=8),
    sum_log_prob=st.none() | st.floats(-10, 0),
)


@given(st.lists(DRAWS, max_size=12))
def test_draws_come_back_whole_and_in_order(draws):
    columns = GradedSamples()
    for draw in draws:
        columns.append(draw)
    assert list(columns) == draws
    columns.sort()
    expected = sorted(draws, key=lambda draw: (draw.problem_id, draw.sample_index))
    assert list(columns) == expected
    assert columns[1:] == expected[1:]
    assert len(columns) == len(draws)


def test_a_grade_set_again_replaces_the_first_and_absent_ones_are_absent():
    grades = GradedKeys()
    grades.set(SampleKey("t", "p", 3), Outcome.INCORRECT, "7")
    grades.set(SampleKey("t", "p", 3), Outcome.CORRECT, "8")
    grades.set(SampleKey("t", "q", 0), Outcome.NO_ANSWER, None)
    assert dict(grades) == {("t", "p", 3): (Outcome.CORRECT, "8"), ("t", "q", 0): (Outcome.NO_ANSWER, None)}
    assert len(grades) == 2
    for absent in (("t", "p", 2), ("t", "p", 4), ("t", "r", 0)):
        assert absent not in grades
    with pytest.raises(ValueError, match="sample_index is 1000000"):
        grades.set(SampleKey("t", "p", 10**6), Outcome.CORRECT, None)


def test_a_draw_takes_less_than_eighty_bytes():
    columns = GradedSamples()
    tracemalloc.start()
    for i in range(20_000):
        columns.append(
            GradedSample(problem_id=f"p{i % 50}", sample_index=i // 50, outcome=Outcome.CORRECT, seed=2**62 + i)
        )
    columns.sort()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 20_000 < 80
