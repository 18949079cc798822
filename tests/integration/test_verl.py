"""An optimizer step of verl's own engine, with our worker, has the gradient, thresholds and counts that are ours.

On verl's FSDP2 engine, on a CPU: one process and two, micro-batches of fixed size and by tokens, padded and packed, and
the layouts of both of verl's trainers. Run by ``scripts/integration.sh verl``, in an environment with verl.
"""

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed: scripts/integration.sh runs this")
import transformers
import verl_steps
from random_rollouts import check_reported
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.workers.config import ActorConfig, FSDPActorConfig, PolicyLossConfig
from verl_steps import OBJECTIVES, actor_config, model_of, parse_objective, planted, settings

from stapo_bench.errors import StapoError, UsageError
from stapo_train.integrations import verl as integration
from stapo_train.integrations.verl_settings import NAME, VARIABLE
from stapo_train.objective import ONE_PROCESS, policy_loss, select
from stapo_train.policy import Policy
from stapo_train.tiny.random_model import END, random_model, save

SAME = 1e-6  # of the gradient's norm, in float32
MAIN = ("stapo", "20-entropy", "justrl", "grpo")
CASES = {
    1: [*(f"{name}:fixed" for name in OBJECTIVES), *(f"{name}:dynamic" for name in MAIN), "stapo:padded",
        *(f"{name}:packed" for name in MAIN)],
    2: [*(f"{name}:dynamic" for name in OBJECTIVES), *(f"{name}:fixed" for name in MAIN), "stapo:padded",
        "stapo:packed", "stapo:fixed:all-tokens", "stapo:fixed:per-micro-batch", "20-entropy:fixed:per-micro-batch"],
}  # fmt: skip


