"""The loop end to end on a random model: what it writes, that it repeats, and that no kill changes its result."""

import io
import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import yaml
from click.testing import CliRunner
from safetensors.torch import load_file
from train_setup import make_config, make_values, result, stop_after

from stapo_bench.errors import StapoError
from stapo_bench.records import Outcome
from stapo_bench.runs.checkpoint import read_checkpoint
from stapo_train import run
from stapo_train.config import CheckpointConfig, OptimConfig
from stapo_train.optimizer_file import load_optimizer
from stapo_train.run_folder import RunFolder
from stapo_train.training_log import ZeroGradientNotice

pytestmark = pytest.mark.usefixtures("graded_by_hash")


def test_what_a_run_leaves(folder):
    final = run.train(make_config(folder))
    out = folder / "run"
    assert final == out / "checkpoints" / "final"
    assert sorted(p.name for p in (out / "checkpoints").iterdir()) == ["final", "step-000001", "step-000002"]
    labels = json.loads((final / "stapo.json").read_text())
    assert labels["method"] == "STAPO" and labels["objective"] == "stapo" and labels["step"] == 3
    assert read_checkpoint(final).method == "STAPO"
    weights, rows = result(out)
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert [row["learning_rate"] for row in rows] == pytest.approx([5e-3, 1e-2, 1e-2])
    first = rows[0]
    assert first["num_rollouts"] == 16 and 0 < first["reward"] < 1
    assert first["entropy"] == pytest.approx(5.5, abs=0.2)  # a random model over about 258 tokens: ln 258 = 5.55
    assert first["num_tokens"] == first["num_kept"] + round(first["masked_share"] * first["num_tokens"])
    assert first["num_candidates"] > 0 and 0 < first["masked_share_of_candidates"] < 1
    assert first["candidate_entropy"] == pytest.approx(5.5, abs=0.2)
    assert first["rollout_mismatch"] < 1e-4  # the engine draws with the very weights that are trained
    assert weights != (folder / "base" / "model.safetensors").read_bytes()
    assert not list(out.rglob("*.pt")) + list(out.rglob("*.pkl")) + list(out.rglob(".*.partial"))


def test_the_seed_decides_everything(folder):
    results = []
    for number, seed in enumerate((0, 0, 1)):
        run.train(make_config(folder, out=str(folder / str(number)), seed=seed))
        results.append(result(folder / str(number)))
    assert results[0] == results[1]
    assert results[0][0] != results[2][0]


def test_a_run_without_any_gradient_says_so(folder, monkeypatch, capsys):
    """Every rollout is right, so that none is better than its group; then the objective leaves everything out."""

    def all_right(rollouts, golds, pool):
        return [replace(r, outcome=Outcome.CORRECT, reward=1.0) for r in rollouts]

    monkeypatch.setattr("stapo_train.run.grade", all_right)
    run.train(make_config(folder, iterations=7, checkpoint__every=10))
    said = [line for line in capsys.readouterr().err.splitlines() if "exactly 0" in line]
    assert [line.split(" iterations")[0] for line in said] == [
        f"the gradient has been exactly 0 for {n}" for n in (3, 6)
    ]
    assert "in every group all rollouts have the same reward (1.000 on average)" in said[0]


def test_a_run_with_a_gradient_now_and_then_says_nothing():
    stream = io.StringIO()
    notice = ZeroGradientNotice(stream)
    for grad_norm in (0.0, 0.0, 0.1, 0.0, 0.0, 0.1):
        notice.see(SimpleNamespace(grad_norm=grad_norm, informative_groups=0.5))
    assert stream.getvalue() == ""
    for _ in range(3):
        notice.see(SimpleNamespace(grad_norm=0.0, informative_groups=0.5))
    assert "the objective leaves out, or clips, every token that has an advantage" in stream.getvalue()


