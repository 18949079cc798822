"""Why two numbers differ: parts by hand that sum to the gap, and planted causes."""

import math

import numpy as np
import pytest
from why_setup import SAMPLING, rows, same_model, values

from bench.why import CAUSES, Setup, draw, measure, write
from stapo_bench.analysis import score_run, why_runs
from stapo_bench.analysis.why.parts import mean_and_error, rest_in_parts
from stapo_bench.errors import StapoError
from stapo_bench.presenting.why import render_why, why_sentence


@pytest.mark.slow(reason="a pair of runs, graded and compared, for every planted cause, twice")
def test_planted_causes_are_found_and_parts_sum_to_the_gap():
    result = measure(2 * len(CAUSES))
    assert result["found"] >= 13, result
    assert result["largest_error"] < 1e-12


def test_problems_by_hand(make_run):
    # A: 4, 2, 0 of 4 on p0..p2 = 50 %; B: p0 and p1 alone, 4, 2 = 75 %. On the common two both have 75 %.
    a = same_model(make_run, "a", {"t": rows(4, 2, 0)})
    b = same_model(make_run, "b", {"t": rows(4, 2)}, identity={"seed": 1})
    gap = why_runs(a, b).average
    assert (gap.value_a, gap.value_b, values(gap)) == (0.5, 0.75, {"problems": 25.0})
    # Its error: A's weights 1/3 - 1/2 on p1, the only one that varies: 1/6 sqrt(1/3 / 4).
    assert gap.part("problems").standard_error == pytest.approx(math.sqrt(1 / 12) / 6)
    assert gap.part("problems").note == "3 in a and 2 in b, 2 of them the same"


def test_a_grader_that_both_runs_have_judges_both(make_run, tmp_path):
    a = same_model(make_run, "a", {"t": rows(4, 2)})
    b = same_model(make_run, "b", {"t": rows(4, 2)}, identity={"seed": 1})
    lines = (b / "grades" / "math.jsonl").read_text().replace("math-1", "strict-1")
    # The strict grader refuses two of the four right ones of the first problem.
    parts = lines.split("\n")
    parts[1:3] = [line.replace('"CORRECT"', '"INCORRECT"') for line in parts[1:3]]
    (b / "grades" / "strict.jsonl").write_text("\n".join(parts))
    score_run(b, "strict")
    gap = why_runs(a, b).average
    assert values(gap) == {"grader": -25.0}
    assert gap.part("grader").note == "math-1 in a, strict-1 in b; both by math-1 instead"
    assert values(why_runs(a, b, "math").average) == {}


def test_answers_that_both_runs_gave_carry_the_judgement_where_no_grader_is_shared(make_run):
    a = same_model(make_run, "a", {"t": rows(4, 2)})
    b = same_model(make_run, "b", {"t": rows(2, 1)}, identity={"seed": 1}, grader="strict-1")
    lines = (b / "grades" / "strict.jsonl").read_text()
    # Of the wrong answers of the first problem one is what A's grader accepts: "right".
    (b / "grades" / "strict.jsonl").write_text(lines.replace('"wrong 3"', '"right"', 1))
    score_run(b, "strict")
    gap = why_runs(a, b).average
    # "right" is judged both ways by B's own grader, and as A's does: 3 of 4 instead of 2: 12.5 points of the mean.
    assert gap.part("grader").value == pytest.approx(-0.125)
    assert "answers were judged in a, too, and count so" in gap.part("grader").note
    assert sum(part.value for part in gap.parts) == pytest.approx(gap.gap)


def test_other_golds_show_in_answers_judged_otherwise(make_run):
    a = same_model(make_run, "a", {"t": rows(4, 2)})
    other = {"tasks": {"t": {"data": "other", "prompts": "p", "prompt_format": "plain"}}}
    b = same_model(make_run, "b", {"t": rows(4, 2)}, identity={"seed": 1, **other})
    grades = (b / "grades" / "math.jsonl").read_text().split("\n")
    grades[1:5] = [line.replace('"CORRECT"', '"INCORRECT"') for line in grades[1:5]]  # p0's gold is another answer
    (b / "grades" / "math.jsonl").write_text("\n".join(grades))
    gap = why_runs(a, b).average
    assert values(gap) == {"golds": -50.0}
    assert gap.part("golds").note.startswith("the data have other golds; ")


