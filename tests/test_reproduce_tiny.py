"""The order of the whole experiment: nothing starts before what it needs, and pretraining has the machine alone.

And its base model: the one that the repository holds is the published table's, and no other takes its place unsaid.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import types
from dataclasses import replace
from pathlib import Path

import pytest

from stapo_bench.errors import StapoError
from stapo_bench.runs import read_checkpoint
from stapo_train import jobs
from stapo_train.reproduce import table
from stapo_train.reproduce import tiny as script
from stapo_train.tiny import pretrain
from stapo_train.tiny.pretrain import load_config, stored_config


def finish_in_order(plan, lanes):
    """Simulate: start what is ready, finish the oldest running job; returns names by start, and the most at once."""
    order, running, most = [], [], 0
    while not all(job.done for job in plan):
        for job in jobs.ready(plan, lanes):
            job.process = object()
            running.append(job)
            order.append(job.name)
        most = max(most, len(running))
        assert not any(job.all_lanes for job in running) or len(running) == 1
        running.pop(0).done = True
    return order, most


@pytest.mark.parametrize("from_scratch", [False, True])
@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_every_job_runs_once_and_after_what_it_needs(tmp_path, lanes, from_scratch):
    plan = script.jobs(tmp_path, from_scratch)
    needs = {job.name: job.needs for job in plan}
    order, most = finish_in_order(plan, lanes)
    assert sorted(order) == sorted(needs) and len(order) == from_scratch + 4 + 10
    assert most == lanes
    assert all(order.index(need) < order.index(name) for name, found in needs.items() for need in found)
    first = order[from_scratch : from_scratch + 2]  # the rows that can be known first
    assert first == ["eval base training", "eval base justrl"] and order[0].startswith("pretrain") is from_scratch


def run_main(monkeypatch, *arguments):
    """The script with jobs that do nothing; gives the plan that it ran."""
    plans = []
    monkeypatch.setattr(script.sys, "argv", ["reproduce_table.sh", *map(str, arguments)])
    monkeypatch.setattr(script, "run_jobs", lambda plan, lanes, ended: plans.append(plan))
    monkeypatch.setattr(script, "write_results", lambda out: None)
    script.main()
    return plans


def test_the_shipped_base_model_is_the_published_tables_and_is_copied_once(tmp_path, monkeypatch):
    assert read_checkpoint(script.SHIPPED).digest == script.published_digest()
    config = load_config(script.CONFIGS / "base.yaml")  # stands beside it
    assert replace(stored_config(script.SHIPPED), out="runs/tiny/base") == config
    pretrain._claim(tmp_path, config)
    assert (tmp_path / "pretrain.json").read_bytes() == (script.SHIPPED / "pretrain.json").read_bytes()
    (tmp_path / ".base").mkdir()  # of a copy that was stopped
    for _ in range(2):
        (plan,) = run_main(monkeypatch, "--out", tmp_path)
        assert read_checkpoint(tmp_path / "base").digest == script.published_digest()
        assert not any(job.name.startswith("pretrain") for job in plan)
    with pytest.raises(StapoError, match=r"base: expected a base model made with --from-scratch .*got a copy"):
        run_main(monkeypatch, "--out", tmp_path, "--from-scratch")


def test_another_base_model_is_not_taken_for_the_shipped_one(tmp_path, monkeypatch):
    base = tmp_path / "base"
    base.mkdir()
    (base / "pretrain.json").write_text("{}")  # where pretraining was stopped
    with pytest.raises(StapoError, match=r"base: expected the shipped base model or nothing, got another .*--from-scr"):
        run_main(monkeypatch, "--out", tmp_path)
    (plan,) = run_main(monkeypatch, "--out", tmp_path, "--from-scratch")
    assert plan[0].name == "pretrain base"
    shutil.rmtree(base)
    shutil.copytree(script.SHIPPED, base)
    (base / "generation_config.json").write_text("{}")
    with pytest.raises(StapoError, match=r"got another one or one half made"):
        run_main(monkeypatch, "--out", tmp_path)
    monkeypatch.setattr(script, "SHIPPED", base)
    with pytest.raises(
        StapoError, match=rf"base: expected .*manifests.json \(digest {script.published_digest()[:12]}\)"
    ):
        run_main(monkeypatch, "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("place", "scratch"), [("/proc/none", []), ("/dev/null", ["--from-scratch"])])
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, place, scratch):
    command = [sys.executable, "-m", "stapo_train.reproduce.tiny", "--out", place, *scratch]
    found = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert found.returncode == 1 and found.stdout == ""
    assert found.stderr.startswith(f"reproduce_table.sh: cannot write {place}/") and found.stderr.count("\n") == 1


def test_each_finished_evaluation_shows_its_row_and_pretraining_whether_it_made_the_shipped_model(
    tmp_path, monkeypatch, capsys
):
    heads = "| Method | Avg |\n| --- | --- |\n"
    asked = []

    def table_of(command, **kwargs):
        asked.append(command)
        return types.SimpleNamespace(stdout=f"**title**\n\n{heads}| Base | 37 |\n\nnotes\n")

    monkeypatch.setattr(table.subprocess, "run", table_of)
    ended = []
    monkeypatch.setattr(script.sys, "argv", ["reproduce_table.sh", "--out", str(tmp_path)])
    monkeypatch.setattr(script, "run_jobs", lambda plan, lanes, ended: [ended(job, None) for job in made(plan)])
    monkeypatch.setattr(script, "write_results", lambda out: None)

    def made(plan):
        for job in plan:
            job.process = types.SimpleNamespace(returncode=int(job.name != "eval base justrl"))
            ended.append(job.name)
        return plan

    script.main()
    assert len(ended) == 14 and capsys.readouterr().out == f"{heads}| Base | 37 |\n"  # of the one that ended well
    assert asked == [["stapo-bench", "table", str(tmp_path / "eval" / "base-justrl")]]
    pretraining = script.jobs(tmp_path, from_scratch=True)[0]
    script._tell_result(pretraining, tmp_path)
    assert capsys.readouterr().out == "the base model made from scratch: the same bytes as the shipped one\n"
    (tmp_path / "base" / "config.json").write_text("{}")
    script._tell_result(pretraining, tmp_path)
    assert capsys.readouterr().out.startswith("the base model made from scratch: other bytes than the shipped one, as")


def test_progress_is_the_last_count_in_the_log(tmp_path):
    job = jobs.Job(name="x", command=[], weight=1, log=tmp_path / "x.log", process=object())
    assert job.progress() == ("", 0.0)
    job.log.write_text("step 3/40, loss 2.1\nstep 1,010/4,040\n")
    assert job.progress() == ("1,010/4,040", 0.25)
    job.done = True
    assert job.progress() == ("done", 1.0)


def test_the_results_hold_every_run_s_manifest_in_one_file(tmp_path, monkeypatch):
    said = types.SimpleNamespace(stdout="a table\n")
    monkeypatch.setattr(table.subprocess, "run", lambda *args, **kwargs: said)
    models = ("base", *table.METHODS)
    for model in models:
        for regime in table.REGIMES:
            folder = table.run_folder(tmp_path, model, regime)
            folder.mkdir(parents=True)
            (folder / "manifest.json").write_text(json.dumps({"of": folder.name}))
    for method in table.METHODS:
        (tmp_path / method).mkdir()
        for name in ("config.yaml", "metrics.jsonl"):
            (tmp_path / method / name).write_text(method)
    table.write_results(tmp_path)
    names = [f"{model}-{regime}" for model in models for regime in table.REGIMES]
    assert json.loads((tmp_path / "results" / "manifests.json").read_text()) == {name: {"of": name} for name in names}
    assert (tmp_path / "results" / "table.md").read_text() == "a table\n"
    with tarfile.open(tmp_path / "results" / "trainings.tar.gz") as archive:
        assert archive.getnames() == [
            f"trainings/{method}/{name}"
            for method in sorted(table.METHODS)
            for name in ("config.yaml", "metrics.jsonl")
        ]
        assert archive.extractfile("trainings/grpo/metrics.jsonl").read() == b"grpo"
    published = Path(__file__).resolve().parent.parent / "results" / "tiny" / "manifests.json"
    assert set(json.loads(published.read_text())) == set(names)
