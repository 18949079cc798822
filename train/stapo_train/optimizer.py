"""AdamW over what is trained, its two moments in float32 or in 8 bits.

    optim: {lr: 1e-6, states: 8bit}          in a training's config

In 8 bits a moment is a code for each value and a scale for each block of 256, x = scale * map[code], with a map of 256
values, denser towards zero (arXiv:2110.02861, Sec. 2): 2.03 bytes a parameter for both in place of 8. A tensor of fewer
than 4,096 values, or of a number that is no multiple of 256, keeps its moments in float32, and a step is computed in
float32 from what was kept. By torchao (extra ``low-memory``).
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from stapo_train.config import OptimConfig


def make_optimizer(model: Any, config: OptimConfig) -> torch.optim.Optimizer:
    """AdamW over all that is trained, alike; fused on a GPU, where the usual one copies every second moment."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    settings: dict[str, Any] = {"betas": config.betas, "eps": config.eps, "weight_decay": config.weight_decay}
    on_gpu = model.device.type == "cuda"
    if config.states is None:
        return torch.optim.AdamW(trained, lr=config.lr, fused=True if on_gpu else None, **settings)
    optimizer: Any = _torchao().AdamW8bit(trained, lr=config.lr, **settings)
    if not on_gpu:  # where compiling its step takes longer than a small training
        optimizer.step = torch.compiler.set_stance("force_eager")(optimizer.step)
    return optimizer  # type: ignore[no-any-return]


def set_learning_rate(optimizer: torch.optim.Optimizer, config: OptimConfig, iteration: int) -> float:
    """Linear warm-up over iterations, counted from 1, then constant."""
    learning_rate = config.lr * min(1.0, iteration / max(config.warmup_iterations, 1))
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):  # torchao's, which a compiled step reads
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate
    return learning_rate


def parts(value: Tensor) -> Mapping[str, Tensor]:
    """What a tensor of an optimizer's state consists of, by the end of its name: itself, or ``.codes`` and others."""
    names = ("codes", "scale", "qmap") if hasattr(value, "codes") else ()
    return {f".{name}": getattr(value, name) for name in names} or {"": value}


def moment_of(parts: Mapping[str, Tensor], kind: str) -> Tensor:
    """The reverse of ``parts`` for a moment in 8 bits, the first, ``exp_avg``, with a sign."""
    moment: Tensor = _torchao().subclass_8bit.OptimState8bit(**parts, signed=kind == "exp_avg", dtype=torch.float32)
    return moment


def _torchao() -> Any:
    import torchao.optim.subclass_8bit

    return torchao.optim
