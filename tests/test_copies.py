"""One text that came k times is one sample: found in every pattern, counted once, and honest runs left as they are."""

import hashlib
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stapo_bench.analysis import audit_runs, compare_runs, plan_runs, score_run
from stapo_bench.errors import StapoError
from stapo_bench.presenting import render_audit, render_comparison, render_table, rows_from_scores
from stapo_bench.records import Outcome, SamplingParams, StatedSampling
from stapo_bench.runs.copies import mark_copies, texts_of
from stapo_bench.runs.graded_samples import GradedSample, GradedSamples
from stapo_bench.runs.identity import Identity
from stapo_bench.statistics import copy_evidence, interval, most_log_probability, problem_evidence

TRAINING = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=4096)
CONTEST = {"temperature": 0.6, "top_p": 0.95, "max_new_tokens": 4096}


def graded(texts, tokens, *, right=lambda i, text: False):
    """Samples of one task; ``texts``: [num_problems, k] numbers, equal ones are equal texts of ``tokens(i, text)``."""
    samples = GradedSamples()
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            samples.append(
                GradedSample(
                    problem_id=f"p{i}",
                    sample_index=j,
                    outcome=Outcome.CORRECT if right(i, text) else Outcome.INCORRECT,
                    text_digest=int(text).to_bytes(8, "big"),
                    text_tokens=tokens(i, text),
                )
            )
    samples.sort()
    return samples


def num_copies(texts, tokens, sampling=TRAINING):
    samples = graded(texts, tokens)
    mark_copies({"t": samples}, sampling)
    return sum(sample.is_copy for sample in samples)


def own_texts(num_problems=30, num_samples=32):
    return np.arange(num_samples) * np.ones((num_problems, 1), dtype=int)


