"""The paper-scale launch under the real verl: every method and size composes, and every key is one that it knows."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("verl", reason="needs verl: scripts/integration.sh verl")

from stapo_bench.errors import StapoError, UsageError
from stapo_train.config import load_config
from stapo_train.cost.shapes import GPUS, Setup
from stapo_train.reproduce import __main__ as reproduce
from stapo_train.reproduce import paper_verl

PAPER = Path(__file__).resolve().parents[2] / "train" / "configs" / "paper"
SETUP = Setup(gpu=GPUS["h20"], nodes=8, gpus_per_node=8, tensor_parallel=2)
METHODS = ("grpo", "20-entropy", "justrl", "stapo")


def overrides(model="8b", method="stapo", setup=SETUP, pairs=()):
    config = load_config(PAPER / f"{model}-{method}.yaml", pairs)
    return paper_verl.verl_overrides(config, setup, data=Path("/d/t.parquet"), out=Path("/o") / model / method)


@pytest.mark.parametrize("model", ["1.7b", "8b", "14b"])
@pytest.mark.parametrize("method", METHODS)
def test_verl_composes_every_method_and_size_to_the_published_recipe(model, method):
    composed = paper_verl.compose(overrides(model, method))
    actor, rollout = composed.actor_rollout_ref.actor, composed.actor_rollout_ref.rollout
    assert (composed.data.train_batch_size, rollout.n, actor.ppo_mini_batch_size) == (256, 8, 64)
    assert (rollout.prompt_length, rollout.response_length, rollout.max_model_len) == (1024, 15_360, 16_384)
    assert (actor.optim.lr, actor.optim.lr_warmup_steps, actor.optim.lr_scheduler_type) == (1e-6, 10, "constant")
    assert (actor.optim.weight_decay, actor.optim.clip_grad) == (0.1, 1.0)
    assert (rollout.temperature, rollout.top_p, rollout.top_k) == (1.0, 1.0, -1)
    assert (actor.use_kl_loss, actor.entropy_coeff, composed.algorithm.use_kl_in_reward) == (False, 0, False)
    assert (actor.ppo_epochs, actor.strategy, rollout.name) == (1, "fsdp2", "vllm")
    assert rollout.log_prob_use_dynamic_bsz and rollout.log_prob_max_token_len_per_gpu == 16_384
    assert actor.fsdp_config.entropy_from_logits_with_chunking
    assert composed.trainer.use_v1 and composed.trainer.v1.trainer_mode == "sync"  # where our worker is put in
    assert composed.trainer.resume_mode == "auto"
    assert composed.ray_kwargs.ray_init.runtime_env.env_vars == {
        "VERL_USE_EXTERNAL_MODULES": "stapo_train.integrations.verl",
        "STAPO_OBJECTIVE": method,
    }
    assert composed.actor_rollout_ref.model.path == str(Path(f"models/Qwen3-{model.upper()}-Base").absolute())


def test_settings_of_an_objective_arrive_as_they_were():
    from stapo_train.integrations.verl_settings import parse_objective

    composed = paper_verl.compose(overrides(pairs=["objective.q=0.5"]))
    objective = parse_objective(composed.ray_kwargs.ray_init.runtime_env.env_vars.STAPO_OBJECTIVE)
    assert (objective.label, objective.q) == ("STAPO", 0.5)


def test_a_kl_term_brings_verls_reference_model():
    composed = paper_verl.compose(overrides(method="grpo", pairs=["objective.kl_beta=0.01"]))
    assert composed.actor_rollout_ref.actor.use_kl_loss


def test_sequence_parallel_divides_the_tokens():
    setup = Setup(gpu=GPUS["h20"], nodes=1, gpus_per_node=8, sequence_parallel=4)
    actor = paper_verl.compose(overrides(setup=setup)).actor_rollout_ref.actor
    assert (actor.fsdp_config.ulysses_sequence_parallel_size, actor.ppo_max_token_len_per_gpu) == (4, 4096)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("actor_rollout_ref.actor.clip_hgih=0.28", "clip_hgih"),
        ("+actor_rollout_ref.actor.policy_loss.tau_p=0.002", "tau_p"),  # settings of ours cannot travel there
        ("actor_rollout_ref.actor.loss_agg_mode=mean", "loss_agg_mode: mean"),
    ],
)
def test_what_verl_refuses_is_one_line(pair, message):
    with pytest.raises(StapoError, match=f"verl refuses the configuration: .*{message}") as caught:
        paper_verl.compose([*overrides(), pair])
    assert "\n" not in str(caught.value)


def test_what_our_worker_would_refuse_is_refused_before_it_starts():
    with pytest.raises(UsageError, match=r"clip_ratio_high: expected 0\.2.*, got 0\.3; the objective's own settings"):
        paper_verl.compose([*overrides(), "actor_rollout_ref.actor.clip_ratio_high=0.3"])
    paper_verl.compose([*overrides(), "actor_rollout_ref.actor.clip_ratio_high=0.28"])  # what the objective does anyway


def test_the_reward_is_found_by_verls_own_loader():
    from verl.trainer.ppo.reward import get_custom_reward_fn

    score = get_custom_reward_fn(paper_verl.compose(overrides()))
    verdicts = [score("dapo", f"So it is \\boxed{{{answer}}}", "42", {"answer_type": None}) for answer in (42, 41)]
    assert [v["score"] if isinstance(v, dict) else v for v in verdicts] == [1.0, 0.0]


def test_a_dry_run_here_is_checked_by_verl(tmp_path, capsys):
    reproduce.main(["--scale", "paper", "--model", "1.7b", "--dry-run", "--out", str(tmp_path)])
    out = capsys.readouterr().out
    assert "verl takes all 4 configurations" in out and out.count("verl.trainer.main_ppo") == 4
    assert sys.modules["torch"].cuda.is_initialized() is False
