"""``stapo-train cost``: bytes beside those of a training, the table, what would make it fit, a line at the start."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from click.testing import CliRunner
from torch.autograd.graph import saved_tensors_hooks
from train_setup import grade_by_hash, make_base, make_config, make_values

from stapo_bench.errors import StapoError, UsageError
from stapo_train import policy, run
from stapo_train.cli import cli
from stapo_train.config import load_config
from stapo_train.cost import training
from stapo_train.cost.memory import FIXED_GIB, GIB, VLLM_FIXED_GIB, fits, layer_bytes
from stapo_train.cost.shapes import SHAPES, Shape, read_shape
from stapo_train.cost.training import described, eight_bit_bytes, remedies, rows, setup_of, training_memory
from stapo_train.policy import Policy, load_model

SMALL = Path(__file__).parent.parent / "train" / "configs" / "small" / "stapo.yaml"
TOY = Shape(layers=2, hidden=8, intermediate=16, heads=4, kv_heads=2, head_dim=4, vocab=10, tied=False)
KL = {"objective": {"name": "grpo", "kl_beta": 0.1}}


def small(*pairs):
    return load_config(SMALL, ["model=none", *pairs])


def size(tensors) -> int:
    return sum(tensor.nbytes for tensor in tensors)


@pytest.mark.parametrize("changes", [{}, KL, {"rollout__ahead": 1}, {**KL, "rollout__ahead": 1}])
def test_what_is_counted_is_what_a_training_holds(tmp_path, monkeypatch, changes):
    make_base(tmp_path / "base")
    config, seen, update = make_config(tmp_path, iterations=1, **changes), {}, run.update

    def looking(r, *more):
        r.optimizer.register_step_pre_hook(
            lambda optimizer, *_: seen.update(gradients=size(p.grad for p in r.policy.model.parameters()))
        )
        done = update(r, *more)
        moments = (state[kind] for state in r.optimizer.state.values() for kind in ("exp_avg", "exp_avg_sq"))
        others = [r.engine._model] * (r.engine._model is not r.policy.model) + [r.reference and r.reference.model]
        seen.update(
            weights=size(r.policy.model.parameters()),
            moments=size(moments),
            copies=sum(size(model.parameters()) for model in others if model is not None),
        )
        return done

    monkeypatch.setattr(run, "grade", grade_by_hash)
    monkeypatch.setattr(run, "update", looking)
    run.train(config)
    memory = training_memory(config, read_shape(tmp_path / "base"), setup_of(config, "GPU", 80, 1))
    assert seen == {name: round(getattr(memory, name) * GIB) for name in seen}
    assert seen["weights"] == seen["gradients"] > 90_000 and (seen["copies"] > 0) == bool(changes)


@pytest.mark.parametrize("offload", [False, True])
def test_what_checkpointed_layers_keep_is_counted(tmp_path, monkeypatch, offload):
    """After a forward pass the inputs of both layers, and the last norm's two; with offload all wait in main memory."""
    make_base(tmp_path / "base")
    config = make_config(tmp_path, gradient_checkpointing=True, activation_offload=offload, iterations=1)
    model, _ = load_model(tmp_path / "base", config)
    kept: dict[str, dict[int, torch.Tensor]] = {"here": {}, "main memory": {}}  # by where their values are

    def count(tensor, where):
        if tensor.shape[-2:] == (96, 32):
            kept[where][tensor.data_ptr()] = tensor
        return tensor

    def moving(pin_memory):
        return saved_tensors_hooks(lambda tensor: count(tensor, "main memory"), lambda tensor: tensor)

    monkeypatch.setattr(policy, "save_on_cpu", moving)
    ids, places = torch.zeros((1, 96), dtype=torch.long), torch.arange(96)[None]
    micro = SimpleNamespace(input_ids=ids, position_ids=places, predictor=torch.tensor([0]))
    with saved_tensors_hooks(lambda tensor: count(tensor, "here"), lambda tensor: tensor):
        Policy(model=model, temperature=1.0, micro_batch_tokens=96, offload=offload)._hidden(micro)
    layer = 4 * 96 * 32
    bytes_of = {where: size(tensors.values()) for where, tensors in kept.items()}
    assert bytes_of == {"here": 0 if offload else 4 * layer, "main memory": 4 * layer if offload else 0}
    memory = training_memory(
        replace(config, update=replace(config.update, micro_batch_tokens=96)),
        shape := read_shape(tmp_path / "base"),
        setup_of(config, "GPU", 80, 1),
    )
    inner = 96 * layer_bytes(shape, 4, autocast=False)
    assert memory.activations * GIB == pytest.approx(inner + layer * (1 if offload else 2))  # one is back at a time


