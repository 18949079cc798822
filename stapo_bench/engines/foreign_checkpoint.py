"""Checkpoint folders of strangers: looked at, bounded and cleaned before transformers sees them.

``trust_remote_code=False`` keeps transformers from running Python files of the folder. It does not keep ``config.json``
from naming code elsewhere: ``_attn_implementation: owner/repository`` is a kernel that is downloaded and run. Such
settings decide nothing here (the engine chooses its attention itself) and are left out; the hub is not asked at all.
"""

import json
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.tasks import read_foreign_text

_REACHES_OUT = re.compile(
    r"_?(attn|experts)_implementation\w*|auto_map|custom_(generate|pipelines|objects)|configuration_files"
    r"|transformers_weights|_?name_or_path|_commit_hash|use_kernels?|kernel_config|trust_remote_code"
)
"""Settings that name code, files or repositories elsewhere."""
_COUNTS = re.compile(r"num_\w+|n_layers?|n_heads?|n_\w*experts")
_MOST = 10_000  # layers, heads, experts
_LARGEST = 1 << 27  # of any other size: positions, words of a vocabulary
_INDEX = "model.safetensors.index.json"
_MOST_BYTES: Mapping[str, int] = {"tokenizer.json": 1 << 28, "vocab.json": 1 << 26, _INDEX: 1 << 26}
_OBJECTS = ("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", _INDEX)
_LOCAL: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def check_folder(folder: Path) -> None:
    """Look at what a checkpoint folder holds, before any library reads it.

    Raises:
        StapoError: special files, JSON that is damaged, too large or of another type, weights outside the folder.
    """
    try:
        str(folder).encode("utf-8")
    except UnicodeEncodeError:
        raise StapoError(f"{folder}: expected a path in UTF-8, which its libraries can open; rename it") from None
    for entry in sorted(folder.iterdir()):
        try:
            mode = entry.stat().st_mode
        except OSError:  # a link to nothing: there is no such file
            continue
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise StapoError(f"{entry}: expected a file of the checkpoint, got a pipe or device; remove it")
        if entry.suffix in (".json", ".jinja") and stat.S_ISREG(mode):
            text = read_foreign_text(entry, _MOST_BYTES.get(entry.name, 1 << 23))
            if entry.name in _OBJECTS:
                _object(entry, text)
    if (folder / _INDEX).is_file():
        _check_index(folder)


def _object(path: Path, text: str) -> dict[str, Any]:
    """The JSON object in a file's text."""
    try:
        found = json.loads(text, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise StapoError(f"{path}: expected a JSON object, got damage: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(found, dict):
        raise StapoError(f"{path}: expected a JSON object, got {type(found).__name__}")
    return found


def _constant(name: str) -> float:
    """Infinity, which some models' configs hold; NaN is no setting of anything."""
    if name == "NaN":
        raise ValueError("NaN is no value in JSON")
    return float(name)


def _check_index(folder: Path) -> None:
    path = folder / _INDEX
    files = _object(path, read_foreign_text(path, _MOST_BYTES[_INDEX])).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise StapoError(f"{path}: expected weight_map with a file for each weight")
    for name in sorted(set(files.values())):
        if Path(name).name != name or not (folder / name).is_file():
            raise StapoError(f"{path}: expected the weights' files in the checkpoint's own folder, got {name!r}")


def load_config(folder: Path) -> Any:
    """transformers' configuration of a checkpoint, from its ``config.json`` without what reaches out of the folder.

    Raises:
        StapoError: it cannot be read, or asks for a model of absurd size.
    """
    import transformers

    path = folder / "config.json"
    raw = _object(path, read_foreign_text(path, 1 << 23))
    _check_sizes(path, raw)
    with loading(folder), tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(_cleaned(raw), file)
        file.flush()
        config = transformers.AutoConfig.from_pretrained(file.name, **_LOCAL)
        config.name_or_path = str(folder)
    return config


def _check_sizes(path: Path, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict):
            _check_sizes(path, value)
        most = _MOST if _COUNTS.fullmatch(name) else _LARGEST
        if isinstance(value, int) and abs(value) > most and "theta" not in name:
            raise StapoError(f"{path}: expected {name} of at most {most}, got {str(value)[:40]}")


def _cleaned(value: Any) -> Any:
    """The settings without those that reach out, at any depth."""
    if isinstance(value, dict):
        return {name: _cleaned(inner) for name, inner in value.items() if not _REACHES_OUT.fullmatch(name)}
    return [_cleaned(inner) for inner in value] if isinstance(value, list) else value


def load_tokenizer(folder: Path) -> Any:
    """The checkpoint's tokenizer; errors as for ``check_folder``, or it cannot be read."""
    import transformers

    check_folder(folder)
    config = load_config(folder)
    with loading(folder, "its tokenizer cannot be read"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, config=config, **_LOCAL)
        tokenizer("1")  # settings of another type are met only here
    return tokenizer


@contextmanager
def loading(folder: Path, what: str = "cannot be loaded as a checkpoint") -> Iterator[None]:
    """Have libraries load a checkpoint without the hub. Whatever they raise meanwhile is said of the folder: they
    check little of what they read, and fail in all ways there are.
    """
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    except (StapoError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of libraries in Rust
            raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise StapoError(f"{folder}: {what}: {reason}") from error
    finally:
        constants.HF_HUB_OFFLINE = before
