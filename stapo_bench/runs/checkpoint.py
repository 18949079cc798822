"""What a checkpoint folder is: the digest of everything in it that decides a sample, and the labels of a table row.

>>> read_checkpoint(Path("runs/none"))  # doctest: +ELLIPSIS
Traceback (most recent call last):
stapo_bench.errors.messages.StapoError: no such checkpoint: runs/none; expected a Hugging Face folder ...
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.runs.hub_models import name_on_hub
from stapo_bench.runs.nested import JsonFields
from stapo_bench.tasks import file_hashes, read_foreign_object, read_foreign_text

WEIGHTS = re.compile(r".*\.safetensors|pytorch_model.*\.bin")
_PARTS = re.compile(r".*\.(json|jinja|model|tiktoken|txt)")  # config, tokenizer, generation defaults, chat template
_NOT_PARTS = {"stapo.json", "trainer_state.json"}  # say how the weights were made; no sample depends on them
_LARGEST_SETTINGS = 16 << 20  # bytes
_STEP = re.compile(r"(checkpoint|ckpt|step|global_step|iter|iteration)?[-_]?\d+|final|last|best")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint, named by its content."""

    path: Path
    digest: str  # sha256 over names and contents of its files
    method: str  # label of a table row: "STAPO", or the folder's name
    model: str | None  # the base model's label; None: not stated
    step: int | None = None  # of training; None: not stated
    training: str | None = None  # digest that all checkpoints of one training share; None: not stated
    adapter: Path | None = None  # folder of a LoRA adapter on it; the digest is then "<its own>+<adapter's>"


def read_checkpoint(path: Path) -> Checkpoint:
    """Check and digest a Hugging Face folder.

    A single file is a scripted engine's script: the engine's own identity says what in it decides a sample.

    Raises:
        StapoError: nothing there, or not a checkpoint.
    """
    check_format(path)
    if path.is_file():
        return Checkpoint(path=path, digest="script", method=path.stem, model=None)
    files, weights = checkpoint_files(path)
    parts = [file for file in files if _PARTS.fullmatch(file.name) and file.name not in _NOT_PARTS]
    labels = _labels(path)
    hashes = file_hashes([*weights, *parts])
    check_hashes(path, labels.get("sha256", {}), hashes)
    return Checkpoint(
        path=path,
        digest=_digest(hashes),
        method=labels.get("method") or folder_label(path),
        model=labels.get("base"),
        step=labels.get("step"),
        training=labels.get("training"),
    )


def read_adapted(base: Path, adapter: Path) -> Checkpoint:
    """A base and a LoRA adapter on it, under the adapter's labels; errors as for ``read_checkpoint``."""
    content, labels = read_checkpoint(base), _labels(adapter)
    hashes = file_hashes([adapter / "adapter_config.json", adapter / "adapter_model.safetensors"])
    check_hashes(adapter, labels.get("sha256", {}), hashes)
    return replace(
        content,
        digest=f"{content.digest}+{_digest(hashes)}",
        method=labels.get("method") or folder_label(adapter),
        model=labels.get("base") or content.model,
        step=labels.get("step"),
        training=labels.get("training"),
        adapter=adapter,
    )


SERVED = "served "
"""Begins the digest of a model that nobody but its server has: the name is all that is known of its weights."""


def served_checkpoint(name: str) -> Checkpoint:
    """What stands for the checkpoint of a model that a server has under this name, and this machine has not."""
    return Checkpoint(path=Path(name), digest=SERVED + name, method=name.rsplit("/", 1)[-1], model=name)


def check_format(path: Path) -> None:
    """Refuse what is no checkpoint, by names of files alone; StapoError as for ``read_checkpoint``."""
    if path.is_file():
        _refuse_other_formats(path, [path])
    else:
        checkpoint_files(path)


def checkpoint_files(path: Path) -> tuple[list[Path], list[Path]]:
    """The files of a Hugging Face folder, and those among them that hold its weights.

    Raises:
        StapoError: nothing there, or a checkpoint of another format.
    """
    if not path.is_dir():
        raise StapoError(
            f"no such checkpoint: {path}; expected a Hugging Face folder (config.json and weights), "
            "or OWNER/NAME of the hub"
        )
    files = sorted(file for file in path.iterdir() if file.is_file())
    weights = [file for file in files if WEIGHTS.fullmatch(file.name)]
    if not weights or not (path / "config.json").is_file():
        _refuse_other_formats(path, files)
        missing = "config.json" if weights else "*.safetensors or pytorch_model*.bin"
        raise StapoError(
            f"not a checkpoint: {path}: expected a Hugging Face folder (config.json and weights), found no {missing}"
        )
    return files, weights


_OTHER_FORMATS: Mapping[str, tuple[str, str]] = {
    r".*\.gguf": (
        "GGUF weights",
        "serve them with llama.cpp, name the server with --engine openai --base-url, and with --ckpt the Hugging Face "
        "folder that they were made from: its tokenizer writes the prompts",
    ),
    r"adapter_config\.json": (
        "an adapter (LoRA)",
        "eval takes one as --ckpt; elsewhere merge it into its base model (peft: merge_and_unload) and save that",
    ),
    r"consolidated.*\.pth": ("weights in Meta's layout", "convert them with transformers' script for that model"),
    r".*\.(pt|pth|ckpt)": ("a pickle", "save the model with save_pretrained"),
    r".*\.(distcp|metadata)|model_world_size_.*": ("shards of a distributed training", "merge them to Hugging Face's"),
    r".*\.(onnx|h5|msgpack|tflite)": ("weights of another framework", "save the model for PyTorch"),
}
"""By a file's name: what it is, and what to do; none of these formats is read."""


