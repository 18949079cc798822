"""Samples in columns come back as they went in, and take little memory."""

import math
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stapo_bench.records import Outcome, SampleKey
from stapo_bench.runs.graded_samples import DIGEST_SIZE, GradedKeys, GradedSample, GradedSamples

DRAWS = st.builds(
    GradedSample,
    problem_id=st.sampled_from(["a", "b", "c"]),
    sample_index=st.integers(0, 5),
    outcome=st.sampled_from([None, *Outcome]),
    extracted=st.none() | st.sampled_from(["1", "", "2"]),
    truncated=st.none() | st.booleans(),
    failed=st.booleans(),
    num_tokens=st.none() | st.integers(0, 2**31 - 1),
    seconds=st.none() | st.floats(0, 10, width=32),
    seed=st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
    segment=st.sampled_from(["0001-a.jsonl", "0002-b.jsonl"]),
    text_digest=st.binary(min_size=8, max_size=8),
    sum_log_prob=st.none() | st.floats(-10, 0),
    model=st.none() | st.sampled_from(["m-1", "m-2"]),
    text_tokens=st.integers(0, 2**31 - 1),
    start_digest=st.none() | st.binary(min_size=8, max_size=8).filter(any),
    is_copy=st.booleans(),
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


def test_an_answer_that_could_not_be_read_is_incorrect_and_says_so():
    columns = GradedSamples()
    for outcome, is_unread in ((Outcome.INCORRECT, True), (Outcome.INCORRECT, False), (None, False)):
        columns.append(GradedSample(problem_id="a", sample_index=0, outcome=outcome, is_unread=is_unread))
    assert [(one.outcome, one.is_unread) for one in columns] == [
        (Outcome.INCORRECT, True), (Outcome.INCORRECT, False), (None, False)
    ]  # fmt: skip
    assert columns[0].correct == 0.0 and math.isnan(columns[2].correct)
    right = GradedSample(problem_id="a", sample_index=0, outcome=Outcome.CORRECT)
    assert (right.correct, right.truncated, right.num_tokens, right.seed, right.text_tokens) == (1.0, False, 0, 0, 0)
    for nothing in ({"is_copy": True}, {"failed": True}, {"outcome": Outcome.GRADER_ERROR}):
        assert math.isnan(replace(right, **nothing).correct)
    assert replace(right, outcome=Outcome.NO_ANSWER).correct == 0.0


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from("xyz")), max_size=10), st.booleans()
)
def test_samples_that_repeat_a_text_of_their_problem_are_found_and_marked(rows, in_order):
    columns = GradedSamples()
    for problem, index, text in rows:
        columns.append(
            GradedSample(problem_id=problem, sample_index=index, outcome=None, text_digest=text.encode() * DIGEST_SIZE)
        )
    if in_order:
        columns.sort()
    seen = [(one.problem_id, one.sample_index, chr(one.text_digest[0])) for one in columns]
    found = {seen[places[0]][0]: places for places in columns.repeating()}
    for problem in "abc":
        of_problem = [place for place, row in enumerate(seen) if row[0] == problem]
        texts = [seen[place][2] for place in of_problem]
        assert (problem in found) == (len(set(texts)) < len(texts))
        if problem in found:
            assert sorted(found[problem]) == of_problem
            assert [seen[place][1] for place in found[problem]] == sorted(seen[place][1] for place in of_problem)
    assert columns.num_problems == len({row[0] for row in rows})
    if rows:
        columns.mark_copy(len(rows) - 1)
        assert [one.is_copy for one in columns] == [False] * (len(rows) - 1) + [True]


def test_unread_answers_by_key():
    grades = GradedKeys()
    grades.set(SampleKey("t", "p", 2), Outcome.INCORRECT, None, is_unread=True)
    grades.set(SampleKey("t", "p", 0), Outcome.INCORRECT, "3")
    assert [grades.is_unread(SampleKey("t", "p", index)) for index in range(4)] == [False, False, True, False]
    assert not grades.is_unread(SampleKey("t", "q", 0))
    assert list(grades) == [("t", "p", 0), ("t", "p", 2)] and len(grades) == 2
    grades.set(SampleKey("t", "p", 999_999), Outcome.CORRECT, "1")
    for index in (-1, 1_000_000):
        with pytest.raises(ValueError, match="expected 0 to 999999"):
            grades.set(SampleKey("t", "p", index), Outcome.CORRECT, None)


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
