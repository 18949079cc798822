"""Launch scripts as people have them, JustRL's and verl's own, run an objective of ours with five lines more.

verl composes them, with its own checks and ours. Run by ``scripts/integration.sh verl``.
"""

import pytest

pytest.importorskip("verl", reason="verl is not installed: scripts/integration.sh runs this")
import verl.utils.config
from omegaconf import OmegaConf

from stapo_bench.errors import StapoError, UsageError
from stapo_train.integrations import verl_launch
from stapo_train.integrations.mismatch import require_verls
from stapo_train.integrations.verl_settings import VARIABLE
from stapo_train.objectives import build
from stapo_train.reproduce.paper_verl import compose

ACTOR, ALGORITHM = "actor_rollout_ref.actor.", "algorithm."
OURS = [f"{ALGORITHM}adv_estimator=stapo_train", f"{ACTOR}policy_loss.loss_mode=stapo_train", f"{ACTOR}strategy=fsdp2"]
"""Three of the five lines; the others are the two environment variables."""

JUSTRL = [  # what github.com/thunlp/JustRL, train/run_training.sh, says of algorithm, actor and rollouts
    "algorithm.adv_estimator=grpo", "algorithm.use_kl_in_reward=False", "algorithm.kl_ctrl.kl_coef=0.0",
    "data.train_batch_size=256", "data.max_prompt_length=1024", "data.max_response_length=15360",
    *(f"{ACTOR}{setting}" for setting in (
        "optim.lr=1e-6", "optim.lr_warmup_steps=10", "optim.weight_decay=0.1", "ppo_mini_batch_size=64",
        "ppo_micro_batch_size_per_gpu=1", "entropy_coeff=0", "grad_clip=1.0", "use_dynamic_bsz=True",
        "ppo_max_token_len_per_gpu=32768", "use_kl_loss=False", "kl_loss_coef=0.0", "clip_ratio_low=0.2",
        "clip_ratio_high=0.28", "clip_ratio_c=10.0", "ulysses_sequence_parallel_size=1",
    )),
    "actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.rollout.n=8", "reward_model.reward_manager=dapo",
    "trainer.n_gpus_per_node=8", "trainer.nnodes=4",
]  # fmt: skip
VERL = [  # the same of verl's examples/grpo_trainer/run_qwen3-8b.sh
    "algorithm.adv_estimator=grpo", "algorithm.use_kl_in_reward=False", "data.train_batch_size=1024",
    *(f"{ACTOR}{setting}" for setting in (
        "ppo_mini_batch_size=256", "ppo_micro_batch_size_per_gpu=32", "use_kl_loss=True", "kl_loss_coef=0.001",
        "kl_loss_type=low_var_kl", "entropy_coeff=0",
    )),
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32", "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=32", "actor_rollout_ref.rollout.n=5",
    "trainer.n_gpus_per_node=8", "trainer.nnodes=1",
]  # fmt: skip


@pytest.mark.parametrize("name", ["stapo", "justrl", "20-entropy", "taco"])
def test_justrls_script_runs_an_objective_with_five_lines(name, monkeypatch):
    monkeypatch.setenv(VARIABLE, name)
    assert compose([*JUSTRL, *OURS]).stapo_objective.dual_clip == 10.0
    # its estimator gives these objectives' own advantages, so that four lines do
    assert compose([*JUSTRL, *OURS[1:]]).stapo_objective.name == name


def test_a_setting_of_justrls_script_is_one_of_a_verl_of_its_own(monkeypatch):
    monkeypatch.setenv(VARIABLE, "stapo")
    with pytest.raises(StapoError, match=r"^verl refuses the configuration: .*argument 'max_new_tokens'"):
        compose([*JUSTRL, *OURS, "+actor_rollout_ref.rollout.val_kwargs.max_new_tokens=31744"])


def test_verls_own_script_runs_grpo_with_its_kl_term(monkeypatch):
    monkeypatch.setenv(VARIABLE, "{name: grpo, kl_beta: 0.001}")
    compose([*VERL, *OURS])
    monkeypatch.setenv(VARIABLE, "stapo")
    with pytest.raises(UsageError, match=r"actor\.use_kl_loss: expected False, got True"):
        compose([*VERL, *OURS])
    compose([*VERL, *OURS, f"{ACTOR}use_kl_loss=False"])


def test_all_of_the_objectives_settings_are_in_what_verl_prints_and_its_trackers_store(monkeypatch):
    monkeypatch.setenv(VARIABLE, "{name: stapo, q: 0.5}")
    expected = {"name": "stapo", "clip_low": 0.2, "clip_high": 0.28, "dual_clip": 10.0, "tau_p": 0.002, "q": 0.5}
    assert OmegaConf.to_container(compose([*JUSTRL, *OURS]), resolve=True)["stapo_objective"] == expected
    # what the workers will see comes before the driver's own environment
    theirs = f"+ray_kwargs.ray_init.runtime_env.env_vars.{VARIABLE}=justrl"
    assert compose([*JUSTRL, *OURS, theirs]).stapo_objective.name == "justrl"
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(UsageError, match=f"{VARIABLE}: expected the objective's name or settings .* got nothing"):
        compose([*JUSTRL, *OURS])


