"""Answers are grouped by value where that is affordable, by text otherwise."""

import signal
from pathlib import Path

import pytest

from stapo_bench.grading import voting as answers
from stapo_bench.grading.pool import GraderPool, Limits
from stapo_bench.grading.registry import Grader
from stapo_bench.grading.voting import MAX_CLASSES, equal_answers, same_answer
from stapo_bench.records import Gold


@pytest.fixture
def alarm():
    """Ends a test that hangs, with all of pytest: the signal's default action also ends what hangs in C."""
    signal.alarm(30)
    yield
    signal.alarm(0)


def test_equal_values_share_a_class_and_silence_has_none():
    found = equal_answers([r"\frac{1}{2}", "0.5", "3", None, "1/2", "3.0"])
    assert found[0] == found[1] == found[4] >= 0
    assert found[2] == found[5] != found[0]
    assert found[3] == -1


def test_numbers_of_classes_never_collide():
    texts = [str(1000 + i) for i in range(2 * MAX_CLASSES)] + ["long " * 100, "long " * 101]
    assert len(set(equal_answers(texts))) == len(texts)


def test_the_cost_is_bounded(monkeypatch):
    calls = []
    monkeypatch.setattr(answers, "same_answer", lambda a, b: calls.append((a, b)) or False)
    equal_answers([str(i) for i in range(5000)])
    assert len(calls) == MAX_CLASSES * (MAX_CLASSES - 1) // 2


def test_equality_holds_both_ways():
    assert same_answer("0.5", r"\frac{1}{2}")
    assert same_answer(r"\frac{1}{2}", "0.5")
    assert not same_answer("0.33", r"\frac{1}{3}")


@pytest.mark.usefixtures("alarm")
def test_hostile_answers_end():
    assert not same_answer("5 " + "m " * 60 + "x", "5")
    assert not same_answer("5 " + "mm " * 60 + "x", "5")


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("fault", ["hang in python", "hang in C"])
def test_a_comparison_that_hangs_is_ended(monkeypatch, tmp_path, fault):
    module = "from faulty_graders import *\ndef grade_extracted(answer, gold): return grade_answer(answer, gold)\n"
    (tmp_path / "hanging_graders.py").write_text(module)
    for folder in (Path(__file__).parent, tmp_path):
        monkeypatch.syspath_prepend(str(folder))
    hanging = Grader(name="hanging", summary="", module="hanging_graders")
    with GraderPool(1, grader=hanging, limits=Limits(cpu_s=0.4)) as pool:
        monkeypatch.setattr(answers, "_pool", lambda: pool)
        assert not same_answer(fault, "x")
        assert pool.grade_extracted(fault, Gold(answer="x")).detail.startswith("timed out")
