"""Translates a training config into verl's, for the published recipe on a Ray cluster; verl itself checks the result.

    overrides = verl_overrides(load_config(path), setup, data=Path("train.parquet"), out=Path("runs/paper/1.7b/stapo"))
    compose(overrides)                  # needs verl, no GPU: verl knows every key, and its own checks pass

One iteration of ours is one step of verl's; its mini-batch counts prompts, as ours does. Its warm-up counts iterations
too, but from 0: the n-th of ten has (n - 1) / 10 of the learning rate, where ours has n / 10. What the objective
decides (clipping, aggregation, KL) stays at verl's defaults and is set by the environment variable STAPO_OBJECTIVE.
"""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError, UsageError
from stapo_train.config import TrainConfig
from stapo_train.correction import BOUNDS
from stapo_train.cost.shapes import PUBLISHED_RECIPE, Setup
from stapo_train.integrations.verl_data import refuse_style

MAX_PROMPT = PUBLISHED_RECIPE.max_prompt
PLUGIN = "stapo_train.integrations.verl"
MODULES = "VERL_USE_EXTERNAL_MODULES"  # the environment variable by which verl loads it


def environment(config: TrainConfig) -> dict[str, str]:
    """Environment variables that the driver and every Ray worker need."""
    objective = dict(config.objective)
    named = objective["name"] if len(objective) == 1 else json.dumps(objective)
    return {MODULES: PLUGIN, "STAPO_OBJECTIVE": str(named)}


