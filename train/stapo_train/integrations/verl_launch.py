"""Whether a launch of verl runs the objective, before anything is started; and the objective in verl's configuration.

verl calls its ``validate_config`` on the driver with the whole configuration. The plug-in puts ``check_launch`` before
it: what verl would ignore is refused in one line, what says the same as the objective is taken, and the objective with
all of its settings becomes ``stapo_objective``, which verl prints and its trackers store with the rest.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any

import verl.utils.config
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.workers.config import ActorConfig, PolicyLossConfig

from stapo_bench.errors import StapoError, UsageError, tell
from stapo_train.integrations.verl_settings import NAME, VARIABLE, all_settings, parse_objective
from stapo_train.objective import Objective

REFUSED = (
    "clip_ratio", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c", "tau_pos", "tau_neg", "loss_agg_mode",
    "loss_scale_factor", "entropy_coeff", "kl_loss_coef", "kl_loss_type",
)  # fmt: skip
"""Settings under ``actor_rollout_ref.actor`` that the objective replaces."""


def check_launch(config: DictConfig) -> None:
    """Refuse a launch whose settings say something else than the objective; note the objective in it.

    Args:
        config: verl's whole configuration; gains ``stapo_objective``, and in the actor's ``policy_loss`` the rollout
            correction, which workers do not see otherwise.

    Raises:
        UsageError: the setting, what the objective expects and what it got.
    """
    given = OmegaConf.select(config, f"ray_kwargs.ray_init.runtime_env.env_vars.{VARIABLE}")  # what workers will see
    text = given or os.environ.get(VARIABLE)
    if not text:
        raise UsageError(f"{VARIABLE}: expected the objective's name or settings in the environment, got nothing")
    objective = parse_objective(text)
    check_actor(objective, verl.utils.config.omega_conf_to_dataclass(config.actor_rollout_ref.actor))
    check_advantages(objective, config.algorithm, group_size=config.actor_rollout_ref.rollout.n)
    check_correction(config.algorithm.get("rollout_correction"), config.actor_rollout_ref.rollout.calculate_log_probs)
    with open_dict(config):
        config.stapo_objective = all_settings(text)
        # Without it the actor's own default stands there, which names a correction that is not made.
        config.actor_rollout_ref.actor.policy_loss.rollout_correction = config.algorithm.get("rollout_correction")


def own_settings(objective: Objective) -> dict[str, Any]:
    """What the objective does, in verl's names: a launch script that states it says nothing else, and is taken."""
    settings = {
        "clip_ratio_low": objective.clip_low,
        "clip_ratio_high": objective.clip_high,
        "clip_ratio_c": objective.dual_clip,
        "kl_loss_coef": getattr(objective, "kl_beta", 0.0),
    }
    return {name: value for name, value in settings.items() if value is not None}


def check_actor(objective: Objective, actor: ActorConfig | None) -> None:
    """Refuse objectives that cannot be computed here, and settings that would have no effect."""
    if actor is None:
        raise UsageError("verl: expected its PPO loss in the actor, got another; distillation cannot be combined")
    place = "actor_rollout_ref.actor."
    if actor.strategy != "fsdp2":
        raise UsageError(f"{place}strategy: expected fsdp2, got {actor.strategy}; its other engines are not tested")
    expected: dict[str, Any] = {f.name: f.default for f in fields(ActorConfig) if f.name in REFUSED}
    expected["use_kl_loss"] = objective.needs_reference  # this makes verl compute the reference's log-probs
    loss = {f.name: f.default for f in fields(PolicyLossConfig) if f.name != "rollout_correction"}
    expected |= {f"policy_loss.{name}": value for name, value in (loss | {"loss_mode": NAME}).items()}
    own = own_settings(objective)
    for name, value in expected.items():
        got: Any = actor
        for part in name.split("."):
            got = getattr(got, part)
        if got != value and (name not in own or got != own[name]):
            raise UsageError(f"{place}{name}: expected {value!r}, got {got!r}; the objective's own settings decide")


def check_advantages(objective: Objective, algorithm: Any, group_size: int = 2) -> None:
    """Refuse an estimator that gives other advantages than the objective's.

    verl's ``grpo`` gives the same where the objective has GRPO's rule; in a group of one alone it takes the reward.

    Args:
        objective: whose advantages they have to be.
        algorithm: verl's section of that name.
        group_size: rollouts per prompt.
    """
    place, estimator = "algorithm.", algorithm.adv_estimator
    divides = algorithm.get("norm_adv_by_std_in_grpo", True)
    if estimator == NAME and divides not in (True, objective.divide_by_std):
        raise UsageError(f"{place}norm_adv_by_std_in_grpo: expected True, got {divides}; the objective decides")
    has_rule_of_grpo = type(objective).advantages is Objective.advantages and divides == objective.divide_by_std
    if estimator != NAME and not (estimator == "grpo" and has_rule_of_grpo and group_size > 1):
        rule = objective.describe_advantages()
        raise UsageError(
            f"{place}adv_estimator: expected {NAME}, got {estimator}; {objective.label}'s advantages are {rule}"
        )


def check_correction(correction: Any, has_log_probs: bool) -> None:
    """Refuse what verl's rollout correction would leave undone; its weights and its rejections reach the loss.

    Args:
        correction: verl's ``algorithm.rollout_correction``.
        has_log_probs: whether the engine reports log-probs, without which verl corrects nothing.
    """
    place = "algorithm.rollout_correction."
    if not correction:
        return
    if correction.get("bypass_mode", False):
        raise UsageError(
            f"{place}bypass_mode: expected False, got True; the objective's ratio is to the trainer's log-probs"
        )
    for name in ("rollout_is", "rollout_rs"):
        if correction.get(name) and not has_log_probs:
            raise UsageError(
                f"{place}{name}: {correction.get(name)} needs actor_rollout_ref.rollout.calculate_log_probs=True, "
                "got False, with which verl corrects nothing"
            )


def correction_in_words(correction: Any) -> str:
    """What verl's rollout correction does to the loss.

    >>> correction_in_words({"rollout_is": "token", "rollout_is_threshold": 2.0})
    "verl's rollout correction takes part: rollout_is token, threshold 2.0"
    """
    kinds = [name for name in ("rollout_is", "rollout_rs") if correction and correction.get(name)]
    if not kinds:
        return "no correction for the mismatch of training and inference"
    used = (f"{name} {correction[name]}, threshold {correction.get(f'{name}_threshold')}" for name in kinds)
    return "verl's rollout correction takes part: " + "; ".join(used)


def checked(validate: Callable[..., None]) -> Callable[..., None]:
    """verl's ``validate_config``, after ``check_launch``; a refusal is one line and the exit code of its kind."""

    @wraps(validate)
    def check_and_validate(config: DictConfig, *others: Any, **named: Any) -> None:
        try:
            check_launch(config)
        except StapoError as error:
            tell(sys.stderr, f"error: {error}")
            raise SystemExit(error.exit_code) from None
        words = correction_in_words(config.algorithm.get("rollout_correction"))
        tell(sys.stderr, f"{config.stapo_objective.name}: {words}")
        validate(config, *others, **named)

    return check_and_validate


def extend_verls_check() -> None:
    """Have verl call ``check_launch`` on its driver; once in a process."""
    if not hasattr(verl.utils.config.validate_config, "__wrapped__"):
        verl.utils.config.validate_config = checked(verl.utils.config.validate_config)
