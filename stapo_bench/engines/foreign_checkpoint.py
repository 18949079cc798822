"""Checkpoint folders of strangers: looked at, bounded and cleaned before transformers or vLLM see them.

``trust_remote_code=False`` keeps transformers from running Python files of the folder. It does not keep ``config.json``
from naming code elsewhere: ``_attn_implementation: owner/repository`` is a kernel that is downloaded and run. Nor does
it keep ``tokenizer_config.json`` from naming files elsewhere. Such settings decide nothing here (the engine chooses its
attention itself, and a tokenizer's files are those of the folder) and are left out; the hub is not asked at all.
"""

import json
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.tasks import read_foreign_object, read_foreign_text

_REACHES_OUT = re.compile(
    r"_?(attn|experts)_implementation\w*|auto_map|custom_(generate|pipelines|objects)|configuration_files"
    r"|transformers_weights|_?name_or_path|_commit_hash|use_kernels?|kernel_config|trust_remote_code"
)
"""Settings that name code, files or repositories elsewhere."""
_OF_TOKENIZERS = re.compile(_REACHES_OUT.pattern + r"|\w+_files?|tokenizer_object|init_inputs|is_local|local_\w+")
_MOST_TOKENS = 1 << 15  # in a list of settings; libraries compare each with all others
_COUNTS = re.compile(r"num_\w+|n_layers?|n_heads?|n_\w*experts")
_MOST = 10_000  # layers, heads, experts
_LARGEST = 1 << 27  # of any other size: positions, words of a vocabulary
_INDEX = "model.safetensors.index.json"
_MOST_SETTINGS = 1 << 23  # bytes
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
            read = read_foreign_object if entry.name in _OBJECTS else read_foreign_text
            read(entry, _MOST_BYTES.get(entry.name, _MOST_SETTINGS))
    if (folder / _INDEX).is_file():
        _check_index(folder)


def check_parts(folder: Path) -> None:
    """Refuse a folder without the files that transformers loads a model from, by their names.

    Raises:
        StapoError: no folder, no configuration, no weights as safetensors, or no tokenizer.
    """
    if not folder.is_dir():
        raise StapoError(f"{folder}: expected a checkpoint folder, found none; give the path of a Hugging Face folder")
    names = sorted(entry.name for entry in folder.iterdir())
    if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
        found = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "") if names else "an empty folder"
        raise StapoError(f"{folder}: expected config.json and *.safetensors in a checkpoint folder, found {found}")
    if not any(name.startswith("tokenizer") for name in names):
        raise StapoError(f"{folder}: the checkpoint has no tokenizer; save it beside the weights (tokenizer.json)")


def _check_index(folder: Path) -> None:
    path = folder / _INDEX
    files = read_foreign_object(path, _MOST_BYTES[_INDEX]).get("weight_map")
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

    with cleaned(folder) as clean, loading(folder):
        config = transformers.AutoConfig.from_pretrained(clean, **_LOCAL)
        config.name_or_path = str(folder)
    return config


@contextmanager
def cleaned(folder: Path) -> Iterator[Path]:
    """A checkpoint folder as libraries may read it: itself, or where its settings reach out of it, links to its files
    beside settings that do not.

    Raises:
        StapoError: settings that cannot be read, or of absurd size.
    """
    changed = {}
    for name, (reaches_out, check) in _SETTINGS.items():
        if (folder / name).is_file():
            raw = read_foreign_object(folder / name, _MOST_SETTINGS)
            try:
                check(folder / name, raw)
                without = _without(raw, reaches_out)
            except RecursionError:
                raise StapoError(f"{folder / name}: expected settings, got values within values without end") from None
            if without != raw:
                changed[name] = json.dumps(without)
    if not changed:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as made:
        for entry in folder.iterdir():
            if entry.name not in changed:
                (Path(made) / entry.name).symlink_to(entry.resolve())
        for name, text in changed.items():
            (Path(made) / name).write_text(text, encoding="utf-8")
        yield Path(made)


def _check_sizes(path: Path, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict):
            _check_sizes(path, value)
        most = _MOST if _COUNTS.fullmatch(name) else _LARGEST
        if isinstance(value, int) and abs(value) > most and "theta" not in name:
            raise StapoError(f"{path}: expected {name} of at most {most}, got {str(value)[:40]}")


def _check_tokens(path: Path, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, list | dict) and len(value) > _MOST_TOKENS:
            raise StapoError(f"{path}: expected at most {_MOST_TOKENS} tokens in {name}, got {len(value)}")


_SETTINGS: Mapping[str, tuple[re.Pattern[str], Callable[[Path, Mapping[str, Any]], None]]] = {
    "config.json": (_REACHES_OUT, _check_sizes),
    "tokenizer_config.json": (_OF_TOKENIZERS, _check_tokens),
    "special_tokens_map.json": (_OF_TOKENIZERS, _check_tokens),
}
"""Files of settings that libraries read: what in them reaches out of the folder, and what looks at their sizes."""


def _without(value: Any, names: re.Pattern[str]) -> Any:
    """The settings without those of such names, at any depth."""
    if isinstance(value, dict):
        return {name: _without(inner, names) for name, inner in value.items() if not names.fullmatch(name)}
    return [_without(inner, names) for inner in value] if isinstance(value, list) else value


def load_tokenizer(folder: Path) -> Any:
    """The checkpoint's tokenizer; errors as for ``check_folder``, or it cannot be read."""
    import transformers

    check_folder(folder)
    config = load_config(folder)
    with cleaned(folder) as clean, loading(folder, "its tokenizer cannot be read"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(clean, config=config, **_LOCAL)
        tokenizer.name_or_path = tokenizer.init_kwargs["name_or_path"] = str(folder)
        tokenizer("1")  # settings of another type are met only here
    return tokenizer


@contextmanager
def loading(folder: Path, what: str = "cannot be loaded as a checkpoint") -> Iterator[None]:
    """Have libraries load a checkpoint without the hub. Whatever they raise meanwhile is said of the folder: they
    check little of what they read, and fail in all ways there are.
    """
    try:
        with offline():
            yield
    except (StapoError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of libraries in Rust
            raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise StapoError(f"{folder}: {what}: {reason}") from error


@contextmanager
def offline() -> Iterator[None]:
    """Within it the hub is not asked."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
