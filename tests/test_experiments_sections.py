"""The experiments' sections that compare over seeds: ranking, stability, late reward, regimes."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from stapo_bench.draws import CountedRun
from stapo_bench.figures.style import look
from stapo_bench.over_seeds import compare_over_seeds

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts" / "experiments"))

import forest
import sections

import results


def results_of(rates):
    """Two decodings, five seeds of ten problems; a variant's runs are right ``rate`` of ten times, a little off."""
    scores, runs = {}, {}
    for decoding, by_variant in rates.items():
        runs[decoding] = {
            variant: [
                CountedRun(counts={"t": {f"p{i}": (rate + (i + seed) % 2, 12) for i in range(10)}}) for seed in range(5)
            ]
            for variant, rate in by_variant.items()
        }
        scores[decoding] = {
            variant: [SimpleNamespace(macro=SimpleNamespace(value=rate / 12)) for _ in range(5)]
            for variant, rate in by_variant.items()
        }
    first = next(iter(rates.values()))
    names = list(first)
    return SimpleNamespace(
        experiment=SimpleNamespace(reference=names[0]),
        told=["B"],
        same={},
        scores=scores,
        comparisons={d: compare_over_seeds(found, [(names[0], n) for n in names[1:]]) for d, found in runs.items()},
        stabilities=lambda: {"A": [0.5, 0.6, 0.7], "B": [0.6, 0.7, 0.9]},
        late_rewards=lambda: {"A": [0.80, 0.81, 0.82], "B": [0.82, 0.83, 0.85]},
    )


def test_the_ranking_names_those_that_change_places():
    results = results_of({"training": {"A": 3, "B": 5, "C": 6}, "justrl": {"A": 5, "B": 3, "C": 8}})
    found = sections.ranking(results, Path())
    assert "- training: C > B > A" in found.text and "- justrl: C > A > B" in found.text
    assert found.answers[-1].startswith("Of 3 pairs 1 change places between training and justrl (A and B)")


def test_the_ranking_names_those_that_are_told_apart():
    # C: one of twelve more at a third of the problems, another third with each seed; B: nothing that varies.
    a, b, c = (
        [CountedRun(counts={"t": {f"p{i}": (5 + off * ((i + s) % 3 == 0), 12) for i in range(30)}}) for s in range(5)]
        for off in (0, 0, 4)
    )
    found = results_of({"training": {"A": 5, "B": 5, "C": 6}})
    found.comparisons = {"training": compare_over_seeds({"A": a, "B": b, "C": c}, [("A", "B"), ("A", "C")])}
    (answer,) = sections.ranking(found, Path()).answers
    assert answer == "training: told apart from A on seeds and problems like these: C better (+11.1 points)."
    found.comparisons = {"training": compare_over_seeds({"A": a, "B": b}, [("A", "B")])}
    assert sections.ranking(found, Path()).answers[0].endswith("like these: none.")


def test_the_ranking_counts_equal_trainings_once():
    found = results_of({"training": {"A": 3, "B": 3, "C": 6}, "justrl": {"A": 8, "B": 8, "C": 6}})
    found.same = {"B": "A"}
    ranked = sections.ranking(found, Path())
    assert "- training: C > A\n- justrl: A > C" in ranked.text
    assert ranked.answers[-1].startswith("Of 1 pairs 1 change places")


def test_the_same_weights_with_every_seed_are_one_training(tmp_path):
    def training(variant, seed, weights):
        folder = tmp_path / f"{variant}-{seed}"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(weights)
        return SimpleNamespace(variant=variant, folder=folder, checkpoint=lambda base, step: folder)

    weights = {"A": (b"a", b"b"), "B": (b"a", b"b"), "C": (b"a", b"c"), "D": (b"d", b"d"), "E": (b"d", b"d")}
    made = [training(variant, seed, one) for variant, found in weights.items() for seed, one in enumerate(found)]
    for reference, same in (("B", {"A": "B", "E": "D"}), ("E", {"B": "A", "D": "E"}), ("C", {"B": "A", "E": "D"})):
        found = results.Results(SimpleNamespace(reference=reference), tmp_path)
        found.__dict__["trainings"] = made
        assert found.same == same