def test_a_longer_limit_by_hand(make_run):
    def long(task, row, index):
        return {"num_tokens": 100 if index == 0 else 10}

    a = same_model(make_run, "a", {"t": rows(3, 1)}, identity={"sampling": SAMPLING})
    b = same_model(
        make_run,
        "b",
        {"t": rows(4, 2)},
        identity={"seed": 1, "sampling": {**SAMPLING, "max_new_tokens": 128}},
        sample=long,
    )
    gap = why_runs(a, b).average
    # At 64 tokens B's first samples, both right, would have been cut: 6 of 8 less 2 of 8, and A has 4 of 8.
    assert gap.part("truncation").value == pytest.approx(0.25)
    assert gap.part("sampling noise").value == pytest.approx(0.0)
    assert gap.part("truncation").note == "64 tokens in a, 128 in b; 25.0 % of b's samples are longer than 64"
    assert why_runs(b, a).average.part("truncation").value == pytest.approx(-0.25)


def test_a_cut_sample_counts_as_those_of_the_other_run_do(make_run):
    """Half of A's cut samples are right as they stand: so would half of B's be."""
    a = same_model(
        make_run,
        "a",
        {"t": rows(1, 0)},
        identity={"sampling": SAMPLING},
        sample=lambda task, row, index: {"finish_reason": "length" if index == 0 else "stop"},
    )
    b = same_model(
        make_run,
        "b",
        {"t": rows(4, 4)},
        identity={"seed": 1, "sampling": {**SAMPLING, "max_new_tokens": 128}},
        sample=lambda task, row, index: {"num_tokens": 100},
    )
    assert why_runs(a, b).average.part("truncation").value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("identity", "cause", "note"),
    [
        (
            {"tasks": {"t": {"data": "data-t", "prompts": "q", "prompt_format": "plain"}}},
            "prompt",
            "the prompts' texts differ",
        ),
        (
            {"tasks": {"t": {"data": "data-t", "prompts": "q", "prompt_format": "chat"}}},
            "prompt",
            "format plain in a, chat in b",
        ),
        ({"sampling": SAMPLING}, "decoding", "T=1.0, top-p 1.0 in a, T=0.7, top-p 0.9 in b"),
    ],
)
def test_what_changes_the_samples_gets_the_rest_where_it_alone_differs(make_run, identity, cause, note):
    a = same_model(make_run, "a", {"t": rows(*[4] * 10)})
    b = same_model(make_run, "b", {"t": rows(*[1] * 10)}, identity={"seed": 1, **identity})
    gap = why_runs(a, b).average
    assert (values(gap), gap.main.cause, gap.main.note) == ({cause: -75.0}, cause, note)


@pytest.mark.parametrize("also", ["a", "b"])
def test_what_neither_or_one_run_states_is_unknown_and_not_the_same(make_run, also):
    """An imported run's prompts and decoding may be those of the other, and need not be."""
    nowhere = {
        "tasks": {"t": {"data": "data-t", "prompts": None, "prompt_format": None}},
        "sampling": {"temperature": None, "top_p": None, "max_new_tokens": None},
        "imported": {"format": "rows"},
    }
    a = same_model(make_run, "a", {"t": rows(*[4] * 10)}, identity=nowhere if also == "a" else {})
    b = same_model(make_run, "b", {"t": rows(*[1] * 10)}, identity={**nowhere, "seed": 1})
    found = why_runs(a, b)
    told = {part.cause: part.note for part in found.average.parts if part.knowledge == "unknown"}
    assert told["prompt"] == f"the prompts of {'a and b' if also == 'a' else 'b'} are not known"
    ours = "decoding unknown" if also == "a" else "T=1.0, top-p 1.0"
    assert told["decoding"] == f"{ours} in a, decoding unknown in b"
    assert values(found.average) == {"unexplained": -75.0}  # given to neither of them
    assert "Not known: truncation, prompt, decoding." in why_sentence(found)
    assert "| prompt | – | – | the prompts of " in render_why(found)


def test_two_such_causes_share_it(make_run):
    other = {"tasks": {"t": {"data": "data-t", "prompts": "q", "prompt_format": "plain"}}, "sampling": SAMPLING}
    a = same_model(make_run, "a", {"t": rows(*[4] * 10)})
    b = same_model(make_run, "b", {"t": rows(*[1] * 10)}, identity={"seed": 1, **other})
    found = why_runs(a, b)
    assert values(found.average) == {"prompt and decoding": -75.0}
    assert "no sample says which of the two it is" in found.average.main.note
    assert "prompt and decoding -75.0 [" in why_sentence(found)