def launch(ranks: int, script: Path, *arguments: str) -> str:
    """Run the script in several processes; its output."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks)]
    folder = Path(__file__).parent
    ran = subprocess.run(
        [*command, str(script), *arguments], capture_output=True, text=True, timeout=540, check=False,
        env={
            **os.environ, "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
            "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu,stapo_train.integrations.verl",
        },
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-5000:]
    return ran.stdout


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A random model whose tokens differ in entropy."""
    model = random_model(context_length=512, sharpness=6.0, end_ids=[END])
    return save(model, tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def steps(checkpoint, tmp_path_factory):
    """What each rank found, by ranks and case: one launch for all cases of a number of ranks."""
    found = {}
    for ranks, cases in CASES.items():
        folder = tmp_path_factory.mktemp(f"ranks-{ranks}")
        launch(ranks, Path(verl_steps.__file__), str(checkpoint), *cases, str(folder))
        for case in cases:
            files = (folder / f"{case}.{rank}.pt" for rank in range(ranks))
            found[ranks, case] = [SimpleNamespace(**torch.load(file, weights_only=True)) for file in files]
    return found


@pytest.fixture(scope="module")
def ours(checkpoint):
    """Selection and gradient by name: our two functions over all rows of the mini-batch."""
    found = {}
    for name in OBJECTIVES:
        objective, batch = parse_objective(settings(name)), planted(checkpoint, name)
        policy = Policy(model=model_of(checkpoint), temperature=1.0, micro_batch_tokens=100)
        selection = select(policy.measure(batch), objective)
        loss, sums = 0.0, {}
        for micro in policy.split(batch, range(len(batch.rows))):
            out = policy_loss(policy.stats(batch, micro), selection.take(micro.tokens), objective)
            part = out.numerator.sum() / selection.denominator.item()
            part.backward()
            loss += part.item()
            sums = {metric: sums.get(metric, 0.0) + float(value) for metric, value in out.metrics.items()}
        gradient = torch.cat([p.grad.flatten() for p in policy.model.parameters()])
        means = {metric: value / selection.num_tokens for metric, value in sums.items() if metric != "tokens"}
        found[name] = SimpleNamespace(gradient=gradient, selection=selection, loss=loss, means=means)
    return found


def check_same(name: str, found, expected) -> None:
    assert expected.gradient.norm() > 1e-3
    # VESPO raises a rollout's summed log-ratios to a power: rounding in float32 grows with the length.
    same = 10 * SAME if name == "vespo" else SAME
    assert (found.gradient - expected.gradient).norm() < same * expected.gradient.norm()
    selection, metrics = expected.selection, found.metrics
    check_reported(metrics, selection, SAME)
    assert metrics["loss"] == pytest.approx(expected.loss, abs=1e-6)
    assert metrics["pg_loss"] == pytest.approx(expected.loss, abs=1e-6)
    assert metrics["grad_norm"] == pytest.approx(expected.gradient.norm().item(), rel=1e-5)
    for mean, value in expected.means.items():
        assert metrics[f"objective/{mean}"] == pytest.approx(value, rel=1e-5, abs=1e-7)
    if name in ("stapo", "stapo-old", "random-mask", "high-entropy-mask"):
        assert 0 < selection.num_tokens - selection.num_kept < selection.num_candidates
        assert metrics["objective/candidate_entropy"] > 0


@pytest.mark.parametrize(
    ("ranks", "case"), [(ranks, case) for ranks, cases in CASES.items() for case in cases if case.count(":") == 1]
)
def test_a_step_has_our_gradient(ranks, case, steps, ours):
    name = case.split(":")[0]
    first, *others = steps[ranks, case]
    check_same(name, first, ours[name])
    assert all(torch.equal(first.gradient, other.gradient) for other in others)


@pytest.mark.parametrize("case", [case for case in CASES[2] if case.count(":") == 2])
def test_another_denominator_or_another_unit_of_the_quantile_is_seen(case, steps, ours):
    name = case.split(":")[0]
    found, expected = steps[2, case][0], ours[name]
    apart = (found.gradient - expected.gradient).norm() / expected.gradient.norm()
    assert apart > 100 * SAME, f"{case}: {apart:.2g}"
    with pytest.raises(AssertionError):
        check_same(name, found, expected)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_goes_on_and_becomes_a_folder_that_can_be_evaluated(checkpoint, tmp_path):
    launch(2, Path(verl_steps.__file__), str(checkpoint), "resume", str(tmp_path))
    weights = torch.load(tmp_path / "resume.0.pt", weights_only=True)
    assert not torch.equal(weights["start"], weights["first"])
    assert not torch.equal(weights["first"], weights["unbroken"])
    assert torch.equal(weights["unbroken"], weights["resumed"])

    merge = ["verl.model_merger", "merge", "--backend", "fsdp", "--local_dir", str(tmp_path / "actor")]
    run("-m", *merge, "--target_dir", str(tmp_path / "merged"))
    merged = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    found = torch.cat([p.flatten() for p in merged.parameters()])
    assert found.dtype == torch.bfloat16  # verl's merger rounds
    assert torch.equal(found, weights["first"].bfloat16())

    tasks = ["--tasks", "tiny_aime24", "--limit", "2", "--samples", "2", "--max-new-tokens", "8"]
    out = ["--decoding", "training", "--out", str(tmp_path / "evaluated")]
    shown = run(
        "-c", "from stapo_bench.cli import main; main()", "eval", "--ckpt", str(tmp_path / "merged"), *tasks, *out
    )
    assert "Tiny AIME24" in shown


def run(*arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-5000:]
    return ran.stdout


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "changed", "message"),
    [
        ("stapo", {"clip_ratio_high": 0.3}, "actor.clip_ratio_high: expected 0.2, got 0.3; the objective's own"),
        ("stapo", {"clip_ratio_c": 5.0}, "actor.clip_ratio_c: expected 3.0, got 5.0"),
        ("gspo", {"clip_ratio_high": 0.28}, "actor.clip_ratio_high: expected 0.2, got 0.28"),
        ("stapo", {"entropy_coeff": 0.01}, "actor.entropy_coeff: expected 0, got 0.01"),
        ("stapo", {"loss_agg_mode": "token-sum"}, "actor.loss_agg_mode: expected 'token-mean', got 'token-sum'"),
        ("stapo", {"use_kl_loss": True}, "actor.use_kl_loss: expected False, got True"),
        ("grpo", {"use_kl_loss": False}, "actor.use_kl_loss: expected True, got False"),
        ("stapo", {"strategy": "megatron"}, "actor.strategy: expected fsdp2, got megatron"),
        ("stapo", {"policy_loss": {"loss_mode": "vanilla"}}, "loss_mode: expected 'stapo_train', got 'vanilla'"),
        ("stapo", {"policy_loss": {"loss_mode": NAME, "kl_cov_ratio": 0.1}}, "policy_loss.kl_cov_ratio: expected"),
    ],
)
def test_what_would_not_be_heard_is_refused(objective, changed, message):
    if "policy_loss" in changed:
        changed = {"policy_loss": PolicyLossConfig(**changed["policy_loss"])}
    kind = ActorConfig if changed.get("strategy") == "megatron" else FSDPActorConfig
    actor = actor_config(kind, **changed)
    with pytest.raises(UsageError) as caught:
        integration.check_actor(parse_objective(settings(objective)), actor)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_launch_script_says_of_the_objective_itself_is_taken():
    """JustRL's own script: github.com/thunlp/JustRL, train/examples/justrl."""
    script = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 10.0, "kl_loss_coef": 0.0}
    for name in ("justrl", "stapo", "20-entropy"):
        integration.check_actor(parse_objective(name), actor_config(FSDPActorConfig, **script, entropy_coeff=0))
    with pytest.raises(UsageError, match=r"clip_ratio_c: expected 3\.0, got 10\.0"):
        integration.check_actor(parse_objective("dapo"), actor_config(FSDPActorConfig, **script))


def test_another_loss_than_verl_s_own_is_refused():
    with pytest.raises(UsageError, match="expected its PPO loss in the actor"):
        integration.check_actor(parse_objective("stapo"), None)


# --- advantages -------------------------------------------------------------------------------------------------------