PATTERNS = {
    "one text": (np.zeros((30, 32), dtype=int), 30 * 31),
    "two texts": (own_texts() % 2, 30 * 30),
    "four texts in blocks": (own_texts() // 8, 30 * 28),
    "sample i is sample i mod 4": (own_texts() % 4, 30 * 28),
    "one text on a fifth of the problems": (np.vstack([own_texts(24), 0 * own_texts(6)]), 6 * 31),
    "the second half repeats the first": (own_texts() % 16, 30 * 16),
    "four samples, one text on a fifth": (np.vstack([own_texts(24, 4), 0 * own_texts(6, 4)]), 6 * 3),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_of_long_copies_is_found(pattern):
    texts, expected = PATTERNS[pattern]
    assert num_copies(texts, lambda i, text: 2000) == expected


def test_one_text_of_two_hundred_tokens_is_found_on_a_fifth_of_the_problems():
    assert num_copies(PATTERNS["one text on a fifth of the problems"][0], lambda i, text: 200) == 6 * 31


def test_short_answers_among_copies_count_each():
    """Every problem has 16 copies of a long text, and one short answer four times."""
    texts = np.hstack([np.zeros((30, 16), dtype=int), np.full((30, 4), 7)])
    assert num_copies(texts, lambda i, text: 20 if text == 7 else 2000) == 30 * 15


def test_greedy_decoding_and_short_answers_repeat_themselves_by_right():
    texts = PATTERNS["one text"][0]
    assert num_copies(texts, lambda i, text: 64) == 0
    assert num_copies(texts, lambda i, text: 2000, SamplingParams(temperature=0.0, top_p=1.0, max_new_tokens=4096)) == 0


@pytest.mark.slow(reason="a rate of false alarms by simulation, 200 runs")
def test_honest_runs_of_low_entropy_alarm_in_less_than_one_of_a_hundred():
    """Peaked distributions over answers of 3 to 60 tokens: one text makes up 50 to 99.9 % of a problem's samples."""
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(200):
        certain = rng.choice([0.5, 0.9, 0.99, 0.999], size=(30, 1))
        texts = np.where(rng.random((30, 32)) < certain, 0, rng.geometric(0.2, (30, 32)))
        lengths = rng.integers(3, 60, size=30)
        alarms += num_copies(texts, lambda i, text, lengths=lengths: int(lengths[i]) + int(text) % 4) > 0
    assert alarms == 0


@pytest.mark.slow(reason="a rate of false alarms by simulation")
def test_runs_as_certain_as_the_bound_allows_alarm_in_less_than_one_of_a_hundred():
    """Texts of 100 to 3000 tokens, of which one comes with the largest probability that its length allows."""
    rng = np.random.default_rng(6)
    alarms = 0
    for _ in range(300):
        lengths = np.exp(rng.uniform(math.log(100), math.log(3000), size=20)).astype(int)
        most = np.exp([most_log_probability(int(length), 1.0) for length in lengths])
        texts = np.where(rng.random((20, 16)) < most[:, None], 0, rng.integers(1, 10**6, (20, 16)))
        alarms += num_copies(texts, lambda i, text, lengths=lengths: int(lengths[i])) > 0
    assert alarms <= 3  # at most 1 of 1000 expected, by Ville's inequality


def test_evidence_of_independent_samples_has_a_mean_of_at_most_one():
    """Texts "a" and "b" of probability 0.2 each, all else unrepeated: E over all 3^3 ways that three samples fall."""
    most = math.log(0.2)
    mean = 0.0
    for drawn in np.ndindex(3, 3, 3):
        chance = math.prod((0.2, 0.2, 0.6)[text] for text in drawn)
        texts = [("ab"[text] if text < 2 else f"other {place}", most) for place, text in enumerate(drawn)]
        mean += chance * math.exp(problem_evidence(texts))
    assert 0.1 < mean <= 1.0


def test_evidence_by_hand():
    # Q = 0.1 before the second and third sample. Repeat, repeat: (r / 0.1)^2, mean over r = 0.5, 0.9 and 0.999
    twice = math.log((5.0**2 + 9.0**2 + 9.99**2) / 3)
    assert problem_evidence([("a", math.log(0.1))] * 3) == pytest.approx(twice)
    # one problem of two, over shares 0.02, 0.2, 0.9: mean of (1 - s) (1 - s + s E)
    odds = math.exp(twice)
    expected = np.mean([(1 - s) * (1 - s + s * odds) for s in (0.02, 0.2, 0.9)])
    assert copy_evidence([twice], num_unrepeated=1)[0] == pytest.approx(math.log(expected))


def test_log_probabilities_tell_more_than_lengths():
    assert most_log_probability(2000, 1.0, log_prob=-0.1) == 0.0  # the engine says: nearly certain
    assert most_log_probability(20, 1.0, log_prob=-12.0) == -12.0
    assert most_log_probability(20, 1.0, log_prob=-12.0, top_p=0.5) == pytest.approx(-12.0 + 20 * math.log(2), abs=1.9)
    assert most_log_probability(264, 0.5) == -0.5  # half the entropy at half the temperature


def test_log_probabilities_before_a_cut_bound_and_those_as_drawn_say():
    # 60 tokens under top-p 0.9: each may have been drawn at 1 / 0.9 times what is told, -5 + 60 ln(1 / 0.9) = 1.3.
    sample = GradedSample(problem_id="p", sample_index=0, outcome=None, text_tokens=60, sum_log_prob=-5.0)
    justrl = StatedSampling(temperature=0.7, top_p=0.9)
    assert [most for _, most in texts_of([sample], justrl)] == [0.0]
    assert [most for _, most in texts_of([sample], justrl, as_drawn=True)] == [-5.0]
    identity = Identity(checkpoint_digest="c", tasks={}, sampling=justrl, seed=0, engine={"log_probs": "as drawn"})
    assert identity.log_probs_as_drawn and not replace(identity, engine={}).log_probs_as_drawn


# -- a run of copies: audit, score, compare ---------------------------------------------------------------------------


def one_text(copied=lambda i: True, num_tokens=500):
    """Samples of ``make_run``: on the problems that are copied, every sample has the text of the first."""
    return lambda task, i, j: {"completion": f"{task} {i} {0 if copied(i) else j}", "num_tokens": num_tokens}


def rows_of_one_text(rng, num_problems=30, num_samples=32):
    return [[float(right)] * num_samples for right in rng.random(num_problems) < 0.5]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def finding(checks, name="repeated completions"):
    return next(check.message for check in checks if check.name == name and check.result == "finding")


def test_audit_names_copies(make_run, rng):
    run = make_run("a", {"t": rows_of_one_text(rng)}, identity={"sampling": CONTEST}, sample=one_text())
    checks = audit_runs(run)
    assert finding(checks) == (
        "a: 930 completions equal another of their problem, on 30 of 30 problems and at 500 tokens or more, far beyond "
        "chance: was the server or engine given the seeds? Equal ones count as one sample"
    )
    assert render_audit(checks).startswith("**1 of 4 checks found something: repeated completions.**")


def test_a_server_that_tells_no_tokens_hides_nothing(make_run, rng):
    def told_none(task, i, j):
        return {
            "completion": f"{task} {i} " + "so it is plain that ten plus nine are nineteen; " * 100,
            "num_tokens": 0,
        }

    run = make_run("a", {"t": rows_of_one_text(rng)}, identity={"sampling": CONTEST}, sample=told_none)
    assert "930 completions equal another" in finding(audit_runs(run))


def beginning(numbers):
    """2400 bytes that no compression makes short."""
    return " ".join(hashlib.sha256(repr(numbers).encode() + bytes([part])).hexdigest() for part in range(37))


@pytest.mark.parametrize(("num_shared", "result"), [(0, "ok"), (6, "finding"), (30, "finding")])
def test_completions_that_begin_alike_and_go_on_alone_are_found(make_run, rng, num_shared, result):
    def continued(task, i, j):
        return {"completion": f"{beginning(i if i < num_shared else (i, j))} and then {i} {j}", "num_tokens": 900}

    matrix = (rng.random((30, 16)) < 0.5).astype(float).tolist()
    (check,) = [
        check
        for check in audit_runs(make_run("a", {"t": matrix}, identity={"sampling": CONTEST}, sample=continued))
        if check.name == "repeated completions"
    ]
    assert check.result == result
    assert ("begin alike" in check.message) == (result == "finding")


def test_loops_that_were_cut_off_are_no_copies(make_run, rng):
    def looping(task, i, j):
        return {"completion": "so " * 1000, "num_tokens": 1000, "finish_reason": "length"}

    run = make_run("a", {"t": rows_of_one_text(rng)}, sample=looping)
    assert {check.result for check in audit_runs(run) if check.name == "repeated completions"} == {"ok"}


def test_intervals_of_copies_are_those_of_one_sample(make_run, rng):
    """k equal completions of a problem say as much as one: the same estimate, and the very same intervals."""
    rows = rows_of_one_text(rng)
    copied = score_run(make_run("a", {"t": rows}, sample=one_text())).tasks[0]
    single = score_run(make_run("b", {"t": [row[:1] for row in rows]}, sample=one_text())).tasks[0]
    assert copied.num_copies == 930 and copied.num_samples == 960
    assert copied.value == single.value
    assert copied.these_problems == single.these_problems
    assert copied.problems_like_these == single.problems_like_these
    assert copied.these_problems.width > 0.3  # 30 coins: 2 * 1.96 * 0.5 / sqrt(30) = 0.36, not 0.002
    assert set(copied.pass_at) == {1}  # nothing is known of two samples
    assert (copied.bounds.low, copied.bounds.high) == (copied.value, copied.value)  # copies are not undecided


def test_the_table_says_what_counts_as_none(make_run, rng):
    table = render_table(rows_from_scores([score_run(make_run("a", {"t": rows_of_one_text(rng)}, sample=one_text()))]))
    assert "† T: 930 of 960 completions repeat another of their problem far beyond chance and count as none" in table


@pytest.mark.slow(reason="coverage by simulation, 300 runs")
def test_intervals_cover_where_a_fifth_of_the_problems_is_copied():
    """95 % intervals for these problems, over 300 runs of 30 problems × 16 of which 6 have one sample only."""
    rng = np.random.default_rng(8)
    inside = told_as_drawn = 0
    for _ in range(300):
        rates = rng.beta(0.7, 1.0, 30)
        texts = np.vstack([own_texts(24, 16), 0 * own_texts(6, 16)])
        right = rng.random((30, 16)) < rates[:, None]
        samples = graded(texts, lambda i, text: 1000, right=lambda i, text, right=right: right[i, text])
        for is_marked in (False, True):
            if is_marked:
                mark_copies({"t": samples}, TRAINING)
            correct = np.reshape([sample.correct for sample in samples], (30, 16))
            order = [int(sample.problem_id[1:]) for sample in samples][::16]
            found = interval(correct, "these problems")
            covers = found.low <= rates[order].mean() <= found.high
            inside += covers * is_marked
            told_as_drawn += covers * (not is_marked)
    assert inside / 300 > 0.93
    assert told_as_drawn / 300 < 0.7  # what the same interval holds that takes copies for samples


@pytest.mark.slow(reason="a rate of false alarms by simulation, 40 pairs of runs")
def test_compare_finds_no_difference_between_two_runs_of_copies(make_run):
    """One model, one sample a problem in each run, told 16 times: at most 5 % find a difference, with some room."""
    found = {"these problems": 0, "problems like these": 0}
    for number in range(40):
        rng = np.random.default_rng(number)
        rates = np.repeat(rng.beta(1.0, 1.0, 20)[:, None], 1, axis=1)
        runs = [
            make_run(
                f"{name}{number}",
                {"t": np.repeat(rng.random((20, 1)) < rates, 16, axis=1).astype(float).tolist()},
                identity={"checkpoint": {"digest": "same"}, "seed": ord(name)},
                sample=lambda task, i, j, name=name: {"completion": f"{name} {i}", "num_tokens": 800},
            )
            for name in "ab"
        ]
        comparison = compare_runs(*runs)
        for error in found:
            found[error] += comparison.average.effect(error).verdict in ("better", "worse")
        assert comparison.average.warnings == ()  # copies are not undecided: they turn no sign
    assert max(found.values()) <= 5  # P(X >= 6 of 40 at 5 %) = 1 %
    assert "T: 300 of a39's 320 samples are copies of others and count as none" in render_comparison(comparison)


def test_a_plan_from_copies_says_why_there_is_none(make_run, rng):
    runs = [make_run(name, {"t": rows_of_one_text(rng)}, sample=one_text()) for name in "ab"]
    with pytest.raises(StapoError, match="two samples each that are no copies: 'stapo-bench audit' says more"):
        plan_runs(*runs, detect=0.1)


def test_an_honest_run_keeps_its_bytes(make_run, rng):
    matrix = (rng.random((20, 16)) < 0.4).astype(float).tolist()
    run = make_run("a", {"t": matrix}, sample=lambda _t, i, j: {"completion": f"{i} {j % 15}", "num_tokens": 900})
    score = score_run(run)
    assert score.tasks[0].num_copies == 0
    assert "num_copies" not in json.loads((run / "scores.json").read_text())["tasks"][0]
    assert score.tasks[0].these_problems == interval(np.array(matrix), "these problems")


def test_two_runs_of_one_cache_share_their_one_text(make_run, rng):
    a, b = (
        make_run(name, {"t": rows_of_one_text(rng)}, identity={"seed": seed}, sample=one_text())
        for seed, name in enumerate("ab")
    )
    assert finding(audit_runs(a, b), "shared samples").startswith("30 of 30 samples are equal in a and b")


# -- a real run of low entropy ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def qwen_texts():
    """Eight solutions of each of 100 MATH problems by Qwen2.5-Math, of which many are equal: [100, 8] texts."""
    folder = os.environ.get("STAPO_BENCH_DATA")
    path = Path(folder or "none", "runs/QwenLM+Qwen2.5-Math/evaluation/data/eval_rm_maj_example/math_cot_100.jsonl")
    if not path.is_file():
        pytest.skip("needs runs/QwenLM+Qwen2.5-Math in the folder that STAPO_BENCH_DATA names")
    return [json.loads(line)["code"] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("num_copied", "expected"), [(0, 0), (20, 20 * 7)])
def test_a_real_run_that_repeats_itself_is_not_accused_until_a_fifth_is_copied(qwen_texts, num_copied, expected):
    """134 of its 2800 pairs are equal, up to 3 of 8 samples at 1800 characters; some 2.8 characters are a token."""
    numbers = {text: i for i, text in enumerate(sorted({text for row in qwen_texts for text in row}))}
    lengths = {number: len(text) * 10 // 28 for text, number in numbers.items()}
    by_length = sorted(range(100), key=lambda i: -max(map(len, qwen_texts[i])))
    copied = by_length[20 : 20 + num_copied]  # not its longest
    texts = [[numbers[row[0 if i in copied else j]] for j in range(8)] for i, row in enumerate(qwen_texts)]
    pairs = sum(row[i] == row[j] for row in texts for i in range(8) for j in range(i)) - 28 * num_copied
    found = num_copies(
        texts, lambda i, text: lengths[text], SamplingParams(temperature=0.7, top_p=0.8, max_new_tokens=2048)
    )
    assert found == expected
    assert num_copied or pairs == 134


# -- the page ---------------------------------------------------------------------------------------------------------


def shortest_found(temperature, num_samples, num_texts, num_copied):
    """Tokens, in steps of ten, from which on copies on so many of 30 problems are found."""
    for tokens in range(70, 3000, 10):
        most = most_log_probability(tokens, temperature)
        each = problem_evidence([(j % num_texts, most) for j in range(num_samples)])
        if each > -math.inf and copy_evidence([each] * num_copied, 30 - num_copied)[0] >= math.log(1000):
            return str(tokens)
    return "–"


def test_the_page_says_from_which_length_on_copies_are_found():
    page = (Path(__file__).parent.parent / "docs" / "copies.md").read_text(encoding="utf-8")
    rows = [
        line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(("| one", "| two", "| four"))
    ]
    assert len(rows) == 6
    for what, temperature, *lengths in rows:
        texts = {"one": 1, "two": 2, "four": 4}[what.split()[0]]
        found = [shortest_found(float(temperature), k, texts, copied) for k in (4, 8, 32) for copied in (30, 6)]
        assert lengths == found, (what, temperature)
