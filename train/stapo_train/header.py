"""What a run is about to do, in a few lines: the objective's choices, and where they leave the published recipe."""

from typing import Any

from stapo_bench.runs import flatten
from stapo_train.config import TrainConfig
from stapo_train.objective import Objective

PUBLISHED: dict[str, Any] = {
    "rollout.prompts": 256,
    "rollout.group_size": 8,
    "rollout.max_new_tokens": 15_360,
    "rollout.temperature": 1.0,
    "rollout.top_p": 1.0,
    "rollout.engine": "vllm",
    "rollout.max_rounds": 1,
    "reward.grader": "strict",
    "reward.overlong_buffer": None,
    "optim.lr": 1e-6,
    "optim.warmup_iterations": 10,
    "optim.weight_decay": 0.1,
    "optim.clip_norm": 1.0,
    "update.mini_batches": 4,
    "update.selection": "exact",
    "update.importance_cap": None,
}
"""arXiv:2602.15620, training setup. Weight decay is not stated there and taken from JustRL's recipe."""

PUBLISHED_OBJECTIVES: dict[str, dict[str, Any]] = {
    "stapo": {"tau_p": 0.002, "q": 0.75, "clip_low": 0.2, "clip_high": 0.28, "dual_clip": 10.0},
    "justrl": {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 10.0},
    "20-entropy": {"share": 0.2, "clip_low": 0.2, "clip_high": 0.28, "denominator": "kept"},
    "grpo": {"clip_low": 0.2, "clip_high": 0.2, "kl_beta": 0.0},
}


def describe(config: TrainConfig, objective: Objective) -> str:
    """The run header."""
    name = config.objective["name"]
    fields = objective.__dataclass_fields__
    settings = ", ".join(f"{key} {getattr(objective, key)}" for key in fields)
    return "\n".join(
        [
            f"{objective.label} ({name}): {objective.source}",
            f"  settings: {settings}",
            f"  silences: {objective.silences}",
            f"  divides by: {objective.divides_by}; advantages "
            + ("(R - mean) / (sample std + 1e-6)" if objective.divide_by_std else "R - mean"),
            "  differs from the published recipe: " + ("; ".join(deviations(config, objective)) or "nothing"),
        ]
    )


def deviations(config: TrainConfig, objective: Objective) -> list[str]:
    """``setting value (published value)`` for each that differs."""
    ours = flatten(config.nested())
    found = [(key, ours[key], published) for key, published in PUBLISHED.items() if ours[key] != published]
    for key, published in PUBLISHED_OBJECTIVES.get(config.objective["name"], {}).items():
        if getattr(objective, key) != published:
            found.append((f"objective.{key}", getattr(objective, key), published))
    return [f"{key} {value} ({published})" for key, value, published in found]
