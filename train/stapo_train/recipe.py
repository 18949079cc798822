"""The recipe that a run is compared with: every setting of a training, its value there, and who says so.

``published``: arXiv:2602.15620, training setup. ``code``: not stated there; JustRL's training script, whose recipe the
paper builds on (github.com/thunlp/JustRL, train/examples/justrl), and its data set's code. ``ours``: nobody states it.
An objective's own constants stand in its class, with who states them (``origins``).
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from stapo_train.config import PLACE_KEYS, TrainConfig
from stapo_train.data_config import STYLE_KEYS
from stapo_train.objective import Objective
from stapo_train.origins import Origin, origin_of

WORDS: dict[Origin, str] = {
    "published": "the paper",
    "code": "code (JustRL's where none is named), where the paper is silent",
    "ours": "our choice, where both are silent",
}
"""Who stands behind a value, in words."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting's value in the recipe, and whose it is."""

    value: Any
    origin: Origin


def _of(origin: Origin, **values: Any) -> dict[str, Setting]:
    return {name.replace("__", "."): Setting(value=value, origin=origin) for name, value in values.items()}


RECIPE: dict[str, Setting] = {
    **_of(
        "published",
        rollout__prompts=256, rollout__group_size=8, rollout__max_new_tokens=15_360, rollout__temperature=1.0,
        rollout__top_p=1.0, rollout__engine="vllm", rollout__max_rounds=1, reward__grader="strict",
        reward__overlong_buffer=None, optim__lr=1e-6, optim__warmup_iterations=10, optim__clip_norm=1.0,
        update__mini_batches=4, update__selection="exact", data__max_prompt_tokens=1024,
    ),
    **_of(
        "code",
        data__question="{{problem}}\n\nPlease reason step by step, and put your final answer within \\boxed{}.",
        data__prompt_format="auto", optim__weight_decay=0.1, optim__betas=[0.9, 0.999], optim__eps=1e-8,
        rollout__ahead=None, rollout__tool=None, update__importance_cap=None, update__correction=None,
        update__correction_bounds=None,
        lora=None, optim__states=None, data__drop_eval_overlap=False, data__count=None, data__language=None,
        autocast=True,
        **dict.fromkeys(f"data__{name}" for name in STYLE_KEYS),
    ),
    **_of(
        "ours",
        data__source="hub", data__path="open-r1/DAPO-Math-17k-Processed", data__hub_config="en",
        data__columns=["prompt", "solution"], data__deduplicate=True, update__max_skipped_in_row=3,
    ),
}  # fmt: skip
"""What decides a number of a run. The data are DAPO-Math-17K in every case; which copy, and its filters, are ours."""

FREE = (
    *PLACE_KEYS, "model", "seed", "iterations", "gradient_checkpointing", "attention", "data.people", "data.eval_dir",
    "rollout.gpu_memory", "eval", "reward.workers", "update.micro_batch_tokens",
    "checkpoint.every", "checkpoint.keep", "checkpoint.keep_every",
)  # fmt: skip
"""Settings that a recipe leaves open: which model, how long, where, and what changes memory and rounding alone."""


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """A setting in which a run differs from the recipe."""

    name: str
    value: Any
    recipe: Any
    origin: Origin
    where: str = ""  # who states the recipe's value, if not the recipe's own source

    def __str__(self) -> str:
        stated = f"{self.recipe}: {self.where}" if self.where else self.recipe
        return f"{self.name} {self.value} ({stated})".replace("\n", "\\n")  # a line, whatever the prompt holds


def deviations(config: TrainConfig, objective: Objective) -> list[Deviation]:
    """Where a run differs from the recipe, in the order of the recipe; then the objective's own settings."""
    nested = config.nested()
    ours = {name: _stated(nested, name) for name in RECIPE}
    found = [
        Deviation(name=name, value=ours[name], recipe=setting.value, origin=setting.origin)
        for name, setting in RECIPE.items()
        if ours[name] != setting.value
    ]
    for field in fields(objective):  # an objective's defaults are its source's constants
        value = getattr(objective, field.name)
        if field.default is not MISSING and value != field.default:
            origin, where = origin_of(type(objective), field.name)
            name = f"objective.{field.name}"
            found.append(Deviation(name=name, value=value, recipe=field.default, origin=origin, where=where))
    return found


def _stated(nested: Mapping[str, Any], name: str) -> Any:
    """The value of a setting by its dotted name; a mapping is a value."""
    section, _, key = name.rpartition(".")
    return (nested[section] if section else nested)[key]


def describe_deviations(config: TrainConfig, objective: Objective) -> list[str]:
    """Lines of the run header: what differs from each source of the recipe, or that nothing does.

    ``objective.`` settings are compared with the objective's own source.
    """
    found = deviations(config, objective)
    lines = []
    for origin, words in WORDS.items():
        differing = [str(d) for d in found if d.origin == origin]
        lines.append(f"differs from {words}: " + ("; ".join(differing) or "nothing"))
    return lines
