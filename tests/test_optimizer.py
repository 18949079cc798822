"""``optim.states`` as far as it goes without torchao: part of the run, refused where it cannot be, names on file."""

from types import SimpleNamespace

import pytest
import torch
from train_setup import grade_by_hash, make_base, make_config, make_values

from stapo_bench.errors import StapoError, UsageError
from stapo_train import optimizer_file, preflight, run
from stapo_train.config import OptimConfig, parse_config
from stapo_train.objectives import for_run
from stapo_train.optimizer import set_learning_rate
from stapo_train.optimizer_file import load_optimizer, optimizer_tensors
from stapo_train.training_log import describe

EIGHT = {"optim": {"lr": 1e-2, "warmup_iterations": 2, "states": "8bit"}}


@pytest.fixture
def folder(tmp_path):
    make_base(tmp_path / "base")
    return tmp_path


def test_a_config_without_it_is_the_run_that_it_was_and_the_header_names_it(folder):
    plain, eight = make_config(folder), make_config(folder, **EIGHT)
    values = make_values(folder, optim__states=None)
    assert parse_config(values, "test").digest() == plain.digest() != eight.digest()
    assert plain.training_digest() != eight.training_digest()
    said = describe(eight, for_run(eight.objective, seed=0, max_new_tokens=8))
    assert "optim.states 8bit (None)" in said


def test_a_run_does_not_go_on_with_the_other_moments(folder, monkeypatch):
    monkeypatch.setattr(run, "grade", grade_by_hash)
    run.train(make_config(folder, iterations=1))
    with pytest.raises(StapoError, match=r"another config \(optim\.states: 8bit here, None there\)"):
        run.train(make_config(folder, iterations=1, **EIGHT), resume=True)


def test_what_cannot_have_it_is_refused_in_one_line(folder, monkeypatch):
    with pytest.raises(UsageError, match="optim: states: expected one of 8bit or null, got 4bit"):
        make_config(folder, optim={"lr": 1e-2, "states": "4bit"})
    config = make_config(folder, **EIGHT)
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    with pytest.raises(
        StapoError, match=r"^optim\.states: torchao is not installed: pip install 'stapo-bench\[low-memory\]'$"
    ):
        preflight.check_before_loading(config)
    monkeypatch.setattr(preflight, "find_spec", lambda name: name)
    preflight.check_before_loading(config)
    with pytest.raises(UsageError, match=r"--ranks: expected no optim\.states on several ranks, .*, got 8bit"):
        preflight.check_before_loading(config, ranks=2)


def test_the_parts_of_a_moment_are_on_file_by_name_and_put_together_again(monkeypatch):
    """Names as torchao has them: codes, a scale for each block, the map."""
    model = torch.nn.Linear(2, 2, bias=False)
    codes = SimpleNamespace(codes=torch.tensor([[1, 2], [3, 4]]), scale=torch.tensor([0.5]), qmap=torch.tensor([0.0]))
    optimizer = SimpleNamespace(
        defaults={}, param_groups=[{"params": [model.weight]}],
        state={model.weight: {"step": torch.tensor(2.0), "exp_avg": codes}},
    )  # fmt: skip
    tensors = optimizer_tensors(model, optimizer)
    assert sorted(tensors) == ["exp_avg.codes/weight", "exp_avg.qmap/weight", "exp_avg.scale/weight", "step/weight"]
    monkeypatch.setattr(optimizer_file, "moment_of", lambda parts, kind: (kind, parts))
    optimizer.state = {model.weight: {}}
    load_optimizer(model, optimizer, tensors)
    kind, found = optimizer.state[model.weight]["exp_avg"]
    assert (kind, found["codes"].tolist(), found["scale"].tolist()) == ("exp_avg", [[1, 2], [3, 4]], [0.5])
    assert optimizer.state[model.weight]["step"] == 2.0


def test_the_learning_rate_of_a_compiled_step_is_changed_in_place():
    rate = torch.tensor(0.0)
    groups = SimpleNamespace(param_groups=[{"lr": rate}, {"lr": 0.0}])
    # 1 of 4 warm-up iterations
    assert set_learning_rate(groups, OptimConfig(lr=0.5, warmup_iterations=4), 1) == 0.125
    assert rate == 0.125 and groups.param_groups[0]["lr"] is rate and groups.param_groups[1]["lr"] == 0.125
