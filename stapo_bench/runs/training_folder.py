"""The checkpoints in a training's folder that are complete, whoever trained: only these can be evaluated.

    complete_checkpoints(Path("runs/stapo"))     # step-*, final: of stapo-train
    complete_checkpoints(Path("trl-output"))     # checkpoint-*: of TRL, and of any other Trainer of transformers
    complete_checkpoints(Path("verl-output"))    # global_step_*: of verl

What proves that nothing more will be written differs. ``stapo-train`` renames a folder once it is whole, with
``stapo.json`` in it. A Trainer writes ``trainer_state.json`` last, so that its step in whole JSON is the proof. verl
names the last whole step in ``latest_checkpointed_iteration.txt``. Weights have to be as long as their headers say in
any case: of a copy that was cut short, proofs tell nothing.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stapo_bench.errors import StapoError
from stapo_bench.runs.checkpoint import WEIGHTS
from stapo_bench.runs.files import open_to_read, read_bounded
from stapo_bench.tasks import read_foreign_object

_VERL_MARK = "latest_checkpointed_iteration.txt"
_LARGEST_HEADER = 100_000_000  # bytes, as safetensors has it


@dataclass(frozen=True, kw_only=True)
class FoundCheckpoint:
    """A complete checkpoint of a training."""

    step: int
    path: Path  # a Hugging Face folder; of verl ``actor``, where that is in shards


def complete_checkpoints(folder: Path) -> list[FoundCheckpoint]:
    """Those in ``folder``, or in its ``checkpoints/``, in the order of their steps.

    Raises:
        StapoError: there is no such folder.
    """
    if not folder.is_dir():
        raise StapoError(f"{folder}: expected a folder with the checkpoints of a training, found none")
    found: dict[int, FoundCheckpoint] = {}
    for place in (folder, folder / "checkpoints"):
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            try:
                found |= {checkpoint.step: checkpoint for checkpoint in _complete(path)}
            except (StapoError, OSError):  # it vanished while it was read, or is being written
                continue
    return [found[step] for step in sorted(found)]


def is_final(checkpoint: FoundCheckpoint) -> bool:
    """Whether a training says that it has finished with this checkpoint; ``stapo-train`` alone does."""
    return checkpoint.path.name == "final"


def _complete(path: Path) -> Iterator[FoundCheckpoint]:
    """The checkpoint that a folder is, if it is a complete one."""
    if re.fullmatch(r"step-\d+|final", path.name):
        step = read_foreign_object(path / "stapo.json").get("step")
        if isinstance(step, int) and has_whole_weights(path):
            yield FoundCheckpoint(step=step, path=path)
    elif named := re.fullmatch(r"checkpoint-(\d+)", path.name):
        step = int(named[1])
        if read_foreign_object(path / "trainer_state.json").get("global_step") == step and has_whole_weights(path):
            yield FoundCheckpoint(step=step, path=path)
    elif named := re.fullmatch(r"global_step_(\d+)", path.name):
        step, mark = int(named[1]), read_bounded(path.parent / _VERL_MARK, 100).decode("ascii", "replace").strip()
        merged = path / "actor" / "huggingface"
        if mark.isdecimal() and step <= int(mark) and merged.is_dir():
            whole = has_whole_weights(merged)  # where the training was asked to save the model as well
            yield FoundCheckpoint(step=step, path=merged if whole else path / "actor")


def has_whole_weights(folder: Path) -> bool:
    """Whether every file of weights is there, and every safetensors file as long as its header says."""
    files = {path.name for path in folder.iterdir()}
    weights = {name for name in files if WEIGHTS.fullmatch(name)}
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        if index in files:
            shards = read_foreign_object(folder / index).get("weight_map")
            weights |= set(map(str, shards.values())) if isinstance(shards, dict) else set()
    return bool(weights) and weights <= files and all(_is_whole(folder / name) for name in weights)


def _is_whole(path: Path) -> bool:
    """Whether a safetensors file has all its bytes: 8 for the length of the header, the header, the tensors."""
    if path.suffix != ".safetensors":
        return True
    with open_to_read(path) as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(min(length, _LARGEST_HEADER))
    try:
        tensors = [tensor for name, tensor in json.loads(header).items() if name != "__metadata__"]
        end = max((int(tensor["data_offsets"][1]) for tensor in tensors), default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return False
    return path.stat().st_size == 8 + length + end
