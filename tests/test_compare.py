"""The question itself: verdicts, the parity gate, and what could turn the sign."""

import json
import math
import re

import numpy as np
import pytest
from compare_setup import outcome_rows

from stapo_bench.analysis.compare import compare_runs, verdict_on
from stapo_bench.presenting.verdicts import render_comparison, sentence
from stapo_bench.statistics import Difference

SEEDS = {"engine": {"name": "scripted", "dtype": "float32"}}


def rows(rng, rates, num_samples):
    return (rng.random((len(rates), num_samples)) < np.asarray(rates)[:, None]).astype(float).tolist()


@pytest.fixture
def rng():
    return np.random.default_rng(5)


SETTLED = np.tile([0.02, 0.98], 80)
"""Problems that are nearly always, or never, right: few samples show a tie. Below 149 problems none on problems like
these can be shown."""


def test_a_large_effect_at_30_by_32_is_better_and_not_identical(make_run, rng):
    """0.589 against 0.305 on 30 problems with 32 samples: a difference that another harness calls identical."""
    logits = rng.normal(0, 2, 30)
    low, high = (1 / (1 + np.exp(-(logits + shift))) for shift in (-1.4, 0.8))
    a = make_run("base", {"aime24": rows(rng, low, 32)})
    b = make_run("stapo", {"aime24": rows(rng, high, 32)})
    comparison = compare_runs(a, b)
    assert [effect.verdict for effect in comparison.average.effects] == ["better", "better"]
    assert sentence(comparison).startswith("stapo is better than base: +")
    assert "on problems like these" in sentence(comparison)
    assert compare_runs(b, a).average.effects[0].verdict == "worse"


def test_better_on_these_problems_only_says_exactly_that(make_run):
    # two of eight problems go from never to always: certain for them, open for others
    a = make_run("base", {"t": outcome_rows([0] * 8, 16)})
    b = make_run("stapo", {"t": outcome_rows([0] * 6 + [16] * 2, 16)})
    comparison = compare_runs(a, b)
    assert [effect.verdict for effect in comparison.average.effects] == ["better", "not enough data"]
    assert "better than base on these problems (+25.0 points" in sentence(comparison)
    assert "not enough data on problems like these" in sentence(comparison)


def test_tied_names_the_bound_that_was_shown(make_run, rng):
    a, b = (make_run(name, {"t": rows(rng, SETTLED, 8)}) for name in "ab")
    comparison = compare_runs(a, b)
    (these, like) = comparison.average.effects
    assert (these.verdict, like.verdict) == ("tied", "tied")
    assert f"tied within ±{100 * like.difference.tied_within():.1f} points" in sentence(comparison)
    assert compare_runs(a, b, margin=0.001).average.effects[0].verdict == "not enough data"


def test_the_bound_of_a_tie_is_told_apart_from_the_interval_beside_it(make_run, rng):
    a, b = (make_run(name, {"t": rows(rng, SETTLED, 8)}) for name in "ab")
    text = render_comparison(compare_runs(a, b))
    assert re.search(r"tied within ±\d\.\d points on problems like these \([+-]\d\.\d points, 95 % interval \[", text)
    assert (
        "tied: shown to lie within ±2 points (two one-sided tests at 5 %); ±x: the least margin that they show" in text
    )
    assert "corrected" not in text  # there is one task


def test_equal_weights_that_tie_are_called_tied_in_the_sentence_as_in_the_table(make_run, rng):
    same = {"identity": {"checkpoint": {"digest": "one"}}}
    a, b = (make_run(name, {"t": rows(rng, SETTLED, 8)}, **same) for name in "ab")
    comparison = compare_runs(a, b)
    assert [effect.verdict for effect in comparison.average.effects] == ["tied", "tied"]
    within = f"tied within ±{100 * comparison.average.effects[1].tied_within:.1f} points"
    assert sentence(comparison).startswith(f"Same weights and settings, and {within}: ")
    sampling = {"temperature": 0.7, "top_p": 1.0, "max_new_tokens": 64}
    c = make_run("c", {"t": rows(rng, SETTLED, 8)}, identity={"checkpoint": {"digest": "one"}, "sampling": sampling})
    other = sentence(compare_runs(a, c))
    assert re.match(
        r"Same weights under other settings \(sampling\.temperature\): c is tied within ±\d\.\d points, ", other
    )


