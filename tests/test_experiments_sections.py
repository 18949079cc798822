"""The experiments' sections that compare over seeds: ranking, stability, late reward, regimes."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from stapo_bench.analysis.plan import Components
from stapo_bench.analysis.seed_comparison import compare_over_seeds
from stapo_bench.presenting.figures.seeds import draw_panel
from stapo_bench.presenting.figures.style import look
from stapo_bench.records import Outcomes
from stapo_train.experiments import evaluation_questions, findings, sections, targets


def score_of(value, run):
    tasks = [
        SimpleNamespace(
            task=task,
            counts={
                problem_id: (int(np.nansum(row)), int(np.isfinite(row).sum()))
                for problem_id, row in zip(found.problem_ids, found.scores, strict=True)
            },
        )
        for task, found in run.items()
    ]
    return SimpleNamespace(macro=SimpleNamespace(value=value), tasks=tasks)


def results_of(rates):
    """Two decodings, five seeds of ten problems; a variant's runs are right ``rate`` of ten times, a little off."""
    scores, runs = {}, {}
    for decoding, by_variant in rates.items():
        runs[decoding] = {
            variant: [
                {"t": Outcomes.of_counts({f"p{i}": (rate + (i + seed) % 2, 12) for i in range(10)})}
                for seed in range(5)
            ]
            for variant, rate in by_variant.items()
        }
        scores[decoding] = {
            variant: [score_of(rate / 12, run) for run in runs[decoding][variant]]
            for variant, rate in by_variant.items()
        }
    first = next(iter(rates.values()))
    names = list(first)
    return SimpleNamespace(
        experiment=SimpleNamespace(reference=names[0], untrained=["Base"]),
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
    assert "- T=1.0, top-p 1.0: C > B > A" in found.text and "- T=0.7, top-p 0.9: C > A > B" in found.text
    between = "between T=1.0, top-p 1.0 and T=0.7, top-p 0.9"
    assert found.answers[-2] == f"Of 3 pairs 1 change places {between}: A and B."


def test_the_ranking_names_the_differences_that_change():
    rng = np.random.default_rng(3)

    def runs(rate):
        """Five seeds of 40 problems, each with its own noise."""
        return [
            {"t": Outcomes.of_counts({f"p{i}": (int(n), 20) for i, n in enumerate(rng.binomial(20, rate, 40))})}
            for _ in range(5)
        ]

    rates = {
        "training": {"A": 0.3, "B": 0.5, "C": 0.4, "Base": 0.1},
        "justrl": {"A": 0.6, "B": 0.6, "C": 0.7, "Base": 0.6},
    }
    found = results_of({decoding: dict.fromkeys(of, 5) for decoding, of in rates.items()})
    found.scores = {
        d: {v: [score_of(rate, run) for run in runs(rate)] for v, rate in of.items()} for d, of in rates.items()
    }
    told = sections.ranking(found, Path()).answers[-1]
    # B gains 20 points on A in the first regime and none in the second; C gains 10 in both; Base is not told.
    assert re.fullmatch(
        r"Differences from A that change between .* Holm\): B by -(1[6-9]|2[0-4])\.\d \[-.*, -.*\]\.", told
    )


def test_pairs_are_compared_whichever_is_the_reference():
    def run(right, seed):
        return {"t": Outcomes.of_counts({f"p{i}": (right + (i + seed) % 2, 12) for i in range(10)})}

    # B is right 3 of 12 times more often than C, with every seed and problem: 25 points; A is not asked.
    rates = {"A": 1, "B": 8, "C": 5}
    scores = {name: [score_of(0.5, run(rate, seed)) for seed in range(5)] for name, rate in rates.items()}
    asked = SimpleNamespace(reference="A", pairs=[["C", "B"], ["D", "B"]])
    results = SimpleNamespace(experiment=asked, scores={"training": scores}, variants=list(scores))
    results.compared = lambda *given: findings.Findings.compared(results, *given)
    section = sections.pairs(results, Path())
    rows = [line for line in section.text.splitlines() if line.startswith("| B |")]
    assert len(rows) == 1 and rows[0].startswith("| B | C | T=1.0, top-p 1.0 | +25.0 [")
    assert rows[0].endswith("| better |")
    (answer,) = section.answers
    assert answer.startswith("T=1.0, top-p 1.0: B is better than C: +25.0 points") and answer.endswith("(5 seeds).")
    assert section.text.endswith("which is by Holm over these pairs of a way of decoding.")


def test_the_ranking_names_those_that_are_told_apart():
    # C: four of twelve more at a third of the problems, another third with each seed; B: nothing that varies.
    a, b, c = (
        [{"t": Outcomes.of_counts({f"p{i}": (5 + off * ((i + s) % 3 == 0), 12) for i in range(31)})} for s in range(5)]
        for off in (0, 0, 4)
    )
    found = results_of({"training": {"A": 5, "B": 5, "C": 6}})
    found.comparisons = {"training": compare_over_seeds({"A": a, "B": b, "C": c}, [("A", "B"), ("A", "C")])}
    (answer,) = sections.ranking(found, Path()).answers
    assert answer == "T=1.0, top-p 1.0: told apart from A on seeds and problems like these: C better (+11.2 points)."
    found.comparisons = {"training": compare_over_seeds({"A": a, "B": b}, [("A", "B")])}
    assert sections.ranking(found, Path()).answers[0].endswith("like these: none.")


def test_the_ranking_counts_equal_trainings_once():
    found = results_of({"training": {"A": 3, "B": 3, "C": 6}, "justrl": {"A": 8, "B": 8, "C": 6}})
    found.same = {"B": "A"}
    ranked = sections.ranking(found, Path())
    assert "- T=1.0, top-p 1.0: C > A\n- T=0.7, top-p 0.9: A > C" in ranked.text
    assert ranked.answers[-2].startswith("Of 1 pairs 1 change places")


def test_the_same_weights_with_every_seed_are_one_training(tmp_path):
    def training(variant, seed, weights):
        folder = tmp_path / f"{variant}-{seed}"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(weights)
        return SimpleNamespace(variant=variant, folder=folder, checkpoint=folder)

    weights = {"A": (b"a", b"b"), "B": (b"a", b"b"), "C": (b"a", b"c"), "D": (b"d", b"d"), "E": (b"d", b"d")}
    made = [training(variant, seed, one) for variant, found in weights.items() for seed, one in enumerate(found)]
    for reference, same in (("B", {"A": "B", "E": "D"}), ("E", {"B": "A", "D": "E"}), ("C", {"B": "A", "E": "D"})):
        found = findings.Findings(SimpleNamespace(reference=reference, told=["A", "D", "C"]), tmp_path)
        found.__dict__.update(trainings=made, variants=weights)
        assert found.same == same
        # One training is not compared with itself: its differences from the reference would say nothing.
        assert found.told == {"B": ["D", "C"], "E": ["A", "C"], "C": ["A", "D", "C"]}[reference]


def test_the_figure_of_differences_shows_both_intervals_and_leaves_out_the_untrained(tmp_path):
    found = results_of({"training": {"A": 5, "B": 6, "Base": 1, "same": 5}})
    found.experiment.variants = {"A": ["a"], "B": ["b"], "Base": [], "same": ["a"]}
    found.same, found.seeds = {"same": "A"}, range(5)
    section = sections.differences(found, tmp_path)
    assert section.text.endswith("Not shown: Base (T=1.0, top-p 1.0: -33.3).") and "5 seeds" in section.text
    assert b"</svg>" in (tmp_path / "differences.svg").read_bytes()
    a, b = (
        [{"t": Outcomes.of_counts({f"p{i}": (5 + off * (i * s % 3), 12) for i in range(10)})} for s in range(5)]
        for off in (0, 1)
    )
    (first,) = compare_over_seeds({"A": a, "B": b}, [("A", "B")])
    axes = Figure().subplots()
    draw_panel(axes, [first], ["STAPO"])
    ends = [(100 * e.difference.interval().low, 100 * e.difference.interval().high) for e in first.effects]
    bars = [tuple(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2]
    assert bars[1:] == [pytest.approx(pair) for pair in ends]
    assert {line.get_color() for line in axes.lines[1:]} == {look("STAPO").colour}
    assert axes.lines[-1].get_xdata() == pytest.approx([100 * first.effects[0].difference.value])


def test_stability_and_late_reward_are_paired_over_seeds():
    # Changes 0.1, 0.1, 0.2: mean 0.133, standard error 1/30, t_0.975(2) = 4.303: 0.133 -+ 0.143.
    # Rewards: 0.02, 0.02, 0.03: mean 0.0233, standard error 1/300: 0.0233 -+ 0.0143, which leaves out 0.
    found = sections.stability(results_of({"training": {"A": 3, "B": 5}}), Path())
    assert "| A | 0.600 | – | – | 0.810 | – | – |" in found.text
    assert "| B | 0.733 | +0.133 [-0.010, +0.277] | 0.057 | 0.833 | +0.023 [+0.009, +0.038] | 0.020 |" in found.text
    assert found.answers == [
        "B's entropy stability is not told apart from A's: +0.133 [-0.010, +0.277] (3 seeds).",
        "B's late reward is above A's: +0.023 [+0.009, +0.038] (3 seeds).",
    ]
    assert np.isclose(0.4 / 3 - 4.302653 / 30, -0.010, atol=5e-4)
    # With a second variant p of B's reward is 0.040, of three 0.060: Holm.
    more = results_of({"training": {"A": 3, "B": 5}})
    more.late_rewards = lambda: {**results_of({"training": {"A": 3}}).late_rewards(), "C": [1, 0, 1], "D": [0, 1, 0.8]}
    more.stabilities = lambda: {key: [0.5, 0.6, 0.7] for key in "ABCD"}
    assert "not told apart from A's: +0.023" in sections.stability(more, Path()).answers[-1]


def test_late_reward_is_that_of_the_last_tenth(tmp_path):
    (tmp_path / "config.yaml").write_text("out: x\nseed: 1\nobjective: {name: stapo}\n")
    rewards = [0.1] * 18 + [0.5, 0.7]
    lines = [f'{{"iteration": {i}, "reward": {r}, "entropy": 0.5}}\n' for i, r in enumerate(rewards, start=1)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    found = findings.Findings(SimpleNamespace(), tmp_path)
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
    # 0.1 is below 0.5 / 4, 0.9 is below 4 * 0.5.
    found = sections.regimes(results, Path())
    assert "| A | 1 | 0 | 1 | 0.500 | 0.500 | 0.20 to 1.80 |" in found.text
    assert found.answers == [
        "Entropy collapses: A (1 of 2 seeds).", "It explodes: nowhere.", "It ends at 0.20 to 1.80 of where it began.",
    ]  # fmt: skip
    steady = SimpleNamespace(variants=["A"], trainings=trainings[1:])
    assert sections.regimes(steady, Path()).answers[:2] == ["Entropy collapses: nowhere.", "It explodes: nowhere."]


def test_a_target_entropy_is_held_or_not(tmp_path, monkeypatch):
    # Gated at 0.3 nats, the band 0.27 to 0.33: open from iteration 2 and 3, in the band in 1 of 3 and 0 of 2 after it.
    curves = {
        ("gated", 1): [0.4, 0.28, 0.2, 0.2],
        ("gated", 2): [0.5, 0.4, 0.2, 0.1],
        ("plain", 1): [0.4, 0.3, 0.2, 0.1],
        ("plain", 2): [0.5, 0.3, 0.2, 0.1],
        ("other", 1): [0.4, 0.3, 0.2, 0.2],
        ("other", 2): [0.5, 0.3, 0.2, 0.2],
    }
    trainings = []
    for (variant, seed), entropies in curves.items():
        folder = tmp_path / f"{variant}{seed}"
        folder.mkdir()
        (folder / "metrics.jsonl").write_text("".join(f'{{"entropy": {value}}}\n' for value in entropies))
        objective = {"name": "stare" if variant == "gated" else "justrl"}
        trainings.append(SimpleNamespace(variant=variant, folder=folder, config=SimpleNamespace(objective=objective)))
    drawn = []
    monkeypatch.setattr(targets, "draw_targets", lambda sources, levels, path: drawn.append((sources, levels, path)))
    results = SimpleNamespace(trainings=trainings, experiment=SimpleNamespace(reference="plain"), sources="logs")
    found = targets.target_entropy(results, tmp_path)
    assert drawn == [("logs", [0.3], tmp_path / "target.svg")] and "](target.svg)" in found.text
    # Ends 0.2 and 0.1: -0.1 and -0.2 from 0.3, mean -0.15, standard error 0.05, t_0.975(1) = 12.706: -0.15 -+ 0.635;
    # +0.1 and 0 from the plain one's: +0.05 -+ 0.635.
    assert "| gated | 0.3 | 2 to 3 | 17% | -0.150 [-0.785, +0.485] | +0.050 [-0.585, +0.685] |" in found.text
    assert "| other | none | – | – | – | +0.100 [–] |" in found.text
    assert "plain |" not in found.text.split("|---")[-1]
    assert found.answers[0].startswith("gated's gate opens at iteration 2 to 3; from there on entropy is within 10% of")
    for training in trainings:
        training.config.objective["max_entropy"] = 0.05
        if training.variant != "gated":
            training.config.objective = {"name": "justrl"}
    never = targets.target_entropy(results, tmp_path)
    assert never.answers == ["gated's entropy never falls below its target of 0.05 nats (2 seeds)."]


def test_a_target_and_its_band_are_drawn():
    ax = Figure().subplots()
    targets.mark_targets(ax, [0.3])
    assert ax.patches[0].get_y() == pytest.approx(0.27) and ax.patches[0].get_height() == pytest.approx(0.06)
    assert list(ax.lines[0].get_ydata()) == [0.3, 0.3]


def test_printed_gains_are_of_the_two_aime_tasks_and_of_models_that_both_tables_have():
    # By hand: (44.2 + 23.8 - 35.7 - 17.1) / 2 = 7.6 at 7B, ..., 12.9 at 1.5B; of five models DAPO is printed for four.
    gains = targets.printed_gains("stare", "STARE-O1", "stare_cited", "DAPO")
    assert [round(100 * points, 2) for points, _ in gains] == [7.6, 4.65, 12.9, 9.15]
    assert round(100 * gains[0][1], 1) == 28.8  # 15.2 / 52.8


def test_the_gain_on_aime_is_of_those_two_tasks_alone():
    def run(right):
        return {
            task: Outcomes.of_counts({f"p{i}": (right[task] + i % 2, 12) for i in range(10)})
            for task in ("tiny_aime24", "tiny_aime25", "tiny_minerva")
        }

    base = {"tiny_aime24": 4, "tiny_aime25": 6, "tiny_minerva": 1}
    # 6 of 12 more on one of the two tasks: 25 points on average; the third task, worse by 1 of 12, is not asked.
    better = {"tiny_aime24": 10, "tiny_aime25": 6, "tiny_minerva": 0}
    runs = {"A": run(base), "B": run(better)}
    scores = {"training": {name: [score_of(0.5, found) for _ in range(5)] for name, found in runs.items()}}
    variants = {"A": ["objective.name=dapo"], "B": ["objective.name=lp-reg"], "C": ["objective.name=stare"]}
    results = SimpleNamespace(
        experiment=SimpleNamespace(reference="A", untrained=[], variants=variants),
        scores=scores, variants=["A", "B"], same={}, told=["B"],
    )  # fmt: skip
    found = targets.aime_gain(results, Path())
    # Printed: (50.83 + 37.92 - 46.04 - 34.38) / 2 = 4.165, which is 10.4 % of 40.21. C has no finished seed.
    assert "| LpReg_on over GRPO_on | Lp-Reg | 1 | +4.2 | +10.4 % |" in found.text
    assert "| Lp-Reg over DAPO | Cited in STARE's table | 2 | -1.4 to +0.7 | -4.3 to +2.3 % |" in found.text
    assert "STARE-O1" not in found.text
    # A's mean is (4.5 + 6.5) / 24 = 0.458: 25 points are 54.5 % of it.
    assert "| B | T=1.0, top-p 1.0 | +25.0 [" in found.text and "+54.5 %" in found.text
    ends = r"\[[^]]+\] on seeds like these, \[[^]]+\] on seeds and problems like these"
    assert re.search(rf"from A: \+25\.0 points \(\+54\.5 %\), {ends} \(5 seeds\)\.$", found.answers[0])


def planned(*components):
    return [SimpleNamespace(components=Components(within=1.0, **one)) for one in components]


def test_the_samples_of_an_average_by_hand():
    # 0.02 is shown with 80 % power by a standard error of 0.02 / 2.8016 = 0.0071388: variance 5.0963e-5.
    allowed = (0.02 / (1.959964 + 0.841621)) ** 2
    one = {"noise": 200 * allowed, "between": 50 * allowed, "num_problems": 100}
    factor = evaluation_questions.samples_factor
    assert factor(planned(one), "these problems") == pytest.approx(2.0, rel=1e-5)
    # Half of what is allowed is between problems, so the noise must fall to a quarter of what it is.
    assert factor(planned(one), "problems like these") == pytest.approx(4.0, rel=1e-5)
    # Two such tasks: their mean has half the variance.
    assert factor(planned(one, one), "these problems") == pytest.approx(1.0, rel=1e-5)
    assert factor(planned({**one, "between": 101 * allowed}), "problems like these") == np.inf
    assert evaluation_questions._factor(np.inf) == "no number of times"


def test_signs_that_another_grader_turns_are_counted(make_run):
    runs = {"A": make_run("a", {"t": [[1, 0], [1, 0], [1, 0]]}), "B": make_run("b", {"t": [[1, 1], [1, 1], [1, 0]]})}
    for name, turned in (("A", {"CORRECT": "CORRECT", "INCORRECT": "CORRECT"}), ("B", {"CORRECT": "INCORRECT"})):
        grades = (runs[name] / "grades" / "math.jsonl").read_text()
        strict = re.sub(r'"(CORRECT|INCORRECT)"', lambda m, turned=turned: f'"{turned.get(m[1], m[1])}"', grades)
        (runs[name] / "grades" / "strict.jsonl").write_text(strict)
    experiment = SimpleNamespace(reference="A", untrained=[], graders=["strict", "other"])
    found = SimpleNamespace(
        experiment=experiment, variants=["A", "B"], seeds=[1], scores={"training": {}}, comparisons={"training": []},
        folder=lambda variant, seed, decoding: runs[variant], graded=lambda *_: {}, compared=lambda _: [],
    )  # fmt: skip
    section = evaluation_questions.flips(found, Path())
    assert "strict 0 of 0 verdicts over seeds are others, and 1 signs of pairs" in section.answers[0]
    assert "other 0 of 0 verdicts over seeds are others, and 0 signs of pairs" in section.answers[0]
    assert section.text.splitlines()[2] == f"- {section.answers[0]}"
    assert section.text.splitlines()[3].startswith("  - b and a (+33.3): grader 'strict' sees the opposite sign")


def test_what_truncation_and_graders_could_turn_is_told_by_pair(make_run):
    (ours,) = results_of({"training": {"A": 3, "B": 5}}).comparisons["training"]
    other = replace(ours, effects=(ours.effects[0], replace(ours.effects[1], verdict="worse")))
    cut = {"finish_reason": "length"}
    runs = {
        "A": make_run("a", {"t": [[1, 0], [0, 0]]}, sample=lambda *at: cut if at[1:] == (1, 0) else {}),
        "B": make_run("b", {"t": [[1, 1], [0, 0]]}, sample=lambda *at: {}),
        "C": make_run("c", {"t": [[1, 1], [1, 1]]}, sample=lambda *at: {}),
    }
    scored = [SimpleNamespace(tasks=[SimpleNamespace(num_truncated=n, num_samples=2000)]) for n in (1, 0)]
    found = SimpleNamespace(
        experiment=SimpleNamespace(reference="A", untrained=["C"], graders=["strict"]),
        variants=["A", "B", "C"], seeds=[1], scores={"training": {"A": scored[:1], "B": scored[1:]}},
        comparisons={"training": [ours]}, folder=lambda variant, seed, decoding: runs[variant],
        graded=lambda *_: {}, compared=lambda _: [other],
    )  # fmt: skip
    section = evaluation_questions.flips(found, Path())
    # B is right once more than A, whose one sample that was cut off could make up for that; C three times more.
    assert section.answers == [
        "T=1.0, top-p 1.0: of 4,000 samples 1 are cut off, which could turn the sign of a task in 1 of 2 pairs of "
        "checkpoints; by grader strict 1 of 1 verdicts over seeds are others "
        "(B: not enough data becomes worse), and 0 signs of pairs."
    ]
    (head, _, told, *risks) = section.text.splitlines()
    assert head.startswith("## ") and told == f"- {section.answers[0]}"
    flip = "truncated samples (25.0 % of A, 0.0 % of B) could flip the sign: between 0.0 and +25.0 points"
    assert risks == [f"  - b and a (+25.0), T: {flip}"]
    found.seeds = []
    assert "in 0 of 0 pairs" in evaluation_questions.flips(found, Path()).answers[0]
    found.seeds, found.variants = [1], ["B", "C"]
    assert "in 0 of 0 pairs" in evaluation_questions.flips(found, Path()).answers[0]


def test_verdicts_that_another_grader_turns_are_named():
    (ours,) = results_of({"training": {"A": 3, "B": 5}}).comparisons["training"]
    seeds, both = ours.effects
    narrower, broader = replace(seeds, verdict="worse"), replace(both, verdict="worse")
    turned = evaluation_questions._turned([ours], [replace(ours, effects=(seeds, broader))])
    assert turned == ["B: not enough data becomes worse"]
    assert (
        evaluation_questions._turned([ours], [replace(ours, effects=(narrower, both))]) == []
    )  # the broader one counts
