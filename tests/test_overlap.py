"""Evaluation problems in a training set are found by shared runs of words."""

import json
import os
from pathlib import Path

import pytest

from stapo_bench.errors import StapoError
from stapo_bench.records import Gold, Problem
from stapo_bench.tasks.loading import load_problems, load_task
from stapo_bench.tasks.overlap import find_overlaps, read_training_texts, shingles

TEXT = "one two three four five six seven eight nine ten eleven twelve"  # 12 words: 5 shingles


def problem(text: str, name: str = "p") -> Problem:
    return Problem(task="t", problem_id=name, question=text, gold=Gold(answer="1"))


def test_a_text_of_n_words_has_n_minus_7_shingles():
    assert len(shingles(TEXT)) == 5
    assert len(shingles("one two")) == 1
    assert shingles("$ ?!") == frozenset()


@pytest.mark.parametrize(
    ("training", "share"),
    [
        (TEXT, 1.0),
        (f"Solve this: {TEXT}. Box it.", 1.0),
        ("one two three four five six seven eight nine ten", 3 / 5),
        ("one two three four five six seven eight nine", None),  # 2 of 5
        ("twelve eleven ten nine eight seven six five four three two one", None),
    ],
)
def test_half_of_the_shingles_make_an_overlap(training, share):
    found = find_overlaps([problem(TEXT)], ["something else entirely", training])
    assert [(o.row, o.share) for o in found] == ([] if share is None else [(2, pytest.approx(share))])


def test_the_row_that_shares_most_is_named_and_problems_keep_their_order():
    other = "alpha beta gamma delta epsilon zeta eta theta iota"
    found = find_overlaps([problem(other, "b"), problem(TEXT, "a")], [TEXT[:48], TEXT, other, TEXT])
    assert [(o.problem_id, o.row) for o in found] == [("b", 3), ("a", 2)]


def test_an_empty_problem_matches_nothing():
    assert find_overlaps([problem("?")], ["?", ""]) == []


def test_training_files_of_several_makes_are_read(tmp_path):
    path = tmp_path / "train.jsonl"
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "c"}]
    rows = ({"problem": "a"}, {"question": "b"}, {"prompt": chat}, {"messages": chat, "source": "d"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert list(read_training_texts(path)) == ["a", "b", "c", "c"]


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"prompt": 3}', '{"prompt": [{"role": "user"}]}'])
def test_other_lines_are_named(tmp_path, line):
    path = tmp_path / "train.jsonl"
    path.write_text('{"problem": "a"}\n' + line + "\n")
    with pytest.raises(StapoError, match=r"train\.jsonl, line 2: expected a JSON object"):
        list(read_training_texts(path))


def test_dapo_holds_the_amc23_problems_that_were_marked_by_hand():
    data = os.environ.get("STAPO_BENCH_DATA")
    train = Path(data or ".") / "train/dapo_math_17k.jsonl"
    if not data or not train.is_file():
        pytest.skip("STAPO_BENCH_DATA names no folder with train/dapo_math_17k.jsonl")
    with train.open(encoding="utf-8") as lines:
        marked = {name for line in lines for name in json.loads(line).get("eval_overlap", ()) if "amc23" in name}
    found = {
        o.problem_id for o in find_overlaps(load_problems(load_task("amc23"), Path(data)), read_training_texts(train))
    }
    assert len(marked) == 24
    # Two more than were marked: one stands there word for word, one with its numbers set in other markup.
    assert found - marked == {"amc23-18", "amc23-20"}
    assert marked <= found


def test_of_two_rows_that_hold_a_problem_the_one_that_shares_more_is_named():
    ten_words = "one two three four five six seven eight nine ten"  # 3 of 5 shingles
    for rows, number in (([ten_words, TEXT], 2), ([TEXT, ten_words], 1)):
        assert [(o.row, o.share) for o in find_overlaps([problem(TEXT)], rows)] == [(number, 1.0)]