def test_false_ties_over_six_tasks_come_in_at_most_five_of_a_hundred_comparisons():
    """Six tasks whose true difference is the margin itself: a tie of any of them is false."""
    rng, margin, tied = np.random.default_rng(5), 0.02, {1: 0, 6: 0}
    for _ in range(1000):
        differences = [
            Difference(value=value, standard_error=0.005, degrees=math.inf, num_problems=500)
            for value in rng.normal(margin, 0.005, 6).tolist()
        ]
        for num_claims in tied:
            tied[num_claims] += any(verdict_on(d, math.inf, margin, num_claims) == "tied" for d in differences)
    assert tied[6] <= 65  # 50 expected, standard error 7
    assert tied[1] > 200  # 1 - 0.95^6 = 26 %: what a bound for each task alone promises


def test_a_tie_of_one_task_among_six_needs_the_bound_of_six(make_run, rng):
    rates = rng.random(30)
    tasks = [f"t{i}" for i in range(6)]
    a, b = (make_run(name, {task: rows(rng, rates, 4) for task in tasks}) for name in "ab")
    comparison = compare_runs(a, b)
    assert [task.effects[0].tied_within for task in comparison.tasks] == pytest.approx(
        [task.effects[0].difference.tied_within(6) for task in comparison.tasks]
    )
    assert comparison.average.effects[0].tied_within == comparison.average.effects[0].difference.tied_within()
    widest = max(task.effects[0].tied_within for task in comparison.tasks)
    narrower = compare_runs(a, b, margin=widest - 1e-9).tasks
    assert [task.effects[0].verdict for task in narrower].count("not enough data") == 1


def test_too_little_data_is_said(make_run):
    a, b = make_run("a", {"t": outcome_rows([1, 2, 3])}), make_run("b", {"t": outcome_rows([2, 2, 2])})
    assert sentence(compare_runs(a, b)).startswith("Not enough data to tell b from a: 0.0 points")


def test_nothing_but_the_weights_differs(make_run):
    a, b = make_run("a", {"t": outcome_rows([1, 2])}), make_run("b", {"t": outcome_rows([2, 2])})
    assert compare_runs(a, b).parity == ()
    text = render_comparison(compare_runs(a, b))
    assert "Parity: nothing but the weights differs." in text
    assert "paired by problem and, as the seeds are equal, by sample." in text
    other = make_run("c", {"t": outcome_rows([2, 2])}, identity={"seed": 1})
    assert "; paired by problem.\n" in render_comparison(compare_runs(a, other))


