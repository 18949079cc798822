"""An optimizer's state as a file of tensors; no file is a pickle."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from stapo_bench.tasks import regular_file
from stapo_train.optimizer import moment_of, parts
from stapo_train.sharding import like, whole


def save_optimizer(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Write what ``optimizer_tensors`` gave."""
    save_file(tensors, path)


def read_optimizer(model: Any, optimizer: torch.optim.Optimizer, path: Path) -> None:
    """The reverse of ``save_optimizer``; one tensor at a time is whole."""
    with safe_open(regular_file(path), "pt") as file:
        _load(model, optimizer, ((key, file.get_tensor(key)) for key in file.keys()))  # noqa: SIM118 (no dictionary)


def optimizer_tensors(model: Any, optimizer: torch.optim.Optimizer, *, keep: bool = True) -> dict[str, torch.Tensor]:
    """Moments and step counts by parameter name, each whole: ``exp_avg/model.norm.weight``, in 8 bits its parts.

    ``keep``: False on ranks that only take part, so that another one has the whole.
    """
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {}
    for parameter, values in optimizer.state.items():
        for kind, value in values.items():
            for end, part in parts(value).items():
                tensor = whole(part)
                if keep:
                    found[f"{kind}{end}/{names[parameter]}"] = (tensor if tensor is part else tensor.cpu()).contiguous()
    return found


def load_optimizer(model: Any, optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    """The reverse of ``optimizer_tensors``, for this optimizer's parameters; ``tensors`` may hold others too."""
    _load(model, optimizer, tensors.items())


def _load(model: Any, optimizer: torch.optim.Optimizer, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
    parameters = dict(model.named_parameters())
    own = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    for key, value in tensors:
        kind, name = key.split("/", 1)
        parameter = parameters[name]
        if parameter not in own:
            continue
        moment, _, part = kind.partition(".")
        if part:
            optimizer.state[parameter].setdefault(moment, {})[part] = value.to(parameter.device)
        elif kind == "step":
            # AdamW keeps its step counts on the CPU, whatever the device of the weights, unless it is fused.
            place = parameter.device if optimizer.defaults.get("fused") else torch.device("cpu")
            optimizer.state[parameter][kind] = value.to(place)
        else:
            optimizer.state[parameter][kind] = like(value, parameter)
    for state in optimizer.state.values():
        for kind, value in state.items():
            if isinstance(value, dict):
                state[kind] = moment_of(value, kind)