def test_bytes_of_moments_in_8_bits_by_hand():
    # 2 x (4,096 codes, 16 scales of 4 bytes, a map of 256 x 4 bytes); odd and small tensors 2 x 4 bytes a parameter
    assert eight_bit_bytes([4096]) == 2 * (4096 + 64 + 1024)
    assert (
        eight_bit_bytes([4095]) == 8 * 4095 and eight_bit_bytes([4224]) == 8 * 4224 and eight_bit_bytes([128]) == 1024
    )
    eight = training_memory(small("optim.states=8bit"), SHAPES["8b"], setup_of(small(), "GPU", 80, 1))
    assert eight.moments * GIB / SHAPES["8b"].parameters == pytest.approx(2.03, abs=0.005)
    assert replace(eight, moments=0) == replace(
        training_memory(small(), SHAPES["8b"], setup_of(small(), "GPU", 80, 1)), moments=0
    )


def test_a_ranks_share_by_hand():
    """4 ranks of a toy of 1752 parameters, 792 of a layer and 168 of none, in float32 on the transformers engine."""
    pairs = ("autocast=false", "rollout.engine=transformers", "rollout.max_new_tokens=100", "data.max_prompt_tokens=28")
    config = small(*pairs, "objective={name: grpo, kl_beta: 0.1}", "update.micro_batch_tokens=64")
    memory = training_memory(config, TOY, setup_of(config, "GPU", 80, 4))
    found = {name: getattr(memory, name) * GIB for name in ("weights", "moments", "gradients", "copies", "gathered")}
    assert found == pytest.approx(
        {
            "weights": 4 * 1752 / 4, "moments": 8 * 1752 / 4, "gradients": 4 * 1752 / 4,
            "copies": 4 * 1752 / 4,  # the reference
            "gathered": 4 * (2 * 792 + 168) + 4 * (792 + 168),  # weights, and gradients that are not reduced yet
        }
    )  # fmt: skip
    assert memory.rollout_weights * GIB == pytest.approx(4 * 1752)  # whole while it samples
    assert memory.kv_cache * GIB == pytest.approx(128 * 2 * 4 * 2 * 8)  # keys and values, float32, 2 layers of 2 x 4
    # a row of 128 tokens is more than the micro-batches of 64: 2 layers' inputs, and one layer
    assert memory.activations * GIB == pytest.approx(128 * (2 * 8 * 4 + layer_bytes(TOY, 4, autocast=False)))
    assert memory.logits * GIB == pytest.approx(12 * 128 * 10)


@pytest.mark.parametrize(
    ("pairs", "ranks"),
    [
        ((), 1),
        (("autocast=false", "gradient_checkpointing=false"), 4),
        (("rollout.engine=transformers", "rollout.ahead=1", "activation_offload=true"), 1),
        (("rollout.ahead=1",), 4),
        (("lora={rank: 16, alpha: 32}", "optim.states=8bit"), 1),
        (("rollout.engine=transformers", "objective={name: grpo, kl_beta: 0.1}"), 2),
    ],
)
def test_the_rows_of_the_table_add_up(pairs, ranks):
    config = small(*pairs)
    setup = setup_of(config, "GPU", 80, ranks)
    memory = training_memory(config, SHAPES["8b"], setup)
    table = list(rows(config, memory))
    updates, rollouts = (sum(column) for column in zip(*(row[1:] for row in table), strict=True))
    assert (updates, rollouts) == (pytest.approx(memory.while_updating), pytest.approx(memory.while_sampling))
    text = described(config, SHAPES["8b"], setup)
    assert f"{memory.while_updating:10.2f}{memory.while_sampling:10.2f}" in text
    assert ("\nfits: " in text) == fits(memory, 80) != ("\ndoes not fit: " in text)


def test_vllm_has_its_share_by_the_arithmetic_of_the_updates():
    for pairs, each in (((), 2), (("autocast=false",), 4)):
        config = small(*pairs, "rollout.gpu_memory=0.4")
        memory = training_memory(config, SHAPES["1.7b"], setup_of(config, "GPU", 80, 2))
        assert memory.rollout_weights * GIB == pytest.approx(each * SHAPES["1.7b"].parameters)
        assert memory.while_sampling == pytest.approx(memory.state + 0.4 * 80 + FIXED_GIB)
        assert memory.kv_cache + memory.rollout_weights + VLLM_FIXED_GIB == pytest.approx(0.4 * 80)


