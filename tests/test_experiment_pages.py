"""An experiment's page by hand: two variants, one not begun, their base; three of four seeds finished; no model run."""

import csv
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import write_run

from stapo_bench.analysis import plan_runs
from stapo_train.experiments import design, evaluation_questions, findings, pages, steps

EXPERIMENT = design.Experiment(
    name="toy",
    question="Does it help?",
    seeds="fresh",
    num_seeds=4,
    variants={"A": ["objective.name=justrl"], "B": ["objective.name=stapo"], "Base": [], "C": ["objective.name=dapo"]},
    reference="A",
    decodings=("training",),
    overrides=["iterations=10", "pretrain.steps=6"],
    sections=["samples", "error-bars"],
    evaluation={"samples": 2},
)
FIRST, REGIME = 101, "T=1.0, top-p 1.0"
RIGHT = {  # variant -> by seed, how many of two samples of each of four problems are right
    "A": [(1, 1, 0, 0), (2, 1, 1, 0), (1, 2, 0, 1)],  # shares 0.25, 0.5, 0.5
    "B": [(2, 2, 0, 0), (2, 2, 2, 0), (2, 2, 2, 2)],  # 0.5, 0.75, 1: more by 0.25, 0.25, 0.5
    "Base": [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 0)],  # 0, 0.125, 0: less by 0.25, 0.375, 0.5
}