def _refuse_other_formats(path: Path, files: Sequence[Path]) -> None:
    """Raise StapoError where these files are a checkpoint in a format that is known, and not read here."""
    for pattern, (what, how) in _OTHER_FORMATS.items():
        if found := next((file.name for file in files if re.fullmatch(pattern, file.name)), None):
            raise StapoError(
                f"{path}: expected a Hugging Face folder (config.json and weights), got {what} ({found}); this format "
                f"is not read: {how}"
            )


def stated_chat_template(checkpoint: Path) -> Any | None:
    """The chat template that a checkpoint's files hold, as it stands there; None: there is none. Nothing is loaded."""
    if (jinja := checkpoint / "chat_template.jinja").exists():
        return read_foreign_text(jinja, _LARGEST_SETTINGS)
    names = ("chat_template.json", "tokenizer_config.json")
    return next(filter(None, (_settings(checkpoint / name).get("chat_template") for name in names)), None)


def _settings(path: Path) -> dict[str, Any]:
    """A checkpoint's JSON file, as a hint: {} where it is not there, is too large or holds something else."""
    try:
        return read_foreign_object(path, _LARGEST_SETTINGS)
    except StapoError:
        return {}


def expand(pattern: Path) -> list[Path]:
    """The checkpoints that a pattern names, steps in the order of their numbers, final last; a plain path is itself."""
    if not any(sign in str(pattern) for sign in "*?["):
        return [pattern]
    root = Path(pattern.anchor or ".")
    found = [path for path in root.glob(str(pattern.relative_to(pattern.anchor))) if _is_model(path)]
    if not found:
        raise StapoError(f"no checkpoint matches {pattern}; expected Hugging Face folders (config.json and weights)")
    return sorted(found, key=_natural)


def _is_model(path: Path) -> bool:
    return (path / "config.json").is_file() or (path / "adapter_config.json").is_file()


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sort key: ``step-9`` before ``step-10``, and ``final`` after both."""
    parts: list[str] = re.findall(r"\d+|\D+", f"{path.parent}/{'~' * (path.name == 'final')}{path.name}")
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def folder_label(path: Path) -> str:
    """A checkpoint's name by its folder; a bare step is joined to the training run's name.

    >>> folder_label(Path("runs/stapo/checkpoints/step-40")), folder_label(Path("runs/stapo/checkpoints/final"))
    ('stapo-step-40', 'stapo-final')
    >>> folder_label(Path("models/Qwen3-1.7B"))
    'Qwen3-1.7B'
    >>> folder_label(Path("/cache/hub/models--Qwen--Qwen3-1.7B/snapshots/0123abcd"))
    'Qwen3-1.7B'
    """
    if hub := name_on_hub(path):
        return hub.partition("@")[0].partition("/")[2]
    path = path.resolve() if not path.name else path
    if not _STEP.fullmatch(path.name):
        return path.stem if path.suffix in (".yaml", ".yml") else path.name
    parents = [name for name in path.absolute().parent.parts if name not in ("/", "checkpoints")]
    return "-".join([*parents[-1:], path.name])


def _labels(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint says of itself, or else what its trainer's names and files say."""
    return _stated_labels(checkpoint / "stapo.json") or _trainer_labels(checkpoint) or _verl_labels(checkpoint)


def _stated_labels(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        fields = JsonFields(read_foreign_object(path), "it")
        return {
            "method": fields.text_or_none("method"),
            "base": fields.text_or_none("base"),
            "step": fields.integer("step") if fields.states("step") else None,
            "training": fields.text_or_none("training"),
            "sha256": fields.texts("sha256") if fields.states("sha256") else {},
        }
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise StapoError(f"{path}: expected a JSON object with method and base, got damage: {reason}") from None


def _trainer_labels(checkpoint: Path) -> dict[str, Any]:
    """The step of a checkpoint that a Trainer of transformers wrote, and as its method the name of its training."""
    step = _settings(checkpoint / "trainer_state.json").get("global_step")
    if type(step) is not int or checkpoint.name != f"checkpoint-{step}":
        return {}
    return {"method": folder_label(checkpoint).removesuffix(f"-{checkpoint.name}"), "step": step}


def _verl_labels(checkpoint: Path) -> dict[str, Any]:
    """Likewise of the model that verl saves beside its shards: <training>/global_step_20/actor/huggingface."""
    *_, training, step, actor, name = ("", "", "", *checkpoint.absolute().parts)
    if (actor, name) != ("actor", "huggingface") or not (named := re.fullmatch(r"global_step_(\d+)", step)):
        return {}
    return {"method": training, "step": int(named[1])}


def check_hashes(folder: Path, expected: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise StapoError for a file that has changed since the folder was written."""
    for name, sha256 in expected.items():
        if found.get(name) != sha256:
            raise StapoError(
                f"{folder / name}: expected sha256 {sha256[:12]}, as when it was written, got "
                f"{found.get(name, 'no such file')[:12]}; the file is damaged or another one: restore it"
            )


def _digest(hashes: Mapping[str, str]) -> str:
    """sha256 over the sorted lines "<name> <sha256 of content>"."""
    lines = sorted(f"{name} {sha256}\n" for name, sha256 in hashes.items())
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()  # names need not be UTF-8