@pytest.mark.parametrize(
    ("identity", "field", "weight"),
    [
        ({"sampling": {"temperature": 0.7, "top_p": 1.0, "max_new_tokens": 64}}, "sampling.temperature", "confounds"),
        (
            {"sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 128}},
            "sampling.max_new_tokens",
            "confounds",
        ),
        ({"tasks": {"t": {"data": "d", "prompts": "p", "prompt_format": "plain"}}}, "tasks.t.data", "confounds"),
        (
            {"tasks": {"t": {"data": "data-t", "prompts": "x", "prompt_format": "plain"}}},
            "tasks.t.prompts",
            "confounds",
        ),
        (
            {"tasks": {"t": {"data": "data-t", "prompts": "p", "prompt_format": "chat"}}},
            "tasks.t.prompt_format",
            "confounds",
        ),
        ({"sampling": {"temperature": 1.0, "top_p": 0.9, "max_new_tokens": 64}}, "sampling.top_p", "confounds"),
        ({"engine": {"name": "vllm", "dtype": "float32"}}, "engine.name", "caution"),
        ({"engine": {"name": "scripted", "dtype": "bfloat16"}}, "engine.dtype", "caution"),
        ({"versions": {"torch": "2.13"}}, "versions.torch", "caution"),
        ({"seed": 7}, "seed", "note"),
    ],
)
def test_the_parity_gate_lists_and_downgrades(make_run, identity, field, weight):
    a = make_run("a", {"t": outcome_rows([0] * 12)})
    b = make_run("b", {"t": outcome_rows([3] * 12)}, identity=identity)
    comparison = compare_runs(a, b)
    assert [(item.field, item.weight) for item in comparison.parity] == [(field, weight)]
    text = sentence(comparison)
    expected = {"confounds": "Not a fair comparison: b scores higher", "caution": f"With caution: {field} differ"}
    assert expected.get(weight, "b is better than a") in text
    assert (weight == "confounds") == ("no evidence about the weights" in text)
    assert f"- {weight}: {field}:" in render_comparison(comparison)


def test_another_grader_version_is_a_confounder(make_run):
    a = make_run("a", {"t": outcome_rows([1] * 5)})
    b = make_run("b", {"t": outcome_rows([3] * 5)}, grader="math-2")
    assert [item.field for item in compare_runs(a, b).confounders] == ["grader"]


def test_the_same_weights_under_two_settings_is_an_effect_of_the_settings(make_run):
    same = {"checkpoint": {"digest": "c"}}
    a = make_run("train", {"t": outcome_rows([0] * 12)}, identity=same)
    sampling = {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 64}
    b = make_run("justrl", {"t": outcome_rows([3] * 12)}, identity={**same, "sampling": sampling})
    text = sentence(compare_runs(a, b))
    assert text.startswith(
        "Same weights under other settings (sampling.temperature, sampling.top_p): justrl scores higher"
    )
    again = make_run("again", {"t": outcome_rows([0] * 12)}, identity={**same, "seed": 1})
    assert sentence(compare_runs(a, again)).startswith("Same weights and settings, and no difference beyond chance")


def test_problems_are_paired_by_id_and_not_by_row(make_run):
    a = make_run("a", {"t": outcome_rows([4, 0, 2])})
    reversed_ids = {"tasks": {"t": {"title": "T", "problem_ids": ["t-2", "t-1", "t-0"], "num_samples": 4}}}
    b = make_run("b", {"t": outcome_rows([4, 0, 2])}, about=reversed_ids)
    (task,) = compare_runs(a, b).tasks
    assert task.effect("problems like these").difference.value == 0.0
    # paired by row the differences would be +2/4, 0, -2/4; paired by id there are none
    assert task.effect("problems like these").difference.standard_error < 0.11


def test_verdicts_per_task_are_corrected_for_their_number(make_run):
    """p = 0.02 on one task of six is no discovery."""
    ids = [f"t{i}" for i in range(6)]
    a = make_run("a", {name: outcome_rows([8] * 10, 16) for name in ids})
    change = {name: outcome_rows([8] * 10, 16) for name in ids}
    change["t0"] = outcome_rows([11, 11, 11, 10, 10, 10, 10, 10, 10, 8], 16)
    comparison = compare_runs(a, make_run("b", change, identity={"seed": 1}))
    raw = comparison.tasks[0].effect("these problems").difference.p_value
    assert raw < 0.05 < 6 * raw
    assert comparison.tasks[0].effect("these problems").p_adjusted == pytest.approx(6 * raw)
    assert comparison.tasks[0].effect("these problems").verdict == "not enough data"


def test_json_has_the_sentence_and_all_numbers(make_run):
    a, b = make_run("a", {"t": outcome_rows([1, 2])}), make_run("b", {"t": outcome_rows([2, 2])})
    found = json.loads(render_comparison(compare_runs(a, b), "json"))
    assert found["sentence"] == sentence(compare_runs(a, b))
    assert found["tasks"][0]["effect"] == 0.125
    assert set(found["average"]["errors"]) == {"these problems", "problems like these"}
    assert found["fair"] is True


def test_a_run_that_stopped_early_is_compared_with_anytime_valid_intervals(make_run):
    from statistics import NormalDist

    import numpy as np

    from stapo_bench.statistics.sequential import stop_when_decided

    rows = {"t": [[1, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]] * 4}
    base = make_run("base", {"t": [[0, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 0]] * 4})
    fixed = compare_runs(base, make_run("fixed", rows, identity={"seed": 1}))
    stopping = {"stopping": {"rule": "--until-decided base", "aim": 0.02}}
    stopped = compare_runs(base, make_run("stopped", rows, identity={"seed": 1}, about=stopping))
    matrices = [np.array(of["t"], dtype=float) for of in (rows, {"t": [[0, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 0]] * 4})]
    found = stopped.average.effect("these problems").difference.interval()
    expected = stop_when_decided([matrices[0]], [matrices[1]], margin=0.02).interval
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.width > 1.4 * fixed.average.effect("these problems").difference.interval().width
    of_task = stopped.tasks[0].effect("these problems")  # the one task: nothing is added for others
    wide = of_task.difference.standard_error
    assert wide > 5 * fixed.tasks[0].effect("these problems").difference.standard_error
    assert of_task.p_adjusted == pytest.approx(2 * NormalDist().cdf(-of_task.difference.value / wide))
    assert any("stopped under --until-decided base: intervals" in note for note in stopped.notes)
    assert not any("every look" in note for note in fixed.notes)


def test_two_scripts_are_two_models(make_run):
    runs = [
        make_run(
            name,
            {"t": [[1, 0]] * 3},
            identity={"checkpoint": {"digest": "script"}, "engine": {"engine": "scripted", "script_sha256": name}},
        )
        for name in ("one", "two")
    ]
    assert not compare_runs(*runs).same_weights
    assert not compare_runs(*runs).parity
    assert compare_runs(runs[0], runs[0]).same_weights


def test_no_difference_has_no_sign():
    from stapo_bench.presenting.words import points

    assert (points(-0.0001), points(0.0), points(0.0001), points(-0.01)) == ("0.0", "0.0", "0.0", "-1.0")


def test_a_long_digest_is_cut_and_other_words_are_not(make_run):
    settings = [{"seed": 1, "engine": {"sha": digit * 64, "words": digit * 63}} for digit in "ab"]
    a, b = (make_run(name, {"t": [[1], [0]]}, identity=of) for name, of in zip("xy", settings, strict=True))
    assert {item.field: (item.a, item.b) for item in compare_runs(a, b).parity} == {
        "engine.sha": ("a" * 12, "b" * 12),
        "engine.words": ("a" * 63, "b" * 63),
    }


def test_a_difference_between_settings_is_told_under_the_error_that_shows_it(make_run):
    hot, cold = ({"checkpoint": {"digest": "c"}, "sampling": {"temperature": t, "top_p": 1.0}} for t in (1.0, 0.5))
    for identity in (hot, cold):
        identity["sampling"]["max_new_tokens"] = 64
    a = make_run("a", {"t": outcome_rows([0] * 12)}, identity=hot)
    # 3 more of 4 on every problem: problems like these show it, too. 4 more on one of them: these alone.
    on_all = make_run("on-all", {"t": outcome_rows([3] * 12)}, identity=cold)
    assert "on-all scores higher, +75.0 points" in sentence(compare_runs(a, on_all))
    assert sentence(compare_runs(a, on_all)).endswith(" on problems like these.")
    on_one = make_run("on-one", {"t": outcome_rows([4] + [0] * 11)}, identity=cold)
    assert "on-one scores higher, +8.3 points" in sentence(compare_runs(a, on_one))
    assert sentence(compare_runs(a, on_one)).endswith(" on these problems.")
