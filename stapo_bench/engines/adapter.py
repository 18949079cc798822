"""LoRA adapters as peft saves them: looked at as strangers' files, and merged into a model's weights.

    adapter = read_adapter(Path("adapter"))
    merge(model, adapter)

With W [out, in] of a layer, A [r, in] and B [out, r] of its adapter (arXiv:2106.09685, Sec. 4.1):

    W' = W + s B A        s = alpha / r, or with use_rslora alpha / sqrt(r) (arXiv:2312.03732)

What else the format can say (DoRA, biases, whole modules, ranks by layer, …) is refused: one rule for every engine, and
vLLM applies no more.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stapo_bench.engines.foreign_checkpoint import check_folder, loading
from stapo_bench.errors import StapoError
from stapo_bench.tasks import read_foreign_object, regular_file

SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_MOST_BYTES = 1 << 20  # of the settings
_MOST_RANK = 512  # vLLM's greatest
_PART = re.compile(r"base_model\.model\.(?P<layer>[\w.]+)\.lora_(?P<side>[AB])\.weight")
_NOT_APPLIED = (
    "alora_invocation_tokens", "alpha_pattern", "fan_in_fan_out", "layer_replication", "lora_bias", "modules_to_save",
    "rank_pattern", "target_parameters", "trainable_token_indices", "use_dora", "use_qalora",
)  # fmt: skip
_KEEPS_BASE = (None, True, False, "gaussian", "eva", "orthogonal")
"""Values of ``init_lora_weights`` under which the adapter stands beside its base's own weights; PiSSA and others change
the base as they begin."""


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A LoRA adapter whose files were looked at."""

    folder: Path
    rank: int  # r, of every pair
    scale: float  # s
    layers: tuple[str, ...]  # that have a pair, by their names in the model


def read_adapter(folder: Path) -> Adapter:
    """Look at an adapter's settings, and at the names and shapes of its weights; no weight is read.

    Raises:
        StapoError: not an adapter in peft's format as safetensors, or one that asks for more than s B A.
    """
    check_folder(folder)
    if not (folder / WEIGHTS).is_file():
        raise StapoError(f"{folder}: expected {WEIGHTS} beside {SETTINGS}, found none; save the adapter as safetensors")
    regular_file(folder / WEIGHTS)
    rank, scale = _check_settings(folder / SETTINGS)
    shapes = _shapes(folder / WEIGHTS)
    layers = sorted({layer for layer, _ in shapes})
    for layer in layers:
        a, b = shapes.get((layer, "A"), []), shapes.get((layer, "B"), [])
        if len(a) != 2 or len(b) != 2 or (a[0], b[1]) != (rank, rank):
            raise StapoError(
                f"{folder / WEIGHTS}: {layer}: expected lora_A [{rank}, in] and lora_B [out, {rank}], got {a} and {b}"
            )
    if not layers:
        raise StapoError(f"{folder / WEIGHTS}: expected lora_A and lora_B of at least one layer, found none")
    return Adapter(folder=folder, rank=rank, scale=scale, layers=tuple(layers))


def _check_settings(path: Path) -> tuple[int, float]:
    """r and s; StapoError for what is not LoRA alone."""
    settings = read_foreign_object(path, _MOST_BYTES)
    if (kind := settings.get("peft_type")) != "LORA":
        raise StapoError(f"{path}: expected peft_type LORA, got {str(kind)[:40]!r}; merge the adapter into its base")
    asked = [name for name in _NOT_APPLIED if settings.get(name)]
    asked += ["bias"] * (settings.get("bias", "none") != "none")
    asked += ["init_lora_weights"] * (settings.get("init_lora_weights") not in _KEEPS_BASE)
    if asked:
        raise StapoError(
            f"{path}: expected LoRA alone, got {', '.join(f'{name} {str(settings[name])[:40]}' for name in asked)}, "
            "which is not applied here: merge the adapter into its base (peft: merge_and_unload) and save that"
        )
    rank, alpha = settings.get("r"), settings.get("lora_alpha")
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= _MOST_RANK:
        raise StapoError(f"{path}: r: expected a whole number from 1 to {_MOST_RANK}, got {str(rank)[:40]}")
    if not isinstance(alpha, int | float) or not 0 < abs(alpha) < 1e9:
        raise StapoError(f"{path}: lora_alpha: expected a number other than 0, got {str(alpha)[:40]}")
    return rank, alpha / (math.sqrt(rank) if settings.get("use_rslora") else rank)


def _shapes(path: Path) -> Mapping[tuple[str, str], list[int]]:
    """Shapes by layer and side; StapoError for a weight of any other name."""
    from safetensors import safe_open

    shapes = {}
    with loading(path, "cannot be read as safetensors"):
        opened = safe_open(path, framework="np")
    with opened as file:
        for name in file.keys():  # noqa: SIM118 (it is no mapping)
            found = _PART.fullmatch(name)
            if found is None:
                raise StapoError(
                    f"{path}: expected names base_model.model.<layer>.lora_A.weight or lora_B, got {name[:80]!r}"
                )
            shapes[found["layer"], found["side"]] = list(file.get_slice(name).get_shape())
    return shapes


def merge(model: Any, adapter: Adapter) -> None:
    """Add s B A to the weights of a model's layers, in float32, and round once to the model's own dtype.

    Raises:
        StapoError: a layer that the model does not have, of another shape, or that shares its weights with another.
    """
    import torch
    from safetensors import safe_open

    path, modules = adapter.folder / WEIGHTS, dict(model.named_modules())
    with safe_open(path, framework="pt") as file, torch.no_grad():
        for layer in adapter.layers:
            module, names = modules.get(layer), [f"base_model.model.{layer}.lora_{side}.weight" for side in "AB"]
            (_, inside), (outside, _) = (file.get_slice(name).get_shape() for name in names)
            if not isinstance(module, torch.nn.Linear) or module.weight.shape != (outside, inside):
                raise StapoError(
                    f"{path}: {layer}: expected a linear layer of the base with weights [{outside}, {inside}], "
                    f"got {'none of that name' if module is None else _described(module)}; is it another base's?"
                )
            if layer == "lm_head" and model.config.tie_word_embeddings:
                raise StapoError(f"{path}: lm_head: expected weights of its own, the base shares them with its input")
            a, b = (file.get_tensor(name).to(module.weight.device, torch.float32) for name in names)
            module.weight.copy_(module.weight.float() + adapter.scale * (b @ a))


def _described(module: Any) -> str:
    weight = getattr(module, "weight", None)
    return f"{type(module).__name__} with {'none' if weight is None else list(weight.shape)}"
