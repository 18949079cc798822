"""The order of the whole experiment: nothing starts before what it needs, and the base model has the machine alone."""

import json
import types
from pathlib import Path

import pytest

from stapo_train import jobs
from stapo_train.reproduce import table
from stapo_train.reproduce import tiny as script


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


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_every_job_runs_once_and_after_what_it_needs(tmp_path, lanes):
    plan = script.jobs(tmp_path)
    needs = {job.name: job.needs for job in plan}
    order, most = finish_in_order(plan, lanes)
    assert sorted(order) == sorted(needs) and len(order) == 1 + 4 + 10
    assert most == lanes
    assert all(order.index(need) < order.index(name) for name, found in needs.items() for need in found)


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
    published = Path(__file__).resolve().parent.parent / "results" / "tiny" / "manifests.json"
    assert set(json.loads(published.read_text())) == set(names)
