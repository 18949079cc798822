"""``stapo-bench follow``: what it refuses, says, draws and tells trackers."""

# ruff: noqa: F401, F811  engine and training are fixtures, which tests take as arguments
import json
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from follow_setup import (
    ByWeights,
    engine,
    followed,
    options,
    training,
    write_weights,
)

from stapo_bench.commands.follow import follow as follow_command
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting import finish_run
from stapo_bench.presenting.exporting import LIVE, open_logs
from stapo_bench.sampling import EvalOptions, FollowOptions
from stapo_bench.sampling import following as module
from stapo_bench.sampling.following import read_log

pytestmark = pytest.mark.usefixtures("graded_here")


def test_what_cannot_be_followed_is_refused(training, tmp_path):
    with pytest.raises(StapoError, match="nowhere: expected a folder with the checkpoints of a training, found none"):
        followed(options(training, folder=tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(StapoError, match="expected a complete checkpoint, found none; leave --once out"):
        followed(options(training, folder=tmp_path / "empty", base=None))
    followed(options(training))
    with pytest.raises(UsageError, match=r"--base: .* follows with the base .*/base, got .*/other"):
        followed(options(training, base=tmp_path / "other"))
    with module._held(tmp_path / "out"), pytest.raises(StapoError, match="another process follows a training here"):
        followed(options(training))


def test_another_base_is_refused_while_the_first_is_only_begun(training):
    def stop(engine, request):
        raise KeyboardInterrupt

    ByWeights.before = stop
    with pytest.raises(KeyboardInterrupt):
        followed(options(training))
    ByWeights.before = None
    write_weights(training.parent / "other", 5)
    with pytest.raises(UsageError, match=r"--base: .* follows with the base .*/base, got .*/other"):
        followed(options(training, base=training.parent / "other"))


def test_other_settings_are_refused_before_a_checkpoint_is_looked_at(training):
    followed(options(training))
    asked = options(training)
    hotter = FollowOptions(**{**asked.__dict__, "asked": EvalOptions(**{**asked.asked.__dict__, "seed": 1})})
    with pytest.raises(StapoError, match="seed: the run has 0, now 1"):
        followed(hotter)


def test_a_damaged_log_is_named(training):
    followed(options(training))
    log = training.parent / "out/followed.jsonl"
    log.write_text(log.read_text().replace("better", "bettor"))
    with pytest.raises(StapoError, match=r"followed.jsonl:3: expected a followed checkpoint, got its content"):
        followed(options(training))


def test_the_command_says_each_checkpoint_and_writes_the_curve(training, monkeypatch):
    asked = options(training).asked
    folder = training.parent
    arguments = [str(training), "--base", str(folder / "base"), "--decoding", "justrl", "--tasks", asked.tasks[0]]
    arguments += ["--data-dir", str(folder / "data"), "--samples", "16", "--out", str(folder / "out"), "--once"]
    result = CliRunner().invoke(follow_command, arguments, catch_exceptions=False)
    lines = [line for line in result.stdout.splitlines() if line]
    assert lines[0] == f"base: {folder / 'base'}"
    assert lines[1].startswith("step 10: not told from the base, ") or lines[1].startswith("step 10: tied")
    assert lines[2].startswith("step 20: better than the base, +")
    assert lines[3].startswith("the gain over the base is shown from step 20 on;")
    curve = json.loads((folder / "out/curve.json").read_text())
    assert [point["step"] for point in curve["points"]] == [None, 10, 20]
    assert curve["points"][2]["gain"] > 0.3
    assert "step-000020" in (folder / "out/curve.md").read_text()
    assert (folder / "out/curve.svg").read_text().startswith("<?xml")


def test_trackers_get_a_point_per_checkpoint_and_again_when_it_is_started_again(training, monkeypatch):
    seen: list[dict] = []
    begun: list[dict] = []

    run = SimpleNamespace(define_metric=lambda *_, **__: None, log=seen.append)
    wandb = SimpleNamespace(init=lambda **how: begun.append(how) or nullcontext(run), Error=RuntimeError)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    asked = options(training).asked
    folder = training.parent
    arguments = [str(training), "--base", str(folder / "base"), "--decoding", "justrl", "--tasks", asked.tasks[0]]
    arguments += ["--data-dir", str(folder / "data"), "--samples", "16", "--out", str(folder / "out"), "--once"]
    for _ in range(2):
        CliRunner().invoke(follow_command, [*arguments, "--log", "wandb"], catch_exceptions=False)
    assert seen[:3] == seen[3:] and begun[0] == begun[1]
    assert (begun[0]["name"], begun[0]["resume"]) == ("out", "allow")
    assert [point["step"] for point in seen[:3]] == [0, 10, 20]
    ended = read_log(folder / "out")[2]
    assert (seen[2]["gain/value"], seen[2]["gain/low"]) == (ended.value, ended.low) and "gain/value" not in seen[0]
    assert seen[0]["sums/avg_at_16"] == json.loads((folder / "out/base/scores.json").read_text())["tasks"][0]["value"]


def test_a_tracker_that_is_missing_is_refused_before_a_sample_is_drawn(training, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ModuleNotFoundError, match="mlflow"), open_logs(["mlflow"], training.parent / "out"):
        pass
    (choice,) = [option.type for option in follow_command.params if option.name == "trackers"]
    assert list(choice.choices) == list(LIVE) and not (training.parent / "out").exists()


def test_mlflow_goes_on_with_the_run_of_the_folder(training, monkeypatch):
    calls: list[tuple] = []

    def note(name, result=None):
        return lambda *given, **how: calls.append((name, given, how)) or result

    known: list = []
    run = nullcontext()
    mlflow = SimpleNamespace(
        set_experiment=note("set_experiment"), search_runs=note("search", known), start_run=note("start", run),
        log_metrics=note("log"), MlflowException=RuntimeError,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    entries = followed(options(training))
    out = training.parent / "out"
    for _ in range(2):
        finish_run(out / entries[2].run, data_dir=training.parent / "data")
        with open_logs(["mlflow"], out) as log:
            log(entries[2])
        known.append(SimpleNamespace(info=SimpleNamespace(run_id="one")))
    first, second = (how for name, _, how in calls if name == "start")
    assert first["run_name"] == "out" and second == {"run_id": "one"}
    assert [how for name, _, how in calls if name == "log"] == [{"step": 20}] * 2
