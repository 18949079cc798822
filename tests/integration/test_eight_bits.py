"""Moments in 8 bits for real, by torchao: what is kept of a moment, how far weights go, kills, bytes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from train_setup import grade_by_hash, make_base, make_config, make_values, result, stop_after

from stapo_train import run
from stapo_train.config import OptimConfig
from stapo_train.cost.memory import GIB
from stapo_train.cost.shapes import read_shape
from stapo_train.cost.training import setup_of, training_memory
from stapo_train.optimizer import make_optimizer, parts

pytest.importorskip("torchao", reason="scripts/integration.sh low-memory runs this")

OPTIM = {"lr": 1e-3, "warmup_iterations": 2, "states": "8bit"}
LORA = {"rank": 32, "alpha": 6.0, "targets": ["q_proj"]}
SETTINGS = {"objective": {"name": "grpo"}, "iterations": 4, "optim": OPTIM}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    make_base(tmp_path / "base", hidden=256)
    monkeypatch.setattr(run, "grade", grade_by_hash)
    return tmp_path


class Layers(torch.nn.Module):
    """A matrix of 16 x 256 values and a vector, on the CPU."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.ones(16, 256))
        self.vector = torch.nn.Parameter(torch.ones(256))


def steps(config: OptimConfig, count: int) -> tuple[Layers, torch.optim.Optimizer]:
    model, random = Layers(), torch.Generator().manual_seed(0)
    optimizer = make_optimizer(model, config)
    sizes = torch.logspace(-4, 0, 16)[:, None]  # gradients of a row, a block, unlike any other's
    for _ in range(count):
        model.matrix.grad = torch.randn(16, 256, generator=random) * sizes
        model.vector.grad = torch.randn(256, generator=random)
        optimizer.step()
    return model, optimizer


def test_a_moment_is_kept_as_the_nearest_code_of_its_block():
    """After one step m = (1 - b1) g and v = (1 - b2) g^2, by scale * map[code], with the block's largest as scale."""
    model, optimizer = steps(OptimConfig(lr=1e-3, states="8bit"), 1)
    gradient, state = model.matrix.grad, optimizer.state[model.matrix]
    for kind, moment in (("exp_avg", 0.1 * gradient), ("exp_avg_sq", 0.001 * gradient**2)):
        kept = {name[1:]: value for name, value in parts(state[kind]).items()}
        scale = moment.abs().amax(1, keepdim=True)
        assert torch.allclose(kept["scale"], scale.flatten(), rtol=1e-5)
        distances = (moment / scale)[..., None] - kept["qmap"]
        chosen = distances.gather(2, kept["codes"].long()[..., None]).abs().squeeze(2)
        assert kept["qmap"].numel() == 256 and kept["codes"].dtype == torch.uint8
        assert (chosen - distances.abs().amin(2)).max() < 1e-6
    assert torch.allclose(optimizer.state[model.vector]["exp_avg"], 0.1 * model.vector.grad)  # of 256 values: float32


def test_weights_stay_near_those_of_float32_moments_and_are_others():
    """The first step, before which nothing is kept, is the same; after 32 of 1e-3 less than one lies between."""
    for count, low, high in ((1, 0.0, 1e-6), (32, 1e-4, 1e-3)):
        (ours, _), (theirs, _) = (steps(OptimConfig(lr=1e-3, states=s), count) for s in ("8bit", None))
        assert low <= (ours.matrix - theirs.matrix).abs().max() <= high < (theirs.matrix - 1).abs().max()
        assert (ours.vector - theirs.vector).abs().max() <= 1e-5  # float32 in both


@pytest.mark.parametrize("changes", [{}, {"lora": LORA, "rollout__ahead": 1}])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(folder, changes):
    whole = run.train(make_config(folder, **SETTINGS, **changes, out=str(folder / "whole")))
    config = make_config(folder, **SETTINGS, **changes)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            run.train(config)
    final = run.train(config, resume=True)
    for folder_of in (whole, final):
        for adapter in folder_of.glob("adapter_model.safetensors"):
            adapter.rename(folder_of / "model.safetensors")
    assert result(folder / "run") == result(folder / "whole")
    kinds = {name.split("/")[0] for name in load_file(folder / "run/state/step-000004/optimizer.safetensors")}
    assert {"exp_avg.codes", "exp_avg_sq.scale"} <= kinds


@pytest.mark.parametrize("changes", [{}, {"lora": LORA}])
def test_bytes_are_those_of_the_estimate(folder, monkeypatch, changes):
    made = []
    monkeypatch.setattr(run, "make_optimizer", lambda *given: made.append(make_optimizer(*given)) or made[-1])
    config = make_config(folder, **{**SETTINGS, "iterations": 1}, **changes)
    run.train(config)
    moments = [value for state in made[0].state.values() for kind, value in state.items() if kind != "step"]
    found = sum(part.nbytes for moment in moments for part in parts(moment).values())
    memory = training_memory(config, read_shape(folder / "base"), setup_of(config, "GPU", 80, 1))
    assert found == round(memory.moments * GIB)
    assert memory.moments < 0.5 * 2 * memory.gradients  # 8 bytes for each 4


def test_a_training_ends_near_that_of_float32_moments(folder):
    """After 8 steps of up to 1e-3 the two are apart by less than a fifth of the way, in root mean square."""
    finals = [
        run.train(make_config(folder, **{**SETTINGS, "optim": {**OPTIM, "states": states}}, out=str(folder / name)))
        for name, states in (("8", "8bit"), ("32", None))
    ]
    weights = (load_file(one / "model.safetensors") for one in (*finals, folder / "base"))
    ours, theirs, base = (torch.cat([one[name].flatten() for name in sorted(one)]) for one in weights)
    way = (theirs - base).square().mean().sqrt()
    assert 1e-3 < way < 8e-3
    assert 0.01 * way < (ours - theirs).square().mean().sqrt() < 0.2 * way


def test_the_command_says_nothing_of_torchaos_own(folder):
    path = folder / "t.yaml"
    path.write_text(yaml.safe_dump(make_values(folder, iterations=1, optim=OPTIM)))
    done = subprocess.run([sys.executable, "-m", "stapo_train", path], capture_output=True, text=True, check=True)
    said = [line for line in done.stderr.splitlines() if not line.startswith("  ")]
    assert [line.split()[0] for line in said] == ["STAPO", "iteration"]
