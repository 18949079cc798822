"""Evaluation during training: no weight depends on it, no sample is lost or drawn twice, its runs are those of eval."""

import json

import pytest
from train_setup import make_config, make_values, result, stop_after

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import load_run
from stapo_bench.runs.store import scan_keys
from stapo_bench.sampling import evaluate
from stapo_train import run
from stapo_train.config import parse_config
from stapo_train.evaluation import eval_options
from stapo_train.preflight import check_before_loading

EVAL = {"every": 2, "tasks": ["tiny_aime24"], "samples": 1}


@pytest.fixture(autouse=True)
def _quick(graded_by_hash, graded_here, monkeypatch):
    """Trainings of a second, and no figure beside each curve: another test draws it."""
    monkeypatch.setattr("stapo_bench.presenting.followed.find_spec", lambda _: None)


def evaluated(folder, **changes):
    return make_config(folder, eval=EVAL, **changes)


def texts(out) -> dict:
    """Every sample of a training's evaluations, by run and key."""
    found = {}
    for place in sorted(out.glob("eval/step-*")):
        keys = []
        assert scan_keys(place, 0, lambda sample, keys=keys: keys.append((sample.key, sample.completion)))[1] == 0
        found |= {(place.name, key): text for key, text in keys}
    return found


def test_no_weight_depends_on_it_and_its_scores_are_those_of_its_runs(folder, capsys):
    plain = make_config(folder, out=str(folder / "plain"))
    config = evaluated(folder)
    run.train(plain)
    run.train(config)
    assert config.training_digest() == plain.training_digest()
    (weights, rows), (other, other_rows) = result(folder / "run"), result(folder / "plain")
    assert weights == other
    found = [row.pop("evaluation") for row in rows]
    assert [{**row, "crc32": 0, "evaluation": 0} for row in rows] == [
        {**row, "crc32": 0, "evaluation": 0} for row in other_rows
    ]
    assert found[0] == {} and found[1].keys() == found[2].keys() == {
        "score", "low", "high", "gain", "gain_low", "gain_high"
    }  # fmt: skip
    logged = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_bytes().splitlines()]
    assert ["evaluation" in row["seconds"] for row in logged] == [False, True, True]
    assert all(row["seconds"]["evaluation"] > 0 and row["memory"]["evaluation"] > 0 for row in logged[1:])
    runs = [folder / "run" / "eval" / f"step-{step:06d}" for step in (0, 2, 3)]
    scores = [json.loads((one / "scores.json").read_text())["macro"]["value"] for one in runs]
    for step, row in ((1, found[1]), (2, found[2])):
        assert row["score"] == scores[step]
        assert row["gain"] == pytest.approx(scores[step] - scores[0])
        assert row["low"] <= row["score"] <= row["high"] and row["gain_low"] <= row["gain"] <= row["gain_high"]
    assert [load_run(one).manifest.about.step for one in runs] == [None, 2, 3]
    assert len(texts(folder / "run")) == 3 * 30
    said = capsys.readouterr().err  # which step is the highest hangs on the processor
    assert said.count("; the highest is step-") == 2 and said.count(" picked ") == 2
    again = eval_options(config, folder / "run" / "checkpoints" / "final", 3)  # as the command would: all is there
    assert evaluate(again).num_sampled == 0


@pytest.mark.slow(reason="five trainings with evaluations, three of which die")
def test_what_a_kill_left_of_an_evaluation_is_completed_and_nothing_drawn_again(folder, monkeypatch):
    run.train(evaluated(folder, out=str(folder / "whole")))
    asked = []

    class Dying:
        """An engine that dies behind seven samples."""

        def __init__(self, engine) -> None:
            self._engine = engine

        def __getattr__(self, name):
            return getattr(self._engine, name)

        def generate(self, requests, params):
            for number, completion in enumerate(self._engine.generate(requests, params)):
                if number == 7:
                    raise RuntimeError("the device fell off the bus")
                asked.append(completion.key)
                yield completion

    evaluate_checkpoint = run.evaluate_checkpoint
    for iteration in (0, 2, 3):  # of the base, of a checkpoint, of the last one
        with monkeypatch.context() as patch:
            patch.setattr(
                run,
                "evaluate_checkpoint",
                lambda config, engine, now, *rest, iteration=iteration: evaluate_checkpoint(
                    config, Dying(engine) if now == iteration else engine, now, *rest
                ),
            )
            with pytest.raises(StapoError, match="the device fell off the bus"):
                run.train(evaluated(folder), resume=True)
        assert not (folder / "run" / "checkpoints" / "final").exists()
    run.train(evaluated(folder), resume=True)
    assert len(asked) == 3 * 7
    assert texts(folder / "run") == texts(folder / "whole")
    assert result(folder / "run") == result(folder / "whole")


def test_what_a_finished_evaluation_took_stays_when_the_run_is_resumed(folder, monkeypatch):
    def stopped(resume: bool) -> bytes:
        with monkeypatch.context() as patch:
            stop_after(patch, 2)
            with pytest.raises(KeyboardInterrupt):
                run.train(evaluated(folder), resume=resume)
        return (folder / "run" / "metrics.jsonl").read_bytes()

    first = stopped(resume=False)
    assert json.loads(first.splitlines()[1])["seconds"]["evaluation"] > 0
    assert stopped(resume=True) == first


@pytest.mark.slow(reason="four trainings with evaluations, one of which is stopped")
def test_made_longer_and_drawn_ahead_it_goes_on(folder):
    run.train(evaluated(folder, iterations=4, rollout__ahead=1, out=str(folder / "whole")))
    run.train(evaluated(folder, iterations=2, rollout__ahead=1))
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(KeyboardInterrupt):
            run.train(evaluated(folder, iterations=4, rollout__ahead=1), resume=True)
    run.train(evaluated(folder, iterations=4, rollout__ahead=1), resume=True)
    assert result(folder / "run") == result(folder / "whole")
    assert texts(folder / "run") == texts(folder / "whole")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eval": {**EVAL, "every": 3}, "checkpoint__every": 2}, "eval.every: expected a multiple of checkpoint.every"),
        ({"eval": {**EVAL, "tasks": []}}, "eval: tasks: expected at least one task, got none"),
        ({"eval": {**EVAL, "samples": 0}}, "eval: samples: expected at least 1, got 0"),
        ({"eval": {**EVAL, "sample": 1}}, "unknown key 'sample': did you mean 'samples'?"),
    ],
)
def test_mistakes_are_named(folder, changes, message):
    with pytest.raises(UsageError) as error:
        parse_config(make_values(folder, **changes), "test")
    assert message in str(error.value)


def test_an_unknown_task_is_refused_before_anything_is_loaded(folder):
    with pytest.raises(StapoError, match="tiny_aime42"):
        check_before_loading(make_config(folder, eval={**EVAL, "tasks": ["tiny_aime42"]}))
    with pytest.raises(StapoError, match=r"none/\S+: no such file"):
        check_before_loading(make_config(folder, eval={**EVAL, "tasks": ["amc23"], "data_dir": str(folder / "none")}))
