"""The model as the trainer uses it: reduced precision and recomputed activations change what they say and no more."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
import transformers
from train_setup import grade_by_hash, make_config, make_values

from stapo_bench.errors import StapoError, UsageError
from stapo_train import policy as policy_module
from stapo_train import run
from stapo_train.check.computed import loss_and_gradient
from stapo_train.check.toy import VOCABULARY, toy_batch, toy_objective, toy_policy
from stapo_train.fused import blocks, varlen
from stapo_train.policy import set_attention
from stapo_train.sharding import weights_to_save


def toy(objective, dtype):
    """Policy and mini-batch in this precision."""
    policy, batch = toy_policy(objective), toy_batch(objective)
    policy.model.to(dtype)
    values = {f.name: getattr(batch.stats, f.name) for f in fields(batch.stats)}
    floats = {n: v.to(dtype) for n, v in values.items() if v is not None and v.is_floating_point()}
    return policy, replace(batch, stats=replace(batch.stats, **floats))


def count_calls(module) -> list[int]:
    """One entry per forward pass of ``module`` from now on."""
    calls: list[int] = []
    module.register_forward_pre_hook(lambda *_: calls.append(1))
    return calls


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("name", ["stapo", "lp-reg"])
def test_recomputed_activations_give_the_same_gradient(name, dtype, tolerance):
    objective = toy_objective(name)
    (plain, batch), (recomputing, _) = toy(objective, dtype), toy(objective, dtype)
    recomputing.model.gradient_checkpointing_enable()
    recomputing.model.train()
    passes = [count_calls(policy.model.base_model.layers[0].mlp) for policy in (plain, recomputing)]
    expected, found = (loss_and_gradient(policy, batch, objective) for policy in (plain, recomputing))
    assert found.loss == pytest.approx(expected.loss, rel=1e-6)
    assert (found.gradient - expected.gradient).abs().max() <= tolerance * expected.gradient.abs().max()
    assert len(passes[1]) > len(passes[0])  # it did compute them again


def test_the_setting_recomputes_activations_in_the_update_alone(folder):
    config = make_config(folder, gradient_checkpointing=True)
    model, _ = run.load_model(Path(config.model), config)
    calls = count_calls(model.base_model.layers[0].mlp)
    ids = torch.arange(8).unsqueeze(0)
    with torch.no_grad():
        model.base_model(input_ids=ids, use_cache=False)
    assert len(calls) == 1
    model.base_model(input_ids=ids, use_cache=False).last_hidden_state.sum().backward()
    assert len(calls) == 3


def test_offloaded_are_the_inputs_of_layers_and_the_gradient_is_the_same_to_the_bit(monkeypatch):
    objective = toy_objective("stapo")
    (plain, batch), (offloading, _) = toy(objective, torch.float32), toy(objective, torch.float32)
    for policy in (plain, offloading):
        policy.model.gradient_checkpointing_enable()
        policy.model.train()
    kept: list[torch.Tensor] = []

    class Counted(torch.autograd.graph.saved_tensors_hooks):
        def __init__(self, pin_memory):
            assert not pin_memory  # which main memory needs for a GPU alone
            super().__init__(lambda tensor: (kept.append(tensor.clone()), len(kept) - 1)[1], kept.__getitem__)

    monkeypatch.setattr(policy_module, "save_on_cpu", Counted)
    expected = loss_and_gradient(plain, batch, objective)
    assert not kept
    found = loss_and_gradient(replace(offloading, offload=True), batch, objective)
    assert (found.loss, found.gradient.tolist()) == (expected.loss, expected.gradient.tolist())
    # [b, T, D] of each layer its input and no more; of the last norm three. No matrix of weights.
    (ids,) = (micro.input_ids for micro in plain.split(batch, range(len(batch.rows))))
    layers, hidden = plain.model.config.num_hidden_layers, plain.model.config.hidden_size
    assert [t.shape for t in kept].count((*ids.shape, hidden)) == layers + 3
    assert all(t.shape[:2] == ids.shape or t.shape == (hidden,) for t in kept)


def test_a_run_that_offloads_is_the_same_run(folder, monkeypatch):
    monkeypatch.setattr(run, "grade", grade_by_hash)
    first = make_config(folder, gradient_checkpointing=True)
    other = make_config(folder, gradient_checkpointing=True, activation_offload=True, out=str(folder / "other"))
    assert first.digest() == other.digest()
    weights = [(run.train(config) / "model.safetensors").read_bytes() for config in (first, other)]
    assert weights[0] == weights[1]
    with pytest.raises(UsageError, match="activation_offload: expected gradient_checkpointing=true with it"):
        make_config(folder, activation_offload=True)


def test_autocast_computes_in_bfloat16_and_keeps_weights_and_statistics_in_float32():
    objective = toy_objective("stapo")
    plain, batch = toy(objective, torch.float32)
    rounded = replace(plain, autocast=True)
    seen: list[torch.dtype] = []
    plain.model.base_model.layers[0].mlp.register_forward_hook(lambda _, __, output: seen.append(output.dtype))
    exact = loss_and_gradient(plain, batch, objective)
    assert set(seen) == {torch.float32}
    seen.clear()
    near = loss_and_gradient(rounded, batch, objective)
    assert set(seen) == {torch.bfloat16}
    (micro, *_) = rounded.split(batch, range(len(batch.rows)))
    stats = rounded.stats(batch, micro)
    assert {stats.log_probs.dtype, stats.entropy.dtype} == {torch.float32}
    assert (
        {p.dtype for p in plain.model.parameters()}
        == {p.grad.dtype for p in plain.model.parameters()}
        == {torch.float32}
    )
    # bfloat16 has 8 bits: a relative error of some 2^-8 per operation, and not none.
    difference = (stats.log_probs - plain.stats(batch, micro).log_probs).detach().abs()
    assert 0 < difference.mean() < 0.05
    cosine = torch.nn.functional.cosine_similarity(near.gradient, exact.gradient, dim=0)
    assert 0.99 < cosine < 1 - 1e-9


def test_a_run_with_both_trains_and_repeats(folder, monkeypatch):
    monkeypatch.setattr(run, "grade", grade_by_hash)
    weights = []
    for number in range(2):
        config = make_config(folder, out=str(folder / str(number)), autocast=True, gradient_checkpointing=True)
        weights.append((run.train(config) / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != (folder / "base" / "model.safetensors").read_bytes()
    text = (folder / "0" / "metrics.jsonl").read_text()
    assert '"skipped_updates":[]' in text
    assert "null" not in text.replace('"masked_share_of_candidates":null', "")


def test_a_model_with_torchs_own_attention_takes_rows_end_to_end(folder, monkeypatch):
    seen = []
    monkeypatch.setattr(varlen, "_row_by_row", lambda q, k, v, ends, scaling: seen.append(ends) or v)
    rollout = {**make_values(folder)["rollout"], "engine": "vllm"}
    model, _ = run.load_model(folder / "base", make_config(folder, attention="torch_varlen", rollout=rollout))
    places = torch.tensor([[0, 1, 2, 0, 1]])
    with torch.no_grad():
        model(input_ids=places + 5, position_ids=places, use_cache=False)
    assert seen == [[0, 3, 5]] * model.config.num_hidden_layers


def test_attention_that_cannot_be_had_is_one_line():
    policy, _ = toy(toy_objective("stapo"), torch.float32)
    if transformers.utils.is_flash_attn_2_available():
        pytest.skip("flash attention is installed here")
    expected = "^attention: flash_attention_2 cannot be used here: .*; attention=sdpa always can$"
    with pytest.raises(StapoError, match=expected):
        set_attention(policy.model, "flash_attention_2")


@pytest.mark.parametrize("what", ["plain", "bias"])
def test_a_vocabulary_in_parts_says_what_a_whole_one_says(what, monkeypatch):
    """Parts do not know a bias of the output layer, which wants the logits at once."""
    objective = toy_objective("stapo")
    policy, batch = toy_policy(objective), toy_batch(objective)
    if what == "bias":
        policy.model.get_output_embeddings().bias = torch.nn.Parameter(torch.linspace(-1, 1, VOCABULARY).double())
    (micro,) = policy.split(batch, range(len(batch.rows)))
    whole = policy.stats(batch, micro)
    monkeypatch.setattr(blocks, "COLUMNS", VOCABULARY // 4)
    parts = policy.stats(batch, micro)
    torch.testing.assert_close(parts.log_probs, whole.log_probs, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(parts.entropy, whole.entropy, rtol=1e-6, atol=1e-6)
    # the proxy of a whole vocabulary, whatever the size of the parts
    assert torch.isfinite(policy.proxy_log_probs(batch, 1e-9)).all()


def test_a_model_in_one_piece_saves_itself():
    assert weights_to_save(torch.nn.Linear(2, 2), keep=True) is None
