"""What tasks/README.md shows is what happens, and it names every key that a task file uses."""

import json
import re
import subprocess
import sys
from typing import Any

import yaml

from stapo_bench.engines.decoding import preset
from stapo_bench.tasks.content import ContentDigest, content_digest
from stapo_bench.tasks.loading import load_problems, load_task
from stapo_bench.tasks.resources import resource_dir
from stapo_bench.tasks.task_file import _KINDS, _METADATA_KINDS

TASKS = resource_dir("tasks")
README = (TASKS / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return found


def test_the_example_of_an_own_task_works_as_shown(tmp_path):
    (tmp_path / "sums.yaml").write_text(block("yaml"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sums.jsonl").write_text(block("json"))
    task = load_task(str(tmp_path / "sums.yaml"))
    assert (task.name, task.title, task.suite, task.num_samples) == ("sums", "Sums", "mine", 8)
    problems = load_problems(task, tmp_path / "data")
    assert [(p.problem_id, p.gold.answer) for p in problems] == [("sums-1", "2"), ("sums-2", "4")]
    ended = subprocess.run(
        [sys.executable, "-c", block("python")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    contents = [ContentDigest.of("What is 1 + 1?", "2"), ContentDigest.of("What is 2 + 2?", "4")]
    assert ended.stdout.strip() == content_digest(contents)


def contents() -> list[dict[str, Any]]:
    """Every task file, and the files they include, as lm-eval reads them."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("!", lambda loader, suffix, node: suffix)
    files = [file for file in TASKS.rglob("*") if file.suffix == ".yaml" or file.name == "_defaults"]
    return [
        yaml.load(file.read_text(encoding="utf-8"), Loader) for file in files if file.stem not in ("errata", "decoding")
    ]


def test_decoding_under_lm_eval_is_the_justrl_regime_with_everything_else_off():
    params = preset("justrl")
    expected = {"until": [], "do_sample": True, "temperature": params.temperature, "top_p": params.top_p}
    expected |= {"top_k": 0, "repetition_penalty": 1.0}
    stated = [content["generation_kwargs"] for content in contents() if "generation_kwargs" in content]
    assert sorted(settings.pop("max_gen_toks") for settings in stated) == [96, params.max_new_tokens]
    assert all(settings == expected for settings in stated)


def test_every_key_of_the_task_files_is_explained():
    # lm-eval's own vocabulary, the same in every file, and the generator of the tiny suite
    plumbing = {"output_type", "custom_dataset", "doc_to_target", "process_results", "filter_list", "metric_list"}
    used: set[str] = set()
    for content in contents():
        used |= set(content) | set(content.get("metadata", {}))
    assert len(used) > 20
    explained = set(re.findall(r"[a-z_]+", README))
    assert used - plumbing - explained == set()


JSON_TYPES = {str: "string", int: "integer", bool: "boolean", dict: "object"}


def test_the_schema_for_editors_has_the_keys_and_types_that_are_checked():
    keys = json.loads((TASKS / "task.schema.json").read_text(encoding="utf-8"))["properties"]
    metadata = keys["metadata"]["properties"]
    for properties, kinds in ((keys, _KINDS), (metadata, _METADATA_KINDS)):
        assert {key: value["type"] for key, value in properties.items()} == {k: JSON_TYPES[t] for k, t in kinds.items()}
        assert all(value["description"].endswith(".") for value in properties.values())


def test_the_task_files_fit_the_schema():
    keys = json.loads((TASKS / "task.schema.json").read_text(encoding="utf-8"))["properties"]
    formats = keys["metadata"]["properties"]["prompt_format"]["enum"]
    stated = [content["metadata"]["prompt_format"] for content in contents() if "prompt_format" in content["metadata"]]
    assert stated and set(stated) <= set(formats)
    for content in contents():
        for properties, values in ((keys, content), (keys["metadata"]["properties"], content.get("metadata", {}))):
            for key in properties.keys() & values.keys():
                assert JSON_TYPES[type(values[key])] == properties[key]["type"], (content.get("task"), key)