@pytest.fixture
def out(tmp_path, monkeypatch):
    """The folders of the three seeds' runs, and what the commands cost."""
    out = tmp_path / "out"
    plan = steps.plan(EXPERIMENT, out)
    left = {name for name in plan if "-s104" in name or name.startswith("dapo-")}
    done = {name: SimpleNamespace(is_done=lambda name=name: name not in left) for name in plan}
    monkeypatch.setattr(findings, "plan", lambda experiment, out: done)
    for training in design.trainings(EXPERIMENT, out):
        if training.config and training.variant in RIGHT and training.seed < FIRST + 3:
            training.checkpoint.mkdir(parents=True)
            (training.checkpoint / "model.safetensors").write_bytes(training.folder.name.encode())
            (training.folder / "config.yaml").write_text("seed: 1\n")
            (training.folder / "metrics.jsonl").write_text('{"iteration": 1, "reward": 0.5, "entropy": 0.5}\n')
    for one in design.evaluations(EXPERIMENT, out):
        if one.training.variant in RIGHT and one.training.seed < FIRST + 3:
            right = RIGHT[one.training.variant][one.training.seed - FIRST]
            rows = [[float(sample < number) for sample in range(2)] for number in right]
            write_run(one.folder, {"t": rows}, identity={"seed": one.training.seed})
    code = {"commit": "0123456789abcdef", "dirty": False, "versions": "torch 2"}
    ran = [{"step": name, "kind": s.kind, "cpu_s": 1000.0, **code} for name, s in plan.items() if name not in left]
    ran[-1] |= {"commit": "fedcba9876543210", "dirty": True}
    others = [{"step": "of another experiment", "kind": "train", "cpu_s": 1e6}]
    (out / "costs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*ran, ran[1], *others]))
    return out


def test_a_page_by_hand(out, tmp_path):
    text = pages.write_page(EXPERIMENT, out, tmp_path / "page").read_text()
    # Changes of B 0.25, 0.25, 0.5: mean 1/3, standard error 1/12, t_0.975(2) = 4.3027: 1/3 -+ 0.3586; p = 0.0572. The
    # base's -0.25, -0.375, -0.5: -0.375 -+ 4.3027 * 0.0722; p = 0.0351, by Holm twice that, which B's may not go below.
    told = [line for line in text.splitlines() if line.startswith("- ")]
    assert told[0].startswith(
        f"- {REGIME}: Not enough data to tell B from A: +33.3 points, [-2.5, +69.2] on seeds like"
    )
    assert "Base from A: -37.5 points, [-68.6, -6.4] on seeds like these" in told[1]
    assert "**Partial: 3 of 4 seeds are finished; not run yet: C.**" in text
    assert "## avg@k in percent, mean of 3 seeds\n\n| Variant | Decoding | T | Average [seeds and problems like" in text
    levels = [line.split(" [")[0] for line in text.splitlines() if line.startswith(("| A |", "| B |", "| Base |"))]
    assert levels[:3] == [
        f"| {name} | {REGIME} | {of} | {of}" for name, of in (("A", "41.67"), ("B", "75.00"), ("Base", "4.17"))
    ]
    assert f"| B | {REGIME} | +33.3 [-2.5, +69.2] | 0.070 | +33.3 [" in text
    assert f"| Base | {REGIME} | -37.5 [-68.6, -6.4] | 0.070 | -37.5 [" in text and text.count("not enough data |") == 2
    made = text.partition("## How it was made\n\n")[2].splitlines()
    assert made == [
        "- Command: `stapo-bench experiment toy`. Settings and curves of every training: `trainings.tar.gz`.",
        "- Cost: 17,000 CPU-seconds (1 × pretrain 1,000, 6 × train 7,000, 9 × eval 9,000), what is shared with other "
        "experiments included.",
        "- Code: 0123456789ab (16 starts); fedcba987654 (1 starts, with uncommitted changes). Versions: torch 2",
        "  (`manifest.json`, with that of one run of each way of decoding).",
        "- Seeds (fresh): 101, 102, 103. A seed decides the order of the problems and every draw, and",
        "  is the same for all variants; evaluations draw with it, too.",
        "- One base model for all: intervals say nothing about another one, nor about larger models.",
        "- Evaluated with max-new-tokens 96, samples 2; graded by math-1.",
        "- Settings on top of `train/configs/tiny/_recipe.yaml`, of all trainings: iterations=10, pretrain.steps=6; of "
        "a variant:",
        *("  - A: objective.name=justrl", "  - B: objective.name=stapo", "  - Base: the base model, untrained"),
        "  - C: objective.name=dapo",
    ]


def test_what_a_difference_takes_by_hand(out, tmp_path):
    found = findings.Findings(EXPERIMENT, out)
    pairs = [(found.folder("A", seed, "training"), found.folder("B", seed, "training")) for seed in (101, 102, 103)]
    of_pairs = [plan_runs(a, b, 0.02).tasks[0] for a, b in pairs]
    these = sorted(task.these_problems.num_samples for task in of_pairs)
    like, problems = (
        sorted(getattr(task.problems_like_these, name) or math.inf for task in of_pairs)
        for name in ("num_samples", "num_problems")
    )
    asked = evaluation_questions.samples(found, tmp_path)
    assert f"| {REGIME} | T | 2 | {these[1]} | {like[1]} | {problems[1]} |" in asked.text
    # One task: its average needs the same, 1217 samples in place of 2, and 1266.
    assert (these[1], like[1]) == (1217, 1266)
    assert f"| {REGIME} | Average | 1 × | {1217 / 2:.2g} × | {1220 / 2:.2g} × | |" in asked.text
    # The changes' standard deviation is 0.1443: (2.8016 * 0.1443 / 0.02)^2 = 409 seeds by the normal, 2 more by t.
    assert asked.answers[0].endswith("; between two methods, 411 seeds of each.")
    widths = [
        score.macro.these_problems.width for scores in found.scores.values() for of in scores.values() for score in of
    ]
    bars = evaluation_questions.error_bars(found, tmp_path)
    # Of a difference: the trained B's alone, 2 * 0.35855.
    assert f"| {REGIME} | {100 * sum(widths) / 9:.2f} | " in bars.text and " | 71.71 | " in bars.text
    assert len(widths) == 9 and "methods 71.71 on seeds like these and 108.81 on seeds and" in bars.answers[0]


def test_what_is_kept_beside_a_page(out, tmp_path):
    folder = pages.write_page(EXPERIMENT, out, tmp_path / "page").parent
    rows = list(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    seeds, both = "seeds like these", "seeds and problems like these"
    assert [(row["variant"], row["minus"], row["error"]) for row in rows] == [
        *((name, "", both) for name in ("A", "B", "Base")),
        *((name, "A", error) for name in ("B", "Base") for error in (seeds, both)),
    ]
    assert [float(row["value"]) for row in rows] == pytest.approx([5 / 12, 0.75, 1 / 24, 1 / 3, 1 / 3, -0.375, -0.375])
    assert float(rows[3]["low"]) == pytest.approx(1 / 3 - 4.302653 / 12)
    assert float(rows[3]["high"]) == pytest.approx(1 / 3 + 4.302653 / 12)
    assert float(rows[3]["p_holm"]) == pytest.approx(0.0702, abs=5e-5) and rows[0]["p_holm"] == rows[0]["verdict"] == ""
    runs = list(csv.DictReader((folder / "runs.csv").read_text().splitlines()))
    assert [(row["variant"], row["seed"], float(row["average"])) for row in runs] == [
        (name, str(FIRST + at), sum(RIGHT[name][at]) / 8) for at in range(3) for name in ("A", "B", "Base")
    ]
    assert {(row["decoding"], row["grader"], row["commit"]) for row in runs} == {("training", "math-1", "abc1234")}
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["seeds"] == {"asked": [101, 102, 103, 104], "finished": [101, 102, 103]}
    assert (summary["cpu_s"], summary["not_run"], len(summary["answers"])) == (17000, ["C"], 4)
    about = json.loads((folder / "manifest.json").read_text())
    assert about["definitions"] == {"A": 1, "B": 1, "C": 1} and about["commands"]["train"] == 6
    assert about["code"][1] == {"commit": "fedcba9876543210", "dirty": True, "starts": 1}
    assert about["evaluations"]["training"]["identity"]["seed"] == FIRST
    assert {about[name][0] for name in ("evaluated_by", "versions", "graders")} == {"abc1234", "torch 2", "math-1"}


def test_what_is_missing_is_said():
    about = {"seeds": {"asked": [1, 2], "finished": [1, 2]}, "not_run": []}
    assert pages.unfinished(about) == ""
    assert pages.unfinished({**about, "not_run": ["B", "C"]}) == "**Partial: not run yet: B, C.**"
    assert pages.unfinished({**about, "seeds": {"asked": [1, 2], "finished": [2]}}) == (
        "**Partial: 1 of 2 seeds are finished.**"
    )


def test_another_grader_scores_the_seeds_that_count(out):
    found = findings.Findings(EXPERIMENT, out)
    for one in found.evaluations:
        grades = (one.folder / "grades" / "math.jsonl").read_text()
        (one.folder / "grades" / "strict.jsonl").write_text(grades.replace('"CORRECT"', '"INCORRECT"'))
    shares = {name: [score.macro.value for score in of] for name, of in found.graded("training", "strict").items()}
    assert shares == {name: [0.0, 0.0, 0.0] for name in ("A", "B", "Base")}
    assert [score.macro.value for score in found.scores["training"]["B"]] == [0.5, 0.75, 1.0]


def test_the_commands_of_an_experiment(tmp_path):
    plan = steps.plan(replace(EXPERIMENT, dumps=(5, 10), graders=("strict",), num_seeds=1), tmp_path)
    train = next(step for step in plan.values() if step.name.startswith("stapo-s101-"))
    assert train.name.endswith("-dumps") and train.needs == ("base-steps-6",)
    assert train.command[:1] + train.command[-3:] == ["stapo-train", "--resume", "--dump-rollouts", "5,10"]
    # 115 s for 50 iterations.
    assert train.cpu_s == pytest.approx(23.0)
    evaluated = plan[f"{train.name}-training"]
    folder = tmp_path / "trainings" / train.name
    assert evaluated.command == [
        *("stapo-bench", "eval", "--suite", "tiny", "--ckpt", str(folder / "checkpoints" / "final")),
        *("--decoding", "training", "--seed", "101", "--out", str(tmp_path / "evals" / evaluated.name)),
        *("--max-new-tokens", "96", "--samples", "2"),
    ]
    assert evaluated.needs == (train.name,) and evaluated.cpu_s == 30.0
    graded = plan[f"{evaluated.name} strict"]
    assert graded.command == ["stapo-bench", "grade", evaluated.command[-5], "--grader", "strict"]
    assert graded.needs == (evaluated.name,) and plan["base-steps-6"].cpu_s == 280.0
    base = plan["base-steps-6-s101-training"]
    assert base.command[5] == str(tmp_path / "base-steps-6") and base.needs == ("base-steps-6",)
    assert steps.plan(EXPERIMENT, tmp_path)[train.name.removesuffix("-dumps")].command[-1] == "--resume"


def test_a_score_of_fewer_samples_is_not_finished(out):
    one = next(e for e in design.evaluations(EXPERIMENT, out) if e.training.variant == "B")
    assert not steps.is_evaluated(one, {"max-new-tokens": 96})  # no scores.json yet
    assert not steps.is_graded(one.folder, "strict")
    assert not steps.is_graded(one.folder, "math")  # by another version than the present one
