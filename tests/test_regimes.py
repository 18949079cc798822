"""Two checkpoints under two decoding regimes: effects, interaction, and whether the ranking flips."""

import json

import numpy as np
import pytest

from stapo_bench.analysis import compare_runs
from stapo_bench.analysis.regimes import RegimeComparison, compare_regimes
from stapo_bench.errors import StapoError
from stapo_bench.presenting.verdicts import sentence
from stapo_bench.presenting.verdicts_of_regimes import regime_sentence, render_regimes
from stapo_bench.statistics import ERROR_NAMES, paired_difference

HOT = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 64}
COLD = {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 64}


@pytest.fixture
def four(make_run):
    """A and B with so many of 16 samples right on every one of 12 problems, under both regimes."""

    def make(a1, b1, a2, b2, **other):
        """``other``: by name of a run, what ``make_run`` is told of it besides."""
        return [
            make_run(
                name,
                {"t": [[1] * right + [0] * (16 - right)] * 12},
                **{
                    **other.get(name, {}),
                    "identity": {
                        "checkpoint": {"digest": name[0]},
                        "sampling": sampling,
                        **other.get(name, {}).get("identity", {}),
                    },
                },
            )
            for name, right, sampling in (("A1", a1, HOT), ("B1", b1, HOT), ("A2", a2, COLD), ("B2", b2, COLD))
        ]

    return make


def test_contrasts_by_hand(four):
    comparison = compare_regimes(*four(4, 6, 8, 9))
    values = {name: found["these problems"].value for name, found in comparison.contrasts.items()}
    assert values == {
        "effect under 1": pytest.approx(2 / 16),
        "effect under 2": pytest.approx(1 / 16),
        "regime on A": pytest.approx(4 / 16),
        "regime on B": pytest.approx(3 / 16),
        "interaction": pytest.approx(-1 / 16),
    }
    assert comparison.ranking("these problems") == "the same"
    assert "The ranking is the same under both regimes" in regime_sentence(comparison)


def test_a_change_within_chance_is_said(four):
    text = regime_sentence(compare_regimes(*four(4, 6, 8, 10)))
    assert "the change of 0.0" in text
    assert text.endswith("is within chance.")


def test_a_flipped_ranking_is_said_with_its_certainty(four):
    comparison = compare_regimes(*four(4, 8, 12, 6))
    assert comparison.ranking("these problems") == comparison.ranking("problems like these") == "flips"
    text = regime_sentence(comparison)
    assert text.startswith("The ranking flips with the regime on problems like these: B − A is +25.0")
    assert "under T=1.0, top-p 1.0 and -37.5" in text
    assert "beyond chance on problems like these" in text
    assert "| interaction | -62.5 [" in render_regimes(comparison)
    ranking = {"these problems": "flips", "problems like these": "flips"}
    assert json.loads(render_regimes(comparison, "json"))["ranking"] == ranking


def test_opposite_estimates_within_chance_are_no_flip(make_run):
    """+5 and -5 points on 12 problems of mixed signs, each within chance."""
    right = {"A1": [4, 9] * 6, "B1": [8, 6] * 5 + [9, 10], "A2": [8, 6] * 5 + [9, 10], "B2": [4, 9] * 6}
    runs = [
        make_run(
            name,
            {"t": [[1] * count + [0] * (16 - count) for count in counts]},
            identity={
                "checkpoint": {"digest": name[0]},
                "sampling": HOT if name[1] == "1" else COLD,
                "seed": int(name[0] == "B"),
            },
        )
        for name, counts in right.items()
    ]
    comparison = compare_regimes(*runs)
    effects = [comparison.contrasts[f"effect under {i}"]["these problems"].value for i in (1, 2)]
    assert effects == [pytest.approx(11 / 192), pytest.approx(-11 / 192)]
    assert [comparison.ranking(error) for error in ERROR_NAMES] == ["open", "open"]
    assert regime_sentence(comparison).startswith("Whether the ranking flips is open")


def test_a_change_that_is_shown_without_both_effects_is_no_flip(four):
    """+50 points under one regime, -1 (not told apart) under the other: the regime matters; no flip is shown."""
    comparison = compare_regimes(*four(4, 12, 8, 8))
    assert comparison.ranking("problems like these") == "open"
    assert regime_sentence(comparison).startswith("The regime changes B − A, but whether the ranking flips is open")


def test_one_order_under_both_regimes_is_said_with_its_error(four):
    comparison = compare_regimes(*four(4, 12, 4, 12))
    assert comparison.ranking("problems like these") == "the same"
    assert regime_sentence(comparison).startswith("The ranking is the same under both regimes on problems like these")


def test_equal_checkpoints_flip_in_at_most_five_of_a_hundred():
    """Point estimates have opposite signs in half of all repetitions."""
    rng, flips, opposite = np.random.default_rng(3), 0, 0
    for _ in range(400):
        effects = [paired_difference(*rng.binomial(1, 0.5, (2, 30, 8)).astype(float), "these problems") for _ in "12"]
        contrasts = {f"effect under {i}": {"these problems": e} for i, e in enumerate(effects, start=1)}
        found = RegimeComparison(
            names=("A1", "B1", "A2", "B2"),
            regimes=("1", "2"),
            num_tasks=1,
            contrasts=contrasts,
            others=(),
            notes=(),
        )
        flips += found.ranking("these problems") == "flips"
        opposite += effects[0].value * effects[1].value < 0
    assert flips <= 4  # 0.5 expected: both of two tests at 5 %, with opposite signs
    assert opposite > 160


