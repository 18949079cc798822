"""An engine beside the model draws with the model's present weights, awake only while it draws."""

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from train_setup import grade_by_hash, make_base, make_config

from stapo_bench.engines.transformers import TransformersEngine, load_checkpoint
from stapo_bench.engines.vllm import VllmEngine
from stapo_bench.errors import StapoError
from stapo_train import reward, rollout, run


class BesideTheModel(TransformersEngine):
    """An engine with weights of its own and vLLM's ways; it says what it was told to do."""

    told: list[str]

    def __init__(self, checkpoint, *, dtype, positions, gpu_memory, sleeps, launched):
        super().__init__(*load_checkpoint(checkpoint, dtype=dtype))
        assert sleeps and positions and not launched
        type(self).told = [f"open {checkpoint.name} {dtype} {gpu_memory}"]

    def load_weights(self, weights):
        self.told.append("weights")
        self._model.load_state_dict(weights)

    def generate(self, requests, params):
        assert self.told[-1] in ("weights", "draw"), "asleep"
        self.told.append("draw")
        return super().generate(requests, params)

    def sleep(self):
        self.told.append("sleep")

    def close(self):
        self.told.append("close")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "grade", grade_by_hash)
    make_base(tmp_path / "base")
    return tmp_path


def result(final: Path):
    rows = [json.loads(line) for line in (final.parents[1] / "metrics.jsonl").read_text().splitlines()]
    return (final / "model.safetensors").read_bytes(), [(r["reward"], r["rollout_mismatch"]) for r in rows]


def test_the_engine_gets_the_weights_of_each_iteration_and_rests_in_between(folder, monkeypatch):
    shared = result(run.train(make_config(folder, out=str(folder / "shared"))))
    monkeypatch.setattr(rollout, "VllmEngine", BesideTheModel)
    apart = result(run.train(make_config(folder, rollout__engine="vllm")))
    assert apart == shared
    expected = ["open base float32 0.5", "sleep", *["weights", "draw", "sleep"] * 3, "close"]
    assert BesideTheModel.told == expected


def test_every_round_of_dynamic_sampling_draws_awake(folder, monkeypatch):
    monkeypatch.setattr(rollout, "VllmEngine", BesideTheModel)
    # No group is informative: all rounds are needed.
    monkeypatch.setattr(run, "grade", lambda *args: [replace(r, reward=1.0) for r in grade_by_hash(*args)])
    run.train(make_config(folder, iterations=1, rollout__engine="vllm", rollout__max_rounds=3))
    assert BesideTheModel.told[1:] == ["sleep", "weights", "draw", "draw", "draw", "sleep", "close"]


def test_groups_that_differ_by_their_lengths_alone_make_room_for_others(folder, monkeypatch):
    rounds, draw = [], run.sample_rollouts

    def cut(*args, **kw):  # to 5, 6, 7 and 8 tokens of a group's four
        rounds.append(len(args[1]))
        drawn = draw(*args, **kw)
        return [replace(r, response_ids=(5,) * (5 + r.index), rollout_log_probs=None) for r in drawn]

    monkeypatch.setattr(run, "sample_rollouts", cut)
    monkeypatch.setattr(run, "grade", lambda *args: [replace(r, reward=0.0) for r in grade_by_hash(*args)])
    stored, save = [], run.save_rollouts
    monkeypatch.setattr(run, "save_rollouts", lambda *args: (stored.extend(r.reward for r in args[2]), save(*args)))
    config = make_config(folder, iterations=1, rollout__max_rounds=3, reward={"overlong_buffer": 4})
    ((mean, _),) = result(run.train(config))[1]
    assert rounds == [4, 4, 4]
    assert mean == -0.3125  # half of -(1/4 + 2/4 + 3/4 + 4/4) / 4, as rewards are 0 and 1
    assert stored == [-0.125, -0.25, -0.375, -0.5] * 4  # what a resumed run goes on from is short of the penalty, too


