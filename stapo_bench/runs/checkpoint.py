"""What a checkpoint folder is: the digest of everything in it that decides a sample, and the labels of a table row.

>>> read_checkpoint(Path("runs/none"))
Traceback (most recent call last):
stapo_bench.errors.StapoError: no such checkpoint: runs/none; expected a Hugging Face folder (config.json and weights)
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.runs.files import open_to_read

_WEIGHTS = re.compile(r".*\.safetensors|pytorch_model.*\.bin")
_PARTS = re.compile(r".*\.(json|jinja|model|tiktoken|txt)")  # config, tokenizer, generation defaults, chat template
_NOT_PARTS = {"stapo.json", "trainer_state.json"}  # say how the weights were made; no sample depends on them
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


def read_checkpoint(path: Path) -> Checkpoint:
    """Check and digest a Hugging Face folder.

    A single file is a scripted engine's script: the engine's own identity says what in it decides a sample.

    Raises:
        StapoError: nothing there, or not a checkpoint.
    """
    if path.is_file():
        return Checkpoint(path=path, digest="script", method=path.stem, model=None)
    if not path.is_dir():
        raise StapoError(f"no such checkpoint: {path}; expected a Hugging Face folder (config.json and weights)")
    files = sorted(file for file in path.iterdir() if file.is_file())
    weights = [file for file in files if _WEIGHTS.fullmatch(file.name)]
    if not weights or not (path / "config.json").is_file():
        missing = "config.json" if weights else "*.safetensors or pytorch_model*.bin"
        raise StapoError(
            f"not a checkpoint: {path}: expected a Hugging Face folder (config.json and weights), found no {missing}"
        )
    parts = [file for file in files if _PARTS.fullmatch(file.name) and file.name not in _NOT_PARTS]
    labels = _labels(path / "stapo.json")
    hashes = file_hashes([*weights, *parts])
    check_hashes(path, labels.get("sha256", {}), hashes)
    return Checkpoint(
        path=path,
        digest=_digest(hashes),
        method=str(labels.get("method", folder_label(path))),
        model=labels.get("base"),
        step=labels.get("step"),
        training=labels.get("training"),
    )


def expand(pattern: Path) -> list[Path]:
    """The checkpoints that a pattern names, steps in the order of their numbers, final last; a plain path is itself."""
    if not any(sign in str(pattern) for sign in "*?["):
        return [pattern]
    root = Path(pattern.anchor or ".")
    found = [path for path in root.glob(str(pattern.relative_to(pattern.anchor))) if (path / "config.json").is_file()]
    if not found:
        raise StapoError(f"no checkpoint matches {pattern}; expected Hugging Face folders (config.json and weights)")
    return sorted(found, key=_natural)


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
    """
    path = path.resolve() if not path.name else path
    if not _STEP.fullmatch(path.name):
        return path.stem if path.suffix in (".yaml", ".yml") else path.name
    parents = [name for name in path.absolute().parent.parts if name not in ("/", "checkpoints")]
    return "-".join([*parents[-1:], path.name])


def _labels(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        labels = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StapoError(f"{path}: expected a JSON object with method and base, got damage: {error}") from None
    if not isinstance(labels, dict):
        raise StapoError(f"{path}: expected a JSON object with method and base, got {type(labels).__name__}")
    return labels


def file_hashes(files: Sequence[Path]) -> dict[str, str]:
    """sha256 of files of one folder by their names; they are read in parallel."""
    with ThreadPoolExecutor(max_workers=4) as pool:  # hashing releases the interpreter's lock
        return dict(zip([file.name for file in files], pool.map(_file_sha256, files), strict=True))


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
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_to_read(path) as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