def test_advantages_are_ours_and_a_nan_reward_is_left_out(monkeypatch):
    monkeypatch.setenv(VARIABLE, "stapo")
    rewards = torch.zeros(6, 4)
    rewards[[0, 1, 2, 3, 4, 5], [3, 1, 0, 2, 2, 3]] = torch.tensor([1.0, 0.0, 0.0, torch.nan, 1.0, 1.0])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]])
    index = np.array(["a", "b", "a", "a", "b", "c"], dtype=object)
    found, returns = get_adv_estimator_fn(NAME)(
        token_level_rewards=rewards, response_mask=mask, index=index, config=None, reward_baselines=None
    )
    high = 0.5 / (math.sqrt(0.5) + 1e-6)  # of rewards 1 and 0: mean 1/2, sample std sqrt(1/2)
    expected = torch.tensor([high, -high, -high, 0.0, high, 0.0]).unsqueeze(1) * mask
    assert torch.allclose(found, expected, rtol=1e-6)
    assert torch.equal(found, returns)

    monkeypatch.setenv(VARIABLE, "{name: dr-grpo, max_length: 4}")
    found, _ = get_adv_estimator_fn(NAME)(token_level_rewards=rewards, response_mask=mask, index=index)
    assert torch.equal(found[:, 0], torch.tensor([0.5, -0.5, -0.5, 0.0, 0.5, 0.0]))

    monkeypatch.setenv(VARIABLE, "stapo")
    with pytest.raises(UsageError, match="norm_adv_by_std_in_grpo: expected True, got False"):
        config = AlgoConfig(adv_estimator=NAME, norm_adv_by_std_in_grpo=False)
        get_adv_estimator_fn(NAME)(token_level_rewards=rewards, response_mask=mask, index=index, config=config)


def test_nan_advantages_stop_the_step(checkpoint):
    batch = planted(checkpoint, "stapo")
    batch = replace(batch, stats=replace(batch.stats, advantages=batch.stats.advantages * torch.nan))
    worker = SimpleNamespace(_device=torch.device("cpu"), _correction=None)
    with pytest.raises(StapoError, match="advantages: expected numbers, got NaN"):
        integration.StapoTrainingWorker._decide(worker, verl_steps.mini_batch(batch, [0, 1], False))


def worker_without_an_engine(correction):
    """Enough of a worker for an objective that the old policy's statistics decide: it makes no pass of its own."""
    return SimpleNamespace(
        _device=torch.device("cpu"),
        _correction=correction,
        _reduce=ONE_PROCESS,
        _probe=lambda data, mask: (torch.zeros(int(mask.sum())),) * 2,
        objective=parse_objective("dapo"),
    )


def test_the_weights_of_verl_s_correction_multiply_each_tokens_term(checkpoint):
    batch = planted(checkpoint, "dapo")
    counted = [row for row in range(len(batch.rows)) if batch.stats.advantages[batch.token_index([row])].any()]
    rows = counted[: verl_steps.MICRO_BATCH_ROWS]
    data = verl_steps.mini_batch(batch, rows, False)
    tokens = batch.token_index(rows)
    weights = 0.25 + (0.5 * torch.arange(len(tokens))) % 2  # 0.25, 0.75, 1.25, 1.75, and again
    lengths = [len(batch.rows[row][1]) for row in rows]
    data["rollout_is_weights"] = verl_steps.nested(weights.split(lengths))
    mini = integration.StapoTrainingWorker._decide(worker_without_an_engine({"rollout_is": "token"}), data)
    leaf = batch.stats.log_probs[tokens].clone().requires_grad_()
    out = policy_loss(replace(mini.stats, log_probs=leaf), mini.selection, parse_objective("dapo"))
    (found,) = torch.autograd.grad(out.numerator.sum() / mini.selection.divisor, leaf)
    # By hand: -w rho A / N where the clip is open, else 0.
    ratio = (batch.stats.log_probs - batch.stats.old_log_probs)[tokens].exp()
    signs = batch.stats.advantages[tokens]
    is_open = torch.where(signs > 0, ratio <= 1.28, ratio >= 0.8)
    expected = torch.where(is_open, -weights * ratio * signs / len(tokens), 0.0)
    assert expected.norm() > 1e-3 and not torch.allclose(expected, expected / weights)
    assert (found - expected).norm() < SAME * expected.norm()


def test_a_correction_without_its_weights_stops_the_step(checkpoint):
    data = verl_steps.mini_batch(planted(checkpoint, "dapo"), [0, 1, 2], False)
    with pytest.raises(StapoError, match="rollout_is: token is on, and the mini-batch has no rollout_is_weights"):
        integration.StapoTrainingWorker._decide(worker_without_an_engine({"rollout_is": "token"}), data)


def test_names_hang_on_all_tokens_of_a_row_and_on_nothing_else():
    rows = [[1, 2, 3], [1, 2, 4], [2, 1, 3], [1, 2], [0, 1, 2, 3], [1, 2, 3, 0]]
    names = integration.row_names(verl_steps.nested(rows))
    assert len(set(names.tolist())) == len(rows)
    assert torch.equal(integration.row_names(verl_steps.nested(rows[::-1])), names.flip(0))
