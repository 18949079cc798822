"""The numbers of ``metrics.jsonl``, shown by TensorBoard or Weights & Biases as well. Both are optional packages."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module
from typing import Any

from stapo_bench.errors import StapoError
from stapo_train.config import TrainConfig
from stapo_train.train_records import StepRecord

Tracker = Callable[[int, Mapping[str, float]], None]
"""Shows numbers by name, at an iteration."""


def open_trackers(config: TrainConfig) -> list[Tracker]:
    """One function per tracker that the config asks for."""
    wanted: list[tuple[bool, Callable[[TrainConfig], Tracker], str]] = [
        (config.tensorboard, _tensorboard, "tensorboard"),
        (config.wandb, _wandb, "wandb"),
    ]
    trackers = []
    for asked, opener, package in wanted:
        if asked:
            try:
                trackers.append(opener(config))
            except ImportError:
                raise StapoError(f"{package}=true: the package is not installed; pip install {package}") from None
    return trackers


def scalars(record: StepRecord) -> dict[str, float]:
    """Every number of a record under ``name`` or ``name/part``; what is unknown is left out.

    Lists (one value per optimizer step) become their mean.
    """
    found: dict[str, float] = {}
    for name, value in asdict(record).items():
        parts = {f"{name}/{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value}
        for key, part in parts.items():
            values = part if isinstance(part, list) else [part]
            numbers = [v for v in values if isinstance(v, int | float) and not math.isnan(v)]
            if numbers:
                found[key] = sum(numbers) / len(numbers)
    return found


def _tensorboard(config: TrainConfig) -> Tracker:
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(f"{config.out}/tensorboard")

    def track(iteration: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, iteration)
        writer.flush()

    return track


def _wandb(config: TrainConfig) -> Tracker:
    wandb: Any = import_module("wandb")

    wandb.init(project="stapo-bench", name=config.out, id=config.digest(), resume="allow", config=config.nested())

    def track(iteration: int, numbers: Mapping[str, float]) -> None:
        wandb.log(dict(numbers), step=iteration)

    return track