@pytest.mark.parametrize("mini_batches", [1, 2, 4])
def test_the_last_mini_batch_holds_the_last_groups_whole_and_no_other(folder, mini_batches):
    # 4 groups of 4 rollouts: the last step of an iteration sees all groups, the last two, or the last one
    run.train(make_config(folder, iterations=1, update__mini_batches=mini_batches), dump_iterations=[1])
    dumped = load_file(folder / "run" / "dumps" / "iteration-000001" / "batch.safetensors")
    groups = [group for group in range(4 - 4 // mini_batches, 4) for _ in range(4)]
    assert dumped["group_ids"].tolist() == groups
    # a rollout's advantage is its own: above 0 where it was right and others of its group were not
    rewards, advantages = dumped["rewards"].view(-1, 4), dumped["row_advantages"].view(-1, 4)
    assert torch.equal(advantages > 0, (rewards == 1) & (rewards.mean(dim=1, keepdim=True) < 1))
    assert torch.equal(advantages < 0, (rewards == 0) & (rewards.mean(dim=1, keepdim=True) > 0))


def test_every_rollout_is_in_one_mini_batch(folder):
    for mini_batches in (1, 2, 4):
        out = folder / str(mini_batches)
        run.train(make_config(folder, iterations=1, out=str(out), update__mini_batches=mini_batches))
        (row,) = result(out)[1]
        assert row["num_tokens"] == round(row["response_length"] * row["num_rollouts"])


def test_a_checkpoint_names_the_model_that_the_run_began_with(folder):
    run.train(make_config(folder, iterations=1))
    final = folder / "run" / "checkpoints" / "final"
    assert json.loads((final / "stapo.json").read_text())["base"] == "base"  # the folder: nothing else names it
    again = make_config(folder, iterations=1, out=str(folder / "again"), model=str(final))
    run.train(again)
    labels = json.loads((folder / "again" / "checkpoints" / "final" / "stapo.json").read_text())
    assert labels["base"] == read_checkpoint(final).model == "base"


def test_the_config_of_a_run_keeps_its_order(folder):
    config = make_config(folder, iterations=1)
    run.train(config)
    stored = yaml.safe_load((folder / "run" / "config.yaml").read_text())
    assert list(stored) == list(config.nested()) != sorted(stored)
    assert stored == config.nested()


def test_finished_begun_and_other_runs(folder, capsys):
    config = make_config(folder)
    run.train(config)
    before = result(folder / "run")
    run.train(config)
    assert "finished already" in capsys.readouterr().err
    assert result(folder / "run") == before
    with pytest.raises(StapoError, match=r"another config \(objective.tau_p: 0.1 here, 0.02 there; seed: 4 here, 0"):
        run.train(make_config(folder, seed=4, objective__tau_p=0.1), resume=True)


def test_a_finished_training_goes_on_to_more_iterations(folder, capsys):
    whole = make_config(folder, iterations=4, out=str(folder / "whole"))
    run.train(whole)
    run.train(make_config(folder, iterations=2))
    longer = make_config(folder, iterations=4)
    with pytest.raises(StapoError, match=r"\(iterations: 4 here, 2 there\); --resume goes on, out=OTHER starts anew"):
        run.train(longer)
    capsys.readouterr()
    final = run.train(longer, resume=True)
    assert "run: goes on (iterations: 4 here, 2 there)" in capsys.readouterr().err
    assert result(folder / "run") == result(folder / "whole")
    names = sorted(path.name for path in (folder / "run" / "checkpoints").iterdir())
    assert names == ["final", "step-000001", "step-000002", "step-000003"]
    assert json.loads((final / "stapo.json").read_text())["training"] == longer.training_digest()
    run.train(longer, resume=True)
    assert "finished already, 4 iterations" in capsys.readouterr().err
    with pytest.raises(StapoError, match="expected iterations=4 or more, as it began, got iterations: 3 here, 4 there"):
        run.train(make_config(folder, iterations=3), resume=True)


def test_what_a_change_of_another_setting_does_is_said(folder):
    run.train(make_config(folder, iterations=1))
    with pytest.raises(StapoError) as caught:
        run.train(make_config(folder, iterations=2, seed=4), resume=True)
    assert str(caught.value).endswith(
        "run: holds a run with another config (seed: 4 here, 0 there); choose another out. With --resume may change: "
        "iterations, checkpoint.every, checkpoint.keep, checkpoint.keep_every, and where it runs "
        "(out, device, activation_offload, tensorboard, wandb)"
    )


def test_a_change_of_where_a_run_is_shown_is_said_once_with_what_it_does(folder, monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(
        "stapo_train.trackers._tensorboard", lambda config: lambda iteration, _: shown.append(iteration)
    )
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            run.train(make_config(folder, iterations=3))
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            run.train(make_config(folder, iterations=3, tensorboard=True), resume=True)
    said = "run: tensorboard=True, it was False: TensorBoard shows the iterations from here on; metrics.jsonl has all"
    assert capsys.readouterr().err.count(said) == 1
    run.train(make_config(folder, iterations=3, tensorboard=True, device="auto"), resume=True)
    told = capsys.readouterr().err
    assert "tensorboard" not in told
    assert "run: device=auto, it was cpu: the next iterations are computed there; beside those of an unbroken" in told
    assert shown == [2, 3]


def test_a_training_that_finished_before_states_were_kept_says_why_it_cannot_go_on(folder):
    run.train(make_config(folder, iterations=1))
    shutil.rmtree(folder / "run" / "state")
    with pytest.raises(StapoError, match="finished after 1 iterations, without the state that going on needs"):
        run.train(make_config(folder, iterations=2), resume=True)
    assert (folder / "run" / "checkpoints" / "final").is_dir()


def test_a_mistake_found_before_the_first_iteration_can_be_put_right(folder):
    with pytest.raises(StapoError, match=r"no such checkpoint: \S+nowhere; expected a Hugging Face folder"):
        run.train(make_config(folder, model=str(folder / "nowhere")))
    run.train(make_config(folder, iterations=1))


def fail(*_arguments):
    raise KeyboardInterrupt


def test_an_engine_that_does_not_open_leaves_the_folder_to_another_config(folder, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "open_engine", fail)
        run.train(make_config(folder))
    run.train(make_config(folder, seed=4))
    run.train(make_config(folder, seed=4, out=str(folder / "whole")))
    assert result(folder / "run") == result(folder / "whole")


def test_rollouts_of_a_config_that_was_put_right_are_drawn_again(folder, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "collate", fail)
        run.train(make_config(folder))
    assert (folder / "run" / "state" / "rollouts-000001.jsonl").is_file()
    run.train(make_config(folder, seed=4))
    run.train(make_config(folder, seed=4, out=str(folder / "whole")))
    assert result(folder / "run") == result(folder / "whole")


def test_a_begun_run_is_not_overwritten_by_accident(folder, monkeypatch):
    config = make_config(folder)
    stop_after(monkeypatch, iterations=1)
    with pytest.raises(KeyboardInterrupt):
        run.train(config)
    with pytest.raises(StapoError, match="--resume goes on"):
        run.train(config)


OTHERS = pytest.mark.slow(reason="three trainings, one of which is stopped, once more")


@pytest.mark.parametrize(
    "name", ["grpo", pytest.param("20-entropy", marks=OTHERS), "lopti", pytest.param("clip-cov", marks=OTHERS)]
)
def test_other_objectives_resume_to_the_same_bits(folder, name):
    settings = {"objective": {"name": name}}
    run.train(make_config(folder, out=str(folder / "whole"), **settings))
    config = make_config(folder, out=str(folder / "parts"), **settings)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, iterations=2)
        with pytest.raises(KeyboardInterrupt):
            run.train(config)
    run.train(config, resume=True)
    assert result(folder / "parts") == result(folder / "whole")


def test_grpo_with_a_kl_penalty_asks_for_the_reference(folder):
    run.train(make_config(folder, objective={"name": "grpo", "kl_beta": 0.5}))
    free = make_config(folder, objective={"name": "grpo"}, out=str(folder / "free"))
    run.train(free)
    assert result(folder / "run")[0] != result(folder / "free")[0]


def test_the_command(folder):
    import yaml

    from stapo_train.cli import cli

    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(make_values(folder)))
    done = CliRunner().invoke(cli, [str(path), "iterations=1", "seed=3", "--resume"])
    assert done.exit_code == 0, done.output
    assert f"checkpoint: {folder / 'run' / 'checkpoints' / 'final'}" in done.output
    assert "iteration 1/1" in done.stderr
    wrong = CliRunner().invoke(cli, [str(folder / "none.yaml")])
    assert wrong.exit_code != 0 and "no such file" in str(wrong.exception)


def test_a_fused_optimizers_step_counts_are_where_its_weights_are():
    """AdamW that is fused reads its step counts on the GPU; the usual one keeps them on the CPU."""
    model = torch.nn.Linear(2, 2, device="meta")
    for fused, place in ((True, "meta"), (None, "cpu")):
        optimizer = SimpleNamespace(
            defaults={"fused": fused}, param_groups=[{"params": [model.weight]}], state={model.weight: {}}
        )
        load_optimizer(model, optimizer, {"step/weight": torch.tensor(3.0), "exp_avg/weight": torch.zeros(2, 2)})
        found = optimizer.state[model.weight]
        assert (found["step"].device.type, found["exp_avg"].device.type) == (place, "meta")


@pytest.mark.parametrize(("device", "fused"), [("cuda", True), ("cpu", None)])
def test_adamw_is_fused_on_a_gpu(device, fused):
    layer = torch.nn.Linear(2, 2)
    model = SimpleNamespace(parameters=layer.parameters, device=torch.device(device))
    assert run.make_optimizer(model, OptimConfig(lr=1e-3)).defaults["fused"] is fused


def test_a_problem_that_fills_the_models_positions_is_refused_before_the_first_iteration(folder):
    """It may come in the last iteration alone, after days; 128 positions hold no prompt of 200 bytes."""
    config = make_config(folder)
    with (folder / "problems.jsonl").open("a") as file:
        file.write(json.dumps({"id": "long", "problem": "1" * 200, "answer": "1"}) + "\n")
    with pytest.raises(StapoError, match="problem long: expected a prompt of 1 to 127 tokens"):
        run.train(config)
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("keep", "keep_every", "left"),
    [
        (None, None, [5, 10, 15, 20, 25, 30, 35, 40, 45]),
        (2, None, [35, 40, 45]),  # the two newest, and the last iteration's
        (2, 20, [20, 35, 40, 45]),
        (1, 10, [10, 20, 30, 40, 45]),
        (9, None, [5, 10, 15, 20, 25, 30, 35, 40, 45]),
    ],
)
def test_which_checkpoints_are_kept(tmp_path, keep, keep_every, left):
    folder = RunFolder.__new__(RunFolder)  # whose making takes a whole config
    folder.path, folder._iterations = tmp_path, 45
    folder._checkpoints = CheckpointConfig(every=5, keep=keep, keep_every=keep_every)
    for step in range(5, 50, 5):
        (tmp_path / "checkpoints" / f"step-{step:06d}").mkdir(parents=True)
    folder._prune()
    assert sorted(int(path.name[5:]) for path in (tmp_path / "checkpoints").iterdir()) == left