def test_the_figure_of_differences_shows_both_intervals_and_leaves_out_the_untrained(tmp_path):
    found = results_of({"training": {"A": 5, "B": 6, "Base": 1, "same": 5}})
    found.experiment.variants = {"A": ["a"], "B": ["b"], "Base": [], "same": ["a"]}
    found.same, found.seeds = {"same": "A"}, range(5)
    section = sections.differences(found, tmp_path)
    assert section.text.endswith("Not shown: Base (training: -33.3).") and "5 seeds" in section.text
    assert b"</svg>" in (tmp_path / "differences.svg").read_bytes()
    a, b = (
        [CountedRun(counts={"t": {f"p{i}": (5 + off * (i * s % 3), 12) for i in range(10)}}) for s in range(5)]
        for off in (0, 1)
    )
    (first,) = compare_over_seeds({"A": a, "B": b}, [("A", "B")])
    axes = Figure().subplots()
    forest.draw_panel(axes, [first], {"B": "STAPO"})
    ends = [(100 * e.difference.interval().low, 100 * e.difference.interval().high) for e in first.effects]
    bars = [tuple(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2]
    assert bars[1:] == [pytest.approx(pair) for pair in ends]
    assert {line.get_color() for line in axes.lines[1:]} == {look("STAPO").colour}
    assert axes.lines[-1].get_xdata() == pytest.approx([100 * first.effects[0].difference.value])


def test_stability_and_late_reward_are_paired_over_seeds():
    # Changes 0.1, 0.1, 0.2: mean 0.133, standard error 1/30, t_0.975(2) = 4.303: 0.133 -+ 0.143.
    # Rewards: 0.02, 0.02, 0.03: mean 0.0233, standard error 1/300: 0.0233 -+ 0.0143, which leaves out 0.
    found = sections.stability(results_of({"training": {"A": 3, "B": 5}}), Path())
    assert "| A | 0.600 | – | 0.810 | – |" in found.text
    assert "| B | 0.733 | +0.133 [-0.010, +0.277] | 0.833 | +0.023 [+0.009, +0.038] |" in found.text
    assert found.answers == [
        "B's entropy stability is not told apart from A's: +0.133 [-0.010, +0.277] (3 seeds).",
        "B's late reward is above A's: +0.023 [+0.009, +0.038] (3 seeds).",
    ]
    assert np.isclose(0.4 / 3 - 4.302653 / 30, -0.010, atol=5e-4)


def test_late_reward_is_that_of_the_last_tenth(tmp_path):
    (tmp_path / "config.yaml").write_text("out: x\nseed: 1\nobjective: {name: stapo}\n")
    rewards = [0.1] * 18 + [0.5, 0.7]
    lines = [f'{{"iteration": {i}, "reward": {r}, "entropy": 0.5}}\n' for i, r in enumerate(rewards, start=1)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    found = results.Results(SimpleNamespace(), tmp_path)
    found.__dict__["trainings"] = [SimpleNamespace(variant="A", folder=tmp_path)]
    assert found.late_rewards() == {"A": [pytest.approx(0.6)]} and found.stabilities() == {"A": [1.0]}


def test_regimes_are_counted_over_seeds(tmp_path):
    trainings = []
    for seed, ends in enumerate(("0.1", "0.9")):
        folder = tmp_path / str(seed)
        folder.mkdir()
        lines = [f'{{"entropy": {entropy}}}\n' for entropy in ["0.5"] * 5 + [ends] * 10]
        (folder / "metrics.jsonl").write_text("".join(lines))
        trainings.append(SimpleNamespace(variant="A", folder=folder))
    results = SimpleNamespace(variants=["A"], trainings=trainings)
    # 0.1 is below 0.5 / 4, 0.9 is below 4 * 0.5; the scores are 1/5 and 5/9, their mean 0.378.
    found = sections.regimes(results, Path())
    assert "| A | 1 | 0 | 1 | 0.500 | 0.500 | 0.378 |" in found.text
    assert found.answers == ["A: collapse in 1 of 2 seeds."]
    steady = SimpleNamespace(variants=["A"], trainings=trainings[1:])
    assert "neither collapses nor explodes" in sections.regimes(steady, Path()).answers[0]