def test_a_rollout_that_the_engine_gave_up_on_is_left_out(folder, monkeypatch):
    class Failing(BesideTheModel):
        def generate(self, requests, params):
            first, *others = super().generate(requests, params)
            yield replace(first, text="", finish_reason="error", num_tokens=0, token_ids=None, log_probs=None)
            yield from others

    monkeypatch.setattr(rollout, "VllmEngine", Failing)
    monkeypatch.setattr(run, "grade", reward.grade)
    final = run.train(make_config(folder, iterations=2, rollout__engine="vllm", update__importance_cap=2.0))
    rows = [json.loads(line) for line in (final.parents[1] / "metrics.jsonl").read_text().splitlines()]
    assert [(row["num_rollouts"], row["num_ungraded"]) for row in rows] == [(16, 1), (16, 1)]
    assert rows[0]["rollout_mismatch"] < 1e-4


def test_weights_left_out_are_seen_in_the_mismatch(folder, monkeypatch):
    monkeypatch.setattr(rollout, "VllmEngine", BesideTheModel)
    monkeypatch.setattr(BesideTheModel, "load_weights", lambda self, weights: self.told.append("weights"))
    _, rows = result(run.train(make_config(folder, rollout__engine="vllm")))
    mismatches = [mismatch for _, mismatch in rows]
    assert mismatches[0] < 1e-5
    assert all(mismatch > 1e-2 for mismatch in mismatches[1:])


def test_a_resumed_run_opens_the_engine_on_its_checkpoint(folder, monkeypatch):
    monkeypatch.setattr(rollout, "VllmEngine", BesideTheModel)
    config = make_config(folder, rollout__engine="vllm", autocast=True)
    iterate = run.iterate

    def stopping(r, state):
        if state.iteration == 2:
            raise StapoError("stopped")
        return iterate(r, state)

    monkeypatch.setattr(run, "iterate", stopping)
    with pytest.raises(StapoError, match="stopped"):
        run.train(config)
    assert BesideTheModel.told[-1] == "close"
    monkeypatch.setattr(run, "iterate", iterate)
    run.train(config, resume=True)
    assert BesideTheModel.told == ["open step-000002 bfloat16 0.5", "sleep", "weights", "draw", "sleep", "close"]


@pytest.mark.parametrize("lacking", ["prompt", "completion"])
def test_an_engine_without_token_ids_is_refused(folder, monkeypatch, lacking):
    class Texts(BesideTheModel):
        def generate(self, requests, params):
            for completion in super().generate(requests, params):
                yield replace(completion, token_ids=None) if lacking == "completion" else completion

    render = run.render

    def as_text(*arguments):
        return [replace(prompt, token_ids=None) if lacking == "prompt" else prompt for prompt in render(*arguments)]

    monkeypatch.setattr(rollout, "VllmEngine", Texts)
    monkeypatch.setattr(run, "render", as_text)
    with pytest.raises(StapoError, match="expected an engine that returns token ids"):
        run.train(make_config(folder, iterations=1, rollout__engine="vllm"))


def test_vllm_is_told_how_long_a_sequence_can_be_and_a_short_context_is_said(folder, monkeypatch, capsys):
    opened = []

    class Opened(BesideTheModel):
        def __init__(self, checkpoint, *, positions, **others):
            opened.append(positions)
            super().__init__(checkpoint, positions=positions, **others)

    monkeypatch.setattr(rollout, "VllmEngine", Opened)
    monkeypatch.setattr(rollout, "declared_context", lambda path: 15)
    config = make_config(folder, iterations=1, rollout__engine="vllm")
    run.train(config)
    longest = opened[0] - config.rollout.max_new_tokens
    assert 1 < longest < 40  # a tiny problem's tokens
    assert f"its context of 15 tokens is less than the longest prompt ({longest})" in capsys.readouterr().err


@pytest.mark.parametrize(("engine", "ahead"), [(object(), None), (object(), 1), (object.__new__(VllmEngine), None)])
def test_an_adapter_is_merged_for_an_engine_that_samples_with_the_trainers_model(monkeypatch, engine, ahead):
    said = []

    @contextmanager
    def merged(model):
        said.append("merged")
        yield
        said.append("taken apart")

    monkeypatch.setattr(rollout, "merged", merged)
    monkeypatch.setattr(rollout, "load_weights", lambda *_: said.append("loaded"))
    monkeypatch.setattr(rollout, "free_memory", lambda *_: said.append("freed"))
    with rollout.weights_of_checkpoint(engine, None, SimpleNamespace(ahead=ahead)):
        said.append("drawn")
    shares = type(engine) is object and ahead is None
    drawn = ["merged", "drawn", "taken apart"] if shares else ["drawn"]
    assert said == ["loaded", *drawn, "freed"]
