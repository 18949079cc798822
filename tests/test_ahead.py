"""Rollouts drawn ahead: by which weights, the same whenever they are drawn, and after any stop."""

from concurrent.futures import Executor, Future

import pytest
import torch
from train_setup import make_config, make_values, result, stop_after

from stapo_bench.errors import StapoError, UsageError
from stapo_train import run
from stapo_train.config import parse_config
from stapo_train.rollout_files import load_rollouts

pytestmark = pytest.mark.usefixtures("graded_by_hash")


def ahead(folder, **changes):
    return make_config(folder, rollout__ahead=1, **changes)


class AtOnce(Executor):
    """In place of the thread: what is asked for is done before anything else."""

    def __init__(self, _workers: int) -> None:
        pass

    def submit(self, function, /, *arguments):
        done: Future = Future()
        done.set_result(function(*arguments))
        return done


def test_each_iteration_trains_on_what_the_weights_of_one_iteration_before_drew(folder, monkeypatch):
    """Weights of every iteration stand beside the rollouts: whose log-probs are the engine's?"""
    drop = run.drop_rollouts
    monkeypatch.setattr(run, "drop_rollouts", lambda *_: None)
    config = ahead(folder, iterations=4)
    run.train(config)
    monkeypatch.setattr(run, "drop_rollouts", drop)
    models = [folder / "base", *(folder / "run" / "checkpoints" / name for name in ("step-000001", "step-000002"))]
    for iteration, drew in ((1, 0), (2, 0), (3, 1), (4, 2)):
        rollouts, asked = load_rollouts(folder / "run", iteration)
        assert asked == 4 and len(rollouts) == 16
        distances = [off_by(rollouts, run.load_model(path, config)[0]) for path in models]
        assert distances[drew] < 1e-4
        assert min(d for i, d in enumerate(distances) if i != drew) > 1e-3
    rows = result(folder / "run")[1]
    assert rows[0]["rollout_mismatch"] < 1e-4
    assert min(row["rollout_mismatch"] for row in rows[1:]) > 1e-3
    assert 0 <= rows[0]["rollout_ratio"]["k3"] < 1e-6
    assert min(row["rollout_ratio"]["k3"] for row in rows[1:]) > 1e-5


def off_by(rollouts, model) -> float:
    """The largest difference of a model's log-probs to those that the rollouts came with, nats."""
    worst = 0.0
    for r in rollouts[:4]:
        ids = torch.tensor([r.prompt_ids + r.response_ids])
        with torch.no_grad():
            log_probs = model(input_ids=ids).logits[0, len(r.prompt_ids) - 1 : -1].log_softmax(-1)
        taken = log_probs.gather(1, torch.tensor(r.response_ids)[:, None])[:, 0]
        worst = max(worst, float((taken - torch.tensor(r.rollout_log_probs)).abs().max()))
    return worst


def test_what_is_drawn_does_not_depend_on_when(folder, monkeypatch):
    run.train(ahead(folder, out=str(folder / "beside")))
    monkeypatch.setattr(run, "ThreadPoolExecutor", AtOnce)
    run.train(ahead(folder, out=str(folder / "before")))
    assert result(folder / "beside") == result(folder / "before")


def test_it_is_another_training_than_without(folder):
    run.train(make_config(folder, out=str(folder / "plain")))
    run.train(ahead(folder))
    (plain, plain_rows), (weights, rows) = result(folder / "plain"), result(folder / "run")
    assert {**rows[0], "crc32": 0} == {
        **plain_rows[0],
        "crc32": 0,
    }  # the first is drawn by the first weights either way
    assert plain != weights


@pytest.mark.slow(reason="seven trainings, two of which are stopped")
def test_stopped_and_made_longer_it_ends_as_an_unbroken_one(folder):
    run.train(ahead(folder, iterations=4, checkpoint__every=2, out=str(folder / "whole")))
    for stop in (1, 3):  # before any checkpoint, and past one
        with pytest.MonkeyPatch.context() as patch:
            stop_after(patch, stop)
            with pytest.raises(KeyboardInterrupt):
                run.train(ahead(folder, iterations=4, checkpoint__every=2), resume=True)
    run.train(ahead(folder, iterations=4, checkpoint__every=2), resume=True)
    assert result(folder / "run") == result(folder / "whole")
    short = str(folder / "short")
    run.train(ahead(folder, iterations=2, checkpoint__every=2, out=short))
    run.train(ahead(folder, iterations=2, checkpoint__every=2, out=short))  # finds it finished, and keeps what it needs
    run.train(ahead(folder, iterations=4, checkpoint__every=2, out=short), resume=True)
    assert result(folder / "short") == result(folder / "whole")
    assert [path.name for path in (folder / "whole" / "state").glob("rollouts-*")] == ["rollouts-000005.jsonl"]


def test_without_the_rollouts_drawn_ahead_it_does_not_go_on(folder):
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            run.train(ahead(folder))
    stored = folder / "run" / "state" / "rollouts-000002.jsonl"
    stored.write_bytes(stored.read_bytes()[:-2] + b"x\n")
    with pytest.raises(
        StapoError, match=r"rollouts-000002\.jsonl: damaged .*; restore the file, or train anew with out="
    ):
        run.train(ahead(folder), resume=True)
    stored.unlink()
    with pytest.raises(StapoError, match="expected the rollouts of iteration 2, drawn ahead, in state/, found none"):
        run.train(ahead(folder), resume=True)


def test_a_drawing_that_fails_ends_the_training_with_its_error(folder, monkeypatch):
    draw = run.sample_rollouts

    def failing(*args, **kwargs):
        if kwargs["iteration"] == 3:
            raise StapoError("out of memory with a single sequence")
        return draw(*args, **kwargs)

    monkeypatch.setattr(run, "sample_rollouts", failing)
    with pytest.raises(StapoError, match="out of memory with a single sequence"):
        run.train(ahead(folder))


def test_one_iteration_ahead_is_all_there_is(folder):
    values = make_values(folder)
    for other in (2, 0, True):
        values["rollout"]["ahead"] = other
        with pytest.raises(UsageError, match=f"ahead: expected one of 1 or null, got {other}"):
            parse_config(values, "test")


def test_a_config_without_it_is_the_run_that_it_was(folder):
    config = make_config(folder)
    values = make_values(folder)
    values["rollout"]["ahead"] = None
    assert parse_config(values, "test").digest() == config.digest() != ahead(folder).digest()