@pytest.mark.parametrize(
    "pairs", [(), ("rollout.engine=transformers", "rollout.ahead=1"), ("gradient_checkpointing=false",)]
)
def test_a_remedy_is_a_command_line_that_takes_what_is_said(pairs):
    config = small(*pairs)
    found = remedies(config, SHAPES["8b"], setup_of(config, "GPU", 139, 1))
    assert any(fits(memory, 139) for _, memory in found)
    now = training_memory(config, SHAPES["8b"], setup_of(config, "GPU", 139, 1))
    for text, memory in found:
        words = shlex.split(text)
        ranks = int(words.pop(words.index("--ranks") + 1)) if "--ranks" in words else 1
        then = small(*pairs, *(word for word in words if word != "--ranks"))
        assert training_memory(then, SHAPES["8b"], setup_of(then, "GPU", 139, ranks)) == memory
        assert memory.most < now.most
    named = " ".join(text for text, _ in found)
    assert ("rollout.ahead=null" in named) == ("rollout.ahead=1" in pairs)
    assert ("activation_offload=true" in named) == (
        "gradient_checkpointing=false" not in pairs
    )  # by itself it needs it
    assert "gradient_checkpointing=true" in named or "gradient_checkpointing=false" not in pairs


def test_what_draws_ahead_is_there_while_weights_are_updated():
    """Beside 4 shards a whole model of the transformers engine's own, or vLLM's share, which does not sleep."""
    pairs = ("autocast=false", "rollout.ahead=1", "rollout.max_new_tokens=100", "data.max_prompt_tokens=28")
    engines = {}
    for engine in ("transformers", "vllm"):
        config = small(*pairs, f"rollout.engine={engine}", "rollout.gpu_memory=0.4")
        memory = engines[engine] = training_memory(config, TOY, setup_of(config, "GPU", 80, 4))
        asleep = replace(memory, awake=False).while_updating
        assert memory.while_updating - asleep == pytest.approx(memory.sampling)
    own, vllm = engines["transformers"], engines["vllm"]
    assert (own.copies * GIB, own.rollout_weights, vllm.copies) == (4 * 1752, 0, 0)
    assert own.sampling * GIB == pytest.approx(128 * 2 * 4 * 2 * 8)  # keys and values of one row
    assert vllm.sampling == pytest.approx(0.4 * 80)


def test_the_command_and_its_mistakes(tmp_path):
    make_base(tmp_path / "base")
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump(make_values(tmp_path)))
    done = CliRunner().invoke(cli, ["cost", str(path), "--memory", "80", "--ranks", "2"])
    assert done.exit_code == 0, done.output
    first, *_, last = done.output.strip().splitlines()
    assert first == f"{read_shape(tmp_path / 'base').parameters:,} parameters, all are trained; 2 x a GPU, 80 GiB"
    assert last == "fits: 3.2 GiB with 5% for doubt, of 72.0 to be planned with"  # 3 GiB are assumed in any case
    for arguments, error, message in (
        (["--ranks", "2", "optim.states=8bit"], UsageError, "--ranks: expected no optim.states"),
        (["lora={rank: 2, alpha: 2, targets: [q]}"], UsageError, "lora.targets: expected some of q_proj"),
        (["model=none"], StapoError, "config.json is enough, got no such folder; name one"),
        ([f"model={tmp_path}"], StapoError, "got none there; name one with model=FOLDER"),
        (["optim.state=8bit"], UsageError, "did you mean 'states'?"),
    ):
        wrong = CliRunner().invoke(cli, ["cost", str(path), *arguments])
        assert isinstance(wrong.exception, error) and message in str(wrong.exception)
        assert "\n" not in str(wrong.exception)
    assert "'nan'" in CliRunner().invoke(cli, ["cost", str(path), "--memory", "nan"]).output
    assert "0.5 is not in the range" in CliRunner().invoke(cli, ["cost", str(path), "--memory", "0.5"]).output


def test_a_training_on_a_gpu_says_at_its_start_what_it_takes(tmp_path, monkeypatch):
    make_base(tmp_path / "base")
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump(make_values(tmp_path, device="auto")))
    monkeypatch.setattr(run, "train_in", lambda *_: None)
    for gpu, said in (
        (None, ""),
        (("Toy", 4.0), "in rollouts, of 4.0 (Toy)\n"),
        (("Toy", 3.0), "(Toy), which may not"),
    ):
        monkeypatch.setattr(training, "gpu_here", lambda gpu=gpu: gpu)
        done = CliRunner().invoke(cli, [str(path), "--resume"])
        assert done.exit_code == 0, done.output
        assert said in done.stderr and ("memory: about 3.0 GiB in updates" in done.stderr) == bool(gpu)
    monkeypatch.setattr(training, "gpu_here", lambda: ("Toy", 4.0))
    on_cpu = load_config(path, ["device=cpu"])
    (tmp_path / "base" / "config.json").write_text(json.dumps({"model_type": "other"}))
    assert training.said_at_the_start(on_cpu, 1) is None and training.said_at_the_start(load_config(path), 1) is None
