"""An optimizer's state as a file of tensors; no file is a pickle."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from stapo_bench.tasks import regular_file


def save_optimizer(model: Any, optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Write what the optimizer knows of each parameter."""
    save_file(optimizer_tensors(model, optimizer), path)


def read_optimizer(model: Any, optimizer: torch.optim.Optimizer, path: Path) -> None:
    """The reverse of ``save_optimizer``."""
    load_optimizer(model, optimizer, load_file(regular_file(path)))


def optimizer_tensors(model: Any, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Moments and step counts by parameter name: ``exp_avg/model.norm.weight``."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{kind}/{names[parameter]}": value.contiguous()
        for parameter, values in optimizer.state.items()
        for kind, value in values.items()
    }


def load_optimizer(model: Any, optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    """The reverse of ``optimizer_tensors``, for this optimizer's parameters; ``tensors`` may hold others too."""
    parameters = dict(model.named_parameters())
    own = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    for key, value in tensors.items():
        kind, name = key.split("/", 1)
        if parameters[name] not in own:
            continue
        # AdamW keeps its step counts on the CPU, whatever the device of the weights, unless it is fused.
        on_cpu = kind == "step" and not optimizer.defaults.get("fused")
        place = torch.device("cpu") if on_cpu else parameters[name].device
        optimizer.state[parameters[name]][kind] = value.to(place)
