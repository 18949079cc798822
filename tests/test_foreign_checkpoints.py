"""Checkpoint folders of strangers: whatever is in them, one clear line; what they name elsewhere is not asked."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from stapo_bench import cli
from stapo_bench.engines.foreign_checkpoint import cleaned, load_config, load_tokenizer
from stapo_bench.engines.transformers import load_checkpoint
from stapo_bench.errors import StapoError


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    from stapo_train.tiny.random_model import random_model, save

    return save(random_model(), tmp_path_factory.mktemp("good") / "model")


@pytest.fixture
def folder(good, tmp_path, monkeypatch) -> Path:
    """A checkpoint to be damaged, and a task of one problem."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STAPO_BENCH_DATA", raising=False)
    task = {"task": "sums", "repeats": 1, "doc_to_text": "{{problem}}", "metadata": {"num_problems": 1}}
    (tmp_path / "sums.yaml").write_text(json.dumps(task))
    (tmp_path / "sums.jsonl").write_text('{"problem": "1+1", "answer": "2"}\n')
    return Path(shutil.copytree(good, tmp_path / "model"))


@pytest.fixture
def evaluate(capsys, monkeypatch):
    def run(folder: Path) -> tuple[int, str]:
        options = ["--decoding", "training", "--tasks", "sums.yaml", "--data-dir", ".", "--max-new-tokens", "2"]
        arguments = ["eval", "--engine", "transformers", "--ckpt", str(folder), *options, "--out", "run"]
        monkeypatch.setattr(sys, "argv", ["stapo-bench", *arguments])
        try:
            cli.main()
        except SystemExit as stop:
            return int(stop.code or 0), capsys.readouterr().err
        return 0, capsys.readouterr().err

    return run


def with_values(name: str, **values):
    """An edit of a JSON file in the folder."""

    def edit(folder: Path) -> None:
        path = folder / name
        raw = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(raw | values))

    return edit


