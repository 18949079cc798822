"""Adapters for real, by peft: gradients by hand, what rollouts and evaluations see, kills, ranks, the reference."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from ranks_setup import on_ranks, train_each
from safetensors.torch import load_file
from train_setup import grade_by_hash, make_base, make_config, result, stop_after

from stapo_bench.engines.adapter import merge, read_adapter
from stapo_bench.engines.transformers import load_checkpoint
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import base_of, is_adapter, read_adapted
from stapo_bench.runs.store import scan_keys
from stapo_bench.sampling import evaluate
from stapo_train import run
from stapo_train.check.toy import toy_batch, toy_objective, toy_policy
from stapo_train.config import LoraConfig
from stapo_train.cost.shapes import read_shape
from stapo_train.evaluation import eval_options
from stapo_train.inspect.dump import load_dump
from stapo_train.lora import MergedWeights, add_adapter, is_adapted, merged
from stapo_train.objective import ONE_PROCESS
from stapo_train.policy import load_model
from stapo_train.run import reference_of
from stapo_train.update import Step, accumulate_gradient

PeftModel = pytest.importorskip("peft", reason="scripts/integration.sh low-memory runs this").PeftModel

LORA = {"rank": 4, "alpha": 6.0, "targets": ["q_proj", "down_proj"]}
SETTINGS = {"lora": LORA, "objective": {"name": "grpo"}}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    make_base(tmp_path / "base", sharpness=10.0)
    monkeypatch.setattr(run, "grade", grade_by_hash)
    return tmp_path


def layers(model):
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}


def test_the_gradients_of_a_and_b_are_the_dense_ones_projected():
    """With G the gradient of W + s B A: dA = s B^T G, dB = s G A^T, all in float64, G of the merged model."""
    objective = toy_objective("stapo")
    batch = toy_batch(objective)
    adapted, dense = toy_policy(objective), toy_policy(objective)
    for policy in (adapted, dense):
        policy.model.double()
    add_adapter(adapted.model, LoraConfig(rank=4, alpha=6.0, targets=("q_proj", "down_proj")), base="toy")
    adapted.model.double()
    random = torch.Generator().manual_seed(1)
    for layer in layers(adapted.model).values():  # B too, or the gradient of A is 0
        weight = layer.lora_B["default"].weight
        weight.data.copy_(torch.randn(weight.shape, generator=random, dtype=torch.float64) / 10)
    dense.model.load_state_dict(dict(MergedWeights(adapted.model)))
    step = Step(objective=objective, clip_norm=1.0, first=True)
    expected, found = (accumulate_gradient(policy, batch, step) for policy in (dense, adapted))
    assert found.numerator == pytest.approx(expected.numerator, rel=1e-10)
    gradients = {name: p.grad for name, p in dense.model.named_parameters()}
    assert len(layers(adapted.model)) == 4
    for name, layer in layers(adapted.model).items():
        a, b, g = layer.lora_A["default"].weight, layer.lora_B["default"].weight, gradients[f"{name}.weight"]
        for part, by_hand in ((a, 1.5 * b.T @ g), (b, 1.5 * g @ a.T)):  # s = 6 / 4
            assert by_hand.abs().max() > 1e-6
            assert (part.grad - by_hand).abs().max() <= 1e-10 * by_hand.abs().max()
    assert all(p.grad is None for name, p in adapted.model.named_parameters() if ".lora_" not in name)


def test_the_first_policy_is_the_base_and_its_a_is_the_seed_s(folder):
    model, _ = load_model(folder / "base", make_config(folder, **SETTINGS))
    again, _ = load_model(folder / "base", make_config(folder, **SETTINGS))
    other, _ = load_model(folder / "base", make_config(folder, **SETTINGS, seed=1))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained == sum(read_shape(folder / "base").adapter_tensors(4, LORA["targets"]))  # as the estimate counts
    base = load_file(folder / "base" / "model.safetensors")
    merged = dict(MergedWeights(model))
    assert merged.keys() - base.keys() == {"lm_head.weight"}  # tied
    assert all(torch.equal(merged[name], weight) for name, weight in base.items())
    a, b, c = (next(iter(layers(one).values())).lora_A["default"].weight for one in (model, again, other))
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_what_rollouts_were_drawn_by_is_what_the_checkpoint_evaluates_as(folder, monkeypatch):
    """The checkpoint in peft's own hands, merged by the evaluation, and as vLLM is handed it: the same weights."""
    handed = []
    monkeypatch.setattr(run, "load_weights", lambda engine, model, _: handed.append(dict(MergedWeights(model))))
    config = make_config(folder, **SETTINGS)
    final = run.train(config)
    last = sorted((folder / "run" / "checkpoints").glob("step-*"))[-1]  # by whose weights iteration 3 drew
    model, _ = load_checkpoint(folder / "base", dtype="float32", device="cpu")
    merge(model, read_adapter(last))
    evaluated = model.state_dict()
    assert evaluated.keys() == handed[-1].keys()
    assert all(torch.equal(evaluated[name], weight) for name, weight in handed[-1].items())
    assert not torch.equal(
        handed[-1]["model.layers.0.mlp.down_proj.weight"], handed[0]["model.layers.0.mlp.down_proj.weight"]
    )
    base, _ = load_checkpoint(folder / "base", dtype="float32", device="cpu")
    theirs = PeftModel.from_pretrained(base, last).merge_and_unload().state_dict()
    assert all((theirs[name] - weight).abs().max() < 1e-6 for name, weight in evaluated.items())
    assert is_adapter(final) and sorted(p.name for p in final.glob("*.safetensors")) == ["adapter_model.safetensors"]
    settings = json.loads((final / "adapter_config.json").read_text())
    assert (settings["base_model_name_or_path"], settings["target_modules"]) == (config.model, ["down_proj", "q_proj"])
    found = read_adapted(folder / "base", final)
    assert (found.method, found.step, found.training) == ("GRPO", 3, config.training_digest())
    # 4 layers of rank 4: nothing else is stored, in the optimizer's state either
    moments = load_file(folder / "run" / "state" / "step-000003" / "optimizer.safetensors")
    assert len(moments) == 3 * 2 * 4 and all("lora_" in name for name in moments)