def test_a_gap_that_nothing_explains_is_not_called_noise(make_run):
    a = same_model(make_run, "a", {"t": rows(*[3] * 10)})
    b = same_model(
        make_run, "b", {"t": rows(*[1] * 10)}, identity={"seed": 1, "engine": {"name": "vllm", "dtype": "float32"}}
    )
    found = why_runs(a, b)
    assert values(found.average) == {"unexplained": -50.0}
    assert found.suspects == ("caution: engine.name: scripted in A, vllm in B",)
    assert "Unexplained: -50.0 [" in why_sentence(found)
    other = make_run("c", {"t": rows(*[1] * 10)}, identity={"seed": 1, "sampling": SAMPLING})
    found = why_runs(a, other)
    # With other weights even a known difference of decoding gets nothing.
    assert values(found.average) == {"unexplained": -50.0}
    assert found.average.part("decoding").knowledge == "unknown"
    assert found.suspects[0].startswith("the weights differ")


def test_chance_is_chance(make_run):
    a = same_model(make_run, "a", {"t": rows(2, 2, 2, 2)})
    b = same_model(make_run, "b", {"t": rows(2, 2, 2, 3)}, identity={"seed": 1})
    found = why_runs(a, b)
    assert values(found.average) == {"sampling noise": 6.25}
    assert why_sentence(found).endswith("The rest is within chance (+6.2).")


def test_the_rest_is_split_at_two_standard_errors():
    assert [part.value for part in rest_in_parts(0.019, 0.01)] == [0.019, 0.0]
    assert [part.value for part in rest_in_parts(0.020, 0.01)] == [0.0, 0.020]
    unexplained = rest_in_parts(0.05, 0.01, (0.01, 0.03))[1]
    # The others may be 0.01 lower or 0.03 higher, so 0.05 - 0.03 - 1.96 * 0.01 to 0.05 + 0.01 + 1.96 * 0.01 is left.
    assert unexplained.interval.low == pytest.approx(0.0004, abs=1e-5)
    assert unexplained.interval.high == pytest.approx(0.0796, abs=1e-5)


def test_mean_and_error_by_hand():
    values_ = np.array([[1.0, 0.0, np.nan, np.nan], [0.5, 0.5, 0.5, 0.5], [np.nan] * 4])
    # Means 0.5 and 0.5; variances 0.5 / 2 and 0; over two problems: sqrt(0.25) / 2.
    assert mean_and_error(values_) == (0.5, pytest.approx(0.25))
    assert math.isnan(mean_and_error(np.full((2, 2), np.nan))[0])


def test_two_causes_at_once_are_both_found(tmp_path):
    rng = np.random.default_rng(1)
    rates, lengths = np.linspace(0.2, 0.9, 30), np.full(30, 1500.0)
    first, second = Setup(seed=0), Setup(seed=1, limit=2000, hardest=6)
    runs = [write(tmp_path / name, draw(rng, rates, lengths, how), how) for name, how in (("a", first), ("b", second))]
    gap = why_runs(*runs).average
    assert gap.part("truncation").value < 0 < gap.part("problems").value
    assert gap.part("truncation").is_told and gap.part("problems").is_told and not gap.part("unexplained").is_told


def test_the_mean_over_tasks_has_less_noise_than_each(make_run):
    a = same_model(make_run, "a", {t: rows(*[2] * 12) for t in "tuvw"})
    b = same_model(make_run, "b", {t: rows(*[3] * 6, *[2] * 6) for t in "tuvw"}, identity={"seed": 1})
    found = why_runs(a, b)
    assert all(values(task) == {"sampling noise": 12.5} for task in found.tasks)
    assert values(found.average) == {"unexplained": 12.5}
    assert sum(part.value for part in found.average.parts) == pytest.approx(found.average.gap)


def test_runs_without_a_task_in_common_are_refused(make_run):
    a, b = make_run("a", {"t": rows(1)}), make_run("b", {"u": rows(1)})
    with pytest.raises(StapoError, match="nothing to explain: a has t; b has u"):
        why_runs(a, b)
