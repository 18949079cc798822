"""Which replica draws what: every answer once, whoever dies or falls silent; by hand and against random worlds."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stapo_bench.engines.ledger import PATIENCE_S, Ledger
from stapo_bench.records import Prompt, Request, SampleKey


def requests(number: int) -> list[Request]:
    prompt = Prompt(task="t", problem_id="p", text="?")
    return [Request(key=SampleKey("t", "p", j), prompt=prompt, seed=j) for j in range(number)]


def handed(ledger: Ledger[str], at_once: dict, now: float = 0.0) -> dict[str, list[int]]:
    return {who: [request.seed for request in batch] for who, batch in ledger.batches(at_once, now)}


def key(index: int) -> SampleKey:
    return SampleKey("t", "p", index)


def test_a_share_each_and_one_more_for_each_that_ends():
    ledger = Ledger(requests(10), "ab")
    assert handed(ledger, {"a": 2, "b": 16}) == {"a": [0, 1], "b": [2, 3, 4, 5, 6]}  # its share of 10 is 5
    assert ledger.answered("a", key(1), 1.0) and handed(ledger, {"a": 2, "b": 16}) == {"a": [7]}
    assert handed(Ledger(requests(10), "ab"), {"a": None, "b": 1}) == {
        "a": [0, 1, 2],
        "b": [3],
    }  # half of 5, rounded up


def test_what_a_dead_one_had_comes_first():
    ledger = Ledger(requests(6), "ab")
    handed(ledger, {"a": 2, "b": 1})
    ledger.lost("a")
    assert handed(ledger, {"b": 3}) == {"b": [0, 1]} and ledger.is_open


def test_nobody_is_late_before_an_answer_says_what_to_expect():
    ledger = Ledger(requests(4), "ab")
    handed(ledger, {"a": 2, "b": 2})
    assert ledger.patience_s == math.inf and ledger.fallen_silent(1e9) == []
    ledger.answered("b", key(2), 400.0)
    assert ledger.patience_s == 1200.0  # three times 400 s
    assert ledger.fallen_silent(1200.0) == [] and ledger.fallen_silent(1201.0) == ["a"]


def test_time_in_which_nobody_listened_makes_nobody_late():
    ledger = Ledger(requests(4), "ab")
    handed(ledger, {"a": 2, "b": 2})
    ledger.answered("b", key(2), 400.0)  # three times 400 s from now on
    ledger.nobody_listened(5000.0)
    assert ledger.fallen_silent(6200.0) == [] and ledger.fallen_silent(6201.0) == ["a"]


def silent_one() -> Ledger[str]:
    """``a`` is at 0 and 1, silent; ``b``, done with 2, gets both too, and has 3."""
    ledger = Ledger(requests(4), "ab")
    assert handed(ledger, {"a": 2, "b": 2}) == {"a": [0, 1], "b": [2, 3]}
    assert ledger.answered("b", key(2), 1.0)
    assert ledger.fallen_silent(PATIENCE_S + 0.5) == ["a"] and ledger.fallen_silent(PATIENCE_S + 0.6) == []
    assert handed(ledger, {"a": 9, "b": 4}, PATIENCE_S + 1) == {"b": [0, 1]}
    return ledger


def test_of_two_answers_the_first_counts():
    ledger = silent_one()
    assert ledger.answered("b", key(0), 601.0) and ledger.answered("b", key(3), 602.0) and ledger.is_open
    assert ledger.answered("a", key(1), 603.0)  # slow, not hung
    assert not ledger.is_open
    assert not ledger.answered("a", key(0), 604.0) and not ledger.answered("b", key(1), 605.0)


def test_an_answer_takes_its_copy_from_those_that_wait():
    ledger = Ledger(requests(2), "ab")
    handed(ledger, {"a": 1, "b": 1})
    assert ledger.answered("b", key(1), 1.0) and ledger.fallen_silent(700.0) == ["a"]
    assert ledger.answered("a", key(0), 701.0) and not ledger.is_open and handed(ledger, {"a": 9, "b": 9}) == {}


@pytest.mark.parametrize("dies", "ab")
def test_whichever_of_two_dies_what_both_were_at_is_not_asked_a_third_time(dies):
    ledger = silent_one()
    other = "b" if dies == "a" else "a"
    ledger.lost(dies)
    if dies == "b":
        assert handed(ledger, {"a": 9}) == {}  # which is silent
        ledger.heard("a", 700.0)
    assert handed(ledger, {other: 9}, 700.0) == ({} if dies == "a" else {"a": [3]})


def test_what_all_who_have_it_are_silent_on_is_asked_once_more():
    ledger = Ledger(requests(3), "abc")
    assert handed(ledger, {"a": 1, "b": 1, "c": 0}) == {"a": [0], "b": [1]}
    assert ledger.answered("b", key(1), 1.0) and handed(ledger, {"a": 1, "b": 1, "c": 0}, 2.0) == {"b": [2]}
    assert ledger.answered("b", key(2), 3.0) and ledger.fallen_silent(700.0) == ["a"]
    assert handed(ledger, {"a": 1, "b": 1, "c": 0}, 700.0) == {"b": [0]}
    assert ledger.fallen_silent(1400.0) == ["b"]
    assert handed(ledger, {"a": 1, "b": 1, "c": 1}, 1400.0) == {"c": [0]}
    ledger.lost("c")
    assert ledger.is_open and handed(ledger, {"a": 1, "b": 1}, 1500.0) == {}
    ledger.heard("b", 1600.0)
    assert ledger.answered("b", key(0), 1700.0) and not ledger.is_open


@settings(max_examples=60, deadline=None)
@given(
    number=st.integers(0, 40),
    speeds=st.lists(st.floats(0.2, 5.0), min_size=2, max_size=5),
    fates=st.lists(st.sampled_from(["well", "dies", "hangs", "pauses"]), min_size=5, max_size=5),
    seed=st.integers(0, 999),
)
def test_every_answer_is_passed_on_once(number, speeds, fates, seed):
    """A world in steps of 10 s: the first replica is well; others die, hang, or pause for an hour."""
    rng, names = random.Random(seed), [str(i) for i in range(len(speeds))]
    fate = dict(zip(names, ["well", *fates], strict=False))
    ledger, alive, passed, now = Ledger(requests(number), names), set(names), [], 0.0
    at_once: dict[str, int | None] = {name: rng.choice([1, 3, None]) for name in names}
    work: dict[str, list[tuple[float, SampleKey]]] = {name: [] for name in names}
    while ledger.is_open and now < 5e4:
        ledger.fallen_silent(now)
        for name, batch in ledger.batches({one: at_once[one] for one in alive}, now):
            work[name] += [(now + rng.lognormvariate(3.0, 1.0) / speeds[int(name)], one.key) for one in batch]
        now += 10.0
        for name in sorted(alive):
            if now > 50.0 and fate[name] == "dies":
                alive.remove(name)
                ledger.lost(name)
            elif now <= 50.0 or fate[name] == "well" or (fate[name] == "pauses" and now > 3650.0):
                for entry in sorted(entry for entry in work[name] if entry[0] <= now):
                    work[name].remove(entry)
                    passed += [entry[1]] * ledger.answered(name, entry[1], now)
    assert sorted(passed) == [key(index) for index in range(number)]