def verl_overrides(config: TrainConfig, setup: Setup, *, data: Path, out: Path) -> list[str]:
    """``key=value`` for ``python -m verl.trainer.main_ppo``.

    Raises:
        UsageError: the config asks for something that training by verl does not support.
    """
    _refuse(config)
    rollout, update, optim = config.rollout, config.update, config.optim
    max_prompt = config.data.max_prompt_tokens or MAX_PROMPT
    max_length = max_prompt + rollout.max_new_tokens
    actor, drawn = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    values: dict[str, Any] = {
        "data.train_files": data,
        "data.val_files": data,  # verl wants one; it is not looked at
        "data.train_batch_size": rollout.prompts,
        "data.max_prompt_length": max_prompt,
        "data.max_response_length": rollout.max_new_tokens,
        "data.filter_overlong_prompts": True,
        "data.seed": config.seed,
        "algorithm.adv_estimator": "stapo_train",
        "critic.enable": False,
        "actor_rollout_ref.model.path": Path(config.model).absolute(),  # Ray's workers start in folders of their own
        "actor_rollout_ref.model.enable_gradient_checkpointing": config.gradient_checkpointing,
        f"{actor}.strategy": "fsdp2",
        f"{actor}.policy_loss.loss_mode": "stapo_train",
        f"{actor}.ppo_mini_batch_size": rollout.prompts // update.mini_batches,
        f"{actor}.use_dynamic_bsz": True,
        f"{actor}.ppo_max_token_len_per_gpu": -(-max_length // setup.sequence_parallel),
        f"{actor}.fsdp_config.ulysses_sequence_parallel_size": setup.sequence_parallel,
        f"{actor}.entropy_from_logits_with_chunking": True,  # else a second copy of the logits
        f"{actor}.optim.lr": optim.lr,
        f"{actor}.optim.lr_warmup_steps": optim.warmup_iterations,
        f"{actor}.optim.weight_decay": optim.weight_decay,
        f"{actor}.optim.betas": list(optim.betas),
        f"{actor}.optim.clip_grad": optim.clip_norm,
        f"{actor}.grad_clip": optim.clip_norm,
        f"{drawn}.name": "vllm",
        f"{drawn}.n": rollout.group_size,
        f"{drawn}.temperature": rollout.temperature,
        f"{drawn}.top_p": rollout.top_p,
        f"{drawn}.tensor_model_parallel_size": setup.tensor_parallel,
        f"{drawn}.gpu_memory_utilization": setup.rollout_share,
        f"{drawn}.max_model_len": max_length,
        f"{drawn}.seed": config.seed,
        "reward.custom_reward_function.path": f"pkg://{PLUGIN}_reward",
        "+reward.custom_reward_function.reward_kwargs.grader": config.reward.grader,
        "trainer.nnodes": setup.nodes,
        "trainer.n_gpus_per_node": setup.gpus_per_node,
        "trainer.total_training_steps": config.iterations,
        "trainer.total_epochs": config.iterations,  # enough; the number of steps ends the run
        "trainer.save_freq": config.checkpoint.every,
        "trainer.max_actor_ckpt_to_keep": kept_checkpoints(config),
        "trainer.default_local_dir": out / "verl",
        "trainer.project_name": "stapo-bench",
        "trainer.experiment_name": f"{out.parent.name}-{out.name}",
        "trainer.logger": ["console"],
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
    }
    values |= _correction(config)
    if config.objective.get("kl_beta"):  # verl then keeps a reference model
        values[f"{actor}.use_kl_loss"] = True
    env_vars = "+ray_kwargs.ray_init.runtime_env.env_vars"
    values |= {f"{env_vars}.{name}": value for name, value in environment(config).items()}
    return [f"{key}={_hydra(value)}" for key, value in values.items()]


def kept_checkpoints(config: TrainConfig) -> int:
    """How many of verl's checkpoints, each with its optimizer, are kept: the newest one, where nothing is said."""
    return config.checkpoint.keep or 1


def _correction(config: TrainConfig) -> dict[str, Any]:
    """verl's own rollout correction, which hands weights to our loss or takes rollouts out of the response mask."""
    if config.update.correction_used is None:
        return {}
    kind, bounds = config.update.correction_used
    low, high = bounds or BOUNDS[kind]
    place = "algorithm.rollout_correction."
    if kind == "rejection":
        bounded = {"rollout_rs": "seq_mean_k1", "rollout_rs_threshold": f"{low}_{high}"}
        chosen: dict[str, Any] = {"rollout_is": "null", **bounded}
    elif kind in ("token-tis", "sequence-tis"):
        chosen = {"rollout_is": kind.removesuffix("-tis"), "rollout_is_threshold": high}
    else:  # verl wants a lower bound above 0 where it masks
        level = "token" if kind == "icepop" else "sequence"
        chosen = {"rollout_is": level, "rollout_is_threshold": f"{low or 1e-8}_{high}"}
    return {"actor_rollout_ref.rollout.calculate_log_probs": True} | {place + key: v for key, v in chosen.items()}


def _hydra(value: Any) -> str:
    """A value in hydra's grammar, with special characters quoted."""
    if isinstance(value, list):
        return f"[{','.join(map(_hydra, value))}]"
    text = str(value)
    # A number with an underscore is another number to hydra.
    plain = text and all(c.isalnum() or c in "-_./:+" for c in text) and not (text[0].isdigit() and "_" in text)
    return text if plain else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _refuse(config: TrainConfig) -> None:
    refuse_style(config.data)
    supported: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "data.prompt_format": (config.data.prompt_format, ("auto", "chat")),  # verl asks in the model's chat template
        "rollout.max_rounds": (config.rollout.max_rounds, (1,)),
        "rollout.ahead": (config.rollout.ahead, (None,)),
        "rollout.tool": (config.rollout.tool, (None,)),
        "reward.overlong_buffer": (config.reward.overlong_buffer, (None,)),
        "lora": (config.lora, (None,)),
        "optim.states": (config.optim.states, (None,)),
        "activation_offload": (config.activation_offload, (False,)),
        "update.selection": (config.update.selection, ("exact",)),
        "checkpoint.keep_every": (config.checkpoint.keep_every, (None,)),
        "eval": (config.eval, (None,)),
    }
    for key, (value, known) in supported.items():
        if value not in known:
            expected = " or ".join(map(str, known))
            raise UsageError(f"{key} {value}: expected {expected}, which is all that training inside verl has")


PACKAGES = {"verl": "verl", "vllm": "vllm", "flash_attn": "flash-attn", "matplotlib": "matplotlib"}
"""Modules that training, evaluating and drawing on a cluster need, and what to install for each; flash-attn is the
attention that verl loads models with."""


def missing_packages() -> list[str]:
    """Distributions that a launch on a cluster needs and this environment lacks."""
    return [package for module, package in PACKAGES.items() if find_spec(module) is None]


def compose(overrides: Sequence[str]) -> Any:
    """verl's own configuration under these overrides, through verl's own checks and our worker's; needs no GPU.

    Raises:
        StapoError: verl does not know a key or refuses a value, or our worker would refuse it when it starts.
    """
    import verl.trainer
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    from stapo_train.integrations.verl_launch import check_launch

    folder = Path(verl.trainer.__file__).parent / "config"
    try:
        with initialize_config_dir(str(folder), version_base=None):
            config = hydra_compose("ppo_trainer", list(overrides))
        OmegaConf.resolve(config)
        check_launch(config)
        validate_config(config, need_reference_policy(config), need_critic(config))
        for part in (config.actor_rollout_ref.rollout, config.algorithm):
            omega_conf_to_dataclass(part)  # verl's records check their values
    except (HydraException, OmegaConfBaseException, AssertionError, ValueError, TypeError) as error:
        raise StapoError(f"verl refuses the configuration: {' '.join(str(error).split())}") from None
    return config
