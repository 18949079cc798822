"""What the grader makes of replies written by hand: verdict, extracted answer and rule; see graded_replies.py."""

from pathlib import Path

import pytest
from answer_trees import reading, readings
from graded_replies import TOPICS, graded, misses, replies


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.stem)
def test_every_reply_is_graded_as_before(topic: Path) -> None:
    changed = [(case, now) for case in replies(topic) if (now := graded(case)) != case["graded"]]
    assert not changed, "where this is meant: python tests/graded_replies.py"


def test_few_replies_are_missed_and_hardly_one_is_taken_wrongly() -> None:
    cases = [case for topic in TOPICS for case in replies(topic)]
    missed = list(misses(cases))
    assert len(cases) > 28500
    assert len(missed) <= 241
    assert sum(not case["correct"] for case in missed) <= 8  # wrong answers that are taken for right


def test_every_answer_is_read_as_before() -> None:
    changed = [(text, tree, now) for text, tree in readings() if (now := reading(text)) != tree]
    assert not changed, "where this is meant: python tests/graded_replies.py"
