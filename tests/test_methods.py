"""Methods over training seeds as a command, a figure and a part of the report."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from stapo_bench.analysis import compare_methods, methods_among, read_method
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.presenting.figures import Sources, caption
from stapo_bench.presenting.figures.registry import REGISTRY
from stapo_bench.presenting.report.overview import overview
from stapo_bench.presenting.verdicts_over_seeds import render_methods
from stapo_bench.runs import load_run

COLD = {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 64}
GAINS = {"grpo": (-0.2, 3), "justrl": (0.0, 3), "stapo": (0.2, 2)}


@pytest.fixture
def trained(make_run, tmp_path):
    """Runs of three methods: gain over JustRL, and number of seeds."""
    rng = np.random.default_rng(1)
    for name, (gain, num_seeds) in GAINS.items():
        for seed in range(num_seeds):
            rates = np.linspace(0.25, 0.7, 20) + gain + 0.02 * seed
            rows = {t: (rng.random((20, 16)) < rates[:, None]).astype(float).tolist() for t in ("t", "u")}
            place = {"checkpoint": f"runs/{name}-{seed}/checkpoints/step-50", "step": 50, "method": name.upper()}
            make_run(f"{name}-{seed}", rows, identity={"seed": seed}, about=place)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli, ["compare", "--seeds", *map(str, arguments)])


def test_methods_by_pattern(trained):
    done = run(trained / "justrl-*", trained / "stapo-*", trained / "grpo-*")
    assert done.exit_code == 0, done.output
    assert "**STAPO is better than JUSTRL: +" in done.output
    assert "on seeds and problems like these (2 and 3 seeds).**" in done.output
    assert "**GRPO is worse than STAPO: -" in done.output
    lines = [line.split(" | ") for line in done.output.splitlines() if line.startswith("| ")]
    assert lines[0][1:5] == ["seeds", "T", "U", "Avg"]
    assert [(line[0], line[1], line[-1]) for line in lines[1:4]] == [
        ("| STAPO", "2", "1 |"),
        ("| JUSTRL", "3", "2 |"),
        ("| GRPO", "3", "3 |"),
    ]
    assert [line[8] for line in lines[5:]] == ["no", "by seed", "no"]
    assert "p and ties corrected for 3 pairs (Holm, Bonferroni)" in done.output


def test_json_holds_both_errors_apart(trained):
    patterns = (trained / "justrl-*", trained / "grpo-*")
    found = json.loads(run(*patterns, "--format", "json", "--detect", "0.1").output)
    (pair,) = found["pairs"]
    assert pair["paired_by_seed"] is True and pair["effect"] == pytest.approx(-0.2, abs=0.04)
    wide, narrow = (pair["errors"][name]["standard_error"] for name in reversed(pair["errors"]))
    # Errors add up in squares, unless one of the two alone is larger than what they give together.
    assert wide >= narrow == pytest.approx(pair["error_from_seeds"])
    assert found["detect"] == 0.1 and pair["seeds_needed"]["seeds like these"]["number"] >= 2
    assert [(m["method"], m["seeds"]) for m in found["methods"]] == [("JUSTRL", [0, 1, 2]), ("GRPO", [0, 1, 2])]


def test_the_deviation_is_that_of_the_seeds_scores(make_run, tmp_path):
    # One task, three seeds that solve 1, 2 and 3 of 4 problems: 0.25, 0.5 and 0.75, a standard deviation of 0.25.
    for name, start in (("a", 1), ("b", 0)):
        for seed in range(3):
            rows = {"t": [[float(i < start + seed)] for i in range(4)]}
            place = {"checkpoint": f"runs/{name}-{seed}/checkpoints/step-5", "step": 5, "method": name}
            make_run(f"{name}-{seed}", rows, identity={"seed": seed}, about=place)
    found = compare_methods([read_method(str(tmp_path / f"{name}-*")) for name in "ab"])
    assert [(score.value, score.deviation) for score in found.methods] == [
        (pytest.approx(0.5), pytest.approx(0.25)),
        (pytest.approx(0.25), pytest.approx(0.25)),
    ]


def test_methods_that_are_not_told_apart_share_ranks(make_run, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b", "c"):
        for seed in range(3):
            rate = 0.2 if name == "c" else 0.7
            rows = (rng.random((30, 8)) < rate + rng.normal(0, 0.05)).astype(float).tolist()
            make_run(f"{name}{seed}", {"t": rows}, identity={"seed": seed}, about={"method": None})
    found = compare_methods([read_method(str(tmp_path / f"{name}[0-9]")) for name in "abc"])
    assert {method.name: method.rank for method in found.methods} == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}
    assert "| 1–2 |" in render_methods(found)


def one_line(done, *parts):
    assert done.exit_code == 1 and isinstance(done.exception, StapoError)
    text = str(done.exception)
    assert "\n" not in text
    for part in parts:
        assert part in text


def test_a_pattern_that_matches_nothing_or_one_run(trained):
    one_line(run(trained / "justrl-*", trained / "none-*"), "none-*", "at least two trainings", "got none", "quote")
    one_line(run(trained / "justrl-0", trained / "grpo-*"), "got one: ", "justrl-0")


def test_a_run_in_two_methods(trained):
    one_line(run(trained / "justrl-*", trained / "*-0"), "justrl-0: expected each run in one method, got it in")


@pytest.mark.parametrize(
    ("odd", "tasks", "part"),
    [
        ({"identity": {"sampling": COLD}}, "tu", "sampling.temperature"),
        ({}, "t", "expected the same tasks in all runs, got t, u in justrl-0 and t in odd-"),
        ({"grader": "math-0"}, "tu", "got grader: math-1 in justrl-0, math-0 in odd-"),
    ],
)
def test_runs_that_were_not_evaluated_alike(trained, make_run, odd, tasks, part):
    for name in ("odd-0", "odd-1"):
        make_run(name, {task: [[1, 0]] * 20 for task in tasks}, **odd)
    one_line(run(trained / "justrl-*", trained / "odd-*"), part)


def test_what_is_no_second_training(trained, make_run):
    rows = {task: [[1, 0]] * 20 for task in "tu"}
    for name, digest, place in (("w-0", "1", "x"), ("w-1", "2", "y"), ("w-2", "1", "z")):
        make_run(
            name, rows, identity={"checkpoint": {"digest": digest}, "seed": int(name[-1])}, about={"checkpoint": place}
        )
    one_line(run(trained / "justrl-*", trained / "w-*"), "w-0 and w-2: expected a training each, got the same weights")
    for step in (20, 40):
        make_run(f"v-{step}", rows, identity={"seed": step}, about={"checkpoint": f"run/checkpoints/step-{step}"})
    one_line(
        run(trained / "justrl-*", trained / "v-*"), "got two checkpoints of one (run/checkpoints/step-20, ", "curve"
    )
    for model in ("1B", "7B"):
        make_run(f"m-{model}", rows, identity={"seed": len(model)}, about={"model": model})
    one_line(run(trained / "justrl-*", trained / "m-*"), "expected one base model within a method, got 1B in m-1B, 7B")


def test_one_checkpoint_sampled_again_and_shared_seeds_are_said(trained, make_run):
    rng = np.random.default_rng(2)
    for seed in range(3):
        rows = {task: (rng.random((20, 4)) < 0.5).astype(float).tolist() for task in "tu"}
        make_run(f"base-{seed}", rows, identity={"checkpoint": {"digest": "b"}, "seed": seed})
        make_run(f"same-{seed}", rows, identity={"checkpoint": {"digest": f"s{seed}"}, "seed": 0})
    text = run(trained / "justrl-*", trained / "base-*", trained / "same-*").output
    assert "- base is one checkpoint, sampled 3 times: its spread is that of samples" in text
    assert "- runs of same share a sampling seed" in text


def test_options_that_belong_together(trained):
    done = CliRunner().invoke(cli, ["compare", str(trained / "grpo-0")])
    assert done.exit_code == 2 and "expected two or more run folders or files, got 1" in done.output
    done = CliRunner().invoke(cli, ["compare", *[str(trained / f"grpo-{i}") for i in "01"], "--detect", "0.1"])
    assert done.exit_code == 2 and "--detect counts seeds and needs --seeds" in done.output


def test_runs_find_their_methods(trained, make_run):
    runs = [load_run(path) for path in sorted(trained.glob("*-*"))]
    (group,) = methods_among(runs)
    assert [(method.label, len(method.runs)) for method in group] == [("GRPO", 3), ("JUSTRL", 3), ("STAPO", 2)]
    # Checkpoints of one training are no seeds, and a method with one training is none to compare.
    early = make_run(
        "early", {t: [[1, 0]] for t in "tu"}, about={"method": "JUSTRL", "step": 20, "checkpoint": "runs/j/step-20"}
    )
    assert [len(method.runs) for method in methods_among([*runs, load_run(early)])[0]] == [3, 3, 2]
    assert methods_among(runs[:4]) == []


@pytest.mark.slow(reason="every figure of methods, and a report of all their runs")
def test_figures_and_report_show_them(trained):
    pytest.importorskip("matplotlib")
    sources = Sources(runs=sorted(trained.glob("*-*")))
    (forest,) = REGISTRY["seeds"].read(sources)
    assert [(pair.name_a, pair.name_b) for pair in forest.pairs] == [
        ("GRPO", "JUSTRL"),
        ("GRPO", "STAPO"),
        ("JUSTRL", "STAPO"),
    ]
    first, second = REGISTRY["seeds-problems"].read(sources)
    assert first.title == "JUSTRL − GRPO" and first.seeds == ("0", "1", "2") and first.changes.shape == (3, 40)
    assert second.changes.shape == (2, 40)
    assert 100 * first.changes.mean() == pytest.approx(100 * forest.pairs[0].effects[0].difference.value)
    means = first.changes.mean(axis=0)
    assert (np.diff(means) <= 1e-12).all()
    assert "a row per training seed" in caption("seeds-problems", sources)
    (view,) = overview(sources).methods
    assert view.sentences[1].startswith("STAPO is better than GRPO")
    assert [row[0] for row in view.tables[0][1]] == ["STAPO", "JUSTRL", "GRPO"]
