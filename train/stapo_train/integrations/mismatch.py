"""Corrections for the mismatch of training and inference that another trainer makes: no step without what they promise.

A launch says that the correction takes part; the weights come with each mini-batch, under a name that is the trainer's.
A mini-batch without them would be trained on as if nothing were corrected, and is refused.
"""

from collections.abc import Container, Mapping
from typing import Any

from stapo_bench.errors import StapoError

VERL_WEIGHTS, VERL_LOG_PROBS = "rollout_is_weights", "rollout_log_probs"
TRL_WEIGHTS = "importance_sampling_ratio"


def require_verls(correction: Mapping[str, Any] | None, names: Container[str]) -> None:
    """Refuse a mini-batch without what verl's ``rollout_correction`` works with; verl itself says nothing then.

    Args:
        correction: verl's ``algorithm.rollout_correction``.
        names: the fields of the mini-batch.
    """
    for setting, needed in (("rollout_is", VERL_WEIGHTS), ("rollout_rs", VERL_LOG_PROBS)):
        if correction and correction.get(setting) and needed not in names:
            raise StapoError(
                f"algorithm.rollout_correction.{setting}: {correction[setting]} is on, and the mini-batch has no "
                f"{needed}, as where the engine reports no log-probs; set it to null, or have them reported"
            )


def require_trls(is_on: bool, names: Container[str]) -> None:
    """Refuse a micro-batch without the ratio of TRL's correction, where that is on.

    Args:
        is_on: ``use_vllm`` and ``vllm_importance_sampling_correction``.
        names: the fields of the micro-batch.
    """
    if is_on and TRL_WEIGHTS not in names:
        raise StapoError(
            f"GRPOConfig.vllm_importance_sampling_correction: True, and the batch has no {TRL_WEIGHTS}, as where the "
            "engine reports no log-probs; set it to False, or have them reported"
        )