def test_four_runs_that_are_no_square_are_refused(four):
    a1, b1, a2, b2 = four(4, 6, 8, 9)
    with pytest.raises(StapoError, match="expected A and B under one regime, then the same A and B under the other"):
        compare_regimes(a1, b1, b2, a2)
    with pytest.raises(StapoError, match="expected A and B under one regime"):
        compare_regimes(a1, b2, a2, b1)


OTHER_PROMPTS = {"tasks": {"t": {"data": "data-t", "prompts": "q", "prompt_format": "plain"}}}


@pytest.mark.parametrize(
    ("other", "field", "notes"),
    [
        ({"B2": {"grader": "math-2"}}, "grader", ["math-1 in A2, math-2 in B2", "math-1 in B1, math-2 in B2"]),
        (
            {"A2": {"identity": {"sampling": {**COLD, "max_new_tokens": 128}}}},
            "sampling.max_new_tokens",
            ["128 in A2, 64 in B2", "64 in A1, 128 in A2"],
        ),
        ({"A1": {"identity": OTHER_PROMPTS}}, "tasks.t.prompts", ["q in A1, p in B1", "q in A1, p in A2"]),
        (
            {name: {"identity": {"sampling": {**COLD, "max_new_tokens": 128}}} for name in ("A2", "B2")},
            "sampling.max_new_tokens",
            ["64 in A1, 128 in A2", "64 in B1, 128 in B2"],
        ),
    ],
)
def test_what_else_differs_leaves_no_evidence(four, other, field, notes):
    comparison = compare_regimes(*four(4, 8, 12, 6, **other))
    assert comparison.notes == tuple(f"confounds: {field}: {note}" for note in notes)
    text = regime_sentence(comparison)
    assert text.startswith("Not a fair comparison: B − A is +25.0")
    assert f"but {field} differ as well, so this is no evidence about the weights or the regime." in text
    assert json.loads(render_regimes(comparison, "json"))["fair"] is False


def test_what_differs_for_several_tasks_is_said_once(make_run):
    """Both runs of A asked with other prompts, those of each task its own, in one and the same style."""
    rows = [[1, 0, 1, 0]] * 4
    runs = []
    for name, sampling in (("A1", HOT), ("B1", HOT), ("A2", COLD), ("B2", COLD)):
        tasks = {
            task: {
                "data": f"d-{task}",
                "prompts": f"{task}-{name[0]}",
                "prompt_format": {"A": "chat", "B": "plain"}[name[0]],
            }
            for task in ("t", "u.v")
        }
        identity = {"checkpoint": {"digest": name[0]}, "sampling": sampling, "tasks": tasks}
        runs.append(make_run(name, {"t": rows, "u.v": rows}, identity=identity))
    found = compare_regimes(*runs)
    assert found.notes == tuple(
        note
        for i in "12"
        for note in (
            f"confounds: prompt_format of T, U.V: chat in A{i}, plain in B{i}",
            f"confounds: prompts of T, U.V: one for each in A{i}, one for each in B{i}",
        )
    )
    assert "; but prompt_format of T, U.V, prompts of T, U.V differ as well" in regime_sentence(found)
    compared = compare_runs(*runs[:2])
    assert "but prompt_format of T, U.V, prompts of T, U.V differ as well" in sentence(compared)
    assert len(compared.confounders) == 4  # each, for a program


def test_another_engine_asks_for_caution(four):
    other = {"engine": {"name": "vllm", "dtype": "float32"}}
    text = regime_sentence(compare_regimes(*four(4, 8, 12, 6, B2={"identity": other})))
    assert text.startswith("The ranking flips with the regime on problems like these: B − A is +25.0")
    assert text.endswith("beyond chance on problems like these. With caution: engine.name differ.")


def test_another_seed_is_what_runs_should_have(four):
    comparison = compare_regimes(*four(4, 8, 12, 6, B2={"identity": {"seed": 1}}))
    assert (comparison.notes, comparison.others) == ((), ())


def test_what_is_not_drawn_is_said(four):
    notes = compare_regimes(*four(4, 8, 12, 6, A2={"num_samples": 20})).notes
    assert notes == ("T: A2 has 192 of 240 samples; the rest is not drawn",)


def test_one_regime_twice_is_refused(four):
    same = {name: {"identity": {"sampling": {**HOT, "max_new_tokens": 128}}} for name in ("A2", "B2")}
    with pytest.raises(StapoError, match=r"^expected two decoding regimes, got T=1\.0, top-p 1\.0 twice: A1, A2$"):
        compare_regimes(*four(4, 8, 12, 6, **same))


def test_a_run_that_stopped_itself_widens_what_it_takes_part_in(four):
    runs = four(4, 6, 8, 9)
    fixed = compare_regimes(*runs)
    manifest = json.loads((runs[3] / "manifest.json").read_text())
    manifest["about"]["stopping"] = {"rule": "--until-decided A2", "aim": 0.02}
    (runs[3] / "manifest.json").write_text(json.dumps(manifest))
    found = compare_regimes(*runs)
    for name, takes_part in {"effect under 1": 0, "regime on A": 0, "effect under 2": 1, "interaction": 1}.items():
        for error, difference in found.contrasts[name].items():
            before = fixed.contrasts[name][error]
            assert (difference.standard_error > 1.4 * before.standard_error) == takes_part
    assert "- B2 stopped under --until-decided A2: intervals and p-values are widened" in render_regimes(found)
    assert json.loads(render_regimes(found, "json"))["notes"] == list(found.notes)
    assert fixed.notes == ()