def holding(name: str, content: str | bytes):
    """A file of that content."""
    return lambda folder: (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def pipe(name: str):
    def edit(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return edit


def device(name: str):
    def edit(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("/dev/zero")

    return edit


def index(files):
    def edit(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "part.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))

    return edit


def not_numbers(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"][:] = torch.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


DEEP = "[" * 100_000
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
CASES = {
    **{f"{name} is {text[:9]!r}": holding(name, text)
       for name in ("config.json", "tokenizer_config.json", "generation_config.json", "stapo.json")
       for text in (DEEP, "[]", "{", '{"a": NaN}', '"x"', b"\xff")
       if not (name == "stapo.json" and "NaN" in str(text))},
    **{f"tokenizer.json is {text[:9]!r}": holding("tokenizer.json", text) for text in (DEEP, "[]", "{", "{}", b"\xff")},
    **{f"{name} is a pipe": pipe(name) for name in ("config.json", "tokenizer.json", "x.txt")},
    **{f"{name} is a device": device(name) for name in ("config.json", "tokenizer.json", "model.safetensors")},
    **{f"config: {values}"[:70]: with_values("config.json", **values) for values in (
        {"model_type": 3}, {"model_type": "nothing"}, {"model_type": ["qwen3"]}, {"hidden_size": "x"},
        {"hidden_size": 10**12}, {"num_hidden_layers": 10**6}, {"num_hidden_layers": -1}, {"num_attention_heads": 0},
        {"head_dim": 10**10}, {"vocab_size": None}, {"rms_norm_eps": "x"}, {"rope_parameters": 3},
        {"max_position_embeddings": "x"}, {"layer_types": ["full_attention"] * 99}, {"eos_token_id": "x"},
        {"quantization_config": {"quant_method": "x"}}, {"dtype": "float7"}, {"text_config": 3},
        {"hidden_act": "nothing"}, {"tie_word_embeddings": "x"},
    )},
    **{f"tokenizer: {values}"[:70]: with_values("tokenizer_config.json", **values) for values in (
        {"tokenizer_class": 3}, {"auto_map": 3}, {"auto_map": {"AutoTokenizer": ["a/b--x.Y", None]}},
        {"chat_template": 3}, {"chat_template": LOOP},
        {"chat_template": "{{ messages[0].content.center(4000000000) }}"},
        {"chat_template": "{{ raise_exception('no\nline') }}"}, {"chat_template": "{{"},
        {"chat_template": "{{ messages.__class__.__mro__ }}"}, {"eos_token": 3}, {"added_tokens_decoder": {"x": 3}},
        {"extra_special_tokens": 3}, {"model_max_length": "x"}, {"model_max_length": 10**4000},
        {"chat_template": [3]}, {"chat_template": [{"name": "default"}]}, {"chat_template": {"default": 3}},
        {"chat_template": [{"name": "default", "template": LOOP}]}, {"chat_template": [{"name": "x", "template": "x"}]},
        {"chat_template": [{"name": ["x"], "template": "x"}]}, {"chat_template": "x" * 4_000_000},
        {"added_tokens_decoder": {"99999999999": {"content": "x"}}}, {"added_tokens_decoder": {"-1": {"content": "x"}}},
        {"added_tokens_decoder": [3]}, {"extra_special_tokens": ["x" * 10**6]}, {"extra_special_tokens": {"a": 3}},
        {"extra_special_tokens": [f"<{i}>" for i in range(40_000)]}, {"init_inputs": [3]}, {"padding_side": 3},
        {"tokenizer_file": "/dev/zero"}, {"vocab_file": "/dev/zero"}, {"gguf_file": "/dev/zero"},
        {"fast_tokenizer_files": ["../tokenizer.0.json"]}, {"fast_tokenizer_files": 3}, {"tokenizer_object": 3},
        {"post_processor": 3}, {"tokenizer_truncation": {"max_length": -1}}, {"backend": "custom"}, {"vocab": 3},
        {"cls_token": {"__type": "AddedToken", "content": 3}}, {"name_or_path": 3}, {"from_slow": True},
        {"local_files_only": False}, {"is_local": False}, {"tokenizer_class": "os.system"}, {"processor_class": "x"},
    )},
    "config: nested": holding("config.json", '{"a": ' * 900 + "1" + "}" * 900),
    "tokenizer: nested": holding("tokenizer_config.json", '{"a": ' * 900 + "1" + "}" * 900),
    "stapo.json: method": holding("stapo.json", '{"method": ["a"]}'),
    "stapo.json: step": holding("stapo.json", '{"step": 1.5}'),
    "stapo.json: sha256": holding("stapo.json", '{"sha256": {"model.safetensors": 3}}'),
    "generation: eos": with_values("generation_config.json", eos_token_id={"a": 1}),
    "generation: text": with_values("generation_config.json", eos_token_id="x"),
    "weights: damage": holding("model.safetensors", b"\xff" * 100),
    "weights: empty": holding("model.safetensors", b""),
    "weights: deep header": holding("model.safetensors", len(DEEP).to_bytes(8, "little") + DEEP.encode()),
    "weights: NaN": not_numbers,
    "index: elsewhere": index({"lm_head.weight": "../part.safetensors"}),
    "index: absolute": index({"lm_head.weight": "/etc/passwd"}),
    "index: missing": index({"lm_head.weight": "none.safetensors"}),
    "index: number": index({"lm_head.weight": 3}),
    "index: list": index([1]),
    "index: deep": lambda folder: (index({})(folder), holding("model.safetensors.index.json", DEEP)(folder)),
}  # fmt: skip
HARMLESS = {"config: {'text_config': 3}", "config: {'tie_word_embeddings': 'x'}", "config: {'eos_token_id': 'x'}"}


TELLING = ("tokenizer_class", "auto_map", "tokenizer_file", "chat_template': 'x")  # code, files, memory
LOADED = pytest.mark.slow(reason="a tokenizer is loaded, and most often a model, for each")


def marks(case: str) -> tuple[pytest.MarkDecorator, ...]:
    return (LOADED,) if case.startswith("tokenizer: ") and not any(each in case for each in TELLING) else ()


@pytest.mark.parametrize("case", [pytest.param(case, marks=marks(case)) for case in CASES])
def test_a_hostile_checkpoint_is_one_clear_line(folder, evaluate, monkeypatch, case):
    monkeypatch.setattr("stapo_bench.tasks.prompts.CPU_S", 0.5)
    CASES[case](folder)
    code, err = evaluate(folder)
    lines = [line for line in err.splitlines() if line.startswith("stapo-bench: ")]
    assert "Traceback" not in err
    assert "stapo-bench: unexpected " not in err
    assert (code, len(lines)) in ((1, 1), (0, 0)), err
    assert len(err.splitlines()[-1]) < 700
    if code == 0:
        print("harmless:", case)


def test_what_names_code_elsewhere_is_left_out(folder):
    expected = load_checkpoint(folder, device="cpu")[0].state_dict()
    hostile = {
        "_attn_implementation": "owner/repository",
        "attn_implementation": "owner/repository",
        "_attn_implementation_internal": "owner/repository",
        "_experts_implementation": "owner/repository",
        "auto_map": {"AutoConfig": "owner/repository--x.Config", "AutoModelForCausalLM": "owner/repository--x.Model"},
        "configuration_files": ["config.0.0.1.json"],
        "transformers_weights": "../other.safetensors",
        "name_or_path": "owner/repository",
        "_name_or_path": "owner/repository",
    }
    with_values("config.json", **hostile)(folder)
    config = load_config(folder)
    assert "owner/repository" not in str(config.to_dict()) + str(vars(config))
    model, tokenizer = load_checkpoint(folder, device="cpu")
    assert model.config._attn_implementation == "sdpa"
    assert tokenizer.decode(tokenizer("1+1")["input_ids"]) == "1+1"
    found = model.state_dict()
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_tokenizer_s_settings_name_no_file_elsewhere(folder, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    expected = load_checkpoint(folder, device="cpu")[1]
    other = json.loads((folder / "tokenizer.json").read_text())
    other["model"] |= {"vocab": {"x": 0}, "merges": []}
    (tmp_path / "tokenizer.1.0.0.json").write_text(json.dumps(other))
    hostile = {
        "auto_map": {"AutoTokenizer": ["owner/repository--x.Slow", "owner/repository--x.Fast"]},
        "fast_tokenizer_files": ["../tokenizer.1.0.0.json"],
        "tokenizer_file": str(tmp_path / "tokenizer.1.0.0.json"),
        "name_or_path": "owner/repository",
    }
    with_values("tokenizer_config.json", **hostile)(folder)
    found = load_tokenizer(folder)
    assert found("1+1")["input_ids"] == expected("1+1")["input_ids"]
    assert found.name_or_path == str(folder)
    for tokenizer, name in ((expected, "expected"), (found, "found")):
        tokenizer.save_pretrained(tmp_path / name)
    contents = [{p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("expected", "found")]
    assert contents[0] == contents[1]
    assert list(temporary.iterdir()) == []


def test_a_folder_without_such_settings_is_read_as_it_is(folder):
    with cleaned(folder) as clean:
        assert clean == folder


def test_the_hub_is_not_asked(folder, monkeypatch):
    import socket

    def asked(*address: object) -> None:
        raise AssertionError(f"a connection to {address}")

    monkeypatch.setattr(socket, "create_connection", asked)
    monkeypatch.setattr(socket, "getaddrinfo", asked)
    with_values("config.json", _attn_implementation="owner/repository")(folder)
    with_values("tokenizer_config.json", tokenizer_class="NothingTokenizer", name_or_path="owner/mistral")(folder)
    load_checkpoint(folder, device="cpu")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(StapoError, match=r"its tokenizer cannot be read|has no tokenizer"):
        load_checkpoint(folder, device="cpu")


def test_names_that_are_no_utf8_are_files_like_any_other(folder, evaluate):
    (folder / "\udcff.json").write_text("{}")
    (folder / "\udcff.txt").write_text("x")
    code, err = evaluate(folder)
    assert code == 0, err
    moved = folder.rename(folder.parent / "mod\udcffel")
    code, err = evaluate(moved)
    assert code == 1 and err.startswith("stapo-bench: ") and err.count("\n") == 1
    assert r"mod\udcffel: expected a path in UTF-8, which its libraries can open; rename it" in err
