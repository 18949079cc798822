"""A task file as checked values: safe YAML, the files it includes underneath, every value of its key's type."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from stapo_bench.errors import StapoError, did_you_mean
from stapo_bench.tasks.foreign_files import BoundedLoader, read_foreign_yaml
from stapo_bench.tasks.resources import resource_dir

_KINDS: Mapping[str, type] = {
    "task": str, "include": str, "dataset_path": str, "dataset_name": str, "test_split": str, "repeats": int,
    "doc_to_text": str, "metadata": dict, "num_fewshot": int, "fewshot_config": dict, "gen_prefix": str,
}  # fmt: skip
_METADATA_KINDS: Mapping[str, type] = {
    "num_problems": int, "title": str, "version": int, "suite": str, "revision": str, "columns": dict,
    "generator": dict, "digest": str, "prompt_format": str, "integer_answers": bool, "answer_type": str,
    "licence": str, "notes": str, "system": str, "chat_template_kwargs": dict, "tool": str,
}  # fmt: skip
_OF_LM_EVAL = (  # its TaskConfig's other fields, of which nothing is read here
    "task_alias", "tag", "custom_dataset", "dataset_kwargs", "training_split", "validation_split", "fewshot_split",
    "process_docs", "doc_to_target", "doc_to_image", "doc_to_audio", "unsafe_code", "doc_to_choice", "process_results",
    "use_prompt", "description", "target_delimiter", "fewshot_delimiter", "metric_list", "output_type",
    "generation_kwargs", "filter_list", "should_decontaminate", "doc_to_decontamination_query",
)  # fmt: skip
_NEEDED = ("task", "repeats", "doc_to_text", "num_problems", "metadata")
_DEEPEST = 8  # files that include one another


class _Loader(BoundedLoader):
    """Bounded YAML plus lm-eval's ``!function`` tag, which stays the text that it is."""


def _function_tag(loader: yaml.SafeLoader, node: yaml.Node) -> str:
    """The text behind ``!function``."""
    if not isinstance(node, yaml.ScalarNode):
        raise yaml.YAMLError("!function expects a name")
    return str(loader.construct_scalar(node))


_Loader.add_constructor("!function", _function_tag)


def read_yaml(path: Path, depth: int = 0) -> dict[str, Any]:
    """One task file with the files it includes underneath (its own keys win, ``metadata`` is merged key by key).

    What it includes lies beside it, or else beside our task files, so that ``_defaults`` is found from any folder.
    """
    loaded = read_foreign_yaml(path, _Loader)
    if not isinstance(loaded, dict):
        raise StapoError(f"{path}: expected a mapping of task keys, got {type(loaded).__name__}")
    _check_kinds(path, loaded)
    include = loaded.pop("include", None)
    if include is None:
        return loaded
    if depth == _DEEPEST:
        raise StapoError(f"{path}: expected at most {_DEEPEST} files that include one another")
    places = (path.parent / include, resource_dir("tasks") / include)
    base = read_yaml(next((place for place in places if place.is_file()), places[0]), depth + 1)
    metadata = {**base.get("metadata", {}), **loaded.get("metadata", {})}
    return {**base, **loaded, "metadata": metadata}


def _check_kinds(path: Path, raw: Mapping[str, Any]) -> None:
    """Refuse values of another type than their key's, and keys that neither we nor lm-eval have."""
    metadata = raw.get("metadata", {})
    for section, kinds, prefix in ((raw, _KINDS, ""), (metadata, _METADATA_KINDS, "metadata.")):
        for key, kind in kinds.items() if isinstance(section, dict) else ():
            value = section.get(key)
            if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
                raise StapoError(f"{path}: {prefix}{key}: expected {kind.__name__}, got {type(value).__name__}")
            if value is None and key in section and key in _NEEDED:
                raise StapoError(f"{path}: {prefix}{key}: expected {kind.__name__}, got nothing")
        known = [*kinds, *([] if prefix else _OF_LM_EVAL)]
        for key in section if isinstance(section, dict) else ():
            if key not in known:
                name = " ".join(str(key).split())[:60]
                hint = did_you_mean(name, known) or f"expected one of {', '.join(kinds)}"
                raise StapoError(f"{path}: {prefix}{name}: no such key; {hint}")
    for key, value in (metadata.get("columns") or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise StapoError(f"{path}: metadata.columns: expected the names of columns, got {key!r}: {value!r}")