def outcome(out: Path):
    """As ``result``, of an adapter."""
    (out / "checkpoints/final/model.safetensors").symlink_to("adapter_model.safetensors")
    return result(out)


def test_the_base_that_an_adapter_names_is_found_from_another_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    final = run.train(make_config(folder, **SETTINGS, model="base", iterations=1))
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert base_of(final, None) == folder / "base"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gradient_checkpointing": True, "activation_offload": True},
        {"objective": {"name": "grpo", "kl_beta": 0.1}},
        {"rollout__ahead": 1},
    ],
)
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(folder, changes):
    settings = {**SETTINGS, **changes}
    run.train(make_config(folder, **settings, out=str(folder / "whole")))
    config = make_config(folder, **settings)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            run.train(config)
    run.train(config, resume=True)
    assert outcome(folder / "run") == outcome(folder / "whole")


def test_the_reference_is_the_base(folder):
    """A KL term against the base with the adapter off is the one against a second model."""
    config = make_config(folder, **{**SETTINGS, "objective": {"name": "grpo", "kl_beta": 0.1}})
    base, _ = load_checkpoint(folder / "base", dtype="float32", device="cpu")
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "corrected", lambda batch, rollouts, settings: seen.append(batch) or (batch, rollouts))
        patch.setattr(run, "reference_of", lambda *given: seen.append(given[0]) or reference_of(*given))
        run.train(config)
    policy, *batches = seen
    expected = replace(policy, model=base).measure(batches[-1]).log_probs
    assert (batches[-1].stats.ref_log_probs - expected).abs().max() < 1e-5
    assert (policy.measure(batches[-1]).log_probs - expected).abs().max() > 1e-3
    assert all(p.requires_grad == (".lora_" in name) for name, p in policy.model.named_parameters())


def test_a_dump_holds_the_adapter_and_replays_its_gradient(folder):
    run.train(make_config(folder, **SETTINGS), dump_iterations=[2])
    dump = load_dump(folder / "run" / "dumps" / "iteration-000002")
    assert is_adapted(dump.policy.model)
    now = dump.batch.stats.log_probs - dump.batch.stats.old_log_probs
    assert 1e-6 < now.abs().max() < 1  # the second mini-batch's, one step on


