"""The weights that a checkpoint folder holds, one tensor at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_weights(checkpoint: Path) -> Iterator[tuple[str, Any]]:
    """Names and tensors of the whole ``state_dict()``: tied embeddings, which a file holds once, under both names."""
    from safetensors import safe_open

    from stapo_bench.engines.foreign_checkpoint import load_config, loading

    tied = load_config(checkpoint).tie_word_embeddings
    names: set[str] = set()
    embedding = None
    for path in sorted(checkpoint.glob("*.safetensors")):
        with loading(checkpoint):
            opened = safe_open(path, framework="pt")
        with opened as file:
            for name in file.keys():  # noqa: SIM118 (it is no mapping)
                names.add(name)
                tensor = file.get_tensor(name)
                embedding = tensor if name == "model.embed_tokens.weight" else embedding
                yield name, tensor
    if tied and "lm_head.weight" not in names:
        if embedding is None:
            raise KeyError("model.embed_tokens.weight")
        yield "lm_head.weight", embedding