@pytest.mark.parametrize(
    ("objective", "settings", "message"),
    [
        ("stapo", [], None),
        ("stapo", ["adv_estimator=grpo"], None),
        ("stapo", ["adv_estimator=rloo"], r"adv_estimator: expected stapo_train, got rloo; STAPO's advantages are \(R"),
        ("rloo", ["adv_estimator=rloo"], "adv_estimator: expected stapo_train, got rloo"),
        ("maxrl", ["adv_estimator=grpo"], "adv_estimator: expected stapo_train, got grpo; MaxRL's advantages are"),
        ("stapo", ["adv_estimator=grpo", "norm_adv_by_std_in_grpo=False"], "adv_estimator: expected stapo_train"),
        ("stapo", ["norm_adv_by_std_in_grpo=False"], "norm_adv_by_std_in_grpo: expected True, got False; the obj"),
        ("dr-grpo", ["adv_estimator=grpo", "norm_adv_by_std_in_grpo=False"], None),
        ("dr-grpo", ["norm_adv_by_std_in_grpo=False"], None),
        ("dr-grpo", ["adv_estimator=grpo"], "adv_estimator: expected stapo_train, got grpo; Dr. GRPO's advantages"),
    ],
)
def test_other_advantages_than_the_objectives_are_refused(objective, settings, message):
    given = {"adv_estimator": "stapo_train"} | dict(pair.split("=") for pair in settings)
    algorithm = OmegaConf.create({name: value == "True" if "norm" in name else value for name, value in given.items()})
    objective = build(objective, **({"max_length": 8} if objective == "dr-grpo" else {}))
    if message is None:
        verl_launch.check_advantages(objective, algorithm)
        return
    with pytest.raises(UsageError, match=message) as caught:
        verl_launch.check_advantages(objective, algorithm)
    assert "\n" not in str(caught.value)


def test_grpos_estimator_takes_the_reward_in_a_group_of_one():
    with pytest.raises(UsageError, match="adv_estimator: expected stapo_train, got grpo"):
        verl_launch.check_advantages(build("stapo"), OmegaConf.create({"adv_estimator": "grpo"}), group_size=1)


@pytest.mark.parametrize(
    ("correction", "has_log_probs", "message"),
    [
        (None, False, None),
        ({"rollout_is": None, "rollout_rs": None, "bypass_mode": False}, False, None),
        ({"rollout_is": "token"}, True, None),
        ({"rollout_is": "token"}, False, "rollout_is: token needs .*calculate_log_probs=True, got False, with which"),
        ({"rollout_rs": "seq_mean_k1"}, False, "rollout_rs: seq_mean_k1 needs .*calculate_log_probs=True"),
        ({"bypass_mode": True}, True, "bypass_mode: expected False, got True; the objective's ratio is to the trainer"),
    ],
)
def test_a_correction_takes_part_or_is_refused(correction, has_log_probs, message):
    if message is None:
        verl_launch.check_correction(correction, has_log_probs)
        return
    with pytest.raises(UsageError, match=message) as caught:
        verl_launch.check_correction(correction, has_log_probs)
    assert "\n" not in str(caught.value)


def test_verl_checks_ours_first_and_says_it_in_one_line(monkeypatch, capsys):
    from stapo_train.integrations import verl as plugin

    assert plugin.NAME == "stapo_train" and hasattr(verl.utils.config.validate_config, "__wrapped__")
    called = []
    check = verl_launch.checked(lambda config, *_, **__: called.append(config))
    monkeypatch.setenv(VARIABLE, "stapo")
    launch = compose([*JUSTRL, *OURS])
    check(config=launch, use_reference_policy=False, use_critic=False)
    assert called == [launch]
    assert capsys.readouterr().err.endswith("stapo: no correction for the mismatch of training and inference\n")
    launch.algorithm.rollout_correction.bypass_mode = True
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        check(launch, False, False)
    shown = capsys.readouterr().err
    assert stopped.value.code == 2 and len(called) == 1
    assert (
        shown.startswith("error: algorithm.rollout_correction.bypass_mode: expected False") and shown.count("\n") == 1
    )


def test_the_correction_of_a_launch_needs_the_engines_log_probs(monkeypatch):
    monkeypatch.setenv(VARIABLE, "stapo")
    on = "algorithm.rollout_correction.rollout_is=token"
    with pytest.raises(UsageError, match="rollout_is: token needs"):
        compose([*JUSTRL, *OURS, on, "actor_rollout_ref.rollout.calculate_log_probs=False"])
    composed = compose([*JUSTRL, *OURS, on])  # on by default
    words = verl_launch.correction_in_words(composed.algorithm.rollout_correction)
    assert words == "verl's rollout correction takes part: rollout_is token, threshold 2.0"
    # Workers see the actor's section alone.
    assert composed.actor_rollout_ref.actor.policy_loss.rollout_correction.rollout_is == "token"
    actor = verl.utils.config.omega_conf_to_dataclass(composed.actor_rollout_ref.actor)
    with pytest.raises(StapoError, match="rollout_is: token is on, and the mini-batch has no rollout_is_weights"):
        require_verls(actor.policy_loss.rollout_correction, {"advantages"})
