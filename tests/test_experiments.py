"""The experiments: a whole one at a toy size, killed and resumed; the order of steps; what is on the page."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stapo_bench.draws import CountedRun
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.over_seeds import compare_over_seeds

HERE = Path(__file__).parent
FOLDER = HERE.parent / "scripts" / "experiments"
sys.path.insert(0, str(FOLDER))

import arithmetic  # noqa: E402
import design  # noqa: E402
import lanes  # noqa: E402
import pages  # noqa: E402
import sections  # noqa: E402
import silenced  # noqa: E402
import steps  # noqa: E402

TOY = """
question: Does the machinery work?
seeds: search
num_seeds: 2
variants:
  JustRL: [objective.name=justrl]
  STAPO: [objective.name=stapo, objective.tau_p=0.05]
reference: JustRL
decodings: [training]
dumps: [2]
figures: [entropy]
sections: [ranking, stability, samples, error-bars, flips, spurious]
overrides: [iterations=2, data.count=40, rollout.prompts=4, rollout.group_size=4, rollout.max_new_tokens=12]
pretrain: [steps=6, hidden_size=32, intermediate_size=48, num_layers=2, examples_per_step=4]
evaluation: {max-new-tokens: 12, samples: 2, limit: 2}
"""


def command(folder):
    (folder / "toy.yaml").write_text(TOY)
    # Relative, as the folders are named in what the runs write.
    arguments = ["toy.yaml", "--out", "out", "--results", "results", "--jobs", "2"]
    return [sys.executable, str(HERE / "experiments_in_forks.py"), *arguments]


def run_toy(folder):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    return subprocess.Popen(command(folder), cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process):
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out.decode()
    return out.decode()


def page_of(folder):
    """What a reader sees. Without the last column of runs.csv: the commit, which may change while a test runs."""
    kept = folder / "results" / "toy"
    found = {p.name: p.read_bytes() for p in kept.iterdir() if p.suffix in (".md", ".csv", ".svg")}
    return found | {"runs.csv": [line.rsplit(b",", 1)[0] for line in found["runs.csv"].splitlines()]}


def test_an_experiment_that_was_killed_twice_gives_the_same_page(tmp_path, monkeypatch):
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    broken.mkdir()
    whole.mkdir()
    for place, number in (("trainings/*/metrics.jsonl", signal.SIGKILL), ("evals/*/samples/*.jsonl", signal.SIGTERM)):
        process = run_toy(broken)
        while not list((broken / "out").glob(place)):
            assert process.poll() is None, process.stdout.read().decode()
            time.sleep(0.01)
        process.send_signal(number)
        process.communicate()
        assert process.returncode not in (0, None)
        assert not (broken / "results").exists()
    assert "of 9 steps are finished" in finish(run_toy(broken))
    assert "0 of 9 steps are finished" in finish(run_toy(whole))
    assert page_of(broken) == page_of(whole)
    assert set(page_of(whole)) == {"page.md", "table.csv", "runs.csv", "entropy.svg"}
    rows = (whole / "results" / "toy" / "runs.csv").read_text().splitlines()
    assert [row.split(",")[1:5] for row in rows[1:]] == [
        [variant, seed, "last", "training"] for seed in ("1", "2") for variant in ("JustRL", "STAPO")
    ]
    written = (whole / "results" / "toy" / "trainings").iterdir()
    assert sorted(p.name.rsplit("-", 2)[0] for p in written) == ["justrl-s1", "justrl-s2", "stapo-s1", "stapo-s2"]
    assert len(list((whole / "out").glob("trainings/*-dumps/dumps/iteration-000002/dump.json"))) == 4
    monkeypatch.chdir(whole)
    assert all(step.is_done() for step in steps.plan(design.load_experiment("toy.yaml"), Path("out")).values())
    spent = lanes.costs(Path("out"))
    # A search looks at trainings alone: the same ones, and no evaluation.
    search = replace(design.load_experiment("toy.yaml"), name="toy-search", decodings=(), sections=("spurious",))
    text = pages.write_page(search, Path("out"), Path("search")).read_text()
    assert "| STAPO | 0 | 0 (–) |" in text and "avg@k" not in text and "entropy.svg" in text
    assert len(spent) == 9 and all(seconds > 0 for seconds in spent.values())


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_can_be_planned(path, tmp_path):
    experiment = design.load_experiment(path.stem)
    if experiment.seeds == "search":  # looks for a regime, and says nothing about methods
        assert path.stem.endswith("-search") and not experiment.decodings
    else:
        assert len(experiment.used_seeds) >= 5
    plan = steps.plan(experiment, tmp_path)
    names = list(plan)
    assert all(names.index(need) < names.index(name) for name, step in plan.items() for need in step.needs)
    trained = sum(bool(own) for own in experiment.variants.values()) * len(experiment.used_seeds)
    assert sum(step.kind == "train" for step in plan.values()) == trained
    assert not any(step.is_done() for step in plan.values())
    assert set(experiment.sections) <= set(sections.SECTIONS)


def test_what_is_chosen_by_some_seeds_is_measured_with_others():
    assert not set(design.SEEDS["fresh"]) & set(design.SEEDS["search"])


def test_two_experiments_share_a_training(tmp_path):
    main, controls = (steps.plan(design.load_experiment(name), tmp_path) for name in ("main", "controls"))
    shared = {name.split("-s1")[0] for name in set(main) & set(controls) if main[name].kind == "train"}
    assert shared == {"justrl", "stapo"}
    assert all(main[name].command == controls[name].command for name in set(main) & set(controls))


def test_a_wrong_description_is_refused(tmp_path):
    for wrong, message in (
        (TOY + "colour: red", "unknown colour"),
        (TOY.replace("reference: JustRL", "reference: Just"), "names of variants, got Just"),
        (TOY.replace("seeds: search", "seeds: lucky"), "fresh, search, got lucky"),
    ):
        (tmp_path / "toy.yaml").write_text(wrong)
        with pytest.raises(UsageError, match=message):
            design.load_experiment(str(tmp_path / "toy.yaml"))
    with pytest.raises(UsageError, match="controls, evaluation-questions, main"):
        design.load_experiment("mian")


def step(folder, name, script, needs=()):
    mark = folder / name
    return steps.Step(
        name=name, kind="eval", command=["sh", "-c", script.format(mark)], needs=needs, is_done=mark.exists
    )


def test_steps_run_after_what_they_need_and_only_once(tmp_path):
    plan = [
        step(tmp_path, "a", "touch {}"),
        step(tmp_path, "b", f"test -e {tmp_path}/a && nice >> {tmp_path}/nice && touch {{}}", ("a",)),
        step(tmp_path, "c", f"test -e {tmp_path}/b && touch {{}}", ("b",)),
    ]
    found = {s.name: s for s in plan}
    lanes.run_steps(found, tmp_path, jobs=2)
    lanes.run_steps(found, tmp_path, jobs=2)
    assert set(lanes.costs(tmp_path)) == {"a", "b", "c"}
    assert (tmp_path / "nice").read_text() == "19\n"


def test_a_failure_stops_everything_and_names_the_log(tmp_path):
    plan = [step(tmp_path, "slow", "exec sleep 60  # {}"), step(tmp_path, "bad", "echo no room; exit 3")]
    began = time.monotonic()
    with pytest.raises(StapoError, match=r"bad failed \(exit 3\): no room; all of it: .*bad.log"):
        lanes.run_steps({s.name: s for s in plan}, tmp_path, jobs=2)
    assert time.monotonic() - began < 20
    # Finished without its result is a failure, too.
    with pytest.raises(StapoError, match=r"quiet failed \(exit 0\)"):
        lanes.run_steps({"quiet": step(tmp_path, "quiet", "true")}, tmp_path, jobs=1)


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
        scores=scores,
        comparisons={d: compare_over_seeds(found, [(names[0], n) for n in names[1:]]) for d, found in runs.items()},
        stabilities=lambda: {"A": [0.5, 0.6, 0.7], "B": [0.6, 0.7, 0.9]},
    )


def test_the_ranking_names_those_that_change_places():
    results = results_of({"training": {"A": 3, "B": 5, "C": 6}, "justrl": {"A": 5, "B": 3, "C": 8}})
    text = sections.ranking(results)
    assert "- training: C > B > A" in text and "- justrl: C > A > B" in text
    assert "Of 3 pairs 1 change places between training and justrl (A and B)" in text


def test_stability_is_paired_over_seeds():
    # Changes 0.1, 0.1, 0.2: mean 0.133, standard error 1/30, t_0.975(2) = 4.303: 0.133 -+ 0.143.
    text = sections.stability(results_of({"training": {"A": 3, "B": 5}}))
    assert "| A | 0.600 | – |" in text
    assert "| B | 0.733 | +0.133 [-0.010, +0.277] |" in text
    assert np.isclose(0.4 / 3 - 4.302653 / 30, -0.010, atol=5e-4)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("First, 3 + 4 = 7, then 7 * 2 = 14. The answer is \\boxed{14}", [True, True]),
        ("We get 12 - 5 = 8, so 8 + 1 = 9", [False, True]),  # the second follows from the first and holds
        ("k84 / 7 = 12, next 85 mod 7 = 1", [True, True]),  # a stray letter is not part of a number
        ("85 / 7 = 12", [False]),  # must be exact
        ("5 / 0 = 0, 5 mod 0 = 5", [False, False]),
        ("3 - 5 = 2", [False]),
        ("17, then 42. The answer is \\boxed{42}", []),  # totals alone: nothing to check
        ("103 + 4 = 7", [False]),  # not 3 + 4 = 7
        ("3 + 4 = 71", [False]),
        ("3+4 = 7, 3 + x = 7, 3 + 4 =", []),
    ],
)
def test_steps_of_hand_written_solutions(text, right):
    found = arithmetic.written_steps(text)
    assert [step.right for step in found] == right
    assert all(" = " in text[step.start : step.end] for step in found)


def test_worked_solutions_hold_but_for_their_planted_errors():
    from stapo_train.tiny_data import worked_example

    written = [step for i in range(400) for step in arithmetic.written_steps(worked_example(0, i).solution)]
    # The style with steps writes a mistake in 5 % of them and a slip in 0.8 %: 5.8 % of about 500.
    assert len(written) > 300
    assert 0.03 < np.mean([not step.right for step in written]) < 0.09


def test_silenced_tokens_are_counted_by_hand():
    texts = ["So ", "3", " + ", "4", " = ", "8", ", then ", "8 ", "* 2 = 1", "6"]
    #               |-------- wrong ---------|            |----- right ----|
    marks = [False] * 10
    silenced_here = [*marks[:5], True, True, *marks[7:]]  # the 8, which is wrong, and ", then "
    candidates = [True, *silenced_here[1:]]  # and "So ", which is kept
    right = silenced.Rollout(texts=["1 + 1 = 2"], candidate=[False], silenced=[False])
    found = silenced.tally([silenced.Rollout(texts=texts, candidate=candidates, silenced=silenced_here), right])
    assert (found.tokens, found.in_wrong) == (11, 5)
    assert (found.silenced, found.silenced_in_wrong, found.kept, found.kept_in_wrong) == (2, 1, 1, 0)
    assert (found.steps, found.wrong_steps, found.wrong_steps_hit) == (3, 1, 1)
    assert dict(found.silenced_words) == {"8": 1, ", then ": 1} and dict(found.kept_words) == {"So ": 1}
    assert found.lift == pytest.approx(1 / 2 - 5 / 11)
    assert np.isnan(silenced.tally([right]).lift)


def test_regimes_are_counted_over_seeds(tmp_path):
    trainings = []
    for seed, ends in enumerate(("0.1", "0.9")):
        folder = tmp_path / str(seed)
        folder.mkdir()
        lines = [f'{{"entropy": {entropy}}}\n' for entropy in ["0.5"] * 5 + [ends] * 10]
        (folder / "metrics.jsonl").write_text("".join(lines))
        trainings.append(SimpleNamespace(variant="A", folder=folder))
    results = SimpleNamespace(experiment=SimpleNamespace(variants={"A": ["x"]}), trainings=trainings)
    # 0.1 is below 0.5 / 4, 0.9 is below 4 * 0.5; the scores are 1/5 and 5/9, their mean 0.378.
    assert "| A | 1 | 0 | 1 | 0.500 | 0.500 | 0.378 |" in sections.regimes(results)