def test_merged_has_the_bits_of_an_evaluation_and_leaves_none_behind(folder):
    config = make_config(folder, **SETTINGS)
    model, _ = load_model(folder / "base", config)
    with torch.no_grad():
        for layer in layers(model).values():
            layer.lora_B["default"].weight.normal_(std=0.1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ids, expected = torch.arange(9).unsqueeze(0), dict(MergedWeights(model))
    plain, _ = load_checkpoint(folder / "base", dtype="float32", device="cpu")
    plain.load_state_dict(expected)
    with torch.no_grad(), pytest.raises(KeyError), merged(model):
        assert torch.equal(model(ids).logits, plain(ids).logits)
        raise KeyError
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    with torch.no_grad():
        assert 0 < (model(ids).logits - plain(ids).logits).abs().max() < 1e-3, "the adapter is beside the weights again"
    assert all(p.requires_grad == (".lora_" in name) for name, p in model.named_parameters())


EVAL = {"every": 3, "tasks": ["tiny_aime24"], "samples": 1}


@pytest.mark.parametrize("ahead", [None, 1])
def test_evaluated_on_the_way_it_trains_the_same_and_draws_what_eval_draws(folder, ahead):
    settings = {**SETTINGS, "checkpoint__every": 3, "rollout__ahead": ahead}
    run.train(make_config(folder, **settings, out=str(folder / "plain")))
    config = make_config(folder, **settings, eval=EVAL)
    run.train(config)
    weights = Path("checkpoints/final/adapter_model.safetensors")
    assert (folder / "run" / weights).read_bytes() == (folder / "plain" / weights).read_bytes()
    options = eval_options(config, folder / "run" / "checkpoints" / "final", 3)
    assert evaluate(options).num_sampled == 0  # the command finds its own run, with nothing missing
    evaluate(replace(options, out=folder / "again", engine=replace(options.engine, device="cpu")))
    assert drawn(options.out) == drawn(folder / "again") and len(drawn(options.out)) == 30
    assert drawn(folder / "run" / "eval" / "step-000000") != drawn(options.out)


def drawn(place: Path) -> dict:
    """Texts, and the sums of their log-probs to the bit."""
    found = {}
    scan_keys(place, 0, lambda sample: found.update({sample.key: (sample.completion, sample.sum_log_prob)}))
    return found


def test_damage_and_mistakes_are_one_line(folder):
    with pytest.raises(UsageError, match=r"lora\.targets: expected linear layers .*, down_proj, gate_proj, .*got q$"):
        run.train(make_config(folder, lora={**LORA, "targets": ["q"]}))
    with pytest.raises(UsageError, match="lora: rank: expected at least 1 and at most 512, got 0"):
        make_config(folder, lora={**LORA, "rank": 0})
    config = make_config(folder, **SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            run.train(config)
    weights = folder / "run" / "checkpoints" / "step-000002" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(StapoError, match=r"adapter_model\.safetensors: expected sha256"):
        run.train(config, resume=True)


def test_two_ranks_train_the_adapter_that_one_process_trains(folder):
    wanted = {
        "lora": {"lora": LORA, "eval": {**EVAL, "every": 5}},
        "kl": {"lora": LORA, "objective": {"name": "grpo", "kl_beta": 0.1}},
    }
    train_each(ONE_PROCESS, folder, wanted)
    on_ranks(2, train_each, folder, wanted)
    for name in wanted:
        ours, theirs = (
            load_file(folder / size / name / "checkpoints/final/adapter_model.safetensors") for size in ("1", "2")
        )
        assert ours.keys() == theirs.keys() and len(ours) == 8
        assert all((ours[key] - theirs[key]).abs().max() <= 1e-6 for key in ours)
    one, two = (drawn(folder / size / "lora" / "eval" / "step-000005") for size in "12")
    assert {key: text for key, (text, _) in one.items()} == {key: text for key, (text, _) in two.items()}
