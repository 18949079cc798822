"""Training an adapter in place of the weights: LoRA by peft (arXiv:2106.09685), inside the model that stays as it is.

    lora: {rank: 16, alpha: 32}          in a training's config

With W [out, in] of a layer, A [r, in] and B [out, r] of its adapter (Sec. 4.1), the layer computes

    x W^T + s x A^T B^T        s = alpha / r

W is frozen, A begins random and B at zero, so that the first policy is the base. A checkpoint is the adapter alone, in
peft's format, which ``stapo-bench eval`` merges into the base that it names. The base itself, as a KL term asks for it,
is the model with the adapter off. Needs the extra ``low-memory``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from stapo_bench.engines.adapter import WEIGHTS, read_adapter
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.seeds import derive_seed
from stapo_bench.tasks import regular_file
from stapo_train.config import LoraConfig
from stapo_train.sharding import WholeWeights

_NAME = "default"  # peft's, of an adapter that is the only one


def add_adapter(model: Any, config: LoraConfig, *, base: str, seed: int = 0) -> None:
    """Freeze a transformers model and put a new adapter into it.

    Args:
        model: whole, on its device.
        config: rank, alpha and layers.
        base: what the saved adapter names as its base.
        seed: the run's; A is drawn by it alone.

    Raises:
        UsageError: the model has no such layer.
    """
    from peft import LoraConfig as PeftConfig

    layers = [name for name, module in model.base_model.named_modules() if isinstance(module, torch.nn.Linear)]
    known = {name.rpartition(".")[2] for name in layers}  # the output embedding is no part of the layers
    if unknown := [target for target in config.targets if target.rpartition(".")[2] not in known]:
        raise UsageError(
            f"lora.targets: expected linear layers of {base}, {', '.join(sorted(known))}, got {', '.join(unknown)}"
        )
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(derive_seed(seed, "lora"))
        model.add_adapter(PeftConfig(r=config.rank, lora_alpha=config.alpha, target_modules=list(config.targets)))
    settings = model.peft_config[_NAME]
    settings.base_model_name_or_path, settings.task_type = base, "CAUSAL_LM"
    settings.target_modules = sorted(config.targets)  # peft's set is in another order in every process


def load_adapter(model: Any, folder: Path) -> None:
    """Give the model's adapter the weights that a checkpoint of it holds."""
    read_adapter(folder)
    with safe_open(regular_file(folder / WEIGHTS), "pt") as file, torch.no_grad():
        stored = set(file.keys())
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                key = f"base_model.model.{name.replace(f'.{_NAME}.', '.')}"
                if key not in stored:
                    raise StapoError(f"{folder / WEIGHTS}: expected {key}, found none; restore the file")
                parameter.copy_(file.get_tensor(key))


def with_adapter(model: Any, folder: Path, base: str) -> None:
    """Put the adapter of a checkpoint into its base, with the settings that it states, to be trained on."""
    adapter = read_adapter(folder)
    config = LoraConfig(rank=adapter.rank, alpha=adapter.scale * adapter.rank, targets=adapter.layers)
    add_adapter(model, config, base=base)
    load_adapter(model, folder)


def is_adapted(model: Any) -> bool:
    """Whether ``add_adapter`` was called on it."""
    return bool(getattr(model, "peft_config", None))


@contextmanager
def adapter_off(model: Any) -> Iterator[None]:
    """Within it the model is its base."""
    layers = [module for module in model.modules() if hasattr(module, "lora_A")]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


@contextmanager
def merged(model: Any) -> Iterator[None]:
    """Within it each layer's weight is W + s B A, the bits that an evaluation of the checkpoint has; then W again.

    The weights have to be whole (``gather_weights``). The layers' own wait in memory meanwhile.
    """
    layers = [module for module in model.modules() if hasattr(module, "lora_A")]
    weights = [layer.base_layer.weight for layer in layers]
    own = [weight.data for weight in weights]
    with adapter_off(model):
        try:
            for layer, weight in zip(layers, weights, strict=True):
                a, b = (side[_NAME].weight.data for side in (layer.lora_A, layer.lora_B))
                weight.data = weight.data + layer.scaling[_NAME] * (b @ a)
            yield
        finally:
            for weight, data in zip(weights, own, strict=True):
                weight.data = data


class MergedWeights(Mapping[str, Tensor]):
    """The ``state_dict()`` of the base with the adapter merged, W + s B A, each made when it is asked for.

    The sum is that of ``stapo_bench.engines.adapter.merge``: an evaluation of the checkpoint has the same bits.
    """

    def __init__(self, model: Any) -> None:
        self._stored = WholeWeights(model)
        self._scales = {n: m.scaling[_NAME] for n, m in model.named_modules() if hasattr(m, "lora_A")}
        self._names = {name.replace(".base_layer.", "."): name for name in self._stored if ".lora_" not in name}

    def __getitem__(self, name: str) -> Tensor:
        weight, layer = self._stored[self._names[name]], name.removesuffix(".weight")
        if layer not in self._scales or layer == name:
            return weight
        a, b = (self._stored[f"{layer}.lora_{side}.{_NAME}.weight"] for side in "AB")
        merged: Tensor = weight + self._scales[layer] * (b @ a)
        return merged

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def policy_weights(model: Any) -> Mapping[str, Tensor]:
    """What an engine of its own samples with: the model's whole ``state_dict()``, an adapter merged."""
    return MergedWeights(model) if is_adapted(model) else WholeWeights(model)
