"""The experiments: a whole one at a toy size, killed and resumed; the order of steps; what is on the page."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from stapo_bench.errors import StapoError, UsageError
from stapo_train.experiments import costs, design, gradients, index, pages, sections, steps

HERE = Path(__file__).parent
FOLDER = HERE.parent / "train" / "experiments"
EACH = pytest.mark.slow(reason="one after the other, every experiment that stands there")


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
graders: [strict]
figures: [entropy]
sections: [ranking, stability, samples, error-bars, flips, spurious, gradients]
overrides:
  - iterations=2
  - data.count=40
  - rollout.prompts=4
  - rollout.group_size=4
  - rollout.max_new_tokens=12
  - pretrain.steps=6
  - pretrain.hidden_size=32
  - pretrain.intermediate_size=48
  - pretrain.num_layers=2
  - pretrain.examples_per_step=4
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
    """What a reader sees, but for the cost and the commit, which may change while a test runs."""
    kept = folder / "results" / "toy"
    found = {p.name: p.read_bytes() for p in kept.iterdir() if p.suffix in (".md", ".csv", ".svg")}
    page = [line for line in found["page.md"].splitlines() if not line.startswith((b"- Cost: ", b"- Code: "))]
    return found | {
        "page.md": page,
        "runs.csv": [line.rsplit(b",", 1)[0] for line in found["runs.csv"].splitlines()],
    }


@pytest.mark.slow(reason="two whole experiments, thirteen commands each")
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
    assert "of 13 steps are finished" in finish(run_toy(broken))
    assert "0 of 13 steps are finished" in finish(run_toy(whole))
    assert page_of(broken) == page_of(whole)
    assert set(page_of(whole)) == {"page.md", "table.csv", "runs.csv", "entropy.svg"}
    rows = (whole / "results" / "toy" / "runs.csv").read_text().splitlines()
    assert [row.split(",")[1:4] for row in rows[1:]] == [
        [variant, seed, "training"] for seed in ("1", "2") for variant in ("JustRL", "STAPO")
    ]
    kept = whole / "results" / "toy" / "trainings.tar.gz"
    with tarfile.open(kept) as archive:
        written = {member.name: archive.extractfile(member).read() for member in archive}
    assert written == {
        str(p.relative_to(whole / "out")): p.read_bytes()
        for name in ("config.yaml", "metrics.jsonl")
        for p in whole.glob(f"out/trainings/*/{name}")
    }
    trainings = {name.split("/")[1].rsplit("-", 2)[0] for name in written}
    assert trainings == {"justrl-s1", "justrl-s2", "stapo-s1", "stapo-s2"} and len(written) == 8
    before = kept.read_bytes()
    monkeypatch.chdir(whole)
    pages.write_page(design.load_experiment("toy.yaml"), Path("out"), Path("results/toy"))
    assert kept.read_bytes() == before  # no clock in it
    assert len(list((whole / "out").glob("trainings/*-dumps/dumps/iteration-000002/dump.json"))) == 4
    monkeypatch.chdir(whole)
    assert all(step.is_done() for step in steps.plan(design.load_experiment("toy.yaml"), Path("out")).values())
    digest = steps.read_checkpoint
    monkeypatch.setattr(steps, "read_checkpoint", lambda path: replace(digest(path), digest="other"))
    with pytest.raises(StapoError, match="had other weights when it ran; move it away"):
        all(step.is_done() for step in steps.plan(design.load_experiment("toy.yaml"), Path("out")).values())
    monkeypatch.setattr(steps, "read_checkpoint", digest)
    about = json.loads((whole / "results" / "toy" / "manifest.json").read_text())
    assert about["commands"] == {"pretrain": 1, "train": 4, "eval": 4, "grade": 4}
    assert all(about["cpu_s"][kind] > 0 for kind in ("pretrain", "train", "eval")) and about["not_run"] == []
    assert [m["about"]["regime"] for m in about["evaluations"].values()] == list(about["evaluations"]) == ["training"]
    assert [row["starts"] for row in about["code"]] == [13] and about["code"][0]["commit"]
    check_gradients_of(Path("out"))
    check_partial_pages(Path("out"))
    # A search looks at trainings alone: the same ones, and no evaluation.
    search = replace(design.load_experiment("toy.yaml"), name="toy-search", decodings=(), sections=("spurious",))
    text = pages.write_page(search, Path("out"), Path("search")).read_text()
    assert "No rollout with a positive advantage was kept." in text and "avg@k" not in text and "entropy.svg" in text
    assert not (Path("search") / "runs.csv").exists()


def check_gradients_of(out):
    for dump in out.glob("trainings/*/dumps/*"):
        found = gradients.read_gradients(dump)
        assert len(found.prob) == 0 or (found.deviation.max() < 1e-12 and found.outside.max() < 1e-12)


def check_partial_pages(out):
    """What is finished is told, and what is missing is said."""
    toy = design.load_experiment("toy.yaml")
    score = next(out.glob("evals/stapo-s2-*/scores.json"))
    score.rename("hidden.json")  # STAPO has finished seed 1 alone
    text = pages.write_page(toy, out, Path("partial/toy")).read_text()
    assert "**Partial: 1 of 2 seeds are finished.**" in text and "mean of 1 seeds" in text
    assert "Seeds (search): 1." in text
    rest = list(out.glob("evals/stapo-s1-*/scores.json"))
    rest[0].rename("hidden too.json")
    text = pages.write_page(toy, out, Path("partial/toy")).read_text()
    assert "**Partial: not run yet: STAPO.**" in text and "| JustRL | T=1.0, top-p 1.0 |" in text
    assert "No differences from JustRL" in text and "STAPO |" not in text
    reference = next(out.glob("evals/justrl-s1-*/scores.json"))
    reference.unlink()
    next(out.glob("evals/justrl-s2-*/scores.json")).unlink()
    with pytest.raises(StapoError, match="toy: expected a seed that every variant"):
        pages.write_page(toy, out, Path("partial/toy"))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in ("main", "stability-search") else EACH)
        for path in sorted(FOLDER.glob("*.yaml"))
    ],
)
def test_every_experiment_can_be_planned(path, tmp_path):
    experiment = design.load_experiment(path.stem)
    if experiment.seeds == "search":  # looks for a regime, and says nothing about methods
        assert path.stem == "stability-search" and not experiment.decodings
    else:
        assert len(experiment.used_seeds) >= 5
    plan = steps.plan(experiment, tmp_path)
    names = list(plan)
    assert all(names.index(need) < names.index(name) for name, step in plan.items() for need in step.needs)
    trained = sum(bool(own) for own in experiment.variants.values()) * len(experiment.used_seeds)
    assert sum(step.kind == "train" for step in plan.values()) == trained
    first = steps.plan(experiment, tmp_path, num_seeds=1)
    assert list(first) == names[: len(first)] and 1 < len(first) <= len(names)
    # Seed by seed, from trainings to grades: stopped early, it has whole seeds.
    begun = [name for name, step in plan.items() if step.kind != "pretrain"]
    seeds = [int(found[1]) for name in begun if (found := re.search(r"-s(\d+)-", name))]
    assert len(seeds) == len(begun) and seeds == sorted(seeds)
    assert not any(step.is_done() for step in plan.values())
    assert set(experiment.sections) <= set(sections.SECTIONS)


def test_what_is_chosen_by_some_seeds_is_measured_with_others():
    assert not set(design.SEEDS["fresh"]) & set(design.SEEDS["search"])


def test_two_experiments_share_a_training(tmp_path):
    main, controls = (steps.plan(design.load_experiment(name), tmp_path) for name in ("main", "controls"))
    shared = {name.split("-s1")[0] for name in set(main) & set(controls) if main[name].kind == "train"}
    assert shared == {"justrl", "stapo"}
    assert all(main[name].command == controls[name].command for name in set(main) & set(controls))


def test_a_variant_with_another_base_begins_with_that(tmp_path):
    plan = steps.plan(design.load_experiment("stability-search"), tmp_path)
    bases = [name for name, step in plan.items() if step.kind == "pretrain"]
    assert bases == ["base", "base-hidden-size-64-intermediate-size-160-num-layers-3", "base-steps-350"]
    assert plan["base-steps-350"].command[-2:] == ["steps=350", f"out={tmp_path}/base-steps-350"]
    begun = {base: [s.command for s in plan.values() if s.needs == (base,)] for base in bases}
    assert {base: len(commands) for base, commands in begun.items()} == dict(zip(bases, (16, 5, 11), strict=True))
    for base, commands in begun.items():
        assert all(f"model={tmp_path}/{base}" in command for command in commands)
        assert not any("pretrain." in word for command in commands for word in command)


def test_a_suite_of_its_own_is_evaluated_and_its_base_pretrained(tmp_path):
    plan = steps.plan(design.load_experiment("knights"), tmp_path)
    assert {step.command[3] for step in plan.values() if step.kind == "eval"} == {"tiny-kk"}
    assert "text=knights" in next(iter(plan.values())).command
    usual = steps.plan(design.load_experiment("main"), tmp_path)
    assert {step.command[3] for step in usual.values() if step.kind == "eval"} == {"tiny"}


def test_single_tasks_may_be_evaluated_alone(tmp_path):
    plan = steps.plan(design.load_experiment("low-probability"), tmp_path)
    asked = {tuple(step.command[2:4]) for step in plan.values() if step.kind == "eval"}
    assert asked == {("--tasks", "tiny_aime24,tiny_aime25")}


def test_a_wrong_description_is_refused(tmp_path):
    for wrong, message in (
        (TOY + "colour: red", "unknown colour"),
        (TOY.replace("reference: JustRL", "reference: Just"), "names of variants, got Just"),
        (TOY + "pairs: [[STAPO, Stapp]]", "names of variants, got Stapp"),
        (TOY.replace("seeds: search", "seeds: lucky"), "fresh, search, second, got lucky"),
    ):
        (tmp_path / "toy.yaml").write_text(wrong)
        with pytest.raises(UsageError, match=message):
            design.load_experiment(str(tmp_path / "toy.yaml"))
    with pytest.raises(UsageError, match="controls, evaluation-questions, knights, low-probability, main"):
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
    costs.run_steps(found, tmp_path, jobs=2)
    costs.run_steps(found, tmp_path, jobs=2)
    rows = costs.read_costs(tmp_path)
    assert sorted(row["step"] for row in rows) == ["a", "b", "c"]  # once each
    assert all({"commit", "dirty", "versions"} <= set(row) and "torch 2" in row["versions"] for row in rows)
    assert (tmp_path / "nice").read_text() == "19\n"


def test_the_index_lists_what_was_run_and_what_was_not(tmp_path):
    summary = {
        "question": "Why?\n", "cpu_s": 12345, "answers": ["It is so."], "not_run": ["B"],
        "seeds": {"asked": [1, 2, 3], "finished": [1, 2]},
    }  # fmt: skip
    (tmp_path / "controls").mkdir()
    (tmp_path / "controls" / "summary.json").write_text(json.dumps(summary))
    page = "# controls\n\n![Entropy](entropy.svg)\n\nEntropy.\n\n![Masked](masked.svg)\n"
    (tmp_path / "controls" / "page.md").write_text(page)
    (tmp_path / "knights").mkdir()
    (tmp_path / "knights" / "summary.json").write_text(json.dumps(summary))
    text = index.write_index(tmp_path).read_text()
    assert re.findall(r"!\[.*\)", text) == ["![controls: Entropy](controls/entropy.svg)"]  # a page's first
    assert "- It is so.\n\n![controls: Entropy](controls/entropy.svg)\n\n## knights\n" in text
    assert "| [controls](controls/page.md) | 2 of 3 | 12,345 | Why? |" in text
    assert "| main | **not run yet** | – | Which objective" in text
    told = "## controls\n\n**Partial: 2 of 3 seeds are finished; not run yet: B.**\n\n- It is so.\n"
    assert told in text and "## main" not in text


def test_a_failure_stops_everything_and_names_the_log(tmp_path):
    plan = [step(tmp_path, "slow", "exec sleep 60  # {}"), step(tmp_path, "bad", "echo no room; exit 3")]
    began = time.monotonic()
    with pytest.raises(StapoError, match=r"bad failed \(exit 3\): no room; all of it: .*bad.log"):
        costs.run_steps({s.name: s for s in plan}, tmp_path, jobs=2)
    assert time.monotonic() - began < 50
    # Finished without its result is a failure, too.
    with pytest.raises(StapoError, match=r"quiet failed \(exit 0\)"):
        costs.run_steps({"quiet": step(tmp_path, "quiet", "true")}, tmp_path, jobs=1)
